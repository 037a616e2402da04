//! `parse_http`, `parse_json`, `parse_csv`, `parse_resp`: parsers in direct style against those in
//! callback style, and against the libraries that Rust's programs parse with; an operation is one
//! input, or a KiB of it.
//!
//! `parse_http` is the experiment of "Experiences with Effects" (2021): the head of a request, here
//! of a browser's, with 704 bytes. *Whole*, the head is there at once; *byte by byte* it comes in
//! pieces of one. "Segue" is the grammar of HTTP of the crate `segue-parse` over the slice, and
//! "pushed" the same function as the body of a machine. "Callbacks" is a library of our own in the
//! style that the paper starts from (`callbacks.rs`). The others are given all that has come, at
//! each piece, as they are made for.
//!
//! *Whole, allocated* and *byte by byte, allocated* are the bytes that the same parsers allocate.
//!
//! `parse_json` parses records of a shop, of about 256 KiB, to a tree of values. "winnow" is a
//! grammar of our own over that library, to the same tree as "segue".
//!
//! `parse_csv` reads records, of which the memory is used again, and `parse_resp` a reply of the
//! Redis protocol with many in it, to a tree of values.
//!
//! Timed: the parse, with what it allocates and frees.

mod callbacks;
#[path = "../../../../crates/segue-parse/tests/grammars/csv.rs"]
#[allow(dead_code, reason = "another program asks for the rest")]
mod csv_grammar;
#[path = "../../../../crates/segue-parse/tests/grammars/http.rs"]
#[allow(dead_code, reason = "another program asks for the rest")]
mod http;
#[path = "../../../../crates/segue-parse/tests/grammars/json.rs"]
#[allow(dead_code, reason = "another program asks for the rest")]
mod json;
mod others;
#[path = "../../../../crates/segue-parse/tests/grammars/resp.rs"]
#[allow(dead_code, reason = "another program asks for the rest")]
mod resp;

use super::push_crates::whole;
use crate::counted::counted;
use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload};
use callbacks::{Parser, Step, byte, take_while};
use others::is_of_token;
use segue::incremental::{Fed, Feed, push};
use segue_parse::{Input, Refill};
use std::hint::black_box;
use std::time::Instant;

/// See the file's head.
pub const HTTP: Workload =
    Workload { name: "parse_http", timed: "the head of an HTTP request of 704 bytes, per request", variants: of_http };

/// See the file's head.
pub const JSON: Workload =
    Workload { name: "parse_json", timed: "256 KiB of JSON, to a tree of values, per KiB", variants: of_json };

/// See the file's head.
pub const CSV: Workload =
    Workload { name: "parse_csv", timed: "records of a table with quotes, per KiB", variants: of_csv };

/// See the file's head.
pub const RESP: Workload =
    Workload { name: "parse_resp", timed: "a reply of the Redis protocol, per KiB", variants: of_resp };

const SHORT: &[u8] = b"GET /index.html HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nA: 1234\r\n\r\n";

const REQUEST: &[u8] = b"GET /wp-content/uploads/2010/03/hello-kitty-darth-vader-pink.jpg HTTP/1.1\r\n\
Host: www.kittyhell.com\r\n\
User-Agent: Mozilla/5.0 (Macintosh; U; Intel Mac OS X 10.6; ja-JP-mac; rv:1.9.2.3) Gecko/20100401 Firefox/3.6.3 Pathtraq/0.9\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
Accept-Language: ja,en-us;q=0.7,en;q=0.3\r\n\
Accept-Encoding: gzip,deflate\r\n\
Accept-Charset: Shift_JIS,utf-8;q=0.7,*;q=0.7\r\n\
Keep-Alive: 115\r\n\
Connection: keep-alive\r\n\
Cookie: wp_ozh_wsa_visits=2; wp_ozh_wsa_visit_lasttime=xxxxxxxxxx; __utma=xxxxxxxxx.xxxxxxxxxx.xxxxxxxxxx.xxxxxxxxxx.xxxxxxxxxx.x; \
__utmz=xxxxxxxxx.xxxxxxxxxx.x.x.utmccn=(referral)|utmcsr=reader.livedoor.com|utmcct=/reader/|utmcmd=referral\r\n\r\n";

const FIELDS: usize = 9;

