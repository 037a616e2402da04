//! A parallel loop whose closures wait: each page of a catalogue is fetched from a store that has
//! three connections, and then worked on by all processors.
//!
//! The loop is written as if its closures only computed. One that waits, for a connection or for
//! the store, suspends its fiber, and others go on; on one worker all of that works, too.

use segue::par::prelude::*;
use segue::sync::Semaphore;
use segue::testing::Sim;
use segue::{Cancelled, sleep};
use std::time::Duration;

/// Far away, and slow.
struct Store {
    connections: Semaphore,
    answers_in: Duration,
}

impl Store {
    fn fetch(&self, page: u64) -> Result<Vec<u64>, Cancelled> {
        let _connection = self.connections.acquire()?;
        sleep(self.answers_in)?;
        Ok((page * 100..page * 100 + 100).collect())
    }
}

/// The sum of the squares on all pages, or the error of the first fetch that was cancelled.
fn sum_of_squares(store: &Store, pages: u64) -> Result<u64, Cancelled> {
    let sums: Vec<u64> = (0..pages)
        .into_par_iter()
        .map(|page| Ok(store.fetch(page)?.par_iter().map(|n| n * n).sum()))
        .collect::<Result<_, Cancelled>>()?;
    Ok(sums.into_iter().sum())
}

fn main() {
    let pages = 12;
    let expected = (0..pages * 100).map(|n| n * n).sum::<u64>();
    let store = || Store { connections: Semaphore::new(3), answers_in: Duration::from_secs(1) };

    // In simulated time: twelve fetches of a second each, three at a time.
    let took = Sim::new(1).run(|| {
        let began = segue::now();
        assert_eq!(sum_of_squares(&store(), pages), Ok(expected));
        segue::now() - began
    });
    assert_eq!(took.expect("nothing waits for ever"), Duration::from_secs(4));

    // A time limit ends the waits of all closures, on whichever workers they are.
    let late = segue::run(|| segue::timeout(Duration::from_millis(50), || sum_of_squares(&store(), pages)));
    assert!(late.unwrap_err().timed_out());
    println!("{pages} pages, three at a time: 4 s of simulated time; the sum is {expected}");
}
