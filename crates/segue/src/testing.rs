//! Tests of programs that run concurrently: many schedules, simulated time, seeds.
//!
//! Used by tests. The attribute [`test`](macro@crate::test) calls [`Explore`] for a function;
//! `docs/testing.md` has the ways to use them.

pub use segue_core::random;
#[cfg(feature = "sched")]
pub use segue_sched::{
    BadSchedule, Cause, Deadlock, Explore, Explored, Failure, Leaks, Schedule, Shrunk, Sim, Verdict, settle,
};
