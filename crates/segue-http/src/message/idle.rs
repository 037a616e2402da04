//! A wait that may be long, of a connection whose handler waits for other things than requests.
//! Used by event streams and by WebSockets.

use std::time::Duration;

use segue_core::{Cancelled, Either, Source, Waitable, after, trim_stack};

/// A wait that has lasted so long gives back the stack memory that the work before it needed.
const REST: Duration = Duration::from_secs(1);

/// Waits for `source` for at most `time`; `None` says that the time is over.
pub(crate) fn wait_for<S: Source>(source: &mut S, time: Duration) -> Result<Option<S::Output>, Cancelled> {
    let mut left = time;
    if time > REST {
        if let Some(output) = within(source, REST)? {
            return Ok(Some(output));
        }
        trim_stack();
        left = if time == Duration::MAX { time } else { time - REST };
    }
    within(source, left)
}

#[inline(never)] // Called at two places, which would each have its frame.
fn within<S: Source>(source: &mut S, time: Duration) -> Result<Option<S::Output>, Cancelled> {
    match Waitable::new(source).or_else(after(time)).wait()? {
        Either::Left(output) => Ok(Some(output)),
        Either::Right(()) => Ok(None),
    }
}
