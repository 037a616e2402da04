//! A persistent list: the shape of everything that the machine's configurations are made of.
//!
//! Used by the machine for frames, fibers and environments, and by the interpreter on the runtime
//! for environments. A continuation that is captured shares its tail with whoever still holds it,
//! and nothing is ever changed in place; that is how the paper's rules read.

use std::rc::Rc;

/// A list whose copies share their tails.
#[derive(Debug)]
pub struct List<T>(Option<Rc<Node<T>>>);

#[derive(Debug)]
struct Node<T> {
    head: T,
    tail: List<T>,
}

impl<T> List<T> {
    /// `[]`
    #[must_use]
    pub const fn empty() -> List<T> {
        List(None)
    }

    /// `head :: self`
    #[must_use]
    pub fn with(&self, head: T) -> List<T> {
        List(Some(Rc::new(Node { head, tail: self.clone() })))
    }

    /// The first and the rest, or nothing for `[]`.
    #[must_use]
    pub fn split(&self) -> Option<(&T, &List<T>)> {
        self.0.as_deref().map(|node| (&node.head, &node.tail))
    }

    /// Whether this is `[]`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// From the first to the last.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let (head, tail) = rest.split()?;
            rest = tail;
            Some(head)
        })
    }
}

impl<T: Clone> List<T> {
    /// `self @ other`. Takes as long as `self` is.
    #[must_use]
    pub fn append(&self, other: &List<T>) -> List<T> {
        let front: Vec<&T> = self.iter().collect();
        front.into_iter().rev().fold(other.clone(), |list, item| list.with(item.clone()))
    }
}

impl<T> Clone for List<T> {
    fn clone(&self) -> List<T> {
        List(self.0.clone())
    }
}

impl<T> Drop for List<T> {
    /// One node after the other, so that a long list does not need a deep stack to go away.
    fn drop(&mut self) {
        let mut next = self.0.take();
        while let Some(node) = next {
            next = Rc::into_inner(node).and_then(|mut node| node.tail.0.take());
        }
    }
}
