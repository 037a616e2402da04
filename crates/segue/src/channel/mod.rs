//! Channels: values that are sent here and received there, between fibers of any scheduler, plain
//! threads and tasks of any async runtime.
//!
//! | channel | its buffer | for |
//! | --- | --- | --- |
//! | [`rendezvous`] | none: a sender waits for its receiver | handing over, knowing of the receipt |
//! | [`bounded`] | room for so many; senders wait for room | pipelines; the slow side slows the fast one |
//! | [`unbounded`] | any number; to send never waits | events, where the sender must not wait |
//! | [`oneshot`] | one value, once | an answer; the same as a [`promise`](crate::sync::promise) |
//! | [`broadcast`] | the newest so many | each receiver gets every message, or is told the number of missed ones |
//! | [`watch`] | the newest value | settings, progress: each receiver sees the newest |
//!
//! The first three are one type, [`Sender`] and [`Receiver`], with any number of either. Each value
//! goes to one receiver, in the order in which they were sent. A waiter is handed its value and
//! overtaken by nobody.
//!
//! **The end.** A channel is closed by its last sender that goes, by its last receiver that goes,
//! or by `close` from either side. Then nobody sends: values that waited come back to their
//! senders. Receivers get the buffered values, and then [`Closed`](crate::Closed).
//!
//! **Nothing is lost.** A value that was not sent comes back, in the error or in the source. One
//! that was handed to a future that is dropped goes to the next receiver, also if that has seen the
//! end already. A value that was sent and will never be received goes to the hook of
//! [`Options::on_undelivered`].
//!
//! **Memory.** A buffer takes memory for the values that are there, and gives memory back as they
//! become fewer, in blocks of about 8 KiB. A channel that was drained keeps up to three of these:
//! one of its buffer, and one of the values that its receivers have taken off, an exclusive one or
//! those of an unbounded channel. A broadcast has its room from the beginning to the end.
//!
//! Each operation comes as `x`, `try_x` and `x_source`; [`select!`](crate::select) chooses among
//! sources.
//!
//! ```
//! use segue::{channel, select};
//!
//! let (requests, inbox) = channel::bounded(4);
//! let (answers, outbox) = channel::rendezvous();
//! segue::scope(|s| {
//!     s.spawn(move || {
//!         for n in inbox {
//!             answers.send(n * n)?;
//!         }
//!         Ok::<(), segue::Rejected<u32, _>>(())
//!     });
//!     for n in 1..=3 {
//!         requests.send(n).unwrap();
//!         assert_eq!(outbox.recv(), Ok(n * n));
//!     }
//!     drop(requests);
//! });
//! ```

mod blocks;
pub mod broadcast;
mod errors;
mod exclusive;
mod front;
pub mod oneshot;
mod operations;
mod patience;
mod receiver;
mod sender;
mod state;
pub mod watch;

pub use errors::{TryRecvError, TrySendError};
pub use exclusive::{Exclusive, IntoIter};
pub use operations::{SendValue, Sending};
pub use receiver::{Iter, Receiver, TryIter};
pub use sender::{Reserved, Sender, WeakSender};

use state::{Shared, Undelivered};
use std::sync::Arc;

/// The calls that sender and receiver share.
macro_rules! both_sides {
    ($side:ident, $count:ident, $own:ident) => {
        impl<T> $side<T> {
            /// How many values are buffered.
            #[must_use]
            pub fn len(&self) -> usize {
                self.0.len()
            }

            /// Whether no value is buffered.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Whether there is no room: at a rendezvous always.
            #[must_use]
            pub fn is_full(&self) -> bool {
                self.0.is_full()
            }

            /// The room in values: 0 at a rendezvous; `None` without a bound.
            #[must_use]
            pub fn capacity(&self) -> Option<usize> {
                Some(self.0.capacity).filter(|capacity| *capacity != usize::MAX)
            }

            /// Whether nothing is sent any more.
            #[must_use]
            pub fn is_closed(&self) -> bool {
                self.0.is_closed()
            }

            /// How many of these there are.
            #[must_use]
            pub fn $count(&self) -> usize {
                self.0.$own.load(Ordering::Relaxed)
            }

            /// Whether both are of one channel.
            #[must_use]
            pub fn same_channel(&self, other: &Self) -> bool {
                Arc::ptr_eq(&self.0, &other.0)
            }
        }

        impl<T> std::fmt::Debug for $side<T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct(stringify!($side));
                shown.field("len", &self.len()).field("capacity", &self.capacity());
                shown.field("closed", &self.is_closed()).finish()
            }
        }
    };
}
use both_sides;

