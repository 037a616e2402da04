//! An attempt of a transaction, in the hands of its body.
//!
//! Used by bodies, which read and write through a [`Tx`], and by `atomically.rs`, which runs them.
//!
//! # The idea
//!
//! An attempt is *opaque*: all that it reads is of one instant, the snapshot's, from its first read
//! to its last, whether it commits or not. So a body never sees half of a commit. The algorithm is
//! TL2 (Dice, Shalev, Shavit 2006) with the extension of snapshots of LSA (Riegel, Felber, Fetzer
//! 2006), and with old versions (`version.rs`) where an extension fails.
//!
//! # A read
//!
//! One load of the variable's word. If it is not locked, its version is the current one at some
//! instant after the snapshot's beginning:
//!
//! - It is not newer than the snapshot: it is the value of the snapshot's instant. (A commit that
//!   the snapshot includes has locked the word before it took its number, and the snapshot's load
//!   of the clock brings that lock along; so the word would be locked, or have the new version.)
//! - It is newer. If all that was read is still current, the snapshot *extends* to now. If not, and
//!   nothing was written, the attempt goes on in the *past*: it reads the versions as of its
//!   snapshot, and can't write any more. If it has written, it begins again.
//!
//! To extend costs a look at all that was read. So the looks of an attempt are bounded by a
//! multiple of its reads, and then it goes on in the past: a read of n variables takes a multiple
//! of n steps, however busy the writers are.
//!
//! # States of an attempt
//!
//! ```text
//!   NOW --a read finds a newer version, and can't extend, nothing is written--> PAST
//!    |                                                                           |
//!    |--commit: `commit.rs`                                                      |--end: it has read, and that is all
//!    |--begins again: a conflict                                                 |--begins again: a write, a retry
//!    '--retry: waits for a change of a variable that was read
//!
//!   TURN: all that is read or written is held, `turn.rs`; begins for `retry` alone again
//! ```
//!
//! **Cancellation**, a panic, `retry` and a conflict end an attempt alike: nothing was published,
//! and the log is dropped.
//!
//! # Why variables stay in memory
//!
//! The log has addresses of variables of which the body may drop the handles meanwhile. A variable
//! without a handle is retired as a version is (`snapshot.rs`): after the attempts that were under
//! way.
//!
//! References that a body gets live as long as the attempt: the lifetime `'t` is that of the log's
//! loan, and the body takes any, so they can't leave by the result, by a captured variable, or by
//! another thread that outlives the body.
#![allow(unsafe_code)] // Versions are reached by address.

use crate::log::{Log, Mark, Read};
use crate::snapshot::{Snapshot, clock};
use crate::stop::{Blame, Stop, Why};
use crate::turn::Turn;
use crate::var::TVar;
use crate::version::{HELD, Head, Holding, LOCKED, Version, Word, pause};
use segue_core::Cancelled;
use segue_core::scheduling::{is_simulated, preemption_point_in_body};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::ptr::NonNull;

/// How an attempt reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Now,
    Past,
    Turn,
}

/// The access of a transaction's body to variables. `'t` is the time of one attempt.
///
/// # Examples
///
/// ```
/// use segue_stm::{Stop, TVar, Tx, atomically};
///
/// fn withdraw(tx: &Tx<'_>, from: &TVar<u32>, amount: u32) -> Result<(), Stop> {
///     let balance = *tx.read(from)?;
///     tx.check(balance >= amount)?; // waits for more
///     tx.write(from, balance - amount)
/// }
/// let account = TVar::new(100);
/// atomically(|tx| withdraw(tx, &account, 30))?;
/// assert_eq!(account.get(), 70);
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
pub struct Tx<'t> {
    /// Ends after the drop has let go of the turn, since the end may run the drops of values.
    snapshot: Snapshot,
    log: RefCell<&'t mut Log>,
    turn: Option<Turn>,
    mode: Cell<Mode>,
    /// Whether a read may take the short way: the mode is `Now`, and nobody interrupts the body.
    at_once: Cell<bool>,
    /// Whether an earlier attempt has written in vain, in the past.
    writes: bool,
    /// The read that has put it into the past.
    past: Cell<Option<Blame>>,
    /// How many reads were looked at again.
    looked_at: Cell<usize>,
    /// Whether a read or write has failed: then no commit follows, also after an `Ok` of the body.
    stopped: Cell<Option<Why>>,
    /// Whether the body runs code that is apart from the attempt: see `outside.rs`.
    apart: Cell<bool>,
    /// Whether a simulator may interrupt the body.
    interrupted: bool,
    /// Its thread's.
    local: PhantomData<*const ()>,
}

