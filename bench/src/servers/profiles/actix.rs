//! actix-web with rustls, actix-files and actix-ws: a thread accepts, and one serves.

use super::{Profile, config, folder, items};
use crate::servers::{ANYWHERE, announce};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use actix_ws::AggregatedMessage;
use futures_util::StreamExt;
use std::io;
use std::net::TcpListener;

pub fn serve(profile: Profile) -> io::Result<()> {
    actix_web::rt::System::new().block_on(async {
        let listener = TcpListener::bind(ANYWHERE)?;
        announce(listener.local_addr())?;
        let folder = folder()?;
        let server = HttpServer::new(move || {
            let app = App::new();
            match profile {
                Profile::Json => app.route("/json", web::get().to(async || HttpResponse::Ok().json(items()))),
                Profile::File => app.service(actix_files::Files::new("/", folder.clone())),
                Profile::WebSocket => app.route("/echo", web::get().to(echo)),
            }
        });
        let server = server.workers(1).tcp_nodelay(true).disable_signals();
        let server = match profile {
            Profile::WebSocket => server.listen(listener)?,
            _ => server.listen_rustls_0_23(listener, config()?)?,
        };
        server.run().await
    })
}

async fn echo(request: HttpRequest, body: web::Payload) -> Result<HttpResponse, actix_web::Error> {
    let (response, mut session, messages) = actix_ws::handle(&request, body)?;
    actix_web::rt::spawn(async move {
        let mut messages = messages.aggregate_continuations();
        while let Some(Ok(message)) = messages.next().await {
            let sent = match message {
                AggregatedMessage::Text(text) => session.text(text).await,
                AggregatedMessage::Binary(bytes) => session.binary(bytes).await,
                AggregatedMessage::Ping(bytes) => session.pong(&bytes).await,
                AggregatedMessage::Pong(_) => Ok(()),
                AggregatedMessage::Close(_) => break,
            };
            if sent.is_err() {
                return;
            }
        }
        let _ = session.close(None).await;
    });
    Ok(response)
}