fn of_http() -> Vec<Variant> {
    let http = |name: &str| Variant::new(name, "request", 1);
    vec![
        http("whole")
            .add(SEGUE, each(|| direct(&mut Input::of(black_box(REQUEST)))))
            .add("segue, pushed", each(|| pushed(REQUEST.len())))
            .add("callbacks", each(|| called(REQUEST.len())))
            .add("httparse", each(|| others::by_httparse(black_box(REQUEST)).expect("it is whole")))
            .add("nom", each(|| others::by_nom(black_box(REQUEST)).expect("it is whole")))
            .add("winnow", each(|| others::by_winnow(black_box(REQUEST)).expect("it is whole"))),
        http("a head of 70 bytes")
            .add(SEGUE, short(|| direct(&mut Input::of(black_box(SHORT)))))
            .add("httparse", short(|| others::by_httparse(black_box(SHORT)).expect("it is whole")))
            .add("nom", short(|| others::by_nom(black_box(SHORT)).expect("it is whole")))
            .add("winnow", short(|| others::by_winnow(black_box(SHORT)).expect("it is whole"))),
        http("byte by byte")
            .add(SEGUE, each(|| pushed(1)))
            .add("callbacks", each(|| called(1)))
            .add("httparse", each(|| again(others::by_httparse)))
            .add("winnow", each(|| again(others::by_partial_winnow))),
        http("whole, allocated")
            .in_bytes()
            .add(SEGUE, allocated(|| direct(&mut Input::of(black_box(REQUEST)))))
            .add("segue, pushed", allocated(|| pushed(REQUEST.len())))
            .add("callbacks", allocated(|| called(REQUEST.len())))
            .add("nom", allocated(|| others::by_nom(black_box(REQUEST)).expect("it is whole")))
            .add("winnow", allocated(|| others::by_winnow(black_box(REQUEST)).expect("it is whole")))
            .absent("httparse", "it allocates nothing"),
        http("byte by byte, allocated")
            .in_bytes()
            .add(SEGUE, allocated(|| pushed(1)))
            .add("callbacks", allocated(|| called(1)))
            .add("winnow", allocated(|| again(others::by_partial_winnow))),
    ]
}

/// Runs it once for all.
fn allocated(parse: impl Fn() -> usize) -> impl FnMut(u64) -> Span {
    move |_| {
        // The first one makes what stays.
        parse();
        let watch = Instant::now();
        let bytes = counted(|| assert_eq!(black_box(parse()), FIELDS)).bytes;
        Span::of_bytes(1, bytes, watch.elapsed())
    }
}

/// Runs it so often, and looks at the number of fields that it finds.
fn each(parse: impl Fn() -> usize) -> impl FnMut(u64) -> Span {
    fields_of(parse, FIELDS)
}

fn short(parse: impl Fn() -> usize) -> impl FnMut(u64) -> Span {
    fields_of(parse, 3)
}

fn fields_of(parse: impl Fn() -> usize, fields: usize) -> impl FnMut(u64) -> Span {
    move |n| {
        let watch = Stopwatch::start();
        (0..n).for_each(|_| assert_eq!(black_box(parse()), fields));
        watch.stop(n)
    }
}

fn direct<S: Refill>(input: &mut Input<S>) -> usize {
    // As many as httparse has room for.
    let mut fields = Vec::with_capacity(32);
    let line = http::head(input, &mut fields).expect("it is a head");
    black_box(line);
    fields.len()
}

fn pushed(length: usize) -> usize {
    let mut machine = push(|feed: &mut Feed| direct(&mut Input::over(feed)));
    let mut pieces = black_box(REQUEST).chunks(length);
    let done = pieces.find_map(|piece| match machine.feed(piece) {
        Fed::NeedMore => None,
        Fed::Done { value, .. } => Some(value),
    });
    done.expect("it is whole")
}

