//! Running jobs: leases are taken, held, and ended.
//!
//! Used by workers, and by local pools. A fiber for each kind takes leases; each lease is a fiber
//! of its own, and one more fiber extends all leases that are held. A lease is held from its
//! arrival on, also while its job waits for a slot.
//!
//! * `handler.rs`: a type of jobs, as a function of bytes.
//! * `attempt.rs`: one lease, from its arrival to its end.
//! * `server.rs`: all leases of a worker.

mod attempt;
mod handler;
mod server;

pub(crate) use attempt::Counts;
pub(crate) use handler::Handler;
pub(crate) use server::Server;
