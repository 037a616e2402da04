//! Server-sent events: a response that goes on, one event after the other. Used by handlers.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

use http::header::{self, HeaderValue};
use segue_core::{Either, Source, Waitable, finishing_source};

use crate::message::encode::BodyWriter;
use crate::message::idle;
use crate::message::response::{Payload, Request, Response};

/// How long the stream is silent before a comment shows that both ends are there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A response that streams server-sent events, as a browser's `EventSource` reads them: those that
/// `stream` sends. The head is sent at once.
///
/// The response ends when `stream` returns. After an error of `stream` the client finds the body
/// cut short, and asks again.
///
/// ```
/// use segue_core::after;
/// use segue_http::{Event, Server, event_stream};
/// use std::time::Duration;
///
/// let server = Server::new(|_| {
///     event_stream(|events| {
///         let mut count = 0;
///         // Each second, until the server is shut down or the client has gone.
///         while let Some(()) = events.wait_for(after(Duration::from_secs(1)))? {
///             count += 1;
///             events.send(&Event::new(format!("tick {count}")))?;
///         }
///         Ok(())
///     })
/// });
/// # let _ = server;
/// ```
pub fn event_stream(stream: impl FnOnce(&mut Events<'_>) -> io::Result<()> + 'static) -> Response {
    let payload = Payload::writer(move |out| {
        out.flush()?;
        let mut events = Events { out: out.again(), keep_alive: KEEP_ALIVE, text: String::new(), taken: 0 };
        stream(&mut events)?;
        events.go_on()
    });
    let mut response = http::Response::new(payload);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// The stream of events that goes to one client. See [`event_stream`].
///
/// ```
/// use segue_http::{Event, Events};
///
/// fn greet(events: &mut Events<'_>) -> std::io::Result<()> {
///     events.send(&Event::new("hello"))
/// }
/// # let _ = segue_http::event_stream(greet);
/// ```
pub struct Events<'c> {
    out: BodyWriter<'c>,
    keep_alive: Duration,
    /// The event that is written, and how many of its bytes are taken: after a send that was
    /// cancelled the rest goes before the next event.
    text: String,
    taken: usize,
}

impl Events<'_> {
    /// Sends an event.
    ///
    /// A client that has left is noticed here, or by a comment of [`wait_for`](Self::wait_for); not
    /// before the network has told.
    ///
    /// # Cancellation
    /// *May already have happened*: the rest of the event is sent before the next one, or at the
    /// end of the stream.
    ///
    /// # Errors
    /// The transport's, a time-out included. The connection ends.
    ///
    /// ```
    /// use segue_http::{Event, event_stream};
    /// let response = event_stream(|events| events.send(&Event::new("hello")));
    /// # let _ = response;
    /// ```
    pub fn send(&mut self, event: &Event) -> io::Result<()> {
        self.go_on()?;
        self.text.clear();
        self.taken = 0;
        event.append(&mut self.text);
        self.go_on()
    }

    /// Sends the rest of the text.
    fn go_on(&mut self) -> io::Result<()> {
        while self.taken < self.text.len() {
            self.taken += self.out.write(&self.text.as_bytes()[self.taken..])?;
        }
        self.out.flush()
    }

    /// Waits for `source`: the next thing to tell, from a channel or a timer. `None` says that the
    /// server is shutting down, and the stream is to end.
    ///
    /// Meanwhile a comment goes to the client each [`keep_alive`](Self::keep_alive), and the
    /// connection has no buffers.
    ///
    /// # Cancellation
    /// That of `source`: a wait that ends otherwise has taken nothing.
    ///
    /// # Errors
    /// The transport's for a comment, or the cancellation.
    ///
    /// ```
    /// use segue_core::after;
    /// use segue_http::event_stream;
    /// use std::time::Duration;
    ///
    /// let response = event_stream(|events| {
    ///     while let Some(()) = events.wait_for(after(Duration::from_secs(1)))? {}
    ///     Ok(())
    /// });
    /// # let _ = response;
    /// ```
    pub fn wait_for<S: Source>(&mut self, source: S) -> io::Result<Option<S::Output>> {
        let mut wait = finishing_source().or_else(Waitable::new(source));
        self.go_on()?;
        self.text = String::new();
        self.taken = 0;
        loop {
            self.out.rest()?;
            match idle::wait_for(&mut wait, self.keep_alive)? {
                Some(Either::Left(())) => return Ok(None),
                Some(Either::Right(output)) => return Ok(Some(output)),
                None => {
                    // Also a part of a comment is gone on with.
                    (self.text, self.taken) = (":\n\n".to_owned(), 0);
                    self.go_on()?;
                    (self.text, self.taken) = (String::new(), 0);
                }
            }
        }
    }

    /// Sets the silence after which [`wait_for`](Self::wait_for) sends a comment, so that proxies
    /// keep the connection and a client that has gone is noticed: 15 seconds at first. Values below
    /// a millisecond count as one.
    ///
    /// ```
    /// use std::time::Duration;
    /// let response = segue_http::event_stream(|events| {
    ///     events.keep_alive(Duration::from_secs(60));
    ///     Ok(())
    /// });
    /// # let _ = response;
    /// ```
    pub fn keep_alive(&mut self, time: Duration) {
        self.keep_alive = time.max(Duration::from_millis(1));
    }

    /// The [id](Event::id) of the last event that the client has got over an earlier connection:
    /// the stream goes on behind that one. `None` if there is none, or that is no UTF-8.
    ///
    /// ```
    /// use segue_http::{Event, Events, Request, event_stream};
    ///
    /// let handler = |request: &mut Request<'_>| {
    ///     let last: u64 = Events::last_id(request).and_then(|id| id.parse().ok()).unwrap_or(0);
    ///     event_stream(move |events| events.send(&Event::new("more").id(last + 1)))
    /// };
    /// # let _ = segue_http::Server::new(handler);
    /// ```
    #[must_use]
    pub fn last_id<'r>(request: &'r Request<'_>) -> Option<&'r str> {
        std::str::from_utf8(request.headers().get("last-event-id")?.as_bytes()).ok()
    }
}

