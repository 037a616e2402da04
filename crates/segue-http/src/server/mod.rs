//! The server: its shutdown, and the loop that accepts connections.

mod serving;
mod shutdown;

pub use serving::Server;
pub use shutdown::Shutdown;
