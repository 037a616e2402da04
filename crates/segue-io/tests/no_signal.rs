//! A write to a connection that has gone is an error and no signal, also in a program that lets
//! SIGPIPE end it. Alone in its process.
#![allow(unsafe_code, reason = "std ignores the signal; to test anything, that must be undone")]

mod common;

use common::{BACKENDS, on_one_worker, pair};
use segue_io::fs::File;
use std::io::{ErrorKind, IoSlice, Read, Write};

#[test]
fn a_write_to_nobody_raises_no_signal() {
    // SAFETY: the default action is no code of this program.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    for backend in BACKENDS {
        on_one_worker(backend, || {
            let (mut client, server) = pair();
            drop(server);
            assert_eq!(client.read(&mut [0]).unwrap(), 0);
            // The first is answered with a reset.
            client.write_all(b"x").unwrap();
            let error = client.write(b"x").unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{error}");
            let slices = [IoSlice::new(b"x"), IoSlice::new(b"y")];
            assert_eq!(client.write_vectored(&slices).unwrap_err().kind(), ErrorKind::BrokenPipe);
            assert_eq!(client.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
            let file = File::open("Cargo.toml").unwrap();
            assert_eq!(file.send_to(&client, 0, 10).unwrap_err().kind(), ErrorKind::BrokenPipe);
        });
    }
}
