//! Workloads with the rivals compiled in.
fn main() {}
