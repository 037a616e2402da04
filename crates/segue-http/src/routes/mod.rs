//! From a request to its handler: paths and methods, parameters, and functions around handlers.

mod around;
mod escapes;
mod params;
mod router;
mod table;

pub use around::Next;
pub use params::Params;
pub use router::Router;
