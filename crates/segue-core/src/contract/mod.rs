//! The contract between schedulers and everything that waits. `docs/contract.md` has the clauses,
//! which comments cite by their numbers. This is a *room*, a folder of modules; the rooms stand in
//! an order, and a file imports from its own room and from those before, here from `primitives`
//! alone. Docs name rooms above only to say which of them uses a thing, or has its other half.
//!
//! # Words
//!
//! A *fiber* is a computation that can be suspended. A *structure* makes fibers wait: a mutex, a
//! scope. To *claim* is to win the right to end the wait of a *waiter*. A *task* is a future that
//! somebody polls; to structures the task is a fiber like any other. A *driver* waits for the
//! kernel, in the *park* of a *worker*, a thread of a scheduler. A *bridge* joins another runtime.
//! A *turn* is the time of a fiber between two switches. A *context* is a node of the tree of
//! cancellation: its *canceller* ends the waits of all fibers inside, up to a *shield*. A *family*
//! is the fibers that one owner waits for: a scope, or for *detached* fibers the runtime. An effect
//! or a generator *captures* the computation up to its handler.
//!
//! Of `primitives`: `local!` is a variable of a thread, without a destructor; `Links` belong to an
//! intrusive list; a `Record` has one word for each type; `Shown` is a `Cell`, which other threads
//! read in debug builds; a `Switch` goes from one stack to another.
//!
//! # Reading order
//!
//! * [`job`], a closure that has not started;
//! * [`fiber`], the header of a computation, and the trait of its scheduler;
//! * [`slots`], words of these headers that belong to the rooms above, and [`clock`], the timers of
//!   a scheduler, of which the contract knows as little;
//! * [`park`], how a worker idles, and [`current`], the slot of the running fiber;
//! * [`wakeup`], a resume that is owed, and [`trigger`], at which a wait and a signal meet;
//! * [`refusal`], the end of a wait that was cancelled before its claim.
//!
//! # For the author of a scheduler, from above
//!
//! | thing | where |
//! | --- | --- |
//! | to make a `Switch`, or a stack | `segue_fiber::begin_suspend`, `Coroutine`: `segue-fiber/src/coroutine.rs` |
//! | `Job::run`, which runs a job on the fiber that its header was made for, and does not unwind (J3) | `values/run.rs` |
//! | `Timers`: `real` makes them, `fire` comes between turns (18), `close` at the end | `timers/mod.rs` |
//! | `Fiber::set_scheduler`, the move to another scheduler of the thread (2) | `tree/membership.rs` |
//! | `begin_turn`, for an executor that polls tasks without fibers | `wait/admission.rs` |
//! | interrupts that are left when a fiber ends: taken out before the header goes (4) | `switch_to` in `segue-sched/src/plain.rs` |

pub(crate) mod clock;
pub(crate) mod current;
pub(crate) mod fiber;
pub(crate) mod job;
pub(crate) mod park;
pub(crate) mod refusal;
pub(crate) mod slots;
pub(crate) mod trigger;
pub(crate) mod wakeup;
