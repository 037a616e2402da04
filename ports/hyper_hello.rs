//! What hyper says in its documentation, with a fiber for each connection.
extern crate hyper;
use hyper::server::{Request, Response, Server};

fn main() {
    let server = Server::http("127.0.0.1:3013").unwrap();
    server.handle_threads(|_: Request, answer: Response| answer.send(b"hello").unwrap(), 10_100).unwrap();
}
