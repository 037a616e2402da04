//! A scripted connection in memory, with a clock that moves only while the server waits.
//! Used by every test here that does not need a socket.
#![allow(dead_code)] // Each test file uses its part.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use segue_http::{Config, IntoResponse, Request, Server, Transport};

/// What the client does next.
#[derive(Clone, Debug)]
pub enum Step {
    /// It sends these bytes; a read gets at most one step's.
    Send(Vec<u8>),
    /// It sends nothing for this long.
    Pause(Duration),
    /// It ends its direction.
    End,
    /// The connection breaks.
    Break,
}

pub fn send(bytes: impl AsRef<[u8]>) -> Step {
    Step::Send(bytes.as_ref().to_vec())
}

pub fn pause(seconds: u64) -> Step {
    Step::Pause(Duration::from_secs(seconds))
}

/// What the server did, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It read, into a buffer of this size.
    Read(usize),
    /// One write call, of so much as was accepted.
    Write(Vec<u8>),
    ShutdownWrite,
}

pub struct Log {
    events: RefCell<Vec<Event>>,
    start: Instant,
    now: Cell<Instant>,
}

impl Log {
    pub fn events(&self) -> Vec<Event> {
        self.events.borrow().clone()
    }

    pub fn writes(&self) -> Vec<Vec<u8>> {
        let events = self.events.borrow();
        events
            .iter()
            .filter_map(|event| if let Event::Write(bytes) = event { Some(bytes.clone()) } else { None })
            .collect()
    }

    pub fn output(&self) -> Vec<u8> {
        self.writes().concat()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.output()).into_owned()
    }

    pub fn responses(&self) -> Vec<Reply> {
        replies(&self.output(), &[])
    }

    /// How long the server waited altogether.
    pub fn waited(&self) -> Duration {
        self.now.get() - self.start
    }
}

/// The server's side of a scripted connection.
pub struct Script {
    steps: VecDeque<Step>,
    log: Rc<Log>,
    read_timeout: Cell<Option<Duration>>,
    write_timeout: Cell<Option<Duration>>,
    /// How much one write call takes.
    pub write_size: usize,
    /// How long each write call takes.
    pub write_time: Duration,
    /// How much the client takes before the connection breaks.
    pub write_limit: usize,
}

impl Script {
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Script {
        let start = Instant::now();
        Script {
            steps: steps.into_iter().collect(),
            log: Rc::new(Log { events: RefCell::default(), start, now: Cell::new(start) }),
            read_timeout: Cell::new(None),
            write_timeout: Cell::new(None),
            write_size: usize::MAX,
            write_time: Duration::ZERO,
            write_limit: usize::MAX,
        }
    }

    pub fn log(&self) -> Rc<Log> {
        Rc::clone(&self.log)
    }

    /// Lets time pass; a limit that is over first is a time-out.
    fn pass(&self, time: Duration, limit: Option<Duration>) -> io::Result<()> {
        let (passed, result) = match limit {
            Some(limit) if limit < time => (limit, Err(io::ErrorKind::TimedOut.into())),
            _ => (time, Ok(())),
        };
        self.log.now.set(self.log.now.get() + passed);
        result
    }
}

impl io::Read for Script {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        assert!(!buf.is_empty(), "a read into nothing looks like the end of the stream");
        segue_core::check()?;
        self.log.events.borrow_mut().push(Event::Read(buf.len()));
        loop {
            match self.steps.pop_front() {
                Some(Step::Send(bytes)) if bytes.is_empty() => {}
                Some(Step::Send(mut bytes)) => {
                    let count = bytes.len().min(buf.len());
                    let rest = bytes.split_off(count);
                    buf[..count].copy_from_slice(&bytes);
                    if !rest.is_empty() {
                        self.steps.push_front(Step::Send(rest));
                    }
                    return Ok(count);
                }
                Some(Step::Pause(time)) => {
                    let before = self.log.now.get();
                    if let Err(error) = self.pass(time, self.read_timeout.get()) {
                        self.steps.push_front(Step::Pause(time - (self.log.now.get() - before)));
                        return Err(error);
                    }
                }
                Some(Step::End) => {
                    self.steps.push_front(Step::End);
                    return Ok(0);
                }
                Some(Step::Break) => {
                    self.steps.push_front(Step::Break);
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                None => {
                    let limit = self.read_timeout.get().expect("the server would wait for ever");
                    self.pass(Duration::MAX, Some(limit))?;
                }
            }
        }
    }
}

