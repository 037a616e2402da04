//! The contract between schedulers and everything that waits. It names no room above, and is read
//! from the top, in this order:
//!
//! * [`slots`], words of headers that belong to the rooms above, and [`clock`], the timers of a
//!   scheduler, of which the contract knows as little;
//! * [`job`], a closure that has not started;
//! * [`fiber`], the header of what runs, and the trait of its scheduler;
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
