//! The chain of frames around the running computation: effect handlers, generators, contexts, and
//! barriers.
//!
//! Used by the crate of effect handlers, which links handlers and generators and captures the
//! computations inside of them; by the cancellation tree, which links the contexts that a captured
//! computation takes along; and by every operation that calls foreign code, which links a barrier.
//!
//! # The idea
//!
//! A computation that performs an effect, or gives from a generator, is *captured*: its stack, up
//! to the handler or the generator, is suspended and may go on later, in another fiber, or never.
//! So nothing on that stack may rely on its surroundings. Two kinds of frames do all the same:
//!
//! - An **operation in progress** (a wait, a wake-up, the run of a worker) has registered itself
//!   somewhere, or has a borrow of its fiber. Around each call of foreign code, a waker or a
//!   closure, the operation puts a [`barrier`]: no computation is captured across that. This is the
//!   rule for C frames of "Retrofitting Effect Handlers onto OCaml" (section 2), for the same
//!   reason.
//! - A **context** (the body of a scope, timeout, shield or token) is meant to be inside of
//!   something. A context belongs to the captured computation, leaves along, and comes back at the
//!   resume.
//!
//! So that a capture finds both, they stand in one chain with the handlers. Running code sees the
//! frames from the thread's top outwards.
//!
//! # How the top is set
//!
//! - A handler, a context or a barrier sets the top at its beginning, and again at its end or
//!   unwinding.
//! - The resumer of a captured computation names its own top as the parent of the computation's
//!   outermost frame, which is the top again when control comes back: a handled computation sets
//!   the top before giving control up, the consumer of a generator after getting it. So the clauses
//!   of a handler, and that consumer, see their own surroundings.
//! - A captured computation that goes on sets its former top. All frames between that and the
//!   outermost are its own, on stacks that were captured along.
//! - A coroutine starts with an empty chain: an effect does not leave the coroutine. The resumer
//!   takes its own chain out of the way; a suspension, from however deep inside, does the same with
//!   the coroutine's. Both look once, and mostly the chain is empty.
//!
//! **When the chain is empty** nothing can be captured across, whatever is linked later. So
//! contexts and barriers are linked only if the chain is not empty; mostly they cost one look at a
//! thread-local pointer.
//!
//! # Inheritance
//!
//! A fiber starts with an empty chain, and so do the halves of a join. But a handler that only
//! answers, by clauses that any thread may call, can be shared with computations that it outlives:
//! the halves of a join inside, and the fibers of a scope that was opened inside. Such a handler is
//! a [`Shared`]; these halves and fibers begin their chains with an [`inherit`]ed view of that
//! handler. The handler outlives them because nothing takes the scope, or the join, out: the
//! [`heritage`] ends at the first frame that may be captured, a generator or a handler that wants
//! continuations, and at a barrier.
//!
//! On the host with a thread for each coroutine each has a top of its own, since the top is a
//! thread-local variable; all of the above holds there too, and some of it is needless.
#![allow(unsafe_code)] // Frames are linked by address.

pub(crate) mod deferred_wakers;
pub(crate) mod unwind;

use crate::contract::slots::ContextHead;
use crate::primitives::atomic::local;
use crate::primitives::waits_for::WaitsFor;
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::ptr;

/// The chain's view of the clauses of a handler: the start of the data of the crate of handlers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Clauses {
    /// Whether one of them wants the continuation: then the handler's computation may be captured.
    pub capture: bool,
}

/// A frame around running code. `repr(C)`: a frame is the first field of its structure.
#[repr(C)]
#[derive(Debug)]
pub struct Frame {
    /// The next outer one, or null.
    pub(crate) parent: Cell<*const Frame>,
    /// A handler's clauses, in the form of the crate of handlers. Null for everything else.
    clauses: Cell<*const Clauses>,
    /// A handler's clauses. Of a frame that handles nothing: its kind, if this is one of the marks
    /// below.
    pub list: Cell<*const ()>,
    /// A handler's state. Unknown where the state is empty.
    state: Cell<MaybeUninit<*mut ()>>,
    /// Zero until somebody asks.
    id: Cell<u64>,
}

