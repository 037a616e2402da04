//! The chain of effect handlers that are in place: one pointer for each thread, to the innermost.
//!
//! Used by `effect` and `generator`, which add links and take them away, and by the coroutines, whose switches keep the chains of different coroutines apart.
//!
//! A frame lies in the stack frame of a handler, or at the top of the stack on which the handled computation runs. Each names the next outer one. What runs sees the frames from the
//! thread's top outwards.
//!
//! # Who sets the top
//!
//! - Whoever installs a handler, and takes it away, also when unwinding.
//! - Whoever resumes a computation that was captured, or a generator: it names its own top as the parent of the computation's outermost frame, and sets its own top again
//!   when control comes back. So the clauses of a handler, and the consumer of a generator, see their own handlers.
//! - What was captured sets the top that it had when it goes on. All frames between that and the outermost are its own, on stacks that were captured with it.
//! - A [`Coroutine`](crate::Coroutine) starts with no handlers: an effect does not leave it. Whoever resumes it takes its own handlers out of the way, and whoever suspends it, from however deep inside,
//!   takes the coroutine's. Both look once, and mostly there are none.
//!
//! On the host with a thread for each coroutine each has a top of its own, since it is a thread-local variable; all of the above holds there too, and some of it is
//! needless.

#![allow(unsafe_code)] // Handlers are linked by address.

use std::any::TypeId;
use std::cell::Cell;
use std::ptr;

/// A handler that is in place. `repr(C)`: it is the first field of what is around it.
#[repr(C)]
pub(crate) struct Frame {
    /// The next outer one, or null.
    pub parent: Cell<*const Frame>,
    /// What it handles.
    pub clauses: Cell<Option<&'static Entry>>,
    /// Its clauses, of the type that the entries know.
    pub list: Cell<*const ()>,
    /// Its state, likewise.
    pub state: Cell<*mut ()>,
}

/// What is known of a clause when the program is compiled; the entries of a handler are linked.
pub(crate) struct Entry {
    /// The type of the effect.
    pub effect: TypeId,
    pub name: fn() -> &'static str,
    /// Whether the clause wants the continuation. Otherwise to perform is to call it.
    pub captures: bool,
    /// The function behind it; its type follows from the effect's and from `captures`.
    pub call: *const (),
    /// Where the clause lies in the list that starts with it.
    pub head: usize,
    /// Where the rest of the list lies.
    pub tail: usize,
    pub next: Option<&'static Entry>,
}

thread_local! {
    static TOP: Cell<*const Frame> = const { Cell::new(ptr::null()) };
}

/// The innermost handler in place, or null.
#[inline(always)]
pub(crate) fn top() -> *const Frame {
    TOP.get()
}

/// Makes a handler the innermost one.
#[inline(always)]
pub(crate) fn set_top(frame: *const Frame) {
    TOP.set(frame);
}

/// Sets the top again when it is dropped.
pub(crate) struct Restore(pub *const Frame);

impl Drop for Restore {
    #[inline]
    fn drop(&mut self) {
        set_top(self.0);
    }
}

/// Switches to where none of the caller's handlers are in place.
#[inline(always)]
pub(crate) fn without_handlers<T>(switch: impl Fn() -> T) -> T {
    #[cold]
    #[inline(never)]
    fn aside<T>(top: *const Frame, switch: impl Fn() -> T) -> T {
        let _restore = Restore(top);
        set_top(ptr::null());
        switch()
    }

    let top = top();
    if top.is_null() { switch() } else { aside(top, switch) }
}

/// What the handlers in place handle, innermost first.
pub(crate) struct Places(*const Frame);

impl Places {
    pub fn here() -> Places {
        Places(top())
    }
}

impl Iterator for Places {
    type Item = Names;

    fn next(&mut self) -> Option<Names> {
        // SAFETY: the frames from the top outwards are in place while the thread is here, which the caller does not leave: there is no switch between.
        let frame = unsafe { self.0.as_ref() }?;
        self.0 = frame.parent.get();
        Some(Names(frame.clauses.get()))
    }
}

/// The names of a handler's effects.
pub(crate) struct Names(Option<&'static Entry>);

impl Iterator for Names {
    type Item = &'static str;

    fn next(&mut self) -> Option<&'static str> {
        let entry = self.0?;
        self.0 = entry.next;
        Some((entry.name)())
    }
}
