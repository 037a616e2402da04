//! The completion driver: an io_uring of a worker, in which the ops of its fibers fly.
//!
//! Made by a `DriverPark` at the first request that could fly; used by ops, by calls of files, and
//! by the park, which waits here when its worker is idle. `request.rs` and `files.rs` have the
//! submissions, `flight.rs` the part of a flight that its completion finds again, `queues.rs` the
//! shared memory, `setup.rs` the making, `worker.rs` the ring of each worker.
//!
//! # Beside the reactor
//!
//! A worker keeps its reactor. Sockets that other threads wait for, sources, peeks and wake-ups go
//! by readiness, as without a ring. The ring polls the reactor's epoll descriptor; so a worker
//! sleeps in one place:
//!
//! ```text
//!   a fiber's read, write, accept, connect ----> ring <--- the worker sleeps here
//!                                                 ^
//!   others' waits ---> sockets ---> epoll --------+ (a poll that stays armed)
//!   unpark ---------> an eventfd ---> epoll
//! ```
//!
//! While nothing flies, the worker sleeps in the epoll itself, one system call nearer.
//!
//! # The life of a flight
//!
//! ```text
//!            push                 the worker's next look: one `enter` for all of a round
//!   request ------> in the queue ------------------------------> with the kernel
//!                                                                   |        |
//!                     cancelled, or the limit is over: a cancel is pushed    | its completion
//!                                                                   v        v
//!                                                              cancelling --> over
//! ```
//!
//! | state | the effect of a cancellation |
//! | --- | --- |
//! | in the queue, with the kernel | wakes the fiber, which pushes a cancel and waits on, shielded. Its completion decides: the count of moved bytes is returned, and `ECANCELED`, or `EINTR`, becomes the cancellation |
//! | cancelling | none |
//! | over | none: the cancellation shows at the next op |
//!
//! A limit does the same, without waking the fiber (see `limited.rs`).
//!
//! **Commit point**: the kernel's. **When idle**: nothing is in the queue, and everything that
//! flies is with the kernel. **The race to fear**: the frame ends while the kernel has its buffers.
//! This cannot happen: the fiber waits until its own completion has come, come what may, and a
//! stack is not freed before its function has returned. From the push to the completion nothing
//! unwinds; if something did, the process would end.
//!
//! A cancel names its flight by a number, and frames' addresses come again at once: so each flight
//! has a sequence number, too. Besides, a cancel is pushed by a fiber that waits on, and so
//! lies in the queue before any later flight at this address.
//!
//! # Which fibers have flights
//!
//! A fiber of the worker that sleeps in this ring, as its park says (`Park::takes_ops`). Not a
//! plain thread or a hosted fiber, which may block the thread in a wait: that is the thread that
//! has to reap. Nor a fiber that must not be suspended, for the same reason: such a fiber makes one
//! attempt, by readiness. Nor an op that the kernel does not have as an opcode, or that another
//! wait has the socket's timer from. An accept is attempted first, as there may be many to be had;
//! a send, where the worker finds that cheaper (`sends.rs`).
//!
//! # Threads
//!
//! All of this is the worker's own thread's: one issuer. A completion wakes a fiber of this thread,
//! which goes straight to the policy.
#![allow(unsafe_code)] // Flights lie in the frames of fibers; the kernel has their addresses.

use super::flight::{CANCELS, Flight, Kind, REACTORS, kind_of};
use super::limited::{Limited, Owner};
use super::queues::{BATCH, Queues};
use super::request::{Answer, Request};
use super::sends::{Rule, Sends};
use super::setup::{self, Opcodes};
use crate::system::fork::Birth;
use io_uring::squeue::Entry;
use io_uring::{cqueue, opcode, types};
use segue_core::unwind::NoUnwind;
use segue_core::{Cancelled, WaitsFor};
use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::rc::Rc;
use std::time::Duration;

/// A kernel-internal "begin again", which a request on a kernel's thread may end with after an
/// interruption.
const RESTARTS: RangeInclusive<i32> = 512..=516;

/// A ring that is made at its first use, if the system has rings.
pub(crate) struct LazyRing {
    entries: u16,
    sends: Rule,
    ring: OnceCell<Option<Rc<Ring>>>,
}

