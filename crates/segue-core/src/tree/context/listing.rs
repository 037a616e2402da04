//! Which fibers are inside of a context, for reports.
//!
//! Used by cancellations that name what is not over, and by scopes that say what they wait for.
#![allow(unsafe_code)] // Members are reached by address.

use super::Context;
use crate::contract::fiber::Fiber;
#[cfg(debug_assertions)]
use crate::primitives::waits_for::WaitsFor;

#[cfg(debug_assertions)]
impl Fiber {
    /// As [`waits_for`](Self::waits_for), for any thread that keeps the header in place.
    fn waits_for_from_elsewhere(&self) -> Option<WaitsFor> {
        self.waits_for()
    }
}

impl Context {
    /// The names of the fibers that have waited inside, or in what is below, and are there still:
    /// of so many of those that have one.
    pub(crate) fn names(&self, most: usize) -> Vec<String> {
        let mut names = Vec::new();
        self.list(most, &mut names, |fiber| fiber.name().map(str::to_owned));
        names
    }

    /// What the fibers do that have waited inside, or in what is below, and are there still: "fiber
    /// `name` waits for a promise at src/main.rs:1:2". Of at most so many. In a release build no
    /// thread but their own knows.
    #[cfg(debug_assertions)]
    pub(crate) fn waits(&self, most: usize) -> Vec<String> {
        let mut waits = Vec::new();
        let told = |fiber: &Fiber| match fiber.waits_for_from_elsewhere() {
            Some(waits_for) => format!("{fiber} waits for {waits_for}"),
            None => format!("{fiber} runs, or is ready to"),
        };
        self.list(most, &mut waits, |fiber| Some(told(fiber)));
        waits
    }

    /// Puts down what `of` answers of the fibers that have waited inside, or in what is below, and
    /// are there still, until there are `most`.
    fn list<T>(&self, most: usize, found: &mut Vec<T>, of: impl Fn(&Fiber) -> Option<T>) {
        self.walk(|context, below| {
            let members = context.members.lock();
            // SAFETY: a member stays in place until it has left, which needs the lock.
            let listed = members.fibers.iter().filter_map(|fiber| of(unsafe { fiber.as_ref() }));
            found.extend(listed.take(most - found.len()));
            context.list_below(&members, below);
        });
    }
}
