//! Which handler a request reaches, by its path and method, and with which parameters.

use http::Method;
use segue_http::{Params, Request, Router};

use crate::{ask, ask_one, get, request};

/// A handler that says its name, the method, and the parameters in order.
fn named(name: &'static str) -> impl Fn(&mut Request<'_>) -> String + Send + Sync {
    move |request| {
        let params: String = Params::of(request).iter().map(|(name, value)| format!(" {name}={value}")).collect();
        format!("{name} {}{params}", request.method())
    }
}

fn notes() -> Router<'static> {
    Router::new()
        .get("/", named("root"))
        .get("/notes", named("list"))
        .post("/notes", named("create"))
        .get("/notes/{id}", named("show"))
        .put("/notes/{id}", named("change"))
        .patch("/notes/{id}", named("patch"))
        .delete("/notes/{id}", named("delete"))
        .get("/notes/new", named("new"))
        .get("/notes/{id}/", named("slash"))
        .get("/notes/{id}/parts/{part}", named("part"))
        .get("/pictures/{name}.png", named("png"))
        .get("/files/{*path}", named("files"))
        .get("/files/index", named("index"))
        .any("/any", named("any"))
        .on(Method::POST, "/any", named("posted"))
        .on(Method::HEAD, "/head", named("head"))
        .get("/head", named("not head"))
        .on(Method::OPTIONS, "/options", named("options"))
        .on(Method::from_bytes(b"BREW").unwrap(), "/pot", named("brewed"))
        .get("/caf%C3%A9", named("café"))
        .get("/{{braces}}", named("braces"))
        .get("/{a}/{b}/{c}/{d}/{e}/{f}", named("six"))
}

const ALLOWED: &str = "GET, HEAD, PUT, PATCH, DELETE, OPTIONS";

