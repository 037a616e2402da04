//! The attribute stands before functions that can be tests.

#[segue::test]
struct NoFunction;

#[segue::test]
async fn is_async() {}

#[segue::test]
fn with_parameters(_seed: u64) {}

#[segue::test]
fn with_type_parameters<T>() {}

#[segue::test]
#[test]
fn a_test_already() {}

fn main() {}
