//! axum on tokio's current-thread runtime, with axum-server for TLS and tower-http for files.

use super::{Profile, config, folder, items};
use crate::servers::{ANYWHERE, announce};
use axum::Router;
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::response::{Json, Response};
use axum::routing::get;
use axum::serve::ListenerExt;
use axum_server::tls_rustls::RustlsConfig;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use tower_http::services::ServeDir;

pub fn serve(profile: Profile) -> io::Result<()> {
    let app = match profile {
        Profile::Json => Router::new().route("/json", get(async || Json(items()))),
        Profile::File => Router::new().fallback_service(ServeDir::new(folder()?)),
        Profile::WebSocket => Router::new().route("/echo", get(echo)),
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let listener = TcpListener::bind(ANYWHERE)?;
        listener.set_nonblocking(true)?;
        announce(listener.local_addr())?;
        if profile == Profile::WebSocket {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let listener = listener.tap_io(|stream| stream.set_nodelay(true).expect("an option of TCP"));
            return axum::serve(listener, app).await;
        }
        let config = RustlsConfig::from_config(Arc::new(config()?));
        axum_server::from_tcp_rustls(listener, config)?.serve(app.into_make_service()).await
    })
}

async fn echo(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(async |mut socket| {
        while let Some(Ok(message)) = socket.recv().await {
            let is_data = matches!(message, Message::Text(_) | Message::Binary(_));
            if is_data && socket.send(message).await.is_err() {
                return;
            }
        }
    })
}
