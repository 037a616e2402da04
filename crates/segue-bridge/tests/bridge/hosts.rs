//! Every host against every other at promises: whoever waits is told, whatever it and the other run
//! on. And tasks of one thread that never have to wait: their neighbours have turns.

use crate::common;

use common::{Host, Side};
use futures::StreamExt;
use futures::task::LocalSpawnExt;
use segue::sync::{MVar, Mutex as FairMutex, Promise, Resolver, Semaphore, promise};
use segue::{Either, channel};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// A side that fills `there` and then waits for the answer.
fn asks(there: Resolver<u32>, answer: Promise<u32>, n: u32) -> Side {
    // Only one of the two forms is run, so they share what they use.
    let parts = Arc::new(Mutex::new(Some((there, answer))));
    let again = Arc::clone(&parts);
    Side::new(
        move || {
            let (there, answer) = parts.lock().unwrap().take().unwrap();
            there.fill(n).unwrap();
            assert_eq!(answer.take(), Ok(n + 1));
        },
        async move {
            let (there, mut answer) = again.lock().unwrap().take().unwrap();
            there.fill(n).unwrap();
            assert_eq!(answer.take_source().await, Ok(n + 1));
        },
    )
}

/// A side that waits for a number and answers with the next.
fn answers(promised: Promise<u32>, back: Resolver<u32>) -> Side {
    let parts = Arc::new(Mutex::new(Some((promised, back))));
    let again = Arc::clone(&parts);
    Side::new(
        move || {
            let (promised, back) = parts.lock().unwrap().take().unwrap();
            back.fill(promised.take().unwrap() + 1).unwrap();
        },
        async move {
            let (mut promised, back) = again.lock().unwrap().take().unwrap();
            let n = promised.take_source().await.unwrap();
            back.fill(n + 1).unwrap();
        },
    )
}

#[test]
fn each_host_fills_what_each_other_waits_for() {
    for (one, other) in Host::pairs() {
        println!("{one} waits for {other}");
        // A host whose jobs park their worker can have only so many that wait.
        let sides = (0..4).map(|n| {
            let (there, promised) = promise();
            let (back, answer) = promise();
            (one.spawn(answers(promised, back)), other.spawn(asks(there, answer, n)))
        });
        for (answering, asking) in sides.collect::<Vec<_>>() {
            answering.join();
            asking.join();
        }
    }
}

#[test]
fn executors_that_block_their_thread_await_what_each_host_fills() {
    for host in Host::ALL {
        for n in 0..20 {
            let (there, promised) = promise();
            let (back, mut answer) = promise();
            let running = host.spawn(answers(promised, back));
            let task = async move {
                there.fill(n).unwrap();
                answer.take_source().await
            };
            let answer = match n % 4 {
                0 => futures::executor::block_on(task),
                1 => futures::executor::LocalPool::new().run_until(task),
                2 => smol::block_on(task),
                _ => segue_bridge::wait(task).unwrap(),
            };
            assert_eq!(answer, Ok(n + 1));
            running.join();
        }
    }
}

#[test]
fn many_of_each_pair_at_once() {
    // Without rayon, whose workers are parked by jobs that wait, and the simulator, which is a
    // thread for each side.
    let hosts = [Host::Fifo, Host::Stealing, Host::TokioCurrent, Host::TokioMulti, Host::Smol];
    for one in hosts {
        for other in hosts {
            let sides = (0..200).map(|n| {
                let (there, promised) = promise();
                let (back, answer) = promise();
                (one.spawn(answers(promised, back)), other.spawn(asks(there, answer, n)))
            });
            for (answering, asking) in sides.collect::<Vec<_>>() {
                answering.join();
                asking.join();
            }
        }
    }
}

#[test]
#[should_panic(expected = "planted")]
fn a_side_that_fails_fails_its_test() {
    let fails = || Side::new(|| panic!("planted"), async { panic!("planted") });
    // All but the last are looked at here.
    for host in &Host::ALL[1..] {
        let running = host.spawn(fails());
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| running.join())).is_err());
    }
    Host::ALL[0].spawn(fails()).join();
}

