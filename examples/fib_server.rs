//! The Fibonacci server: an I/O scheduler serves HTTP, a work-stealing pool computes each request's
//! number in parallel, and the two meet at a promise that knows neither. (After the flagship
//! example of the thesis "Effectively Composing Concurrency Libraries", chapter 2.)
//!
//! Run it with `cargo run --release --bin fib_server`, and see `--help`.

use segue::signal::{Signal, Signals};
use segue::sync::promise;
use segue::{Pool, net::TcpListener};
use segue_http::http::{Method, StatusCode, header};
use segue_http::{IntoResponse, Request, Response, Server};
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::mpsc;

const HELP: &str = "\
Serves Fibonacci numbers.

Usage: fib_server [OPTIONS]

      --addr ADDRESS        where to listen [127.0.0.1:8080]
      --io-workers N        threads that serve connections [1]
      --pool-workers N      threads that compute [one for each processor]
      --compose KIND        how a request waits for its number: `promise` suspends its fiber only,
                            `blocking` blocks the I/O worker and all its connections [promise]
      --max-n N             the largest N that is computed, 93 at most [45]
      --help                print this";

/// Below this the recursion goes on without forking.
const CUTOFF: u32 = 20;
/// The last Fibonacci number that fits into 64 bits.
const LAST: u32 = 93;

fn fib(n: u32) -> u64 {
    if n < 2 { n.into() } else { fib(n - 1) + fib(n - 2) }
}

/// The recursion of the thesis' figure 2.1: both halves in parallel, down to the cutoff.
fn fib_par(n: u32) -> u64 {
    if n <= CUTOFF {
        return fib(n);
    }
    let (a, b) = segue::join(|| fib_par(n - 1), || fib_par(n - 2));
    a + b
}

#[derive(Clone, Copy)]
enum Compose {
    Promise,
    Blocking,
}

struct Options {
    addr: String,
    io_workers: usize,
    pool_workers: usize,
    compose: Compose,
    max_n: u32,
}

/// What one request is answered with.
struct Fibonacci<'p> {
    pool: &'p Pool,
    compose: Compose,
    max_n: u32,
}

impl Fibonacci<'_> {
    fn answer(&self, request: &Request<'_>) -> Response {
        let path = request.uri().path();
        if !matches!(path, "/" | "/healthz") && !path.starts_with("/fib/") {
            return (StatusCode::NOT_FOUND, "not found: try /fib/30\n").into_response();
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refusal = (StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are allowed\n").into_response();
            refusal.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        match path {
            "/" => page(),
            "/healthz" => "ok\n".into_response(),
            _ => self.number(&path["/fib/".len()..]),
        }
    }

    fn number(&self, text: &str) -> Response {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let n = match text.parse() {
            Ok(n) if digits && n <= LAST => n,
            _ => {
                let accepted = format!("N in /fib/N must be a whole number from 0 to {LAST}\n");
                return (StatusCode::BAD_REQUEST, accepted).into_response();
            }
        };
        if n > self.max_n {
            let limit = format!("fib({n}) would take too long: N is limited to {}\n", self.max_n);
            return (StatusCode::UNPROCESSABLE_ENTITY, limit).into_response();
        }
        match self.compute(n) {
            Some(number) => format!("{number}\n").into_response(),
            None => (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n").into_response(),
        }
    }

    /// The number, computed by the pool; `None` if it went away.
    fn compute(&self, n: u32) -> Option<u64> {
        match self.compose {
            Compose::Promise => {
                let (resolver, number) = promise();
                drop(self.pool.spawn(move || resolver.fill(fib_par(n))));
                // This suspends the fiber of one connection. Its I/O worker serves the others
                // meanwhile.
                number.take().ok()
            }
            Compose::Blocking => {
                let (sender, number) = mpsc::channel();
                drop(self.pool.spawn(move || sender.send(fib_par(n))));
                // This blocks the I/O worker's thread, and so every connection that it serves (the
                // thesis' figure 2.2b).
                number.recv().ok()
            }
        }
    }
}

fn page() -> Response {
    let mut page = Response::new(PAGE.into());
    page.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/html; charset=utf-8"));
    page
}

/// A static page of 2 KiB.
static PAGE: &str = include_str!("fib_server.html");

fn serve(options: &Options) -> std::io::Result<()> {
    let pool = segue::sched::Runtime::new().name("fib-pool").workers(options.pool_workers).pool()?;
    let numbers = Fibonacci { pool: &pool, compose: options.compose, max_n: options.max_n };
    segue::runtime().name("fib-io").workers(options.io_workers).run(|| {
        let listener = TcpListener::bind(&options.addr)
            .map_err(|error| std::io::Error::new(error.kind(), format!("can't listen on {}: {error}", options.addr)))?;
        let addr = listener.local_addr()?;
        let server = Server::new(|request: &mut Request<'_>| numbers.answer(request));
        let shutdown = server.shutdown_handle();
        let signals = [Signal::INT, Signal::TERM, Signal::HUP].map(Signals::once);
        let signals = signals.into_iter().collect::<std::io::Result<Vec<_>>>()?;
        let stopper = segue::Builder::new().cancellable().spawn(move || {
            let sources: Vec<_> = signals.iter().map(Signals::recv_source).collect();
            if segue::any_of(sources).wait().is_ok() {
                shutdown.shutdown();
            }
        });
        println!("listening on http://{addr}, try: curl -s http://{addr}/fib/30");
        let served = server.serve(listener);
        stopper.cancel();
        served
    })?
}

fn options() -> Result<Option<Options>, lexopt::Error> {
    use lexopt::prelude::*;
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let mut options = Options {
        addr: "127.0.0.1:8080".to_owned(),
        io_workers: 1,
        pool_workers: processors,
        compose: Compose::Promise,
        max_n: 45,
    };
    let workers = |value: std::ffi::OsString| {
        value.parse_with(|text| match text.parse() {
            Ok(n @ 1..=1024) => Ok(n),
            _ => Err("a number of workers is from 1 to 1024"),
        })
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("addr") => options.addr = parser.value()?.string()?,
            Long("io-workers") => options.io_workers = workers(parser.value()?)?,
            Long("pool-workers") => options.pool_workers = workers(parser.value()?)?,
            Long("compose") => {
                options.compose = parser.value()?.parse_with(|text| match text {
                    "promise" => Ok(Compose::Promise),
                    "blocking" => Ok(Compose::Blocking),
                    _ => Err("expected `promise` or `blocking`"),
                })?;
            }
            Long("max-n") => {
                options.max_n = parser.value()?.parse_with(|text| match text.parse() {
                    Ok(n @ 0..=LAST) => Ok(n),
                    _ => Err("expected a number from 0 to 93"),
                })?;
            }
            Long("help") | Short('h') => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(options))
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("fib_server: {error} (see --help)");
            return ExitCode::from(2);
        }
    };
    match serve(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fib_server: {error}");
            ExitCode::FAILURE
        }
    }
}
