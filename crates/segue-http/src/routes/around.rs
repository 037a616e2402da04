//! Functions around handlers. Used by the router, which calls them, and by programs, which write
//! them.

use std::sync::Arc;

use crate::message::response::{Request, Response};

/// A handler, its result converted.
pub(super) type Handler<'h> = dyn Fn(&mut Request<'_>) -> Response + Send + Sync + 'h;
/// A function around handlers, its result converted.
pub(super) type Around<'h> = dyn Fn(&mut Request<'_>, Next<'_>) -> Response + Send + Sync + 'h;

/// The rest of the way of a request to its handler, for a function of
/// [`Router::around`](crate::Router::around).
///
/// ```
/// use segue_http::{Router, http::header};
///
/// let router = Router::new().get("/", |_| "hello").around(|request, next| {
///     let mut response = next.run(request);
///     response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, "nosniff".parse().unwrap());
///     response
/// });
/// # let _ = router;
/// ```
#[must_use = "nobody has handled the request"]
pub struct Next<'r> {
    around: &'r [Arc<Around<'r>>],
    last: &'r dyn Fn(&mut Request<'_>) -> Response,
}

impl<'r> Next<'r> {
    pub(super) fn new(around: &'r [Arc<Around<'r>>], last: &'r dyn Fn(&mut Request<'_>) -> Response) -> Next<'r> {
        Next { around, last }
    }

    /// Has the request handled, by the next function or by the handler, and returns the response.
    /// The payload of the response has not been sent, nor made if that streams.
    ///
    /// A panic of the handler unwinds through this call: the server answers for the handler.
    ///
    /// # Cancellation
    /// That of the handler.
    ///
    /// ```
    /// use segue_http::Router;
    /// use std::time::Instant;
    ///
    /// let router = Router::new().get("/", |_| "hello").around(|request, next| {
    ///     let start = Instant::now();
    ///     let response = next.run(request);
    ///     println!("{} {} took {:?}", response.status(), request.uri(), start.elapsed());
    ///     response
    /// });
    /// # let _ = router;
    /// ```
    pub fn run(self, request: &mut Request<'_>) -> Response {
        match self.around.split_first() {
            Some((first, rest)) => first(request, Next { around: rest, last: self.last }),
            None => (self.last)(request),
        }
    }
}

segue_core::impl_debug!([] Next<'_>, |it| around: it.around.len());
