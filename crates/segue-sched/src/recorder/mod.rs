//! The flight recorder: the last events of each worker, kept all the time, to be read when
//! something has happened.
//!
//! Used by applications after a stall, a panic or a surprise, and by `segue-trace`, which writes
//! the events for Perfetto. Workers write by their `Pen`.
//!
//! Each worker of a scheduler has a ring of 1 MiB ([`Runtime::recorder`](crate::Runtime::recorder)
//! sets another size, or none), in which new events take the place of the oldest. [`snapshot`]
//! copies all rings, without a pause for any worker. The rings of [`Sim`](crate::Sim), of
//! [`hosted`](crate::hosted()) fibers and of [`Plain`](crate::Plain) do not exist.
//!
//! # Which turns are recorded
//!
//! All of them, if a turn of the worker takes five microseconds or more on average. If turns are
//! shorter, then one in so many that these take five microseconds together: recording a turn costs
//! two looks at a clock and some words, a fiftieth of that or less. Such a turn is recorded whole,
//! from its beginning to its end, and [`Event::Unrecorded`] says how many are missing before that.
//! Parks and steals are recorded always. Of a turn that wakes and spawns many, the first 32 such
//! events are recorded.
//!
//! # Time
//!
//! The beginning and the end of a recorded turn have the time of the clock, and so have parks. The
//! events inside of a turn have it if turns are long, ten microseconds or more; else they are in
//! order, and have the time of the event before.
//!
//! # Examples
//!
//! ```
//! use segue_sched::recorder::{self, Event};
//!
//! let recording = segue_sched::Runtime::new().workers(1).run(|| {
//!     segue_core::spawn(|| ()).join().unwrap();
//!     recorder::snapshot()
//! })?;
//! let mut events = recording.tracks.iter().flat_map(|track| &track.entries);
//! assert!(events.any(|entry| matches!(entry.event, Event::Suspend { .. })));
//! # Ok::<(), std::io::Error>(())
//! ```

mod pen;
mod reading;
mod registry;
mod ring;
mod word;

pub(crate) use pen::{Leaves, Pen};
pub use reading::{Entry, Event, Recording, Track, snapshot};
pub(crate) use registry::{Ink, next_scheduler};

/// The size of a worker's ring, unless the builder says another one.
pub(crate) const SIZE: usize = 1 << 20;
