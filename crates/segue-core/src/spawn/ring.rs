//! The ring of an async task: the part that its wakers share.
//!
//! Used by `async_task.rs`, which has the states of the task, and puts the ring into the task's own
//! allocation.
//!
//! # The owners of its parts
//!
//! Wakers may outlive the task, and the handle may outlive them. So two things are counted:
//!
//! * *Users* are the wakers, and the job's side until the end of the task. They keep the spawner,
//!   to which a wake hands the job. The last user drops the spawner, as the last owner of an `Arc`
//!   would: a handle that nobody joins keeps no runtime in memory.
//! * The memory has two *halves*: that of all users together, and that of the side that frees the
//!   task (`task.rs` says which one). The second of the two to let go gives back the memory.
//!
//! ```text
//!   users: 1 --clone, retain--> n --leave--> ... --leave--> 0: the users' half goes
//!   halved: false --one half goes--> true --the other half goes--> given back
//! ```
//!
//! **The race to fear**: a step of one side while the other one gives the memory back. Each side
//! touches the ring only while its half is there, and the last step of a side is one exchange, by a
//! reference to that one atomic.
//!
//! # Orderings
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | the poll's exchange to IDLE | the wake's exchange to QUEUED, and by the job the next poll | the future's state after the last poll |
//! | the wake's exchange, also one that changes nothing | the exchange to POLLING of the next poll | the work before the wake |
//! | a user's `leave` | the last user's `leave` | the uses of the spawner |
//! | the first half's exchange of `halved` | the second's | all uses of the memory |
#![allow(unsafe_code)] // Wakers reach the ring by its address, and count themselves.

use crate::chain::barrier;
use crate::contract::fiber::Spawn;
use crate::contract::job::{Job, JobHeader};
use crate::primitives::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use crate::primitives::prefetch::prefetch_bytes;
use crate::primitives::waits_for::WaitsFor;
use std::mem::ManuallyDrop;
use std::process::abort;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{RawWaker, RawWakerVTable, Waker};

const QUEUED: u8 = 0;
const POLLING: u8 = 1;
const WOKEN: u8 = 2;
const IDLE: u8 = 3;
const OVER: u8 = 4;

/// No more users than this: the count must not come around.
const MOST: u32 = u32::MAX / 2;

/// The bytes of a task that are fetched before its poll: most of a small one.
const FETCHED: usize = 512;

/// The part that wakers share.
pub(super) struct Ring {
    state: AtomicU8,
    halved: AtomicBool,
    users: AtomicU32,
    header: NonNull<JobHeader>,
    /// Gives back the memory around the ring.
    free: unsafe fn(NonNull<Self>),
    /// Taken out by the last user.
    spawner: ManuallyDrop<Arc<dyn Spawn + Send + Sync>>,
}

impl Ring {
    /// The ring of a new task, which has its one job. The job's side is the first user.
    pub(super) fn new(
        header: NonNull<JobHeader>,
        free: unsafe fn(NonNull<Self>),
        spawner: Arc<dyn Spawn + Send + Sync>,
    ) -> Self {
        Self {
            state: AtomicU8::new(QUEUED),
            halved: AtomicBool::new(false),
            users: AtomicU32::new(1),
            header,
            free,
            spawner: ManuallyDrop::new(spawner),
        }
    }

    /// The job runs.
    ///
    /// # Safety
    /// For the job's side, in the state QUEUED.
    pub(super) unsafe fn begin(this: NonNull<Self>) {
        // An exchange, and not a store: this acquires the work before wakes that found QUEUED.
        // SAFETY: the job's side is a user, and so the ring is in place.
        unsafe { &(*this.as_ptr()).state }.swap(POLLING, Ordering::Acquire);
    }

