//! The pieces in which a client's bytes come change nothing of the server's answers.
#![no_main]

#[path = "../../crates/segue-http/tests/connection/alike.rs"]
mod alike;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    alike::fuzzed(data);
});