/// The kind of a frame that handles nothing.
#[derive(Clone, Copy, Debug)]
pub enum Kind<'a> {
    /// A generator, or a handler that is out of use.
    Passive,
    /// A context, or a detour past some: what is captured across takes this along.
    Context(Surrounding<'a>),
    /// No computation is captured across such a frame.
    Barrier(&'a Barrier),
    /// The handler that is the next frame is shared.
    Shared(&'a Shared),
    /// The start of a chain that sees shared handlers of another one.
    Inherited(&'a Inherited),
}

// The marks of the kinds: in a frame's `list`, where no clauses are.
const BARRIER: *const () = ptr::without_provenance(1);
pub(crate) const CONTEXT: *const () = ptr::without_provenance(2);
const SHARED: *const () = ptr::without_provenance(3);
const INHERITED: *const () = ptr::without_provenance(4);

impl Frame {
    /// A frame inside of the present surroundings.
    #[inline(always)]
    #[must_use]
    pub fn new(clauses: *const Clauses, list: *const ()) -> Self {
        Self {
            parent: Cell::new(top()),
            clauses: Cell::new(clauses),
            list: Cell::new(list),
            state: Cell::new(MaybeUninit::uninit()),
            id: Cell::new(0),
        }
    }

    /// A frame that handles nothing.
    #[inline]
    #[must_use]
    pub fn passive() -> Self {
        Self::new(ptr::null(), ptr::null())
    }

    /// The next outer one, or null.
    #[inline(always)]
    #[must_use]
    pub fn parent(&self) -> *const Self {
        self.parent.get()
    }

    /// The clauses; null for a frame that is no handler, or out of use.
    #[inline(always)]
    #[must_use]
    pub fn clauses(&self) -> *const Clauses {
        self.clauses.get()
    }

    /// Says where a handler's state lies.
    #[inline(always)]
    pub fn set_state<S>(&self, state: *mut S) {
        if mem::size_of::<S>() != 0 {
            self.state.set(MaybeUninit::new(state.cast()));
        }
    }

    /// Where a handler's state lies.
    ///
    /// # Safety
    /// That was [said](Self::set_state), of a state of this type.
    #[inline(always)]
    #[must_use]
    pub unsafe fn state<S>(&self) -> *mut S {
        if mem::size_of::<S>() == 0 {
            return ptr::dangling_mut();
        }
        // SAFETY: as the caller promises.
        unsafe { self.state.get().assume_init() }.cast()
    }

    /// A number that no other frame of this thread has, nor had.
    #[inline]
    #[must_use]
    pub fn id(&self) -> u64 {
        if self.id.get() == 0 {
            self.id.set(change());
        }
        self.id.get()
    }

    /// Puts the frame inside of another one.
    ///
    /// # Safety
    /// `parent` is null, or in place.
    #[inline(always)]
    pub unsafe fn put_inside(&self, parent: *const Self) {
        // A frame that is gone may have lain where this one does. The number tells the two apart: a
        // clause that was found through the other one was found before this one is numbered, which
        // counts as a change.
        // SAFETY: as the caller promises.
        let _ = unsafe { parent.as_ref() }.map(Self::id);
        // Kept also where the address is the same, which may be that of another frame.
        if self.parent.replace(parent) != parent {
            change();
        }
    }

    /// Takes a handler out of use: nobody finds its clauses any more.
    #[cold]
    pub fn seal(&self) {
        self.clauses.set(ptr::null());
        change();
    }

    pub(crate) fn marked(mark: *const ()) -> Self {
        Self::new(ptr::null(), mark)
    }

    /// The kind of this frame, which handles nothing.
    ///
    /// By address, which leads to the whole structure that begins with the frame, as a reference
    /// would not.
    ///
    /// # Safety
    /// The frame is one of the chain, by the chain's pointer, and stays there while the answer is
    /// used.
    #[cold]
    #[must_use]
    pub unsafe fn kind<'a>(this: *const Self) -> Kind<'a> {
        // SAFETY: only those four link frames with these marks, as their first fields, in
        // `repr(C)`; and each structure in the chain is in place as a whole.
        unsafe {
            let mark = (*this).list.get();
            if mark == BARRIER {
                Kind::Barrier(&*this.cast())
            } else if mark == CONTEXT {
                Kind::Context(Surrounding(this, PhantomData))
            } else if mark == SHARED {
                Kind::Shared(&*this.cast())
            } else if mark == INHERITED {
                Kind::Inherited(&*this.cast())
            } else {
                Kind::Passive
            }
        }
    }
}

/// A frame that stands for a context, or for a *detour*, past contexts that are not seen from
/// there, but captured all the same.
///
/// The chain knows the frame alone. The room `tree`, which links these frames, moves the contexts
/// behind them: [`leave`](Surrounding::leave), [`detour`](Surrounding::detour).
#[derive(Clone, Copy, Debug)]
pub struct Surrounding<'a>(*const Frame, PhantomData<&'a Frame>);

impl Surrounding<'_> {
    pub(crate) fn frame(self) -> *const Frame {
        self.0
    }
}

/// The contexts of a computation that is captured, away from those around. Its drop puts them
/// inside of those in which the computation goes on.
#[must_use = "the computation is in its contexts again when this is dropped"]
#[derive(Debug)]
pub struct Away<'a> {
    pub(crate) outermost: Surrounding<'a>,
    pub(crate) innermost: *const ContextHead,
}