impl LazyRing {
    /// For so many submissions at a time; `None` for as many as fit.
    pub(crate) fn new(entries: Option<u16>, sends: Rule) -> Self {
        Self { entries: entries.unwrap_or(setup::ENTRIES).max(1), sends, ring: OnceCell::new() }
    }

    /// The ring, which is made now if there is none yet; `None` if none can be had.
    #[inline]
    pub(crate) fn get(&self) -> Option<&Rc<Ring>> {
        self.ring.get_or_init(|| setup::ring(self.entries).map(|made| Rc::new(Ring::new(made, self.sends)))).as_ref()
    }

    /// The ring, if this process has made one.
    #[inline]
    pub(crate) fn made(&self) -> Option<&Rc<Ring>> {
        // In the child of a fork there is nothing at its addresses.
        self.ring.get()?.as_ref().filter(|ring| ring.birth.is_here())
    }
}

/// The end of a request.
pub(crate) enum Flown {
    /// Its answer; and whether a socket has more to read.
    Landed(Answer, bool),
    /// The request has had no effect, and is to go another way. A connect may have begun, and goes
    /// on by itself.
    Refused,
    Failed(io::Error),
}

pub(crate) struct Ring {
    /// Never borrowed while a flight is told of its end.
    queues: ManuallyDrop<RefCell<Queues>>,
    opcodes: Cell<Opcodes>,
    /// Those that have succeeded.
    proven: Cell<Opcodes>,
    /// The number of flights that still wait for a completion.
    flying: Cell<usize>,
    /// Whether something in the queue will probably be over at once.
    is_prompt: Cell<bool>,
    /// Whether the reactor is being polled, and whether the poll has called.
    armed: Cell<bool>,
    called: Cell<bool>,
    sequence: Cell<u16>,
    sends: Sends,
    /// By which `Limited` knows this ring.
    owner: Owner,
    birth: Birth,
}

impl Ring {
    fn new((queues, opcodes): (Queues, Opcodes), sends: Rule) -> Self {
        Self {
            queues: ManuallyDrop::new(RefCell::new(queues)),
            opcodes: Cell::new(opcodes),
            proven: Cell::new(Opcodes::default()),
            flying: Cell::new(0),
            is_prompt: Cell::new(false),
            armed: Cell::new(false),
            called: Cell::new(false),
            sequence: Cell::new(0),
            sends: Sends::new(sends),
            owner: Owner::default(),
            birth: Birth::now(),
        }
    }

    /// Carries out a request of the calling fiber, which is suspended here. The limit is over when
    /// `limited` says so.
    #[track_caller]
    pub(crate) fn fly(
        &self,
        mut request: Request<'_>,
        limited: Option<&Limited>,
        expects_data: bool,
        waits_for: WaitsFor,
    ) -> Flown {
        if !self.birth.is_here() {
            return Flown::Failed(Birth::foreign());
        }
        let code = request.opcode();
        if !self.opcodes.get().has(code) {
            return Flown::Refused;
        }
        let flight = Flight::new();
        let no_unwind = NoUnwind::new("a fiber unwound from a request that the kernel has; the process can't go on");
        self.sequence.set(self.sequence.get().wrapping_add(1));
        let user_data = flight.user_data(self.sequence.get());
        self.flying.set(self.flying.get() + 1);
        self.is_prompt.set(self.is_prompt.get() || request.is_prompt());
        // SAFETY: the request stays in its place until the completion, and so does the memory that
        // the request borrows; the flight lies in this frame. The completion comes before the end
        // of the waits: either the first one is over only then, or the shielded one is; and nothing
        // unwinds, or the process ends.
        unsafe { self.submit(&mut request, expects_data, user_data) };
        let waited = Limited::during(limited, &self.owner, &flight, user_data, || {
            let waited = flight.wait(waits_for);
            if waited.is_err() {
                self.end(&flight, user_data);
            }
            waited
        });
        no_unwind.disarm();
        let result = flight.result.get();
        if result >= 0 {
            self.proven.set(self.proven.get().with(code));
            // SAFETY: the result is that of the flight's completion, which is this request's own.
            let answer = unsafe { request.answer(result.cast_unsigned()) };
            return Flown::Landed(answer, cqueue::sock_nonempty(flight.flags.get()));
        }
        self.failed(&request, -result, waited, flight.is_late.get())
    }

