//! Ops that fly: how an op of a worker's own fiber becomes a request to the worker's ring.
//!
//! Used by `run` before an op goes by readiness, and by `foreign`.

use super::op::Op;
use super::readiness::Half;
use super::socket::Socket;
use crate::ring::{self, Flown};
use segue_core::WaitsFor;
use segue_core::drivers::Limit;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Carries out an op of the calling fiber, which may be suspended here. `None` if the caller has no
/// ring, the op can't fly, or the kernel would not wait for it: then the op has had no effect, and
/// its deadline is as it was set here.
#[inline]
#[track_caller]
pub(crate) fn carry_out<O: Op>(
    socket: &Arc<Socket>,
    op: &mut O,
    timeout: Option<Duration>,
    deadline: &mut Option<Option<Instant>>,
) -> Option<io::Result<O::Output>> {
    let ring = ring::of_caller()?;
    if O::IS_EAGER {
        match op.attempt(socket) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            done => return Some(done),
        }
    }
    let mut request = op.request(socket.io().as_fd())?;
    let until = timeout.and_then(|time| segue_core::now().checked_add(time));
    *deadline = Some(until);
    let limit = match until {
        None => None,
        // A limit that came up among the timers of before is over already, and is not for this
        // thread.
        Some(at) => Some(Limit::set(socket, O::HALF as usize, at).filter(|limit| !limit.is_over())?),
    };
    let limited = limit.as_ref().map(|_| socket.limited(O::HALF));
    match ring.fly(&mut request, limited, socket.expects_data(), WaitsFor::new(O::WAITS_FOR)) {
        Flown::Landed(answer, has_more) => {
            if O::HALF == Half::Read {
                socket.expect_data(has_more);
            }
            Some(op.completed(answer))
        }
        Flown::Refused => None,
        Flown::Failed(error) => Some(Err(error)),
    }
}
