//! Transactions, as users run them.
//!
//! Used by programs that change something in one step; `attempts.rs` has the steps.
use crate::attempts::{Attempts, Use, looks_again};
use crate::commit::{tell, write_blindly};
use crate::log::Taken;
use crate::open;
use crate::stop::{Stop, stopped};
use crate::turn::Turn;
use crate::tx::Tx;
use crate::var::TVar;
use crate::version::Holding;
use segue_core::{Cancelled, Source, Waitable, admit, wait};
use std::panic::Location;
use std::ptr::NonNull;

/// The result of `body`, which takes place at one instant, or not at all. Without a conflict the
/// body runs once; after one, and after each [`retry`](Tx::retry), again. So the body has no
/// effects but those of its [`Tx`], and its captured variables are not changed (it is an `Fn`).
///
/// All that the body reads is of one instant, also in an attempt that will begin again. A body does
/// not wait: a fiber's wait in it is refused, and a body that needs a change returns `retry`. A
/// transaction inside of the body is a part of the one around. A panic of the body leaves no trace
/// of the transaction.
///
/// Transactions that only read never begin again, and disturb nobody. One that has had 16 conflicts
/// gets its turn: then all others give way. A transaction that has read nothing, and retries, would
/// wait for ever, and fails at once.
///
/// # Cancellation
/// *No effect*: before the commit, nothing has happened. A transaction that has committed is not
/// cancelled any more.
///
/// # Errors
/// [`Cancelled`] if the caller was cancelled, or if the body returns an error of a wait or check;
/// with a reason, if it retries without a read.
///
/// # Panics
/// If the body does.
///
/// # Examples
///
/// ```
/// use segue_stm::{TVar, atomically};
///
/// let (seats, sold) = (TVar::new(1), TVar::new(0));
/// let buy = || atomically(|tx| {
///     let left = *tx.read(&seats)?;
///     tx.check(left > 0)?; // waits for one
///     tx.write(&seats, left - 1)?;
///     tx.modify(&sold, |sold| sold + 1)
/// });
/// std::thread::scope(|s| {
///     s.spawn(buy);
///     s.spawn(buy);
///     seats.set(2).unwrap();
/// });
/// assert_eq!(sold.get(), 2);
/// ```
#[track_caller]
pub fn atomically<R>(body: impl for<'t> Fn(&Tx<'t>) -> Result<R, Stop>) -> Result<R, Cancelled> {
    wait(&mut Attempts::new(body, Use::Call))?
}

/// A transaction as a source: to be awaited by a task, or an arm of a choice. The transaction takes
/// place if the arm is chosen, and then only. Otherwise as [`atomically`].
///
/// # Cancellation
/// *No effect*: as [`atomically`].
///
/// # Panics
/// If the body does; where [`atomically`] has an error of the body's own, which waits, or retries
/// without a read; and inside of the body of another transaction, which has [`atomically`].
///
/// # Examples
///
/// ```
/// use segue_core::{Either, after};
/// use segue_stm::{TVar, transaction};
/// use std::time::Duration;
///
/// let flag = TVar::new(false);
/// let raised = transaction(|tx| tx.check(*tx.read(&flag)?));
/// let first = raised.or(after(Duration::from_millis(1))).wait()?;
/// assert_eq!(first, Either::Right(()));
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
#[track_caller]
pub fn transaction<R>(body: impl for<'t> Fn(&Tx<'t>) -> Result<R, Stop>) -> Waitable<impl Source<Output = R>> {
    Waitable::new(Attempts::new(body, Use::Choice)).map(|result| match result {
        Ok(value) => value,
        Err(cancelled) => panic!("a transaction in a choice or a task has failed: {cancelled}"),
    })
}

impl<T: Send + Sync + 'static> TVar<T> {
    /// Writes a value: a transaction of one write, or a part of the transaction around.
    ///
    /// # Cancellation
    /// *No effect*: nothing is written, as by [`atomically`].
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    #[track_caller]
    pub fn set(&self, value: T) -> Result<(), Cancelled> {
        admit()?;
        let mut value = Some(value);
        let inside = open::with_outer(|outer| {
            outer.join()?;
            outer.write(self, value.take().expect("it is there")).map_err(|_| stopped())
        });
        if let Some(written) = inside {
            return written;
        }
        let at = Location::caller();
        let new = Holding::make(value.expect("there is no transaction around"), at);
        let mut log = Taken::take();
        log.get().write(NonNull::from(self.head()), new, self.head().kind);
        let told = loop {
            match write_blindly(log.get()) {
                Some(told) => break told,
                None if looks_again() => {}
                None => wait(&mut Turn::free(at))?,
            }
        };
        // Before the drop of the value, which may wait for one that is told.
        tell(told);
        Ok(())
    }
}
