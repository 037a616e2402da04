//! Segue's own streams, pipes, files and sleeps, used inside of the scope: they wait by themselves,
//! and never in a call that is defined here.

mod common;

use common::{beside, everywhere, unblock};
use segue_core::{scope, sleep};
use segue_io::net::{TcpListener, TcpStream, UdpSocket};
use segue_io::{fs, pipe};
use std::io::{Read, Write, copy};
use std::time::Duration;

#[test]
fn streams_of_segue_never_wait_in_a_defined_call() {
    everywhere(|| {
        let before = segue_unblock::waits();
        let listener = unblock(|| TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        scope(|s| {
            s.spawn(|| {
                unblock(|| {
                    let (stream, _) = listener.accept().unwrap();
                    copy(&mut &stream, &mut &stream).unwrap();
                });
            });
            s.spawn(move || {
                unblock(|| {
                    // A name, too.
                    let mut stream = TcpStream::connect(("localhost", address.port())).unwrap();
                    for _ in 0..100 {
                        stream.write_all(&[1; 1_000]).unwrap();
                        stream.read_exact(&mut [0; 1_000]).unwrap();
                        sleep(Duration::from_micros(10)).unwrap();
                    }
                    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
                    stream.read(&mut [0]).unwrap_err();
                });
            });
            let (mut reader, mut writer) = pipe::pipe().unwrap();
            s.spawn(move || unblock(|| reader.read_to_end(&mut Vec::new()).unwrap()));
            s.spawn(move || unblock(|| writer.write_all(&vec![0; 300_000]).unwrap()));
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let to = socket.local_addr().unwrap();
            s.spawn(move || {
                unblock(|| {
                    socket.send_to(b"x", to).unwrap();
                    socket.recv_from(&mut [0]).unwrap();
                });
            });
        });
        assert_eq!(segue_unblock::waits(), before, "a wait of Segue's was in a call of the C library");
        // And the count can grow.
        let (mut one, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
        beside(|| one.read_exact(&mut [0]), || other.write_all(b"x").unwrap()).unwrap();
        assert!(segue_unblock::waits() > before);
    });
}

/// A folder that goes when this is dropped.
struct Folder(std::path::PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn files_of_segue_never_wait_in_a_defined_call() {
    everywhere(|| {
        let before = segue_unblock::waits();
        let folder = Folder(std::env::temp_dir().join(format!("segue-unblock-{}", std::process::id())));
        let (file, pipe) = (folder.0.join("file"), folder.0.join("pipe"));
        unblock(|| fs::create_dir_all(&folder.0)).unwrap();
        unblock(|| {
            let text = vec![7; 300_000];
            fs::write(&file, &text).unwrap();
            fs::File::open(&file).unwrap().sync_all().unwrap();
            // What is not in memory is read in the ring, or by another thread.
            let cold = std::fs::File::open(&file).unwrap();
            rustix::fs::fadvise(&cold, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            assert!(fs::read(&file).unwrap() == text);
            assert_eq!(fs::copy(&file, folder.0.join("copy")).unwrap(), text.len() as u64);
            assert_eq!(fs::read_dir(&folder.0).unwrap().map(Result::unwrap).count(), 2);
            assert!(!fs::read_to_string("/proc/self/stat").unwrap().is_empty());
            rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        });
        // Each end waits for the other to be opened.
        scope(|s| {
            s.spawn(|| unblock(|| fs::write(&pipe, [1; 100_000]).unwrap()));
            s.spawn(|| unblock(|| assert_eq!(fs::read(&pipe).unwrap().len(), 100_000)));
        });
        unblock(|| fs::remove_dir_all(&folder.0)).unwrap();
        assert_eq!(segue_unblock::waits(), before, "a wait of Segue's was in a call of the C library");
    });
}