/// A request in callback style.
#[derive(Clone)]
struct Request {
    line: (Vec<u8>, Vec<u8>),
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Its parser is made once, as a program would.
fn in_callbacks() -> Parser<Request, Request> {
    let blank = || byte(b' ');
    let line_end = || byte(b'\r').before(byte(b'\n'));
    let version =
        |letters: &[u8]| letters.iter().map(|letter| byte(*letter)).reduce(Parser::before).expect("some letters");
    let target = take_while(|byte| byte > b' ').followed_by(blank());
    let line = take_while(is_of_token)
        .followed_by(blank())
        .and_then(move |method| target.clone().and_then(move |target| Parser::of((method.clone(), target))));
    let value = byte(b':').before(blank()).before(take_while(|byte| byte >= b' ')).followed_by(line_end());
    let field = take_while(is_of_token)
        .and_then(move |name| value.clone().and_then(move |value| Parser::of((name.clone(), value))));
    let fields = field.until(b'\r').followed_by(line_end());
    line.followed_by(version(b"HTTP/1.1"))
        .followed_by(line_end())
        .and_then(move |line| fields.clone().and_then(move |fields| Parser::of(Request { line: line.clone(), fields })))
}

fn called(length: usize) -> usize {
    thread_local! {
        static PARSER: Parser<Request, Request> = in_callbacks();
    }
    let mut pieces = black_box(REQUEST).chunks(length);
    let mut step = PARSER.with(|parser| parser.begin(pieces.next().expect("there are some")));
    loop {
        step = match step {
            Step::Done(request, taken) => {
                assert_eq!(taken, REQUEST.len());
                black_box(&request.line);
                return black_box(request.fields).len();
            }
            Step::Failed => panic!("it is a head"),
            more @ Step::More(..) => more.feed(pieces.next().expect("it is whole")),
        }
    }
}

/// A parser that is given all that has come, until that is whole.
fn again(parse: fn(&[u8]) -> Option<usize>) -> usize {
    (1..=REQUEST.len()).find_map(|length| parse(black_box(&REQUEST[..length]))).expect("it is whole")
}

fn of_json() -> Vec<Variant> {
    let segue = |input: &[u8]| drop(black_box(json::value(&mut Input::of(input)).expect("it is JSON")));
    let serde_json =
        |input: &[u8]| drop(black_box(serde_json::from_slice::<serde_json::Value>(input).expect("it is JSON")));
    let winnow = |input: &[u8]| drop(black_box(others::json_by_winnow(input)));
    let pushed = |input: &[u8]| {
        let mut machine = push(|feed: &mut Feed| json::document(&mut Input::over(feed)).expect("it is JSON"));
        input.chunks(4096).for_each(|piece| assert!(matches!(machine.feed(piece), Fed::NeedMore)));
        drop(black_box(machine.finish()));
    };
    vec![
        Variant::new("records of a shop", "KiB", 1)
            .add(SEGUE, kibibytes(segue))
            .add("segue, pushed by 4 KiB", kibibytes(pushed))
            .add("serde_json", kibibytes(serde_json))
            .add("winnow", kibibytes(winnow)),
    ]
}

fn of_csv() -> Vec<Variant> {
    let segue = |bytes: &[u8]| {
        let (mut input, mut record) = (Input::of(bytes), csv_grammar::Record::default());
        while csv_grammar::record(&mut input, &mut record).expect("it is a table") {
            black_box(&record);
        }
    };
    let csv = |bytes: &[u8]| {
        let (mut reader, mut record) = (csv::Reader::from_reader(bytes), csv::ByteRecord::new());
        while reader.read_byte_record(&mut record).expect("it is a table") {
            black_box(&record);
        }
    };
    let input = super::push_crates::csv;
    vec![Variant::new("records of a shop", "KiB", 1).add(SEGUE, whole(input, segue)).add("csv", whole(input, csv))]
}

/// Records of a store, as the reply to a search.
fn replies() -> Vec<u8> {
    let record = |number: usize| {
        format!("*4\r\n:{number}\r\n$12\r\nkey:{number:08}\r\n$-1\r\n*2\r\n+a state\r\n$20\r\n{number:020}\r\n")
    };
    ["*3000\r\n".to_owned()].into_iter().chain((0..3000).map(record)).collect::<String>().into_bytes()
}

fn of_resp() -> Vec<Variant> {
    let segue = |bytes: &[u8]| drop(black_box(resp::reply(&mut Input::of(bytes)).expect("it is a reply")));
    let redis = |bytes: &[u8]| drop(black_box(redis::parse_redis_value(bytes).expect("it is a reply")));
    vec![Variant::new("records", "KiB", 1).add(SEGUE, whole(replies, segue)).add("redis", whole(replies, redis))]
}

fn kibibytes(parse: impl Fn(&[u8])) -> impl FnMut(u64) -> Span {
    whole(super::push_crates::json, parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Allocations, and their bytes.
    fn allocations(parse: fn() -> usize) -> (u64, u64) {
        // The first one makes what stays.
        parse();
        let counts = counted(|| assert_eq!(parse(), FIELDS));
        (counts.number, counts.bytes)
    }

    /// The second half of the paper's table: words allocated by callbacks, and by effects.
    #[test]
    fn direct_style_has_a_tenth_of_the_allocations_of_callbacks() {
        let direct = allocations(|| direct(&mut Input::of(REQUEST)));
        let (whole, called_whole) = (allocations(|| pushed(REQUEST.len())), allocations(|| called(REQUEST.len())));
        let (bytes, called_bytes) = (allocations(|| pushed(1)), allocations(|| called(1)));
        println!("allocations and bytes of a request: {direct:?} over the slice");
        println!("whole: {whole:?} pushed, {called_whole:?} by callbacks");
        println!("byte by byte: {bytes:?} pushed, {called_bytes:?} by callbacks");
        for (ours, callbacks) in [(direct, called_whole), (whole, called_whole), (bytes, called_bytes)] {
            assert!(ours.0 > 0 && 10 * ours.0 <= callbacks.0, "{ours:?} against {callbacks:?}");
        }
    }
}
