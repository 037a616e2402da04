//! The policies that ship, each in a file: `sim` (read it first), `fifo`, `stealing`.

mod fifo;
mod sim;
mod stealing;

pub use fifo::Fifo;
pub use sim::{Deadlock, Sim};
pub(crate) use sim::{arena, simulate};
pub use stealing::Stealing;
