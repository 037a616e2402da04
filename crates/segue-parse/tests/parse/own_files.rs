//! The established crates' own tests: all texts that their test files hold, and all their data.
//!
//! The sources of the crates lie where Cargo has put them.

use super::alike::csv::Csv;
use super::alike::http::Http;
use super::alike::json::Json;
use super::alike::resp::Resp;
use super::alike::{Grammar, compare};
use proc_macro2::{Literal, TokenStream, TokenTree};
use segue_parse::Input;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Cargo has the sources of a crate.
fn sources_of(name: &str) -> PathBuf {
    let said = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--format-version=1", "--manifest-path"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    // Of several versions the last one is the newest.
    let packages = metadata["packages"].as_array().unwrap().iter().rev();
    let manifests = packages.filter(|package| package["name"] == name).map(|package| &package["manifest_path"]);
    let newest = manifests.filter_map(|path| path.as_str()).next().unwrap();
    Path::new(newest).parent().unwrap().to_owned()
}

/// All files in a directory, and in those inside of it.
fn files_in(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in directory.read_dir().into_iter().flatten().map(Result::unwrap) {
        match entry.path() {
            path if path.is_dir() => files_in(&path, found),
            path => found.push(path),
        }
    }
}

/// The texts in Rust's source, and those inside of what stands in brackets.
fn texts(source: TokenStream, found: &mut Vec<Vec<u8>>) {
    for token in source {
        match token {
            TokenTree::Group(group) => texts(group.stream(), found),
            TokenTree::Literal(literal) => found.extend(text_of(literal)),
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

fn text_of(literal: Literal) -> Option<Vec<u8>> {
    match syn::Lit::new(literal) {
        syn::Lit::Str(text) => Some(text.value().into_bytes()),
        syn::Lit::ByteStr(bytes) => Some(bytes.value()),
        _ => None,
    }
}

/// Gives the grammar each text and each file of data; the number of those with a value.
fn alike<G: Grammar>(grammar: G, name: &str, directories: &[&str], data: &str) -> usize {
    let (mut files, mut inputs) = (Vec::new(), Vec::new());
    let sources = sources_of(name);
    directories.iter().for_each(|directory| files_in(&sources.join(directory), &mut files));
    for file in files {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => texts(std::fs::read_to_string(&file).unwrap().parse().unwrap(), &mut inputs),
            Some(extension) if extension == data => inputs.push(std::fs::read(&file).unwrap()),
            _ => {}
        }
    }
    inputs.sort();
    inputs.dedup();
    let (all, mut right) = (inputs.len(), 0);
    for input in inputs {
        let outcome = grammar.outcome(Input::of(&input));
        grammar.beside(&input, &outcome);
        right += usize::from(outcome.is_ok());
        let size = if input.len() < 1000 { 1 } else { 997 };
        compare(grammar, &input, &outcome, &input.chunks(size).collect::<Vec<_>>());
    }
    println!("{name}: {all} texts, {right} with a value");
    right
}

#[test]
fn texts_in_the_tests_of_serde_json_have_its_outcome() {
    assert!(alike(Json, "serde_json", &["tests", "src"], "json") > 100);
}

#[test]
fn texts_in_the_tests_of_httparse_have_its_outcome() {
    assert!(alike(Http, "httparse", &["tests", "src", "benches"], "http") > 10);
}

#[test]
fn texts_and_tables_of_csv_have_its_records() {
    assert!(alike(Csv, "csv", &["tests", "src", "examples"], "csv") > 50);
}

#[test]
fn texts_in_the_tests_of_redis_have_its_replies() {
    assert!(alike(Resp, "redis", &["tests", "src"], "resp") > 10);
}
