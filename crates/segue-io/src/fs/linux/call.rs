//! The seam between a request to a file system and the wait for it.
//!
//! Used by everything in `fs`, through [`run`]. `calls.rs` has the calls.
//!
//! # Which way
//!
//! ```text
//!          at_once                request                     perform
//!   new -------------> ring? ------------------> over    +--------------> over
//!    |    over           |  none, or a refusal           |
//!    |                   +-------------------------------+ on a thread for blocking calls
//!    +---------------------------------------------------> over
//!            a plain thread: perform, in place
//! ```
//!
//! Here are the calls of file systems that ask nobody else, those of a disk: the others are made by
//! `elsewhere`, and by `descriptor`.
//!
//! Data that the kernel has in memory do not leave the worker: a call that can ask for those alone
//! does so first. Else the call flies in the worker's ring, if the kernel has an opcode for it; or
//! a thread for blocking calls makes the system call. All ways end in the same calls of the kernel,
//! and nothing above `run` knows which way a call went.
//!
//! **Commit point**: the kernel's. **Cancellation**: before a call has begun, *no effect*. In the
//! ring a cancel is asked for and the completion waited for: the kernel can end an op that waits in
//! its queue, and not one that the disk works on; the result is returned. A blocking call that has
//! begun is waited for.
//!
//! The child of a fork has the worker's fibers and not the kernel's ends of its driver: its calls
//! are made in place.

use crate::driver::workers::is_orphan;
use crate::ring::{self, Answer, Flown, Request};
use crate::system::sys::until_done;
use segue_core::WaitsFor;
use std::io;

/// One request to a file system, with the memory that the request borrows.
pub(in crate::fs) trait Call: Send {
    /// The result of a success.
    type Output: Send;

    /// The words of a report for a fiber that waits in this call.
    const WAITS_FOR: &'static str;

    /// The result without waiting; `None` if there is none, or the kernel can't tell. Then nothing
    /// has happened.
    fn at_once(&mut self) -> Option<io::Result<Self::Output>> {
        None
    }

    /// The call as a ring has it; `None` for a call made by [`perform`](Call::perform) alone.
    fn request(&mut self) -> Option<Request<'_>> {
        None
    }

    /// The meaning of the answer to its [request](Call::request).
    fn landed(&mut self, _answer: Answer) -> Self::Output {
        unreachable!("an answer to a call that has asked for nothing")
    }

    /// Makes the system call, which may block the thread.
    fn perform(&mut self) -> rustix::io::Result<Self::Output>;
}

/// A call with room for its output, for code that knows neither type and so is compiled once.
struct Carried<C: Call> {
    call: C,
    output: Option<C::Output>,
}

/// [`Carried`] without its type.
trait Carries: Send {
    fn request(&mut self) -> Option<Request<'_>>;
    fn land(&mut self, answer: Answer);
    fn perform(&mut self) -> rustix::io::Result<()>;
}

impl<C: Call> Carries for Carried<C> {
    fn request(&mut self) -> Option<Request<'_>> {
        self.call.request()
    }

    fn land(&mut self, answer: Answer) {
        self.output = Some(self.call.landed(answer));
    }

    fn perform(&mut self) -> rustix::io::Result<()> {
        self.output = Some(self.call.perform()?);
        Ok(())
    }
}

/// Carries out a call: suspends the calling fiber, or blocks the calling thread, meanwhile.
#[inline]
#[track_caller]
pub(in crate::fs) fn run<C: Call>(mut call: C) -> io::Result<C::Output> {
    segue_core::admit()?;
    if segue_core::in_fiber()
        && let Some(done) = call.at_once()
    {
        return done;
    }
    let mut carried = Carried { call, output: None };
    wait_for(&mut carried, C::WAITS_FOR)?;
    Ok(carried.output.expect("a call without an error has an output"))
}

/// Carries out a call that takes its time.
#[inline(never)]
#[track_caller]
fn wait_for(call: &mut dyn Carries, waits_for: &'static str) -> io::Result<()> {
    if !segue_core::in_fiber() || is_orphan() {
        return until_done(|| call.perform());
    }
    let mut refused = None;
    if let Some(ring) = ring::of_caller()
        && let Some(request) = call.request()
    {
        let code = request.opcode();
        match ring.fly(request, None, false, WaitsFor::new(waits_for)) {
            Flown::Landed(answer, _) => {
                call.land(answer);
                return Ok(());
            }
            Flown::Failed(error) => return Err(error),
            Flown::Refused => refused = Some((ring, code)),
        }
    }
    let done = segue_core::blocking(|| until_done(|| call.perform()))?;
    if let Some((ring, code)) = refused.filter(|_| done.is_ok()) {
        ring.lacks(code);
    }
    done
}

/// How a call flies in a ring: its request, and the output that the answer to the request means.
macro_rules! flies {
    (|$call:ident| $request:expr, |$landed:ident, $answer:ident| $output:expr) => {
        fn request(&mut self) -> Option<crate::ring::Request<'_>> {
            use crate::ring::Request;
            let $call = self;
            $request
        }

        fn landed(&mut self, $answer: crate::ring::Answer) -> Self::Output {
            let $landed = self;
            $output
        }
    };
}

pub(in crate::fs) use flies;
