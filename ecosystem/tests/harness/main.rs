//! The harness finds crates that don't fit into fibers: planted ones, each with one fault.

use ecosystem::{Talk, read_alike, talk_alike, write_alike};
use segue::pipe::PipeReader;
use std::cell::Cell;
use std::io::{Read, Write};

thread_local! {
    static SUM: Cell<u32> = const { Cell::new(0) };
}

/// Adds up in a variable of the thread.
fn careless(mut reader: impl Read) -> u32 {
    let mut byte = [0];
    SUM.set(0);
    while reader.read(&mut byte).unwrap() > 0 {
        SUM.set(SUM.get() + u32::from(byte[0]));
    }
    SUM.get()
}

#[test]
#[should_panic(expected = "a fiber has read what a plain thread has not")]
fn a_reader_that_keeps_something_in_its_thread_is_found() {
    read_alike::<PipeReader, _>(b"bytes of several fibers", careless, careless);
}

#[test]
#[should_panic(expected = "a fiber has ended before it had half of its bytes")]
fn a_reader_that_does_not_wait_for_its_bytes_is_found() {
    fn hasty(mut reader: impl Read) -> u8 {
        let mut byte = [0];
        reader.read_exact(&mut byte).unwrap();
        byte[0]
    }
    read_alike::<PipeReader, _>(b"never read", hasty, hasty);
}

#[test]
#[should_panic(expected = "a fiber had no need to wait")]
fn a_writer_that_need_not_wait_is_found() {
    fn short(mut writer: impl Write) {
        writer.write_all(b"short").unwrap();
    }
    write_alike::<PipeReader>(short, short);
}

#[test]
#[should_panic(expected = "a fiber has come to what a plain thread has not")]
fn a_client_that_keeps_something_in_its_thread_is_found() {
    fn server(mut stream: impl Write) {
        stream.write_all(b"bytes of several fibers").unwrap();
    }
    let how = Talk { connections: 3, piece: 1 };
    talk_alike(how, careless, server, careless, server);
}
