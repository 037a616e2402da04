//! The ranges of requests, in a table, and by the thousand.
#![expect(clippy::single_range_in_vec_init, reason = "a list of parts may have one")]

use crate::common::Reply;
use crate::{Scratch, ask, bytes, one_file};
use std::fmt::Write;
use std::ops::Range;

const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";

#[derive(Debug)]
enum Expected {
    Whole,
    Unsatisfiable,
    Parts(Vec<Range<usize>>),
}

use Expected::{Unsatisfiable, Whole};

fn parts<const N: usize>(parts: [Range<usize>; N]) -> Expected {
    Expected::Parts(parts.into())
}

fn check(reply: &Reply, content: &[u8], expected: &Expected, asked: &str) {
    let asked = &asked[..asked.len().min(100)];
    assert!(reply.complete, "{asked}");
    let length = content.len();
    match expected {
        Whole => {
            assert_eq!((reply.status, reply.header("content-range")), (200, None), "{asked}");
            assert!(reply.body == content, "{asked}");
        }
        Unsatisfiable => {
            let range = format!("bytes */{length}");
            assert_eq!((reply.status, reply.header("content-range")), (416, Some(&*range)), "{asked}");
            assert!(reply.body.is_empty(), "{asked}");
        }
        Expected::Parts(parts) if parts.len() == 1 => {
            let part = parts[0].clone();
            let range = format!("bytes {}-{}/{length}", part.start, part.end - 1);
            assert_eq!((reply.status, reply.header("content-range")), (206, Some(&*range)), "{asked}");
            assert!(reply.body == content[part], "{asked}");
        }
        Expected::Parts(parts) => {
            assert_eq!((reply.status, reply.header("content-range")), (206, None), "{asked}");
            let boundary =
                reply.header("content-type").unwrap().strip_prefix("multipart/byteranges; boundary=").unwrap();
            let mut body = Vec::new();
            for (count, part) in parts.iter().enumerate() {
                let line_end = if count > 0 { "\r\n" } else { "" };
                let range = format!("Content-Range: bytes {}-{}/{length}", part.start, part.end - 1);
                let head =
                    format!("{line_end}--{boundary}\r\nContent-Type: application/octet-stream\r\n{range}\r\n\r\n");
                body.extend_from_slice(head.as_bytes());
                body.extend_from_slice(&content[part.clone()]);
            }
            body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
            assert!(reply.body == body, "{asked}: {}", String::from_utf8_lossy(&reply.body));
        }
    }
}

#[test]
fn ranges_are_answered_by_the_rules() {
    let dir = Scratch::new();
    let path = dir.file("letters", LETTERS);
    let table = [
        // One range.
        ("bytes=0-0", parts([0..1])),
        ("bytes=0-25", parts([0..26])),
        ("bytes=5-9", parts([5..10])),
        ("bytes=25-", parts([25..26])),
        ("bytes=0-", parts([0..26])),
        ("bytes=5-1000", parts([5..26])),
        ("bytes=-1", parts([25..26])),
        ("bytes=-26", parts([0..26])),
        ("bytes=-1000", parts([0..26])),
        ("BYTES=1-1", parts([1..2])),
        ("bytes=007-008", parts([7..9])),
        ("bytes= 1-1 ,", parts([1..2])),
        ("bytes=,,\t1-1,, ,", parts([1..2])),
        ("bytes=5-18446744073709551615", parts([5..26])),
        ("bytes=5-99999999999999999999999999999", parts([5..26])),
        ("bytes=-99999999999999999999999999999", parts([0..26])),
        // Several.
        ("bytes=0-0,2-2", parts([0..1, 2..3])),
        ("bytes=0-4, 10-14 ,-1", parts([0..5, 10..15, 25..26])),
        ("bytes=20-,0-1", parts([20..26, 0..2])),
        ("bytes=1-2,100-200", parts([1..3])),
        ("bytes=100-,-0,3-3,9-9", parts([3..4, 9..10])),
        // Those that overlap or touch are one, at the place of the first.
        ("bytes=0-1,2-3", parts([0..4])),
        ("bytes=5-9,0-6", parts([0..10])),
        ("bytes=20-21,0-3,19-22,2-4", parts([19..23, 0..5])),
        ("bytes=0-,0-,0-,-26,5-5", parts([0..26])),
        ("bytes=0-0,2-2,1-1", parts([0..3])),
        // Beyond the end.
        ("bytes=26-", Unsatisfiable),
        ("bytes=26-30", Unsatisfiable),
        ("bytes=-0", Unsatisfiable),
        ("bytes=99999999999999999999999999999-", Unsatisfiable),
        ("bytes=18446744073709551615-18446744073709551615", Unsatisfiable),
        ("bytes=30-40,50-,-0", Unsatisfiable),
        // Malformed, or of something else.
        ("bytes=9-5", Whole),
        ("bytes=0-1,9-5", Whole),
        ("bytes=", Whole),
        ("bytes=,", Whole),
        ("bytes=-", Whole),
        ("bytes=--1", Whole),
        ("bytes=1--2", Whole),
        ("bytes=1", Whole),
        ("bytes=a-b", Whole),
        ("bytes=0x1-2", Whole),
        ("bytes=1-2-3", Whole),
        ("bytes=+1-2", Whole),
        ("bytes=1 - 2", Whole),
        ("bytes=1-2;3-4", Whole),
        ("bytes 1-2", Whole),
        ("bytes =1-2", Whole),
        ("bytes: 1-2", Whole),
        ("lines=1-2", Whole),
        ("1-2", Whole),
        ("", Whole),
    ];
    for (range, expected) in table {
        check(&ask(one_file(&path), "GET", "/", &[("Range", range)]), LETTERS.as_bytes(), &expected, range);
    }
}