impl<'t> Tx<'t> {
    #[inline]
    pub(crate) fn begin(log: &'t mut Log, turn: Option<Turn>, writes: bool) -> Self {
        let interrupted = is_simulated() && !must_not_suspend();
        Self {
            snapshot: Snapshot::begin(),
            log: RefCell::new(log),
            mode: Cell::new(if turn.is_some() { Mode::Turn } else { Mode::Now }),
            at_once: Cell::new(turn.is_none() && !interrupted),
            writes,
            past: Cell::new(None),
            looked_at: Cell::new(0),
            stopped: Cell::new(None),
            apart: Cell::new(false),
            interrupted,
            turn,
            local: PhantomData,
        }
    }

    #[inline]
    pub(crate) fn point(&self) {
        if self.interrupted {
            preemption_point_in_body();
        }
    }

    /// The value of a variable at the snapshot of this transaction, or as the transaction has
    /// written it. Neither copied nor counted; the reference lives as long as this attempt, also
    /// beyond a later write.
    ///
    /// # Errors
    /// [`Stop`] if the value has changed since other reads of this transaction, which has written
    /// already: the body begins again.
    ///
    /// # Examples
    ///
    /// A reference does not leave the transaction:
    ///
    /// ```compile_fail
    /// let name = segue_stm::TVar::new(String::from("a name"));
    /// let kept: &str = segue_stm::atomically(|tx| Ok(tx.read(&name)?.as_str())).unwrap();
    /// ```
    #[inline]
    #[track_caller]
    pub fn read<T: Send + Sync + 'static>(&self, var: &TVar<T>) -> Result<&'t T, Stop> {
        let (head, site) = (NonNull::from(var.head()), Location::caller());
        let version = match self.version_at_once(head, site) {
            Some(version) => version,
            None => self.version(head, site)?,
        };
        // SAFETY: the version is of a variable of this type, and one of the snapshot's or of the
        // log's, which are in memory for the attempt.
        Ok(unsafe { Holding::value(version) })
    }

    /// The version that most reads find: the attempt has not written the variable, and nobody else
    /// has since the snapshot.
    #[inline]
    fn version_at_once(&self, head: NonNull<Head>, site: &'static Location<'static>) -> Option<NonNull<Version>> {
        let log = &mut **self.log.borrow_mut();
        if !self.at_once.get() || log.may_own(head) {
            return None;
        }
        // SAFETY: the handle of the body keeps the variable.
        let word = unsafe { head.as_ref() }.load();
        // SAFETY: the snapshot has begun before, and the word is not locked.
        if word.has(LOCKED) || unsafe { Version::number(word.version()) } > self.snapshot.number.get() {
            return None;
        }
        log.read_at_once(head, word.version(), site).then_some(word.version())
    }

