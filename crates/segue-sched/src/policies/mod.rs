//! The policies that ship, each in a file: `fifo`, `lifo`, `stealing`,
//! `round_robin`; by attributes `priority`, `deadline`, `fair`; of policies `hierarchical`. Beside
//! them what several of them use: `ordered`, `meter`, `ring`.

mod deadline;
mod fair;
mod fifo;
mod hierarchical;
mod lifo;
mod meter;
mod ordered;
mod priority;
mod ring;
mod round_robin;
mod stealing;

pub use deadline::{ByDeadline, Due};
pub use fair::{Fair, Share};
pub use fifo::Fifo;
pub use hierarchical::{Class, Hierarchical};
pub use lifo::Lifo;
use meter::{Clock, Meter, Used};
pub use ordered::Ordered;
pub use priority::{ByPriority, Priority};
pub use round_robin::RoundRobin;
pub(crate) use stealing::Kept;
pub use stealing::Stealing;
