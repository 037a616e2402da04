//! The parallel scan: prefix sums, and what else is associative.
//!
//! Used by `par_scan`.
//!
//! A piece is gone through block by block, each element after the one before it. When an idle
//! worker asks, the rest is split: the second half is scanned by itself meanwhile, and gets the
//! last element of the first one added to all of it, in parallel, when that is there. So nothing is
//! done twice unless somebody helps. (Guy Blelloch, "Prefix sums and their applications", 1990, has
//! the algorithm by pieces.)

use crate::join::{is_wanted, join};
use crate::par::convert::IntoParallelRefMutIterator;
use crate::par::iter::ParallelIterator;
use crate::par::plumbing::here_or_elsewhere;
use crate::worker::checkpoint::between_blocks;

/// Between two looks at the worker's mark at most so many elements.
const BLOCK: usize = 1024;

/// Scans where the caller is, or in the default runtime.
pub(crate) fn scan<T: Send + Sync>(elements: &mut [T], op: &(impl Fn(&T, &T) -> T + Sync)) {
    here_or_elsewhere(|| piece(elements, op));
}

/// Scans a piece by itself.
fn piece<T: Send + Sync>(elements: &mut [T], op: &(impl Fn(&T, &T) -> T + Sync)) {
    let (mut done, mut block) = (1, 1);
    while done < elements.len() {
        let left = elements.len() - done;
        if left >= 4 && is_wanted() {
            // The element before the first half belongs to it: what is done is not done again.
            let (first, second) = elements[done - 1..].split_at_mut(left / 2 + 1);
            join(|| piece(first, op), || piece(second, op));
            if let Some(carry) = first.last() {
                second.par_iter_mut().for_each(|element| *element = op(carry, element));
            }
            return;
        }
        let end = done + block.min(left);
        for at in done..end {
            elements[at] = op(&elements[at - 1], &elements[at]);
        }
        done = end;
        between_blocks();
        block = (block * 2).min(BLOCK);
    }
}
