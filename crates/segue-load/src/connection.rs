//! One connection: takes requests that are due, sends them, reads and checks their replies, and
//! connects anew after an end. A fiber runs this; those of one thread share a [`Thread`].

use std::cell::{Cell, OnceCell, RefCell};
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use segue::Cancelled;
use segue_http::client::Connection;

use crate::expected::{self, Expected, Reply};
use crate::link::{Address, Link};
use crate::opening::Opening;
use crate::options::Options;
use crate::schedule::Schedule;
use crate::tally::{Kind, Tally};
use crate::web_socket;

/// The pause after a connection that could not be made.
const PAUSE: Duration = Duration::from_millis(50);
/// The least room for replies.
const ROOM: usize = 16 << 10;
/// So many replies with other bytes than the first one's, and the hot path is left for good.
const MANY: u32 = 64;

/// The counts that are seen while a thread runs.
#[derive(Default)]
pub struct Seen {
    pub replies: AtomicU64,
    pub errors: AtomicU64,
}

/// The part of one thread, and of its connections.
pub struct Thread<'a> {
    pub options: &'a Options,
    pub address: &'a Address,
    pub expected: &'a Expected,
    pub opening: &'a Opening,
    /// Known at the start.
    pub schedule: OnceCell<Schedule>,
    pub number: usize,
    pub tally: RefCell<Tally>,
    pub seen: &'a Seen,
    /// Replies that were right and had other bytes.
    pub others: Cell<u32>,
}

impl Thread<'_> {
    fn right(&self, latency: Duration) {
        self.tally.borrow_mut().right(latency);
        self.seen.replies.fetch_add(1, Ordering::Relaxed);
    }

    fn wrong(&self, kind: Kind, count: usize) {
        self.tally.borrow_mut().wrong(kind, count as u64);
        self.seen.errors.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// The bytes of a reply, if replies are alike.
    fn reply(&self) -> Option<&Reply> {
        self.expected.reply.as_ref().filter(|_| self.others.get() < MANY)
    }

    /// Opens a connection, and asks from the start until the schedule ends, or a cancellation.
    pub(crate) fn ask(&self) {
        let first = self.link().ok();
        let Some(start) = self.opening.told() else { return };
        let Options { duration, rate, threads, .. } = *self.options;
        let schedule = self.schedule.get_or_init(|| Schedule::new(start, duration, rate, self.number, threads));
        let mut turn = Turn { thread: self, schedule, first, dues: Vec::new(), answered: 0, buffer: vec![0; ROOM] };
        while let Ok(true) = turn.connection() {}
    }

    /// A connection over which requests can be sent.
    fn link(&self) -> io::Result<Link> {
        let mut link = Link::connect(self.address, self.options.timeout)?;
        if self.expected.is_web_socket {
            web_socket::open(&mut link, self.options)?;
        }
        Ok(link)
    }
}

/// The requests that are on their way, and the room for replies.
struct Turn<'a> {
    thread: &'a Thread<'a>,
    schedule: &'a Schedule,
    /// The connection that was opened before the start.
    first: Option<Link>,
    /// When each was due.
    dues: Vec<Instant>,
    /// How many of them have their reply.
    answered: usize,
    buffer: Vec<u8>,
}

