//! Servers with a task for each connection that wait for readiness: tokio's current-thread runtime,
//! with the loop that all have, and with hyper.

use super::session::{Service, Session, TEXT};
use super::{ANYWHERE, announce};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Gives each connection a task, which `talk` starts.
fn each(talk: impl Fn(TcpStream)) -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let listener = TcpListener::bind(ANYWHERE).await?;
        announce(listener.local_addr())?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            talk(stream);
        }
    })
}

/// The loop.
pub fn tokio(service: Service) -> io::Result<()> {
    each(|mut stream| {
        tokio::spawn(async move {
            let mut session = Session::new(service);
            loop {
                let count = stream.read(session.room()).await?;
                let Some(answer) = session.answer(count) else { return io::Result::Ok(()) };
                if !answer.is_empty() {
                    stream.write_all(answer).await?;
                }
            }
        });
    })
}

/// hyper, without a time-out.
pub fn hyper() -> io::Result<()> {
    each(|stream| {
        tokio::spawn(async move {
            let service = service_fn(|_| async {
                let response = http::Response::builder().header("content-type", "application/octet-stream");
                response.body(Full::new(Bytes::from_static(TEXT)))
            });
            // The client leaves when it has enough.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    })
}
