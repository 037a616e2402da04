//! The contract between schedulers and everything that waits. No file here names a room above, and
//! each names only those before it in this order, in which to read them:
//!
//! * [`slots`], words of headers that belong to the rooms above, and [`clock`], the timers of a
//!   scheduler, of which the contract knows as little;
//! * [`job`], a closure that has not started;
//! * [`fiber`], the header of a computation, and the trait of its scheduler;
//! * [`park`], how a worker idles, and [`current`], the slot of the running fiber;
//! * [`wakeup`], a resume that is owed, [`refusal`], the end of a wait that was cancelled, and
//!   [`trigger`], at which a wait and a signal meet.

pub(crate) mod clock;
pub(crate) mod current;
pub(crate) mod fiber;
pub(crate) mod job;
pub(crate) mod park;
pub(crate) mod refusal;
pub(crate) mod slots;
pub(crate) mod trigger;
pub(crate) mod wakeup;
