//! A worker's own stacks, last in, first out.
//!
//! Used by each worker of a scheduler: a stack from here was used a moment ago, so that its top is
//! in the cache.
//!
//! The pool is a plain vector, so that taking and putting are a few instructions without atomics.
//! An empty pool gets a chunk from the arena, as many as ever before but at least 8 and at most
//! 512: the lock, the system calls for guards and the kernel's locks are paid once a chunk, and a
//! program of three fibers does not prepare hundreds of stacks. The stacks at the vector's bottom
//! have been idle longest; [`StackPool::trim`] takes from there.

use crate::host;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::arena::{Stack, StackArena};

const LEAST_CHUNK: usize = 8;
const LARGEST_CHUNK: usize = 512;

/// How many stacks one call of `trim` takes care of: about a millisecond.
const TRIM_BATCH: usize = 1024;

/// A worker's own pool of stacks, last in, first out, over a shared arena.
///
/// ```
/// use segue_fiber::{StackArena, StackConfig, StackPool};
///
/// let mut pool = StackPool::new(StackArena::new(StackConfig::new())?);
/// let stack = pool.take()?;
/// let number = stack.number();
/// pool.put(stack);
/// assert_eq!(pool.take()?.number(), number);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct StackPool {
    arena: Arc<StackArena>,
    stacks: Vec<Stack>,
    /// How many stacks came from the arena so far, up to `LARGEST_CHUNK`: the size of the next
    /// chunk.
    chunk: usize,
    /// How many stacks were given back since the heap was.
    given_back: usize,
    /// A pool is one worker's: shared references do not cross threads.
    _not_sync: PhantomData<Cell<()>>,
}

/// After how many stacks given back at once the heap is worth a look, which takes the allocator a
/// millisecond or so.
const BURST: usize = 128;

impl StackPool {
    /// A pool that has nothing yet.
    pub fn new(arena: Arc<StackArena>) -> Self {
        Self { arena, stacks: Vec::new(), chunk: LEAST_CHUNK, given_back: 0, _not_sync: PhantomData }
    }

    /// The stack that was put last, or one from the arena.
    ///
    /// # Errors
    ///
    /// All of the arena's slots are in use, or the kernel refuses memory or guards; the message has
    /// advice.
    #[inline]
    pub fn take(&mut self) -> io::Result<Stack> {
        self.pop().map_or_else(|| self.grow(), Ok)
    }

    /// The stack that was put last, if there is one. In two registers, other than the result of
    /// [`take`](Self::take): a copy of that waits for the last `put`.
    #[inline]
    pub fn pop(&mut self) -> Option<Stack> {
        self.stacks.pop()
    }

    #[cold]
    fn grow(&mut self) -> io::Result<Stack> {
        self.arena.grant(self.chunk, &mut self.stacks)?;
        self.chunk = (self.chunk * 2).min(LARGEST_CHUNK);
        Ok(self.stacks.pop().expect("a grant is at least one stack"))
    }

    /// Keeps a stack for the next [`take`](Self::take). A stack of another arena goes back there.
    #[inline]
    pub fn put(&mut self, stack: Stack) {
        if Arc::ptr_eq(stack.arena(), &self.arena) {
            self.stacks.push(stack);
        }
    }

    /// How many idle stacks the pool holds.
    pub fn idle(&self) -> usize {
        self.stacks.len()
    }

    /// The arena behind the pool.
    pub fn arena(&self) -> &Arc<StackArena> {
        &self.arena
    }

    /// Gives stacks beyond the [`keep_warm`](crate::StackConfig::keep_warm) hottest back: their
    /// memory to the kernel and their slots to the arena, for other workers.
    ///
    /// To be called when the worker is about to idle. One call takes about a millisecond at most;
    /// `true` says that more is left and that a further call, with still nothing else to do, is
    /// worth the time. With nothing to do this is one comparison.
    #[inline]
    pub fn trim(&mut self) -> bool {
        let keep = self.arena.layout.keep_warm;
        if self.stacks.len() <= keep { false } else { self.trim_to(keep) }
    }

    #[cold]
    fn trim_to(&mut self, keep: usize) -> bool {
        let excess = self.stacks.len() - keep;
        let now = excess.min(TRIM_BATCH);
        self.arena.take_back_cold(self.stacks.drain(..now));
        self.given_back += now;
        if now == excess {
            if self.given_back >= BURST {
                // So many fibers have used the heap too, and the allocator would keep the memory
                // that they left there.
                host::release_heap();
            }
            self.given_back = 0;
            // A burst is over: start with small chunks again, and do not hold on to a vector for a
            // million.
            self.chunk = LEAST_CHUNK;
            self.stacks.shrink_to(keep.max(LARGEST_CHUNK));
        }
        now < excess
    }
}

impl Drop for StackPool {
    fn drop(&mut self) {
        while !self.stacks.is_empty() {
            self.trim_to(self.stacks.len().saturating_sub(TRIM_BATCH));
        }
    }
}

impl fmt::Debug for StackPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StackPool").field("idle", &self.idle()).field("arena", &self.arena).finish()
    }
}