    /// The version that a read finds.
    #[cold]
    #[inline(never)]
    fn version(&self, head: NonNull<Head>, site: &'static Location<'static>) -> Result<NonNull<Version>, Stop> {
        self.point();
        let log = &mut **self.log.borrow_mut();
        if let Some(own) = log.own(head) {
            return Ok(own);
        }
        if self.is_stopped() {
            return Err(Stop(Why::Stopped));
        }
        // SAFETY: the handle of the body keeps the variable.
        let variable = unsafe { head.as_ref() };
        if self.mode.get() == Mode::Turn {
            let version = hold(log, head);
            log.read(head, version, site);
            return Ok(version);
        }
        loop {
            let version = variable.load_unlocked().version();
            // SAFETY: as in `version_at_once`, once that is unlocked.
            if unsafe { Version::number(version) } <= self.snapshot.number.get() {
                if self.mode.get() == Mode::Now {
                    log.read(head, version, site);
                }
                return Ok(version);
            }
            if self.mode.get() == Mode::Now {
                let Err(changed) = self.extend(log, Blame { head, seen: None, site }) else { continue };
                if self.writes || !log.writes.is_empty() {
                    return Err(self.stop(Why::Conflict(changed)));
                }
                self.past.set(Some(changed));
                self.mode.set(Mode::Past);
                self.at_once.set(false);
            }
            // SAFETY: as above; the number is the snapshot's.
            return Ok(unsafe { Version::as_of(version, self.snapshot.number.get()) });
        }
    }

    /// Moves the snapshot to now, if all that was read is still current.
    ///
    /// # Errors
    /// A read that is not; or the present one, after too many looks.
    fn extend(&self, log: &Log, reads: Blame) -> Result<(), Blame> {
        // An attempt that has to stay in the present looks as often as need be.
        let looked_at = self.looked_at.get() + log.reads.len();
        if looked_at > 4 * log.reads.len() + 256 && !self.writes && log.writes.is_empty() {
            return Err(reads);
        }
        self.looked_at.set(looked_at);
        let now = clock();
        let is_changed = |read: &&Read| {
            // SAFETY: a variable of the log is in memory.
            unsafe { read.head.as_ref() }.load_unlocked().version() != read.version
        };
        if let Some(changed) = log.reads.iter().find(is_changed) {
            return Err(changed.blame());
        }
        self.snapshot.number.set(now);
        Ok(())
    }