local!(static TOP: Cell<*const Frame> = Cell::new(ptr::null()));

local!(static CHANGES: Cell<u64> = Cell::new(0));

/// Counts on, and answers with the new count.
fn change() -> u64 {
    CHANGES.with(|changes| {
        changes.set(changes.get() + 1);
        changes.get()
    })
}

/// Counts how often a frame of this thread's was put elsewhere, taken out of use, or numbered.
///
/// While this stays the same, the way from a frame outwards stays the same, and so do the frames on
/// that way: a clause that was found from the frame with this [id](Frame::id) is still there. Not
/// on the host with a thread for each coroutine, where several threads change the frames of one
/// chain.
#[inline(always)]
#[must_use]
pub fn changes() -> u64 {
    CHANGES.with(Cell::get)
}

/// The innermost frame, or null.
#[inline(always)]
#[must_use]
pub fn top() -> *const Frame {
    TOP.with(Cell::get)
}

/// Makes a frame the innermost one.
///
/// # Safety
/// The frame is null, or in place until the next call, and so are all those further out. `clauses`
/// and the others have the meaning of the crate of handlers.
#[inline(always)]
pub unsafe fn set_top(frame: *const Frame) {
    TOP.with(|top| top.set(frame));
}

/// Its drop sets the top again.
#[derive(Debug)]
pub struct Restore(*const Frame);

impl Restore {
    /// Sets the top to its present value.
    ///
    /// # Safety
    /// The drop comes, if at all, before the end of the present top.
    #[inline(always)]
    #[must_use]
    pub unsafe fn new() -> Self {
        Self(top())
    }

    /// As [`new`](Self::new), with another frame as the top until the drop.
    ///
    /// # Safety
    /// As for `new`; and the frame, and those around, are in place until the drop.
    #[inline]
    #[must_use]
    pub(crate) unsafe fn inside(frame: *const Frame) -> Self {
        // SAFETY: as the caller promises.
        let restore = unsafe { Self::new() };
        // SAFETY: as the caller promises.
        unsafe { set_top(frame) };
        restore
    }
}

impl Drop for Restore {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the top was in place, and is, as the maker of this promises.
        unsafe { set_top(self.0) };
    }
}