    /// Puts in the submission of a request.
    ///
    /// # Safety
    /// The request stays in its place until the completion.
    #[inline(never)] // The wait is not to have the submission in its frame.
    unsafe fn submit(&self, request: &mut Request<'_>, expects_data: bool, user_data: u64) {
        // SAFETY: the entry points into the request, which stays as the caller promises, and to
        // memory that the request borrows for longer.
        unsafe { self.push(&request.entry(expects_data).user_data(user_data)) };
    }

    /// Ends a flight with a wait that was cancelled.
    #[cold]
    #[inline(never)]
    fn end(&self, flight: &Flight, user_data: u64) {
        self.cancel(user_data);
        flight.wait_shielded(WaitsFor::new("the end of an op that was cancelled"));
    }

    /// The end of a request that has come back with this error.
    #[cold]
    #[inline(never)]
    fn failed(&self, request: &Request<'_>, error: i32, waited: Result<(), Cancelled>, is_late: bool) -> Flown {
        let code = request.opcode();
        match error {
            // The kernel has ended the request, won't wait for this socket, or was interrupted.
            libc::ECANCELED | libc::EAGAIN | libc::EINTR => {}
            error if RESTARTS.contains(&error) => {}
            // The connect is under way, which the kernel's ring does not wait for a second time.
            libc::EINPROGRESS | libc::EALREADY if code == opcode::Connect::CODE => {}
            // Not for this process, not on this kernel, or not this socket: a system call has the
            // last word. An opcode that has succeeded once, the kernel has; and a refusal of a
            // connect, or of a call on a path, may be that of the address or the path.
            libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS | libc::EACCES | libc::EPERM
                if request.asks_socket() || !self.proven.get().has(code) =>
            {
                if request.asks_socket() && code != opcode::Connect::CODE {
                    self.lacks(code);
                }
            }
            error => return Flown::Failed(io::Error::from_raw_os_error(error)),
        }
        match waited {
            Err(cancelled) => Flown::Failed(cancelled.into()),
            Ok(()) if is_late => Flown::Failed(io::ErrorKind::TimedOut.into()),
            Ok(()) => Flown::Refused,
        }
    }

    /// A system call has done what this opcode has refused. An opcode that has never succeeded is
    /// not asked for again.
    pub(crate) fn lacks(&self, code: u8) {
        if !self.proven.get().has(code) {
            self.opcodes.set(self.opcodes.get().without(code));
        }
    }

    /// Whether an opcode is asked for.
    #[cfg(test)]
    pub(crate) fn has(&self, code: u8) -> bool {
        self.opcodes.get().has(code)
    }

    /// Puts in a submission.
    ///
    /// # Safety
    /// The memory that the submission points to stays until its completion.
    unsafe fn push(&self, entry: &Entry) {
        while self.queues.borrow().is_full() {
            self.enter(0, None);
            if self.queues.borrow().is_full() {
                // The kernel takes nothing before there is room for completions.
                self.reap();
            }
        }
        // SAFETY: by this function's own contract; and there is room.
        unsafe { self.queues.borrow_mut().push(entry) };
    }

    /// Asks the kernel to end a flight soon. If that is over by now, nothing happens.
    fn cancel(&self, user_data: u64) {
        if !self.birth.is_here() {
            return; // The flight is its parent's.
        }
        self.is_prompt.set(true);
        let entry = opcode::AsyncCancel::new(user_data).build().user_data(CANCELS);
        // SAFETY: a cancel points to no memory.
        unsafe { self.push(&entry) };
    }

    /// A limit is over: the flight that has it, if this ring's, is to end.
    pub(super) fn expire(&self, limited: &Limited) {
        if let Some(user_data) = limited.expire(&self.owner) {
            self.cancel(user_data);
        }
    }

    fn enter(&self, want: u32, timeout: Option<Duration>) {
        if let Err(error) = self.queues.borrow_mut().enter(want, timeout) {
            panic!("a ring can't be entered: {error}; was its descriptor closed by foreign code?");
        }
        self.is_prompt.set(false);
    }

