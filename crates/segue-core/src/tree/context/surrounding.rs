//! The contexts that a captured computation takes along.
//!
//! Used by `enter`, and by the crate that captures. The essay is in `context.rs`.
#![allow(unsafe_code)] // Contexts and frames are reached by address.

use super::{Around, Context, leave};
use crate::chain::{self, Away, Frame, Restore, Surrounding};
use crate::contract::current;
use crate::contract::slots::ContextHead;
use crate::tree::membership::leave_context;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// A frame of the chain: a context that was entered inside of something that may capture the
/// running code. Or a *detour*, past contexts that are not seen from there, but captured all the
/// same.
#[repr(C)] // The frame comes first.
pub(super) struct Entered {
    frame: Frame,
    /// The outermost of the contexts that a detour leads past.
    past: *const Entered,
    /// None for a shield.
    context: Option<Arc<Context>>,
    /// The context around. Not the parent of `context`, which has none under a shield.
    around: Cell<*const ContextHead>,
}

impl Entered {
    /// Enters a context, inside of something that may capture the running code. None is a shield.
    /// The drop of the guard goes back to the context around, which may be another one by then.
    ///
    /// # Safety
    /// The room and the context are in place until the guard has been dropped, by the code inside.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn enter(context: Option<&Arc<Context>>, room: &mut MaybeUninit<Self>) -> Leave {
        // SAFETY: the context stays until the guard has entered the one around.
        let around = Cell::new(unsafe { current::enter_context(context.map_or(ptr::null(), Context::head_of)) });
        let (frame, past, context) = (Frame::marked(chain::CONTEXT), ptr::null(), context.cloned());
        let entered = NonNull::from(room.write(Self { frame, past, context, around }));
        // SAFETY: the frame is in place until the guard sets the top again.
        unsafe { chain::set_top(entered.as_ptr().cast_const().cast()) };
        Leave(entered)
    }

    fn context(&self) -> *const ContextHead {
        self.context.as_ref().map_or(ptr::null(), Context::head_of)
    }

    /// The outermost of the contexts that a computation is captured with, if this is the outermost
    /// that is seen.
    fn outermost(&self) -> &Self {
        // SAFETY: a detour is made inside of the frame that it leads past.
        unsafe { self.past.as_ref() }.unwrap_or(self)
    }
}

/// The end of [`Entered::enter`].
pub(super) struct Leave(NonNull<Entered>);

impl Drop for Leave {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: `enter` has written the room, and nobody reads that after this.
        let entered = unsafe { self.0.read() };
        // SAFETY: the surroundings are in place still.
        unsafe { chain::set_top(entered.frame.parent()) };
        // SAFETY: as above; `entered` keeps the context until the end of this function.
        unsafe { leave(entered.context(), entered.around.get()) };
    }
}

impl<'a> Surrounding<'a> {
    fn entered(self) -> &'a Entered {
        // SAFETY: this file alone links frames with the mark of a context, each as the first field
        // of an `Entered`, in `repr(C)`; and the frame is in place for as long as the chain's
        // functions have said when they made this.
        unsafe { &*self.frame().cast() }
    }

    /// Takes the contexts of the caller out of those around, up to this one.
    ///
    /// # Safety
    /// For a computation that is captured, before its suspension. The computation is inside of this
    /// frame, with no handler or generator around that is captured too; and the first thing that
    /// the computation does when it goes on is to drop the answer, on the same thread.
    #[cold]
    pub unsafe fn leave(self) -> Away<'a> {
        let outermost = self.entered().outermost();
        let innermost = current::context();
        leave_context(ptr::null());
        if let Some(context) = &outermost.context {
            context.end();
            if let Some(beyond) = &context.around.further {
                *beyond.around.lock() = Around::default();
            }
        }
        // SAFETY: the computation's consumer, which goes on, is inside of that.
        unsafe { current::enter_context(outermost.around.get()) };
        Away { outermost: self, innermost }
    }

    /// Runs `f`, a call of the caller's to a handler further out, inside of `parent`, which is
    /// around that handler. `self` is the outermost context between.
    ///
    /// # Safety
    /// `parent` is in place, or null.
    #[cold]
    pub unsafe fn detour<R>(self, parent: *const Frame, f: impl FnOnce() -> R) -> R {
        let frame = Frame::marked(chain::CONTEXT);
        frame.parent.set(parent);
        let past = ptr::from_ref(self.entered().outermost());
        let detour = Entered { frame, past, context: None, around: Cell::new(ptr::null()) };
        // SAFETY: the guard is dropped at the end of this function, and `parent` is in place, as
        // the caller promises.
        let _restore = unsafe { Restore::inside((&raw const detour).cast()) };
        f()
    }
}

impl Drop for Away<'_> {
    #[cold]
    fn drop(&mut self) {
        let (outermost, innermost) = (self.outermost.entered().outermost(), self.innermost);
        let here = current::context();
        outermost.around.set(here);
        // SAFETY: the running fiber is inside of that context, which is alive therefore.
        if let (Some(context), Some(here)) = (&outermost.context, unsafe { Context::of_head(here).as_ref() }) {
            if let Some(beyond) = &context.around.further {
                *beyond.around.lock() = here.around.clone();
            }
            if !context.is_shield {
                // SAFETY: the context was taken out by `leave`. The context ends, or leaves again,
                // in a frame around this one, and so before the surroundings of the fiber now.
                if let Some(reason) = unsafe { context.hang_in(here) } {
                    context.cancel(reason);
                }
            }
        }
        // SAFETY: the computation goes on inside of that context.
        unsafe { current::enter_context(innermost) };
    }
}
