//! A spawned closure and its handle: one allocation that two owners share, the job and the
//! [`JoinHandle`](crate::JoinHandle).
//!
//! Used by `spawn` and by scopes; schedulers see only the [`Job`].
//!
//! # The side that frees
//!
//! The trigger `done` decides, so that no count is needed. The job signals it when the result is in
//! place; the drop of the handle cancels it. One of the two succeeds. If the signal does, the
//! handle reads the result and frees; if the cancel does, the job frees. The loser does not touch
//! the task again. A join that is cancelled decides nothing: the handle is there still, and joins
//! again.
//!
//! | `done` | the job, at its end | the handle |
//! | --- | --- | --- |
//! | INITIAL | claims: the handle frees | drop: cancels: the job frees |
//! | WAITING, or linked to the trigger of a choice | claims, resumes the joiner | is waiting; cancelled: INITIAL again |
//! | TAKEN | has ended | reads the result, frees |
//! | WAITING, and the joiner's context is cancelled | its claim is refused: resumes the joiner; CANCELLED says that the task has ended | joins again, or drops the result |
//! | CANCELLED by the handle | its claim fails: drops the result, inside of its context, and frees | gone |
#![allow(unsafe_code)] // One allocation behind two thin pointers.

use crate::chain::unwind::{__rust_begin_short_backtrace, caught};
use crate::chain::{self, Heritage};
use crate::contract::current;
use crate::contract::fiber::Fiber;
use crate::contract::job::{Given, Job, JobHeader, Work};
use crate::contract::slots::{ContextHead, FamilyId};
use crate::contract::trigger::Link;
use crate::contract::trigger::Trigger;
use crate::contract::wakeup::Wakeup;
use crate::primitives::atomic::Ordering;
use crate::primitives::payload::{Panic, Payload};
use crate::primitives::waits_for::{Object, WaitsFor, WaitsOn};
use crate::sim::preemption::preemption_point;
use crate::spawn::family::Family;
use crate::spawn::join_error::{Failed, JoinError};
use crate::spawn::join_handle::JoinHandle;
use crate::spawn::spare;
use crate::tree::cancelled::Cancelled;
use crate::tree::context::{Context, innermost};
use crate::tree::membership::leave_contexts;
use crate::tree::reports::forget_job;
use crate::values::locals::{self, Locals};
use crate::wait::retreat::Retreat;
use crate::wait::source::Source;
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};

/// The part of a task that knows no type of its closure: code for the head alone is compiled once.
#[repr(C)]
pub(crate) struct Head {
    header: JobHeader,
    edges: &'static Edges,
    done: Trigger,
}

/// The edges of a task, at which its types are known.
pub(super) struct Edges {
    /// Drops the closure in place, unless that was taken.
    pub(super) drop_closure: unsafe fn(NonNull<Head>),
    /// Puts an error in the place of the result, which is empty.
    pub(super) fail: unsafe fn(NonNull<Head>, Failed),
    /// Ends the task: drops all that is left in place, and frees the memory.
    pub(super) free: unsafe fn(NonNull<Head>),
}

/// The part of a task that its handle knows: everything but the closure's type.
#[repr(C)] // The head comes first, and in it the job's header.
pub(crate) struct Ended<T> {
    head: Head,
    pub(super) result: UnsafeCell<Option<Result<T, Failed>>>,
}

#[repr(C)] // The head comes first.
struct Task<F, T> {
    ended: Ended<T>,
    closure: UnsafeCell<Option<F>>,
}

impl<F, T> Task<F, T> {
    const EDGES: &'static Edges = &Edges { drop_closure: drop_closure::<F, T>, fail: fail::<T>, free: free::<F, T> };
}

/// Makes a task of `family`, which counts the task from here to its end, or of none. Fibers that
/// the closure detaches belong to `detached`; its fiber-local values are those inherited from its
/// spawner.
///
/// # Safety
/// `F` and `T` may borrow; the caller sees to it that the job has run or been dropped before the
/// end of the borrowed data, and that both families outlive the job, or are null.
#[inline(always)] // As `Origin::spawn`.
pub(crate) unsafe fn new<F, T>(
    closure: F,
    given: Given,
    family: *const Family,
    detached: *const Family,
    locals: *mut Locals,
) -> (Job, JoinHandle<T>)
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    // SAFETY: as the caller promises.
    unsafe {
        place(
            JobHeader::within::<Task<F, T>>(
                context_of(family),
                Family::id_of(family),
                Family::id_of(detached),
                given.or_inherited(),
                locals.cast(),
            ),
            closure,
            family,
        )
    }
}