/// The largest capacity of a bounded channel: 2^30.
pub const MAX_CAPACITY: usize = 1 << 30;

/// A channel without a buffer: a sender waits until a receiver takes its value, and a receiver
/// until a sender brings one.
///
/// # Examples
///
/// ```
/// let (sender, receiver) = segue::channel::rendezvous();
/// assert!(sender.try_send(1).is_err(), "nobody receives");
/// std::thread::spawn(move || sender.send(2));
/// assert_eq!(receiver.recv(), Ok(2));
/// ```
pub fn rendezvous<T>() -> (Sender<T>, Receiver<T>) {
    Options::rendezvous().build()
}

/// A channel with room for `capacity` values; with 0 the channel is a [`rendezvous`]. Only values
/// that are there take memory.
///
/// # Panics
/// If `capacity` is more than [`MAX_CAPACITY`].
///
/// # Examples
///
/// ```
/// let (sender, receiver) = segue::channel::bounded(2);
/// sender.send(1).unwrap();
/// sender.send(2).unwrap();
/// assert!(sender.try_send(3).is_err(), "there is no room");
/// assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2]);
/// ```
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    Options::bounded(capacity).build()
}

/// A channel with room for any number of values: to send never waits.
///
/// Nothing slows down a sender that is faster than its receivers: the memory is the bound.
///
/// # Examples
///
/// ```
/// let (sender, receiver) = segue::channel::unbounded();
/// (0..1_000).for_each(|n| sender.send(n).unwrap());
/// drop(sender);
/// assert_eq!(receiver.into_iter().count(), 1_000);
/// ```
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    Options::unbounded().build()
}

/// Makes a channel with a hook.
///
/// # Examples
///
/// ```
/// use segue::channel::Options;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// static LOST: AtomicUsize = AtomicUsize::new(0);
/// let (sender, receiver) = Options::bounded(8)
///     .on_undelivered(|bytes: Vec<u8>| _ = LOST.fetch_add(bytes.len(), Ordering::Relaxed))
///     .build();
/// sender.send(vec![0; 100]).unwrap();
/// drop(receiver);
/// assert_eq!(LOST.load(Ordering::Relaxed), 100);
/// ```
#[must_use = "`build` makes the channel"]
pub struct Options<T> {
    capacity: usize,
    undelivered: Option<Undelivered<T>>,
}

impl<T> Options<T> {
    /// As [`rendezvous`].
    pub fn rendezvous() -> Self {
        Self { capacity: 0, undelivered: None }
    }

    /// As [`bounded`].
    ///
    /// # Panics
    /// If `capacity` is more than [`MAX_CAPACITY`].
    pub fn bounded(capacity: usize) -> Self {
        assert!(
            capacity <= MAX_CAPACITY,
            "a bounded channel has room for {MAX_CAPACITY} values at most, not {capacity}: `unbounded()` has no bound"
        );
        Self { capacity, undelivered: None }
    }

    /// As [`unbounded`].
    pub fn unbounded() -> Self {
        Self { capacity: usize::MAX, undelivered: None }
    }

    /// Calls `hook` with each value that was sent and will never be received, since the last
    /// receiver has gone. The hook is called in that drop, after all locks; if the hook panics, the
    /// values behind are dropped.
    pub fn on_undelivered(mut self, hook: impl Fn(T) + Send + Sync + 'static) -> Self {
        self.undelivered = Some(Box::new(hook));
        self
    }

    /// Makes the channel.
    pub fn build(self) -> (Sender<T>, Receiver<T>) {
        let shared = Arc::new(Shared::new(self.capacity, self.undelivered));
        (Sender::new(Arc::clone(&shared)), Receiver(shared))
    }
}

segue_core::impl_debug!([T] Options<T>, |it| capacity: it.capacity);