impl io::Write for Script {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        segue_core::check()?;
        self.pass(self.write_time, self.write_timeout.get())?;
        let count = buf.len().min(self.write_size).min(self.write_limit);
        if count == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.write_limit -= count;
        self.log.events.borrow_mut().push(Event::Write(buf[..count].to_vec()));
        Ok(count)
    }

    fn write_vectored(&mut self, bufs: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.write(&bufs.iter().flat_map(|buf| buf.iter().copied()).collect::<Vec<u8>>())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport for Script {
    fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        assert_ne!(time, Some(Duration::ZERO));
        self.read_timeout.set(time);
        Ok(())
    }

    fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        assert_ne!(time, Some(Duration::ZERO));
        self.write_timeout.set(time);
        Ok(())
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.log.events.borrow_mut().push(Event::ShutdownWrite);
        Ok(())
    }

    fn now(&self) -> Instant {
        self.log.now.get()
    }
}

/// Limits that let outputs be compared.
pub fn plain() -> Config {
    Config::new().send_date(false)
}

/// Has a server serve the steps, and returns what it did.
pub fn serve<R: IntoResponse>(
    config: Config,
    steps: impl IntoIterator<Item = Step>,
    handler: impl Fn(&mut Request<'_>) -> R + Send + Sync,
) -> Rc<Log> {
    let script = Script::new(steps);
    let log = script.log();
    // How it ended is not this helper's concern.
    let _ = Server::new(handler).config(config).serve_connection(script);
    log
}

/// Answers with the method, the target and the body. Fails as the body fails.
pub fn echo(request: &mut Request<'_>) -> io::Result<String> {
    let mut body = Vec::new();
    io::Read::read_to_end(request.body_mut(), &mut body)?;
    Ok(format!("{} {} {}", request.method(), request.uri(), String::from_utf8_lossy(&body)))
}

/// A response as the client reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether its end was there.
    pub complete: bool,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// Takes a connection's output apart. `bodiless` has the places of the responses to HEAD requests.
pub fn replies(mut output: &[u8], bodiless: &[usize]) -> Vec<Reply> {
    let mut found = Vec::new();
    while !output.is_empty() {
        let mut slots = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut slots);
        let size = response.parse(output).unwrap().unwrap();
        let mut reply = Reply {
            status: response.code.unwrap(),
            headers: response
                .headers
                .iter()
                .map(|line| (line.name.to_string(), String::from_utf8(line.value.to_vec()).unwrap()))
                .collect(),
            body: Vec::new(),
            complete: true,
        };
        output = &output[size..];
        let none = bodiless.contains(&found.len()) || matches!(reply.status, 100 | 204 | 304);
        if none {
        } else if let Some(length) = reply.header("content-length") {
            let length: usize = length.parse().unwrap();
            let there = length.min(output.len());
            reply.complete = there == length;
            reply.body = output[..there].to_vec();
            output = &output[there..];
        } else if reply.header("transfer-encoding") == Some("chunked") {
            loop {
                let Ok(httparse::Status::Complete((at, size))) = httparse::parse_chunk_size(output) else {
                    assert!(output.is_empty(), "garbage after a chunk");
                    reply.complete = false;
                    break;
                };
                let size = size as usize;
                reply.body.extend_from_slice(&output[at..at + size]);
                assert_eq!(&output[at + size..at + size + 2], b"\r\n");
                output = &output[at + size + 2..];
                if size == 0 {
                    break;
                }
            }
        } else {
            reply.body = output.to_vec();
            output = &[];
        }
        found.push(reply);
    }
    found
}
