//! A pool of workers that takes jobs from a channel. The results come in the order of the jobs,
//! whoever is done first; and the pool is bounded: jobs that nobody has room for are not made yet.
//!
//! A job carries the resolver of a promise. The promises travel in a channel of their own, in the
//! order of the jobs.

use segue::sync::{Resolver, promise};
use segue::testing::Explore;
use segue::{Cancelled, channel, scope, yield_now};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What `work` makes of each item, in the order of the items, by so many workers at a time.
fn in_order<T: Send, R: Send + Sync>(
    workers: usize,
    items: impl Iterator<Item = T> + Send,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let (jobs, inbox) = channel::bounded::<(T, Resolver<R>)>(workers);
    let (promises, results) = channel::bounded(workers);
    let work = &work;
    scope(|s| {
        for inbox in vec![inbox; workers] {
            s.spawn(move || {
                for (item, resolver) in inbox {
                    // If nobody wants the result any more, there is nothing to be done.
                    _ = resolver.fill(work(item));
                }
            });
        }
        s.spawn(move || {
            for item in items {
                let (resolver, promise) = promise();
                promises.send(promise)?;
                jobs.send((item, resolver))?;
            }
            Ok::<(), Cancelled>(())
        });
        results.into_iter().map(|result| result.take().expect("a worker fills it")).collect()
    })
}

fn main() {
    let explored = Explore::random(200).check(|| {
        let (made, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let items = (0..20_usize).inspect(|_| {
            let waiting = made.fetch_add(1, Relaxed) - done.load(Relaxed);
            assert!(waiting <= 12, "no more are under way than workers and channels take");
        });
        let squares = in_order(4, items, |n| {
            // Some take longer than others.
            (0..n * 7 % 5).for_each(|_| yield_now().expect("nobody cancels"));
            done.fetch_add(1, Relaxed);
            n * n
        });
        assert!(squares.into_iter().eq((0..20).map(|n| n * n)), "in the order of the items");
    });
    println!("twenty jobs, four workers, results in order: under {} schedules", explored.schedules);
}
