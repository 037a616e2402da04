//! `ureq`, unmodified, in fibers: a connector over Segue's sockets in place of std's. A hundred
//! fibers of one worker share an agent with its pool; a redirect, an upload from a reader, a time
//! limit of ureq's own and one of `segue::timeout`.
//!
//! The same works for any name: `segue::net::lookup` lets other fibers run meanwhile.

use segue::net::{TcpListener, TcpStream, lookup};
use segue::{Cancelled, sleep, timeout, try_scope};
use segue_http::{IntoResponse, Request, Response, Server};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport};
use ureq::{Agent, Error};

/// Connects by Segue's sockets.
#[derive(Debug)]
struct FiberConnector;

/// Looks names up while other fibers run.
#[derive(Debug)]
struct FiberResolver;

/// A connection of ureq's.
struct FiberTransport {
    stream: TcpStream,
    buffers: LazyBuffers,
}

impl fmt::Debug for FiberTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FiberTransport({:?})", self.stream.peer_addr())
    }
}

/// The rest of ureq's time limit, if there is one.
fn rest(limit: NextTimeout) -> Option<Duration> {
    limit.not_zero().map(|time| *time)
}

/// A time-out, as ureq says this; and all other errors, a cancellation with them.
fn failed(error: io::Error, limit: NextTimeout) -> Error {
    match error.kind() {
        // That of `segue::timeout` is a cancellation.
        _ if Cancelled::caused(&error) => Error::Io(error),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Error::Timeout(limit.reason),
        _ => Error::Io(error),
    }
}

impl Connector for FiberConnector {
    type Out = FiberTransport;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<FiberTransport>, Error> {
        if details.needs_tls() {
            // A chain with ureq's connector of TLS, which takes any transport below, goes here.
            return Err(Error::TlsRequired);
        }
        let open = || TcpStream::connect(&details.addrs[..]);
        let stream = match rest(details.timeout) {
            Some(time) => timeout(time, open),
            None => open(),
        };
        let stream = stream.map_err(|error| failed(error, details.timeout))?;
        stream.set_nodelay(details.config.no_delay())?;
        let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(FiberTransport { stream, buffers }))
    }
}

impl Transport for FiberTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, limit: NextTimeout) -> Result<(), Error> {
        self.stream.set_write_timeout(rest(limit))?;
        self.stream.write_all(&self.buffers.output()[..amount]).map_err(|error| failed(error, limit))
    }

    fn await_input(&mut self, limit: NextTimeout) -> Result<bool, Error> {
        self.stream.set_read_timeout(rest(limit))?;
        let count = self.stream.read(self.buffers.input_append_buf()).map_err(|error| failed(error, limit))?;
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    /// Whether an idle connection is still there: one that has ended can be read at once.
    /// Under the lock of ureq's pool, so this must not wait.
    fn is_open(&mut self) -> bool {
        self.stream.try_read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }
}

impl Resolver for FiberResolver {
    fn resolve(&self, uri: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let host = uri.host().ok_or(Error::HostNotFound)?;
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let mut addresses = self.empty();
        // As many as ureq has room for.
        lookup((host, port))?.into_iter().take(16).for_each(|address| addresses.push(address));
        if addresses.is_empty() { Err(Error::HostNotFound) } else { Ok(addresses) }
    }
}

/// The server's answers; each takes as long as its path says.
fn answer(request: &mut Request<'_>) -> io::Result<Response> {
    match request.uri().path() {
        "/old" => Ok(http_response(301).header("location", "/new").body("").map_err(io::Error::other)?.into_response()),
        "/upload" => {
            let size = io::copy(request.body_mut(), &mut io::sink())?;
            Ok(format!("{size} bytes").into_response())
        }
        "/slow" => {
            sleep(Duration::from_secs(60))?;
            Ok("at last".into_response())
        }
        path => {
            let said = format!("this is {path}");
            sleep(Duration::from_millis(50))?;
            Ok(said.into_response())
        }
    }
}

fn http_response(status: u16) -> segue_http::http::response::Builder {
    segue_http::http::Response::builder().status(status)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    segue::runtime().workers(1).run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let base = format!("http://{}", listener.local_addr()?);
        let server = Server::new(answer);
        segue::scope(|s| {
            let serving = s.spawn(|| server.serve(listener));
            let result = ask(&base);
            // The slow answers need not be waited for.
            server.shutdown_handle().shutdown_within(Duration::ZERO);
            serving.join().expect("the server does not panic")?;
            result
        })
    })?
}

fn ask(base: &str) -> Result<(), Box<dyn std::error::Error>> {
    let agent = Agent::with_parts(Config::default(), FiberConnector, FiberResolver);

    let text = agent.get(format!("{base}/old")).call()?.body_mut().read_to_string()?;
    assert_eq!(text, "this is /new");

    // Of unknown length, so in chunks.
    let mut body = io::repeat(b'.').take(1_000_000);
    let text = agent.post(format!("{base}/upload")).send(ureq::SendBody::from_reader(&mut body))?;
    assert_eq!(text.into_body().read_to_string()?, "1000000 bytes");

    // One worker: were its thread blocked by a client, this would take five seconds.
    let begun = Instant::now();
    try_scope(|s| {
        for number in 0..100 {
            let agent = &agent;
            s.spawn_try(move || -> Result<(), Error> {
                let text = agent.get(format!("{base}/{number}")).call()?.body_mut().read_to_string()?;
                assert_eq!(text, format!("this is /{number}"));
                Ok(())
            });
        }
        Ok::<(), Error>(())
    })?;
    println!("a hundred fibers have asked, in {:?}", begun.elapsed());

    let limited = agent.get(format!("{base}/slow")).config().timeout_recv_response(Some(Duration::from_millis(50)));
    assert!(matches!(limited.build().call(), Err(Error::Timeout(_))));
    let cut = timeout(Duration::from_millis(50), || agent.get(format!("{base}/slow")).call().map(drop));
    assert!(cut.is_err_and(|error| matches!(error, Error::Io(error) if Cancelled::caused(&error))));
    println!("two slow answers were not waited for");
    Ok(())
}
