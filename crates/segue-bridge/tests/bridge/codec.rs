//! Parsers that read, as decoders of tokio-util's; and readers over tokio's input.

use crate::common;

use common::{tokio_current, tokio_multi};
use futures::executor::block_on;
use futures::{StreamExt, future::join_all};
use segue::incremental::Pieces;
use segue::sync::Semaphore;
use segue::timeout;
use segue_bridge::codec::decoder;
use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWriteExt, duplex};
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{Decoder, FramedRead};

/// A line with a number, and so many bytes.
fn frame(input: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    let length: u64 = line.strip_suffix('\n').ok_or(io::ErrorKind::UnexpectedEof)?.parse().map_err(io::Error::other)?;
    let mut text = String::new();
    if input.take(length).read_to_string(&mut text)? as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(text)
}

type Frames = Vec<Result<String, io::ErrorKind>>;

/// The frames of the whole input, up to the first error.
fn whole(mut input: &[u8]) -> Frames {
    let mut frames = Frames::new();
    while !input.is_empty() && frames.last().is_none_or(Result::is_ok) {
        frames.push(frame(&mut input).map_err(|error| error.kind()));
    }
    frames
}

async fn framed(input: impl AsyncRead + Unpin) -> Frames {
    let frames = FramedRead::new(input, decoder(|input: &mut Pieces| frame(input)));
    frames.map(|frame| frame.map_err(|error| error.kind())).collect().await
}

const INPUTS: [&str; 6] =
    ["3\none5\nthree0\n4\nlast", "12\nlonger than x2\nno", "3\none5\nthr", "3\none5", "3\nonefive\nno", ""];

#[test]
fn each_split_has_the_frames_of_the_whole_input() {
    for handle in [tokio_current(), tokio_multi()] {
        for input in INPUTS {
            let expected = whole(input.as_bytes());
            assert!(expected.len() >= usize::from(!input.is_empty()));
            for length in 1..=input.len().max(1) {
                let (mut writes, reads) = duplex(length);
                let frames = handle.spawn(framed(reads));
                handle.spawn(async move { writes.write_all(input.as_bytes()).await });
                assert_eq!(block_on(frames).unwrap(), expected, "{input:?} by {length}");
            }
        }
    }
}

#[test]
fn many_decoders_at_once_and_some_that_are_dropped_within_a_frame() {
    let expected = whole(INPUTS[0].as_bytes());
    for handle in [tokio_current(), tokio_multi()] {
        let streams: Vec<_> = (0..40)
            .map(|number| {
                let (mut writes, reads) = duplex(1 + number % 5);
                let is_cut = number % 4 == 0;
                handle.spawn(async move {
                    writes.write_all(INPUTS[if is_cut { 2 } else { 0 }].as_bytes()).await.unwrap();
                    // A cut one is not told that its input ends.
                    if is_cut {
                        std::future::pending::<()>().await;
                    }
                });
                handle.spawn(async move {
                    if is_cut {
                        let mut frames = FramedRead::new(reads, decoder(|input: &mut Pieces| frame(input)));
                        let first = frames.next().await.unwrap();
                        let second = tokio::time::timeout(Duration::from_millis(1), frames.next()).await;
                        assert!(second.is_err(), "the second frame has no end");
                        return vec![first.map_err(|error| error.kind())];
                    }
                    framed(reads).await
                })
            })
            .collect();
        for (number, frames) in block_on(join_all(streams)).into_iter().enumerate() {
            let all = if number % 4 == 0 { &expected[..1] } else { &expected[..] };
            assert_eq!(frames.unwrap(), all);
        }
    }
}

#[test]
fn a_panic_of_the_parser_is_the_tasks_and_the_next_frame_begins_anew() {
    let mut frames = FramedRead::new(
        &b"12345"[..],
        decoder(|input: &mut Pieces| -> io::Result<u8> {
            let byte = input.bytes().next().unwrap()?;
            assert_ne!(byte, b'2', "a two");
            Ok(byte)
        }),
    );
    assert_eq!(block_on(frames.next()).unwrap().unwrap(), b'1');
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| block_on(frames.next()))).unwrap_err();
    assert!(panic.downcast_ref::<String>().unwrap().contains("a two"));
    assert!(format!("{frames:?}").contains("has_begun: false"));
}

#[test]
fn a_caller_that_is_cancelled_loses_no_byte() {
    let permits = Arc::new(Semaphore::new(0));
    let allowed = Arc::clone(&permits);
    let mut frames = decoder(move |input: &mut Pieces| -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; 3];
        input.read_exact(&mut bytes)?;
        // In the end of its time the caller is cancelled here.
        allowed.acquire().map_err(segue::Cancelled::from)?.forget();
        Ok(bytes)
    });
    let mut bytes = BytesMut::from(&b"ab"[..]);
    assert!(frames.decode(&mut bytes).unwrap().is_none() && bytes.is_empty());
    bytes.extend_from_slice(b"cde");
    let late = timeout(Duration::from_millis(1), || Ok::<_, segue::Cancelled>(frames.decode(&mut bytes).unwrap_err()));
    assert!(segue::Cancelled::caused(&late.unwrap()) && bytes.is_empty(), "all was handed over");
    permits.add_permits(1);
    assert_eq!((frames.decode(&mut bytes).unwrap().unwrap(), &bytes[..]), (b"abc".to_vec(), &b"de"[..]));
    // And at the end of the input.
    bytes.extend_from_slice(b"f");
    let late =
        timeout(Duration::from_millis(1), || Ok::<_, segue::Cancelled>(frames.decode_eof(&mut bytes).unwrap_err()));
    assert!(segue::Cancelled::caused(&late.unwrap()));
    permits.add_permits(1);
    assert_eq!(frames.decode_eof(&mut bytes).unwrap().unwrap(), b"def");
    assert!(frames.decode_eof(&mut bytes).unwrap().is_none());
}

#[test]
fn a_reader_waits_for_tokios_input() {
    let handle = tokio_multi();
    for input in INPUTS {
        let (mut writes, reads) = duplex(3);
        handle.spawn(async move { writes.write_all(input.as_bytes()).await });
        let mut reader = io::BufReader::new(segue_bridge::tokio::reader(handle, reads));
        let frames = segue::spawn(move || {
            let mut frames = Frames::new();
            while !reader.fill_buf().unwrap().is_empty() && frames.last().is_none_or(Result::is_ok) {
                frames.push(frame(&mut reader).map_err(|error| error.kind()));
            }
            frames
        });
        assert_eq!(frames.join().unwrap(), whole(input.as_bytes()));
    }
    // A cancelled read takes nothing.
    let (mut writes, reads) = duplex(8);
    let mut reader = segue_bridge::tokio::reader(handle, reads);
    let late = timeout(Duration::from_millis(1), || reader.read(&mut [0; 8])).unwrap_err();
    assert!(late.to_string().contains("time"), "{late}");
    block_on(writes.write_all(b"later")).unwrap();
    let mut bytes = [0; 8];
    assert_eq!((reader.read(&mut bytes).unwrap(), &bytes[..5]), (5, &b"later"[..]));
}
