//! A web service: routes, JSON, a form, files, a WebSocket that tells each new note to all open
//! pages, HTTP and HTTPS, limits, an access log, and an orderly end on Ctrl-C.
//!
//! `notes_app ADDRESS ADDRESS` serves HTTP at the first and HTTPS at the second. Without addresses,
//! a visitor tries everything out and presses the keys; with `visit` before them, at another site.

use segue::channel::broadcast::{self, Sender};
use segue::net::{TcpListener, TcpStream};
use segue::process::{self, Command};
use segue::sync::Mutex;
use segue::{Either, signal, try_scope};
use segue_http::http::{self, StatusCode, header};
use segue_http::{Config, Files, IntoResponse, Json, Listeners, Params, Redirect, Refusal, Request};
use segue_http::{Response, Router, Server, Transport, client, tls, trace, websocket};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const LONGEST: usize = 1_000;
/// A certificate for `localhost` that only tests trust.
const CHAIN: &[u8] = include_bytes!("../crates/segue-http/tests/tls/fixtures/server.pem");
const KEY: &[u8] = include_bytes!("../crates/segue-http/tests/tls/fixtures/server.key");

#[derive(Clone, Deserialize, Serialize)]
struct Note {
    #[serde(skip_deserializing)]
    id: u64,
    text: String,
}

struct Notes {
    kept: Mutex<BTreeMap<u64, Note>>,
    news: Sender<Arc<str>>,
}

impl Notes {
    fn keep(&self, text: String) -> io::Result<Note> {
        if text.trim().is_empty() || text.len() > LONGEST {
            Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, format!("a note has 1 to {LONGEST} bytes")))?;
        }
        let mut kept = self.kept.lock()?;
        let id = kept.last_key_value().map_or(1, |(id, _)| id + 1);
        let note = Note { id, text };
        kept.insert(id, note.clone());
        // It fails if no page is open.
        let _ = self.news.send(serde_json::to_string(&note)?.into());
        Ok(note)
    }

    /// All of them, or those that have the text of the query in them.
    fn list(&self, request: &Request<'_>) -> io::Result<Json<Vec<Note>>> {
        let query = Params::query(request)?;
        let about = query.get("about").unwrap_or_default();
        Ok(Json(self.kept.lock()?.values().filter(|note| note.text.contains(about)).cloned().collect()))
    }

    fn create(&self, request: &mut Request<'_>) -> io::Result<Response> {
        let new: Note = Json::read(request)?;
        let note = self.keep(new.text)?;
        let place = (header::LOCATION, format!("/api/notes/{}", note.id));
        Ok((StatusCode::CREATED, [place], Json(note)).into_response())
    }

    fn show(&self, request: &Request<'_>) -> io::Result<Json<Note>> {
        let id = Params::of(request).parse("id")?;
        Ok(Json(self.kept.lock()?.get(&id).cloned().ok_or_else(|| missing(id))?))
    }

    fn delete(&self, request: &Request<'_>) -> io::Result<StatusCode> {
        let id = Params::of(request).parse("id")?;
        self.kept.lock()?.remove(&id).ok_or_else(|| missing(id))?;
        Ok(StatusCode::NO_CONTENT)
    }

    /// A note of the page's form. A browser that loads the page again does not send it again.
    fn submit(&self, request: &mut Request<'_>) -> io::Result<Redirect> {
        self.keep(Params::form(request)?.parse("text")?)?;
        Ok(Redirect::to("/"))
    }

    /// Tells a page each note from now on.
    fn tell(&self, request: &Request<'_>) -> Response {
        let mut news = self.news.subscribe();
        websocket::accept(request, move |page| {
            loop {
                match page.recv_or(news.recv_source())? {
                    Either::Left(Some(_)) => return page.close(1008, "a page only listens"),
                    Either::Left(None) => return Ok(()),
                    Either::Right(Ok(note)) => page.send(&*note)?,
                    Either::Right(Err(late)) => return page.close(1013, &late.to_string()),
                }
            }
        })
    }
}

fn missing(id: u64) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, format!("there is no note {id}"))
}

fn routes<'s>(notes: &'s Notes, files: &'s Files) -> Router<'s> {
    let api = Router::new()
        .get("", |request| notes.list(request))
        .post("", |request| notes.create(request))
        .get("/{id}", |request| notes.show(request))
        .delete("/{id}", |request| notes.delete(request));
    Router::new()
        .around(|request, next| ([(header::X_CONTENT_TYPE_OPTIONS, "nosniff")], next.run(request)))
        .post("/notes", |request| notes.submit(request))
        .get("/news", |request| notes.tell(request))
        .get("/health", |_| "ok")
        .nest("/api/notes", api)
        .fallback(|request| files.respond(request))
}