segue_core::impl_debug!([] Events<'_>, |it| keep_alive: it.keep_alive);

/// One event: data, and around it a name, an id, a time to wait before the client connects again.
///
/// ```
/// use segue_http::Event;
/// let event = Event::new("two\nlines").name("news").id(7);
/// assert_eq!(event.to_string(), "event: news\nid: 7\ndata: two\ndata: lines\n\n");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Event {
    name: Option<String>,
    id: Option<String>,
    retry: Option<Duration>,
    data: String,
}

impl Event {
    /// An event with this data, which may have several lines.
    ///
    /// ```
    /// assert_eq!(segue_http::Event::new("hello").to_string(), "data: hello\n\n");
    /// ```
    pub fn new(data: impl Into<String>) -> Event {
        Event { data: data.into(), ..Event::default() }
    }

    /// Names the kind of event, `message` without a name. A name ends before its first line break.
    ///
    /// ```
    /// assert_eq!(segue_http::Event::new("x").name("a\nb").to_string(), "event: a\ndata: x\n\n");
    /// ```
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Event {
        Event { name: Some(first_line(name.into())), ..self }
    }

    /// The id that a client that connects again says it has got: see [`Events::last_id`]. An id
    /// ends before its first line break or NUL.
    ///
    /// ```
    /// assert_eq!(segue_http::Event::new("x").id(7).to_string(), "id: 7\ndata: x\n\n");
    /// ```
    #[must_use]
    pub fn id(self, id: impl ToString) -> Event {
        Event { id: Some(first_line(id.to_string())), ..self }
    }

    /// How long the client waits before connecting again, from now on.
    ///
    /// ```
    /// use std::time::Duration;
    /// let event = segue_http::Event::new("x").retry(Duration::from_secs(5));
    /// assert_eq!(event.to_string(), "retry: 5000\ndata: x\n\n");
    /// ```
    #[must_use]
    pub fn retry(self, time: Duration) -> Event {
        Event { retry: Some(time), ..self }
    }

    fn append(&self, out: &mut String) {
        for (field, value) in [("event", &self.name), ("id", &self.id)] {
            if let Some(value) = value {
                out.extend([field, ": ", value, "\n"]);
            }
        }
        if let Some(retry) = self.retry {
            // A string takes everything.
            let _ = writeln!(out, "retry: {}", retry.as_millis());
        }
        let mut rest = Some(&*self.data);
        while let Some(text) = rest {
            let (line, behind) = match text.find(['\r', '\n']) {
                Some(at) => {
                    let length = if text[at..].starts_with("\r\n") { 2 } else { 1 };
                    (&text[..at], Some(&text[at + length..]))
                }
                None => (text, None),
            };
            out.extend(["data: ", line, "\n"]);
            rest = behind;
        }
        out.push('\n');
    }
}

/// The lines that are sent.
impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        self.append(&mut text);
        f.write_str(&text)
    }
}

fn first_line(mut text: String) -> String {
    text.truncate(text.find(['\r', '\n', '\0']).unwrap_or(text.len()));
    text
}
