//! Many requests, but not more than three at a time: a permit of a semaphore goes along with each
//! fiber. It runs in simulated time: the seconds pass at once.

use segue::sync::Semaphore;
use segue::testing::Sim;
use segue::{Cancelled, now, scope, sleep};
use std::time::Duration;

/// A request that takes a second.
fn fetch(page: u32) -> Result<String, Cancelled> {
    sleep(Duration::from_secs(1))?;
    Ok(format!("page {page}"))
}

fn main() {
    let (pages, took) = Sim::new(1)
        .run(|| {
            let (start, limit) = (now(), Semaphore::new(3));
            let pages: Vec<String> = scope(|s| {
                let fibers: Vec<_> = (1..=10)
                    .map(|page| {
                        // The loop waits here, so no more fibers are spawned than may run.
                        let permit = limit.acquire().expect("nobody closes it");
                        s.spawn(move || {
                            let _until_the_end = permit;
                            fetch(page)
                        })
                    })
                    .collect();
                fibers.into_iter().map(|fiber| fiber.join().unwrap().unwrap()).collect()
            });
            (pages, now() - start)
        })
        .expect("no deadlock");
    println!("{} pages in {took:?}", pages.len());
    assert_eq!((pages[0].as_str(), pages[9].as_str()), ("page 1", "page 10"));
    assert_eq!(took, Duration::from_secs(4), "ten requests, three at a time");
}
