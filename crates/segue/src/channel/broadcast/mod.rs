//! Messages that each of several receivers gets.
//!
//! Used where one part of a program tells all others of events: news, changes of a configuration,
//! lines of a chat.
//!
//! A [`Receiver`] gets every message that is sent from its making on. The messages are kept until
//! all receivers have got them. The constructor decides about a slow receiver of a full channel:
//!
//! * of a [`channel`] the sender never waits: the oldest message is overwritten, and a receiver
//!   that had yet to get that one is told the number of its missed messages;
//! * of a [`lossless`] one the sender waits for the slowest receiver.
//!
//! A message lies there once, and each receiver gets a clone. The last receiver of a message gets
//! the message itself. `T: Clone` is the user's code, so a clone runs on the receiver's own time:
//! after the receive has taken effect, outside of every lock, and perhaps on several threads at
//! once, which is why messages that cross threads have to be `Sync`. For large messages send an
//! [`Arc`].
//!
//! # Order
//! Every receiver gets the messages in the one order in which they were sent.
//!
//! # Examples
//!
//! ```
//! use segue::channel::broadcast;
//!
//! let (news, mut first) = broadcast::channel(16);
//! let mut second = news.subscribe();
//! segue::scope(|s| {
//!     let heard = s.spawn(move || (second.recv(), second.recv()));
//!     assert_eq!(news.send("hello").unwrap(), 2);
//!     drop(news);
//!     assert_eq!(heard.join().unwrap(), (Ok("hello"), Err(broadcast::RecvError::Closed)));
//! });
//! assert_eq!(first.recv(), Ok("hello"));
//! ```
//!
//! [`Arc`]: std::sync::Arc

mod error;
mod receiver;
mod ring;
mod sender;

pub use error::{NoMessage, RecvError};
pub use receiver::{Iter, Receiver};
pub use ring::{Push, Sending};
pub use sender::{Overwrites, Sender, Waits};

use ring::{Queue, Ring};
use std::sync::Arc;

/// A broadcast with a sender that never waits: where there is no room, the oldest message is
/// overwritten.
///
/// `capacity` is the number of messages by which a receiver may be late. Room for them is allocated
/// at once.
///
/// # Panics
/// If `capacity` is zero, or if there is no memory for so many.
///
/// # Examples
///
/// ```
/// use segue::channel::broadcast::{self, RecvError};
///
/// let (sender, mut receiver) = broadcast::channel(2);
/// for n in 0..5 {
///     sender.send(n)?;
/// }
/// assert_eq!(receiver.recv(), Err(RecvError::Lagged(3)));
/// assert_eq!((receiver.recv(), receiver.recv()), (Ok(3), Ok(4)));
/// # Ok::<(), segue::Rejected<i32, segue::Closed>>(())
/// ```
#[must_use]
#[track_caller]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    pair(capacity)
}

/// A broadcast with a sender that waits while the slowest receiver is late by `capacity` messages.
///
/// No receiver lags. One that is kept and never asked holds up all senders, once there is no room.
///
/// # Panics
/// As for [`channel`].
///
/// # Examples
///
/// ```
/// use segue::channel::broadcast;
///
/// let (sender, receiver) = broadcast::lossless(2);
/// let copies = [receiver.clone(), receiver];
/// let sums = segue::scope(|s| {
///     let sums = copies.map(|mut copy| s.spawn(move || copy.iter().map(Result::unwrap).sum::<u32>()));
///     (1..=100).for_each(|n| sender.send(n).unwrap());
///     drop(sender);
///     sums.map(|sum| sum.join().unwrap())
/// });
/// assert_eq!(sums, [5050, 5050]);
/// ```
#[must_use]
#[track_caller]
pub fn lossless<T>(capacity: usize) -> (Sender<T, Waits>, Receiver<T>) {
    pair(capacity)
}

#[track_caller]
fn pair<T, F>(capacity: usize) -> (Sender<T, F>, Receiver<T>) {
    let queue = Arc::new(Queue::new(Ring::new(capacity)));
    (Sender::new(Arc::clone(&queue)), Receiver::new(queue, 0))
}
