//! The client's side of a connection: requests are sent, and their responses read, in direct style.

mod connection;
mod encode;
mod error;
mod head;

pub use connection::{Connection, Response};
pub use error::Error;
