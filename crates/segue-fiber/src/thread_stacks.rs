//! The calling thread's own stacks, for coroutines that belong to no scheduler.
//!
//! Used by effect handlers and generators, and by schedulers for fibers without a worker.
//!
//! A caller that asks for no size gets a stack of the default configuration; all these come from
//! one arena. There is one more arena for each power of two that was asked for. A thread prepares
//! for stack overflows when it first takes one. The pool is a thread-local variable: in the
//! destructors of others it may be gone; stacks then come from the arena and go back there.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, OnceLock};

use crate::arena::{Stack, StackArena};
use crate::config::StackConfig;
use crate::host;
use crate::pool::StackPool;

/// How many idle stacks of a thread are a burst that is over. A recursion with a handler in each
/// call has them idle, and wants them again, as often as it returns from as many calls: each time
/// that they are more, all but the last few are to be made anew.
const MANY: usize = 512;

thread_local! {
    static STACKS: RefCell<Option<StackPool>> = const { RefCell::new(None) };
}

/// The arena of a place, which the first who asks makes; the thread is prepared for overflows.
fn arena(
    place: &'static OnceLock<Arc<StackArena>>,
    config: impl FnOnce() -> StackConfig,
) -> io::Result<&'static Arc<StackArena>> {
    host::install_overflow_handler()?;
    host::ensure_alternate_stack()?;
    match place.get() {
        Some(arena) => Ok(arena),
        None => StackArena::new(config()).map(|made| place.get_or_init(|| made)),
    }
}

#[cold]
fn new_pool() -> io::Result<StackPool> {
    static ARENA: OnceLock<Arc<StackArena>> = OnceLock::new();
    Ok(StackPool::new(Arc::clone(arena(&ARENA, StackConfig::new)?)))
}

/// A stack of the default configuration, mostly the one that this thread [`put`] back last.
///
/// # Errors
///
/// There are too many stacks, or the kernel refuses memory; the message says what to do.
#[inline]
pub fn take() -> io::Result<Stack> {
    let pooled = STACKS.try_with(|stacks| stacks.borrow_mut().as_mut().and_then(StackPool::pop));
    match pooled {
        Ok(Some(stack)) => Ok(stack),
        _ => take_anew(),
    }
}

#[cold]
#[inline(never)]
fn take_anew() -> io::Result<Stack> {
    let take = |stacks: &RefCell<Option<StackPool>>| match &mut *stacks.borrow_mut() {
        Some(pool) => pool.take(),
        none => new_pool().and_then(|pool| none.insert(pool).take()),
    };
    STACKS.try_with(take).unwrap_or_else(|_| new_pool().and_then(|mut pool| pool.take()))
}

/// A stack on which a function can use `bytes`, or one of the default configuration for `None`.
///
/// # Errors
///
/// As for [`take`]; or it is too large.
#[inline]
pub fn take_of(bytes: Option<usize>) -> io::Result<Stack> {
    match bytes {
        None => take(),
        Some(bytes) => take_sized(bytes),
    }
}

#[cold]
#[inline(never)]
fn take_sized(bytes: usize) -> io::Result<Stack> {
    /// By the binary logarithm of the slot size.
    static ARENAS: [OnceLock<Arc<StackArena>>; 31] = [const { OnceLock::new() }; 31];
    let config = StackConfig::of_usable(bytes)?;
    let arena = arena(&ARENAS[config.slot_size.ilog2() as usize], || config)?;
    let mut one = Vec::new();
    arena.grant(1, &mut one)?;
    Ok(one.pop().expect("a grant is at least one stack"))
}

/// Keeps a stack for the next [`take`] of this thread. One of another size goes back to its arena.
#[inline]
pub fn put(stack: Stack) {
    // Where there is no pool it goes back to the arena.
    let _ = STACKS.try_with(|stacks| {
        if let Some(pool) = &mut *stacks.borrow_mut() {
            pool.put(stack);
            if pool.idle() > MANY {
                trim(pool);
            }
        }
    });
}

#[cold]
#[inline(never)]
fn trim(pool: &mut StackPool) {
    pool.trim();
}

/// Whether the pool is gone, since the thread's local variables are being dropped.
///
/// What was suspended then may be in the middle of a use of one of these, and must not go on.
pub fn are_gone() -> bool {
    STACKS.try_with(|_| ()).is_err()
}
