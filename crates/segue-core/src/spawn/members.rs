//! What a family makes: jobs for its members, with handles for their results.
//!
//! Used by scopes and runtimes. `spawn/family.rs` says what a family is.
#![allow(unsafe_code)] // Members reach the family by its address.

use crate::cancel::token::CancelToken;
use crate::contract::fiber::Spawn;
use crate::contract::job::{Given, Job, JobHeader, Place, Work};
use crate::contract::slots::FamilyId;
use crate::spawn::async_task::{self, Ending};
use crate::spawn::builder::OfThreads as Builder;
use crate::spawn::family::Family;
use crate::spawn::join_handle::JoinHandle;
use crate::spawn::task;
use crate::values::locals::{self, Locals};
use std::ptr;
use std::sync::Arc;

impl Family {
    /// The right to cancel the family.
    pub fn token(&self) -> CancelToken {
        CancelToken(Arc::clone(&self.context))
    }

    /// A job that belongs to this family, with a handle for its result.
    ///
    /// # Safety
    /// The family stays in place until [`complete`](Family::complete) has returned, which the
    /// caller will call, and what the closure and its result borrow lives until then.
    #[inline]
    pub unsafe fn job<F, T>(&self, given: Builder, closure: F) -> (Job, JoinHandle<T>)
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        // SAFETY: as the caller promises.
        unsafe { self.job_given(given.given, closure, locals::inherited()) }
    }

    /// As [`job`](Family::job), of the settings alone, with the fiber-local values to begin with.
    ///
    /// # Safety
    /// As for [`job`](Family::job); and `locals` is null, or a table that nobody else has.
    #[inline]
    pub(crate) unsafe fn job_given<F, T>(&self, given: Given, closure: F, locals: *mut Locals) -> (Job, JoinHandle<T>)
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        // SAFETY: as the caller promises: the family outlives the job.
        unsafe { task::new(closure, given, self, self, locals) }
    }

    /// As [`job`](Family::job), for a future.
    ///
    /// # Safety
    /// As for [`job`](Family::job).
    pub unsafe fn async_job<F>(
        &self,
        given: Builder,
        future: F,
        spawner: Arc<dyn Spawn + Send + Sync>,
    ) -> (Job, JoinHandle<F::Output>)
    where
        F: Future + Send,
        F::Output: Send,
    {
        // SAFETY: as the caller promises.
        unsafe { self.async_job_given(given.given, future, spawner, locals::inherited()) }
    }

    /// As [`async_job`](Family::async_job), of the settings alone, with the fiber-local values to
    /// begin with.
    ///
    /// # Safety
    /// As for [`job_given`](Family::job_given).
    pub(crate) unsafe fn async_job_given<F, T>(
        &self,
        given: Given,
        future: F,
        spawner: Arc<dyn Spawn + Send + Sync>,
        locals: *mut Locals,
    ) -> (Job, JoinHandle<T>)
    where
        F: Future<Output: Ending<T>> + Send,
        T: Send,
    {
        // SAFETY: as in `job_given`.
        unsafe { async_task::new(future, given, spawner, self, self, locals) }
    }
}

impl JobHeader {
    /// The header for work that its maker waits for: it runs in the maker's context, and the
    /// fibers that it detaches belong to `family`.
    ///
    /// # Safety
    /// The maker leaves neither `place` nor `family` before the work was run or abandoned.
    #[must_use]
    #[inline]
    pub unsafe fn of<W: Work>(place: Place, family: Option<&Family>) -> Self {
        let family = family.map_or(FamilyId::NONE, Family::id);
        // SAFETY: as the caller promises.
        unsafe { Self::within::<W>(place.0, FamilyId::NONE, family, Given::default().or_inherited(), ptr::null_mut()) }
    }
}
