//! What the servers of `http_loop` and `echo` do with what they have read. All of them use these
//! functions and these sizes, so that they differ in how they wait for the kernel and in nothing
//! else; `hyper`, `segue-http` and Go's `net/http` have their own.

use std::sync::LazyLock;

/// How much a connection reads at a time, and the longest head.
pub const INPUT: usize = 4096;

/// The body of each answer.
pub const TEXT: &[u8] = &[b'.'; 2053];

/// What the client of `http_loop` sends.
pub const REQUEST: &[u8] = b"GET /text HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\n\r\n";

/// What the client of `echo` sends.
pub const MESSAGE: &[u8] = &[b'm'; 64];

/// No request is shorter, so this many at most are in one piece.
const SHORTEST: usize = "G / HTTP/1.1\r\n\r\n".len();

/// The bytes that hyper answers with, whose date stands still; as often as one piece may ask for
/// them.
static ANSWERS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: {}\r\n\
         date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n",
        TEXT.len()
    );
    [head.as_bytes(), TEXT].concat().repeat(INPUT / SHORTEST)
});

/// What a server does for its clients.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Sends back what it gets.
    Echo,
    /// Answers each GET with [`TEXT`].
    Http,
}

impl Service {
    /// What its client sends for one operation.
    pub fn message(self) -> &'static [u8] {
        match self {
            Service::Echo => MESSAGE,
            Service::Http => REQUEST,
        }
    }

    /// What the client gets for it. Of an answer that another library makes the length is the same.
    pub fn answer(self) -> &'static [u8] {
        match self {
            Service::Echo => MESSAGE,
            Service::Http => answers(1),
        }
    }
}

/// So many answers in a row.
pub fn answers(count: usize) -> &'static [u8] {
    let all: &'static [u8] = &ANSWERS;
    &all[..count * (all.len() / (INPUT / SHORTEST))]
}

/// The length and the number of the whole requests at the beginning of `input`. None if it is no
/// HTTP, or a head that no buffer holds.
pub fn requests(input: &[u8]) -> Option<(usize, usize)> {
    let (mut used, mut count) = (0, 0);
    while used < input.len() {
        let mut headers = [httparse::EMPTY_HEADER; 16];
        match httparse::Request::new(&mut headers).parse(&input[used..]).ok()? {
            httparse::Status::Complete(length) => used += length,
            httparse::Status::Partial => break,
        }
        count += 1;
    }
    (count > 0 || input.len() < INPUT).then_some((used, count))
}

/// A connection's buffer, for whoever lends it to the kernel or to a read.
pub struct Session {
    service: Service,
    input: Box<[u8; INPUT]>,
    filled: usize,
}

impl Session {
    /// One that has read nothing.
    pub fn new(service: Service) -> Self {
        Self { service, input: Box::new([0; INPUT]), filled: 0 }
    }

    /// Where to read to.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.input[self.filled..]
    }

    /// What to answer when so many bytes have been read: nothing, if they are less than a request.
    /// None ends the connection.
    pub fn answer(&mut self, count: usize) -> Option<&[u8]> {
        match self.service {
            _ if count == 0 => None,
            Service::Echo => Some(&self.input[..count]),
            Service::Http => {
                let end = self.filled + count;
                let (used, count) = requests(&self.input[..end])?;
                self.input.copy_within(used..end, 0);
                self.filled = end - used;
                Some(answers(count))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(session: &mut Session, bytes: &[u8]) -> Option<usize> {
        session.room()[..bytes.len()].copy_from_slice(bytes);
        session.answer(bytes.len()).map(<[u8]>::len)
    }

    #[test]
    fn requests_are_answered_however_they_are_cut() {
        let (one, half) = (Service::Http.answer().len(), REQUEST.len() / 2);
        let mut session = Session::new(Service::Http);
        assert_eq!(feed(&mut session, &REQUEST[..half]), Some(0));
        let two_and_a_half = [&REQUEST[half..], REQUEST, &REQUEST[..half]].concat();
        assert_eq!(feed(&mut session, &two_and_a_half), Some(2 * one));
        assert_eq!(feed(&mut session, &REQUEST[half..]), Some(one));
        assert_eq!(session.room().len(), INPUT);
        assert_eq!(session.answer(0), None);
    }

    #[test]
    fn what_is_no_request_ends_the_connection() {
        assert_eq!(feed(&mut Session::new(Service::Http), b"\x16\x03\x01\x02\x00"), None);
        assert_eq!(feed(&mut Session::new(Service::Http), &[b'a'; INPUT]), None);
    }

    #[test]
    fn a_buffer_full_of_the_shortest_requests_is_answered() {
        let shortest = b"G / HTTP/1.1\r\n\r\n".repeat(INPUT / SHORTEST);
        let answered = feed(&mut Session::new(Service::Http), &shortest);
        assert_eq!(answered, Some(INPUT / SHORTEST * Service::Http.answer().len()));
    }

    #[test]
    fn an_echo_is_what_was_read() {
        let mut session = Session::new(Service::Echo);
        session.room()[..2].copy_from_slice(b"ab");
        assert_eq!(session.answer(2), Some(&b"ab"[..]));
        assert_eq!(session.room().len(), INPUT);
    }
}
