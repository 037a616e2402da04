//! Parameters, queries and forms: what is read, and what is refused.

use std::io;

use segue_http::{Params, Request, Router};

use crate::{ask_bytes, get, post};

fn said(params: &Params) -> String {
    params.iter().map(|(name, value)| format!("{name:?}={value:?};")).collect()
}

fn echo() -> Router<'static> {
    Router::new()
        .get("/", |request| -> io::Result<String> { Ok(said(&Params::query(request)?)) })
        .post("/", |request| -> io::Result<String> { Ok(said(&Params::form(request)?)) })
}

const FORM: &str = "application/x-www-form-urlencoded";

/// Encoded fields, the status, and the fields in order or the end of the text.
const FIELDS: &[(&str, u16, &str)] = &[
    ("", 200, ""),
    ("a=1&b=2", 200, "\"a\"=\"1\";\"b\"=\"2\";"),
    ("a=1&a=2&a=1", 200, "\"a\"=\"1\";\"a\"=\"2\";\"a\"=\"1\";"),
    ("a", 200, "\"a\"=\"\";"),
    ("=", 200, "\"\"=\"\";"),
    ("=1", 200, "\"\"=\"1\";"),
    ("&&a=1&", 200, "\"a\"=\"1\";"),
    ("a=b=c", 200, "\"a\"=\"b=c\";"),
    ("a+b=c+d%2Be", 200, "\"a b\"=\"c d+e\";"),
    ("%26=%3D%25", 200, "\"&\"=\"=%\";"),
    ("a=%E2%82%AC", 200, "\"a\"=\"€\";"),
    ("a;b=1;2", 200, "\"a;b\"=\"1;2\";"),
    ("a=..%2F..", 200, "\"a\"=\"../..\";"),
    ("a=%", 400, " has a % that two hexadecimal digits do not follow"),
    ("a=%4", 400, " has a % that two hexadecimal digits do not follow"),
    ("%zz=1", 400, " has a % that two hexadecimal digits do not follow"),
    ("a=%u0041", 400, " has a % that two hexadecimal digits do not follow"),
    ("a=%FF", 400, " is not UTF-8 when decoded"),
    ("%C3=%A9", 400, " is not UTF-8 when decoded"),
];

#[test]
fn the_same_fields_are_read_from_a_query_and_from_a_form() {
    let router = echo();
    for &(fields, status, expected) in FIELDS {
        let expected = |part: &str| if status == 200 { expected.to_owned() } else { format!("the {part}{expected}") };
        let reply = get(&router, &format!("/?{fields}"));
        assert_eq!((reply.status, reply.text()), (status, &*expected("query")), "{fields}");
        let reply = ask_bytes(&router, &post(FORM, fields));
        assert_eq!((reply.status, reply.text()), (status, &*expected("form")), "{fields}");
    }
    assert_eq!(get(&router, "/").text(), "");
    // Browsers encode this; other clients do not.
    assert_eq!(ask_bytes(&router, &post(FORM, "ä=ö")).text(), "\"ä\"=\"ö\";");
}

#[test]
fn a_form_of_another_content_type_is_refused_before_it_is_read() {
    let router = echo();
    for (content_type, status) in [
        (FORM, 200),
        ("Application/X-WWW-Form-URLEncoded", 200),
        ("application/x-www-form-urlencoded; charset=utf-8", 200),
        ("application/x-www-form-urlencoded;", 200),
        ("multipart/form-data; boundary=x", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded-not", 415),
        ("", 415),
        ("\u{ff}", 415),
    ] {
        assert_eq!(ask_bytes(&router, &post(content_type, "a=1")).status, status, "{content_type}");
    }
    let reply = ask_bytes(&router, b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na=1");
    assert_eq!((reply.status, reply.text()), (415, &*format!("the body has to be of the content type {FORM}")));
    // The client of this one has to be told without the body.
    let expects =
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
    assert_eq!(ask_bytes(&router, expects.as_bytes()).status, 415);
}

#[test]
fn a_form_that_is_cut_short_or_not_utf8_is_refused() {
    let router = echo();
    let whole = post(FORM, "a=1&b=2");
    let reply = ask_bytes(&router, &whole[..whole.len() - 1]);
    assert_eq!((reply.status, reply.text()), (400, "the body is cut short"));
    let reply = ask_bytes(&router, &post(FORM, b"a=1&b=\xff"));
    assert_eq!((reply.status, reply.text()), (400, "the body is not UTF-8: line 1, column 7"));
}

#[test]
fn fields_are_limited_in_number() {
    let router = echo();
    let fields = |count: usize| vec!["a"; count].join("&");
    assert_eq!(ask_bytes(&router, &post(FORM, fields(4096))).status, 200);
    let reply = ask_bytes(&router, &post(FORM, fields(4097)));
    assert_eq!((reply.status, reply.text()), (400, "the form has more than 4096 fields"));
}

#[test]
fn a_parameter_that_is_missing_or_no_such_value_is_refused_by_name() {
    let router = Router::new()
        .get("/{id}", |request| -> io::Result<String> { Ok(Params::of(request).parse::<u8>("id")?.to_string()) })
        .get("/", |request| -> io::Result<String> {
            let query = Params::query(request)?;
            let first = query.get("a").unwrap_or("none");
            Ok(format!("{first} {} {}", query.parse::<String>("a")?, query.parse::<bool>("b")?))
        });
    for (target, status, expected) in [
        ("/255", 200, "255"),
        ("/%32", 200, "2"),
        ("/256", 400, "`id` has a value that is not possible"),
        ("/-1", 400, "`id` has a value that is not possible"),
        ("/%201", 400, "`id` has a value that is not possible"),
        ("/x", 400, "`id` has a value that is not possible"),
        ("/?a=x&a=y&b=true", 200, "x x true"),
        ("/?b=true", 400, "`a` is missing"),
        ("/?a=&b=", 400, "`b` has a value that is not possible"),
        ("/?A=x&b=true", 400, "`a` is missing"),
    ] {
        let reply = get(&router, target);
        assert_eq!((reply.status, reply.text()), (status, expected), "{target}");
    }
}

#[test]
fn there_are_no_parameters_without_a_router() {
    let handler = |request: &mut Request<'_>| format!("{:?}", Params::of(request).get("id"));
    let router = Router::new().get("/", handler).fallback(handler);
    assert_eq!((get(&router, "/").text(), get(&router, "/x").text()), ("None", "None"));
}
