//! The run of a parallel loop: pieces that can be split, their consumers, and the loop that gives
//! some of its work away when a worker asks.
//!
//! Used by the iterators of this room; its traits are theirs alone, so that the lengths that some
//! of them rely on are right.
//!
//! # The loop
//!
//! A piece is consumed block by block, by one folder, in order. Between two blocks the loop looks
//! at the worker's mark (one load): if somebody wants work, the rest is split into halves, which
//! are forked. There, too, is a checkpoint: the other fibers of the worker, its timers and its
//! driver have a turn after a millisecond, and sooner if there is mail. While a block runs, the
//! rest after it is a child of a fork: its note costs a few instructions, and if a closure in the
//! block suspends the fiber, the child is exposed with all other notes, and others go on with it.
//! As a rule nobody has taken that child by the end of the block; then the loop takes it back and
//! goes on by itself (`Common::fork_or_keep`).
//!
//! So many closures may be under way at once, running or waiting: `seats.rs`.
//!
//! A block has so many elements that it takes some 20 microseconds: the number begins with one, and
//! is doubled. So nobody has to say a grain, a cheap loop is one tight loop in all but the first
//! microseconds, and one of costly elements looks for those that want work after each.
//!
//! **Commit point**: an element is consumed when its block gives that out. **Cancellation** has *no
//! effect* on a loop, as on a join: closures see the cancellation at their waits. **Panics**: a
//! block that panics drops its folder and the rest of its elements; its piece ends, the other
//! pieces run to their ends, and their results are dropped, before the panic goes on (as in a join,
//! which makes these forks). Each element is in one piece, one block or one iterator at a time, and
//! dropped with that.

use crate::par::seats::{Behind, EACH, Seat, Seats};
use crate::run::default::default_pool;
use crate::worker::checkpoint::between_blocks;
use crate::worker::common::{Common, with_caller};
use crate::worker::residents;
use segue_core::WaitsFor;
use segue_core::chain::{self, barrier};
use std::time::{Duration, Instant};

/// Some of the elements of a parallel iterator, which can be split, and iterated over in order.
///
/// `len` counts in the units of `split_at`. For an indexed iterator, each of them yields exactly
/// one element: the collector into a vector relies on it.
pub trait Producer: Send + Sized {
    /// The elements.
    type Item;
    /// How its elements are gone through.
    type Iter: Iterator<Item = Self::Item>;

    /// The number of elements.
    fn len(&self) -> usize;

    /// The first `n` elements, and the others; `n` is not above [`len`](Producer::len).
    fn split_at(self, n: usize) -> (Self, Self);

    /// All of them, in order.
    fn into_iter(self) -> Self::Iter;
}

/// The consumer of a loop's elements. All pieces share the consumer.
pub trait Consumer<T>: Sync {
    /// The folder of one piece.
    type Folder<'c>: Folder<T, Result = Self::Result>
    where
        Self: 'c;
    /// The result of a piece.
    type Result: Send;

    /// For the piece that begins with the element of this index. Of a loop without an index this
    /// says nothing.
    fn folder(&self, at: usize) -> Self::Folder<'_>;

    /// Of two neighbours.
    fn combine(&self, left: Self::Result, right: Self::Result) -> Self::Result;

    /// Whether the consumer needs no more.
    fn is_full(&self) -> bool {
        false
    }

    /// The number of elements that may be under way at once, if bounded.
    fn at_most(&self) -> Option<usize> {
        None
    }
}

/// The consumer of one piece's elements, in order.
pub trait Folder<T>: Sized {
    /// Their result.
    type Result;

    /// Feeds elements, or fewer once full.
    fn consume_iter(&mut self, items: impl Iterator<Item = T>);

    /// Whether the folder needs no more.
    fn is_full(&self) -> bool {
        false
    }

    /// The end of the piece.
    fn complete(self) -> Self::Result;
}

/// The work of an adapter on elements that are on their way to a consumer.
pub(crate) trait Step<T>: Sync {
    /// The elements that the consumer is fed with.
    type Output;

    /// The elements behind this step.
    fn on(&self, items: impl Iterator<Item = T>) -> impl Iterator<Item = Self::Output>;

    /// Whether the step lets no more elements through.
    fn is_over(&self) -> bool {
        false
    }

    /// The number of elements that may be under way at once, if this step bounds that.
    fn at_most(&self) -> Option<usize> {
        None
    }
}

