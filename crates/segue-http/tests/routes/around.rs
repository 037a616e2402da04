//! Functions around handlers: their order, their reach, early answers and panics.

use std::sync::Mutex;

use http::{Method, StatusCode};
use segue_http::{IntoResponse, Next, Params, Request, Response, Router};

use crate::common::{Step, replies, send};
use crate::{ask_one, get, request, serve};

/// A function that notes its name before and after the rest.
fn noting<'l>(log: &'l Mutex<Vec<String>>, name: &'l str) -> impl Fn(&mut Request<'_>, Next<'_>) -> Response + 'l {
    move |request, next| {
        log.lock().unwrap().push(format!("{name} {}", request.uri()));
        let response = next.run(request);
        log.lock().unwrap().push(format!("{name} {}", response.status().as_u16()));
        response
    }
}

fn taken(log: &Mutex<Vec<String>>) -> String {
    std::mem::take(&mut *log.lock().unwrap()).join(", ")
}

#[test]
fn the_first_function_is_the_outermost_one_wherever_the_routes_were_added() {
    let log = Mutex::new(Vec::new());
    let router = Router::new()
        .get("/before", |_| "")
        .around(noting(&log, "first"))
        .around(noting(&log, "second"))
        .get("/after", |_| StatusCode::CREATED);
    get(&router, "/before");
    assert_eq!(taken(&log), "first /before, second /before, second 200, first 200");
    get(&router, "/after");
    assert_eq!(taken(&log), "first /after, second /after, second 201, first 201");
}

#[test]
fn a_function_is_around_the_answers_without_a_handler_too() {
    let log = Mutex::new(Vec::new());
    let router = Router::new().get("/a/{b}", |_| "").around(noting(&log, "f"));
    for (method, target, status) in
        [("GET", "/none", 404), ("POST", "/a/b", 405), ("OPTIONS", "/a/b", 204), ("GET", "/a/%", 400)]
    {
        ask_one(&router, &request(method, target));
        assert_eq!(taken(&log), format!("f {target}, f {status}"));
    }
}

#[test]
fn a_function_of_a_nested_router_is_around_its_handlers_alone() {
    let log = Mutex::new(Vec::new());
    let deepest = Router::new().get("/c", |_| "").around(noting(&log, "deepest"));
    let inner = Router::new().get("/b", |_| "").around(noting(&log, "inner")).nest("", deepest);
    let router = Router::new().around(noting(&log, "outer")).nest("/a", inner).post("/a/b", |_| "").get("/d", |_| "");
    for (method, target, expected) in [
        ("GET", "/a/b", "outer /a/b, inner /a/b, inner 200, outer 200"),
        ("GET", "/a/c", "outer /a/c, inner /a/c, deepest /a/c, deepest 200, inner 200, outer 200"),
        // Another method of the same path is of the outer one.
        ("POST", "/a/b", "outer /a/b, outer 200"),
        ("PUT", "/a/b", "outer /a/b, outer 405"),
        ("GET", "/d", "outer /d, outer 200"),
        ("GET", "/a/none", "outer /a/none, outer 404"),
    ] {
        ask_one(&router, &request(method, target));
        assert_eq!(taken(&log), expected, "{method} {target}");
    }
}

#[test]
fn a_function_may_answer_without_the_handler() {
    let router =
        Router::new().get("/", |_| -> &str { panic!("not to be called") }).around(|_, _| StatusCode::FORBIDDEN);
    assert_eq!(get(&router, "/").status, 403);
    // A body that nobody has read does not disturb the request behind.
    let router = Router::new().post("/", |_| -> &str { panic!("not to be called") }).get("/", |_| "next").around(
        |request: &mut Request<'_>, next: Next<'_>| match *request.method() {
            Method::POST => "early".into_response(),
            _ => next.run(request),
        },
    );
    let output = serve(
        &router,
        [send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"), send(request("GET", "/")), Step::End],
    );
    let texts: Vec<_> = replies(&output, &[]).iter().map(|reply| reply.text().to_owned()).collect();
    assert_eq!(texts, ["early", "next"]);
}

#[test]
fn a_function_may_change_the_request_before_the_path_is_looked_up() {
    let router = Router::new().delete("/new/{id}", |request| Params::of(request).get("id").unwrap().to_owned()).around(
        |request, next| {
            assert_eq!(Params::of(request).get("id"), None);
            *request.method_mut() = Method::DELETE;
            *request.uri_mut() = "/new/7".parse().unwrap();
            let response = next.run(request);
            assert_eq!(Params::of(request).get("id"), Some("7"));
            response
        },
    );
    assert_eq!(ask_one(&router, &request("POST", "/old")).text(), "7");
}

#[test]
fn a_function_of_a_nested_router_finds_the_parameters() {
    let inner = Router::new().get("/{id}", |_| "handled").around(|request, next| match Params::of(request).get("id") {
        Some("7") => next.run(request),
        _ => StatusCode::FORBIDDEN.into_response(),
    });
    let router = Router::new().nest("/notes", inner);
    assert_eq!((get(&router, "/notes/7").status, get(&router, "/notes/8").status), (200, 403));
}

#[test]
fn a_panic_in_a_handler_or_in_a_function_is_answered_by_the_server() {
    let log = Mutex::new(Vec::new());
    let router = Router::new()
        .around(|request, next| {
            let path = request.uri().path().to_owned();
            if path == "/before" {
                panic!("before the handler");
            }
            let response = next.run(request);
            if path == "/after" {
                panic!("after the handler");
            }
            response
        })
        .around(noting(&log, "inner"))
        .get("/handler", |_| -> &str { panic!("in the handler") })
        .get("/after", |_| "lost")
        .get("/before", |_| "not called");
    for (target, noted) in [("/handler", "inner /handler"), ("/after", "inner /after, inner 200"), ("/before", "")] {
        let reply = get(&router, target);
        assert_eq!((reply.status, reply.text()), (500, "internal server error"));
        assert_eq!(reply.header("connection"), Some("close"));
        assert_eq!(taken(&log), noted);
    }
}

#[test]
fn the_result_of_a_function_is_all_that_a_handler_may_return() {
    let router = Router::new().get("/", |_| "in").around(|request, next| -> std::io::Result<Response> {
        let _ = next.run(request);
        Err(std::io::Error::other("secret"))
    });
    assert_eq!((get(&router, "/").status, get(&router, "/").text()), (500, "internal server error"));
}
