//! A report of a deadlock names the line that waits, whatever that waits in: each row of these
//! tables is stuck in a public function, and its report names this row and no line of ours.
#![cfg(feature = "sched")]

use segue::channel::{self, broadcast, oneshot, watch};
use segue::concurrent::{Retry, at_most, first_ok, join_all, race};
use segue::sync::{Barrier, Condvar, Latch, Lazy, MVar, Mutex, Notify, Once, OnceCell, Promise};
use segue::sync::{RwLock, Semaphore, WaitGroup, promise};
use segue::{Builder, CancelToken, Cancelled, Sim, scope, shield, spawn};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::time::Duration;

/// Something that is stuck, and the line that it begins in.
struct Row(u32, fn());

#[track_caller]
fn row(stuck: fn()) -> Row {
    Row(Location::caller().line(), stuck)
}

/// Waits for what never comes.
#[track_caller]
fn never() -> Result<(), Cancelled> {
    segue::after(Duration::MAX).wait()
}

/// Runs each row, and says which of them are reported with another place than one of their own.
fn misplaced(table: &[Row]) -> Vec<String> {
    let ends = table.iter().skip(1).map(|row| row.0).chain([u32::MAX]);
    let wrong = table.iter().zip(ends).filter_map(|(Row(line, stuck), end)| {
        // Cancelled, what has std's names unwinds.
        let deadlock = Sim::new(1).run(|| drop(catch_unwind(AssertUnwindSafe(stuck))));
        let deadlock = deadlock.expect_err(&format!("the row of line {line} is not stuck"));
        let is_own = |at: &Location<'_>| at.file() == file!() && (*line..end).contains(&at.line());
        let all_own = deadlock.fibers.iter().all(|fiber| fiber.waits_for.is_some_and(|waits| is_own(waits.at)));
        (!all_own).then(|| format!("line {line}: {deadlock}"))
    });
    wrong.collect()
}

/// Fails with all rows that are [misplaced].
fn check(table: &[Row]) {
    let wrong = misplaced(table);
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), table.len(), wrong.join("\n"));
}

#[test]
fn a_place_outside_of_a_row_is_found() {
    let elsewhere = || _ = never();
    assert!(matches!(&misplaced(&[row(elsewhere)])[..], [one] if one.contains(": deadlock (seed 1)")));
}

#[test]
fn locks_name_who_waits() {
    check(&[
        row(|| {
            let mutex = Mutex::new(());
            let _held = mutex.lock();
            _ = mutex.lock();
        }),
        row(|| {
            let mutex = Mutex::new(());
            let _held = mutex.lock();
            _ = mutex.lock_source().wait();
        }),
        row(|| {
            let lock = RwLock::new(());
            let _held = lock.write();
            _ = lock.read();
        }),
        row(|| {
            let lock = RwLock::new(());
            let _held = lock.read();
            _ = lock.write();
        }),
        row(|| _ = Semaphore::new(0).acquire()),
        row(|| _ = Semaphore::new(1).acquire_many(2)),
        row(|| {
            let (mutex, never) = (Mutex::new(()), Condvar::new());
            _ = never.wait(mutex.lock().unwrap());
        }),
        row(|| {
            let (mutex, never) = (Mutex::new(()), Condvar::new());
            _ = never.wait_while(mutex.lock().unwrap(), |()| true);
        }),
        row(|| {
            let (mutex, never) = (Mutex::new(()), Condvar::new());
            _ = never.wait_source(mutex.lock().unwrap()).wait();
        }),
        row(|| _ = Barrier::new(2).wait()),
        row(|| _ = Latch::new(1).wait()),
        row(|| {
            let group = WaitGroup::new();
            group.add(1);
            _ = group.wait();
        }),
        row(|| _ = Notify::new().wait()),
    ]);
}

