//! The contract: what a scheduler implements ([`scheduler`], [`park`]), what it is handed
//! ([`fiber`], [`job`]), and the one meeting of a wait and a signal ([`trigger`]).

pub(crate) mod clock;
pub(crate) mod current;
pub(crate) mod fiber;
pub(crate) mod job;
pub(crate) mod park;
pub(crate) mod scheduler;
pub(crate) mod slots;
pub(crate) mod trigger;
