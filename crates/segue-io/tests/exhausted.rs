//! Accepts and connects while there is no descriptor left. Alone in its process, whose limit it
//! lowers.
#![cfg(target_os = "linux")]

mod common;

use common::everywhere;
use segue_core::{Either, after};
use segue_io::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Takes all descriptors but so many.
fn take_all_but(left: usize, any: impl AsFd) -> Vec<OwnedFd> {
    let mut taken = Vec::new();
    while let Ok(fd) = any.as_fd().try_clone_to_owned() {
        taken.push(fd);
    }
    taken.truncate(taken.len() - left);
    taken
}

fn is_lack(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMFILE)
}

#[test]
fn a_connection_waits_in_the_queue_until_a_descriptor_is_free() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = Rlimit { current: Some(256), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        // It has a driver before there is no descriptor for one.
        assert!(matches!(after(Duration::from_millis(1)).or(listener.accept_source()).wait(), Ok(Either::Left(()))));
        let mut taken = take_all_but(1, &listener);
        let mut client = TcpStream::connect(addr).unwrap();
        // A thread that has just begun may have had one for a moment, to count the processors.
        taken.extend(take_all_but(0, &listener));
        // At once each time, and nothing is lost.
        for _ in 0..3 {
            assert!(is_lack(&listener.accept().unwrap_err()));
            assert!(is_lack(&listener.try_accept().unwrap_err()));
            assert!(is_lack(&listener.accept_source().wait().unwrap().unwrap_err()));
            assert!(is_lack(&TcpStream::connect(addr).unwrap_err()));
            assert!(is_lack(&TcpStream::connect([addr, SocketAddr::from(([127, 0, 0, 1], 1))]).unwrap_err()));
            assert!(is_lack(&UnixStream::pair().unwrap_err()));
            assert!(is_lack(&UnixListener::bind("/nowhere").unwrap_err()));
        }
        drop(taken);
        listener.accept().unwrap().0.write_all(b"x").unwrap();
        assert_eq!(client.read(&mut [0; 4]).unwrap(), 1);
    });
}
