//! `segue-load`: asks an HTTP/1.1 server on a fixed schedule, checks each reply, and counts latency
//! from the instant at which a request was due. For people who measure servers, and the benchmarks
//! of this repository.
//!
//! # An open loop
//!
//! A client that sends its next request when the last reply is there asks a slow server less, and
//! so does not see how long others would have waited. Here request `i` is due at the start plus
//! `i / R`, whatever the server does. A request that finds all connections busy waits for one, and
//! its wait counts. `--rate max` is the closed loop, for peaks.
//!
//! The schedule starts when all connections are open, and the time of the opening is told apart.
//!
//! # The hot path
//!
//! One fiber a connection, in direct style. The first exchange is that of
//! [`segue_http::client::Connection`], and its bytes are kept. Further requests are those bytes
//! again, and a reply with the same bytes, its date apart, is the same reply: one comparison. At
//! the first other reply the connection goes on by the client's parser, with the bytes that have
//! arrived. A message over a WebSocket (`ws://`) and its echo are bytes in the same way.

mod connection;
mod expected;
mod figures;
mod link;
mod opening;
mod options;
mod picture;
mod report;
mod run;
mod schedule;
mod tally;
mod target;
mod web_socket;

use std::process::ExitCode;

fn main() -> ExitCode {
    let options = match options::parse() {
        Ok(Some(options)) => options,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("segue-load: {error}; see --help");
            return ExitCode::from(2);
        }
    };
    match run::run(&options).and_then(|outcome| report::print(&options, &outcome)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("segue-load: {error}");
            ExitCode::from(2)
        }
    }
}
