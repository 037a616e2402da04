//! What a panic carries, and the text of it.
//!
//! Used by whatever catches panics: tasks, scopes, `finally`.

use std::any::Any;
use std::sync::{Mutex, PoisonError};

/// What a panic carries.
pub(crate) type Payload = Box<dyn Any + Send>;

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
