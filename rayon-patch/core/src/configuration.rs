//! The names that the builder had once.
//!
//! Used by old programs.
#![allow(deprecated)]

use crate::builder::ThreadPoolBuilder;
use crate::thread_pool::ThreadPool;
use std::any::Any;
use std::error::Error;

/// See [`ThreadPoolBuilder`].
#[deprecated(note = "Use `ThreadPoolBuilder`")]
#[derive(Debug, Default)]
pub struct Configuration {
    builder: ThreadPoolBuilder,
}

impl Configuration {
    /// See [`ThreadPoolBuilder::new`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// See [`ThreadPoolBuilder::build`].
    ///
    /// # Errors
    /// As there.
    pub fn build(self) -> Result<ThreadPool, Box<dyn Error + 'static>> {
        self.builder.build().map_err(Box::from)
    }

    /// See [`ThreadPoolBuilder::thread_name`].
    #[must_use]
    pub fn thread_name<F: FnMut(usize) -> String + 'static>(self, closure: F) -> Self {
        Self { builder: self.builder.thread_name(closure) }
    }

    /// See [`ThreadPoolBuilder::num_threads`].
    #[must_use]
    pub fn num_threads(self, num_threads: usize) -> Self {
        Self { builder: self.builder.num_threads(num_threads) }
    }

    /// See [`ThreadPoolBuilder::panic_handler`].
    #[must_use]
    pub fn panic_handler<H: Fn(Box<dyn Any + Send>) + Send + Sync + 'static>(self, panic_handler: H) -> Self {
        Self { builder: self.builder.panic_handler(panic_handler) }
    }

    /// See [`ThreadPoolBuilder::stack_size`].
    #[must_use]
    pub fn stack_size(self, stack_size: usize) -> Self {
        Self { builder: self.builder.stack_size(stack_size) }
    }

    /// See [`ThreadPoolBuilder::breadth_first`].
    #[must_use]
    pub fn breadth_first(self) -> Self {
        Self { builder: self.builder.breadth_first() }
    }

    /// See [`ThreadPoolBuilder::start_handler`].
    #[must_use]
    pub fn start_handler<H: Fn(usize) + Send + Sync + 'static>(self, start_handler: H) -> Self {
        Self { builder: self.builder.start_handler(start_handler) }
    }

    /// See [`ThreadPoolBuilder::exit_handler`].
    #[must_use]
    pub fn exit_handler<H: Fn(usize) + Send + Sync + 'static>(self, exit_handler: H) -> Self {
        Self { builder: self.builder.exit_handler(exit_handler) }
    }
}

/// See [`ThreadPoolBuilder::build_global`].
///
/// # Errors
/// As there.
#[deprecated(note = "use `ThreadPoolBuilder::build_global`")]
pub fn initialize(config: Configuration) -> Result<(), Box<dyn Error>> {
    config.builder.build_global().map_err(Box::from)
}
