//! The seam between ops and the drivers: how an op is carried out by any of them.
//!
//! Used by `net`, through [`run`], for everything that can wait; and by `DriverPark`, which says
//! the driver of its worker.
//!
//! # The life of an op
//!
//! An op borrows its buffers from its caller's frame, and `run` returns only when nobody else knows
//! of them. With the readiness driver the kernel sees the buffers only during a system call:
//!
//! ```text
//!           check            attempt
//!   new -------------> due ----------------------------------------> completed
//!    |                  |  ^
//!    | cancelled        |  | an edge       (see `readiness`)
//!    v                  v  |
//!   failed <--------- waiting
//!          cancelled, or the deadline
//! ```
//!
//! | state | the effect of a cancellation |
//! | --- | --- |
//! | new | the op fails, no system call was made: *no effect* |
//! | due | none: the attempt decides, and a success is returned |
//! | waiting | the fiber's own thread withdraws its place among the waiters; the last attempt would have blocked: *no effect* |
//! | completed | none: the cancellation shows at the next op |
//!
//! The **commit point** is the system call. A deadline acts as a cancellation does, and yields
//! `TimedOut`; but first the op is attempted once more, since not all progress makes an edge.
//!
//! # Completions
//!
//! On Linux `run` first asks whether the op can fly in the caller's ring, where the kernel holds
//! the buffers from the submission to the completion (`ring/flying.rs`). With "in flight" for
//! "waiting" the table above holds there, too. An op that can't, or that the kernel gives back
//! untouched, goes by readiness. Nothing above `run` knows which way an op went.

use super::completions;
use super::op::{BYTES, Op};
use super::socket::Socket;
use crate::selector::Interest;
use segue_core::drivers::{Limit, from_kernel};
use segue_core::{Ended, Source, Waitable, WaitsFor};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A shorter wait is none: the fiber would be late before it was suspended.
const SHORTEST: Duration = Duration::from_micros(1);

/// Carries out an op, suspending the calling fiber, or parking the calling thread, while the kernel
/// isn't ready.
///
/// `timeout` counts from the first wait; `None` is for ever. With less than a microsecond the op is
/// attempted once.
#[track_caller]
pub(crate) fn run<O: Op>(socket: &Arc<Socket>, mut op: O, timeout: Option<Duration>) -> io::Result<O::Output> {
    segue_core::admit()?;
    if timeout.is_some_and(|time| time < SHORTEST) {
        return at_once(socket, &mut op);
    }
    let mut deadline = None;
    match completions::carry_out(socket, &mut op, timeout, &mut deadline) {
        Some(result) => result,
        None => by_readiness(socket, &mut op, timeout, deadline),
    }
}

/// Attempts an op with a limit that leaves no time to wait.
#[inline(never)] // As `by_readiness`.
fn at_once<O: Op>(socket: &Socket, op: &mut O) -> io::Result<O::Output> {
    let output = last(socket, op)?;
    segue_core::drivers::charge(op.moved(&output) / BYTES);
    Ok(output)
}

/// Carries out an op that does not fly. Its deadline is set already if the op has flown.
#[inline(never)] // A flight is not to have this frame: idle connections wait in one.
#[track_caller]
fn by_readiness<O: Op>(
    socket: &Arc<Socket>,
    op: &mut O,
    timeout: Option<Duration>,
    mut deadline: Option<Option<Instant>>,
) -> io::Result<O::Output> {
    let direction = socket.direction(O::HALF);
    loop {
        let tick = direction.tick();
        if !(direction.is_drained(tick) && op.needs_data()) {
            match op.attempt(socket) {
                Ok(output) => {
                    segue_core::drivers::charge(op.moved(&output) / BYTES);
                    if op.drains(&output) && socket.tells_end() {
                        direction.set_drained(tick);
                    }
                    return Ok(output);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
        }
        let deadline = *deadline.get_or_insert_with(|| timeout.and_then(|time| segue_core::now().checked_add(time)));
        socket.enlist(Interest::of(O::HALF))?;
        let _outsider = socket.visit(true);
        let _kernel = segue_core::drivers::kernel_wait();
        let limit = deadline.and_then(|at| Limit::set(socket, O::HALF as usize, at));
        match direction.wait(tick, deadline, limit, WaitsFor::new(O::WAITS_FOR)) {
            Ok(()) => {}
            Err(Ended::Cancelled(cancelled)) => return Err(cancelled.into()),
            Err(Ended::TimedOut) if direction.is_drained(tick) && op.needs_data() => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(Ended::TimedOut) => return last(socket, op),
        }
    }
}

/// An op as a source. The op has taken effect only when the source yields: each look at the source
/// attempts the op, and a success is the look's output; in between the source waits for an
/// edge.
pub(crate) fn source<O: Op + Copy>(
    socket: &Arc<Socket>,
    op: O,
    waits_for: WaitsFor,
) -> Waitable<impl Source<Output = io::Result<O::Output>>> {
    let look = move || {
        let (tick, mut result) = try_once(socket, &mut op.clone());
        let edge = socket.edges(O::HALF, tick, result.is_some(), waits_for);
        edge.map(move |()| result.take())
    };
    // An edge without a result is followed by the next look.
    from_kernel(waits_for, look).filter_map(|result| result)
}

/// Attempts an op, and asks for reports of edges if the op would block. Answers the tick from
/// before the attempt.
fn try_once<O: Op>(socket: &Arc<Socket>, op: &mut O) -> (u64, Option<io::Result<O::Output>>) {
    loop {
        let tick = socket.direction(O::HALF).tick();
        match op.attempt(socket) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return (tick, socket.enlist(Interest::of(O::HALF)).err().map(Err));
            }
            result => return (tick, Some(result)),
        }
    }
}

/// The last attempt of an op that has reached its deadline. The kernel may have reported no edge
/// although the op can go on: room in a send buffer makes an edge only when a third of the buffer
/// is free.
#[cold]
fn last<O: Op>(socket: &Socket, op: &mut O) -> io::Result<O::Output> {
    match op.attempt(socket) {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Err(io::ErrorKind::TimedOut.into())
        }
        result => result,
    }
}

#[cfg(test)]
#[path = "../../tests/units/run.rs"]
mod tests;
