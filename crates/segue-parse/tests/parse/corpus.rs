//! The inputs that fuzzers have found, each through the function that found it.

use super::alike::csv::Csv;
use super::alike::http::Http;
use super::alike::json::Json;
use super::alike::resp::Resp;
use super::alike::{Grammar, fuzzed};
use std::path::Path;

/// A directory of the repository's `fuzz/corpus`.
fn corpus(grammar: impl Grammar, name: &str) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let files = directory.read_dir().unwrap().map(|file| file.unwrap().path());
    let checked = files.map(|file| fuzzed(grammar, &std::fs::read(file).unwrap())).count();
    assert!(checked > 0, "{} is empty", directory.display());
}

#[test]
fn inputs_of_fuzzers_have_the_outcome_of_the_whole() {
    corpus(Json, "json");
    corpus(Http, "http");
    corpus(Csv, "csv");
    corpus(Resp, "resp");
}
