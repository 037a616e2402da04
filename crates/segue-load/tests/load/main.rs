//! `segue-load` as its users meet it: the built program, against servers in this process. Rates are
//! small, and counts are asserted, not times.

mod checks;
mod ends;
mod rates;
mod reports;
mod secure;
mod web_sockets;

use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use std::thread;

use segue_http::{IntoResponse, Request, Server, Shutdown};
use serde_json::Value;

/// A server on a thread of its own, which ends with the test.
struct Served {
    address: SocketAddr,
    shutdown: Shutdown,
    thread: Option<thread::JoinHandle<()>>,
}

impl Served {
    fn new<R: IntoResponse>(handler: impl Fn(&mut Request<'_>) -> R + Send + Sync + 'static) -> Served {
        let listener = segue_io::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::new(handler);
        let shutdown = server.shutdown_handle();
        let thread = Some(thread::spawn(move || server.serve(listener).unwrap()));
        Served { address, shutdown, thread }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// The result of a run that ends well or not, as JSON.
    fn load(&self, options: &str) -> (Option<i32>, Value) {
        let output = load(&self.url(), &format!("{options} --json"));
        let text = String::from_utf8(output.stdout).unwrap();
        let parsed = serde_json::from_str(&text);
        let parsed = parsed.unwrap_or_else(|_| panic!("{text} {}", String::from_utf8_lossy(&output.stderr)));
        (output.status.code(), parsed)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.shutdown.shutdown();
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

/// The right replies, and the requests that were due at the very end, when the connections of a
/// slow machine had not finished the ones before.
fn settled(result: &Value) -> u64 {
    result["replies"].as_u64().unwrap() + result["errors"]["unsent"].as_u64().unwrap_or(0)
}

fn command(url: &str, options: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_segue-load"));
    command.arg(url).args(options.split_whitespace()).stdin(Stdio::null());
    command
}

fn load(url: &str, options: &str) -> Output {
    command(url, options).output().unwrap()
}
