//! Deadlines that are nested: the nearest one counts, however it got there. A request has a second
//! in all, each of its steps has a limit of its own, and what cleans up has a budget.
//!
//! In a simulation: the times are exact.

use segue::cancel::shield_for;
use segue::testing::Sim;
use segue::{Cancelled, deadline, now, sleep, timeout};
use std::time::Duration;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A step that takes so long, and may take `limit`.
fn step(takes: Duration, limit: Duration) -> Result<Duration, Cancelled> {
    timeout(limit, || sleep(takes)).map(|()| takes)
}

fn main() {
    let run = Sim::new(1).run(|| {
        let start = now();
        let since = || now() - start;
        let end = start.checked_add(ms(1000));

        let request = deadline(end, || {
            // In time.
            assert_eq!(step(ms(300), ms(400)), Ok(ms(300)));
            // Its own limit comes first. It is over with the step; the request goes on.
            let late = step(ms(300), ms(200)).unwrap_err();
            assert_eq!((late.timed_out(), since()), (true, ms(500)));
            // It has a minute, but the request has not.
            let late = step(ms(2000), ms(60_000)).unwrap_err();
            assert_eq!((late.timed_out(), since()), (true, ms(1000)));
            // A further limit does not help: what is over is over.
            assert!(timeout(ms(60_000), || sleep(ms(1))).is_err());
            // What has to be done all the same gets a budget, and of nested ones the smaller.
            let goodbye = shield_for(ms(100), || {
                sleep(ms(40))?;
                shield_for(ms(500), || sleep(ms(500)))
            });
            assert_eq!((goodbye.unwrap_err().timed_out(), since()), (true, ms(1100)));
            "late, and it says so"
        });
        assert_eq!(request, "late, and it says so");
        // Outside of the deadline nothing is left of it.
        assert_eq!(sleep(ms(1)), Ok(()));
        // What came in time is not lost, even if the time is over by then.
        assert_eq!(timeout(Duration::ZERO, || 42), 42);
    });
    run.expect("no deadlock");
    println!("the nearest deadline has counted");
}
