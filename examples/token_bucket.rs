//! A rate limiter: a bucket of tokens, of which one comes every 100 milliseconds, up to a burst of
//! three. A bounded channel is the bucket, and the ticks of an interval fill it. It runs in
//! simulated time, so the seconds pass at once, and the times are exact. `RateLimiter`
//! in `segue::concurrent` needs no fiber that fills it.

use segue::channel::{self, Receiver, Sender};
use segue::testing::Sim;
use segue::{Cancelled, WaitError, interval, now, sleep, try_scope};
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(100);
const BURST: usize = 3;

/// Puts a token into the bucket at each tick; one for which there is no room is lost.
fn fill(bucket: &Sender<()>) -> Result<(), Cancelled> {
    let mut ticks = interval(EVERY);
    while !bucket.is_closed() {
        ticks.tick()?;
        _ = bucket.try_send(());
    }
    Ok(())
}

/// Makes that many requests, each as soon as it has a token; answers when, in milliseconds.
fn requests(number: usize, bucket: &Receiver<()>) -> Result<Vec<u128>, WaitError> {
    let start = now();
    (0..number)
        .map(|_| {
            bucket.recv()?;
            Ok((now() - start).as_millis())
        })
        .collect()
}

fn main() {
    let (at_first, after_a_break) = Sim::new(1)
        .run(|| {
            let (bucket, tokens) = channel::bounded(BURST);
            (0..BURST).for_each(|_| bucket.try_send(()).expect("the bucket starts full"));
            try_scope(|s| {
                s.spawn(move || fill(&bucket));
                let at_first = requests(7, &tokens)?;
                sleep(Duration::from_millis(1050))?;
                let after_a_break = requests(5, &tokens)?;
                drop(tokens);
                Ok::<_, WaitError>((at_first, after_a_break))
            })
        })
        .expect("no deadlock")
        .expect("nobody cancels");
    println!("requests at {at_first:?} ms, and {after_a_break:?} ms after a break");
    assert_eq!(at_first, [0, 0, 0, 100, 200, 300, 400]);
    assert_eq!(after_a_break, [0, 0, 0, 50, 150], "a break saves up one burst, and no more");
}
