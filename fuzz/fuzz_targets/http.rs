//! The pieces in which an input comes change nothing of the outcome: heads of requests.
#![no_main]

#[path = "../../crates/segue-parse/tests/alike/mod.rs"]
#[allow(dead_code, reason = "other targets ask for the rest")]
mod alike;

libfuzzer_sys::fuzz_target!(|data: &[u8]| alike::fuzzed(alike::http::Http, data));
