//! What the compiler says of the attribute `segue::test` where it is used wrongly.

#![cfg(feature = "sched")]

#[test]
fn each_mistake_is_explained() {
    trybuild::TestCases::new().compile_fail("tests/wrong_attributes/*.rs");
}
