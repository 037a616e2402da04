//! A Fibonacci server whose numbers are computed elsewhere: in this process, or with `NATS_URL` by
//! workers of any number of machines. One line decides.
//!
//! ```text
//! cargo run -p segue-remote --example remote_fib
//! NATS_URL=nats://127.0.0.1:4222 cargo run -p segue-remote --features nats --example remote_fib -- worker
//! NATS_URL=nats://127.0.0.1:4222 cargo run -p segue-remote --features nats --example remote_fib
//! ```

use segue::net::{TcpListener, TcpStream};
use segue_http::http::{Method, StatusCode};
use segue_http::{IntoResponse, Response, Server};
use segue_remote::{Options, Pool, RemoteError, Worker, job};
use std::error::Error;
use std::io::{Read, Write};

/// The number `n` of Fibonacci's, by the slow way.
#[job]
fn fib(n: u32) -> Result<u64, String> {
    fn slow(n: u32) -> u64 {
        if n < 2 { n.into() } else { slow(n - 1) + slow(n - 2) }
    }
    if n > 40 { Err(format!("{n} is above 40")) } else { Ok(slow(n)) }
}

fn pool(fibers: &segue::Pool) -> Result<Pool, RemoteError> {
    let options = Options::new("fib");
    #[cfg(feature = "nats")]
    if let Ok(url) = std::env::var("NATS_URL") {
        return Pool::nats(&url, options);
    }
    Ok(Pool::local_with(fibers, options))
}

/// The answer to `/30`.
fn answer(pool: &Pool, path: &str) -> Response {
    let Ok(n) = path.trim_start_matches('/').parse() else { return StatusCode::NOT_FOUND.into_response() };
    // The handler's fiber waits, wherever the number is computed; a client that goes away cancels.
    match pool.submit(Fib { n }).take() {
        Ok(Ok(number)) => format!("{number}\n").into_response(),
        Ok(Err(RemoteError::Failed(why))) => (StatusCode::BAD_REQUEST, why).into_response(),
        _ => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let computing = segue::runtime().workers(2).pool()?;
    let pool = pool(&computing)?;
    if std::env::args().nth(1).as_deref() == Some("worker") {
        println!("{:?}", Worker::new(pool).register::<Fib>().at_most(2).run()?);
        return Ok(());
    }
    segue::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let server = Server::new(move |request: &mut segue_http::Request| match *request.method() {
            Method::GET => answer(&pool, request.uri().path()),
            _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        });
        let end = server.shutdown_handle();
        segue::scope(|s| {
            s.spawn(|| server.serve(listener));
            let ask = |n: u32| -> std::io::Result<String> {
                let mut stream = TcpStream::connect(address)?;
                write!(stream, "GET /{n} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
                let mut reply = String::new();
                stream.read_to_string(&mut reply)?;
                Ok(reply)
            };
            let asked = [20, 25, 99].map(|n| s.spawn(move || ask(n)));
            let [small, large, refused] = asked.map(|fiber| fiber.join().unwrap().unwrap());
            println!("{small}\n{large}\n{refused}");
            assert!(small.ends_with("6765\n") && large.ends_with("75025\n"));
            assert!(refused.starts_with("HTTP/1.1 400") && refused.ends_with("99 is above 40"));
            end.shutdown();
        });
        Ok(())
    })
}
