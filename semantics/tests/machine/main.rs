//! The abstract machine: its rules, its statistics, and its agreement with the handlers.

mod agreement;
mod machine_examples;
mod machine_properties;
mod statistics;
