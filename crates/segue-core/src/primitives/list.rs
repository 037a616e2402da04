//! An intrusive doubly linked list: members bring their own links, so that joining allocates
//! nothing and leaving is O(1).
//!
//! Used under a lock by the wait queue (nodes of waiters) and by the cancellation tree (fibers of a
//! context). The list itself knows nothing of locks: its owner promises that one thread at a time
//! touches the list and the links of its members.
#![allow(unsafe_code)] // Links are raw pointers into the frames of the members.

use std::cell::Cell;
use std::iter;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// The links that a member carries.
pub(crate) struct Links<T> {
    /// [`Links::OUTSIDE`] for one that is in no list.
    prev: Cell<*const T>,
    next: Cell<*const T>,
}

impl<T> Links<T> {
    /// No member has this address.
    const OUTSIDE: *const T = ptr::dangling();

    pub(crate) const fn new() -> Self {
        Self { prev: Cell::new(Self::OUTSIDE), next: Cell::new(ptr::null()) }
    }

    fn are_linked(&self) -> bool {
        self.prev.get() != Self::OUTSIDE
    }

    /// Keeps a pointer for the owner of a member that is in no list: the next member in a chain of
    /// the owner's.
    #[inline]
    pub(crate) fn chain(&self, next: *const T) {
        debug_assert!(!self.are_linked(), "the links of a member belong to its list");
        self.next.set(next);
    }

    /// The pointer that [`chain`](Links::chain) has kept.
    #[inline]
    pub(crate) fn chained(&self) -> *const T {
        self.next.get()
    }
}

/// A type with links.
pub(crate) trait Linked: Sized {
    fn links(&self) -> &Links<Self>;
}

/// The list: first in, first out, with removal from the middle.
pub(crate) struct List<T> {
    head: *const T,
    tail: *const T,
    members: PhantomData<NonNull<T>>,
}

// SAFETY: a list is a pair of pointers; its owner reaches the members only under its lock,
// whichever thread that is, which is the promise that `push_back` asks for.
unsafe impl<T> Send for List<T> {}

impl<T: Linked> List<T> {
    pub(crate) const fn new() -> Self {
        Self { head: ptr::null(), tail: ptr::null(), members: PhantomData }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_null()
    }

    pub(crate) fn front(&self) -> Option<NonNull<T>> {
        NonNull::new(self.head.cast_mut())
    }

    /// Appends a member.
    ///
    /// # Safety
    /// `member` stays valid and in place until its removal, is in no list now, and its links are
    /// touched only by the thread that may touch this list.
    pub(crate) unsafe fn push_back(&mut self, member: NonNull<T>) {
        // SAFETY: as the caller promises; the tail is a member.
        unsafe { self.insert(self.tail, member, ptr::null()) };
    }

    /// Puts a member before all others.
    ///
    /// # Safety
    /// As for [`push_back`](List::push_back).
    pub(crate) unsafe fn push_front(&mut self, member: NonNull<T>) {
        // SAFETY: as the caller promises; the head is a member.
        unsafe { self.insert(ptr::null(), member, self.head) };
    }

    /// # Safety
    /// As for [`push_back`](List::push_back); and the other two are neighbours, or null for an end.
    #[inline]
    unsafe fn insert(&mut self, prev: *const T, member: NonNull<T>, next: *const T) {
        // SAFETY: the caller keeps the member valid.
        let links = unsafe { member.as_ref() }.links();
        debug_assert!(!links.are_linked(), "a member may be in one list at a time");
        links.prev.set(prev);
        links.next.set(next);
        // SAFETY: members are valid, as their own `push_back` has promised.
        unsafe {
            self.set_next(prev, member.as_ptr());
            self.set_prev(next, member.as_ptr());
        }
    }

    /// Sets the next of a member, or the first for null.
    ///
    /// # Safety
    /// It is a member, or null.
    #[inline]
    unsafe fn set_next(&mut self, member: *const T, next: *const T) {
        // SAFETY: members are valid.
        match unsafe { member.as_ref() } {
            Some(member) => member.links().next.set(next),
            None => self.head = next,
        }
    }

    /// Sets the previous of a member, or the last for null.
    ///
    /// # Safety
    /// As for `set_next`.
    #[inline]
    unsafe fn set_prev(&mut self, member: *const T, prev: *const T) {
        // SAFETY: members are valid.
        match unsafe { member.as_ref() } {
            Some(member) => member.links().prev.set(prev),
            None => self.tail = prev,
        }
    }

    /// Takes a member out. Answers whether the member was in.
    ///
    /// # Safety
    /// `member` is valid and is in no list other than this one.
    pub(crate) unsafe fn remove(&mut self, member: NonNull<T>) -> bool {
        // SAFETY: the caller says that the member is valid.
        let links = unsafe { member.as_ref() }.links();
        if !links.are_linked() {
            return false;
        }
        let (prev, next) = (links.prev.replace(Links::OUTSIDE), links.next.get());
        // SAFETY: neighbours of a member are members of the same list.
        unsafe {
            self.set_next(prev, next);
            self.set_prev(next, prev);
        }
        true
    }

    /// The members, first to last.
    pub(crate) fn iter(&self) -> impl Iterator<Item = NonNull<T>> {
        // SAFETY: members are valid while they are in the list, which is borrowed.
        iter::successors(self.front(), |member| NonNull::new(unsafe { member.as_ref() }.links().next.get().cast_mut()))
    }
}
