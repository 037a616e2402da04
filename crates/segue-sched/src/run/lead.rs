//! The first fiber of a run, and the end of the run's family.
//!
//! Used by every scheduler with a caller that waits for the end: a run, the simulator, the plain
//! scheduler. Pools and driven schedulers end their families in the same steps.
#![allow(unsafe_code)] // Families and frames are handed to workers that this file waits for.

use crate::run::shutdown;
use crate::worker::group::Group;
use crate::worker::local::Local;
use crate::worker::policy::Policy;
use crate::worker::run_loop::{OnDeadlock, Worker};
use crate::worker::stack_job::StackJob;
use segue_core::WaitsFor;
use segue_core::chain::barrier;
use segue_core::scheduling::{Family, Job, Park, Place};
use segue_core::unwind::__rust_begin_short_backtrace;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

/// Has stack overflows on this thread reported.
pub(crate) fn prepare_thread() -> io::Result<()> {
    segue_fiber::install_overflow_handler()?;
    segue_fiber::ensure_alternate_stack()
}

/// Runs `f` as the first fiber on this thread, and the loop until all has ended.
pub(crate) fn lead<P: Policy, K: Park, T>(
    local: Local<P>,
    park: K,
    on_deadlock: Option<OnDeadlock<'_>>,
    f: impl FnOnce() -> T,
) -> T {
    // SAFETY: the family is this call's, which leads in this family once.
    with_family(|family| unsafe { lead_family(family, local, park, on_deadlock, f) })
}

/// Calls `f` with the family of a run that the caller waits for.
pub(crate) fn with_family<R>(f: impl FnOnce(&Family) -> R) -> R {
    barrier(WaitsFor::new("the run of a scheduler"), || {
        // SAFETY: the family is dropped here, inside of the contexts in which it was made, and
        // across which nothing is captured. There are no members by then: `Family::job` makes them,
        // and by the contract of that function the family is completed.
        let family = unsafe { Family::of_caller() };
        f(&family)
    })
}

/// As [`lead`], in a family that the caller knows, and completes this family.
///
/// # Safety
/// The caller owns the family, and neither completes the family nor calls this again.
pub(crate) unsafe fn lead_family<P: Policy, K: Park, T>(
    family: &Family,
    local: Local<P>,
    park: K,
    on_deadlock: Option<OnDeadlock<'_>>,
    f: impl FnOnce() -> T,
) -> T {
    let group = Arc::clone(&local.common.group);
    // Other workers may go on when this one's loop has ended, and so this call.
    group.own(family, group.len() == 1);
    let work = |first| Worker::parked(&local, park, on_deadlock).run(Some(first));
    // SAFETY: the family is as asked for; the worker's loop starts the job on this thread.
    unsafe { first_fiber(family, f, |family| end_soon(&group, family), || end_now(&group), work) }
}

/// Has the members of a family end, with no more ado.
pub(crate) fn cancel(family: &Family) {
    family.token().cancel();
}

/// The owner of a scheduler's family is about to complete the family.
pub(crate) fn end_soon(group: &Arc<Group>, family: &Family) {
    shutdown::begin_as_owner(group, &family.token());
    group.disown();
}

/// The family is complete.
pub(crate) fn end_now(group: &Group) {
    shutdown::complete(group);
    group.stop();
}

/// Runs `f` as the first fiber of a scheduler, and then completes its family: `ending` is called
/// before that, to have the members end, and `ended` after that. `run` is given the first job, and
/// returns when every fiber has ended.
///
/// # Safety
/// The caller owns the family, and neither completes the family nor calls this again. `run` starts
/// the job on this thread, if at all.
pub(crate) unsafe fn first_fiber<T>(
    family: &Family,
    f: impl FnOnce() -> T,
    ending: impl FnOnce(&Family),
    ended: impl FnOnce(),
    run: impl FnOnce(Job),
) -> T {
    let first = StackJob::new(|| {
        let f = || __rust_begin_short_backtrace(f);
        let result = catch_unwind(AssertUnwindSafe(|| family.enter_context(f)));
        ending(family);
        // SAFETY: for the owner, as the caller promises; once, since a job runs once (J1).
        unsafe { family.complete() };
        ended();
        result
    });
    // SAFETY: this frame waits below, inside of its contexts; the family outlives the frame.
    // The closure is not sent anywhere, as the caller promises.
    run(unsafe { StackJob::job(NonNull::from(&first), Place::here(), Some(family)) });
    // SAFETY: a job was made of this frame, above.
    match unsafe { first.wait(WaitsFor::new("the first fiber")) } {
        Ok(Ok(value)) => value,
        Ok(Err(payload)) | Err(payload) => resume_unwind(payload),
    }
}
