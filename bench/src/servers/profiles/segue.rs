//! The server of `segue-http` with its default limits, over TLS, and with WebSockets.

use super::{CHAIN, KEY, Profile, folder, items};
use crate::servers::{ANYWHERE, announce, fibers};
use segue_http::{Files, IntoResponse, Json, Request, Response, Server, tls, websocket};
use segue_io::Backend;
use std::io;

pub fn serve(profile: Profile, backend: Backend) -> io::Result<()> {
    fibers::segue_with(backend, || {
        let listener = segue::net::TcpListener::bind(ANYWHERE)?;
        announce(listener.local_addr())?;
        if profile == Profile::WebSocket {
            return Server::new(echo).serve(listener);
        }
        let listener = tls::Listener::new(listener, tls::server_config(CHAIN, KEY)?)?;
        match profile {
            Profile::File => {
                let files = Files::new(folder()?)?;
                Server::new(move |request: &mut Request<'_>| files.respond(request)).serve(listener)
            }
            _ => Server::new(|_| Json(items()).into_response()).serve(listener),
        }
    })?
}

fn echo(request: &mut Request<'_>) -> Response {
    websocket::accept(request, |socket| {
        while let Some(message) = socket.recv()? {
            socket.send(message)?;
        }
        Ok(())
    })
}
