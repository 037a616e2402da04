//! Responses that are files: ranges, conditions, directories, bad days of files, slow clients; over
//! scripts and over sockets, on plain threads and on each driver.

#[path = "../common/mod.rs"]
mod common;

mod bad_days;
mod conditions;
mod directory;
mod pace;
mod ranges;
mod sockets;

use common::{Reply, plain, replies, send};
use segue_http::{FileResponse, Request, Response};
use segue_io::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A directory of its own, which goes when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("segue-http-files-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file that was changed at a time in the past.
    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        change(&path, Duration::new(CHANGED, 123_456_789));
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The second in which files here were changed, and how that is written.
const CHANGED: u64 = 1_700_000_000;
const CHANGED_DATE: &str = "Tue, 14 Nov 2023 22:13:20 GMT";
const SECOND_BEFORE: &str = "Tue, 14 Nov 2023 22:13:19 GMT";
const SECOND_AFTER: &str = "Tue, 14 Nov 2023 22:13:21 GMT";

/// Has a file say that it was changed so long after 1970.
fn change(path: &Path, time: Duration) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(UNIX_EPOCH + time).unwrap();
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|byte| (byte % 251) as u8).collect()
}

/// The handler of one file.
fn one_file(path: &Path) -> impl Fn(&mut Request<'_>) -> io::Result<Response> + Send + Sync {
    let path = path.to_owned();
    move |request| Ok(FileResponse::new(File::open(&path)?)?.respond(request))
}

/// The answer of a handler to one request, with these lines.
fn ask<R: segue_http::IntoResponse>(
    handler: impl Fn(&mut Request<'_>) -> R + Send + Sync,
    method: &str,
    target: &str,
    lines: &[(&str, &str)],
) -> Reply {
    let lines: String = lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
    let log = common::serve(plain(), [send(request), common::Step::End], handler);
    let bodiless: &[usize] = if method == "HEAD" { &[0] } else { &[] };
    let mut replies = replies(&log.output(), bodiless);
    assert_eq!(replies.len(), 1, "{}", log.text());
    replies.remove(0)
}

#[test]
fn a_file_is_sent_with_its_length_its_tag_and_its_date() {
    let dir = Scratch::new();
    let path = dir.file("file", b"hello");
    let reply = ask(one_file(&path), "GET", "/", &[]);
    assert_eq!((reply.status, reply.text()), (200, "hello"));
    let expected = [
        ("content-length", "5"),
        ("content-type", "application/octet-stream"),
        ("accept-ranges", "bytes"),
        ("last-modified", CHANGED_DATE),
    ];
    for (name, value) in expected {
        assert_eq!(reply.header(name), Some(value), "{name}");
    }
    assert!(reply.header("etag").unwrap().starts_with('"'));
}

#[test]
fn head_has_the_headers_of_get_and_no_body() {
    let dir = Scratch::new();
    for length in [0, 5, 100_000] {
        let path = dir.file("file", bytes(length));
        let mut get = ask(one_file(&path), "GET", "/", &[]);
        let head = ask(one_file(&path), "HEAD", "/", &[("Range", "bytes=0-1")]);
        assert_eq!(get.body, bytes(length));
        get.body.clear();
        assert_eq!(head, get);
    }
}

#[test]
fn a_tag_differs_by_length_time_and_file_and_is_else_the_same() {
    let dir = Scratch::new();
    let tag = |path: &Path| ask(one_file(path), "HEAD", "/", &[]).header("etag").unwrap().to_owned();
    let path = dir.file("file", b"hello");
    let first = tag(&path);
    assert_eq!(tag(&path), first);
    let replaced = dir.file("other", b"hello");
    assert_ne!(tag(&replaced), first);
    std::fs::rename(&replaced, &path).unwrap();
    let second = tag(&path);
    assert_ne!(second, first);
    change(&path, Duration::new(CHANGED, 123_456_790));
    assert_ne!(tag(&path), second);
    let third = tag(&dir.file("file", b"hello, you"));
    assert_ne!(third, second);
}

#[test]
fn a_date_is_stated_when_its_second_is_over() {
    let dir = Scratch::new();
    let path = dir.file("file", b"hello");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    for (time, stated) in [
        (Duration::ZERO, Some("Thu, 01 Jan 1970 00:00:00 GMT")),
        (now + Duration::from_secs(3600), None),
        (Duration::from_secs(u64::from(u32::MAX) * 2), None),
        (now + Duration::from_secs(1), None),
    ] {
        change(&path, time);
        assert_eq!(ask(one_file(&path), "GET", "/", &[]).header("last-modified"), stated, "{time:?}");
    }
}
