//! Fibers with a name or a stack of a certain size.

use super::{JoinHandle, Scope, ScopedJoinHandle, Thread};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// No stack is larger.
const LARGEST: usize = 1 << 29;

/// [`std::thread::Builder`].
///
/// # Examples
///
/// ```
/// use segue_std::thread;
///
/// let builder = thread::Builder::new().name("deep".to_owned()).stack_size(1 << 20);
/// assert_eq!(builder.spawn(|| 42).unwrap().join().unwrap(), 42);
/// ```
#[derive(Debug, Default)]
#[must_use]
pub struct Builder {
    name: Option<Box<str>>,
    stack_size: Option<usize>,
}

impl Builder {
    /// Without a name, and with a stack of the scheduler's size.
    pub fn new() -> Self {
        Self::default()
    }

    /// The name of the fiber, in reports and in [`Thread::name`].
    pub fn name(self, name: String) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// How many bytes of its stack the fiber can use, at least.
    pub fn stack_size(self, size: usize) -> Self {
        Self { stack_size: Some(size), ..self }
    }

    /// As [`spawn`](super::spawn).
    ///
    /// # Errors
    /// For a stack of more than half a gibibyte.
    pub fn spawn<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (builder, name) = self.build()?;
        let thread = Thread::new(name);
        let runs = thread.clone();
        let handle = builder.spawn(move || catch_unwind(AssertUnwindSafe(|| runs.run(f))));
        Ok(JoinHandle::new(handle, thread))
    }

    /// As [`Scope::spawn`].
    ///
    /// # Errors
    /// For a stack of more than half a gibibyte.
    pub fn spawn_scoped<'scope, F, T>(
        self,
        scope: &'scope Scope<'scope, '_>,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let (builder, name) = self.build()?;
        Ok(scope.spawn_as(builder, name, f))
    }

    fn build(self) -> io::Result<(segue::Builder, Option<Box<str>>)> {
        let Self { name, stack_size } = self;
        let mut builder = segue::Builder::new();
        if let Some(name) = &name {
            builder = builder.name(name.clone());
        }
        if let Some(size) = stack_size {
            if size > LARGEST {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "a stack of more than half a gibibyte"));
            }
            builder = builder.stack_size(size);
        }
        Ok((builder, name))
    }
}
