//! Pools and workers, on the local engine; with the feature `nats` also on Debian's server of NATS,
//! which the tests start and end.
//!
//! * `suite.rs`: one table of cases for all engines; `seam.rs` and `pools.rs` are the cases.
//! * `jobs.rs`: the jobs of these tests.
//! * `simulated.rs`: the local engine under simulated time and many schedules.
//! * `server.rs`: the server, and a proxy before it; `faults.rs`, `bad_input.rs`, `leases.rs`,
//!   `keys.rs`, `storm.rs`: with these.

#[cfg_attr(not(feature = "nats"), allow(dead_code, reason = "some are for workers that are processes"))]
mod jobs;
mod pools;
mod seam;
mod simulated;
mod suite;

#[cfg(feature = "nats")]
mod bad_input;
#[cfg(feature = "nats")]
mod faults;
#[cfg(feature = "nats")]
mod keys;
#[cfg(feature = "nats")]
mod leases;
#[cfg(feature = "nats")]
mod server;
#[cfg(feature = "nats")]
mod storm;

use std::time::{Duration, Instant};

/// Waits until this is true, with a limit that shows.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "still waiting until {what}");
        segue::sleep(Duration::from_millis(2)).unwrap();
    }
}
