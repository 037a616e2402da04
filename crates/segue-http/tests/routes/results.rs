//! Headers beside a response, pages, redirections, refusals and errors of the program.

use std::io;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use segue_http::{Html, IntoResponse, Params, Payload, Redirect, Refusal, Request, Response, Router};

use crate::common::Reply;
use crate::get;

fn answer<R: IntoResponse>(handler: impl Fn(&mut Request<'_>) -> R + Send + Sync) -> Reply {
    get(&Router::new().get("/", handler), "/")
}

fn all<'r>(reply: &'r Reply, name: &str) -> Vec<&'r str> {
    reply.headers.iter().filter(|(key, _)| key == name).map(|(_, value)| &**value).collect()
}

#[test]
fn headers_stand_beside_a_response_and_replace_its_own() {
    let reply = answer(|_| ([("content-type", "text/css"), ("x-a", "1")], "p {}"));
    assert_eq!((reply.status, reply.text()), (200, "p {}"));
    assert_eq!((all(&reply, "content-type"), all(&reply, "x-a")), (vec!["text/css"], vec!["1"]));

    let reply = answer(|_| (StatusCode::CREATED, [(header::LOCATION, HeaderValue::from_static("/a"))], "made"));
    assert_eq!((reply.status, reply.header("location"), reply.text()), (201, Some("/a"), "made"));

    // The same name twice: both, in place of those below.
    let reply = answer(|_| ([("Set-Cookie", "a"), ("x-b", "2"), ("set-cookie", "b")], ([("set-cookie", "c")], "")));
    assert_eq!(all(&reply, "set-cookie"), ["a", "b"]);

    let mut map = HeaderMap::new();
    map.insert("content-type", "text/csv".parse().unwrap());
    map.append("x-a", "1".parse().unwrap());
    map.append("x-a", "2".parse().unwrap());
    let reply = answer(|_| (map.clone(), "a,b"));
    assert_eq!((all(&reply, "content-type"), all(&reply, "x-a")), (vec!["text/csv"], vec!["1", "2"]));
    let reply = answer(|_| (StatusCode::ACCEPTED, map.clone(), "a,b"));
    assert_eq!((reply.status, all(&reply, "content-type")), (202, vec!["text/csv"]));

    let reply = answer(|_| ([("x-a", String::from("owned"))], StatusCode::NO_CONTENT));
    assert_eq!((reply.status, reply.header("x-a")), (204, Some("owned")));
    let none: [(&str, &str); 0] = [];
    assert_eq!(answer(|_| (none, "text")).text(), "text");
}

#[test]
fn a_header_that_is_none_is_an_internal_error_and_splits_nothing() {
    for (name, value) in [("x-a", "1\r\nx-b: 2"), ("x-a\r\nx-b", "1"), ("x a", "1"), ("", "1"), ("x-a", "\0")] {
        for reply in [answer(|_| ([(name, value)], "text")), answer(|_| (StatusCode::CREATED, [(name, value)], "text"))]
        {
            assert_eq!((reply.status, reply.text()), (500, "internal server error"), "{name:?} {value:?}");
            assert_eq!(reply.header("x-b"), None);
        }
    }
}

#[test]
fn pages_have_their_content_type() {
    let html = Some("text/html; charset=utf-8");
    let reply = answer(|_| Html("<p>"));
    assert_eq!((reply.status, reply.header("content-type"), reply.text()), (200, html, "<p>"));
    let reply = answer(|_| (StatusCode::NOT_FOUND, Html(String::from("<p>"))));
    assert_eq!((reply.status, reply.header("content-type")), (404, html));
    let reply = answer(|_| Html(Payload::writer(|out| io::Write::write_all(out, b"<p>"))));
    assert_eq!((reply.header("content-type"), reply.text()), (html, "<p>"));
}

#[test]
fn redirections_have_their_statuses_and_their_places() {
    let place = "/a?b=c#d";
    for (redirect, status) in
        [(Redirect::to(place), 303), (Redirect::temporary(place), 307), (Redirect::permanent(place), 308)]
    {
        let reply = answer(|_| redirect.clone());
        assert_eq!((reply.status, reply.header("location"), reply.text()), (status, Some(place), ""));
    }
    for (place, location) in [
        ("/a\r\nset-cookie: x", "/a%0D%0Aset-cookie:%20x"),
        ("/ä", "/%C3%A4"),
        ("/%C3%A4", "/%C3%A4"),
        ("/\0", "/%00"),
        ("", ""),
    ] {
        let reply = answer(|_| Redirect::to(place));
        assert_eq!((reply.header("location"), reply.header("set-cookie")), (Some(location), None), "{place:?}");
    }
}

#[test]
fn a_refusal_is_answered_as_itself_and_as_an_io_error() {
    let refusal = || Refusal::new(StatusCode::CONFLICT, "changed meanwhile");
    assert_eq!(refusal().status(), 409);
    let text = Some("text/plain; charset=utf-8");
    for reply in [
        answer(|_| refusal()),
        answer(|_| Err::<&str, _>(refusal())),
        answer(|_| Err::<&str, io::Error>(refusal().into())),
        answer(|_| -> io::Result<&str> { Err(refusal())? }),
    ] {
        assert_eq!((reply.status, reply.header("content-type"), reply.text()), (409, text, "changed meanwhile"));
    }
    // An error of the same kind that is no refusal keeps its text.
    let reply = answer(|_| Err::<&str, _>(io::Error::new(io::ErrorKind::InvalidInput, "secret")));
    assert_eq!((reply.status, reply.text()), (500, "internal server error"));
}

enum Failure {
    Gone(u64),
    Io(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Io(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self {
            Failure::Gone(id) => (StatusCode::GONE, format!("{id} is gone")).into_response(),
            Failure::Io(error) => error.into_response(),
        }
    }
}

#[test]
fn an_error_type_of_the_program_is_answered_by_its_own_response() {
    let router = Router::new().get("/{id}", |request| -> Result<String, Failure> {
        match Params::of(request).parse("id")? {
            7 => Err(Failure::Gone(7)),
            8 => Err(io::Error::other("secret"))?,
            id => Ok(id.to_string()),
        }
    });
    for (target, status, text) in [
        ("/6", 200, "6"),
        ("/7", 410, "7 is gone"),
        ("/8", 500, "internal server error"),
        ("/x", 400, "`id` has a value that is not possible"),
    ] {
        let reply = get(&router, target);
        assert_eq!((reply.status, reply.text()), (status, text));
    }
}
