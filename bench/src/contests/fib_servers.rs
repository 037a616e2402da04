//! The servers of `fib` that are in this program. Each serves on one thread and computes on as many
//! as it may have processors. Used by `fib`, and by the processes that it starts.

use crate::servers::{ANYWHERE, announce, until_the_input_ends};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use segue::sync::promise;
use segue_http::{IntoResponse, Request, Response};
use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Below this the recursion goes on without forking, as in the example `fib_server`.
const CUTOFF: u32 = 20;

/// How much less than the number of the path each request of a mixture asks for, in turn.
pub const LESS: [u32; 16] = [10, 10, 10, 4, 10, 10, 10, 0, 10, 10, 10, 4, 10, 10, 10, 4];

/// A contestant's name, and what it is.
type Row = (&'static str, fn(usize) -> io::Result<()>);

const ALL: &[Row] = &[
    ("segue, composed", |workers| segue(workers, fib_segue)),
    ("segue, no fork-join", |workers| segue(workers, fib)),
    ("tokio and rayon", tokio_and_rayon),
];

/// Their names.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(who, _)| *who)
}

/// Is a server until the input ends.
pub fn serve(who: &str) -> Result<(), String> {
    let (_, serve) = ALL.iter().find(|(name, _)| *name == who).ok_or_else(|| format!("no server `{who}`"))?;
    until_the_input_ends();
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    serve(processors).map_err(|error| format!("{who}: {error}"))
}

/// The recursion.
pub fn fib(n: u32) -> u64 {
    if n < 2 { n.into() } else { fib(n - 1) + fib(n - 2) }
}

/// The answer with a number. All have one length, by which those of a mixture are checked.
pub fn body(number: u64) -> String {
    format!("{number:>20}\n")
}

fn fib_segue(n: u32) -> u64 {
    if n <= CUTOFF {
        return fib(n);
    }
    let (a, b) = segue::join(|| fib_segue(n - 1), || fib_segue(n - 2));
    a + b
}

fn fib_rayon(n: u32) -> u64 {
    if n <= CUTOFF {
        return fib(n);
    }
    let (a, b) = rayon::join(|| fib_rayon(n - 1), || fib_rayon(n - 2));
    a + b
}

/// Numbers the requests of mixtures.
#[derive(Default)]
struct Asked(AtomicUsize);

impl Asked {
    /// The number to be computed.
    fn number(&self, path: &str) -> Option<u32> {
        let (kind, text) = path.strip_prefix('/')?.split_once('/')?;
        let n = text.parse().ok().filter(|n| *n <= 93)?;
        match kind {
            "fib" => Some(n),
            "mixed" => Some(n.saturating_sub(LESS[self.0.fetch_add(1, Relaxed) % LESS.len()])),
            _ => None,
        }
    }
}

/// An I/O worker, and a pool; a promise between them.
fn segue(workers: usize, compute: fn(u32) -> u64) -> io::Result<()> {
    let pool = segue::sched::Runtime::new().name("fib-pool").workers(workers).pool()?;
    let asked = Asked::default();
    let answer = |request: &mut Request<'_>| -> Response {
        let Some(n) = asked.number(request.uri().path()) else {
            return segue_http::http::StatusCode::NOT_FOUND.into_response();
        };
        let (resolver, number) = promise();
        drop(pool.spawn(move || resolver.fill(compute(n))));
        match number.take() {
            Ok(number) => body(number).into_response(),
            Err(_) => segue_http::http::StatusCode::SERVICE_UNAVAILABLE.into_response(),
        }
    };
    segue::runtime().name("fib-io").workers(1).run(|| {
        let listener = segue::net::TcpListener::bind(ANYWHERE)?;
        announce(listener.local_addr())?;
        segue_http::Server::new(answer).serve(listener)
    })?
}

/// hyper on tokio's current-thread runtime, rayon's pool, and a channel for each number.
fn tokio_and_rayon(workers: usize) -> io::Result<()> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build().map_err(io::Error::other)?;
    let shared = Arc::new((pool, Asked::default()));
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let listener = tokio::net::TcpListener::bind(ANYWHERE).await?;
        announce(listener.local_addr())?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let shared = shared.clone();
            tokio::spawn(async move {
                let service = service_fn(|request| answer(&shared, request));
                // The client leaves when it has enough.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}

async fn answer(
    (pool, asked): &(rayon::ThreadPool, Asked),
    request: http::Request<hyper::body::Incoming>,
) -> Result<http::Response<Full<Bytes>>, http::Error> {
    let Some(n) = asked.number(request.uri().path()) else {
        return http::Response::builder().status(404).body(Full::default());
    };
    let (sender, number) = tokio::sync::oneshot::channel();
    pool.spawn(move || {
        // Nobody waits if the client has gone.
        let _ = sender.send(fib_rayon(n));
    });
    match number.await {
        Ok(number) => http::Response::builder().body(Full::from(body(number))),
        Err(_) => http::Response::builder().status(503).body(Full::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_compute_the_same() {
        for n in [0, 1, 2, 19, 20, 21, 25] {
            assert_eq!((fib_rayon(n), fib_segue(n)), (fib(n), fib(n)), "{n}");
        }
        assert_eq!(fib(25), 75_025);
    }

    #[test]
    fn a_mixture_has_its_sizes_in_turn() {
        let asked = Asked::default();
        let numbers: Vec<_> = (0..32).map(|_| asked.number("/mixed/30")).collect();
        assert!(numbers.iter().zip(LESS.iter().cycle()).all(|(n, less)| *n == Some(30 - less)), "{numbers:?}");
        assert_eq!(asked.number("/fib/30"), Some(30));
        for path in ["/", "/fib/", "/fib/-1", "/fib/94", "/other/3", "fib/3"] {
            assert_eq!(asked.number(path), None, "{path}");
        }
    }
}
