//! A worker that computes, or is in a call that blocks, holds up its own fibers alone: others that
//! wait for the same object, or for a timer that was set on this worker, are served meanwhile.
//!
//! Each kind of object, with each kind of waiter, with each way to be away, over each driver. The
//! worker that is away comes back when the waiter says that it was served; if that takes too long,
//! the test fails. With `--nocapture` it prints how long each took.
#![cfg(linux)]

mod common;

use common::guarded;
use rustix::process::{Signal as Kernels, getpid, kill_process};
use segue_core::scheduling::WaitPark;
use segue_core::{Either, Source, Waitable, after, check, scope, sleep, spawn_task, timeout, yield_now};
use segue_io::net::{TcpListener, TcpStream, UdpSocket, UnixStream};
use segue_io::process::{self, Command, Stdio};
use segue_io::signal::{Signal, Signals};
use segue_io::{Backend, DriverPark, pipe};
use segue_sched::{Runtime, blocking_here};
use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Longer than anybody may be late, on a machine with a hundred other things to do.
const LIMIT: Duration = Duration::from_secs(20);
/// What counts as served at once.
const SOON: Duration = Duration::from_millis(500);
/// How often a machine that has other things to do may keep a waiter from it.
const TRIES: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiter {
    OtherRuntime,
    OtherWorker,
    PlainThread,
    Task,
    ForeignTask,
}
use Waiter::{ForeignTask, OtherRuntime, OtherWorker, PlainThread, Task};

#[derive(Clone, Copy, Debug)]
enum Away {
    Computes,
    Blocks,
}

type Doing = Box<dyn Fn() + Send + Sync>;
type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What is waited for.
struct Object {
    /// A wait that ends by itself, after the worker's driver has been asked.
    enlist: Doing,
    wait: Doing,
    future: Box<dyn Fn() -> Waiting + Send + Sync>,
    /// Ends the waits.
    fire: Doing,
}

/// A wait for a source that is too short.
fn in_vain<S: Source>(source: Waitable<S>) {
    assert!(matches!(source.or(after(Duration::from_millis(1))).wait().unwrap(), Either::Right(())));
}

/// What two sides say to each other.
#[derive(Default)]
struct Stage {
    is_occupied: AtomicBool,
    is_free: AtomicBool,
    waits: AtomicBool,
    is_away: AtomicBool,
    fired: Mutex<Option<Instant>>,
    served: Mutex<Option<Instant>>,
}

impl Stage {
    fn is_served(&self) -> bool {
        self.served.lock().unwrap().is_some()
    }

    fn wait(&self, wait: impl FnOnce()) {
        self.waits.store(true, SeqCst);
        wait();
        *self.served.lock().unwrap() = Some(Instant::now());
    }

    /// Keeps the thread, in one way or the other, until the waiter was served.
    fn be_away(&self, away: Away) {
        self.is_away.store(true, SeqCst);
        match away {
            Away::Computes => spin("the waiter to be served", || self.is_served()),
            Away::Blocks => blocking_here(|| spin("the waiter to be served", || self.is_served())),
        }
    }
}

/// Keeps the thread until something holds.
fn spin(what: &str, until: impl Fn() -> bool) {
    let begun = Instant::now();
    while !until() {
        assert!(begun.elapsed() < LIMIT, "nothing more happens while a worker waits for {what}");
        std::hint::spin_loop();
    }
}

/// The tasks of a thread that is no worker.
fn block_on(future: impl Future<Output = ()>) {
    struct Unparks(Thread);
    impl Wake for Unparks {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unparks(thread::current())));
    let mut future = pin!(future);
    while future.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Pending {
        thread::park();
    }
}

/// Calls `first` on one of two workers while a fiber has the other; that fiber calls `second` when
/// the stage is free.
fn on_both_workers(stage: &Stage, backend: Option<Backend>, first: impl FnOnce(), second: impl FnOnce() + Send) {
    let run = || {
        scope(|s| {
            let second = s.spawn(|| {
                stage.is_occupied.store(true, SeqCst);
                spin("the stage to be free", || stage.is_free.load(SeqCst));
                second();
            });
            // So that another worker takes it.
            blocking_here(|| spin("the other worker", || stage.is_occupied.load(SeqCst)));
            first();
            second.join().unwrap();
        });
    };
    let builder = Runtime::new().workers(2);
    match backend {
        Some(backend) => builder.park(move || DriverPark::with(backend)).run(run).unwrap(),
        None => builder.park(|| Ok(WaitPark::new())).run(run).unwrap(),
    }
}

