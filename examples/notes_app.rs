//! A web application: a page with a form, notes as JSON for programs, a function around all of it,
//! and an orderly end on Ctrl-C. `notes_app ADDRESS` serves until then; without an address, a
//! visitor tries everything out and presses the keys.

use segue::net::{TcpListener, TcpStream};
use segue::process::{self, Command};
use segue::sync::Mutex;
use segue::{signal, try_scope};
use segue_http::http::{StatusCode, header};
use segue_http::{Html, IntoResponse, Json, Params, Redirect, Refusal, Request, Response, Router, Server};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// How long requests that were begun may take at the end.
const GRACE: Duration = Duration::from_secs(5);
const LONGEST: usize = 1_000;

const PAGE: &str = r#"<!doctype html>
<meta charset="utf-8">
<title>Notes</title>
<form method="post"><input name="text" maxlength="1000" autofocus> <button>Keep</button></form>
<ul id="notes"></ul>
<script>
fetch("/api/notes").then(reply => reply.json()).then(notes => notes.forEach(note => {
    const item = document.createElement("li");
    item.textContent = note.text;
    document.getElementById("notes").append(item);
}));
</script>
"#;

#[derive(Clone, Serialize)]
struct Note {
    id: u64,
    text: String,
}

/// A note as programs send one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewNote {
    text: String,
}

#[derive(Default)]
struct Notes {
    kept: Mutex<BTreeMap<u64, Note>>,
}

impl Notes {
    fn keep(&self, text: String) -> io::Result<Note> {
        if text.trim().is_empty() || text.len() > LONGEST {
            Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, format!("a note has 1 to {LONGEST} bytes")))?;
        }
        let mut kept = self.kept.lock()?;
        let id = kept.last_key_value().map_or(1, |(id, _)| id + 1);
        kept.insert(id, Note { id, text });
        Ok(kept[&id].clone())
    }

    /// All of them, or those that have the text of the query in them.
    fn list(&self, request: &Request<'_>) -> io::Result<Json<Vec<Note>>> {
        let query = Params::query(request)?;
        let about = query.get("about").unwrap_or_default();
        let kept = self.kept.lock()?;
        Ok(Json(kept.values().filter(|note| note.text.contains(about)).cloned().collect()))
    }

    fn create(&self, request: &mut Request<'_>) -> io::Result<Response> {
        let new: NewNote = Json::read(request)?;
        let note = self.keep(new.text)?;
        let place = format!("/api/notes/{}", note.id);
        Ok((StatusCode::CREATED, [(header::LOCATION, place)], Json(note)).into_response())
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
}

fn missing(id: u64) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, format!("there is no note {id}"))
}

fn routes(notes: &Notes) -> Router<'_> {
    let api = Router::new()
        .get("", |request| notes.list(request))
        .post("", |request| notes.create(request))
        .get("/{id}", |request| notes.show(request))
        .delete("/{id}", |request| notes.delete(request));
    Router::new()
        .around(|request, next| -> Response {
            ([(header::X_CONTENT_TYPE_OPTIONS, "nosniff")], next.run(request)).into_response()
        })
        .get("/", |_| Html(PAGE))
        .post("/", |request| notes.submit(request))
        .get("/health", |_| "ok")
        .nest("/api/notes", api)
}

/// Serves the notes until Ctrl-C; `visit` runs beside.
fn serve(listener: TcpListener, visit: impl FnOnce() -> io::Result<()> + Send) -> io::Result<()> {
    let notes = Notes::default();
    let router = routes(&notes);
    let server = Server::new(|request| router.handle(request));
    let (shutdown, stop) = (server.shutdown_handle(), signal::ctrl_c()?);
    try_scope(|s| {
        s.spawn(move || -> io::Result<()> {
            stop.recv_source().wait()??;
            shutdown.shutdown_within(GRACE);
            Ok(())
        });
        s.spawn(visit);
        server.serve(listener)
    })?;
    println!("kept {} notes until the end", notes.kept.lock()?.len());
    Ok(())
}

/// The status line and the body of an answer.
fn ask(site: SocketAddr, request: &str, content_type: &str, body: &str) -> io::Result<(String, String)> {
    let (mut stream, mut reply) = (TcpStream::connect(site)?, String::new());
    let length = body.len();
    write!(stream, "{request} HTTP/1.1\r\nHost: {site}\r\nConnection: close\r\n")?;
    write!(stream, "Content-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}")?;
    stream.read_to_string(&mut reply)?;
    let (head, body) = reply.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    assert!(head.contains("\r\nx-content-type-options: nosniff\r\n"), "{head}");
    Ok((head.lines().next().unwrap_or_default().replace("HTTP/1.1 ", ""), body.to_owned()))
}

fn visit(site: SocketAddr) -> io::Result<()> {
    let (form, json) = ("application/x-www-form-urlencoded", "application/json");
    for (request, content_type, body, status, answer) in [
        ("GET /", "", "", "200 OK", PAGE),
        ("POST /", form, "text=buy+bread+%26+milk", "303 See Other", ""),
        ("POST /", form, "text=", "422 Unprocessable Entity", "a note has 1 to 1000 bytes"),
        ("POST /", form, "txt=oh", "400 Bad Request", "`text` is missing"),
        ("POST /api/notes", json, r#"{"text": "call home"}"#, "201 Created", r#"{"id":2,"text":"call home"}"#),
        ("POST /api/notes", form, "text=a", "415 Unsupported Media Type", "the body has to be of the content type"),
        (
            "POST /api/notes",
            json,
            r#"{"text": "#,
            "400 Bad Request",
            "the body is not the JSON that was expected: line 1",
        ),
        ("GET /api/notes?about=milk", "", "", "200 OK", r#"[{"id":1,"text":"buy bread & milk"}]"#),
        ("DELETE /api/notes/1", "", "", "204 No Content", ""),
        ("GET /api/notes/1", "", "", "404 Not Found", "there is no note 1"),
        ("GET /api/notes/one", "", "", "400 Bad Request", "`id` has a value that is not possible"),
        ("PUT /api/notes/2", "", "", "405 Method Not Allowed", "this path has other methods"),
        ("GET /nothing", "", "", "404 Not Found", "there is nothing here"),
        ("GET /api/notes", "", "", "200 OK", r#"[{"id":2,"text":"call home"}]"#),
    ] {
        let (said, text) = ask(site, request, content_type, body)?;
        println!("{request} {body} -> {said}");
        assert_eq!(said, status, "{text}");
        assert!(text.starts_with(answer) && text.is_empty() == answer.is_empty(), "{text}");
    }
    assert!(process::status(Command::new("sh").args(["-c", "kill -INT $PPID"]))?.success());
    Ok(())
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1);
    segue::run(|| {
        let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0"))?;
        let site = listener.local_addr()?;
        println!("the notes are at http://{site}/");
        serve(listener, move || if address.is_none() { visit(site) } else { Ok(()) })
    })
}