impl Turn<'_> {
    /// Asks over one connection, to its end. Answers whether another one may follow.
    fn connection(&mut self) -> Result<bool, Cancelled> {
        let thread = self.thread;
        let link = match self.first.take().map_or_else(|| thread.link(), Ok) {
            Ok(link) => link,
            Err(_) => {
                segue::check()?;
                // The request that this connection could have taken.
                if self.schedule.take_due(Instant::now()).is_some() {
                    thread.wrong(Kind::Connect, 1);
                }
                segue::sleep(PAUSE)?;
                return Ok(Instant::now() < self.schedule.end());
            }
        };
        let result = match thread.reply() {
            Some(reply) => self.alike(link, reply),
            None => self.parsed(self.client(link)),
        };
        let unanswered = self.dues.len() - self.answered;
        match result {
            Ok(more) => Ok(more),
            Err(error) if Cancelled::caused(&error) => {
                thread.wrong(Kind::Unanswered, unanswered);
                segue::check()?;
                Ok(false)
            }
            Err(error) => {
                thread.wrong(Kind::of(&error), unanswered);
                Ok(true)
            }
        }
    }

    fn client(&self, link: Link) -> Connection<Link> {
        Connection::with_config(link, expected::limits(self.thread.options.timeout))
    }

    /// Takes the next requests, and waits until the first one is due. Answers `false` at the end.
    fn take(&mut self) -> io::Result<bool> {
        self.dues.clear();
        self.answered = 0;
        let schedule = self.schedule;
        let mut now = Instant::now();
        let Some(due) = schedule.take(now) else { return Ok(false) };
        if due > now {
            segue::at(Some(due)).wait()?;
            now = Instant::now();
        }
        self.dues.push(due);
        while self.dues.len() < self.thread.options.pipeline {
            let Some(due) = schedule.take_due(now) else { break };
            self.dues.push(due);
        }
        Ok(true)
    }

    /// Counts the next reply, which is right.
    #[inline]
    fn right(&mut self, now: Instant) {
        let due = self.dues[self.answered];
        self.thread.right(now.saturating_duration_since(due));
        self.answered += 1;
    }

    /// The hot path: replies are compared with the first one. At the first other one, goes on in
    /// [`parsed`](Self::parsed).
    fn alike(&mut self, mut link: Link, reply: &Reply) -> io::Result<bool> {
        let size = self.thread.expected.request.len();
        let requests = self.thread.expected.request.repeat(self.thread.options.pipeline);
        self.buffer.resize(ROOM.max(reply.length() * self.thread.options.pipeline), 0);
        while self.take()? {
            link.write_all(&requests[..size * self.dues.len()])?;
            // The input from `start` on belongs to the next reply, whose first `checked` bytes have
            // been compared.
            let (mut start, mut end, mut checked) = (0, 0, 0);
            while self.answered < self.dues.len() {
                let count = link.read(&mut self.buffer[end..])?;
                if count == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                end += count;
                let now = Instant::now();
                while start < end && self.answered < self.dues.len() {
                    if !reply.begins(&self.buffer[start..end], checked) {
                        if self.thread.expected.is_web_socket {
                            // What follows a frame that is no echo is unknown.
                            self.thread.wrong(Kind::Body, 1);
                            self.answered += 1;
                            return Err(io::ErrorKind::InvalidData.into());
                        }
                        let left = self.dues.len() - self.answered;
                        link.resume(&self.buffer[start..end], size * left);
                        let mut client = self.client(link);
                        for _ in 0..left {
                            client.send(expected::request(self.thread.options))?;
                        }
                        return match self.replies(&mut client)? {
                            true => self.parsed(client),
                            false => Ok(true),
                        };
                    }
                    if end - start < reply.length() {
                        checked = end - start;
                        break;
                    }
                    start += reply.length();
                    checked = 0;
                    self.right(now);
                }
                if self.answered == self.dues.len() && start < end {
                    // Bytes that no request has asked for.
                    self.thread.wrong(Kind::Malformed, 1);
                    return Ok(true);
                }
                if start == end {
                    (start, end) = (0, 0);
                }
            }
        }
        Ok(false)
    }

    /// Replies of any kind are parsed.
    fn parsed(&mut self, mut client: Connection<Link>) -> io::Result<bool> {
        while self.take()? {
            for _ in 0..self.dues.len() {
                client.send(expected::request(self.thread.options))?;
            }
            if !self.replies(&mut client)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the replies that are awaited. Answers whether the connection may be used again.
    fn replies(&mut self, client: &mut Connection<Link>) -> io::Result<bool> {
        while self.answered < self.dues.len() {
            let wrong = client.receive().and_then(|response| self.thread.expected.check(response, &mut self.buffer))?;
            match wrong {
                None => {
                    self.thread.others.set(self.thread.others.get().saturating_add(1));
                    self.right(Instant::now());
                }
                Some(kind) => {
                    self.thread.wrong(kind, 1);
                    self.answered += 1;
                }
            }
        }
        Ok(client.is_reusable())
    }
}
