//! The commit of an attempt.
//!
//! Used by `atomically.rs`, at the end of a body.
//!
//! An attempt that has written nothing has nothing to commit: all that it has read is of one
//! instant, and at that instant the transaction takes place. Others:
//!
//! 1. **Lock** all variables that are written, in the order of their addresses. A variable that
//!    another committer has locked is waited for a moment, one that is held is not.
//! 2. **Number**: the next of the clock. This is the commit point, if the next step succeeds.
//! 3. **Validate**: each version that was read is still the current one, and nobody else has it
//!    locked. Without a commit since the snapshot this is known.
//! 4. **Publish** each new version, which unlocks; and find which variables are waited for.
//!
//! Waiters are told after all locks are released, in `no_suspend`, since to resume a task is to
//! call foreign code; and before the attempt's values are dropped, since a drop may wait for a
//! waiter.
//!
//! **The race to fear**: two transactions read the variables that the other writes. Each locks
//! before it validates, so at least one finds the lock of the other, or its new version.
//!
//! **A wake-up that is lost** would be one of a waiter that registers meanwhile. A waiter sets
//! WAITERS in the word and then compares the version; the publication exchanges that word. So
//! either the publication brings WAITERS along, or the waiter finds the new version.
//!
//! # Orderings
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | the clock's advance, after the locks | a snapshot's load of the clock | the locks: a word that a commit of the snapshot writes is seen locked, or with the new version |
//! | the publication | the load of the word by a read | the version and its value |
//! | the publication, or the unlock in vain | the lock of the next committer | the waiters' flag |
#![allow(unsafe_code)] // Variables are reached by address.

use crate::log::{Log, Read, Write};
use crate::snapshot::advance_clock;
use crate::stop::Why;
use crate::tx::Tx;
use crate::version::{HELD, Head, LOCKED, pause};
use segue_core::no_suspend;
use std::ptr::NonNull;

/// How often a committer looks at a locked variable before it begins again.
const PATIENCE: u32 = 256;

/// Variables that somebody waits for, with a handle each.
pub(crate) type Told = Vec<NonNull<Head>>;

impl Tx<'_> {
    /// Commits the attempt.
    #[inline]
    pub(crate) fn commit(&self) -> Result<Told, Why> {
        let log = &mut **self.log().borrow_mut();
        if log.writes.is_empty() { Ok(Told::new()) } else { self.commit_writes(log) }
    }

    fn commit_writes(&self, log: &mut Log) -> Result<Told, Why> {
        log.writes.sort_unstable_by_key(|write| write.head);
        if self.has_turn() {
            lock_held(&mut log.writes);
        } else {
            lock(&mut log.writes)?;
        }
        let number = advance_clock();
        if !self.has_turn()
            && number != self.number() + 1
            && let Some(changed) = first_changed(log)
        {
            unlock(&log.writes);
            return Err(Why::Conflict(changed.blame()));
        }
        log.committed = Some(number);
        Ok(publish(&log.writes, number))
    }
}

/// # Errors
/// Why the attempt begins again, with nothing locked.
fn lock(writes: &mut [Write]) -> Result<(), Why> {
    let mut spins = 0;
    for at in 0..writes.len() {
        // SAFETY: a variable of the log is in memory, as in all of this file.
        let variable = unsafe { writes[at].head.as_ref() };
        let before = loop {
            match variable.set_unless(LOCKED, LOCKED | HELD) {
                Ok(word) => break word.version(),
                Err(word) if word.has(HELD) => {
                    unlock(&writes[..at]);
                    return Err(Why::Held(writes[at].blame()));
                }
                Err(_) if spins < PATIENCE => pause(&mut spins),
                Err(_) => {
                    unlock(&writes[..at]);
                    return Err(Why::Conflict(writes[at].blame()));
                }
            }
        };
        writes[at].before = Some(before);
    }
    Ok(())
}

/// Locks variables that this transaction, in turn, holds: nobody else can.
fn lock_held(writes: &mut [Write]) {
    for write in writes {
        // SAFETY: as in `lock`, the variable is in memory.
        write.before = Some(unsafe { write.head.as_ref() }.set(LOCKED).version());
    }
}

fn unlock(writes: &[Write]) {
    for write in writes {
        // SAFETY: a variable of the log, as in `lock`.
        unsafe { write.head.as_ref() }.clear(LOCKED);
    }
}

/// The first read that is not current any more. The others are, and will be until the publication.
fn first_changed(log: &Log) -> Option<&Read> {
    let is_own = |head| log.writes.binary_search_by_key(&head, |write| write.head).is_ok();
    log.reads.iter().find(|read| {
        // SAFETY: as in `lock`.
        let word = unsafe { read.head.as_ref() }.load();
        word.version() != read.version || (word.has(LOCKED) && !is_own(read.head))
    })
}

/// Publishes the writes, which are locked, and answers the variables that somebody waits for.
fn publish(writes: &[Write], number: u64) -> Told {
    let mut told = Told::new();
    for write in writes {
        // SAFETY: a variable of the log, as in `lock`.
        let variable = unsafe { write.head.as_ref() };
        let before = write.before.expect("it was locked");
        // SAFETY: the variable is locked, by this; the log has the one address of the new version.
        let is_waited_for = unsafe { variable.publish(write.new, number, before) };
        // Without a handle there is no waiter, which would have one.
        if is_waited_for && variable.try_share() {
            told.push(write.head);
        }
    }
    told
}

/// Tells all that wait for these variables, and lets go of the handles.
#[inline]
pub(crate) fn tell(told: Told) {
    if !told.is_empty() {
        tell_all(told);
    }
}

#[cold]
#[inline(never)]
fn tell_all(told: Told) {
    // To resume a task is to call foreign code, within the attempt.
    no_suspend(|| {
        for head in told {
            // SAFETY: the handle in the list keeps the variable.
            unsafe { head.as_ref() }.waiters.lock().notify_all(0);
            crate::var::release(head);
        }
    });
}

/// Commits a log without reads, and does not look at the values before. `None` if a variable is
/// held.
pub(crate) fn write_blindly(log: &mut Log) -> Option<Told> {
    loop {
        match lock(&mut log.writes) {
            Ok(()) => break,
            Err(Why::Held(_)) => return None,
            Err(_) => {}
        }
    }
    let number = advance_clock();
    log.committed = Some(number);
    Some(publish(&log.writes, number))
}
