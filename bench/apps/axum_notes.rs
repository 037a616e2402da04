//! The service of `examples/notes_app.rs` in axum, with the crates that axum's users take:
//! tower-http for files and the access log, axum-server for TLS and the grace at the end. The page
//! `docs/web.md` compares the two.
//!
//! `axum_notes ADDRESS ADDRESS` serves HTTP at the first address and HTTPS at the second, until
//! Ctrl-C. The visitor of `notes_app` finds the same answers here.

use axum::Router;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{DefaultBodyLimit, Form, Json, Path, Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum_server::{Handle, tls_rustls::RustlsConfig};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{broadcast, watch};
use tower_http::services::ServeDir;
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::{DefaultMakeSpan, DefaultOnResponse, TraceLayer};
use tracing::Level;

const LONGEST: usize = 1_000;
/// A certificate for `localhost` that only tests trust.
const CHAIN: &[u8] = include_bytes!("../../crates/segue-http/tests/tls/fixtures/server.pem");
const KEY: &[u8] = include_bytes!("../../crates/segue-http/tests/tls/fixtures/server.key");

#[derive(Clone, Deserialize, Serialize)]
struct Note {
    #[serde(skip_deserializing)]
    id: u64,
    text: String,
}

#[derive(Deserialize)]
struct Search {
    #[serde(default)]
    about: String,
}

#[derive(Clone)]
struct Notes {
    kept: Arc<Mutex<BTreeMap<u64, Note>>>,
    news: broadcast::Sender<Arc<str>>,
    /// Changes at the shutdown, of which the server tells no WebSocket.
    ending: watch::Receiver<()>,
}

type Refused = (StatusCode, String);

impl Notes {
    fn keep(&self, text: String) -> Result<Note, Refused> {
        if text.trim().is_empty() || text.len() > LONGEST {
            return Err((StatusCode::UNPROCESSABLE_ENTITY, format!("a note has 1 to {LONGEST} bytes")));
        }
        let mut kept = self.kept.lock().unwrap();
        let id = kept.last_key_value().map_or(1, |(id, _)| id + 1);
        let note = Note { id, text };
        kept.insert(id, note.clone());
        let news =
            serde_json::to_string(&note).map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        // It fails if no page is open.
        let _ = self.news.send(news.into());
        Ok(note)
    }
}

/// All of them, or those that have the text of the query in them.
async fn list(State(notes): State<Notes>, Query(search): Query<Search>) -> Json<Vec<Note>> {
    let kept = notes.kept.lock().unwrap();
    Json(kept.values().filter(|note| note.text.contains(&search.about)).cloned().collect())
}

async fn create(State(notes): State<Notes>, Json(new): Json<Note>) -> Result<Response, Refused> {
    let note = notes.keep(new.text)?;
    let place = (header::LOCATION, format!("/api/notes/{}", note.id));
    Ok((StatusCode::CREATED, [place], Json(note)).into_response())
}

async fn show(State(notes): State<Notes>, Path(id): Path<u64>) -> Result<Json<Note>, Refused> {
    Ok(Json(notes.kept.lock().unwrap().get(&id).cloned().ok_or_else(|| missing(id))?))
}

async fn delete(State(notes): State<Notes>, Path(id): Path<u64>) -> Result<StatusCode, Refused> {
    notes.kept.lock().unwrap().remove(&id).ok_or_else(|| missing(id))?;
    Ok(StatusCode::NO_CONTENT)
}

/// A note of the page's form. A browser that loads the page again does not send it again.
async fn submit(State(notes): State<Notes>, Form(new): Form<Note>) -> Result<Redirect, Refused> {
    notes.keep(new.text)?;
    Ok(Redirect::to("/"))
}

/// Tells a page each note from now on.
async fn tell(State(notes): State<Notes>, upgrade: WebSocketUpgrade) -> Response {
    let news = notes.news.subscribe();
    upgrade.max_message_size(1 << 20).on_upgrade(move |page| async move {
        // Nobody is told of an error of the connection.
        let _ = talk(page, news, notes.ending).await;
    })
}

async fn talk(
    mut page: WebSocket,
    mut news: broadcast::Receiver<Arc<str>>,
    mut ending: watch::Receiver<()>,
) -> Result<(), axum::Error> {
    let (code, reason) = loop {
        tokio::select! {
            message = page.recv() => match message.transpose()? {
                Some(Message::Ping(_) | Message::Pong(_)) => {}
                Some(Message::Close(_)) | None => return Ok(()),
                Some(_) => break (1008, "a page only listens".to_owned()),
            },
            note = news.recv() => match note {
                Ok(note) => page.send(Message::Text((&*note).into())).await?,
                Err(late) => break (1013, late.to_string()),
            },
            _ = ending.changed() => break (1001, String::new()),
        }
    };
    page.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await
}

fn missing(id: u64) -> Refused {
    (StatusCode::NOT_FOUND, format!("there is no note {id}"))
}

fn routes(notes: Notes) -> Router {
    let files = ServeDir::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/notes_app"));
    let nosniff = HeaderValue::from_static("nosniff");
    let log = TraceLayer::new_for_http()
        .make_span_with(DefaultMakeSpan::new().level(Level::INFO))
        .on_response(DefaultOnResponse::new().level(Level::INFO));
    Router::new()
        .route("/notes", post(submit))
        .route("/news", get(tell))
        .route("/health", get(async || "ok"))
        .route("/api/notes", get(list).post(create))
        .route("/api/notes/{id}", get(show).delete(delete))
        .fallback_service(files)
        .layer(DefaultBodyLimit::max(64 << 10))
        .layer(SetResponseHeaderLayer::overriding(header::X_CONTENT_TYPE_OPTIONS, nosniff))
        .layer(TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, Duration::from_secs(30)))
        .layer(log)
        .with_state(notes)
}

fn listen(address: &str) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[tokio::main]
async fn main() -> io::Result<()> {
    tracing_subscriber::fmt::init();
    rustls::crypto::ring::default_provider().install_default().expect("the first provider");
    let args: Vec<_> = std::env::args().skip(1).collect();
    let address = |n: usize| args.get(n).map_or("127.0.0.1:0", String::as_str);
    let (plain, secured) = (listen(address(0))?, listen(address(1))?);
    println!("the notes are at http://{} and https://{}", plain.local_addr()?, secured.local_addr()?);
    let (end, ending) = watch::channel(());
    let site = routes(Notes { kept: Arc::default(), news: broadcast::channel(256).0, ending }).into_make_service();
    let handle = Handle::<SocketAddr>::new();
    let config = RustlsConfig::from_pem(CHAIN.to_vec(), KEY.to_vec()).await?;
    tokio::spawn({
        let handle = handle.clone();
        async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                end.send_replace(());
                handle.graceful_shutdown(Some(Duration::from_secs(5)));
            }
        }
    });
    tokio::try_join!(
        axum_server::from_tcp(plain)?.handle(handle.clone()).serve(site.clone()),
        axum_server::from_tcp_rustls(secured, config)?.handle(handle).serve(site),
    )?;
    Ok(())
}
