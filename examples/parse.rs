//! One grammar of combinators in direct style, and four ways to its input: a slice, a file, a
//! socket, and a callback with pieces.
//!
//! The grammar is that of the tests of `segue-parse`, which has three others.

#[path = "../crates/segue-parse/tests/grammars/json.rs"]
mod json;

use json::{Value, document, value};
use segue::incremental::{Fed, Feed, push};
use segue::net::{TcpListener, TcpStream};
use segue_parse::{Input, Refill, Report};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};

/// A value, or all that can be said about the error.
fn parse<S: Refill>(mut input: Input<S>) -> Result<Value, Report> {
    value(&mut input).map_err(|error| input.report(error))
}

/// A library with a connection of its own, that calls back with each piece.
fn foreign_library(text: &[u8], callback: impl FnMut(&[u8])) {
    text.chunks(7).for_each(callback);
}

fn main() -> io::Result<()> {
    let text = br#"{"name": "a value", "numbers": [1, 2.5, -3e2]} and more"#;

    let from_slice = parse(Input::of(text))?;

    let path = std::env::temp_dir().join(format!("parse-{}", std::process::id()));
    std::fs::write(&path, text)?;
    let mut file = BufReader::new(File::open(&path)?);
    let from_file = parse(Input::over(&mut file))?;
    // The reader stands behind the value.
    let mut rest = String::new();
    file.read_to_string(&mut rest)?;
    std::fs::remove_file(path)?;

    let from_socket: io::Result<Value> = segue::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut peer = TcpStream::connect(listener.local_addr()?)?;
        let (stream, _) = listener.accept()?;
        // The fiber waits where bytes are missing.
        let parses = segue::spawn(move || parse(Input::over(BufReader::new(stream))));
        peer.write_all(text)?;
        Ok(parses.join().expect("no panic")?)
    });
    let from_socket = from_socket?;

    let mut machine = push(|input: &mut Feed| parse(Input::over(input)));
    let (mut from_callback, mut unread_bytes) = (None, vec![]);
    foreign_library(text, |piece| {
        if from_callback.is_some() {
            unread_bytes.extend_from_slice(piece);
        } else if let Fed::Done { value, unread } = machine.feed(piece) {
            from_callback = Some(value);
            unread_bytes.extend_from_slice(unread);
        }
    });
    let all = [from_file, from_socket, from_callback.expect("the value is whole")?];
    assert!(all.iter().all(|value| *value == from_slice));
    assert!(rest == " and more" && unread_bytes == b" and more");

    // An error says where, and all that could have stood there.
    let mut input = Input::of(b"[1,\n 2 3]");
    let report = document(&mut input).map_err(|error| input.report(error)).unwrap_err();
    assert_eq!(report.to_string(), "line 2, column 4: expected `,` or `]`, found `3`");
    println!("{from_slice:?}\n{report}");
    Ok(())
}