/// Serves the notes until Ctrl-C; `visit` runs beside.
fn serve(listeners: Listeners<'_>, visit: impl FnOnce() -> io::Result<()> + Send) -> io::Result<()> {
    let notes = Notes { kept: Mutex::default(), news: broadcast::channel(256).0 };
    let files = Files::new(concat!(env!("CARGO_MANIFEST_DIR"), "/notes_app"))?;
    let router = routes(&notes, &files);
    let limits = Config::new().max_body_bytes(64 << 10).request_timeout(Duration::from_secs(30));
    let server = Server::new(|request| router.handle(request)).config(limits).observe(trace::access_log());
    let (shutdown, stop) = (server.shutdown_handle(), signal::ctrl_c()?);
    try_scope(|s| {
        s.spawn_try(move || -> io::Result<()> {
            stop.recv_source().wait()??;
            shutdown.shutdown_within(Duration::from_secs(5));
            Ok(())
        });
        s.spawn_try(visit);
        server.serve_all(listeners)
    })?;
    Ok(())
}

/// Sends requests over one connection, and compares the answers.
fn ask(stream: impl Transport + 'static) -> io::Result<()> {
    let mut site = client::Connection::new(stream);
    let (form, json) = ("application/x-www-form-urlencoded", "application/json");
    for (method, path, content_type, body, status, answer) in [
        ("GET", "/", "", "", 200, "<!doctype html>"),
        ("GET", "/style.css", "", "", 200, "body {"),
        ("POST", "/notes", form, "text=buy+bread+%26+milk", 303, ""),
        ("POST", "/notes", form, "text=", 422, "a note has 1 to 1000 bytes"),
        ("POST", "/api/notes", json, r#"{"text": "call home"}"#, 201, r#"{"id":2,"text":"call home"}"#),
        ("POST", "/api/notes", json, r#"{"text": "#, 400, ""),
        ("GET", "/api/notes?about=milk", "", "", 200, r#"[{"id":1,"text":"buy bread & milk"}]"#),
        ("DELETE", "/api/notes/1", "", "", 204, ""),
        ("GET", "/api/notes/1", "", "", 404, "there is no note 1"),
        ("GET", "/api/notes", "", "", 200, r#"[{"id":2,"text":"call home"}]"#),
    ] {
        let request = http::Request::builder().method(method).uri(format!("https://localhost{path}"));
        let request = request.header(header::CONTENT_TYPE, content_type).body(body).map_err(io::Error::other)?;
        let response = site.request(request)?;
        let (said, sniff) = (response.status(), response.headers().contains_key(header::X_CONTENT_TYPE_OPTIONS));
        let text = io::read_to_string(response.into_body())?;
        assert!(said == status && sniff && text.starts_with(answer), "{method} {path}: {said}, {text}");
    }
    Ok(())
}

/// Listens for news, as an open page does, and asks for all else over HTTPS.
fn visit(plain: SocketAddr, secured: SocketAddr) -> io::Result<()> {
    let mut page = TcpStream::connect(plain)?;
    write!(page, "GET /news HTTP/1.1\r\nHost: {plain}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n")?;
    write!(page, "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")?;
    // The first byte of the answer: from now on the page is told.
    page.read_exact(&mut [0])?;
    let (config, name) = (Arc::new(tls::client_config(CHAIN)?), "localhost".try_into().expect("a name"));
    ask(tls::Stream::connect(TcpStream::connect(secured)?, config, name)?)?;
    let mut heard = Vec::new();
    BufReader::new(page).read_until(b'}', &mut heard)?;
    assert!(heard.ends_with(br#"{"id":1,"text":"buy bread & milk"}"#));
    Ok(())
}

fn main() -> io::Result<()> {
    tracing_subscriber::fmt::init();
    let args: Vec<_> = std::env::args().skip(1).collect();
    segue::run(|| {
        if let [_, plain, secured] = &*args {
            return visit(plain.parse().expect("an address"), secured.parse().expect("an address"));
        }
        let [plain, secured] = [0, 1].map(|n| TcpListener::bind(args.get(n).map_or("127.0.0.1:0", String::as_str)));
        let (plain, secured) = (plain?, secured?);
        let (http, https) = (plain.local_addr()?, secured.local_addr()?);
        println!("the notes are at http://{http} and https://{https}");
        let secured = tls::Listener::new(secured, tls::server_config(CHAIN, KEY)?)?;
        serve(Listeners::new().with(plain).with(secured), || {
            if args.is_empty() {
                visit(http, https)?;
                assert!(process::status(Command::new("sh").args(["-c", "kill -INT $PPID"]))?.success());
            }
            Ok(())
        })
    })
}
