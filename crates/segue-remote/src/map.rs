//! Many jobs, of which a bounded number is under way.
//!
//! Used by the pool's `map`.

use crate::error::RemoteError;
use segue::WaitError;
use segue::sync::Promise;
use std::collections::VecDeque;

/// The results of many jobs, in their order. The function submits the next one, if there is one.
pub(crate) struct Bounded<T, F> {
    submit: F,
    at_most: usize,
    flying: VecDeque<Promise<Result<T, RemoteError>>>,
}

impl<T, F> Bounded<T, F> {
    pub(crate) fn new(submit: F, at_most: usize) -> Self {
        Self { submit, at_most: at_most.max(1), flying: VecDeque::new() }
    }
}

impl<T, F: FnMut() -> Option<Promise<Result<T, RemoteError>>>> Iterator for Bounded<T, F> {
    type Item = Result<T, RemoteError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.flying.len() < self.at_most {
            let Some(promise) = (self.submit)() else { break };
            self.flying.push_back(promise);
        }
        Some(match self.flying.pop_front()?.take() {
            Ok(result) => result,
            Err(WaitError::Cancelled(_)) => Err(RemoteError::Cancelled),
            Err(_) => Err(RemoteError::Unavailable("the fibers of the pool have ended".to_owned())),
        })
    }
}
