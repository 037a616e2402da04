//! Responses that are files: ranges, conditions, and the files of a directory.

mod conditions;
mod directory;
mod encodings;
mod names;
mod ranges;
mod respond;
mod types;

pub use directory::Files;
pub use respond::FileResponse;
