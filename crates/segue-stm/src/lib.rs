//! Transactions on memory: several variables change in one step, and a transaction that can't go on
//! waits until one that it has read has changed.
//!
//! Fibers, plain threads and tasks of any executor run transactions on the same variables, and wait
//! in them; a transaction is also an arm of a choice. `segue` has this crate as `segue::stm`.
//!
//! ```
//! use segue_stm::{Stop, TVar, Tx, atomically};
//!
//! fn transfer(tx: &Tx<'_>, from: &TVar<u32>, to: &TVar<u32>, amount: u32) -> Result<(), Stop> {
//!     let balance = *tx.read(from)?;
//!     tx.check(balance >= amount)?; // waits until there is enough
//!     tx.write(from, balance - amount)?;
//!     tx.modify(to, |balance| balance + amount)
//! }
//!
//! let (mine, yours, savings) = (TVar::new(10), TVar::new(0), TVar::new(100));
//! // From whichever has enough; both steps together, or none.
//! atomically(|tx| {
//!     tx.or_else(|tx| transfer(tx, &mine, &yours, 30), |tx| transfer(tx, &savings, &yours, 30))
//! })?;
//! assert_eq!((mine.get(), yours.get(), savings.get()), (10, 30, 70));
//! # Ok::<(), segue_core::Cancelled>(())
//! ```
//!
//! # A body runs more than once
//!
//! The body of a transaction runs again after a conflict with another transaction, and after each
//! wait. Only its steps through its [`Tx`] are undone in between. So a body:
//!
//! * has no other effects: it prints nothing, sends nothing, and starts nothing. Its result says
//!   which effects are due, and the caller has these after the commit.
//! * does not wait, but returns [`retry`](Tx::retry). A fiber that waits in a body, for a lock, a
//!   message or a file, is refused: its wait fails with an error that says so.
//! * passes every [`Stop`] on, by `?`. A body that does not is not committed all the same.
//! * is short. Others may have to begin again because of a long one, and its memory is kept.
//!
//! A body never sees half of the work of another transaction, whether it commits later or not: all
//! that it reads is of one instant. So an `assert!` on several variables holds in every attempt.
//!
//! # A tour
//!
//! * [`TVar`] is a variable; [`get`](TVar::get) and [`set`](TVar::set) are transactions of one
//!   step.
//! * [`atomically`] runs a transaction, [`transaction`] makes a source of one: for `.await`, and
//!   for a choice with channels, sockets and deadlines.
//! * [`Tx`] reads and writes. [`retry`](Tx::retry) and [`check`](Tx::check) wait for a change,
//!   [`or_else`](Tx::or_else) has an alternative, [`catch`](Tx::catch) is a nested transaction,
//!   which an error undoes.
//! * [`TQueue`], [`TChan`], [`TMVar`], [`TMap`] and [`TSet`] are made of variables, and used in the
//!   same way: several of them change in one step.
//! * [`outside`] is for authors of state that is no variable, and that bodies wait for.
//! * [`Profile`] says which variables make transactions begin again, and on which lines.
//!
//! The algorithm is TL2 with extended snapshots and old versions, so that transactions which only
//! read never begin again; `tx.rs` and `commit.rs` have the argument, `snapshot.rs` the end of
//! memory, `turn.rs` the reason why a transaction that loses again and again comes to its end.
//! `retry` and `or_else` are those of Harris, Marlow, Peyton Jones and Herlihy (2005).

#[cfg(not(loom))]
use segue_core::plain_thread_local;

/// As core's, of the threads of a model.
#[cfg(loom)]
macro_rules! threads_of_models {
    ($($declared:tt)*) => {
        loom::thread_local! { $($declared)* }
    };
}
#[cfg(loom)]
use threads_of_models as plain_thread_local;

mod atomically;
mod attempts;
mod commit;
mod log;
mod open;
pub mod outside;
mod profile;
mod snapshot;
mod stop;
mod structures;
mod turn;
mod tx;
mod var;
mod version;
mod waits;

pub use atomically::{atomically, transaction};
pub use profile::{Conflict, Profile};
pub use stop::Stop;
pub use structures::{TBQueue, TChan, TMVar, TMap, TQueue, TSet};
pub use tx::Tx;
pub use var::TVar;