#[test]
fn cells_name_who_waits() {
    check(&[
        row(|| _ = MVar::<u32>::empty().take()),
        row(|| _ = MVar::new(1).put(2)),
        row(|| _ = MVar::<u32>::empty().read()),
        row(|| _ = MVar::empty().swap(1)),
        row(|| _ = MVar::<u32>::empty().borrow()),
        row(|| _ = MVar::<u32>::empty().modify(|_| ())),
        row(|| {
            let (_resolver, promise) = promise::<u32>();
            _ = promise.wait().copied();
        }),
        row(|| {
            let (_resolver, promise) = promise::<u32>();
            _ = Promise::take(promise);
        }),
        row(|| {
            let (resolver, _promise) = promise::<u32>();
            _ = resolver.closed_source().wait();
        }),
        row(|| _ = OnceCell::<u32>::new().wait()),
        row(|| {
            let cell = OnceCell::<u32>::new();
            let _held = cell.entry();
            _ = cell.entry();
        }),
        row(|| {
            let cell = OnceCell::new();
            scope(|s| (0..2).for_each(|_| drop(s.spawn(|| _ = cell.get_or_init(|| drop(never()))))));
        }),
        row(|| {
            let cell = OnceCell::new();
            scope(|s| (0..2).for_each(|_| drop(s.spawn(|| _ = cell.get_or_try_init(|| never())))));
        }),
        row(|| {
            let cell = OnceCell::new();
            let _held = cell.entry();
            _ = cell.set(());
        }),
        row(|| {
            let once = Once::new();
            scope(|s| (0..2).for_each(|_| drop(s.spawn(|| once.call_once(|| drop(never()))))));
        }),
        row(|| _ = Once::new().wait()),
        row(|| {
            let lazy = Lazy::new(|| drop(never()));
            scope(|s| (0..2).for_each(|_| drop(s.spawn(|| _ = lazy.force()))));
        }),
        row(|| {
            let lazy = Lazy::new(|| never());
            scope(|s| (0..2).for_each(|_| drop(s.spawn(|| _ = lazy.force_fallible()))));
        }),
    ]);
}

#[test]
fn channels_name_who_waits() {
    check(&[
        row(|| {
            let (_sender, receiver) = channel::unbounded::<u32>();
            _ = receiver.recv();
        }),
        row(|| {
            let (_sender, receiver) = channel::unbounded::<u32>();
            for _ in &receiver {}
        }),
        row(|| {
            let (_sender, receiver) = channel::unbounded::<u32>();
            for _ in receiver {}
        }),
        row(|| {
            let (_sender, receiver) = channel::unbounded::<u32>();
            assert_eq!(receiver.iter().map(u64::from).sum::<u64>(), 0);
        }),
        row(|| {
            let (_sender, receiver) = channel::unbounded::<u32>();
            _ = receiver.into_exclusive().unwrap().recv();
        }),
        row(|| {
            let (_sender, receiver) = channel::unbounded::<u32>();
            for _ in receiver.into_exclusive().unwrap() {}
        }),
        row(|| {
            let (sender, _receiver) = channel::rendezvous();
            _ = sender.send(1);
        }),
        row(|| {
            let (sender, _receiver) = channel::bounded::<u32>(1);
            let _room = sender.reserve();
            _ = sender.reserve();
        }),
        row(|| {
            let (sender, _receiver) = channel::bounded::<u32>(1);
            _ = sender.closed_source().wait();
        }),
        row(|| {
            let (_sender, receiver) = oneshot::channel::<u32>();
            _ = receiver.recv();
        }),
        row(|| {
            let (_sender, mut receiver) = broadcast::channel::<u32>(1);
            _ = receiver.recv();
        }),
        row(|| {
            let (_sender, mut receiver) = broadcast::channel::<u32>(1);
            for _ in receiver.iter() {}
        }),
        row(|| {
            let (_sender, mut receiver) = broadcast::channel::<u32>(1);
            assert_eq!(receiver.iter().flatten().count(), 0);
        }),
        row(|| {
            let (sender, _receiver) = broadcast::lossless(1);
            sender.send(1).unwrap();
            _ = sender.send(2);
        }),
        row(|| {
            let (_sender, mut receiver) = watch::channel(1);
            _ = receiver.changed();
        }),
        row(|| {
            let (_sender, mut receiver) = watch::channel(1);
            _ = receiver.wait_for(|n| *n == 2);
        }),
    ]);
}

