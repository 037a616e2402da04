//! What a panic carries, and the text of it.
//!
//! Used by whatever catches panics: tasks, scopes, `finally`. Errors with a panic inside travel by
//! `?` into `Box<dyn Error + Send + Sync>` and its like, so they are `Sync`, although what a panic
//! carries need not be.

use std::any::Any;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// What a panic carries.
pub(crate) type Payload = Box<dyn Any + Send>;

/// What stands for the text of a panic that has none.
pub(crate) const NO_MESSAGE: &str = "(a panic without a message)";

/// As above, if its description panics.
pub(crate) const NO_DESCRIPTION: &str = "(a panic whose description panicked)";

/// The text of a panic, if it has one.
pub(crate) fn message(payload: &(dyn Any + Send)) -> Option<String> {
    if let Some(text) = payload.downcast_ref::<&str>() {
        return Some((*text).to_owned());
    }
    if let Some(text) = payload.downcast_ref::<String>() {
        return Some(text.clone());
    }
    let describers = DESCRIBERS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    describers.iter().find_map(|describe| describe(payload))
}

/// Says what a payload means, if it is of a type that it knows.
type Describe = fn(&(dyn Any + Send)) -> Option<String>;

static DESCRIBERS: Mutex<Vec<Describe>> = Mutex::new(Vec::new());

/// Makes errors show what the payloads of some type mean, as they show text. For libraries that
/// panic with a type of their own; to be called once for each.
///
/// # Examples
///
/// ```
/// struct OutOfInk(u32);
///
/// segue_core::describe_panics(|payload| Some(format!("no ink on page {}", payload.downcast_ref::<OutOfInk>()?.0)));
/// let error = segue_core::spawn(|| std::panic::resume_unwind(Box::new(OutOfInk(3)))).join().unwrap_err();
/// assert_eq!(error.to_string(), "the fiber panicked: no ink on page 3");
/// ```
pub fn describe_panics(describe: fn(&(dyn Any + Send)) -> Option<String>) {
    DESCRIBERS.lock().unwrap_or_else(PoisonError::into_inner).push(describe);
}

/// A panic that was caught. It shows as its message.
pub struct Panic(Box<Mutex<Payload>>);

impl Panic {
    /// The payload of `std::panic::catch_unwind`.
    #[must_use]
    pub fn new(payload: Box<dyn Any + Send>) -> Self {
        Self(Box::new(Mutex::new(payload)))
    }

    /// What `std::panic::resume_unwind` takes.
    #[must_use]
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the panic says, if it says anything.
    #[must_use]
    pub fn message(&self) -> Option<String> {
        // Only the description of a payload can panic with the lock, and it changes nothing.
        message(self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref())
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message().as_deref().unwrap_or(NO_MESSAGE))
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Panic").field(&self.message()).finish()
    }
}