/// Method, target, status, and the text; where the status is 204 or 405, the allowed methods.
const TABLE: &[(&str, &str, u16, &str)] = &[
    ("GET", "/", 200, "root GET"),
    ("GET", "/?q=/notes", 200, "root GET"),
    ("GET", "http://other", 200, "root GET"),
    ("GET", "http://other/notes", 200, "list GET"),
    ("GET", "/notes", 200, "list GET"),
    ("POST", "/notes", 200, "create POST"),
    ("GET", "/notes/7", 200, "show GET id=7"),
    ("GET", "/notes/7?x=y", 200, "show GET id=7"),
    ("PUT", "/notes/7", 200, "change PUT id=7"),
    ("PATCH", "/notes/7", 200, "patch PATCH id=7"),
    ("DELETE", "/notes/7", 200, "delete DELETE id=7"),
    ("GET", "/notes/7/parts/a", 200, "part GET id=7 part=a"),
    ("GET", "/pictures/a.png", 200, "png GET name=a"),
    ("GET", "/pictures/a.b.png", 200, "png GET name=a.b"),
    ("GET", "/files/a/b/c", 200, "files GET path=a/b/c"),
    ("GET", "/files/a//b/", 200, "files GET path=a//b/"),
    ("GET", "/files/index", 200, "index GET"),
    ("GET", "/files/index/", 200, "files GET path=index/"),
    ("GET", "/1/2/3/4/5/6", 200, "six GET a=1 b=2 c=3 d=4 e=5 f=6"),
    // Trailing slashes, empty segments, and capitals are distinct.
    ("GET", "/notes/", 404, "there is nothing here"),
    ("GET", "/notes/7/", 200, "slash GET id=7"),
    ("GET", "//", 404, "there is nothing here"),
    ("GET", "//notes", 404, "there is nothing here"),
    ("GET", "/notes//", 404, "there is nothing here"),
    ("GET", "/Notes", 404, "there is nothing here"),
    ("GET", "/files/", 404, "there is nothing here"),
    ("GET", "/files", 404, "there is nothing here"),
    ("GET", "/pictures/.png", 404, "there is nothing here"),
    ("GET", "/pictures/a.jpg", 404, "there is nothing here"),
    ("POST", "/nothing", 404, "there is nothing here"),
    ("OPTIONS", "/nothing", 404, "there is nothing here"),
    // The most particular path decides alone.
    ("GET", "/notes/new", 200, "new GET"),
    ("DELETE", "/notes/new", 405, "GET, HEAD, OPTIONS"),
    // Other methods.
    ("POST", "/notes/7", 405, ALLOWED),
    ("BREW", "/notes/7", 405, ALLOWED),
    ("get", "/notes/7", 405, ALLOWED),
    ("OPTIONS", "/notes/7", 204, ALLOWED),
    ("OPTIONS", "/notes", 204, "GET, HEAD, POST, OPTIONS"),
    ("PUT", "/notes", 405, "GET, HEAD, POST, OPTIONS"),
    ("BREW", "/pot", 200, "brewed BREW"),
    ("GET", "/pot", 405, "BREW, OPTIONS"),
    ("HEAD", "/pot", 405, ""),
    ("GET", "/options", 405, "OPTIONS"),
    ("OPTIONS", "/options", 200, "options OPTIONS"),
    ("GET", "/any", 200, "any GET"),
    ("BREW", "/any", 200, "any BREW"),
    ("OPTIONS", "/any", 200, "any OPTIONS"),
    ("POST", "/any", 200, "posted POST"),
    // Escapes: the path is compared as sent, and the values are decoded once.
    ("GET", "/caf%C3%A9", 200, "café GET"),
    ("GET", "/caf%c3%a9", 404, "there is nothing here"),
    ("GET", "/%6eotes", 404, "there is nothing here"),
    ("GET", "/notes/%6eew", 200, "show GET id=new"),
    ("GET", "/notes/a%2Fb", 200, "show GET id=a/b"),
    ("GET", "/notes%2F7", 404, "there is nothing here"),
    ("GET", "/notes/a%20b+c", 200, "show GET id=a b+c"),
    ("GET", "/notes/%E2%82%AC", 200, "show GET id=€"),
    ("GET", "/notes/%252e%252e", 200, "show GET id=%2e%2e"),
    ("GET", "/notes/%25", 200, "show GET id=%"),
    ("GET", "/notes/a%3Fb", 200, "show GET id=a?b"),
    ("GET", "/files/a%2Fb/c", 200, "files GET path=a/b/c"),
    ("GET", "/%7bbraces%7d", 404, "there is nothing here"),
    ("GET", "/notes/...", 200, "show GET id=..."),
    ("GET", "/files/.well-known/a..b", 200, "files GET path=.well-known/a..b"),
    // Malformed values.
    ("GET", "/notes/%", 400, "the path has a % that two hexadecimal digits do not follow"),
    ("GET", "/notes/%4", 400, "the path has a % that two hexadecimal digits do not follow"),
    ("GET", "/notes/%zz", 400, "the path has a % that two hexadecimal digits do not follow"),
    ("GET", "/notes/7/parts/%+1", 400, "the path has a % that two hexadecimal digits do not follow"),
    ("GET", "/notes/%FF", 400, "the path is not UTF-8 when decoded"),
    ("GET", "/notes/%C0%AE%C0%AE", 400, "the path is not UTF-8 when decoded"),
    ("GET", "/notes/%ED%A0%80", 400, "the path is not UTF-8 when decoded"),
    ("POST", "/notes/%FF", 400, "the path is not UTF-8 when decoded"),
    // Dots that lead out.
    ("GET", "/notes/..", 400, "the path has `.` or `..` between slashes"),
    ("GET", "/notes/.", 400, "the path has `.` or `..` between slashes"),
    ("GET", "/files/..", 400, "the path has `.` or `..` between slashes"),
    ("GET", "/files/../secret", 400, "the path has `.` or `..` between slashes"),
    ("GET", "/files/a/../../b", 400, "the path has `.` or `..` between slashes"),
    ("GET", "/files/./a", 400, "the path has `.` or `..` between slashes"),
    ("GET", "/files/%2e%2E/secret", 400, "the path has `.` or `..` between slashes"),
    ("GET", "/files/.%2e/secret", 400, "the path has `.` or `..` between slashes"),
    ("GET", "/files/..%2Fsecret", 400, "the path has `.` or `..` between slashes"),
    ("GET", "/files/a%2f..%2f..%2fsecret", 400, "the path has `.` or `..` between slashes"),
    ("GET", "/files/..%5Csecret", 400, "the path has `.` or `..` between slashes"),
    ("GET", "/files/..\\secret", 400, "the path has `.` or `..` between slashes"),
    ("GET", "/notes/%2e%2e%2fsecret", 400, "the path has `.` or `..` between slashes"),
    ("GET", "/../notes", 404, "there is nothing here"),
    // Not encoded at all.
    ("GET", "/notes/é", 200, "show GET id=é"),
    ("GET", "/é", 404, "there is nothing here"),
];