/// A consumer that feeds another one through a step; and a folder likewise.
pub(crate) struct Through<S, C> {
    pub(crate) step: S,
    pub(crate) to: C,
}

impl<T, S: Step<T>, C: Consumer<S::Output>> Consumer<T> for Through<S, &C> {
    type Folder<'c>
        = Through<&'c S, C::Folder<'c>>
    where
        Self: 'c;
    type Result = C::Result;

    fn folder(&self, at: usize) -> Self::Folder<'_> {
        Through { step: &self.step, to: self.to.folder(at) }
    }

    fn combine(&self, left: C::Result, right: C::Result) -> C::Result {
        self.to.combine(left, right)
    }

    fn is_full(&self) -> bool {
        self.step.is_over() || self.to.is_full()
    }

    fn at_most(&self) -> Option<usize> {
        lesser(self.step.at_most(), self.to.at_most())
    }
}

impl<T, S: Step<T>, G: Folder<S::Output>> Folder<T> for Through<&S, G> {
    type Result = G::Result;

    fn consume_iter(&mut self, items: impl Iterator<Item = T>) {
        self.to.consume_iter(self.step.on(items));
    }

    fn is_full(&self) -> bool {
        self.step.is_over() || self.to.is_full()
    }

    fn complete(self) -> G::Result {
        self.to.complete()
    }
}

/// The iterators that loop over pieces of their own.
macro_rules! indexed {
    ([$($of:tt)*] $name:ty, $item:ty, |$it:ident| exactly $exactly:expr $(, bound $bound:expr)?) => {
        impl<$($of)*> $crate::par::iter::ParallelIterator for $name {
            type Item = $item;

            fn drive<C: $crate::par::plumbing::Consumer<$item>>(&mut self, consumer: &C) -> C::Result {
                let bound = self.bound();
                $crate::par::plumbing::drive(self.pieces(), consumer, bound)
            }

            fn exactly(&mut self) -> Option<usize> {
                let $it = self;
                $exactly
            }

            $(
                fn bound(&self) -> Option<usize> {
                    let $it = self;
                    $bound
                }
            )?
        }
    };
}

pub(crate) use indexed;

/// How long a block is to take.
const BLOCK: Duration = Duration::from_micros(20);

/// Up to this size blocks are not timed: to read the clock would take longer than these.
const UNTIMED: usize = 8;

/// The largest block, of elements that take no time.
const LARGEST: usize = 1 << 16;

/// How large the next block is to be.
struct Grain {
    size: usize,
    since: Option<Instant>,
}

impl Grain {
    /// A block of this size has run. By the clock of the timers: a simulated one stands still
    /// meanwhile, so that simulations do not depend on the time.
    #[inline]
    fn has_run(&mut self) {
        if self.since.is_none() && self.size < UNTIMED {
            self.size *= 2;
        } else {
            self.measure(segue_core::now());
        }
        if between_blocks() && self.since.is_some() {
            // The time that others have had is not to be counted.
            self.since = Some(segue_core::now());
        }
    }

    fn measure(&mut self, now: Instant) {
        if let Some(since) = self.since.replace(now) {
            let took = now.saturating_duration_since(since).as_nanos().max(1);
            let fit = usize::try_from(self.size as u128 * BLOCK.as_nanos() / took).unwrap_or(LARGEST);
            self.size = fit.clamp(1, (self.size * 2).min(LARGEST));
        }
    }
}

/// The state that all pieces of a loop share.
struct Loop<'l, C> {
    consumer: &'l C,
    seats: Seats,
}

/// Runs a loop where the caller is: on a fiber of this crate's schedulers with the workers that are
/// idle, else in the default runtime. `at_most` so many elements are under way at once, or as many
/// as the consumer says.
pub(crate) fn drive<P: Producer, C: Consumer<P::Item>>(pieces: P, consumer: &C, at_most: Option<usize>) -> C::Result {
    let at_most = lesser(at_most, consumer.at_most());
    let whole = || {
        with_worker(|worker| {
            let number = at_most.unwrap_or_else(|| EACH * worker.map_or(1, |worker| worker.group.len()));
            let all = Loop { consumer, seats: Seats::new(number) };
            go_on(worker, pieces, 0, consumer.folder(0), all.seats.first(), &all)
        })
    };
    if in_worker() {
        return if chain::top().is_null() { whole() } else { surrounded(whole) };
    }
    surrounded(|| elsewhere(whole))
}