/// Whether the waiter was served at once.
fn was_soon(stage: &Stage, what: impl Debug) -> bool {
    let late = stage.served.lock().unwrap().unwrap() - stage.fired.lock().unwrap().unwrap();
    println!("{:6.1} ms late: {what:?}", late.as_secs_f64() * 1e3);
    late < SOON
}

/// Runs a test until its waiter was served at once, or has been late too often.
fn is_soon(what: impl Debug, test: impl Fn() -> bool) {
    assert!((0..TRIES).any(|_| alone(|| guarded(&what, &test))), "late each time: {what:?}");
}

fn serves(name: &str, object: Object, who: Waiter, away: Away, backend: Backend) -> bool {
    let (object, stage) = (Arc::new(object), Arc::new(Stage::default()));
    let other = {
        let (object, stage) = (Arc::clone(&object), Arc::clone(&stage));
        move || stage.wait(|| (object.wait)())
    };
    let task = {
        let (object, stage) = (Arc::clone(&object), Arc::clone(&stage));
        async move {
            stage.waits.store(true, SeqCst);
            (object.future)().await;
            stage.wait(|| ());
        }
    };
    let fires = {
        let (object, stage) = (Arc::clone(&object), Arc::clone(&stage));
        move || {
            spin("the worker to be away", || stage.waits.load(SeqCst) && stage.is_away.load(SeqCst));
            // Until the waiter has begun to wait, most likely.
            thread::sleep(Duration::from_millis(5));
            *stage.fired.lock().unwrap() = Some(Instant::now());
            // Once: an event that is lost does not come again.
            (object.fire)();
        }
    };
    let (mut threads, mut second) = (vec![thread::spawn(fires)], None);
    let first = || {
        (object.enlist)();
        match who {
            OtherWorker => {}
            OtherRuntime => threads.push(thread::spawn(move || {
                Runtime::new().workers(1).park(move || DriverPark::with(backend)).run(other).unwrap();
            })),
            PlainThread => threads.push(thread::spawn(other)),
            ForeignTask => threads.push(thread::spawn(|| block_on(task))),
            Task => {
                second = Some(spawn_task(task));
                while !stage.waits.load(SeqCst) {
                    yield_now().unwrap();
                }
            }
        }
        stage.is_free.store(true, SeqCst);
        stage.be_away(away);
    };
    let waits = || {
        if who == OtherWorker {
            stage.wait(|| (object.wait)());
        }
    };
    on_both_workers(&stage, Some(backend), first, waits);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    was_soon(&stage, (name, who, away, backend))
}

/// One at a time: each keeps a processor busy.
fn alone<R>(test: impl FnOnce() -> R) -> R {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    test()
}

fn with_every_waiter(name: &str, object: impl Fn() -> Object) {
    for backend in [Backend::Ring, Backend::Native, Backend::Polling, Backend::PollingOneShot] {
        let is_main = matches!(backend, Backend::Ring | Backend::Native);
        for away in if is_main { &[Away::Computes, Away::Blocks][..] } else { &[Away::Computes] } {
            for who in [OtherRuntime, OtherWorker, PlainThread, Task, ForeignTask] {
                let what = (name, backend, away, who);
                is_soon(what, || serves(name, object(), who, *away, backend));
            }
        }
    }
}

/// An object around what these four have a reference to.
macro_rules! object {
    ($made:expr, |$it:ident| enlist: $enlist:expr, wait: $wait:expr, source: $source:expr, fire: $fire:expr) => {{
        let it = Arc::new($made);
        let (one, two, three) = (Arc::clone(&it), Arc::clone(&it), Arc::clone(&it));
        Object {
            enlist: Box::new(move || {
                let $it = &*it;
                in_vain($enlist);
            }),
            wait: Box::new(move || {
                let $it = &*one;
                $wait;
            }),
            future: Box::new(move || {
                let it = Arc::clone(&two);
                Box::pin(async move {
                    let $it = &*it;
                    $source.await.unwrap();
                })
            }),
            fire: Box::new(move || {
                let $it = &*three;
                $fire;
            }),
        }
    }};
}

