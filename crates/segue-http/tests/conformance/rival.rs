//! hyper, served from memory: polled by hand, without a runtime, timers or sockets.

use crate::handler::{self, Content, MAX_BODY};
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

/// Polls that a connection may take; far more than any needs.
const PATIENCE: usize = 100_000;

/// Has hyper serve the pieces, of which a read gets at most one. Answers with its output, and
/// whether it ended the connection before the client did.
pub fn serve(pieces: Vec<Vec<u8>>) -> (Vec<u8>, bool) {
    let state = Rc::new(State { pieces: RefCell::new(pieces.into()), ..State::default() });
    let service = service_fn(|request: http::Request<Incoming>| async {
        let (parts, body) = request.into_parts();
        let body = if parts.uri.path() == handler::UNREAD {
            Bytes::new()
        } else if body.size_hint().lower() > MAX_BODY as u64 {
            return Ok(refuse(StatusCode::PAYLOAD_TOO_LARGE));
        } else {
            match Limited::new(body, MAX_BODY).collect().await {
                Ok(body) => body.to_bytes(),
                Err(error) if error.is::<LengthLimitError>() => return Ok(refuse(StatusCode::PAYLOAD_TOO_LARGE)),
                Err(_) => return Ok(refuse(StatusCode::BAD_REQUEST)),
            }
        };
        let answer = handler::answer(&parts.method, &parts.uri, parts.version, &parts.headers, &body);
        Ok::<_, Infallible>(answer)
    });
    let mut connection = pin!(http1::Builder::new().serve_connection(Pipe(Rc::clone(&state)), service));
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let mut closed = false;
    for _ in 0..PATIENCE {
        let polled = connection.as_mut().poll(&mut context);
        if !state.ended.get() {
            closed = polled.is_ready() || state.shut.get();
        }
        if polled.is_ready() {
            break;
        }
        // It goes on by itself where it only gives others a turn.
        let idle = !woken.0.swap(false, Relaxed);
        if idle && state.pieces.borrow().is_empty() && state.ended.replace(true) {
            // It has seen the end, and waits for what nobody will send.
            break;
        }
    }
    (state.output.take(), closed)
}

fn refuse(status: StatusCode) -> http::Response<Content> {
    let content = Content { bytes: Bytes::from_static(b"the request's body can't be read"), sized: true };
    http::Response::builder().status(status).body(content).unwrap()
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

#[derive(Default)]
struct State {
    pieces: RefCell<VecDeque<Vec<u8>>>,
    output: RefCell<Vec<u8>>,
    /// The client has ended its direction.
    ended: Cell<bool>,
    /// The server has ended its own.
    shut: Cell<bool>,
}

struct Pipe(Rc<State>);

impl Read for Pipe {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, mut buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let mut pieces = self.0.pieces.borrow_mut();
        let Some(mut piece) = pieces.pop_front() else {
            return if self.0.ended.get() { Poll::Ready(Ok(())) } else { Poll::Pending };
        };
        let rest = piece.split_off(piece.len().min(buf.remaining()));
        buf.put_slice(&piece);
        if !rest.is_empty() {
            pieces.push_front(rest);
        }
        Poll::Ready(Ok(()))
    }
}

impl Write for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.output.borrow_mut().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.shut.set(true);
        Poll::Ready(Ok(()))
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = std::mem::take(&mut self.bytes);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.sized && self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        if self.sized { SizeHint::with_exact(self.bytes.len() as u64) } else { SizeHint::default() }
    }
}
