//! Cancellation for its users: deadlines, shields, and cleanup that may wait.
//!
//! Used by applications, and by every operation that must be finished once begun. The error
//! [`Cancelled`](crate::Cancelled), the tokens and the tree behind them are in `tree`.

pub(crate) mod cancellation;
pub(crate) mod token;

use crate::chain::unwind::text;
use crate::contract::current::with_running;
use crate::primitives::at_end::at_end;
use crate::primitives::payload::{Payload, message};
use crate::thread::here::on_current;
use crate::timers::Timers;
use crate::tree::cancelled::{Overran, Reason, TimedOut};
use crate::tree::context::{Context, shielded, shielded_until};
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs `f` where the caller's cancellation does not show; afterwards it shows again.
///
/// For work that must be finished once begun: answer the request, write the record. Fibers that `f`
/// spawns into scopes of its own are shielded, too. A shield has no end of its own: see
/// [`shield_for`].
///
/// # Examples
///
/// ```
/// let answer = segue_core::shield(|| 42);
/// assert_eq!(answer, 42);
/// ```
pub fn shield<R>(f: impl FnOnce() -> R) -> R {
    shielded(f)
}

/// As [`shield`], for as long as `budget`: when that is used up, waits in `f` fail with a
/// [`Cancelled`](crate::Cancelled) with [`Overran`] for a reason, which says where the budget was
/// given, and to which fiber.
///
/// Shields inside, with a budget or without, end at that time, too, at the latest: of nested
/// budgets the smallest counts. So cleanup that calls other cleanup is over in its time. A budget
/// beyond the end of the clock is none; one of zero is used up from the start.
///
/// # Examples
///
/// ```
/// use segue_core::{Overran, shield, shield_for, sleep};
/// use std::time::Duration;
///
/// let goodbye = shield_for(Duration::from_millis(1), || shield(|| sleep(Duration::MAX)));
/// let cancelled = goodbye.unwrap_err();
/// assert!(cancelled.timed_out() && cancelled.reason().unwrap().is::<Overran>());
/// ```
#[track_caller]
pub fn shield_for<R>(budget: Duration, f: impl FnOnce() -> R) -> R {
    shield_at(budget, Location::caller(), f)
}

/// As [`shield_for`], with a budget that was given at `at`.
pub(crate) fn shield_at<R>(budget: Duration, at: &'static Location<'static>, f: impl FnOnce() -> R) -> R {
    let timers = on_current(|fiber| Timers::clone(fiber.scheduler().timers()));
    match timers.now().checked_add(budget) {
        Some(end) => {
            let fiber = with_running(|fiber| fiber?.name().map(Box::from));
            shielded_until(end, timers, Overran { at, budget, fiber }, f)
        }
        None => shield(f),
    }
}

/// Runs `body`, and then `cleanup`, whichever way `body` ends. The cleanup is shielded, and may
/// wait, even after a panic of the body, which goes on afterwards.
///
/// A `Drop` can do less: while a panic unwinds through a `Drop`, a fiber can't wait.
///
/// # Cancellation
/// The body sees the cancellation; the cleanup does not.
///
/// # Panics
/// With the body's panic, or with the cleanup's. If both did, and both have a message: with a
/// message that says both. Otherwise with the body's payload, and the cleanup's message goes to the
/// standard error.
///
/// # Examples
///
/// ```
/// use segue_core::{finally, sleep};
/// use std::time::Duration;
///
/// let mut log = Vec::new();
/// let answer = finally(|| 42, || {
///     sleep(Duration::from_millis(1)).expect("it is shielded");
///     log.push("closed");
/// });
/// assert_eq!((answer, log), (42, vec!["closed"]));
/// ```
pub fn finally<T>(body: impl FnOnce() -> T, cleanup: impl FnOnce()) -> T {
    let outcome = catch_unwind(AssertUnwindSafe(body));
    let cleaned = catch_unwind(AssertUnwindSafe(|| shield(cleanup)));
    match (outcome, cleaned) {
        (Ok(value), Ok(())) => value,
        (Err(payload), Ok(())) | (Ok(_), Err(payload)) => resume_unwind(payload),
        (Err(payload), Err(second)) => resume_unwind(both(payload, second)),
    }
}

