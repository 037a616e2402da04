//! Registration with a reactor that is closed, opened, and left by drops. Part of
//! `driver/socket.rs`.

use super::*;
use crate::selector::Backend;

fn socket() -> Arc<Socket> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    Socket::new(listener.into())
}

#[test]
fn who_is_registered_is_turned_away_when_closed_and_forgotten_when_dropped() {
    for backend in [Backend::Native, Backend::Polling, Backend::PollingOneShot] {
        let reactor = Arc::new(Reactor::new(backend).unwrap());
        let first = socket();
        assert_eq!(first.enter(Arc::clone(&reactor), Interest::default()).unwrap().map(|place| place.key), None);
        reactor.open();
        for _ in 0..100 {
            let socket = socket();
            socket.enlist_with(&reactor).unwrap();
            assert!(!reactor.is_empty());
            drop(socket);
            assert!(reactor.is_empty());
        }
        assert_eq!(reactor.sockets().vacant_key(), 0, "keys are not used again");
    }
}
