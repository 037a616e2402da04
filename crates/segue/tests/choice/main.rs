//! Choices among sources, and the cancellation of waits.

#[cfg(feature = "sched")]
#[path = "../common/meet.rs"]
mod meet;

mod cancel_moments;
mod cancelled_source;
mod cancelled_waiters;
mod choices;
mod combinators;
mod given_up;
mod kept_futures;
mod merge;
mod select;
mod source_storms;
mod task_turns;
mod tokens;
mod two_stages;
mod waiting_wakers;