/// As [`new`], for a closure that need not be `Send`.
///
/// # Safety
/// As for [`new`]; and the job is run, or dropped, on this thread. The handle is `Send` only if the
/// result is.
pub(crate) unsafe fn new_here<F: FnOnce() -> T, T>(
    closure: F,
    given: Given,
    family: *const Family,
    detached: *const Family,
    locals: *mut Locals,
) -> (Job, JoinHandle<T>) {
    // SAFETY: as the caller promises.
    unsafe {
        place(
            JobHeader::within::<Task<F, T>>(
                context_of(family),
                Family::id_of(family),
                Family::id_of(detached),
                given.or_inherited(),
                locals.cast(),
            ),
            closure,
            family,
        )
    }
}

/// The handle of a refused closure, which was dropped with this outcome.
#[cold]
pub(crate) fn never<T>(dropped: Result<(), Payload>, cancelled: Cancelled) -> JoinHandle<T> {
    type Nothing<T> = fn() -> T;
    // SAFETY: there is no context and no family.
    let header = unsafe {
        JobHeader::within::<Task<Nothing<T>, T>>(
            ptr::null(),
            FamilyId::NONE,
            FamilyId::NONE,
            Given::default(),
            ptr::null_mut(),
        )
    };
    // SAFETY: as above.
    let (job, handle) = unsafe { place(header, (|| unreachable!("it was refused")) as Nothing<T>, ptr::null()) };
    let head = job.into_raw().cast::<Head>();
    // SAFETY: the task has no job any more: this is its one end, in no context.
    unsafe {
        store_unstarted(head, dropped, cancelled);
        settle(head, free::<Nothing<T>, T>).leave();
    }
    handle
}

/// # Safety
/// The family is in place, or null.
#[inline]
pub(super) unsafe fn context_of(family: *const Family) -> *const ContextHead {
    // SAFETY: as the caller promises.
    unsafe { family.as_ref() }.map_or(ptr::null(), Family::context)
}

/// Puts a task into memory of its own.
///
/// # Safety
/// As for [`new`]; and the header is that of a work that is laid out like a `Task<F, T>`.
#[inline(always)]
unsafe fn place<F, T>(header: JobHeader, closure: F, family: *const Family) -> (Job, JoinHandle<T>) {
    // SAFETY: a task has a header, and so a size.
    let task = unsafe { spare::allocate(Layout::new::<Task<F, T>>()) }.cast::<Task<F, T>>();
    let place = task.as_ptr();
    // Field by field: a task put together elsewhere would be copied in words of another size than
    // those of the write, which waits for the writes.
    // SAFETY: each field of the new allocation is written, once; the caller keeps the family alive.
    unsafe {
        Head::begin(task.cast(), header, Task::<F, T>::EDGES, family);
        (&raw mut (*place).ended.result).write(UnsafeCell::new(None));
        (&raw mut (*place).closure).write(UnsafeCell::new(Some(closure)));
    }
    // SAFETY: the header is the first field of the task, which stays until job and handle are done.
    // This is the task's one handle.
    unsafe { (Job::from_raw(task.cast()), JoinHandle::new(Handle::of(task.cast()))) }
}

impl Head {
    /// Writes the head of a new task, which enters its family.
    ///
    /// # Safety
    /// There is memory for the task, which nobody else knows. The family is that of the header,
    /// and in place, or null.
    #[inline(always)]
    pub(super) unsafe fn begin(head: NonNull<Self>, header: JobHeader, edges: &'static Edges, family: *const Family) {
        let place = head.as_ptr();
        // SAFETY: the memory is this call's alone, so that each field is written once; the family
        // is in place, or null.
        unsafe {
            if let Some(family) = family.as_ref() {
                family.enter();
            }
            (&raw mut (*place).header).write(header);
            (&raw mut (*place).edges).write(edges);
            (&raw mut (*place).done).write(Trigger::new());
        }
    }