#[test]
fn fibers_and_choices_name_who_waits() {
    check(&[
        row(|| _ = spawn(|| never()).join()),
        row(|| _ = spawn(|| never()).join_source().wait()),
        row(|| _ = Builder::new().cancellable().spawn(|| never()).join()),
        row(|| {
            // It is told at once to end, and waits for another one all the same.
            let other = spawn(|| never());
            let deaf = Builder::new().cancellable().spawn(move || shield(|| drop(other.join())));
            _ = deaf.cancel_and_join();
        }),
        row(|| scope(|s| drop(s.spawn(|| never())))),
        row(|| _ = segue::try_scope(|s| Ok::<_, Cancelled>(s.spawn_try(|| never()).is_finished()))),
        row(|| _ = segue::sleep(Duration::MAX)),
        row(|| _ = segue::timeout(Duration::MAX, || never())),
        row(|| _ = segue::any_of([segue::after(Duration::MAX), segue::at(None)]).wait()),
        row(|| {
            _ = segue::select! {
                () = segue::at(None) => (),
                () = segue::after(Duration::MAX) => (),
            };
        }),
        row(|| _ = segue::merge([segue::at(None)]).next()),
        row(|| _ = segue::interval(Duration::MAX).tick().and_then(|_| never())),
        row(|| _ = segue::wait_future(std::future::pending::<()>())),
        row(|| _ = segue::future_source(std::future::pending::<()>()).wait()),
        row(|| _ = segue::guard(|| segue::at(None)).wait()),
        row(|| _ = segue::with_nack(|_| segue::at(None)).wait()),
        row(|| _ = CancelToken::new().cancelled_source().wait()),
        row(|| _ = segue::finishing_source().wait()),
    ]);
}

#[test]
fn closures_and_items_at_a_time_name_who_waits() {
    check(&[
        row(|| _ = join_all([|| never(), || never()])),
        row(|| _ = race([|| never(), || never()])),
        row(|| _ = race(Vec::<fn()>::new())),
        row(|| _ = first_ok([|| never(), || never()])),
        row(|| _ = at_most(2).map([1, 2, 3], |_| never())),
        row(|| _ = at_most(2).any([1, 2, 3], |_| never().is_ok())),
        row(|| {
            // One has the turn, and waits for an item; the other one waits for its turn.
            let (sender, receiver) = channel::unbounded();
            sender.send(1).unwrap();
            _ = at_most(2).for_each(&receiver, |_| ());
        }),
        row(|| _ = Retry::new(2).run(|_| never())),
    ]);
}

#[test]
fn names_of_std_name_who_waits() {
    use segue::std::sync::{Barrier, Condvar, LazyLock, Mutex, Once, OnceLock, RwLock, mpsc};
    use segue::std::thread;

    check(&[
        row(|| {
            let mutex = Mutex::new(());
            let _held = mutex.lock();
            _ = mutex.lock();
        }),
        row(|| {
            let lock = RwLock::new(());
            let _held = lock.write();
            _ = lock.read();
        }),
        row(|| {
            let lock = RwLock::new(());
            let _held = lock.read();
            _ = lock.write();
        }),
        row(|| {
            let (mutex, never) = (Mutex::new(()), Condvar::new());
            _ = never.wait(mutex.lock().unwrap());
        }),
        row(|| {
            let (mutex, never) = (Mutex::new(()), Condvar::new());
            _ = never.wait_while(mutex.lock().unwrap(), |()| true);
        }),
        row(|| {
            let (mutex, never) = (Mutex::new(()), Condvar::new());
            _ = never.wait_timeout(mutex.lock().unwrap(), Duration::MAX);
        }),
        row(|| {
            let (mutex, never) = (Mutex::new(()), Condvar::new());
            _ = never.wait_timeout_while(mutex.lock().unwrap(), Duration::MAX, |()| true);
        }),
        row(|| _ = Barrier::new(2).wait()),
        row(|| {
            let once = Once::new();
            thread::scope(|s| (0..2).for_each(|_| drop(s.spawn(|| once.call_once(|| drop(never()))))));
        }),
        row(|| {
            let once = Once::new();
            thread::scope(|s| (0..2).for_each(|_| drop(s.spawn(|| once.call_once_force(|_| drop(never()))))));
        }),
        row(|| Once::new().wait()),
        row(|| Once::new().wait_force()),
        row(|| _ = OnceLock::<u32>::new().wait()),
        row(|| {
            let cell = OnceLock::new();
            thread::scope(|s| (0..2).for_each(|_| drop(s.spawn(|| _ = cell.get_or_init(|| drop(never()))))));
        }),
        row(|| {
            let cell = OnceLock::new();
            thread::scope(|s| {
                _ = cell.get_or_init(|| {
                    s.spawn(|| cell.set(1));
                    never().map_or(2, |()| 3)
                });
            });
        }),
        row(|| {
            let lazy: LazyLock<(), _> = LazyLock::new(|| drop(never()));
            thread::scope(|s| (0..2).for_each(|_| drop(s.spawn(|| LazyLock::force(&lazy)))));
        }),
        row(|| {
            let lazy: LazyLock<u32, _> = LazyLock::new(|| never().map_or(1, |()| 2));
            thread::scope(|s| (0..2).for_each(|_| drop(s.spawn(|| *lazy))));
        }),
        row(|| {
            let (_send, receive) = mpsc::channel::<u32>();
            _ = receive.recv();
        }),
        row(|| {
            let (_send, receive) = mpsc::channel::<u32>();
            _ = receive.recv_timeout(Duration::MAX);
        }),
        row(|| {
            let (_send, receive) = mpsc::channel::<u32>();
            for _ in &receive {}
        }),
        row(|| {
            let (_send, receive) = mpsc::channel::<u32>();
            for _ in receive {}
        }),
        row(|| {
            let (_send, receive) = mpsc::channel::<u32>();
            assert_eq!(receive.iter().map(u64::from).sum::<u64>(), 0);
        }),
        row(|| {
            let (_send, receive) = mpsc::channel::<u32>();
            assert_eq!(receive.into_iter().map(u64::from).sum::<u64>(), 0);
        }),
        row(|| {
            let (send, _receive) = mpsc::sync_channel(0);
            _ = send.send(1);
        }),
        row(|| _ = thread::spawn(|| drop(never())).join()),
        row(|| thread::scope(|s| drop(s.spawn(|| drop(never())).join()))),
        row(|| thread::scope(|s| drop(s.spawn(|| drop(never()))))),
        row(|| thread::park()),
        row(|| thread::park_timeout(Duration::MAX)),
        // In simulated time, which does not come.
        row(|| thread::sleep(Duration::MAX)),
    ]);
}