#[test]
fn an_empty_file_has_no_ranges() {
    let dir = Scratch::new();
    let path = dir.file("empty", "");
    for (range, expected) in
        [("bytes=0-", Unsatisfiable), ("bytes=0-0", Unsatisfiable), ("bytes=-5", Whole), ("bytes=-0", Unsatisfiable)]
    {
        check(&ask(one_file(&path), "GET", "/", &[("Range", range)]), b"", &expected, range);
    }
}

#[test]
fn two_headers_of_ranges_are_none() {
    let dir = Scratch::new();
    let path = dir.file("letters", LETTERS);
    let reply = ask(one_file(&path), "GET", "/", &[("Range", "bytes=0-1"), ("Range", "bytes=0-1")]);
    check(&reply, LETTERS.as_bytes(), &Whole, "two");
}

#[test]
fn methods_other_than_get_have_no_ranges() {
    let dir = Scratch::new();
    let path = dir.file("letters", LETTERS);
    let lines = [("Range", "bytes=0-1"), ("If-None-Match", "*"), ("Content-Length", "0")];
    check(&ask(one_file(&path), "POST", "/", &lines), LETTERS.as_bytes(), &Whole, "POST");
}

/// A header with so many ranges.
fn many(count: usize, range: impl Fn(usize) -> Range<usize>) -> String {
    let mut asked = String::from("bytes=");
    for place in 0..count {
        let Range { start, end } = range(place);
        write!(asked, "{start}-{},", end - 1).unwrap();
    }
    asked
}

#[test]
fn sixteen_parts_are_sent_and_not_seventeen() {
    let dir = Scratch::new();
    // Each part alone is too long to be copied behind its head.
    let content = bytes(1_000_000);
    let path = dir.file("large", &content);
    let apart = |place: usize| place * 50_000..place * 50_000 + 40_000;
    let asked = many(16, apart);
    let expected = Expected::Parts((0..16).map(apart).collect());
    check(&ask(one_file(&path), "GET", "/", &[("Range", &asked)]), &content, &expected, &asked);
    let asked = many(17, apart);
    check(&ask(one_file(&path), "GET", "/", &[("Range", &asked)]), &content, &Whole, &asked);
    // The last one makes one part of two.
    let asked = format!("{}40000-49999", many(17, apart));
    let mut expected: Vec<_> = (1..17).map(apart).collect();
    expected[0] = 0..90_000;
    check(&ask(one_file(&path), "GET", "/", &[("Range", &asked)]), &content, &Expected::Parts(expected), &asked);
}

#[test]
fn a_thousand_ranges_cost_no_more_than_the_file() {
    let dir = Scratch::new();
    let content = bytes(100_000);
    let path = dir.file("large", &content);
    let table = [
        (many(1000, |place| place * 3..place * 3 + 1), Whole),
        (many(1000, |_| 0..100_000), parts([0..100_000])),
        (many(1000, |place| place..place + 50_000), parts([0..50_999])),
        (many(1000, |place| place * 10..place * 10 + 10), parts([0..10_000])),
        (many(1000, |place| 9_990 - place * 10..10_000 - place * 10), parts([0..10_000])),
        (many(1000, |place| place % 2 * 50_000..place % 2 * 50_000 + 5), parts([0..5, 50_000..50_005])),
        (many(1000, |place| 100_000 + place..100_001 + place), Unsatisfiable),
    ];
    for (asked, expected) in table {
        check(&ask(one_file(&path), "GET", "/", &[("Range", &asked)]), &content, &expected, &asked);
    }
}
