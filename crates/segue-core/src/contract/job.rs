//! Jobs: closures that have not started, which schedulers queue, steal and start.
//!
//! Made by spawn, scope and fork-join; run by schedulers, with `Job::run` (`values/run.rs`). A job
//! is one pointer to a header with two functions, so that a job moves for free between queues and
//! threads; the words behind the header, the *work*, are the maker's business.
#![allow(unsafe_code)] // Type erasure by a hand-made vtable: one pointer a job.

use crate::contract::slots::{ContextHead, FamilyId};
use crate::primitives::record::Record;
use std::cell::{Cell, OnceCell, UnsafeCell};
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The name of a fiber. Headers keep the name behind one word, as few fibers have one.
pub type Name = Box<str>;

/// The head of everything that is queued as a [`Job`].
pub struct JobHeader {
    run: unsafe fn(NonNull<JobHeader>),
    abandon: unsafe fn(NonNull<JobHeader>),
    pub(crate) context: *const ContextHead,
    /// The family that counts the work, if one does.
    pub(crate) member_of: FamilyId,
    /// The family of the fibers that the work detaches.
    family: FamilyId,
    /// For the next fiber that runs the work. Belongs to the side that has the job, or makes it.
    given: UnsafeCell<Given>,
    pub(crate) at: Option<&'static Location<'static>>,
    /// Whether a fiber or thread was made for the work.
    has_fiber: Cell<bool>,
    /// See [`Job::is_awaited`]. From any thread; of std also in models, as a lock orders the uses.
    awaited: AtomicBool,
    /// The fiber-local values that the work inherits, or null. Belongs to the side that has the
    /// job; the side that abandons the work discards them.
    locals: Cell<*mut ()>,
}

/// Work that can stand behind a [`JobHeader`].
///
/// # Safety
/// The type is `#[repr(C)]` and its first field is the [`JobHeader`] that [`JobHeader::of`]
/// (`spawn/members.rs`) made for the type. Values of the type may be sent to another thread, unless
/// the maker's thread alone starts the job: the first one of a run (J6), or one that only
/// [`start_here`](crate::scheduling::Scheduler::start_here) is given. If the maker waits, `run`
/// does the work inside of [`retire`](crate::scheduling::retire), then tells the maker, and
/// afterwards touches nothing of the maker's (J5).
pub unsafe trait Work: Sized {
    /// Does the work, on a fiber of its own or in its caller's place. Does not unwind.
    ///
    /// # Safety
    /// For each job `run` or `abandon` is called, once. (A task has a job for each of its polls.)
    unsafe fn run(this: NonNull<Self>);

    /// Called instead of `run` if the job is dropped.
    ///
    /// # Safety
    /// As for `run`.
    unsafe fn abandon(this: NonNull<Self>);
}

impl JobHeader {
    /// The header for work in this context, which is a member of one family, detaches fibers to the
    /// other, and begins with these fiber-local values.
    ///
    /// # Safety
    /// Context and families are null, or in place until the work was run or abandoned; `locals` is
    /// null, or the work's to use.
    #[inline]
    pub(crate) unsafe fn within<W: Work>(
        context: *const ContextHead,
        member_of: FamilyId,
        family: FamilyId,
        given: Given,
        locals: *mut (),
    ) -> Self {
        // SAFETY (both): the header is the first field of a `W`, as `Work` promises, and the job
        // has a pointer to the whole `W`; a job calls one of these, once.
        // std knows this name: the backtrace of a panic ends at this frame.
        unsafe fn __rust_begin_short_backtrace<W: Work>(header: NonNull<JobHeader>) {
            // SAFETY: the pointer is one to a `W`, of which this is the one call for the job.
            unsafe { W::run(header.cast()) }
        }
        unsafe fn abandon<W: Work>(header: NonNull<JobHeader>) {
            // SAFETY: as in the function before.
            unsafe { W::abandon(header.cast()) }
        }
        Self {
            run: __rust_begin_short_backtrace::<W>,
            abandon: abandon::<W>,
            context,
            member_of,
            family,
            at: given.at,
            given: UnsafeCell::new(given),
            has_fiber: Cell::new(false),
            awaited: AtomicBool::new(false),
            locals: Cell::new(locals),
        }
    }

    /// From now on the maker only waits: see [`Job::is_awaited`]. The flag carries nothing else.
    ///
    /// # Safety
    /// `header` is in place, whether or not the work has run.
    #[inline]
    pub unsafe fn set_awaited(header: NonNull<Self>) {
        // SAFETY: the header is in place, as the caller promises; this one field is for any thread.
        unsafe { (*header.as_ptr()).awaited.store(true, Ordering::Relaxed) };
    }

    /// As [`Job::is_awaited`], for work that has outlived its job.
    #[inline]
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::Relaxed)
    }

    /// The fiber-local values that the work was to inherit, or null.
    ///
    /// # Safety
    /// The work is abandoned, or has no job.
    pub(crate) unsafe fn take_locals(&self) -> *mut () {
        self.locals.replace(ptr::null_mut())
    }

    /// Name and attributes for the fiber of the next job: a task has one for each poll.
    ///
    /// # Safety
    /// There is no job, and the caller is about to make one.
    pub(crate) unsafe fn give(&self, given: Given) {
        // SAFETY: without a job nobody else reads or writes the field, as the caller promises.
        unsafe { *self.given.get() = given };
    }
}