#[test]
#[cfg(all(feature = "io", target_os = "linux"))]
fn streams_and_children_name_who_waits() {
    use segue::std::fs::File;
    use segue::std::io::{Read, Write};
    use segue::std::net::{TcpListener, TcpStream, UdpSocket};
    use segue::std::process::{Child, Command, Stdio};
    use segue_io::net::UnixStream;
    use segue_io::signal::{Signal, Signals};

    /// More than there is room for.
    static MUCH: [u8; 1 << 23] = [0; 1 << 23];

    fn listener() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").unwrap()
    }

    fn cat() -> Child {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap().kill_on_drop(true)
    }

    fn pair() -> (UnixStream, UnixStream) {
        UnixStream::pair().unwrap()
    }

    check(&[
        row(|| _ = listener().accept()),
        row(|| {
            for stream in listener().incoming() {
                drop(stream);
            }
        }),
        row(|| _ = listener().accept_source().or(listener().accept_source()).wait()),
        row(|| _ = UdpSocket::bind("127.0.0.1:0").unwrap().recv_from(&mut [0])),
        row(|| {
            let listener = listener();
            let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            _ = stream.read_to_end(&mut Vec::new());
        }),
        row(|| _ = pair().0.read(&mut [0])),
        row(|| _ = pair().0.read_exact(&mut [0])),
        row(|| _ = pair().0.read_to_string(&mut String::new())),
        row(|| _ = pair().0.write_all(&MUCH)),
        row(|| _ = pair().0.readable_source().or(pair().0.readable_source()).wait()),
        row(|| _ = cat().wait_with_output()),
        row(|| {
            let mut cat = cat();
            let _stdin = cat.stdin.take();
            _ = cat.wait_with_output();
        }),
        row(|| {
            let mut cat = cat();
            let _stdin = cat.stdin.take();
            _ = cat.wait_with_output_into(&mut Vec::new(), &mut Vec::new());
        }),
        row(|| {
            let mut cat = cat();
            (cat.stdout, _) = (None, cat.stdin.take().unwrap().into_stdio());
            _ = cat.wait_with_output();
        }),
        row(|| _ = cat().stdout.take().unwrap().read_to_end(&mut Vec::new())),
        row(|| _ = Command::new("sleep").arg("1000").output()),
        row(|| _ = Command::new("sleep").arg("1000").status()),
        row(|| _ = Signals::new(Signal::WINCH).unwrap().recv_source().or(segue::at(None)).wait()),
        row(|| {
            let place = segue_io::fs::NamedTempFile::new().unwrap();
            place.as_file().lock().unwrap();
            _ = File::open(place.path()).unwrap().lock();
        }),
    ]);
}
