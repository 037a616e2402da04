//! A library that answers by callback, made into a call that waits: it is told to stop when what
//! has asked is cancelled.
//!
//! The library knows nothing of fibers: it has a thread of its own, requests with numbers, and a
//! way to take one back, as many C libraries do.

use segue::sync::promise;
use segue::{WaitError, scope, timeout};
use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

type Callback = Box<dyn FnOnce(u64) + Send>;

enum Message {
    Start(u32, u64, Callback),
    /// The number of the request, and whether it was still there.
    Stop(u32, Sender<bool>),
}

/// The library's queue. It answers what is even, at once; what is odd it never would.
static LIBRARY: LazyLock<Sender<Message>> = LazyLock::new(|| {
    let (sender, inbox) = channel();
    thread::spawn(move || {
        let mut requests = HashMap::new();
        for message in inbox {
            match message {
                Message::Start(_, number, callback) if number % 2 == 0 => callback(number / 2),
                Message::Start(request, _, callback) => drop(requests.insert(request, callback)),
                Message::Stop(request, told) => _ = told.send(requests.remove(&request).is_some()),
            }
        }
    });
    sender
});

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Half of a number, by the library. Suspends the fiber that asks.
///
/// # Cancellation
/// *No effect*: the request is taken back; `stopped` hears whether it was.
fn half(number: u64, stopped: &Sender<bool>) -> Result<u64, WaitError> {
    let request = NEXT.fetch_add(1, Ordering::Relaxed);
    let (resolver, answer) = promise();
    let stopped = stopped.clone();
    // Called by the drop of the promise, so by a `take` that is cancelled.
    resolver.on_close(move || LIBRARY.send(Message::Stop(request, stopped)).unwrap());
    let callback = Box::new(move |half| _ = resolver.fill(half));
    LIBRARY.send(Message::Start(request, number, callback)).unwrap();
    answer.take()
}

fn main() {
    let (stopped, stops) = channel();
    segue::run(|| {
        assert_eq!(half(84, &stopped), Ok(42));
        // Nobody waits any longer than that.
        let late = timeout(Duration::from_millis(5), || half(7, &stopped));
        println!("7: {}", late.unwrap_err());
        // Three requests, and the scope that has made them is cancelled.
        scope(|s| {
            let stopped = &stopped;
            let [first, second, even] = [9, 11, 20].map(|number| s.spawn(move || half(number, stopped)));
            println!("20: {}", even.join().unwrap().unwrap());
            s.cancel_with("enough");
            drop((first, second));
        });
    });
    drop(stopped);
    // Each request that was begun and not answered was taken back.
    let taken_back: Vec<bool> = stops.iter().collect();
    println!("{} were taken back", taken_back.len());
    assert!((1..=3).contains(&taken_back.len()) && taken_back.iter().all(|was_there| *was_there));
}
