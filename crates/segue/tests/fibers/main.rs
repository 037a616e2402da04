//! Fibers: how they start and end, where they run, and everything about them as values.

#[cfg(feature = "sched")]
#[path = "../common/meet.rs"]
mod meet;

mod concurrent;
mod current_fiber;
mod delayed;
mod errors;
mod fiber_locals;
mod forgotten;
mod handles;
mod local_fibers;
mod named_places;
mod nested_runs;
mod no_suspend;
mod panic_pairs;
mod planted;
mod pushed;
mod pushed_fibers;
mod recursion;
mod scope_ends;
mod switches_and_groups;
mod thesis;
mod try_scopes;
mod zoo;
