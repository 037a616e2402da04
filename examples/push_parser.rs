//! One parser, and four ways to its input: a slice, a file, a socket, and a callback with pieces.
//!
//! The parser reads, and so waits where there is nothing to read. From a socket the fiber waits; in
//! a machine the machine asks for more.

use segue::incremental::{Fed, Feed, push};
use segue::net::{TcpListener, TcpStream};
use std::io::{self, BufRead, BufReader, Write};

type Head = Vec<(String, String)>;

/// Lines of names and values, up to an empty one.
fn head(input: &mut impl BufRead) -> io::Result<Head> {
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        input.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => head.push((name.to_owned(), value.to_owned())),
            None if line.trim_end().is_empty() => return Ok(head),
            None => return Err(io::Error::new(io::ErrorKind::InvalidData, format!("no value in {line:?}"))),
        }
    }
}

fn main() -> io::Result<()> {
    let text = b"Host: localhost\r\nAccept: any\r\n\r\nand a body";
    let from_slice = head(&mut &text[..])?;

    let path = std::env::temp_dir().join(format!("push_parser-{}", std::process::id()));
    std::fs::write(&path, text)?;
    let from_file = head(&mut BufReader::new(std::fs::File::open(&path)?))?;
    std::fs::remove_file(path)?;

    let from_socket = segue::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut peer = TcpStream::connect(listener.local_addr()?)?;
        let (stream, _) = listener.accept()?;
        let reads = segue::spawn(move || head(&mut BufReader::new(stream)));
        peer.write_all(text)?;
        reads.join().expect("no panic")
    })?;

    let mut machine = push(|input: &mut Feed| head(input));
    let (mut from_callback, mut body) = (None, vec![]);
    let foreign_library = |callback: &mut dyn FnMut(&[u8])| text.chunks(7).for_each(callback);
    foreign_library(&mut |piece| {
        if from_callback.is_some() {
            body.extend_from_slice(piece);
        } else if let Fed::Done { value, unread } = machine.feed(piece) {
            from_callback = Some(value);
            body.extend_from_slice(unread);
        }
    });
    let all = [from_file, from_socket, from_callback.expect("the head is whole")?];
    assert!(all.iter().all(|head| *head == from_slice) && body == b"and a body");
    println!("{from_slice:?}");
    Ok(())
}