/// Two ends of a connection, of which nobody has waited for the first: the client has, to connect.
fn connected() -> (TcpStream, TcpStream) {
    let (client, server) = common::pair();
    (server, client)
}

#[test]
fn a_stream_is_read() {
    with_every_waiter("a read from a TCP stream", || {
        object!(connected(), |it|
            enlist: it.0.readable_source(),
            wait: (&it.0).read_exact(&mut [0]).unwrap(),
            source: it.0.readable_source(),
            fire: it.1.try_write(b"x").unwrap())
    });
    with_every_waiter("a read from a Unix stream", || {
        object!(UnixStream::pair().unwrap(), |it|
            enlist: it.0.readable_source(),
            wait: (&it.0).read_exact(&mut [0]).unwrap(),
            source: it.0.readable_source(),
            fire: it.1.try_write(b"x").unwrap())
    });
}

/// Two ends of a connection, and how much was written to the first.
struct Full {
    from: TcpStream,
    to: TcpStream,
    written: AtomicUsize,
}

impl Full {
    /// Writes until there is no room. The kernel may make more of it for a while.
    fn fill(&self) {
        while let Ok(count) = self.from.try_write(&[0; 65_536]) {
            self.written.fetch_add(count, SeqCst);
        }
    }

    /// Never ready, as soon as there is no more to be had.
    fn filled(&self) -> Waitable<impl Source<Output = io::Result<()>>> {
        self.fill();
        while matches!(self.from.writable_source().or(after(Duration::from_millis(1))).wait(), Ok(Either::Left(_))) {
            self.fill();
        }
        self.from.writable_source()
    }

    fn read_all(&self) {
        while self.written.load(SeqCst) > 0 {
            let count = self.to.try_read(&mut [0; 65_536]).unwrap_or(0);
            self.written.fetch_update(SeqCst, SeqCst, |left| Some(left.saturating_sub(count))).unwrap();
        }
    }
}

#[test]
fn a_stream_is_written_to() {
    with_every_waiter("room in a TCP stream", || {
        let (from, to) = connected();
        object!(Full { from, to, written: AtomicUsize::new(0) }, |it|
            enlist: it.filled(),
            wait: (&it.from).write_all(&[0]).unwrap(),
            source: it.from.writable_source(),
            fire: it.read_all())
    });
}

#[test]
fn a_packet_is_received() {
    with_every_waiter("a UDP packet", || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let addr = socket.local_addr().unwrap();
        object!(socket, |it|
            enlist: it.readable_source(),
            wait: it.recv_from(&mut [0]).unwrap(),
            source: it.readable_source(),
            fire: it.try_send_to(b"x", addr).unwrap())
    });
}

#[test]
fn a_connection_is_accepted() {
    with_every_waiter("a connection", || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let connected = Mutex::new(None);
        object!((listener, connected), |it|
            enlist: it.0.accept_source(),
            wait: it.0.accept().unwrap(),
            source: it.0.accept_source(),
            fire: *it.1.lock().unwrap() = Some(TcpStream::connect(addr).unwrap()))
    });
}

#[test]
fn a_pipe_is_read() {
    with_every_waiter("a read from a pipe", || {
        object!(pipe::pipe().unwrap(), |it|
            enlist: it.0.readable_source(),
            wait: (&it.0).read_exact(&mut [0]).unwrap(),
            source: it.0.readable_source(),
            fire: it.1.try_write(b"x").unwrap())
    });
}

#[test]
fn a_signal_is_received() {
    with_every_waiter("a signal", || {
        object!(Signals::new(Signal::USR1).unwrap(), |it|
            enlist: it.recv_source(),
            wait: it.recv().unwrap(),
            source: it.recv_source(),
            fire: kill_process(getpid(), Kernels::from_named_raw(it.signal().as_raw()).unwrap()).unwrap())
    });
}

