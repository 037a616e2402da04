//! Servers of profiles beside the static page: JSON over TLS, a static file over TLS, an echo over
//! WebSockets. Whole servers, each as its documentation writes a service, on one worker. Used by
//! the contest `web`.
//!
//! All of TLS have one certificate, and rustls with ring, but for Go and nginx, which have their
//! own. The file is in the folder of the server's process.

mod actix;
mod axum;
mod segue;

use super::process::FOLDER;
use super::{fibers, nginx};
use serde::Serialize;
use std::io;
use std::path::PathBuf;

/// What a profile's servers do.
#[derive(Clone, Copy, PartialEq)]
pub enum Profile {
    /// An object of ten items, serialised for each request.
    Json,
    /// A file of 30,000 bytes.
    File,
    /// Messages come back.
    WebSocket,
}

pub const ALL: [Profile; 3] = [Profile::Json, Profile::File, Profile::WebSocket];

type Serve = fn(Profile) -> io::Result<()>;

const SERVERS: &[(&str, Serve)] = &[
    ("segue, server, ring", |profile| segue::serve(profile, fibers::RING)),
    ("segue, server, epoll", |profile| segue::serve(profile, fibers::EPOLL)),
    ("actix-web", actix::serve),
    ("axum", axum::serve),
    ("nginx", |_| nginx::serve_secured()),
];

impl Profile {
    /// The word on command lines, Go's as well.
    pub fn word(self) -> &'static str {
        match self {
            Profile::Json => "json-tls",
            Profile::File => "file-tls",
            Profile::WebSocket => "websocket",
        }
    }

    pub fn path(self) -> &'static str {
        match self {
            Profile::Json => "/json",
            Profile::File => "/page.js",
            Profile::WebSocket => "/echo",
        }
    }

    /// Those who take part. nginx has no JSON of its own, and Go's library no WebSockets.
    pub fn servers(self) -> Vec<&'static str> {
        let others = match self {
            Profile::WebSocket => &[][..],
            Profile::Json | Profile::File => &["Go"],
        };
        let of = |who: &&str| *who != "nginx" || self == Profile::File;
        SERVERS.iter().map(|(who, _)| *who).filter(of).chain(others.iter().copied()).collect()
    }

    /// The right body.
    pub fn body(self) -> Vec<u8> {
        match self {
            Profile::Json => serde_json::to_vec(&items()).expect("it is JSON"),
            Profile::File => b"// A line of a static file..\n".repeat(1_035)[..30_000].to_vec(),
            Profile::WebSocket => b"a message of some bytes".to_vec(),
        }
    }
}

/// Is such a server until the input ends; `None` if the service is another one.
pub fn serve(service: &str, who: &str) -> Option<Result<(), String>> {
    let profile = ALL.into_iter().find(|profile| profile.word() == service)?;
    let Some((_, serve)) = SERVERS.iter().find(|(name, _)| *name == who) else {
        return Some(Err(format!("no server `{who}`")));
    };
    super::until_the_input_ends();
    Some(serve(profile).map_err(|error| format!("{who}: {error}")))
}

/// Writes the files of a service's servers into the folder of their process.
pub fn prepare(service: &str, folder: &std::path::Path) -> io::Result<()> {
    if !ALL.iter().any(|profile| profile.word() == service) {
        return Ok(());
    }
    std::fs::write(folder.join("chain.pem"), CHAIN)?;
    std::fs::write(folder.join("key.pem"), KEY)?;
    std::fs::write(folder.join("page.js"), Profile::File.body())
}

fn folder() -> io::Result<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// A certificate for `localhost` that only tests trust.
const CHAIN: &[u8] = include_bytes!("../../../../crates/segue-http/tests/tls/fixtures/server.pem");
const KEY: &[u8] = include_bytes!("../../../../crates/segue-http/tests/tls/fixtures/server.key");

#[derive(Serialize)]
struct Item {
    id: u32,
    name: String,
    price: f64,
    tags: [&'static str; 2],
}

#[derive(Serialize)]
struct Items {
    count: usize,
    items: Vec<Item>,
}

/// The object, made anew for each request.
fn items() -> Items {
    let item = |id: u32| Item { id, name: format!("item {id}"), price: f64::from(id) * 1.25, tags: ["new", "blue"] };
    let items: Vec<_> = (1..=10).map(item).collect();
    Items { count: items.len(), items }
}

/// rustls' configuration, for those who take one.
fn config() -> io::Result<rustls::ServerConfig> {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let chain = CertificateDer::pem_slice_iter(CHAIN).collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
    let key = PrivateKeyDer::from_pem_slice(KEY).map_err(io::Error::other)?;
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(io::Error::other)?.with_no_client_auth();
    builder.with_single_cert(chain, key).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bodies_are_what_their_profiles_say() {
        assert_eq!(Profile::File.body().len(), 30_000);
        let json: serde_json::Value = serde_json::from_slice(&Profile::Json.body()).expect("it is JSON");
        assert_eq!(json["items"].as_array().map(Vec::len), Some(10));
        for profile in ALL {
            assert!(profile.servers().iter().filter(|who| who.starts_with("segue")).count() == 2);
        }
    }
}
