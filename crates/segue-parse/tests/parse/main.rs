//! Grammars and tokens: the outcome does not depend on how bytes come, and is that of the crates
//! that their fields trust.

#[path = "../alike/mod.rs"]
mod alike;
mod bad_input;
mod corpus;
mod csv;
mod http;
mod json;
mod own_files;
mod readers;
mod resp;
mod splits;