#[test]
fn each_method_and_path_has_its_answer() {
    let router = notes();
    for &(method, target, status, expected) in TABLE {
        // Not every target gets through the parser in the same way: one request at a time.
        let reply = ask_one(&router, &request(method, target));
        let told = if matches!(status, 204 | 405) { reply.header("allow").unwrap_or("none") } else { reply.text() };
        assert_eq!(reply.status, status, "{method} {target}: {told}");
        if method != "HEAD" {
            assert_eq!(told, expected, "{method} {target}");
        }
    }
}

#[test]
fn a_router_answers_request_after_request_and_forgets_parameters_in_between() {
    let requests: Vec<String> =
        TABLE.iter().filter(|case| case.1.starts_with("/")).map(|case| request(case.0, case.1)).collect();
    let expected = TABLE.iter().filter(|case| case.1.starts_with("/")).map(|case| case.2);
    let statuses: Vec<u16> = ask(&notes(), &requests).iter().map(|reply| reply.status).collect();
    assert_eq!(statuses, expected.collect::<Vec<_>>());
}

#[test]
fn head_is_answered_by_the_handler_for_get() {
    let router = notes();
    let requests = [("HEAD", "/notes/7"), ("GET", "/notes/7"), ("HEAD", "/head"), ("HEAD", "/any"), ("HEAD", "/x")];
    let replies = ask(&router, &requests.map(|(method, target)| request(method, target)));
    // The handler sees the method, so the text is longer by one.
    assert_eq!((replies[0].status, replies[0].header("content-length"), replies[0].text()), (200, Some("14"), ""));
    assert_eq!((replies[1].header("content-length"), replies[1].text()), (Some("13"), "show GET id=7"));
    assert_eq!(replies[2].header("content-length"), Some("9"));
    assert_eq!(replies[3].header("content-length"), Some("8"));
    assert_eq!((replies[4].status, replies[4].text()), (404, ""));
}

#[test]
fn options_for_the_whole_server_names_the_methods_of_all_routes() {
    let router = Router::new().get("/a", |_| "a").post("/a", |_| "a").delete("/b", |_| "b").get("/b", |_| "b");
    let reply = ask_one(&router, &request("OPTIONS", "*"));
    assert_eq!((reply.status, reply.header("allow")), (204, Some("GET, HEAD, POST, DELETE, OPTIONS")));
}

#[test]
fn a_fallback_answers_paths_without_a_route_and_no_others() {
    let router = Router::new().get("/a", |_| "a").fallback(named("fallback"));
    assert_eq!(get(&router, "/b/%zz/../c").text(), "fallback GET");
    assert_eq!(ask_one(&router, &request("POST", "/a")).status, 405);
    assert_eq!(ask_one(&router, &request("OPTIONS", "/b")).text(), "fallback OPTIONS");
}

#[test]
fn a_router_without_routes_answers_too() {
    assert_eq!(get(&Router::new(), "/").status, 404);
    let reply = ask_one(&Router::default(), &request("OPTIONS", "*"));
    assert_eq!((reply.status, reply.header("allow")), (204, Some("OPTIONS")));
}

#[test]
fn handlers_borrow_from_their_surroundings() {
    let greeting = String::from("hello");
    let count = std::sync::atomic::AtomicUsize::new(0);
    let router = Router::new().get("/", |_| {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        greeting.clone()
    });
    assert_eq!((get(&router, "/").text(), get(&router, "/").text()), ("hello", "hello"));
    drop(router);
    assert_eq!(count.into_inner(), 2);
}

#[test]
fn a_router_in_a_handler_of_another_one_answers_with_its_own_parameters() {
    let inner = Router::new().get("/in/{name}", named("inner"));
    let outer = Router::new().any("/{*rest}", |request| {
        let before = Params::of(request).get("rest").unwrap().to_owned();
        let response = inner.handle(request);
        assert_ne!(Params::of(request).get("rest"), Some("in/it"));
        (http::StatusCode::ACCEPTED, [("x-rest", before)], response)
    });
    let reply = get(&outer, "/in/it");
    assert_eq!((reply.status, reply.header("x-rest"), reply.text()), (202, Some("in/it"), "inner GET name=it"));
}
