//! Loops that end as soon as one element was found.
//!
//! Used by `find_any`, `any` and `all`.
//!
//! The mark that one was found is one flag, which a loop looks at between its blocks (Relaxed: it
//! hands over nothing, since the element comes back with its piece).

use crate::par::plumbing::{Consumer, Folder};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Looks for an element.
#[derive(Debug)]
pub(crate) struct Find<'f, F> {
    pub(crate) is_it: &'f F,
    pub(crate) found: AtomicBool,
}

impl<T: Send, F: Fn(&T) -> bool + Sync> Consumer<T> for Find<'_, F> {
    type Folder<'c>
        = FindFolder<'c, T, F>
    where
        Self: 'c;
    type Result = Option<T>;

    fn folder(&self, _: usize) -> FindFolder<'_, T, F> {
        FindFolder { it: None, is_it: self.is_it, found: &self.found }
    }

    fn combine(&self, left: Option<T>, right: Option<T>) -> Option<T> {
        left.or(right)
    }

    fn is_full(&self) -> bool {
        self.found.load(Relaxed)
    }
}

/// See [`Find`].
#[derive(Debug)]
pub struct FindFolder<'c, T, F> {
    it: Option<T>,
    is_it: &'c F,
    found: &'c AtomicBool,
}

impl<T, F: Fn(&T) -> bool> Folder<T> for FindFolder<'_, T, F> {
    type Result = Option<T>;

    fn consume_iter(&mut self, mut items: impl Iterator<Item = T>) {
        if self.it.is_none() {
            self.it = items.find(self.is_it);
            if self.it.is_some() {
                self.found.store(true, Relaxed);
            }
        }
    }

    fn is_full(&self) -> bool {
        self.it.is_some()
    }

    fn complete(self) -> Option<T> {
        self.it
    }
}
