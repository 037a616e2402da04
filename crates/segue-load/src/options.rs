//! The command line. Used by all of the program.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::*;
use segue_http::bytes::Bytes;
use segue_http::http::header::{HeaderMap, HeaderName, HeaderValue};
use segue_http::http::{Method, StatusCode, Uri};

const HELP: &str = "\
Asks an HTTP/1.1 server on a fixed schedule and checks each reply. Latency is counted from the
instant at which a request was due; one that finds all connections busy waits, and its wait counts.

The connections are opened before the first request is due. For ws:// and wss:// a request is a
message, of the bytes of --body, and its reply is the same message.

Usage: segue-load URL --rate R [OPTIONS]

      --rate R              requests a second, or `max`: each connection asks again at once
      --connections C       connections, all threads together [16]
      --duration D          how long, as 10s, 500ms or 2m [10s]
      --threads N           threads that ask [1]
      --pipeline P          the most requests that one connection sends before their replies [1]
      --method M            [GET, and POST with a body]
      --header 'NAME: VALUE'  a header of each request; may be given several times
      --body FILE           the body of each request
      --expect-status S     the status of a right reply [200]
      --expect-body FILE    the body of a right reply [that of the first one]
      --expect-length N     a right reply has any body of this length
      --timeout D           how long a reply may take from its sending [10s]
      --insecure            for https and wss: any certificate is taken
      --progress            a line a second on stderr, also if that is no terminal
      --json                the result as JSON
      --svg FILE            a picture of latency by percentile
      --help                print this

Ctrl-C ends early and prints the result. The exit status is 1 if a reply was wrong, and 2 if there
is no result.";

/// The body that is right.
pub enum Body {
    /// The first reply's.
    First,
    /// These bytes.
    Bytes(Vec<u8>),
    /// Any of this length.
    Length(u64),
}

/// The options, checked.
pub struct Options {
    pub uri: Uri,
    /// `None` is as fast as can be.
    pub rate: Option<f64>,
    pub connections: usize,
    pub duration: Duration,
    pub threads: usize,
    pub pipeline: usize,
    pub method: Method,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub status: StatusCode,
    pub expected: Body,
    pub timeout: Duration,
    pub insecure: bool,
    pub progress: bool,
    pub json: bool,
    pub svg: Option<PathBuf>,
}

impl Options {
    /// A request is a message.
    pub(crate) fn is_web_socket(&self) -> bool {
        matches!(self.uri.scheme_str(), Some("ws" | "wss"))
    }
}

/// The options of the command line; `None` if it asks for help.
pub(crate) fn parse() -> Result<Option<Options>, lexopt::Error> {
    let (mut uri, mut rate, mut method) = (None, None, None);
    let mut options = Options {
        uri: Uri::default(),
        rate: None,
        connections: 16,
        duration: Duration::from_secs(10),
        threads: 1,
        pipeline: 1,
        method: Method::GET,
        headers: HeaderMap::new(),
        body: Bytes::new(),
        status: StatusCode::OK,
        expected: Body::First,
        timeout: Duration::from_secs(10),
        insecure: false,
        progress: false,
        json: false,
        svg: None,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("rate") => rate = Some(parser.value()?.parse_with(parse_rate)?),
            Long("connections") => options.connections = parser.value()?.parse_with(parse_count)?,
            Long("duration") => options.duration = parser.value()?.parse_with(parse_time)?,
            Long("threads") => options.threads = parser.value()?.parse_with(parse_count)?,
            Long("pipeline") => options.pipeline = parser.value()?.parse_with(parse_count)?,
            Long("method") => method = Some(parser.value()?.parse()?),
            Long("header") => {
                let (name, value) = parser.value()?.parse_with(parse_header)?;
                options.headers.append(name, value);
            }
            Long("body") => {
                options.body = read(parser.value()?)?.into();
                method.get_or_insert(Method::POST);
            }
            Long("expect-status") => options.status = parser.value()?.parse()?,
            Long("expect-body") => options.expected = Body::Bytes(read(parser.value()?)?),
            Long("expect-length") => options.expected = Body::Length(parser.value()?.parse()?),
            Long("timeout") => options.timeout = parser.value()?.parse_with(parse_time)?,
            Long("insecure") => options.insecure = true,
            Long("progress") => options.progress = true,
            Long("json") => options.json = true,
            Long("svg") => options.svg = Some(parser.value()?.into()),
            Long("help") | Short('h') => {
                println!("{HELP}");
                return Ok(None);
            }
            Value(value) if uri.is_none() => uri = Some(value.parse_with(parse_uri)?),
            _ => return Err(argument.unexpected()),
        }
    }
    options.uri = uri.ok_or("a URL is missing")?;
    options.rate = rate.ok_or("--rate is missing: requests a second, or `max`")?;
    options.method = method.unwrap_or(Method::GET);
    if options.threads > options.connections {
        return Err("each thread needs a connection: more --connections or fewer --threads".into());
    }
    if matches!(options.uri.scheme_str(), Some("https" | "wss")) && !options.insecure {
        return Err("https and wss need --insecure: certificates are not checked here".into());
    }
    Ok(Some(options))
}

fn read(path: OsString) -> Result<Vec<u8>, lexopt::Error> {
    std::fs::read(&path).map_err(|error| format!("can't read {}: {error}", path.to_string_lossy()).into())
}

fn parse_uri(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|error| format!("{error}"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https" | "ws" | "wss"), Some(host)) if !host.is_empty() => Ok(uri),
        _ => Err("not a URL such as http://localhost:8080/".to_owned()),
    }
}

fn parse_rate(text: &str) -> Result<Option<f64>, &'static str> {
    match text {
        "max" => Ok(None),
        _ => match text.parse() {
            Ok(rate) if (1e-3..=1e9).contains(&rate) => Ok(Some(rate)),
            _ => Err("not a number of requests a second, nor `max`"),
        },
    }
}

fn parse_count(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|count| (1..=1 << 20).contains(count)).ok_or("not a number from 1 to 1,048,576")
}

fn parse_time(text: &str) -> Result<Duration, &'static str> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return Err("not a time such as 10s, 500ms or 2m"),
    };
    let seconds = digits.parse().ok().map(|count: f64| count * unit);
    seconds
        .filter(|seconds| (1e-3..=1e6).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or("not a time such as 10s, 500ms or 2m")
}

fn parse_header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("a header is NAME: VALUE")?;
    let name = name.parse().map_err(|error| format!("{error}"))?;
    Ok((name, value.trim().parse().map_err(|error| format!("{error}"))?))
}
