//! Jobs that no scheduler's family waits for.
//!
//! Used by shutdowns for their driver in a simulation.
#![allow(unsafe_code)] // Families wait for the jobs that are made of them.

use segue_core::JoinHandle;
use segue_core::scheduling::{Family, Job};
use std::sync::OnceLock;

/// A job that is a member of no scheduler's family: nobody waits, and nobody cancels.
pub(crate) fn job_of_nobody<F, T>(given: segue_core::Builder, f: F) -> (Job, JoinHandle<T>)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    static NONE: OnceLock<Family> = OnceLock::new();
    // SAFETY: the family is never dropped, and the closure borrows nothing.
    unsafe { NONE.get_or_init(Family::detached).job(given, f) }
}
