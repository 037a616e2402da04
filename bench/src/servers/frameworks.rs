//! Whole servers of other libraries on one worker: axum on tokio's current-thread runtime,
//! actix-web, and may_minihttp. Each answers with the common text, as its documentation writes a
//! handler. Used by the contest `web`.

use super::session::TEXT;
use super::{ANYWHERE, announce};
use axum::serve::ListenerExt;
use may_minihttp::{HttpService, HttpServiceFactory};
use std::io;
use std::net::TcpListener;

/// axum.
pub fn axum() -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let listener = tokio::net::TcpListener::bind(ANYWHERE).await?;
        announce(listener.local_addr())?;
        let listener = listener.tap_io(|stream| stream.set_nodelay(true).expect("an option of TCP"));
        let app = axum::Router::new().route("/text", axum::routing::get(|| async { TEXT }));
        axum::serve(listener, app).await
    })
}

/// actix-web: a thread accepts, and one serves.
pub fn actix() -> io::Result<()> {
    use actix_web::{App, HttpResponse, HttpServer, web};
    actix_web::rt::System::new().block_on(async {
        let listener = TcpListener::bind(ANYWHERE)?;
        announce(listener.local_addr())?;
        let text = || async { HttpResponse::Ok().content_type("application/octet-stream").body(TEXT) };
        let server = HttpServer::new(move || App::new().route("/text", web::get().to(text)));
        server.workers(1).tcp_nodelay(true).disable_signals().listen(listener)?.run().await
    })
}

#[derive(Clone)]
struct Page;

impl HttpService for Page {
    fn call(&mut self, request: may_minihttp::Request, response: &mut may_minihttp::Response) -> io::Result<()> {
        if request.path() == "/text" {
            response.header("Content-Type: application/octet-stream");
            response.body(std::str::from_utf8(TEXT).expect("it is ASCII"));
        } else {
            response.status_code(404, "Not Found");
        }
        Ok(())
    }
}

impl HttpServiceFactory for Page {
    type Service = Self;

    fn new_service(&self, _: usize) -> Self {
        self.clone()
    }
}

/// may_minihttp, which does not tell its address: so it gets one that was free a moment ago.
pub fn may_minihttp() -> io::Result<()> {
    may::config().set_workers(1);
    let address = TcpListener::bind(ANYWHERE)?.local_addr()?;
    let serving = Page.start(address)?;
    announce(Ok(address))?;
    serving.join().map_err(|_| io::Error::other("its coroutine has panicked"))
}
