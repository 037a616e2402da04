//! Transactions on memory.

mod atomically;
mod attempts;
mod commit;
mod log;
mod open;
mod profile;
mod snapshot;
mod stop;
mod turn;
mod tx;
mod var;
mod version;
mod waits;

pub use atomically::{atomically, transaction};
pub use profile::{Conflict, Profile};
pub use stop::Stop;
pub use tx::Tx;
pub use var::TVar;
