//! A thread's time as a worker: on a processor of its own, if one was asked for, between two hooks.
//!
//! Used where a worker's thread starts.

use crate::run::processors::{Bound, Processors};
use crate::worker::hooks::Hooks;
use std::io;

/// A thread's time as a worker.
pub(crate) struct Service<'a> {
    hooks: &'a Hooks,
    worker: usize,
    _bound: Option<Bound>,
}

impl<'a> Service<'a> {
    /// Binds the thread, if it is to be bound, and calls the first hook. The last is called when
    /// this is dropped.
    pub(crate) fn begin(hooks: &'a Hooks, worker: usize, processors: Option<&Processors>) -> io::Result<Self> {
        let bound = processors.map(|processors| processors.bind(worker)).transpose()?;
        hooks.call(worker, |hooks| &hooks.start);
        Ok(Self { hooks, worker, _bound: bound })
    }
}

impl Drop for Service<'_> {
    fn drop(&mut self) {
        self.hooks.call(self.worker, |hooks| &hooks.stop);
    }
}
