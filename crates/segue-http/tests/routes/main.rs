//! Handlers by path and method, functions around them, their input and their results, over a
//! scripted connection.

#[path = "../common/mod.rs"]
mod common;

mod around;
mod building;
mod fields;
#[cfg(feature = "json")]
mod json;
mod model;
mod paths;
mod results;

use common::{Reply, Script, Step, plain, replies, send};
use segue_http::{Router, Server};

/// The replies of a router to requests that are sent in one go. Each is answered.
fn ask(router: &Router<'_>, requests: &[String]) -> Vec<Reply> {
    let heads: Vec<usize> = (0..requests.len()).filter(|&at| requests[at].starts_with("HEAD ")).collect();
    let output = serve(router, [send(requests.concat()), Step::End]);
    let replies = replies(&output, &heads);
    assert_eq!(replies.len(), requests.len());
    replies
}

/// The reply of a router to one request.
fn ask_one(router: &Router<'_>, request: &str) -> Reply {
    ask(router, &[request.to_owned()]).remove(0)
}

/// The output of a connection with these steps.
fn serve(router: &Router<'_>, steps: impl IntoIterator<Item = Step>) -> Vec<u8> {
    let script = Script::new(steps);
    let log = script.log();
    // How the connection ended is not the subject here.
    let _ = Server::new(|request| router.handle(request)).config(plain()).serve_connection(script);
    log.output()
}

fn request(method: &str, target: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: h\r\n\r\n")
}

fn get(router: &Router<'_>, target: &str) -> Reply {
    ask_one(router, &request("GET", target))
}

/// A POST with a content type and a body of a declared length.
fn post(content_type: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head =
        format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// The reply to bytes after which the client ends.
fn ask_bytes(router: &Router<'_>, bytes: &[u8]) -> Reply {
    let mut replies = replies(&serve(router, [send(bytes), Step::End]), &[]);
    assert_eq!(replies.len(), 1);
    replies.remove(0)
}