/// The obstacle between the top and a frame further out.
#[derive(Clone, Copy, Debug)]
pub enum Path<'a> {
    /// Nothing that a capture up to there would have to see to.
    Clear,
    /// Contexts, of which this is the outermost.
    Through(Surrounding<'a>),
    /// A barrier.
    Barred(&'a Barrier),
    /// The frame is not in the chain: the caller runs in a coroutine of its own.
    Apart,
}

/// Looks at the frames between the top and `to`.
///
/// # Safety
/// The answer is not used any more when one of the frames between has ended.
#[cold]
#[must_use]
pub unsafe fn path<'a>(to: *const Frame) -> Path<'a> {
    let mut path = Path::Clear;
    let mut at = top();
    while at != to {
        // SAFETY: the frames from the top outwards are in place, and those between the top and the
        // one that the caller knows of stay while the caller is inside of them.
        let Some(frame) = (unsafe { at.as_ref() }) else { return Path::Apart };
        if frame.clauses.get().is_null() {
            // SAFETY: the frame is in the chain.
            match unsafe { Frame::kind(at) } {
                Kind::Passive | Kind::Shared(_) | Kind::Inherited(_) => {}
                Kind::Context(context) if !matches!(path, Path::Barred(_)) => path = Path::Through(context),
                Kind::Barrier(barrier) if !matches!(path, Path::Barred(_)) => path = Path::Barred(barrier),
                // The caller is to be told of the innermost barrier.
                Kind::Context(_) | Kind::Barrier(_) => {}
            }
        }
        at = frame.parent.get();
    }
    path
}

/// An operation in progress, across which no computation is captured.
#[repr(C)] // The frame comes first.
#[derive(Debug)]
pub struct Barrier {
    frame: Frame,
    what: WaitsFor,
}

impl Barrier {
    /// The operation, and the place of its call.
    #[must_use]
    pub fn what(&self) -> WaitsFor {
        self.what
    }

    /// Puts a barrier into the chain, until the guard is dropped.
    ///
    /// # Safety
    /// The room is in place until then.
    #[cold]
    #[inline(never)]
    unsafe fn link(what: WaitsFor, room: &mut MaybeUninit<Self>) -> Restore {
        let barrier: *const Self = room.write(Self { frame: Frame::marked(BARRIER), what });
        // SAFETY: as the caller promises.
        unsafe { Restore::inside(barrier.cast()) }
    }
}

/// Runs `f`, which is foreign code that an operation calls: a waker, a hook, a closure, a drop.
///
/// A perform in `f` finds no handler outside of this, and an element for a generator outside is
/// refused; the message names `what` as the obstacle. Handlers and generators within `f` work as
/// everywhere.
#[inline(always)]
pub fn barrier<R>(what: WaitsFor, f: impl FnOnce() -> R) -> R {
    let mut room = MaybeUninit::uninit();
    // One call of `f` for both ways: else the compiler makes a function of it.
    // SAFETY: the room is in place until the guard is dropped, at the end of this function.
    let _linked = (!top().is_null()).then(|| unsafe { Barrier::link(what, &mut room) });
    f()
}

/// A handler for inheritance by computations that start inside and end before the handler does.
#[repr(C)] // The frame comes first.
#[derive(Debug)]
pub struct Shared {
    frame: Frame,
    handler: *const Frame,
    next: Heritage,
}

/// The inheritance: the innermost shared handler, with those further out; or nothing.
#[derive(Clone, Copy, Debug)]
pub struct Heritage(*const Shared);

// SAFETY: a shared handler and its frame are only read, from whatever thread, and its clauses may
// be called there.
unsafe impl Send for Heritage {}
// SAFETY: as above.
unsafe impl Sync for Heritage {}

impl Heritage {
    /// Nothing.
    pub const NONE: Self = Self(ptr::null());

    /// The innermost shared handler, and those further out.
    ///
    /// # Safety
    /// The join or scope of this heritage has not ended.
    #[must_use]
    pub unsafe fn split(self) -> Option<(*const Frame, Self)> {
        // SAFETY: a shared handler outlives its heirs.
        unsafe { self.0.as_ref() }.map(|shared| (shared.handler, shared.next))
    }
}

/// Runs `f` inside of a handler that is shared. `handler` is its frame, the top of the chain.
///
/// # Safety
/// The clauses of the handler only answer, and may be called from any thread while this runs.
pub unsafe fn share<R>(handler: *const Frame, f: impl FnOnce() -> R) -> R {
    // SAFETY: as the caller promises, the handler is in the chain; those further out outlive it.
    let next = unsafe { heritage_from((*handler).parent.get()) };
    let shared = Shared { frame: Frame::marked(SHARED), handler, next };
    // SAFETY: the guard is dropped at the end of this function.
    let _restore = unsafe { Restore::inside((&raw const shared).cast()) };
    f()
}

/// The heritage that a join or a scope that is opened here may hand down.
#[inline]
#[must_use]
pub fn heritage() -> Heritage {
    // SAFETY: the frames from the top outwards are in place.
    if top().is_null() { Heritage::NONE } else { unsafe { heritage_from(top()) } }
}

/// # Safety
/// `at` is null or in the chain.
#[cold]
unsafe fn heritage_from(mut at: *const Frame) -> Heritage {
    // SAFETY: as the caller promises.
    while let Some(frame) = unsafe { at.as_ref() } {
        // SAFETY: the clauses of a handler are known when the program is compiled, and stay.
        match unsafe { frame.clauses.get().as_ref() } {
            Some(Clauses { capture: true }) => break,
            Some(Clauses { capture: false }) => {}
            // SAFETY: the frame is in the chain.
            None => match unsafe { Frame::kind(at) } {
                Kind::Passive | Kind::Barrier(_) => break,
                Kind::Context(_) => {}
                Kind::Shared(shared) => return Heritage(shared),
                Kind::Inherited(inherited) => return inherited.heritage,
            },
        }
        at = frame.parent.get();
    }
    Heritage::NONE
}

/// The start of a chain that sees the shared handlers of another one.
#[repr(C)] // The frame comes first.
#[derive(Debug)]
pub struct Inherited {
    frame: Frame,
    heritage: Heritage,
}

impl Inherited {
    /// The inherited handlers.
    #[must_use]
    pub fn heritage(&self) -> Heritage {
        self.heritage
    }

    /// Starts a chain with what is inherited, until the guard is dropped.
    ///
    /// # Safety
    /// The room is in place until then.
    #[cold]
    #[inline(never)]
    unsafe fn link(heritage: Heritage, room: &mut MaybeUninit<Self>) -> Restore {
        let inherited: *const Self = room.write(Self { frame: Frame::marked(INHERITED), heritage });
        // SAFETY: as the caller promises.
        unsafe { Restore::inside(inherited.cast()) }
    }
}

/// Runs `f` so that `f` sees the inherited handlers.
///
/// # Safety
/// The join or scope of this heritage does not end before `f` does, and nothing around is captured
/// without it.
#[inline(always)]
pub unsafe fn inherit<R>(heritage: Heritage, f: impl FnOnce() -> R) -> R {
    if heritage.0.is_null() {
        return f();
    }
    let mut room = MaybeUninit::uninit();
    // SAFETY: the room is in place until the guard is dropped, at the end of this function.
    let _linked = unsafe { Inherited::link(heritage, &mut room) };
    f()
}
