//! Repeating an operation of an engine until it succeeds.
//!
//! Used by the pool and by workers: all operations of an engine can be repeated.

use super::error::EngineError;
use segue::sleep;
use std::time::Duration;

/// The first pause, and the longest; each is twice the one before.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(250));

/// Does this until it succeeds, or will never do so, at growing intervals.
pub(crate) fn retry<T>(mut f: impl FnMut() -> Result<T, EngineError>) -> Result<T, EngineError> {
    let (mut pause, longest) = PAUSES;
    loop {
        match f() {
            Err(error) if error.is_passing() => sleep(pause)?,
            other => return other,
        }
        pause = (pause * 2).min(longest);
    }
}