    #[inline(always)]
    pub(crate) fn family(&self) -> *const Family {
        Family::of_id(self.header.member_of)
    }

    /// What the family hands down to its members.
    ///
    /// # Safety
    /// The task has not left its family.
    #[inline(always)]
    pub(crate) unsafe fn heritage(&self) -> Heritage {
        // SAFETY: null, or the task's family, which counts the task and so is in place.
        unsafe { self.family().as_ref() }.map_or(Heritage::NONE, |family| family.heritage)
    }

    fn has_ended(&self) -> bool {
        self.done.outcome().is_some()
    }

    /// Whether the scope of the task is the one of the caller's body, and the caller is right in
    /// that body, where a suspension is allowed: no scope, token or deadline is between.
    #[inline]
    fn is_of_callers_scope(&self) -> bool {
        let context = self.header.context;
        // The caller is inside of its context, so that the context is alive.
        ptr::eq(context, current::context())
            && innermost(Context::is_owned_by_caller).unwrap_or(false)
            && !current::with_running(|fiber| fiber.is_some_and(Fiber::must_not_suspend))
    }

    /// Waits for the task's end, by its handle.
    #[inline(always)]
    fn wait(&self, waits_for: WaitsFor) -> Result<(), Cancelled> {
        let waits_on = WaitsOn { waits_for, object: Object::at(self) };
        match crate::wait::admission::admit() {
            _ if self.is_of_callers_scope() => {
                // The end of the scope would wait for the fiber all the same.
                self.done.wait_shielded_on(waits_on);
                Ok(())
            }
            Err(cancelled) if !self.has_ended() => Err(cancelled),
            _ => self.done.wait_once_more_on(waits_on),
        }
    }
}

/// # Safety
/// The head is that of a `Task<F, T>`, of which the job's side has the closure.
unsafe fn drop_closure<F, T>(head: NonNull<Head>) {
    // SAFETY: the head comes first in a `Task<F, T>`, and the job's side has its closure.
    unsafe { *head.cast::<Task<F, T>>().as_ref().closure.get() = None };
}

/// # Safety
/// As for [`store`].
pub(super) unsafe fn fail<T>(head: NonNull<Head>, failed: Failed) {
    // SAFETY: the contract is the same; the edges of a task are of its own types.
    unsafe { store::<T>(head, Err(failed)) };
}

/// # Safety
/// The head is that of a `Task<F, T>`. Called once, by the side that the table at the head of the
/// file names.
unsafe fn free<F, T>(head: NonNull<Head>) {
    let task = head.cast::<Task<F, T>>();
    // SAFETY: the task was allocated by `place` for this type, and nobody uses it any more. Also if
    // a drop panics.
    let _memory = unsafe { spare::Memory::of(task.cast(), Layout::new::<Task<F, T>>()) };
    // SAFETY: the head is the first field of a `Task<F, T>`, and this is its only end.
    unsafe { task.drop_in_place() };
}

// SAFETY: `repr(C)` puts the head first and the header first in that; the closure and the result
// are `Send` (see `new`), or stay here (see `new_here`).
unsafe impl<F: FnOnce() -> T, T> Work for Task<F, T> {
    #[inline(always)] // Into what a short backtrace ends with.
    unsafe fn run(this: NonNull<Self>) {
        let head = this.cast::<Head>();
        // Each result is written in its final place, and not put together elsewhere: a copy would
        // be in words of another size than the write. A value that nobody takes is dropped inside
        // of the context, in which its drop may wait; the context may end as soon as the family has
        // been left.
        // SAFETY: nobody else looks at the task's result before the end, which comes once. The
        // family counts the task, and the values that it hands down outlive the task. The work
        // begins with this call, and a job that runs as a part of its caller has values of its own.
        unsafe {
            if let Err(cancelled) = crate::tree::context::look() {
                refuse(head, cancelled);
            } else {
                // SAFETY: the job side alone uses the closure, and calls `run` once.
                let closure = (*this.as_ref().closure.get()).take().expect("a job runs once");
                let heritage = head.as_ref().heritage();
                let closure = || __rust_begin_short_backtrace(closure);
                match catch_unwind(AssertUnwindSafe(|| chain::inherit(heritage, closure))) {
                    Ok(value) => store(head, Ok(value)),
                    Err(payload) => store_panic(head, payload),
                }
            }
            retire(head, free::<F, T>);
        }
    }