/// The wishes of a spawner for the fiber.
#[derive(Clone, Debug, Default)]
pub struct Given {
    pub(crate) name: Option<Box<Name>>,
    pub(crate) attributes: Option<Arc<Record>>,
    /// The binary logarithm of the stack's size, rounded up; 0 if nothing was said.
    pub(crate) stack: u8,
    /// Where the spawn was called.
    pub(crate) at: Option<&'static Location<'static>>,
}

impl Given {
    /// How many bytes of stack the fiber is to have for use, if the spawner has said so.
    #[inline]
    pub(crate) fn stack_size(&self) -> Option<usize> {
        (self.stack != 0).then(|| 1 << self.stack)
    }
}

/// A place in the cancellation tree: the context that the caller was in.
#[derive(Clone, Copy, Debug)]
pub struct Place(pub(crate) *const ContextHead);

/// A closure that has not started. Dropping a job tells its joiner, or maker, that it never ran.
#[must_use = "a job that is dropped is never run"]
pub struct Job(NonNull<JobHeader>);

// SAFETY: `Work` promises that the object behind the header may be sent, or that the job is not.
unsafe impl Send for Job {}

impl Job {
    /// The job that has this header.
    ///
    /// # Safety
    /// The header is the first field of its [`Work`], and the pointer was made from one to the
    /// whole work. No other job for the header exists now. The work stays in place until one of its
    /// two functions was called.
    #[inline]
    pub unsafe fn from_raw(header: NonNull<JobHeader>) -> Self {
        Self(header)
    }

    /// The address that the job was made from, by which a queued job can be found again.
    #[inline]
    pub fn as_raw(&self) -> NonNull<JobHeader> {
        self.0
    }

    /// Gives the right to run the work back to its maker.
    #[inline]
    pub fn into_raw(self) -> NonNull<JobHeader> {
        let header = self.0;
        std::mem::forget(self);
        header
    }

    /// Whether the job has a fiber or thread of its own. Asked once: a task's next job may not.
    #[inline]
    pub(crate) fn takes_fiber(&self) -> bool {
        self.header().has_fiber.replace(false)
    }

    /// The fiber-local values that the work inherits, or null.
    #[inline]
    pub(crate) fn take_locals(&self) -> *mut () {
        self.header().locals.replace(ptr::null_mut())
    }

    /// Does the work: the last step of `Job::run`, which the room `values` has, as a run puts
    /// fiber-local values in place. Does not unwind (J3).
    #[inline]
    pub(crate) fn start(self) {
        let header = self.into_raw();
        // SAFETY: this job was the only one for the header, which is in place, and is used up.
        unsafe { (header.as_ref().run)(header) };
    }

    /// Whether the maker only waits. If such a job is dropped, the maker gets the work back, and
    /// runs the work itself: for a scheduler that can't start the job now. Such a scheduler asks
    /// under the lock of the place where it keeps these jobs; the maker [says
    /// so](JobHeader::set_awaited) before looking there. So one sees the other.
    #[inline]
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.header().is_awaited()
    }

    /// The name for the fiber, if the spawner gave one.
    #[must_use]
    pub fn name(&self) -> Option<Name> {
        self.given().name.as_deref().cloned()
    }

    #[inline]
    fn header(&self) -> &JobHeader {
        // SAFETY: the header is in place until the work is run or abandoned, which uses up the job.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub(crate) fn given(&self) -> &Given {
        // SAFETY: this is the only job for the header, and one thread at a time has this job. The
        // two writers are `identity`, by `&mut`, and `give`, without a job.
        unsafe { &*self.header().given.get() }
    }

    /// How many bytes of stack the spawner has [asked](crate::Builder::stack_size) for, if any.
    #[inline]
    #[must_use]
    pub fn stack_size(&self) -> Option<usize> {
        self.given().stack_size()
    }

    /// Name, context, family and attributes for the fiber of the job.
    #[inline]
    pub(crate) fn identity(&mut self) -> Identity {
        let header = self.header();
        header.has_fiber.set(true);
        // SAFETY: as in `given`, and by `&mut` this is the only reference to the job.
        let given = unsafe { &mut *header.given.get() };
        let attributes = given.attributes.take().map_or_else(OnceCell::new, OnceCell::from);
        Identity { name: given.name.take(), context: header.context, family: header.family, attributes }
    }
}

/// The part of a job that its fiber keeps.
pub(crate) struct Identity {
    pub(crate) name: Option<Box<Name>>,
    pub(crate) context: *const ContextHead,
    pub(crate) family: FamilyId,
    pub(crate) attributes: OnceCell<Arc<Record>>,
}

impl Identity {
    /// In a context, and in no family.
    pub(crate) fn in_context(context: *const ContextHead) -> Self {
        Self { name: None, context, family: FamilyId::NONE, attributes: OnceCell::new() }
    }
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a closure")
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // SAFETY: a job that was run is forgotten, and so this one was not; there is no other one.
        unsafe { (self.0.as_ref().abandon)(self.0) };
    }
}
