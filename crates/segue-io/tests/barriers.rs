//! The table of callbacks, of drivers and sockets: the wakers that a driver calls, and what looks
//! up addresses. `segue-sched/tests/barriers` has the rest, and `common/table.rs` there says what
//! rows, columns and cells are.

#[path = "../../segue-sched/tests/common/table.rs"]
mod table;

use segue_core::scheduling::Park;
use segue_core::yield_now;
use segue_io::DriverPark;
use segue_io::net::{Resolve, TcpListener, TcpStream, ToSocketAddrs, UdpSocket, lookup, set_resolver};
use segue_sched::{Hosted, Runtime, hosted};
use std::io::{self, Read, Write};
use std::net::{self, SocketAddr};
use std::option;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Wake, Waker};
use std::time::Duration;
use table::{Counts, Must, Must::*, RIGHT, Row, act, fiber, poll, thread};

/// On the host with a thread for each fiber, a fiber that waits finds no driver on its thread but
/// the one that all have in common.
const BY_HAND: Must = if cfg!(feature = "threads") { Apart } else { Refused("a waker, a drop or other code") };

/// Two ends of a connection, at one of which somebody reads whose waker acts, and counts.
struct Reads {
    reader: Hosted<io::Result<usize>>,
    writer: TcpStream,
    called: Arc<Counts>,
}

impl Reads {
    fn new() -> Self {
        struct Acts(Arc<Counts>);
        impl Wake for Acts {
            fn wake(self: Arc<Self>) {
                act();
                self.0.0.fetch_add(1, SeqCst);
            }
        }
        // Not connected by ours, which would wait with the driver of those who have none.
        let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
        let writer = TcpStream::from_std(net::TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap();
        let mut stream = TcpStream::from_std(listener.accept().unwrap().0).unwrap();
        let called = Arc::new(Counts::default());
        let mut reader = hosted(move || stream.read(&mut [0]));
        let waker = Waker::from(Arc::new(Acts(Arc::clone(&called))));
        assert!(poll(Pin::new(&mut reader), &waker).is_none());
        Self { reader, writer, called }
    }

    /// Writes, does this until the waker was called, and has the reader read.
    fn write(mut self, mut meanwhile: impl FnMut()) -> u64 {
        self.writer.write_all(&[1]).unwrap();
        while self.called.get() == 0 {
            meanwhile();
        }
        loop {
            if let Some(read) = poll(Pin::new(&mut self.reader), Waker::noop()) {
                assert_eq!(read.unwrap().unwrap(), 1);
                return RIGHT;
            }
            others();
        }
    }
}

/// Has somebody read at a driver that nobody runs.
fn at_a_driver(does: impl FnOnce(DriverPark, Reads) -> u64) -> u64 {
    let mut park = DriverPark::new().unwrap();
    park.enter();
    let reads = Reads::new();
    does(park, reads)
}

/// Lets others run.
fn others() {
    yield_now().unwrap();
}

/// An address that acts when it is looked up.
struct Acts(SocketAddr);

impl ToSocketAddrs for Acts {
    type Iter = option::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        act();
        Ok(Some(self.0).into_iter())
    }
}

fn connect() -> u64 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(Acts(listener.local_addr().unwrap())).unwrap();
    u64::from(stream.peer_addr().is_ok()) * RIGHT
}

fn bind() -> u64 {
    u64::from(TcpListener::bind(Acts("127.0.0.1:0".parse().unwrap())).is_ok()) * RIGHT
}

/// A socket of UDP, and an address where nobody has to be.
fn udp() -> (UdpSocket, Acts) {
    (UdpSocket::bind("127.0.0.1:0").unwrap(), Acts(SocketAddr::from(([127, 0, 0, 1], 9))))
}

fn udp_bind() -> u64 {
    u64::from(UdpSocket::bind(Acts("127.0.0.1:0".parse().unwrap())).is_ok()) * RIGHT
}

fn udp_connect() -> u64 {
    let (socket, addr) = udp();
    u64::from(socket.connect(addr).is_ok()) * RIGHT
}

fn udp_send_to() -> u64 {
    let (socket, addr) = udp();
    socket.send_to(&[0; RIGHT as usize], addr).unwrap() as u64
}

fn looked_up() -> u64 {
    lookup(Acts(SocketAddr::from(([127, 0, 0, 1], 9)))).unwrap().len() as u64 * RIGHT
}

/// A resolver that acts when it is asked.
impl Resolve for Counts {
    fn resolve(&self, _host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        act();
        Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))])
    }
}

fn resolved() -> u64 {
    set_resolver(Some(Arc::new(Counts::default())));
    lookup("who:9").unwrap().len() as u64 * RIGHT
}

static ROWS: &[Row] = &[
    fiber("TcpStream::connect: ToSocketAddrs", Captured, connect),
    thread("TcpStream::connect: ToSocketAddrs, on a thread", Captured, connect),
    fiber("TcpListener::bind: ToSocketAddrs", Captured, bind),
    thread("TcpListener::bind: ToSocketAddrs, on a thread", Captured, bind),
    fiber("UdpSocket::bind: ToSocketAddrs", Captured, udp_bind),
    fiber("UdpSocket::connect: ToSocketAddrs", Captured, udp_connect),
    fiber("UdpSocket::send_to: ToSocketAddrs", Captured, udp_send_to),
    fiber("lookup: ToSocketAddrs", Captured, looked_up),
    fiber("a name is looked up: Resolve", Captured, resolved),
    thread("a name is looked up: Resolve, on a thread", Captured, resolved),
    fiber("a waker, by the driver of those who have none", Apart, || Reads::new().write(others)),
    thread("a waker, by the driver of those who have none, on a thread", Apart, || Reads::new().write(others)),
    thread("a waker, by a worker's DriverPark", Apart, || {
        let run = Runtime::new().workers(1).park(DriverPark::new);
        run.run(|| Reads::new().write(others)).unwrap()
    }),
    thread("a waker, by DriverPark::poll", BY_HAND, || {
        at_a_driver(|mut park, reads| {
            let value = reads.write(|| park.poll());
            park.leave();
            value
        })
    }),
    thread("a waker, by DriverPark::park", BY_HAND, || {
        at_a_driver(|mut park, reads| {
            let value = reads.write(|| park.park(Some(Duration::from_millis(1))));
            park.leave();
            value
        })
    }),
    thread("a waker, by DriverPark::leave", BY_HAND, || {
        at_a_driver(|mut park, reads| {
            park.leave();
            reads.write(others)
        })
    }),
    thread("a waker, by the drop of a DriverPark", BY_HAND, || {
        at_a_driver(|park, reads| {
            drop(park);
            reads.write(others)
        })
    }),
];

#[test]
fn what_a_driver_calls_is_a_body_or_is_not_captured() {
    table::check(ROWS, &["a waker, by DriverPark::poll"]);
}