    /// Writes a value, which others see after the commit, and this transaction at once.
    ///
    /// # Errors
    /// [`Stop`] if others have committed to a variable that this has read: the body begins again.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_stm::{TVar, atomically};
    ///
    /// let list = TVar::new(vec![1]);
    /// let both = atomically(|tx| {
    ///     let before = tx.read(&list)?;
    ///     tx.write(&list, [before.as_slice(), &[2]].concat())?;
    ///     Ok((before.len(), tx.read(&list)?.len()))
    /// });
    /// assert_eq!(both, Ok((1, 2)));
    /// ```
    #[inline]
    #[track_caller]
    pub fn write<T: Send + Sync + 'static>(&self, var: &TVar<T>, value: T) -> Result<(), Stop> {
        self.point();
        let head = NonNull::from(var.head());
        match self.mode.get() {
            Mode::Now => {}
            Mode::Past => return Err(self.stop(Why::Conflict(self.past.get().expect("it is in the past")))),
            Mode::Turn => _ = hold(&mut self.log.borrow_mut(), head),
        }
        let new = Holding::make(value, Location::caller());
        self.log.borrow_mut().write(head, new, var.head().kind);
        Ok(())
    }

    /// Writes the result of `change` on the value.
    ///
    /// # Errors
    /// As for [`read`](Tx::read) and [`write`](Tx::write).
    #[inline]
    #[track_caller]
    pub fn modify<T: Send + Sync + 'static>(&self, var: &TVar<T>, change: impl FnOnce(&T) -> T) -> Result<(), Stop> {
        let value = change(self.read(var)?);
        self.write(var, value)
    }

    /// Writes `value`, and yields the one before.
    ///
    /// # Errors
    /// As for [`read`](Tx::read) and [`write`](Tx::write).
    #[inline]
    #[track_caller]
    pub fn replace<T: Send + Sync + 'static>(&self, var: &TVar<T>, value: T) -> Result<&'t T, Stop> {
        let before = self.read(var)?;
        self.write(var, value)?;
        Ok(before)
    }

    /// Waits for a change: the transaction is undone, its caller waits until another one has
    /// committed to a variable that this one has read, and then the body begins again. For a body
    /// that finds that it can't go on.
    ///
    /// # Errors
    /// Always: the [`Stop`] that the body is to return.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_stm::{TVar, atomically};
    ///
    /// let queue = TVar::new(Vec::new());
    /// let first = std::thread::scope(|s| {
    ///     s.spawn(|| atomically(|tx| tx.modify(&queue, |items| [items.as_slice(),
    ///     &[7]].concat())));
    ///     atomically(|tx| match tx.read(&queue)?.first() {
    ///         Some(first) => Ok(*first),
    ///         None => tx.retry(),
    ///     })
    /// });
    /// assert_eq!(first, Ok(7));
    /// ```
    #[cold]
    pub fn retry<R>(&self) -> Result<R, Stop> {
        let _ = self.stop(Why::Retry(None));
        Err(Stop(Why::Retry(None)))
    }

    /// [`retry`](Tx::retry) unless the condition holds.
    ///
    /// # Errors
    /// As for [`retry`](Tx::retry).
    #[inline]
    pub fn check(&self, condition: bool) -> Result<(), Stop> {
        if condition { Ok(()) } else { self.retry() }
    }

    /// The result of `first`; if that asks for a [`retry`](Tx::retry), its writes are undone and
    /// the result is that of `second`. If both ask for one, the transaction waits for a change of
    /// anything that either has read.
    ///
    /// # Errors
    /// The [`Stop`] of the one that was run last.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_stm::{TVar, atomically};
    ///
    /// let (left, right) = (TVar::new(None), TVar::new(Some(7)));
    /// let take = |var| move |tx: &segue_stm::Tx<'_>| match tx.replace(var, None)? {
    ///     Some(value) => Ok(*value),
    ///     None => tx.retry(),
    /// };
    /// assert_eq!(atomically(|tx| tx.or_else(take(&left), take(&right))), Ok(7));
    /// ```
    pub fn or_else<R>(
        &self,
        first: impl FnOnce(&Self) -> Result<R, Stop>,
        second: impl FnOnce(&Self) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        if self.is_stopped() {
            return Err(Stop(Why::Stopped));
        }
        let mark = self.mark();
        let result = first(self);
        if self.takes_back_retry() {
            self.roll_back(mark);
            return second(self);
        }
        result
    }

    /// A nested transaction: if `f` yields an error, its writes are undone, and those of the rest
    /// of the transaction stay. Variables that were made meanwhile stay, too; and all that was read
    /// counts: a [`Stop`] goes through.
    ///
    /// Around the whole body, this is a transaction that is given up with an error.
    ///
    /// # Errors
    /// The [`Stop`] of `f`; the error of `f` is in the inner result.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_stm::{TVar, atomically};
    ///
    /// let balance = TVar::new(10);
    /// let outcome = atomically(|tx| {
    ///     tx.catch(|tx| {
    ///         tx.modify(&balance, |balance| balance - 30)?;
    ///         Ok(if *tx.read(&balance)? < 0 { Err("not enough") } else { Ok(()) })
    ///     })
    /// });
    /// assert_eq!(outcome, Ok(Err("not enough")));
    /// assert_eq!(balance.get(), 10);
    /// ```
    pub fn catch<R, E>(&self, f: impl FnOnce(&Self) -> Result<Result<R, E>, Stop>) -> Result<Result<R, E>, Stop> {
        let mark = self.mark();
        let result = f(self);
        if let Ok(Err(_)) = result {
            self.roll_back(mark);
        }
        result
    }

    fn mark(&self) -> Mark {
        self.log.borrow().mark()
    }

    fn roll_back(&self, mark: Mark) {
        self.log.borrow_mut().roll_back(mark);
    }

    /// The body can't commit any more.
    #[cold]
    pub(crate) fn stop(&self, why: Why) -> Stop {
        let why = match (self.stopped.take(), why) {
            // A later retry does not make good for an earlier conflict.
            (Some(earlier @ (Why::Conflict(_) | Why::Held(_) | Why::Cancelled(_) | Why::Retry(Some(_)))), _) => earlier,
            (Some(earlier), Why::Stopped) => earlier,
            (_, why) => why,
        };
        self.stopped.set(Some(why));
        Stop(Why::Stopped)
    }

    /// The body waits for a change of the event of all that is no variable, or of what was read.
    #[cold]
    pub(crate) fn wait_outside(&self, event: TVar<()>, seen: NonNull<Version>, site: &'static Location<'static>) {
        self.log.borrow_mut().read(NonNull::from(event.head()), seen, site);
        let _ = self.stop(Why::Retry(Some(event)));
    }

    /// Sets whether the body runs code that is apart, and answers with what was so before.
    pub(crate) fn set_apart(&self, apart: bool) -> bool {
        self.apart.replace(apart)
    }

    /// A transaction is about to become a part of this one. Code that is apart can't have one: both
    /// fail.
    #[inline]
    pub(crate) fn join(&self) -> Result<(), Cancelled> {
        if self.apart.get() { Err(self.refuse()) } else { Ok(()) }
    }

    #[cold]
    fn refuse(&self) -> Cancelled {
        let refused = Cancelled::with_reason(
            "an initialiser that runs in the body of a transaction can't have one: force the cell before",
        );
        let _ = self.stop(Why::Cancelled(refused.clone()));
        refused
    }

    /// Whether the body has asked for a retry, or a transaction inside of the body, which is
    /// undone.
    fn takes_back_retry(&self) -> bool {
        let why = self.stopped.take();
        let is_retry = matches!(why, Some(Why::Retry(None)));
        self.stopped.set(why.filter(|_| !is_retry));
        is_retry
    }

    pub(crate) fn is_stopped(&self) -> bool {
        let why = self.stopped.take();
        let is_stopped = why.is_some();
        self.stopped.set(why);
        is_stopped
    }

    /// How the body has ended: by its result, unless an operation has stopped it before.
    pub(crate) fn ended<R>(&self, result: Result<R, Stop>) -> Result<R, Why> {
        match self.stopped.take() {
            Some(why) => Err(why),
            None => result.map_err(|stop| stop.0),
        }
    }

    /// Whether all that was read is of an instant that has gone by: to wait for a change is to
    /// begin again.
    pub(crate) fn is_past(&self) -> bool {
        self.mode.get() == Mode::Past
    }

    pub(crate) fn log(&self) -> &RefCell<&'t mut Log> {
        &self.log
    }

    pub(crate) fn number(&self) -> u64 {
        self.snapshot.number.get()
    }

    pub(crate) fn has_turn(&self) -> bool {
        self.mode.get() == Mode::Turn
    }
}