    /// Tells all flights that have their completions.
    fn reap(&self) {
        loop {
            let mut batch = [const { MaybeUninit::uninit() }; BATCH];
            let mut queues = self.queues.borrow_mut();
            let taken = queues.take(&mut batch);
            drop(queues);
            for completion in taken {
                match kind_of(completion.user_data()) {
                    Kind::Flight(address) => {
                        self.flying.set(self.flying.get() - 1);
                        // SAFETY: the address of the flight that has this completion, and which
                        // waits for the completion in its place. There is one completion for each.
                        let flight = unsafe { &*std::ptr::with_exposed_provenance::<Flight>(address) };
                        flight.complete(completion.result(), completion.flags());
                    }
                    Kind::Reactor => {
                        self.called.set(true);
                        self.armed.set(self.armed.get() && cqueue::more(completion.flags()));
                    }
                    Kind::Cancel => {}
                }
            }
            if taken.len() < BATCH {
                return;
            }
        }
    }

    /// Whether its worker's sends fly.
    #[inline]
    pub(crate) fn sends(&self) -> &Sends {
        &self.sends
    }

    /// The worker is about to look here, or into its reactor alone.
    #[inline]
    pub(crate) fn begin_look(&self) {
        self.sends.look(self.flying.get());
    }

    /// Whether anything flies, or is to be given to the kernel.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.flying.get() > 0 || self.queues.borrow().pending() > 0
    }

    /// Whether a look would probably find something.
    #[inline]
    pub(crate) fn is_called(&self) -> bool {
        self.called.get() || (self.is_busy() && (self.is_prompt.get() || self.queues.borrow_mut().is_called()))
    }

    /// Gives the kernel all submissions, and tells the flights that are over, without waiting.
    ///
    /// The kernel makes some twenty completions at a time. Those of the rest, of which
    /// [`is_called`](Ring::is_called) tells, are for the next look: the fibers that have theirs go
    /// first, and the next look takes their requests along.
    pub(crate) fn poll(&self) {
        if self.queues.borrow().pending() > 0 || self.queues.borrow().owes() {
            self.enter(0, None);
        }
        self.reap();
    }

    /// As [`poll`](Ring::poll), but waits for one completion, or for the reactor with this
    /// descriptor.
    pub(crate) fn park(&self, reactor: BorrowedFd<'_>, timeout: Option<Duration>) {
        if !self.armed.replace(true) {
            let fd = types::Fd(reactor.as_raw_fd());
            let entry = opcode::PollAdd::new(fd, libc::POLLIN as u32).multi(true).build().user_data(REACTORS);
            // SAFETY: a poll points to no memory. The descriptor is open: the reactor outlives the
            // park that this is called from; and the kernel holds its own reference to the file
            // that is polled.
            unsafe { self.push(&entry) };
        }
        self.enter(1, timeout);
        self.reap();
    }

    /// Whether the reactor has called since the last time.
    pub(crate) fn take_call(&self) -> bool {
        self.called.replace(false)
    }

    /// Whether the reactor has called, and was not looked after since. The reactor calls once for
    /// all reports.
    pub(crate) fn has_call(&self) -> bool {
        self.called.get()
    }

    /// The reactor has more reports than were taken.
    pub(crate) fn call(&self) {
        self.called.set(true);
    }

    /// Ends all flights, and waits for their ends: for a park that goes while fibers of its thread
    /// are suspended for good.
    pub(crate) fn drain(&self) {
        if !self.birth.is_here() || self.flying.get() == 0 {
            return;
        }
        let all = types::CancelBuilder::any().all();
        let entry = opcode::AsyncCancel2::new(all).build().user_data(CANCELS);
        // SAFETY: a cancel points to no memory.
        unsafe { self.push(&entry) };
        while self.flying.get() > 0 {
            self.enter(1, None);
            self.reap();
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // In the child of a fork there is nothing at the queues' addresses, or something else.
        if self.birth.is_here() {
            // SAFETY: dropped once, here. Nothing flies: a flight has its own handle of the ring.
            unsafe { ManuallyDrop::drop(&mut self.queues) };
        }
    }
}

segue_core::impl_debug!([] Ring, |it| flying: it.flying.get());