    /// The poll has yielded nothing: answers whether the task waits now, and then the caller
    /// touches nothing of the task; if not, the caller queues the job.
    ///
    /// # Safety
    /// For the job's side, after [`begin`](Self::begin).
    #[must_use]
    pub(super) unsafe fn rest(this: NonNull<Self>) -> bool {
        // SAFETY: the job's side is a user up to the exchange, and the reference is to an atomic
        // alone: another thread may end the task, and free all, as soon as that is IDLE.
        let state = unsafe { &(*this.as_ptr()).state };
        let rests = state.compare_exchange(POLLING, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if !rests {
            // An exchange, and not a store: the releases of wakes that found WOKEN since stay in
            // the word, for `begin`.
            state.swap(QUEUED, Ordering::Relaxed);
        }
        rests
    }

    /// # Safety
    /// The caller has made the transition to QUEUED, and is a user until this returns, besides the
    /// job's side.
    unsafe fn queue(this: NonNull<Self>) {
        // SAFETY: as the caller promises. By the states the task is there, has no other job, and
        // nobody else touches the task; the header is the first field of its work.
        let (job, spawner) = unsafe { (Job::from_raw((*this.as_ptr()).header), &(*this.as_ptr()).spawner) };
        // The next poll comes within a few turns, after perhaps a long wait.
        prefetch_bytes(job.as_raw().as_ptr(), FETCHED);
        barrier(WaitsFor::new("the wake-up of a task"), || spawner.spawn(job));
    }

    /// As [`queue`](Self::queue), after a poll that was woken meanwhile.
    ///
    /// # Safety
    /// For the job's side, after [`rest`](Self::rest) has answered `false`.
    #[cold]
    pub(super) unsafe fn queue_again(this: NonNull<Self>) {
        // SAFETY: the job's side is a user, and so is this call, as the job may run, and end the
        // task, before `spawn` has returned.
        unsafe {
            Self::retain(this);
            Self::queue(this);
            Self::leave(this);
        }
    }

    /// The task has ended: a wake has no effect from now on.
    ///
    /// # Safety
    /// For the side that has the task to itself.
    pub(super) unsafe fn end(this: NonNull<Self>) {
        // SAFETY: the job's side is a user, and so the ring is in place.
        unsafe { &(*this.as_ptr()).state }.store(OVER, Ordering::Relaxed);
    }

    /// # Safety
    /// The caller is a user.
    unsafe fn wake(this: NonNull<Self>) {
        // SAFETY: the caller is a user, and so the ring is in place.
        let word = unsafe { &(*this.as_ptr()).state };
        let mut state = word.load(Ordering::Relaxed);
        loop {
            let to = match state {
                IDLE => QUEUED,
                POLLING => WOKEN,
                // The next poll must see the wake, so the earlier work is released all the same.
                other => other,
            };
            match word.compare_exchange_weak(state, to, Ordering::AcqRel, Ordering::Relaxed) {
                // SAFETY: this was the transition to QUEUED, by a user that is not the job's side.
                Ok(IDLE) => return unsafe { Self::queue(this) },
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
    }

    /// Counts one more user.
    ///
    /// # Safety
    /// There is a user meanwhile.
    unsafe fn retain(this: NonNull<Self>) {
        // SAFETY: the ring is in place as long as there is a user.
        if unsafe { &(*this.as_ptr()).users }.fetch_add(1, Ordering::Relaxed) > MOST {
            abort();
        }
    }

    /// One user less. The drop of the spawner is foreign code.
    ///
    /// # Safety
    /// The caller is a user, and is none any more.
    pub(super) unsafe fn leave(this: NonNull<Self>) {
        // SAFETY: the caller is a user up to the subtraction; the reference is to an atomic alone.
        if unsafe { &(*this.as_ptr()).users }.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        // SAFETY: nobody uses the spawner any more, nor is there a waker to be cloned. The users'
        // half is there still, and goes here, once.
        unsafe {
            let spawner = ManuallyDrop::take(&mut (*this.as_ptr()).spawner);
            Self::let_go(this);
            drop(spawner);
        }
    }

    /// One half less: the second gives back the memory.
    ///
    /// # Safety
    /// Called once for each half, by the side that has that half, as its last use of the memory.
    pub(super) unsafe fn let_go(this: NonNull<Self>) {
        // SAFETY: the half is there up to the exchange; the reference is to an atomic alone. After
        // `true` the other half has gone, and the memory is the caller's.
        unsafe {
            if (*this.as_ptr()).halved.swap(true, Ordering::AcqRel) {
                ((*this.as_ptr()).free)(this);
            }
        }
    }

    /// A waker that counts as no user, and must not be dropped.
    ///
    /// # Safety
    /// There is a user as long as the waker is used.
    pub(super) unsafe fn borrowed(this: NonNull<Self>) -> ManuallyDrop<Waker> {
        // SAFETY: the functions of the table keep the contract of wakers: the ring is reached from
        // any thread, by atomics, a spawner that is `Send` and `Sync`, and fields that stay as they
        // are. The task is touched by the side alone that makes the transition to QUEUED.
        ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(this.as_ptr().cast(), &TABLE)) })
    }

    /// A waker.
    ///
    /// # Safety
    /// There is a user meanwhile.
    pub(super) unsafe fn waker(this: NonNull<Self>) -> Waker {
        // SAFETY: as the caller promises; the new waker is a user.
        unsafe {
            Self::retain(this);
            ManuallyDrop::into_inner(Self::borrowed(this))
        }
    }
}

/// The functions of a waker of a ring. Its data is the ring's address, which is not null.
static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, leave);

/// # Safety
/// As that of wakers: of one that is a user, or borrows from one.
unsafe fn clone(ring: *const ()) -> RawWaker {
    // SAFETY: the data are those of a ring's waker, by which there is a user meanwhile.
    unsafe { Ring::retain(ring_of(ring)) };
    RawWaker::new(ring, &TABLE)
}

/// # Safety
/// As that of wakers: of one that is a user, which ends with this.
unsafe fn wake(ring: *const ()) {
    // SAFETY: the data are those of a ring's waker, a user until the drop below.
    unsafe {
        let user = ManuallyDrop::into_inner(Ring::borrowed(ring_of(ring)));
        Ring::wake(ring_of(ring));
        // Also after a panic.
        drop(user);
    }
}

/// # Safety
/// As that of wakers: of one that is a user, or borrows from one.
unsafe fn wake_by_ref(ring: *const ()) {
    // SAFETY: as the caller promises. A borrowed one is used in a poll, where the state is POLLING
    // or WOKEN: so the transition to QUEUED is never by that.
    unsafe { Ring::wake(ring_of(ring)) };
}

/// # Safety
/// As that of wakers: of one that is a user, which ends with this.
unsafe fn leave(ring: *const ()) {
    // SAFETY: the data are those of a ring's waker, a user that ends here.
    unsafe { Ring::leave(ring_of(ring)) };
}

/// # Safety
/// The data of a ring's waker.
unsafe fn ring_of(data: *const ()) -> NonNull<Ring> {
    // SAFETY: the address of a ring, as the caller promises.
    unsafe { NonNull::new_unchecked(data.cast_mut().cast()) }
}
