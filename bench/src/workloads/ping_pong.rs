//! `ping_pong`: two fibers send a number back and forth; an operation is a round trip: two messages
//! and two waits.
//!
//! `promise`: every message travels through a promise or one-shot channel of its own and carries
//! the sender for the reply. Timed: making the one-shots, sending, suspending, resuming. `channel`:
//! one channel of capacity 1 (or `MVar`) for each direction, made before the clock starts; timed:
//! sending, suspending, resuming. Not timed: starting the runtime and the two fibers. With two
//! workers a runtime may place the fibers as it likes; "CPUs busy" shows whether it used both.
//!
//! May has no one-shots and no bounded channels: its unbounded spsc channel, the fastest that it
//! has, stands in for both and never holds more than one message.

use super::channels::{AsyncChannel, Calls, Crossfire, Flume, Kanal, MVar, May, Tasks, Tokio};
use super::{pair, policies};
use crate::measure::{Span, Stopwatch, Variant, Workload};

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "ping_pong", timed: "two fibers send a number back and forth, per round trip", variants };

/// The two sides over one-shot channels from `$channel`: a ping of `i` is answered by `i + 1`, `n`
/// times. `$recv` receives from the variable `$rx`; `$sent` sends `$message` to `$to` and answers
/// whether somebody receives it. `$body` is `async move` for tasks and `move ||` for fibers. The
/// first side measures.
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
        policies::add_all(Variant::new(name, "round trip", workers), move |policy, n| {
            use segue::sync::{Resolver as Sender, promise};
            pair::segue(
                policy,
                workers,
                promises!(
                    n,
                    promise(),
                    Sender,
                    |to, message| {
                        to.fill(message).unwrap();
                        true
                    },
                    |rx| rx.take(),
                    move ||
                ),
            )
        })
        .add("smol", move |n| {
            use oneshot::{Sender, channel};
            pair::smol(
                workers,
                promises!(n, channel(), Sender, |to, message| to.send(message).is_ok(), |rx| rx.await, async move),
            )
        })
        .add("tokio", move |n| {
            use tokio::sync::oneshot::{Sender, channel};
            pair::tokio(
                workers,
                promises!(n, channel(), Sender, |to, message| to.send(message).is_ok(), |rx| rx.await, async move),
            )
        })
        .add("oneshot on tokio", move |n| {
            use oneshot::{Sender, channel};
            pair::tokio(
                workers,
                promises!(n, channel(), Sender, |to, message| to.send(message).is_ok(), |rx| rx.await, async move),
            )
        })
        .add_apart("may", move |n| {
            use may::sync::spsc::{Sender, channel};
            pair::may(
                workers,
                promises!(n, channel(), Sender, |to, message| to.send(message).is_ok(), |rx| rx.recv(), move ||),
            )
        })
        .add_go(&["promise"])
    };
    let channel = |name: &str, workers| {
        policies::add_all(Variant::new(name, "round trip", workers), move |policy, n| {
            pair::segue(policy, workers, calls::<MVar>(n))
        })
        .add("tokio", move |n| pair::tokio(workers, tasks::<Tokio>(n)))
        .add("kanal on tokio", move |n| pair::tokio(workers, tasks::<Kanal>(n)))
        .add("kanal on smol", move |n| pair::smol(workers, tasks::<Kanal>(n)))
        .add("crossfire on tokio", move |n| pair::tokio(workers, tasks::<Crossfire>(n)))
        .add("crossfire on smol", move |n| pair::smol(workers, tasks::<Crossfire>(n)))
        .add("flume on tokio", move |n| pair::tokio(workers, tasks::<Flume>(n)))
        .add("smol", move |n| pair::smol(workers, tasks::<AsyncChannel>(n)))
        .add_apart("may", move |n| pair::may(workers, calls::<May>(n)))
        .add_go(&["channel"])
    };
    vec![
        promise("promise, one worker", 1),
        promise("promise, two workers", 2),
        channel("channel of capacity 1, one worker", 1),
        channel("channel of capacity 1, two workers", 2),
    ]
}

/// The two sides over a channel for each direction. The game before the first that counts shows
/// that both have started.
fn tasks<C: Tasks>(n: u64) -> (impl Future<Output = Span> + Send + 'static, impl Future<Output = ()> + Send + 'static) {
    let (mut to_pong, mut from_ping) = C::new();
    let (mut to_ping, mut from_pong) = C::new();
    let ping = async move {
        assert!(C::send(&mut to_pong, 0).await, "the other side waits");
        let mut sum = C::recv(&mut from_pong).await.expect("pong answers") - 1;
        let watch = Stopwatch::start();
        for number in 0..n {
            assert!(C::send(&mut to_pong, number).await, "the other side waits");
            sum += C::recv(&mut from_pong).await.expect("pong answers");
        }
        let span = watch.stop(n);
        assert_eq!(sum, n * (n + 1) / 2);
        span
    };
    let pong = async move {
        while let Some(number) = C::recv(&mut from_ping).await {
            assert!(C::send(&mut to_ping, number + 1).await, "the other side waits");
        }
    };
    (ping, pong)
}

/// The same as closures.
fn calls<C: Calls>(n: u64) -> (impl FnOnce() -> Span + Send + 'static, impl FnOnce() + Send + 'static) {
    let (to_pong, mut from_ping) = C::new();
    let (to_ping, mut from_pong) = C::new();
    let ping = move || {
        assert!(C::send(&to_pong, 0), "the other side waits");
        let mut sum = C::recv(&mut from_pong).expect("pong answers") - 1;
        let watch = Stopwatch::start();
        for number in 0..n {
            assert!(C::send(&to_pong, number), "the other side waits");
            sum += C::recv(&mut from_pong).expect("pong answers");
        }
        let span = watch.stop(n);
        assert_eq!(sum, n * (n + 1) / 2);
        assert!(C::send(&to_pong, END), "the other side waits");
        span
    };
    let pong = move || {
        while let Some(number) = C::recv(&mut from_ping).filter(|number| *number != END) {
            assert!(C::send(&to_ping, number + 1), "the other side waits");
        }
    };
    (ping, pong)
}

/// Ends a game of `calls`: an `MVar` cannot be closed.
const END: u64 = u64::MAX;