    unsafe fn abandon(this: NonNull<Self>) {
        // SAFETY: the job side alone uses the task, and this is called instead of `run`.
        unsafe { abandon(this.cast()) }
    }
}

/// Ends a task together with its fiber, or its thread: drops the fiber-local values, and leaves all
/// contexts.
///
/// # Safety
/// Called once for a task, by the job's side, with the result in place, where the work has begun.
/// `free` is the task's own.
#[inline(always)]
pub(crate) unsafe fn retire(head: NonNull<Head>, free: unsafe fn(NonNull<Head>)) {
    // SAFETY: as the caller promises; then the task's fiber has left its contexts.
    unsafe {
        locals::end(|payload| note_panic(head, payload));
        // No closure for `retire_ended`, which would be a function that all tasks share, and call.
        forget_job();
        let settled = settle(head, free);
        leave_contexts();
        settled.leave();
    }
}

/// Ends a task that has no job any more, and was not run.
///
/// # Safety
/// Called once, by the job's side.
#[cold]
unsafe fn abandon(head: NonNull<Head>) {
    // SAFETY: this is the task's one end, by the job's side, in the contexts of its family until
    // the task leaves that.
    unsafe {
        let end = within_context(head, || {
            let cancelled = crate::tree::context::look().err().unwrap_or_else(Cancelled::new);
            refuse(head, cancelled);
            discard_inherited(head);
            settle(head, head.as_ref().edges.free)
        });
        end.leave();
    }
}

/// Drops the closure of a task that was cancelled before its start.
///
/// # Safety
/// As for [`store`]; and the closure is there.
#[cold]
unsafe fn refuse(head: NonNull<Head>, cancelled: Cancelled) {
    // SAFETY: the edges are the task's own; the closure is there, and nobody has stored a result.
    unsafe {
        let drop_closure = head.as_ref().edges.drop_closure;
        store_unstarted(head, caught(|| drop_closure(head)), cancelled);
    }
}

/// Runs `f` in the context of a task that is not on a fiber of its own, so that waits of `f` are
/// cancelled with the task's family.
///
/// # Safety
/// The task has not left its family, which keeps the context.
pub(crate) unsafe fn within_context<R>(head: NonNull<Head>, f: impl FnOnce() -> R) -> R {
    // SAFETY: as the caller promises.
    match unsafe { Context::from_raw(Context::of_head(head.as_ref().header.context)) } {
        Some(context) => context.enter(f),
        None => f(),
    }
}

/// Puts the result in place.
///
/// # Safety
/// The head is that of a task with a `T`. Called once for a task, by the job's side, before
/// [`settle`].
#[inline(always)]
pub(crate) unsafe fn store<T>(head: NonNull<Head>, result: Result<T, Failed>) {
    // SAFETY: the handle looks only after `done` was signalled; and there was none before, which
    // would have to be dropped.
    unsafe { head.cast::<Ended<T>>().as_ref().result.get().write(Some(result)) };
}

/// As [`store`], for a panic, of which the family takes note.
///
/// # Safety
/// As for `store`.
#[cold]
pub(crate) unsafe fn store_panic(head: NonNull<Head>, payload: Payload) {
    // SAFETY: the family counts this task until its end; and as the caller promises.
    unsafe {
        let payload = match head.as_ref().family().as_ref() {
            Some(family) => family.keep_panic("a fiber", payload),
            None => payload,
        };
        (head.as_ref().edges.fail)(head, Failed::Panicked(Panic::new(payload)));
    }
}

