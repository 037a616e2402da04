//! What effect handlers mean, as an executable machine, and the check that the runtime means the same.
pub mod check;
pub mod foreign;
pub mod generate;
pub mod list;
pub mod machine;
pub mod observe;
pub mod runtime;
pub mod shrink;
pub mod syntax;
