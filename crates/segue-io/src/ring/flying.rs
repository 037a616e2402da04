//! The completion driver: an io_uring of a worker, in which the ops of its fibers fly.
//!
//! Made by a `DriverPark` at the first op that could fly; used by `driver::run`, and by the park,
//! for which to be idle is to wait here. `request.rs` has the submissions, `flight.rs` what a
//! completion finds again, `queues.rs` the shared memory, `setup.rs` the making.
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
//! | state | what a cancellation does |
//! | --- | --- |
//! | in the queue, with the kernel | wakes the fiber, which pushes a cancel and waits on, shielded. Its completion decides: what was moved is returned, and `ECANCELED`, or `EINTR`, becomes the cancellation |
//! | cancelling | nothing |
//! | over | nothing: it shows at the next op |
//!
//! A limit does the same, without waking the fiber (see `limited.rs`).
//!
//! **Commit point**: the kernel's. **When idle**: nothing is in the queue, and everything that
//! flies is with the kernel. **The race to fear**: the frame ends while the kernel has its buffers.
//! It does not: the fiber waits until its own completion has come, whatever else happens, and a
//! stack is not freed before its function has returned. From the push to the completion nothing
//! unwinds; if something did, the process would end.
//!
//! A cancel names its flight by a number, and frames' addresses come again at once: so each flight
//! has a sequence number in it, too. Besides, a cancel is pushed by a fiber that waits on, and so
//! lies in the queue before any later flight at this address.
//!
//! # Who flies
//!
//! A fiber of the worker that sleeps in this ring, as its park says (`Park::takes_ops`). Not a
//! plain thread or a hosted fiber, which may block the thread while it waits: that is the thread
//! that has to reap. Nor a fiber that must not be suspended, for the same reason: it makes one
//! attempt, by readiness. Nor an op that the kernel does not have as an opcode, or that another
//! wait has the socket's timer from. An accept is attempted first, as there may be many to be had.
//!
//! # Threads
//!
//! All of it is the worker's own thread's: one issuer. A completion wakes a fiber of this thread,
//! so that it goes straight to the policy.
#![allow(unsafe_code)] // Flights lie in the frames of fibers; the kernel has their addresses.

use super::flight::{CANCELS, Flight, Kind, REACTORS, kind_of};
use super::queues::{BATCH, Queues};
use super::request::Request;
use super::setup::{self, Opcodes};
use crate::driver::op::{Half, Op};
use crate::driver::socket::Socket;
use crate::system::fork::Birth;
use io_uring::squeue::Entry;
use io_uring::{cqueue, opcode, types};
use segue_core::WaitsFor;
use segue_core::drivers::Limit;
use segue_core::unwind::NoUnwind;
use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A ring that is made when it is first needed, if it can be.
pub(crate) struct LazyRing {
    entries: u16,
    ring: OnceCell<Option<Rc<Ring>>>,
}

impl LazyRing {
    /// For so many submissions at a time; `None` for as many as fit.
    pub(crate) fn new(entries: Option<u16>) -> Self {
        Self { entries: entries.unwrap_or(setup::ENTRIES).max(1), ring: OnceCell::new() }
    }

    /// The ring, which is made now if there is none yet; `None` if none can be had.
    #[inline]
    pub(crate) fn get(&self) -> Option<&Rc<Ring>> {
        self.ring.get_or_init(|| setup::ring(self.entries).map(|made| Rc::new(Ring::new(made)))).as_ref()
    }

    /// The ring, if it was made, by this process.
    #[inline]
    pub(crate) fn made(&self) -> Option<&Rc<Ring>> {
        // In the child of a fork there is nothing at its addresses.
        self.ring.get()?.as_ref().filter(|ring| ring.birth.is_here())
    }
}

/// What has become of a flight.
enum Outcome {
    Done(u32),
    Cancelled,
    /// It has had no effect, and readiness is to see to it.
    Refused,
    Failed(io::Error),
}

pub(super) fn no_unwind() -> NoUnwind {
    NoUnwind::new("a fiber unwound from an op that the kernel has; the process can't go on")
}

pub(crate) struct Ring {
    /// Never borrowed while a flight is told of its end.
    queues: ManuallyDrop<RefCell<Queues>>,
    pub(super) opcodes: Cell<Opcodes>,
    /// Those that have succeeded.
    pub(super) proven: Cell<Opcodes>,
    /// How many flights there are whose completion has not come.
    flying: Cell<usize>,
    /// Whether something in the queue will probably be over at once.
    is_prompt: Cell<bool>,
    /// Whether the reactor is being polled, and whether it has called.
    armed: Cell<bool>,
    called: Cell<bool>,
    sequence: Cell<u16>,
    pub(super) birth: Birth,
}

