//! Connects that are begun again, while they are under way and when they are made. Part of
//! `driver/op.rs`.

use super::*;
use std::net::SocketAddr;

fn socket() -> socket2::Socket {
    sys::socket(socket2::Domain::IPV4, socket2::Type::STREAM).unwrap()
}

fn listener(backlog: i32) -> (socket2::Socket, SockAddr) {
    let listener = socket();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(backlog).unwrap();
    let addr = listener.local_addr().unwrap();
    (listener, addr)
}

#[test]
fn a_connect_that_is_under_way_is_waited_for() {
    let (_full, addr) = listener(0);
    let clients: [_; 4] = std::array::from_fn(|_| Socket::new(socket()));
    let waits = |begun| {
        let mut would_block = clients.iter().map(|client| Connect { to: &addr, begun }.attempt(client));
        would_block.any(|done| done.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock))
    };
    assert!(waits(Begun::No), "the queue has no end: nothing is tested");
    assert!(waits(Begun::No) && waits(Begun::Perhaps) && waits(Begun::Yes));
}

#[test]
fn a_connection_is_an_outcome_only_if_a_ring_may_have_made_it() {
    let (_listener, addr) = listener(8);
    let connected = socket();
    // It does not matter whether the connection is there at once.
    let _ = connected.connect(&addr);
    while connected.peer_addr().is_err() {}
    let _ = connected.connect(&addr);
    let connected = Socket::new(connected);
    Connect { to: &addr, begun: Begun::Perhaps }.attempt(&connected).unwrap();
    let error = Connect::new(&addr).attempt(&connected).unwrap_err();
    assert!(says(&error, &[Errno::ISCONN]), "{error}");
}