/// More operations than a turn has, by far.
const MANY: usize = 100_000;

/// A task that always finds something; `is_over` ends it. It answers how many operations it has
/// made.
type Busy = fn(Arc<AtomicBool>) -> Pin<Box<dyn Future<Output = usize>>>;

macro_rules! busy {
    ([$($name:ident = $made:expr),*] $operation:expr) => {
        |is_over| Box::pin(async move {
            $(#[allow(unused_mut)] let mut $name = $made;)*
            for n in 0..MANY {
                if is_over.load(SeqCst) {
                    return n;
                }
                $operation;
            }
            MANY
        })
    };
}

const BUSY: &[(&str, Busy)] = &[
    ("permits", busy!([permits = Semaphore::new(1)] drop(permits.acquire_source().await.unwrap()))),
    ("a lock", busy!([lock = FairMutex::new(0)] * lock.lock_source().await += 1)),
    (
        "messages",
        busy!([ends = channel::bounded(1)] {
            ends.0.send_source(1).await.unwrap();
            ends.1.recv_source().await.unwrap();
        }),
    ),
    (
        "a choice",
        busy!([never = MVar::<u8>::empty(), place = MVar::new(1)] {
            let Either::Right(taken) = never.take_source().or(place.take_source()).await else { unreachable!() };
            place.put_source(taken).await;
        }),
    ),
    (
        "a wait that is given up each time",
        busy!([never = MVar::<u8>::empty(), permits = Semaphore::new(1)] {
            let waits = pin!(never.take_source().into_future());
            let acquires = pin!(permits.acquire_source().into_future());
            assert!(matches!(futures::future::select(waits, acquires).await, futures::future::Either::Right(_)));
        }),
    ),
    (
        "a stream",
        busy!([stream = {
        let (sender, receiver) = channel::unbounded();
        (0..MANY).for_each(|n| sender.send(n).unwrap());
        segue_bridge::streams::stream_of(receiver)
    }] stream.next().await.unwrap()),
    ),
];

/// Runs both as tasks of one thread's executor, and answers as the first does.
type Executor = fn(Pin<Box<dyn Future<Output = usize>>>, Pin<Box<dyn Future<Output = ()>>>) -> usize;

const EXECUTORS: &[(&str, Executor)] = &[
    ("tokio", |busy, neighbour| {
        let local = tokio::task::LocalSet::new();
        let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let busy = local.spawn_local(busy);
        local.spawn_local(neighbour);
        local.block_on(&tokio, busy).unwrap()
    }),
    // Without the budget that tokio gives its own tasks.
    ("tokio, unconstrained", |busy, neighbour| {
        let local = tokio::task::LocalSet::new();
        let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let busy = local.spawn_local(tokio::task::unconstrained(busy));
        local.spawn_local(neighbour);
        local.block_on(&tokio, busy).unwrap()
    }),
    ("smol", |busy, neighbour| {
        let smol = smol::LocalExecutor::new();
        let busy = smol.spawn(busy);
        smol.spawn(neighbour).detach();
        smol::block_on(smol.run(busy))
    }),
    ("a pool of one thread", |busy, neighbour| {
        let mut pool = futures::executor::LocalPool::new();
        pool.spawner().spawn_local(neighbour).unwrap();
        pool.run_until(busy)
    }),
    ("one task", |busy, neighbour| smol::block_on(async { futures::join!(busy, neighbour).0 })),
];

#[test]
fn a_task_that_always_finds_something_gives_its_neighbours_a_turn() {
    for (executor, run) in EXECUTORS {
        for (what, busy) in BUSY {
            // The neighbour finds something, too, in each of its turns.
            let (is_over, permits) = (Arc::new(AtomicBool::new(false)), Semaphore::new(1));
            let ends = Arc::clone(&is_over);
            let neighbour = async move {
                for _ in 0..1_000 {
                    drop(permits.acquire_source().await.unwrap());
                }
                ends.store(true, SeqCst);
            };
            let made = run(busy(is_over), Box::pin(neighbour));
            assert!(made < MANY / 10, "{executor}, {what}: {made} operations before the neighbour was through");
        }
    }
}
