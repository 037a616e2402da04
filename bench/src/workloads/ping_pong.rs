//! `ping_pong`: two fibers send a number back and forth; an operation is a round trip: two messages and two waits.
//!
//! Every message travels through a promise or one-shot channel of its own and carries the sender for the reply. Timed: making the one-shots,
//! sending, suspending, resuming. Not timed: starting the runtime and the two fibers. With two workers a runtime may
//! place the fibers as it likes; "CPUs busy" shows whether it used both.
//!
//! May has no one-shots: its unbounded spsc channel, the fastest that it has, stands in and never holds more than one
//! message.

use super::{may_run, segue_run, smol_executor, tokio_runtime};
use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload};
use smol::Executor;

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "ping_pong", timed: "two fibers send a number back and forth, per round trip", variants };

/// The two sides over one-shot channels from `$channel`: a ping of `i` is answered by `i + 1`, `n` times. `$recv`
/// receives from the variable `$rx`; `$sent` sends `$message` to `$to` and answers whether somebody receives it. `$body` is `async move` for tasks and `move ||` for fibers. The first side measures.
macro_rules! promises {
    ($n:expr, $channel:expr, $sender:ident, |$to:ident, $message:ident| $sent:expr, |$rx:ident| $recv:expr, $($body:tt)+) => {{
        struct Message {
            number: u64,
            /// None ends the game.
            reply: Option<$sender<Message>>,
        }
        let n: u64 = $n;
        let (mut first, mut $rx) = $channel;
        let ping = $($body)+ {
            let watch = Stopwatch::start();
            let mut sum = 0;
            for number in 0..n {
                let (reply, $rx) = $channel;
                let ($to, $message) = (first, Message { number, reply: Some(reply) });
                assert!($sent, "the other side waits");
                let answer: Message = $recv.expect("pong answers");
                sum += answer.number;
                first = answer.reply.expect("pong goes on");
            }
            let span = watch.stop(n);
            assert_eq!(sum, n * (n + 1) / 2);
            let ($to, $message) = (first, Message { number: 0, reply: None });
            assert!($sent, "the other side waits");
            span
        };
        let pong = $($body)+ {
            while let Message { number, reply: Some($to) } = $recv.expect("ping goes on") {
                let (reply, next) = $channel;
                let $message = Message { number: number + 1, reply: Some(reply) };
                assert!($sent, "the other side waits");
                $rx = next;
            }
        };
        (ping, pong)
    }};
}

fn variants() -> Vec<Variant> {
    let promise = |name: &str, workers| {
        Variant::new(name, "round trip", workers)
            .add(SEGUE, move |n| {
                use segue::sync::{Resolver as Sender, promise};
                segue(
                    workers,
                    promises!(
                        n,
                        promise(),
                        Sender,
                        |to, message| {
                            to.fill(message);
                            true
                        },
                        |rx| rx.take(),
                        move ||
                    ),
                )
            })
            .add("smol", move |n| {
                use oneshot::{Sender, channel};
                smol(
                    workers,
                    promises!(n, channel(), Sender, |to, message| to.send(message).is_ok(), |rx| rx.await, async move),
                )
            })
            .add("tokio", move |n| {
                use tokio::sync::oneshot::{Sender, channel};
                tokio(
                    workers,
                    promises!(n, channel(), Sender, |to, message| to.send(message).is_ok(), |rx| rx.await, async move),
                )
            })
            .add("oneshot on tokio", move |n| {
                use oneshot::{Sender, channel};
                tokio(
                    workers,
                    promises!(n, channel(), Sender, |to, message| to.send(message).is_ok(), |rx| rx.await, async move),
                )
            })
            .add_apart("may", move |n| {
                use may::sync::spsc::{Sender, channel};
                may(
                    workers,
                    promises!(n, channel(), Sender, |to, message| to.send(message).is_ok(), |rx| rx.recv(), move ||),
                )
            })
            .add_go(&["promise"])
    };
    vec![promise("promise, one worker", 1), promise("promise, two workers", 2)]
}

/// Runs both sides as fibers and answers with what `ping` measured.
fn segue<A, B>(workers: usize, (ping, pong): (A, B)) -> Span
where
    A: FnOnce() -> Span + Send + 'static,
    B: FnOnce() + Send + 'static,
{
    segue_run(workers, || {
        let (ping, pong) = (segue::spawn(ping), segue::spawn(pong));
        pong.join().expect("no panic");
        ping.join().expect("no panic")
    })
}

/// Runs both sides as tasks of smol's executors and answers with what `ping` measured.
fn smol<A, B>(workers: usize, (ping, pong): (A, B)) -> Span
where
    A: Future<Output = Span> + Send + 'static,
    B: Future<Output = ()> + Send + 'static,
{
    if workers == 1 {
        let executor = smol_executor();
        let (ping, pong) = (executor.spawn(ping), executor.spawn(pong));
        return smol::future::block_on(executor.run(async {
            pong.await;
            ping.await
        }));
    }
    let executor = Executor::new();
    let (end, ended) = smol::channel::bounded::<()>(1);
    std::thread::scope(|threads| {
        for _ in 0..workers {
            threads.spawn(|| smol::future::block_on(executor.run(ended.recv())));
        }
        let (ping, pong) = (executor.spawn(ping), executor.spawn(pong));
        let span = smol::future::block_on(async {
            pong.await;
            ping.await
        });
        drop(end);
        span
    })
}

/// The same on tokio.
fn tokio<A, B>(workers: usize, (ping, pong): (A, B)) -> Span
where
    A: Future<Output = Span> + Send + 'static,
    B: Future<Output = ()> + Send + 'static,
{
    tokio_runtime(workers).block_on(async {
        let (ping, pong) = (tokio::spawn(ping), tokio::spawn(pong));
        pong.await.expect("no panic");
        ping.await.expect("no panic")
    })
}

/// The same on may.
fn may<A, B>(workers: usize, (ping, pong): (A, B)) -> Span
where
    A: FnOnce() -> Span + Send + 'static,
    B: FnOnce() + Send + 'static,
{
    may_run(workers, move || {
        let (ping, pong) = (may::go!(ping), may::go!(pong));
        pong.join().expect("no panic");
        ping.join().expect("no panic")
    })
}