/// As [`store`], for a closure that was cancelled before its start, and was dropped with this
/// outcome.
///
/// # Safety
/// As for `store`.
#[cold]
pub(crate) unsafe fn store_unstarted(head: NonNull<Head>, dropped: Result<(), Payload>, cancelled: Cancelled) {
    // SAFETY: as in `store_panic`.
    unsafe {
        if let Some(family) = head.as_ref().family().as_ref() {
            family.unstarted.fetch_add(1, Ordering::Relaxed);
        }
        match dropped {
            Ok(()) => (head.as_ref().edges.fail)(head, Failed::NeverRan(cancelled)),
            Err(payload) => store_panic(head, payload),
        }
    }
}

/// The rest for a task that has left its contexts.
#[must_use]
pub(crate) struct Settled {
    joiner: Option<Wakeup>,
    family: *const Family,
}

impl Settled {
    /// Tells the handle, and leaves the family.
    ///
    /// # Safety
    /// The task's fiber has left its contexts, which may end next.
    #[inline(always)]
    pub(crate) unsafe fn leave(self) {
        drop(self.joiner);
        if !self.family.is_null() {
            // SAFETY: the family counts this task, and this is the task's last use of the family.
            unsafe { Family::leave(self.family) };
        }
    }
}

/// Ends a task, which is the handle's from now on; or, if that is gone, the result is dropped, here
/// and now, and the task freed.
///
/// # Safety
/// Called once for a task, by the job's side, with the result in place. `free` is the task's own.
#[inline(always)]
pub(crate) unsafe fn settle(head: NonNull<Head>, free: unsafe fn(NonNull<Head>)) -> Settled {
    // SAFETY: the job's side keeps the task alive until the claim of `done` or the release below.
    let task = unsafe { head.as_ref() };
    let family = task.family();
    let joiner = match task.done.claim(0) {
        Ok(wakeup) => Some(wakeup),
        Err(refused) => match refused.into_fiber() {
            // SAFETY: taken out just now.
            joiner @ Some(_) => Some(unsafe { Wakeup::from_fiber(joiner) }),
            None => {
                // SAFETY: the claim failed and nobody waits, so the handle has gone and the job
                // frees.
                unsafe { free_detached(head, family, free) };
                None
            }
        },
    };
    Settled { joiner, family }
}

/// # Safety
/// The task is the caller's to free, by its own `free`, and has not left its family.
#[inline(always)]
unsafe fn free_detached(head: NonNull<Head>, family: *const Family, free: unsafe fn(NonNull<Head>)) {
    // SAFETY: as the caller promises.
    if let Err(payload) = caught(|| unsafe { free(head) }) {
        // SAFETY: the family counts this task until that leaves.
        note(unsafe { family.as_ref() }, payload);
    }
}

/// Drops the fiber-local values that a task which has not run was to inherit.
///
/// # Safety
/// The task has no job any more, and has not left its family.
pub(crate) unsafe fn discard_inherited(head: NonNull<Head>) {
    // SAFETY: as the caller promises.
    unsafe { locals::discard(head.as_ref().header.take_locals().cast(), |payload| note_panic(head, payload)) };
}

/// Takes note of a panic that no handle reports: of the drop of a value that a task leaves behind.
///
/// # Safety
/// The task has not left its family.
#[cold]
pub(crate) unsafe fn note_panic(head: NonNull<Head>, payload: Payload) {
    // SAFETY: as the caller promises.
    note(unsafe { head.as_ref().family().as_ref() }, payload);
}

#[cold]
fn note(family: Option<&Family>, payload: Payload) {
    let rest = match family {
        Some(family) => family.keep_panic("the drop of what a fiber has left", payload),
        None => payload,
    };
    // Its own drop may panic again.
    std::mem::forget(rest);
}

/// The handle's side of a task. Its drop detaches the fiber.
pub(crate) struct Handle<T> {
    task: NonNull<Ended<T>>,
    result: PhantomData<T>,
}

// SAFETY: the handle gives away the result, by value and once, as a `Send` value may be.
unsafe impl<T: Send> Send for Handle<T> {}
// SAFETY: through a shared handle one can only ask whether the fiber has ended.
unsafe impl<T: Send> Sync for Handle<T> {}

impl<T> Handle<T> {
    /// # Safety
    /// For the one handle of a new task.
    #[inline(always)]
    pub(super) unsafe fn of(task: NonNull<Ended<T>>) -> Self {
        Self { task, result: PhantomData }
    }