/// Of two bounds that may be there.
pub(crate) fn lesser(one: Option<usize>, other: Option<usize>) -> Option<usize> {
    one.into_iter().chain(other).min()
}

/// Whether the caller is a fiber of a worker of this crate.
#[inline]
fn in_worker() -> bool {
    with_caller(|caller| caller.is_some())
}

/// Calls `f` in the default runtime; or here, on a worker's thread that a fiber has taken for
/// itself.
#[cold]
#[inline(never)]
pub(crate) fn elsewhere<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    if residents::is_inhabited() && !segue_core::in_fiber() {
        return f();
    }
    default_pool().call(f)
}

/// Calls `f`, which goes through a loop, behind a barrier, with the heritage of the pieces. Without
/// that an effect in a closure could capture the loop's frame, while other workers run pieces of
/// the loop.
#[cold]
#[inline(never)]
#[allow(unsafe_code)] // As for the halves of joins.
pub(crate) fn surrounded<R>(f: impl FnOnce() -> R) -> R {
    let heritage = chain::heritage();
    // SAFETY: `f` is called inside of the contexts around this call, which are captured neither
    // without this call nor along, because of the barrier.
    barrier(WaitsFor::new("a parallel loop"), || unsafe { chain::inherit(heritage, f) })
}

/// The result of a fiber that was to go through the rest of a piece.
enum Rest<P, R> {
    Done(R),
    /// Called back.
    Kept(P),
}

/// Goes through a piece, which begins with the element of this index, in a fiber of this worker, or
/// in none.
fn go_on<'l, P, C>(
    worker: Option<&Common>,
    mut rest: P,
    mut at: usize,
    mut folder: C::Folder<'l>,
    mut seat: Seat<'l>,
    all: &'l Loop<'l, C>,
) -> C::Result
where
    P: Producer,
    C: Consumer<P::Item>,
{
    let run = |piece, at, seat| with_worker(|worker| go_on(worker, piece, at, all.consumer.folder(at), seat, all));
    let mut grain = Grain { size: 1, since: None };
    loop {
        let left = rest.len();
        if all.consumer.is_full() || folder.is_full() {
            // Before there is something to return, which would leak if a drop panics.
            drop(rest);
            return folder.complete();
        }
        let Some(worker) = worker.filter(|_| left > grain.size.min(UNTIMED)) else {
            folder.consume_iter(rest.into_iter());
            return folder.complete();
        };
        if worker.remote().is_wanted() {
            let half = left / 2;
            let (first, second) = rest.split_at(half);
            let ours = || go_on(Some(worker), first, at, folder, seat, all);
            let (first, second) = worker.fork(ours, || run(second, at + half, all.seats.take()));
            return all.consumer.combine(first, second);
        }
        let size = grain.size.min(left);
        let (block, others) = rest.split_at(size);
        let (mut others, behind) = (Some(others), Behind::new());
        let take = || {
            let seat = all.seats.take_behind(&behind);
            let others = others.take().expect("it is taken once");
            match seat {
                Some(seat) => Rest::Done(run(others, at + size, seat)),
                None => Rest::Kept(others),
            }
        };
        let (folded, taken) = worker.fork_or_keep(
            || {
                folder.consume_iter(block.into_iter());
                folder
            },
            take,
            || all.seats.come_back(&mut seat, &behind),
        );
        folder = folded;
        match (taken, others) {
            (Some(Rest::Done(second)), _) => return all.consumer.combine(folder.complete(), second),
            (Some(Rest::Kept(others)), _) | (None, Some(others)) => rest = others,
            (None, None) => unreachable!("the other half was taken, or was left"),
        }
        at += size;
        grain.has_run();
    }
}

/// Calls `f` with the worker of the calling fiber, if there is one. Whenever `f` goes on, this
/// fiber is on the same worker.
#[inline]
fn with_worker<R>(f: impl FnOnce(Option<&Common>) -> R) -> R {
    with_caller(|caller| f(caller.map(|(worker, _)| worker)))
}

/// Calls `f`, which forks, where the caller is, as [`drive`] does; else in the default runtime.
pub(crate) fn here_or_elsewhere<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    match in_worker() {
        true if chain::top().is_null() => f(),
        true => surrounded(f),
        false => surrounded(|| elsewhere(f)),
    }
}
