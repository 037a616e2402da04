//! Conditional requests, in a table by the precedence of RFC 9110, 13.2.2.

use crate::{CHANGED_DATE, SECOND_AFTER, SECOND_BEFORE, Scratch, ask, change, one_file};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Headers, and the status that a GET has; a HEAD has the same, and 200 where a GET has 206. `TAG`
/// is replaced by the file's.
const TABLE: &[(&[(&str, &str)], u16)] = &[
    // Step 1: If-Match, by strong comparison.
    (&[("If-Match", "TAG")], 200),
    (&[("If-Match", "*")], 200),
    (&[("If-Match", "\"other\", TAG")], 200),
    (&[("If-Match", "\"other\""), ("If-Match", "TAG")], 200),
    (&[("If-Match", "\"other\"")], 412),
    (&[("If-Match", "W/TAG")], 412),
    (&[("If-Match", "")], 412),
    (&[("If-Match", "TAG\"")], 412),
    (&[("If-Match", "unquoted")], 412),
    // Step 2: If-Unmodified-Since, if there is no If-Match.
    (&[("If-Unmodified-Since", CHANGED_DATE)], 200),
    (&[("If-Unmodified-Since", SECOND_AFTER)], 200),
    (&[("If-Unmodified-Since", SECOND_BEFORE)], 412),
    (&[("If-Unmodified-Since", "yesterday")], 200),
    (&[("If-Unmodified-Since", SECOND_BEFORE), ("If-Unmodified-Since", SECOND_BEFORE)], 200),
    (&[("If-Match", "TAG"), ("If-Unmodified-Since", SECOND_BEFORE)], 200),
    (&[("If-Match", "\"other\""), ("If-Unmodified-Since", SECOND_AFTER)], 412),
    // Step 3: If-None-Match, by weak comparison.
    (&[("If-None-Match", "TAG")], 304),
    (&[("If-None-Match", "W/TAG")], 304),
    (&[("If-None-Match", "*")], 304),
    (&[("If-None-Match", "\"a,b\" , ,\"c\",W/TAG")], 304),
    (&[("If-None-Match", "\"other\""), ("If-None-Match", "TAG")], 304),
    (&[("If-None-Match", "\"other\"")], 200),
    (&[("If-None-Match", "w/TAG")], 200),
    (&[("If-None-Match", "\"x TAG")], 200),
    (&[("If-None-Match", "")], 200),
    (&[("If-Match", "TAG"), ("If-None-Match", "TAG")], 304),
    (&[("If-Match", "\"other\""), ("If-None-Match", "TAG")], 412),
    (&[("If-Unmodified-Since", SECOND_BEFORE), ("If-None-Match", "TAG")], 412),
    // Step 4: If-Modified-Since, if there is no If-None-Match.
    (&[("If-Modified-Since", CHANGED_DATE)], 304),
    (&[("If-Modified-Since", SECOND_AFTER)], 304),
    (&[("If-Modified-Since", SECOND_BEFORE)], 200),
    (&[("If-Modified-Since", "Tuesday, 14-Nov-23 22:13:20 GMT")], 304),
    (&[("If-Modified-Since", "Tue Nov 14 22:13:20 2023")], 304),
    (&[("If-Modified-Since", "1700000000")], 200),
    (&[("If-Modified-Since", SECOND_AFTER), ("If-Modified-Since", SECOND_AFTER)], 200),
    (&[("If-None-Match", "\"other\""), ("If-Modified-Since", SECOND_AFTER)], 200),
    (&[("If-None-Match", "TAG"), ("If-Modified-Since", SECOND_BEFORE)], 304),
    (&[("If-Match", "TAG"), ("If-Modified-Since", SECOND_AFTER)], 304),
    // Step 5: If-Range, for requests of ranges.
    (&[("Range", "bytes=1-2"), ("If-Range", "TAG")], 206),
    // This file's time was set: another content may have it, too.
    (&[("Range", "bytes=1-2"), ("If-Range", CHANGED_DATE)], 200),
    (&[("Range", "bytes=1-2"), ("If-Range", "\"other\"")], 200),
    (&[("Range", "bytes=1-2"), ("If-Range", "W/TAG")], 200),
    (&[("Range", "bytes=1-2"), ("If-Range", "TAG, TAG")], 200),
    (&[("Range", "bytes=1-2"), ("If-Range", SECOND_AFTER)], 200),
    (&[("Range", "bytes=1-2"), ("If-Range", SECOND_BEFORE)], 200),
    (&[("Range", "bytes=1-2"), ("If-Range", "*")], 200),
    (&[("Range", "bytes=1-2"), ("If-Range", "TAG"), ("If-Range", "TAG")], 200),
    (&[("Range", "bytes=99-"), ("If-Range", "\"other\"")], 200),
    (&[("Range", "bytes=99-"), ("If-Range", "TAG")], 416),
    (&[("If-Range", "TAG")], 200),
    // The other conditions come before the range.
    (&[("Range", "bytes=1-2"), ("If-Match", "\"other\"")], 412),
    (&[("Range", "bytes=1-2"), ("If-Match", "TAG")], 206),
    (&[("Range", "bytes=1-2"), ("If-None-Match", "TAG")], 304),
    (&[("Range", "bytes=99-"), ("If-None-Match", "TAG")], 304),
    (&[("Range", "bytes=1-2"), ("If-None-Match", "\"other\"")], 206),
    (&[("Range", "bytes=1-2"), ("If-Modified-Since", CHANGED_DATE)], 304),
    (&[("Range", "bytes=99-"), ("If-Unmodified-Since", SECOND_BEFORE)], 412),
];

