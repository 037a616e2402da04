//! The server: its shutdown, and the loop that accepts connections.

pub(crate) mod accepting;
mod serving;
mod shutdown;

pub use serving::Server;
pub use shutdown::Shutdown;
