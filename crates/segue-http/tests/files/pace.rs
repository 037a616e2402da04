//! Clients that take a file slowly, on a clock that moves only while the server waits: by a
//! transport that sends files, and by one that does not.

use crate::common::{Event, Log, Reply, Script, plain, replies, send};
use crate::{Scratch, bytes, one_file};
use segue_http::{Server, Transport};
use segue_io::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A script that sends files by itself, up to a place.
struct Direct {
    script: Script,
    refuses_from: u64,
}

impl Read for Direct {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.script.read(buf)
    }
}

impl Write for Direct {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.script.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport for Direct {
    fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.script.set_read_timeout(time)
    }

    fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.script.set_write_timeout(time)
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.script.shutdown_write()
    }

    fn now(&self) -> Instant {
        self.script.now()
    }

    fn send_file(&mut self, file: &File, offset: u64, count: u64) -> io::Result<u64> {
        if offset >= self.refuses_from {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut bytes = vec![0; count.min(self.script.write_size as u64) as usize];
        let read = file.read_at(&mut bytes, offset)?;
        if read == 0 { Ok(0) } else { Ok(self.script.write(&bytes[..read])? as u64) }
    }
}

/// How a file goes: by the transport up to a place, and then by writes.
const WAYS: [u64; 3] = [0, u64::MAX, 300_000];

/// Has a client that takes `size` bytes each `time` ask for a file once. The limit is 80 s.
fn serve(path: &Path, way: u64, size: usize, time: Duration, lines: &str) -> (Rc<Log>, Reply) {
    let mut script = Script::new([send(format!("GET / HTTP/1.1\r\nHost: h\r\n{lines}Connection: close\r\n\r\n"))]);
    (script.write_size, script.write_time) = (size, time);
    let log = script.log();
    let config = plain().write_timeout(Duration::from_secs(80)).linger_timeout(Duration::ZERO);
    let _ = Server::new(one_file(path)).config(config).serve_connection(Direct { script, refuses_from: way });
    let mut replies = replies(&log.output(), &[]);
    (log, replies.remove(0))
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn a_file_goes_by_the_transport_where_that_can() {
    let dir = Scratch::new();
    let path = dir.file("file", bytes(1 << 20));
    for (way, writes) in [(u64::MAX, 2), (0, 17)] {
        let (log, reply) = serve(&path, way, usize::MAX, Duration::ZERO, "");
        assert!(reply.complete && reply.body == bytes(1 << 20));
        assert_eq!(log.events().iter().filter(|event| matches!(event, Event::Write(_))).count(), writes);
    }
}

#[test]
fn a_client_that_takes_a_byte_a_second_is_given_up() {
    let dir = Scratch::new();
    let path = dir.file("file", bytes(1 << 20));
    for way in WAYS {
        let (log, reply) = serve(&path, way, 1000, seconds(1), "");
        // The first second takes the head, and then the time of the pace begins.
        assert!(!reply.complete && (79..=82).contains(&log.waited().as_secs()), "{way}: {:?}", log.waited());
        assert!(reply.body.len() <= 81_000 && reply.body == bytes(1 << 20)[..reply.body.len()]);
    }
}

#[test]
fn a_client_that_takes_256_kib_just_in_time_is_served() {
    let dir = Scratch::new();
    let path = dir.file("file", bytes(3 << 20));
    for way in WAYS {
        // Four of these are 256 KiB, and take 76 s.
        let (log, reply) = serve(&path, way, 64 << 10, seconds(19), "");
        assert!(reply.complete && reply.body == bytes(3 << 20), "{way}");
        assert_eq!(log.waited(), seconds(19 * (1 + 48)));
    }
    let (_, reply) = serve(&path, u64::MAX, 256 << 10, seconds(79), "");
    assert!(reply.complete && reply.body == bytes(3 << 20));
}

#[test]
fn a_client_that_takes_256_kib_just_too_late_is_given_up() {
    let dir = Scratch::new();
    let path = dir.file("file", bytes(3 << 20));
    for way in WAYS {
        // Four of these take 84 s.
        let (log, reply) = serve(&path, way, 64 << 10, seconds(21), "");
        assert!(!reply.complete, "{way}");
        assert!(log.waited() <= seconds(21 + 80 + 21), "{way}: {:?}", log.waited());
    }
}

#[test]
fn parts_have_one_pace_together() {
    let dir = Scratch::new();
    let path = dir.file("file", bytes(3 << 20));
    let lines = "Range: bytes=0-99999,200000-299999,400000-499999,600000-699999\r\n";
    for way in WAYS {
        let (_, reply) = serve(&path, way, 40_000, seconds(6), lines);
        assert!(reply.complete && reply.status == 206, "{way}");
        // Each part alone would be in time.
        let (_, reply) = serve(&path, way, 40_000, seconds(20), lines);
        assert!(!reply.complete, "{way}");
    }
}

#[test]
fn a_file_that_ends_early_ends_the_connection_by_each_way() {
    let dir = Scratch::new();
    let path = dir.file("file", bytes(1 << 20));
    for way in WAYS {
        let script = Script::new([send("GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(2))]);
        let log = script.log();
        let handler = |request: &mut segue_http::Request<'_>| -> io::Result<_> {
            let response = segue_http::FileResponse::new(File::open(&path)?)?.respond(request);
            std::fs::File::options().write(true).open(&path)?.set_len(500_000)?;
            Ok(response)
        };
        let ended = Server::new(handler).config(plain()).serve_connection(Direct { script, refuses_from: way });
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let replies = replies(&log.output(), &[]);
        assert!(replies.len() == 1 && !replies[0].complete && replies[0].body == bytes(1 << 20)[..500_000], "{way}");
        dir.file("file", bytes(1 << 20));
    }
}