/// A file of the repository, as the time of one that a test has just made is not over.
#[test]
fn the_date_of_a_file_whose_time_nobody_has_set_is_strong() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let untouched = std::fs::read_dir(sources).unwrap().map(|entry| entry.unwrap().path()).find(|path| {
        let metadata = path.metadata().unwrap();
        metadata.is_file() && metadata.ctime() <= metadata.mtime()
    });
    let Some(path) = untouched else { return eprintln!("the times of all sources have been set") };
    let date = ask(one_file(&path), "GET", "/", &[]).header("last-modified").unwrap().to_owned();
    let lines = [("Range", "bytes=1-2"), ("If-Range", &*date)];
    assert_eq!(ask(one_file(&path), "GET", "/", &lines).status, 206);
}

/// A program that copies times does not make two contents one.
#[test]
fn a_file_with_the_length_and_time_of_the_last_one_has_another_tag() {
    let dir = Scratch::new();
    let mut tags = BTreeSet::new();
    for content in [b"AAA", b"BBB", b"CCC"] {
        let path = dir.file("file", content);
        tags.insert(ask(one_file(&path), "GET", "/", &[]).header("etag").unwrap().to_owned());
        // The kernel's clock has ticks.
        segue_core::sleep(Duration::from_millis(10)).unwrap();
    }
    assert_eq!(tags.len(), 3, "{tags:?}");
}

#[test]
fn conditions_are_judged_in_their_order() {
    let dir = Scratch::new();
    let path = dir.file("file", b"hello");
    let tag = ask(one_file(&path), "GET", "/", &[]).header("etag").unwrap().to_owned();
    for (lines, expected) in TABLE {
        let lines: Vec<_> = lines.iter().map(|(name, value)| (*name, value.replace("TAG", &tag))).collect();
        let lines: Vec<_> = lines.iter().map(|(name, value)| (*name, &**value)).collect();
        let reply = ask(one_file(&path), "GET", "/", &lines);
        assert_eq!(reply.status, *expected, "{lines:?}");
        let body: &[u8] = match expected {
            200 => b"hello",
            206 => b"el",
            _ => b"",
        };
        assert_eq!(reply.body, body, "{lines:?}");
        assert_eq!(reply.header("etag"), Some(&*tag), "{lines:?}");
        let status = ask(one_file(&path), "HEAD", "/", &lines).status;
        let expected = if matches!(expected, 206 | 416) { 200 } else { *expected };
        assert_eq!(status, expected, "HEAD {lines:?}");
    }
}

#[test]
fn an_answer_that_nothing_has_changed_has_no_length_and_no_type() {
    let dir = Scratch::new();
    let path = dir.file("file", b"hello");
    let reply = ask(one_file(&path), "GET", "/", &[("If-None-Match", "*")]);
    assert_eq!((reply.header("content-length"), reply.header("content-type")), (None, None));
    assert_eq!(reply.header("last-modified"), Some(CHANGED_DATE));
}

#[test]
fn a_date_that_is_not_stated_yet_is_no_validator() {
    let dir = Scratch::new();
    let path = dir.file("file", b"hello");
    // Within the next seconds, so that the second is not over whenever this runs.
    let soon = SystemTime::now() + std::time::Duration::from_secs(30);
    let since = soon.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    change(&path, since);
    let date = httpdate::fmt_http_date(soon);
    for (lines, status) in [
        (&[("If-Modified-Since", &*date)][..], 200),
        (&[("Range", "bytes=1-2"), ("If-Range", &*date)], 200),
        (&[("If-Unmodified-Since", CHANGED_DATE)], 412),
    ] {
        assert_eq!(ask(one_file(&path), "GET", "/", lines).status, status, "{lines:?}");
    }
}
