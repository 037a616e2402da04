//! Jobs beyond one machine: a job's result is an ordinary promise.
//!
//! Used by applications whose work outgrows one machine. A *job* is a function with a name, whose
//! arguments can be serialised. A [`Pool`] takes jobs, and answers each with a
//! [`Promise`](segue::sync::Promise), for which fibers, threads, tasks and choices wait as for any
//! other. The pool is in this process by default; with the feature `nats` its queue and its results
//! are at a server of NATS, and [`Worker`]s of any number of machines run the jobs.
//!
//! ```
//! use segue_remote::{Pool, job};
//!
//! /// The number of pairs of rabbits in the month `n`.
//! #[job]
//! fn fib(n: u64) -> u64 {
//!     (1..=n).fold((0, 1), |(a, b), _| (b, a + b)).0
//! }
//!
//! let fibers = segue::runtime().workers(2).pool()?;
//! let pool = Pool::local(&fibers); // Or `Pool::nats("nats://server:4222", Options::new("rabbits"))?`.
//! let answer = pool.submit(Fib { n: 30 });
//! assert_eq!(answer.take()?, Ok(832_040));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promises
//!
//! * **A job runs at least once.** A worker that dies, or is silent for longer than the
//!   [ack wait](Options::ack_wait), loses its jobs to others.
//! * **A job has exactly one result.** The first completion is stored under the job's id; all later
//!   ones are discarded. A job that has no answer after its last attempt is a
//!   [dead letter](Pool::dead_letters), and its result says so.
//! * **A promise that is dropped cancels its job**, in one round trip: a job that runs is cancelled
//!   by a token, one that has not begun never does.
//!
//! `docs/remote.md` in the repository says on which settings of a server that rests, and which
//! other products to use for durable workflows.
//!
//! # Rooms
//!
//! [`engine`] is the seam: an [`Engine`](engine::Engine) does queues, acknowledgements and
//! redelivery. The local one and that of NATS are two; another database can be a third.
#![forbid(unsafe_code)]

// The code that the attribute writes names this crate from outside.
extern crate self as segue_remote;

mod current;
pub mod engine;
mod error;
mod job;
mod local;
mod map;
#[cfg(feature = "nats")]
mod nats;
mod options;
mod pool;
mod serve;
mod watch;
mod worker;

pub use current::{Current, current};
pub use error::RemoteError;
#[doc(hidden)]
pub use job::Answer;
pub use job::{Format, Job, Json};
pub use options::{Options, SubmitOptions};
pub use pool::Pool;
pub use segue_macros::job;
#[doc(hidden)]
pub use serde;
pub use worker::{Summary, Worker};

/// The programs of `docs/remote.md`, run as tests.
#[cfg(all(doctest, feature = "nats"))]
#[doc = include_str!("../../../docs/remote.md")]
pub struct RemoteDoctests;
