//! Cells that fibers, tasks and threads share: locks, variables, counters, values that come once.
#![cfg(feature = "sched")]

#[path = "../common/counts.rs"]
mod counts;
#[path = "../common/meet.rs"]
mod meet;

mod barrier;
mod cells;
mod condvar;
mod connection_pool;
mod latches;
mod lazies;
mod mutex;
mod mvar;
mod mvar_conservation;
mod notifications;
mod oneshots;
mod promises;
mod rwlock;
mod semaphore;
