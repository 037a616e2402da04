//! A worker's mailbox: letters from other threads, and the worker's sleep, in one atomic word.
//!
//! Used by the worker loop (drain, sleep) and by wakes from other threads (post).
//!
//! # The idea
//!
//! Letters hang in a stack that senders push to and the worker takes whole. The same word says
//! whether the worker sleeps, so that "is there mail?" and "go to sleep" are one exchange, and
//! "leave mail" and "was the worker asleep?" another. There is no second flag that could disagree
//! with the first.
//!
//! # States of the word
//!
//! ```text
//!   EMPTY --post--> letters --post--> letters          post: any thread
//!   EMPTY --doze--> ASLEEP                             doze: the worker, only from EMPTY
//!   ASLEEP --post--> letters, and the sender unparks   the one sender that sees ASLEEP
//!   ASLEEP --rouse--> EMPTY, and the rouser unparks    any thread, without a letter
//!   letters or ASLEEP --drain--> EMPTY                 the worker
//! ```
//!
//! A letter is reused: its `bits` are the content, and a letter is in the stack if and only if they
//! are not zero. A sender that adds bits to a letter that is under way does not post that again.
//!
//! **The race to fear**: mail that arrives between the worker's last look and its sleep. Such mail
//! can't be missed: `doze` succeeds only on EMPTY; if the letter came before, `doze` fails, and if
//! after, the sender's exchange meets ASLEEP and unparks, which a park that has not begun yet
//! remembers.
//!
//! **The same address again**: a sender loads the head, letter A; the worker drains A, and A's
//! fiber ends; another letter begins its life at the same address and is posted; and the sender's
//! exchange finds the address that was loaded. The order of the stack is right then: the link names
//! the letter that is the head. But the pointer that was loaded is one to A, and nobody may follow
//! that pointer any more. The sender can't link the letter anew after the exchange, since the
//! letter may be gone. So words and links are followed by their address alone: each sender exposes
//! its letter's provenance before the exchange, and the worker makes its pointers out of addresses.
//! There a pointer to the letter that is in the stack is the one that can be meant. None of that is
//! an instruction.
//!
//! # Orderings
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | the sender's exchange of the head | `drain` | the letter's link and bits, and the sender's earlier work |
//! | `doze` | the sender's or rouser's exchange that sees ASLEEP | the worker's last state before sleep |
//! | the sender's `fetch_or` on the bits | the worker's swap of the bits | the earlier work of a sender that merged its bits |
#![allow(unsafe_code)] // Letters are linked by address.

use segue_core::atomic::{AtomicPtr, AtomicU8, Ordering};
use std::ptr::{self, NonNull};

/// Something that can be posted, with a link of its own.
///
/// # Safety
/// `letter` always answers with the same part of `self`.
pub(crate) unsafe trait Post {
    /// The part that the inbox uses.
    fn letter(&self) -> &Letter<Self>
    where
        Self: Sized;
}

/// The link and the contents of a letter.
#[derive(Debug)]
pub(crate) struct Letter<T> {
    bits: AtomicU8,
    next: AtomicPtr<T>,
}

impl<T> Letter<T> {
    /// A letter that is nowhere, and empty.
    pub(crate) fn new() -> Self {
        Self { bits: AtomicU8::new(0), next: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Whether the letter is under way.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.bits.load(Ordering::Acquire) != 0
    }
}

/// The mailbox.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    head: AtomicPtr<T>,
}

#[inline]
fn asleep<T>() -> *mut T {
    ptr::without_provenance_mut(1)
}

/// The letter with the address of this word or link, which may be a pointer to an earlier one
/// there; `None` at the end of the stack. Each letter in a stack was exposed by its sender.
#[inline]
fn at_address<T>(word: *mut T) -> Option<NonNull<T>> {
    NonNull::new(ptr::with_exposed_provenance_mut(word.addr()))
}

impl<T: Post> Inbox<T> {
    /// An empty mailbox of a worker that is awake.
    pub(crate) fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Puts `bits` into the letter and sends a letter that is not under way. `wake` is called
    /// beforehand if the worker may sleep, and its result is called afterwards if the worker did:
    /// from the exchange on, neither letter nor inbox is touched.
    ///
    /// # Safety
    /// The letter stays in place until the worker has drained the stack; the inbox until the
    /// exchange has been made.
    #[inline]
    pub(crate) unsafe fn post<W: FnOnce()>(&self, letter: NonNull<T>, bits: u8, wake: impl Fn() -> W) {
        // SAFETY: the letter is in place until drained, which can't be before it is in the stack.
        let link = unsafe { letter.as_ref() }.letter();
        if link.bits.fetch_or(bits, Ordering::AcqRel) != 0 {
            return;
        }
        // For the worker, which finds the letter by its address: see the head of this file.
        let _ = letter.as_ptr().expose_provenance();
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            let sleeps = head == asleep();
            link.next.store(if sleeps { ptr::null_mut() } else { head }, Ordering::Relaxed);
            // The unpark must be in hand before the worker can find the letter, and perhaps end.
            let waker = sleeps.then(&wake);
            match self.head.compare_exchange_weak(head, letter.as_ptr(), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    if let Some(wake) = waker {
                        wake();
                    }
                    return;
                }
                Err(now) => head = now,
            }
        }
    }

    /// Ends the worker's sleep without a letter. Answers whether the worker slept: then the caller
    /// unparks it.
    #[inline]
    pub(crate) fn rouse(&self) -> bool {
        self.head.load(Ordering::Acquire) == asleep()
            && self.head.compare_exchange(asleep(), ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Whether the worker has announced its sleep, without a wake-up yet. The answer may be late.
    #[inline]
    pub(crate) fn is_asleep(&self) -> bool {
        self.head.load(Ordering::Relaxed) == asleep()
    }

    /// Whether there is nothing to drain. For the worker.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Whether there are letters. For the worker, also after the announcement of its sleep.
    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        !head.is_null() && head != asleep()
    }

    /// Announces that the worker will sleep, unless there is mail. For the worker.
    #[must_use]
    pub(crate) fn doze(&self) -> bool {
        self.head.compare_exchange(ptr::null_mut(), asleep(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Takes all letters, oldest first, and calls `f` with each and its bits; ends a sleep. For the
    /// worker.
    pub(crate) fn drain(&self, mut f: impl FnMut(NonNull<T>, u8)) {
        let mut at = self.head.swap(ptr::null_mut(), Ordering::AcqRel);
        if at == asleep() {
            return;
        }
        // The stack gives the newest first: turn the list round.
        let mut oldest = ptr::null_mut();
        while let Some(letter) = at_address(at) {
            // SAFETY: letters stay in place until they are drained, and `f` has not seen them yet.
            // The letter in the stack with this address was exposed before the exchange that has
            // put the letter there, which the swap above, or an exchange before, has read.
            let link = unsafe { letter.as_ref() }.letter();
            at = link.next.load(Ordering::Relaxed);
            link.next.store(oldest, Ordering::Relaxed);
            oldest = letter.as_ptr();
        }
        while let Some(letter) = NonNull::new(oldest) {
            // SAFETY: as above, and `oldest` and the links were made there; after the swap of the
            // bits the letter may be posted again, so the link is read before.
            let link = unsafe { letter.as_ref() }.letter();
            oldest = link.next.load(Ordering::Relaxed);
            let bits = link.bits.swap(0, Ordering::AcqRel);
            f(letter, bits);
        }
    }
}