impl Tx<'_> {
    /// Lets go of all that the turn holds, and of the turn: for the end of the attempt, before any
    /// foreign code.
    #[inline]
    pub(crate) fn let_go(&mut self) {
        let held = &mut self.log.get_mut().held;
        while let Some(head) = held.pop() {
            // SAFETY: a variable that the attempt has met is in memory.
            unsafe { head.as_ref() }.clear(HELD);
        }
        self.turn = None;
    }
}

impl Drop for Tx<'_> {
    #[inline]
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Holds a variable, in turn, and answers its version.
fn hold(log: &mut Log, head: NonNull<Head>) -> NonNull<Version> {
    // SAFETY: the handle of the body keeps the variable.
    let variable = unsafe { head.as_ref() };
    let mut spins = 0;
    loop {
        match variable.set_unless(HELD, HELD | LOCKED) {
            Ok(word) => {
                log.held.push(head);
                return word.version();
            }
            // There is one turn, so this transaction has held the variable.
            Err(word) if word.has(HELD) => return word.version(),
            Err(_) => pause(&mut spins),
        }
    }
}

/// Whether the calling fiber must not wait already.
#[inline]
pub(crate) fn must_not_suspend() -> bool {
    // SAFETY: null, or the header of the fiber that runs this.
    unsafe { segue_core::scheduling::current().as_ref() }.is_some_and(segue_core::Fiber::must_not_suspend)
}

impl fmt::Debug for Tx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx").field("snapshot", &self.number()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Word").field("locked", &self.has(LOCKED)).field("held", &self.has(HELD)).finish()
    }
}