impl Ring {
    fn new((queues, opcodes): (Queues, Opcodes)) -> Self {
        Self {
            queues: ManuallyDrop::new(RefCell::new(queues)),
            opcodes: Cell::new(opcodes),
            proven: Cell::new(Opcodes::default()),
            flying: Cell::new(0),
            is_prompt: Cell::new(false),
            armed: Cell::new(false),
            called: Cell::new(false),
            sequence: Cell::new(0),
            birth: Birth::now(),
        }
    }

    /// Carries out an op of the calling fiber, which may be suspended here; `None` if the op can't
    /// fly, or the kernel would not wait for it. Then it has had no effect, and its deadline is as
    /// it was set here.
    #[track_caller]
    pub(crate) fn carry_out<O: Op>(
        &self,
        socket: &Arc<Socket>,
        op: &mut O,
        timeout: Option<Duration>,
        deadline: &mut Option<Option<Instant>>,
    ) -> Option<io::Result<O::Output>> {
        let mut request = op.request(socket.io().as_fd())?;
        let code = request.opcode();
        if !self.opcodes.get().has(code) {
            return None;
        }
        if !self.birth.is_here() {
            return Some(Err(Birth::foreign()));
        }
        let until = timeout.and_then(|time| segue_core::now().checked_add(time));
        *deadline = Some(until);
        let limit = match until {
            None => None,
            // What came up among the timers of before is over already, and is not for this thread.
            Some(at) => Some(Limit::set(socket, O::HALF as usize, at).filter(|limit| !limit.is_over())?),
        };
        let flight = Flight::new();
        let no_unwind = no_unwind();
        // SAFETY: request and flight lie in this frame, and what they borrow outlives it. The frame
        // does not end before the completion: either the first wait is over only then, or the
        // second is; and nothing unwinds.
        let user_data = unsafe { self.launch(&mut request, &flight, socket.expects_data()) };
        let in_the_air = limit.as_ref().map(|_| socket.limited(O::HALF).begin(self, &flight, user_data));
        let waited = flight.wait(WaitsFor::new(O::WAITS_FOR));
        if waited.is_err() {
            self.cancel(user_data);
            flight.wait_shielded(WaitsFor::new("the end of an op that was cancelled"));
        }
        no_unwind.disarm();
        drop(in_the_air);
        match self.outcome(code, flight.result()) {
            Outcome::Done(result) => {
                if O::HALF == Half::Read {
                    socket.expect_data(cqueue::sock_nonempty(flight.flags()));
                }
                // SAFETY: it is the result of this request's completion.
                let answer = unsafe { request.answer(result) };
                Some(op.completed(answer))
            }
            // An op that had come to a thread of the kernel's is interrupted by its cancel.
            Outcome::Cancelled | Outcome::Refused if waited.is_err() => Some(Err(waited.err()?.into())),
            Outcome::Cancelled | Outcome::Refused if flight.is_late() => Some(Err(io::ErrorKind::TimedOut.into())),
            Outcome::Cancelled => Some(Err(io::Error::from_raw_os_error(libc::ECANCELED))),
            Outcome::Refused => None,
            Outcome::Failed(error) => Some(Err(error)),
        }
    }

    /// Puts a request into the queue. Answers with the number that a cancel goes by.
    ///
    /// # Safety
    /// The request with all that it borrows, and the flight, stay in their places until the
    /// flight's completion.
    unsafe fn launch(&self, request: &mut Request<'_>, flight: &Flight, expects_data: bool) -> u64 {
        let is_prompt = request.is_prompt();
        // SAFETY: the caller's.
        unsafe { self.launch_entry(request.entry(expects_data), is_prompt, flight) }
    }

    /// The same with a submission as it is.
    ///
    /// # Safety
    /// What it points to, and the flight, stay in their places until the flight's completion.
    pub(super) unsafe fn launch_entry(&self, entry: Entry, is_prompt: bool, flight: &Flight) -> u64 {
        let user_data = flight.user_data(self.number());
        self.flying.set(self.flying.get() + 1);
        self.is_prompt.set(self.is_prompt.get() || is_prompt);
        // SAFETY: the caller's.
        unsafe { self.push(&entry.user_data(user_data)) };
        user_data
    }

