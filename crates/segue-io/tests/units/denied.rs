//! Tests of rings that the kernel denies an opcode, or that give a request back: sockets and files
//! go on without. Part of `lib.rs`: they look into the ring from above everything that flies in it.

#[path = "../common/talk.rs"]
mod talk;

use crate::ring::{RESTRICTED, here};
use crate::{Backend, DriverPark, fs, net};
use io_uring::opcode;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::time::Duration;

#[test]
fn an_op_that_the_kernel_denies_goes_by_readiness() {
    segue_sched::Runtime::new()
        .workers(1)
        .park(|| DriverPark::with(Backend::Ring))
        .run(|| {
            RESTRICTED.set(true);
            let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
            let addr = listener.local_addr().unwrap();
            let client = net::TcpStream::connect(addr).unwrap();
            let (server, _) = listener.accept().unwrap();
            RESTRICTED.set(false);
            talk::talk(client, server);
            let ring = here().expect("the ring is there, with fewer opcodes");
            assert!(!ring.has(opcode::Recv::CODE), "the kernel was asked in vain again and again");
            assert!(ring.has(opcode::Send::CODE), "what is allowed was given up as well");
        })
        .unwrap();
}

#[test]
fn a_call_of_files_that_the_kernel_denies_is_a_system_call() {
    segue_sched::Runtime::new()
        .workers(1)
        .park(|| DriverPark::with(Backend::Ring))
        .run(|| {
            RESTRICTED.set(true);
            let dir = std::env::temp_dir().join(format!("segue-denied-{}", std::process::id()));
            fs::create_dir(&dir).unwrap();
            RESTRICTED.set(false);
            let ring = here().expect("the ring is there, with fewer opcodes");
            assert!(!ring.has(opcode::MkDirAt::CODE), "it is asked in vain again and again");
            // What the system call refuses as well says nothing of the ring.
            assert!(fs::remove_file(&dir).is_err());
            assert!(ring.has(opcode::UnlinkAt::CODE));
            fs::remove_dir(&dir).unwrap();
            assert!(!ring.has(opcode::UnlinkAt::CODE));
            let mut file = fs::temp_file().unwrap();
            file.write_all(b"content").unwrap();
            let mut content = [0; 7];
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut content, 0).unwrap();
            assert_eq!(&content, b"content");
            assert!(ring.has(opcode::Send::CODE), "what is allowed was given up as well");
        })
        .unwrap();
}

/// A connect that the ring has begun, and that the kernel then ends there, goes on by itself.
#[test]
fn a_connect_that_the_ring_gives_back_is_waited_for_by_readiness() {
    segue_sched::Runtime::new()
        .workers(1)
        .park(|| DriverPark::with(Backend::Ring))
        .run(|| {
            let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
            full.listen(0).unwrap();
            let addr = full.local_addr().unwrap().as_socket().unwrap();
            let connect = |millis| net::TcpStream::connect_timeout(&addr, Duration::from_millis(millis));
            let _clients: Vec<_> = (0..4).map(|_| connect(20)).collect();
            segue_core::scope(|s| {
                let connects = s.spawn(|| connect(50));
                while !here().is_some_and(|ring| ring.is_busy()) {
                    segue_core::yield_now().unwrap();
                }
                here().expect("the ring is there").drain();
                let error = connects.join().unwrap().expect_err("the queue has no end: nothing is tested");
                assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
            });
        })
        .unwrap();
}
