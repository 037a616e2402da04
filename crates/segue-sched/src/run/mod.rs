//! Starting and ending schedulers: a run on the caller's thread, a pool of threads, and a scheduler
//! that its caller drives.
//!
//! [`runtime`] has the entry points. A worker is made by [`plan`], a first fiber led by [`lead`];
//! [`shutdown`] is the end, and [`monitor`] looks on.

mod attendants;
pub(crate) mod default;
pub(crate) mod driven;
pub(crate) mod handle;
pub(crate) mod lead;
mod monitor;
pub(crate) mod moving;
mod nobody;
mod options;
pub(crate) mod plan;
pub(crate) mod pool;
mod processors;
pub(crate) mod report;
pub(crate) mod runtime;
mod service;
pub(crate) mod shutdown;