    /// What a completion with this result means.
    fn outcome(&self, code: u8, result: i32) -> Outcome {
        if result >= 0 {
            self.proven.set(self.proven.get().with(code));
            return Outcome::Done(result.cast_unsigned());
        }
        match -result {
            libc::ECANCELED => Outcome::Cancelled,
            // The kernel won't wait for this socket, or was interrupted at it.
            libc::EAGAIN | libc::EINTR => Outcome::Refused,
            // Not for this process, not on this kernel, or not this socket: a system call has the
            // last word. What has succeeded once, the kernel has; and what a connect is refused for
            // may be its own address.
            libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS | libc::EACCES | libc::EPERM => {
                if code != opcode::Connect::CODE && !self.proven.get().has(code) {
                    self.opcodes.set(self.opcodes.get().without(code));
                }
                Outcome::Refused
            }
            error => Outcome::Failed(io::Error::from_raw_os_error(error)),
        }
    }

    #[cfg(test)]
    pub(super) fn opcodes(&self) -> Opcodes {
        self.opcodes.get()
    }

    fn number(&self) -> u16 {
        self.sequence.set(self.sequence.get().wrapping_add(1));
        self.sequence.get()
    }

    /// Puts in a submission.
    ///
    /// # Safety
    /// What it points to stays until its completion.
    unsafe fn push(&self, entry: &Entry) {
        while self.queues.borrow().is_full() {
            self.enter(0, None);
            if self.queues.borrow().is_full() {
                // The kernel takes nothing before there is room for what is over.
                self.reap();
            }
        }
        // SAFETY: the caller's; and there is room.
        unsafe { self.queues.borrow_mut().push(entry) };
    }

    /// Asks the kernel to end a flight soon. If that is over by now, nothing happens.
    pub(crate) fn cancel(&self, user_data: u64) {
        if !self.birth.is_here() {
            return; // The flight is its parent's.
        }
        self.is_prompt.set(true);
        let entry = opcode::AsyncCancel::new(user_data).build().user_data(CANCELS);
        // SAFETY: it points to nothing.
        unsafe { self.push(&entry) };
    }

    fn enter(&self, want: u32, timeout: Option<Duration>) {
        if let Err(error) = self.queues.borrow_mut().enter(want, timeout) {
            panic!("a ring can't be entered: {error}; was its descriptor closed by foreign code?");
        }
        self.is_prompt.set(false);
    }

    /// Tells all flights whose completions have come.
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
                        // SAFETY: the address of a flight whose own completion this is, and which
                        // waits for it in its place. There is one completion for each.
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

    /// Gives the kernel what there is for it, and tells the flights that are over, without waiting.
    ///
    /// The kernel makes some twenty completions at a time. Those of the rest, of which
    /// [`is_called`](Ring::is_called) tells, are for the next look: the fibers that have theirs go
    /// first, and what they ask for goes with it.
    pub(crate) fn poll(&self) {
        if self.queues.borrow().pending() > 0 || self.queues.borrow().owes() {
            self.enter(0, None);
        }
        self.reap();
    }

    /// As [`poll`](Ring::poll), but waits for one completion, or for the reactor, whose descriptor
    /// this is.
    pub(crate) fn park(&self, reactor: BorrowedFd<'_>, timeout: Option<Duration>) {
        if !self.armed.replace(true) {
            let fd = types::Fd(reactor.as_raw_fd());
            let entry = opcode::PollAdd::new(fd, libc::POLLIN as u32).multi(true).build().user_data(REACTORS);
            // SAFETY: it points to nothing. The descriptor is open: the reactor outlives the park
            // that this is called from; and the kernel holds its own reference to what it polls.
            unsafe { self.push(&entry) };
        }
        self.enter(1, timeout);
        self.reap();
    }

    /// Whether the reactor has called since the last time.
    pub(crate) fn take_call(&self) -> bool {
        self.called.replace(false)
    }

    /// Whether the reactor has called, and was not looked after since. It calls once for all that
    /// it has.
    pub(crate) fn has_call(&self) -> bool {
        self.called.get()
    }

    /// The reactor has more than was taken from it.
    pub(crate) fn call(&self) {
        self.called.set(true);
    }

    /// Ends what flies, and waits for it: for a park that goes while fibers of its thread are
    /// suspended for good.
    pub(crate) fn drain(&self) {
        if !self.birth.is_here() || self.flying.get() == 0 {
            return;
        }
        let all = types::CancelBuilder::any().all();
        let entry = opcode::AsyncCancel2::new(all).build().user_data(CANCELS);
        // SAFETY: it points to nothing.
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

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("flying", &self.flying.get()).finish_non_exhaustive()
    }
}