/// The panic to raise if both a body and its cleanup have panicked.
#[cold]
fn both(first: Payload, second: Payload) -> Payload {
    let cleanup = text(second.as_ref());
    // Its own drop may panic, which is one too many.
    std::mem::forget(second);
    if first.is::<&str>() || first.is::<String>() {
        let body = message(first.as_ref()).unwrap_or_default();
        Box::new(format!("{body}; and the cleanup after that panicked: {cleanup}"))
    } else {
        let _ = writeln!(io::stderr(), "segue: the cleanup after a panic panicked as well: {cleanup}");
        first
    }
}

/// Runs `f`, and cancels the waits inside when `limit` has passed: these then fail with a
/// [`Cancelled`](crate::Cancelled) that [timed out](crate::Cancelled::timed_out).
///
/// The call returns the result of `f`, also after the end of the time; so nothing that `f` has
/// obtained is lost. A limit beyond the end of the clock is none. The clock is that of the caller's
/// scheduler.
///
/// A fiber that is suspended is told by its worker, which looks at the clock between its fibers. A
/// fiber that computes is told by [`check`](crate::check), and by every operation that can wait:
/// each looks at the clock inside of a `timeout`.
///
/// The end of the time is a cancellation, and so sticky: each further wait in `f` fails at once. An
/// I/O error says so by [`Cancelled::caused`](crate::Cancelled::caused), which is `false` for a
/// time-out that was set on a socket, although both are of kind `TimedOut`; a loop that goes on
/// after a time-out asks for that.
///
/// # Cancellation
/// The caller's cancellation shows inside as well, and the one that comes first gives the reason.
///
/// # Examples
///
/// ```
/// use segue_core::{after, timeout};
/// use std::time::Duration;
///
/// let never = after(Duration::MAX);
/// let ended = timeout(Duration::from_millis(1), || never.wait());
/// assert!(ended.is_err_and(|cancelled| cancelled.timed_out()));
/// ```
pub fn timeout<T>(limit: Duration, f: impl FnOnce() -> T) -> T {
    let timers = on_current(|fiber| Timers::clone(fiber.scheduler().timers()));
    let now = timers.now();
    match now.checked_add(limit) {
        Some(at) => inside_deadline(at, timers, now, f),
        None => f(),
    }
}

/// As [`timeout`], at a point in time; `None` is never.
///
/// # Cancellation
/// As for [`timeout`].
///
/// # Examples
///
/// ```
/// use segue_core::{check, deadline, now};
///
/// assert!(deadline(Some(now()), check).is_err());
/// assert!(deadline(None, check).is_ok());
/// ```
pub fn deadline<T>(at: Option<Instant>, f: impl FnOnce() -> T) -> T {
    let Some(at) = at else { return f() };
    let timers = on_current(|fiber| Timers::clone(fiber.scheduler().timers()));
    let now = timers.now();
    inside_deadline(at, timers, now, f)
}

/// Runs `f` until `at`, by these timers; their clock has just shown `now`.
fn inside_deadline<T>(at: Instant, timers: Timers, now: Instant, f: impl FnOnce() -> T) -> T {
    let context = Context::nest(Some((at, timers.clone())), None);
    let is_past = at <= now;
    if is_past {
        context.cancel(Some(Reason::new(TimedOut)));
    }
    let key = (!is_past).then(|| timers.expire_at(at, Arc::clone(&context)));
    let _end = at_end(|| {
        if let Some(key) = key {
            timers.withdraw(key, &context);
        }
        context.end();
    });
    context.enter(f)
}