#[test]
fn the_end_of_a_child_is_noticed() {
    with_every_waiter("the end of a child", || {
        let mut child = process::spawn(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null())).unwrap();
        let input = Mutex::new(child.stdin.take());
        object!((child, input), |it|
            enlist: it.0.exit_source(),
            wait: it.0.exit_source().wait().unwrap().unwrap(),
            source: it.0.exit_source(),
            fire: drop(it.1.lock().unwrap().take()))
    });
}

/// A call that blocks waits for a thread, and this for a child that the worker has waited for.
#[test]
fn a_thread_that_waits_for_a_child_of_a_worker_that_waits_for_the_thread_ends() {
    for backend in [Backend::Ring, Backend::Native] {
        let test = || {
            let mut child = process::spawn(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null())).unwrap();
            let input = child.stdin.take();
            in_vain(child.exit_source());
            let waits = thread::spawn(move || child.wait().unwrap());
            let ends = thread::spawn(move || drop(input));
            blocking_here(|| assert!(waits.join().unwrap().success()));
            ends.join().unwrap();
        };
        alone(|| common::on_one_worker(backend, test));
    }
}

/// The first poll, which sets the timer, is on the worker that then computes.
#[test]
fn a_timer_of_a_task_comes_up() {
    for away in [Away::Computes, Away::Blocks] {
        for backend in [None, Some(Backend::Ring), Some(Backend::Native)] {
            is_soon((away, backend), || {
                let stage = Arc::new(Stage::default());
                let first = || {
                    let stages = Arc::clone(&stage);
                    let task = spawn_task(async move {
                        *stages.fired.lock().unwrap() = Some(Instant::now() + Duration::from_millis(10));
                        stages.waits.store(true, SeqCst);
                        after(Duration::from_millis(10)).await;
                        stages.wait(|| ());
                    });
                    while !stage.waits.load(SeqCst) {
                        yield_now().unwrap();
                    }
                    stage.is_free.store(true, SeqCst);
                    stage.be_away(away);
                    task.join().unwrap();
                };
                on_both_workers(&stage, backend, first, || ());
                was_soon(&stage, ("a timer of a task", away, backend))
            });
        }
    }
}

/// Has a fiber wait on another worker, and waits for it; unless it has not started in time.
fn sleeps_on_another_worker(stage: &Stage) {
    let here = thread::current().id();
    scope(|s| {
        let waits = s.spawn(move || {
            assert_ne!(thread::current().id(), here, "the other worker was to have it");
            stage.wait(|| assert!(sleep(Duration::MAX).unwrap_err().timed_out()));
        });
        blocking_here(|| spin("the other worker", || stage.waits.load(SeqCst) || check().is_err()));
        assert!(waits.join().is_ok() || !stage.waits.load(SeqCst));
    });
}

/// One worker has set the deadline, and computes; the other's fiber waits inside of it.
#[test]
fn a_deadline_ends_what_waits_on_another_worker() {
    for away in [Away::Computes, Away::Blocks] {
        is_soon(away, || {
            let stage = Stage::default();
            let first = || {
                scope(|s| {
                    let computes = s.spawn_local(|| {
                        while !stage.waits.load(SeqCst) {
                            yield_now().unwrap();
                        }
                        stage.be_away(away);
                    });
                    let mut limit = Duration::from_millis(20);
                    stage.is_free.store(true, SeqCst);
                    // Again, if the other worker has not come to it in time.
                    while !stage.waits.load(SeqCst) {
                        *stage.fired.lock().unwrap() = Some(Instant::now() + limit);
                        timeout(limit, || sleeps_on_another_worker(&stage));
                        limit *= 4;
                    }
                    computes.join().unwrap();
                });
            };
            on_both_workers(&stage, None, first, || ());
            was_soon(&stage, ("a deadline over fibers of another worker", away))
        });
    }
}

/// How often the thread has slept that looks at workers.
fn sleeps_of_the_looks() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten().map(|task| task.path());
    let looks = |task: &PathBuf| std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "segue-timer\n");
    let status = tasks.filter(looks).map(|task| std::fs::read_to_string(task.join("status")).unwrap());
    let switches =
        |line: &str| line.strip_prefix("voluntary_ctxt_switches:").map(|count| count.trim().parse().unwrap());
    status.map(|status| status.lines().find_map(switches).unwrap_or(0)).sum()
}

