//! Parallel loops: iterators over ranges, slices and vectors, with closures that run on all workers
//! that are idle, and may wait.
//!
//! Used by applications. The names are those of rayon's, and so are the meanings, with the
//! exceptions on this page.
//!
//! ```
//! use segue_sched::par::prelude::*;
//!
//! let words = ["par", "allel", "loops"];
//! let letters: usize = words.par_iter().map(|word| word.len()).sum();
//! assert_eq!(letters, 13);
//!
//! let squares: Vec<u64> = (0..1000u64).into_par_iter().map(|n| n * n).collect();
//! assert_eq!(squares[999], 998_001);
//!
//! let mut numbers = vec![3, 1, 2];
//! numbers.par_sort();
//! assert_eq!(numbers, [1, 2, 3]);
//! ```
//!
//! # The place of a loop
//!
//! On a fiber of this crate's schedulers the loop runs in that fiber, and workers that are idle get
//! parts of it. With one worker, or none that is idle, the loop is a plain one. On a plain thread,
//! and on fibers of other schedulers, the loop runs in the [default runtime](crate::default_pool)
//! while the caller waits.
//!
//! # Grain
//!
//! Nobody has to say one. A loop gives away half of its rest when an idle worker asks, for which
//! the loop looks every 20 microseconds or after each element, whichever is longer.
//!
//! # The other work of its worker
//!
//! Between two blocks of a loop or a scan the worker's other fibers, timers and sockets have their
//! turn: after a millisecond, as at a [`checkpoint`](crate::checkpoint), or after one element, if
//! that takes longer. A sort lets nobody in: each worker sorts its pieces by std's sorts.
//!
//! # Closures that wait
//!
//! A closure may wait at anything of Segue's: its fiber is suspended, and fibers go on that have
//! something to do, as do the elements that come after its block. (Blocks are so short that they
//! take 20 microseconds; one that waits has a single element, as a rule.)
//!
//! **At most so many** elements of a loop are under way at once: 16 for each worker, unless the
//! loop says another number by [`at_most`](ParallelIterator::at_most). Beyond the bound no closure
//! is called before another one has returned. So a loop over a thousand files does not hold a
//! thousand buffers at once. A loop of elements that do nothing but wait, for answers of a server
//! for instance, takes a larger number. For files, and other work of more waits than computing,
//! `concurrent::at_most(n).map` of the crate `segue` has as many open as is good for the disk, and
//! as many fibers.
//!
//! The closures of a loop may wait for other fibers, but not for each other: an element may have
//! its turn only when another one has returned. A loop inside of a closure has a bound of its own,
//! and so 16 elements that each run such a loop have up to 256 of theirs under way. The halves of a
//! [`join`](crate::join()) in a closure belong to its element.
//!
//! A fiber with a closure that has waited keeps its stack until the rest after that closure is
//! done, too. When all stacks are [taken](crate::StackConfig::max_slots), the last fiber calls the
//! closures that are left, one after the other.
//!
//! # Cancellation
//!
//! *No effect* on a loop: all closures are called, and see the caller's cancellation at their
//! waits, wherever they run. A loop that is to end early at a cancellation asks
//! [`check`](segue_core::check) in its closure, and collects into a `Result`: the first error ends
//! it.
//!
//! # Not here
//!
//! Iterators over maps and strings; `rev`, `take`, `skip`, `flat_map` and the `_init` forms. The
//! collection is a `Vec`, an `Option` or a `Result`; `fold` and `reduce` make anything else. Rayon
//! itself has all of them, and runs on these workers by `rayon-patch`.
//!
//! # Panics
//!
//! A panic in a closure comes out of the call, when no closure of the loop is running any more.
//! Other pieces run to their ends before. Elements that no closure has got are dropped, each once.
//!
//! # Effects
//!
//! Handlers around the call are in place in no closure, as in those of [`join`](crate::join()), but
//! for shared ones.

mod adapters;
mod at_most;
mod collect;
mod consumers;
mod convert;
mod find;
mod iter;
mod plumbing;
mod range;
mod scan;
mod seats;
mod slice;
mod sort;
mod vec;

pub use adapters::{Chunks, Cloned, Copied, Enumerate, Filter, FilterMap, Fold, Map, Zip};
pub use at_most::AtMost;
pub use convert::{FromParallelIterator, IntoParallelIterator, IntoParallelRefIterator, IntoParallelRefMutIterator};
pub use iter::{IndexedParallelIterator, ParallelIterator};
pub use range::RangeIter;
pub use slice::{ChunksIter, ChunksMut, Iter, IterMut, ParallelSlice, ParallelSliceMut};
pub use vec::IntoIter;

/// The traits, to be imported all at once.
///
/// ```
/// use segue_sched::par::prelude::*;
/// ```
pub mod prelude {
    pub use super::{
        FromParallelIterator, IndexedParallelIterator, IntoParallelIterator, IntoParallelRefIterator,
        IntoParallelRefMutIterator, ParallelIterator, ParallelSlice, ParallelSliceMut,
    };
}
