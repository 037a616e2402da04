//! A source of one's own: a watched value, whose next change can be waited for in a fiber, awaited
//! by a task, or chosen among others. It passes the conformance suite for sources.
//!
//! The source is two closures: when it is ready, and what it yields. An observer says which version
//! it has seen, so that it misses no last value, whenever it looks; values in between it may.
//! `segue::channel::watch` is the same for values of any type, with an end.

use segue::core::{Source, WaitQueue, WaitsFor, preemption_point};
use segue::testing::Explore;
use segue::{Cancelled, Either, Waitable, after, scope, wait_future};
use segue_conformance::Sources;
use std::time::Duration;

/// A value with the number of its changes.
type Version<T> = (u64, T);

/// A value that others watch. It is copied under the lock, so copies must run no code: `T: Copy`.
pub struct Watch<T>(WaitQueue<Version<T>, Version<T>>);

impl<T: Copy> Watch<T> {
    /// A value that has not changed yet: version 0.
    pub const fn new(value: T) -> Self {
        Self(WaitQueue::new((0, value)))
    }

    /// The value of now, and its version. Never waits.
    pub fn get(&self) -> Version<T> {
        preemption_point();
        *self.0.lock().peek()
    }

    /// Changes the value, and has all waiters look. Never waits.
    pub fn set(&self, value: T) {
        preemption_point();
        let mut queue = self.0.lock();
        let version = queue.state();
        *version = (version.0 + 1, value);
        queue.notify_all(0);
    }

    /// The newest value, once it is newer than the version `seen`.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    #[track_caller]
    pub fn changed(&self, seen: u64) -> Result<Version<T>, Cancelled> {
        self.changed_source(seen).wait()
    }

    /// [`changed`](Self::changed) as a source: to be awaited, or chosen among others.
    ///
    /// # Cancellation
    /// *No effect*.
    #[track_caller]
    pub fn changed_source(&self, seen: u64) -> Waitable<impl Source<Output = Version<T>>> {
        let newer = move |(number, _): &Version<T>| *number > seen;
        Waitable::new(self.0.source(WaitsFor::new("a change"), newer, |version| *version))
    }
}

fn main() {
    Sources::new(
        "a watched value",
        || Watch::new('a'),
        |watch| watch.changed_source(0).map(drop).boxed(),
        |watch| watch.set('b'),
    )
    .lasting()
    .check();
    println!("a watched value: passed every storm of the suite for sources");

    let explored = Explore::random(200).check(|| {
        let heat = Watch::new(20);
        scope(|s| {
            let fiber = s.spawn(|| {
                let mut seen = 0;
                loop {
                    let (version, degrees) = heat.changed(seen)?;
                    assert!(version > seen, "never the same twice");
                    seen = version;
                    if degrees >= 23 {
                        return Ok::<_, Cancelled>(degrees);
                    }
                }
            });
            let task = s.spawn(|| wait_future(async { heat.changed_source(2).await.1 }));
            (21..=23).for_each(|degrees| heat.set(degrees));
            assert_eq!(fiber.join().expect("it ends well"), Ok(23), "nobody misses the last value");
            assert!(task.join().expect("it ends well").is_ok_and(|degrees| degrees == 23));
        });
        let (seen, _) = heat.get();
        let none = heat.changed_source(seen).or(after(Duration::from_secs(60))).wait();
        assert_eq!(none, Ok(Either::Right(())), "it has changed no more");
    });
    println!("a watched value: passed {} schedules", explored.schedules);
}
