//! The client's connection: over scripted servers, and against the server of this crate.

#[path = "../common/mod.rs"]
mod common;

mod bad_responses;
mod bodies;
mod framing;
mod pipelining;
mod requests;
mod reuse;
mod servers;

use std::io::{self, Read};
use std::rc::Rc;

use segue_http::client::{Connection, Error};
use segue_http::{BodyError, Config};

use common::{Log, Script, Step};

/// A connection to a server that does these steps.
fn connect(steps: impl IntoIterator<Item = Step>) -> (Connection<Script>, Rc<Log>) {
    limited(Config::new(), steps)
}

fn limited(config: Config, steps: impl IntoIterator<Item = Step>) -> (Connection<Script>, Rc<Log>) {
    let script = Script::new(steps);
    let log = script.log();
    (Connection::with_config(script, config), log)
}

/// A request for a page.
fn get(path: &str) -> http::Request<()> {
    http::Request::get(path).header("host", "a").body(()).unwrap()
}

/// A finished exchange: status, body, and the trailers' number.
type Outcome = (u16, Vec<u8>, usize);

fn exchange(connection: &mut Connection<Script>, request: http::Request<()>) -> io::Result<Outcome> {
    connection.request(request).and_then(read)
}

fn read(response: segue_http::client::Response<'_>) -> io::Result<Outcome> {
    let status = response.status().as_u16();
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    body.read_to_end(&mut bytes)?;
    Ok((status, bytes, body.trailers().len()))
}

fn body_error(error: &io::Error) -> Option<BodyError> {
    error.get_ref()?.downcast_ref().copied()
}

#[track_caller]
fn assert_error<T: std::fmt::Debug>(result: io::Result<T>, expected: Error) {
    assert_eq!(Error::of(&result.unwrap_err()), Some(expected));
}