    fn head(&self) -> &Head {
        // SAFETY: the task lives until this handle frees that, or gives the right up, which
        // consumes the handle; the head comes first.
        unsafe { self.task.cast().as_ref() }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.head().has_ended()
    }

    #[inline]
    pub(crate) fn join(self, waits_for: WaitsFor) -> Result<T, JoinError<Self>> {
        if let Err(cancelled) = self.head().wait(waits_for) {
            return Err(JoinError::WaitCancelled(cancelled, self));
        }
        let task = self.task;
        std::mem::forget(self);
        // SAFETY: `done` was signalled, and this handle, now forgotten, was the one to take the
        // result.
        unsafe { take_result(task) }
    }
}

/// Takes the result out of a task that has ended, and frees the task.
///
/// # Safety
/// `done` was signalled, so that the result is in place and the job's side is done with the task;
/// and its handle is not used any more.
unsafe fn take_result<T, H>(task: NonNull<Ended<T>>) -> Result<T, JoinError<H>> {
    // SAFETY: as the caller promises.
    unsafe {
        let result = (*task.as_ref().result.get()).take();
        (task.as_ref().head.edges.free)(task.cast());
        result.expect("the result is in place before the signal").map_err(JoinError::of)
    }
}

/// The source of [`JoinHandle::join_source`](crate::JoinHandle::join_source).
pub struct Joining<T, C = ()> {
    /// `None` once the result was taken.
    pub(super) handle: Option<Handle<T>>,
    pub(super) token: C,
    pub(super) waits_for: WaitsFor,
}

impl<T, C> std::fmt::Debug for Joining<T, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Joining").field(&self.handle).finish()
    }
}

// SAFETY: the link is reached until its end, or until the trigger was claimed through the link; the
// result is in place before the task signals. A handle that is `Send` may end its link on another
// thread.
unsafe impl<T, C> Source for Joining<T, C> {
    type Output = Result<T, JoinError>;
    type Slot = Link;

    fn waits_for(&self) -> WaitsFor {
        self.waits_for
    }

    fn object(&self) -> Object {
        self.handle.as_ref().map_or(Object::NONE, |handle| Object::at(handle.head()))
    }

    fn address(&self, least: usize) -> Option<usize> {
        let task = self.handle.as_ref().map_or(usize::MAX, |handle| handle.task.addr().get());
        Some(task).filter(|address| *address >= least)
    }

    fn attempt(&mut self) -> Option<Result<T, JoinError>> {
        preemption_point();
        if !self.handle.as_ref()?.has_ended() {
            return None;
        }
        let handle = self.handle.take()?;
        let task = handle.task;
        std::mem::forget(handle);
        // SAFETY: `done` has an outcome, which a handle that is there has not brought about; and
        // the handle is forgotten.
        Some(unsafe { take_result(task) })
    }

    unsafe fn register(&mut self, slot: &mut Link, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
        // A result that was taken never comes again.
        let Some(handle) = &self.handle else { return Ok(()) };
        // SAFETY: as the caller promises; the handle is the only one that waits for the task.
        let joined = unsafe { slot.join(&handle.head().done, trigger, arm) };
        if joined { Ok(()) } else { Err(trigger.retreat()) }
    }

    unsafe fn withdraw(&mut self, slot: &mut Link) {
        if let Some(handle) = &self.handle {
            // SAFETY: the slot was linked to this handle's task, if at all.
            unsafe { slot.leave(&handle.head().done) };
        }
    }

    unsafe fn commit(&mut self, _slot: &mut Link, _arm: usize) -> Option<Result<T, JoinError>> {
        self.attempt()
    }

    unsafe fn give_back(&mut self, _slot: &mut Link, _arm: usize) {
        // The result stays in the task, and goes with the handle.
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        if !self.head().done.cancel() {
            // SAFETY: `done` was signalled, so freeing falls to the handle, and this is its end.
            unsafe { (self.head().edges.free)(self.task.cast()) };
        }
    }
}

impl<T> std::fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinHandle").field("finished", &self.has_ended()).finish()
    }
}