#[test]
fn a_worker_that_sleeps_is_not_looked_at_until_it_gets_up() {
    for backend in [Backend::Ring, Backend::Native] {
        let test = || {
            let (stage, (reader, writer)) = (Stage::default(), pipe::pipe().unwrap());
            in_vain(reader.readable_source());
            let (before, after) = thread::scope(|s| {
                s.spawn(|| stage.wait(|| (&reader).read_exact(&mut [0]).unwrap()));
                while !stage.waits.load(SeqCst) {
                    yield_now().unwrap();
                }
                // An idle worker is what this is about.
                sleep(Duration::from_millis(40)).unwrap();
                let before = sleeps_of_the_looks();
                sleep(Duration::from_millis(60)).unwrap();
                let after = sleeps_of_the_looks();
                writer.try_write(b"x").unwrap();
                *stage.fired.lock().unwrap() = Some(Instant::now());
                stage.be_away(Away::Computes);
                (before, after)
            });
            println!("{} looks at a worker that sleeps, {before} before", after - before);
            // One that is to sleep, and has no processor yet, is looked at.
            before > 0 && after < before + 5 && was_soon(&stage, ("after a sleep", backend))
        };
        is_soon(backend, || common::on_one_worker(backend, test));
    }
}

/// What flies in a ring is ended by the thread of this ring.
#[test]
fn a_time_limit_of_the_workers_own_comes_up_when_the_worker_is_back() {
    for backend in [Backend::Ring, Backend::Native] {
        let stage = Arc::new(Stage::default());
        let first = || {
            let (server, _client) = connected();
            server.set_read_timeout(Some(Duration::from_millis(8))).unwrap();
            scope(|s| {
                let read = s.spawn_local(|| (&server).read(&mut [0]));
                let stages = Arc::clone(&stage);
                let task = spawn_task(async move {
                    stages.waits.store(true, SeqCst);
                    after(Duration::from_millis(20)).await;
                    stages.wait(|| ());
                });
                while !stage.waits.load(SeqCst) {
                    yield_now().unwrap();
                }
                yield_now().unwrap();
                stage.is_free.store(true, SeqCst);
                stage.be_away(Away::Computes);
                assert_eq!(read.join().unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
                task.join().unwrap();
            });
        };
        alone(|| guarded(backend, || on_both_workers(&stage, Some(backend), first, || ())));
    }
}

/// Threads play through pipes that they wait for at the reactor of a worker which comes and goes.
#[test]
fn nothing_is_lost_while_a_worker_comes_and_goes() {
    const ROUNDS: u8 = 40;
    for backend in [Backend::Ring, Backend::Native, Backend::PollingOneShot] {
        let test = || {
            let pipes: Vec<_> = (0..4).map(|_| pipe::pipe().unwrap()).collect();
            pipes.iter().for_each(|(reader, _)| in_vain(reader.readable_source()));
            let over = AtomicUsize::new(0);
            thread::scope(|s| {
                for pair in pipes.chunks(2) {
                    let [(one, to_one), (other, to_other)] = pair else { unreachable!() };
                    for (from, to, begins) in [(one, to_other, true), (other, to_one, false)] {
                        let over = &over;
                        s.spawn(move || {
                            for round in 0..ROUNDS {
                                if begins {
                                    (&*to).write_all(&[round]).unwrap();
                                }
                                let mut byte = [ROUNDS];
                                (&*from).read_exact(&mut byte).unwrap();
                                assert_eq!(byte, [round]);
                                if !begins {
                                    (&*to).write_all(&byte).unwrap();
                                }
                            }
                            over.fetch_add(1, SeqCst);
                        });
                    }
                }
                let mut turns = (0..8).cycle();
                while over.load(SeqCst) < 4 {
                    let began = Instant::now();
                    let busy = Duration::from_millis(turns.next().unwrap());
                    spin("the time to pass", || began.elapsed() >= busy);
                    // So that the worker is idle for a moment.
                    sleep(Duration::from_micros(300)).unwrap();
                }
            });
        };
        alone(|| common::on_one_worker(backend, test));
    }
}
