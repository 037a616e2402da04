//! Names: what is parsed, who resolves, and on whose time.
#![allow(unused_must_use, reason = "a scope waits for what it spawned, handle or not")]

use crate::common;

use common::{everywhere, guarded, on_one_worker};
use segue_core::{CancelToken, Cancelled, blocking, scope, set_blocking_limit, shield};
use segue_io::Backend;
use segue_io::net::{Resolve, SystemResolver, TcpListener, TcpStream, ToSocketAddrs, UdpSocket, lookup, set_resolver};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

/// The resolver and the crew are those of the process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

const HOME: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Knows `home`, and counts what it is asked.
#[derive(Default)]
struct Home(AtomicUsize);

impl Resolve for Home {
    fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        // It may wait, as any code on a fiber.
        segue_core::yield_now()?;
        match host {
            "home" => Ok(vec![SocketAddr::from((HOME, port))]),
            "nobody" => Ok(Vec::new()),
            _ => Err(ErrorKind::NotFound.into()),
        }
    }
}

#[test]
fn what_is_written_out_is_parsed_and_nobody_is_asked() {
    let _alone = alone();
    let home = Arc::new(Home::default());
    set_resolver(Some(Arc::<Home>::clone(&home)));
    let (v4, v6) = (SocketAddr::from((HOME, 80)), SocketAddr::from((Ipv6Addr::LOCALHOST, 80)));
    let one = |addrs: Vec<SocketAddr>, wanted| assert_eq!(addrs, [wanted]);
    one(lookup("127.0.0.1:80").unwrap(), v4);
    one(lookup("[::1]:80").unwrap(), v6);
    one(lookup(String::from("127.0.0.1:80")).unwrap(), v4);
    one(lookup(("127.0.0.1", 80)).unwrap(), v4);
    one(lookup(("::1", 80)).unwrap(), v6);
    one(lookup((String::from("127.0.0.1"), 80)).unwrap(), v4);
    one(lookup((IpAddr::from(HOME), 80)).unwrap(), v4);
    one(lookup((HOME, 80)).unwrap(), v4);
    one(lookup((Ipv6Addr::LOCALHOST, 80)).unwrap(), v6);
    one(lookup(SocketAddrV4::new(HOME, 80)).unwrap(), v4);
    one(lookup(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 80, 0, 0)).unwrap(), v6);
    let borrowed: &SocketAddr = &v4;
    one(lookup(borrowed).unwrap(), v4);
    assert_eq!(lookup([v4, v6]).unwrap(), [v4, v6]);
    assert_eq!(lookup(&[v4, v6][..]).unwrap(), [v4, v6]);
    assert_eq!(lookup(vec![v4, v6]).unwrap(), [v4, v6]);
    assert_eq!(ToSocketAddrs::to_socket_addrs("127.0.0.1:80").unwrap().size_hint(), (1, Some(1)));
    for bad in ["", ":", "home", "home:", "home:http", "home:65536", "127.0.0.1", "::1"] {
        let error = lookup(bad).map(|found| panic!("{bad}: {found:?}")).unwrap_err();
        assert!(bad == "::1" || error.kind() == ErrorKind::InvalidInput, "{bad}: {error}");
    }
    // `::1` is a host `:` with the port 1, of which nobody knows.
    assert_eq!(home.0.load(Ordering::Relaxed), 1);
    set_resolver(None);
}

#[test]
fn a_resolver_that_is_set_is_asked_by_all_that_take_names() {
    let _alone = alone();
    let home = Arc::new(Home::default());
    assert!(set_resolver(Some(Arc::<Home>::clone(&home))).is_none());
    everywhere(|| {
        let before = home.0.load(Ordering::Relaxed);
        let listener = TcpListener::bind("home:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(TcpStream::connect(("home", port)).unwrap().peer_addr().unwrap(), listener.local_addr().unwrap());
        let (here, there) = (UdpSocket::bind("home:0").unwrap(), UdpSocket::bind("home:0").unwrap());
        here.send_to(b"x", ("home", there.local_addr().unwrap().port())).unwrap();
        here.connect(("home", there.local_addr().unwrap().port())).unwrap();
        assert_eq!(there.recv(&mut [0; 4]).unwrap(), 1);
        assert_eq!(TcpStream::connect("elsewhere:1").unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(TcpStream::connect("nobody:1").unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(TcpListener::bind("nobody:1").unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(home.0.load(Ordering::Relaxed) - before, 9);
        // A cancelled caller asks nobody.
        scope(|s| {
            s.cancel();
            assert!(Cancelled::caused(&lookup("home:1").unwrap_err()));
            assert!(Cancelled::caused(&TcpStream::connect("home:1").unwrap_err()));
            assert!(Cancelled::caused(&TcpListener::bind("home:1").unwrap_err()));
        });
        assert_eq!(home.0.load(Ordering::Relaxed) - before, 9);
    });
    assert!(set_resolver(None).is_some());
}

#[test]
fn the_system_resolves_on_another_thread_while_others_run() {
    let _alone = alone();
    set_blocking_limit(1);
    on_one_worker(Backend::Native, || {
        let (busy, (free, freed)) = (AtomicBool::new(false), mpsc::channel::<()>());
        let freed = Mutex::new(freed);
        let (found, cut) = (AtomicBool::new(false), CancelToken::new());
        scope(|s| {
            // The one thread for such calls is busy: so a look-up has to wait for it.
            let occupant = s.spawn(|| {
                blocking(|| {
                    busy.store(true, Ordering::Release);
                    freed.lock().unwrap().recv().unwrap();
                })
            });
            common::until(|| busy.load(Ordering::Acquire));
            s.spawn(|| {
                assert!(!lookup("localhost:80").unwrap().is_empty());
                found.store(true, Ordering::Relaxed);
            });
            let cancelled = s.spawn(|| cut.run(|| SystemResolver.resolve("localhost", 80)).unwrap_err());
            for _ in 0..100 {
                segue_core::yield_now().unwrap();
            }
            assert!(!found.load(Ordering::Relaxed), "the worker has looked it up");
            // What has not begun is cancelled at once, and the thread is still busy.
            cut.cancel();
            assert!(Cancelled::caused(&shield(|| cancelled.join()).unwrap()));
            free.send(()).unwrap();
            occupant.join().unwrap().unwrap();
        });
        assert!(found.into_inner());
    });
    set_blocking_limit(512);
}

#[test]
fn a_plain_thread_asks_the_system_too() {
    let _alone = alone();
    guarded("a look-up", || {
        let found = lookup(("localhost", 7)).unwrap();
        assert!(found.iter().all(|addr| addr.ip().is_loopback() && addr.port() == 7) && !found.is_empty());
        assert!(lookup("no.such.host.invalid:80").is_err());
    });
}
