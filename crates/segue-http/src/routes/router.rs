//! The router: from a request's path and method to a handler. Used by programs.

use std::sync::Arc;

use http::{Method, StatusCode};

use crate::message::response::{IntoResponse, Request, Response};
use crate::routes::around::{Around, Handler, Next};
use crate::routes::params::Params;
use crate::routes::table::{Endpoint, Table};

/// Handlers by path and method.
///
/// [`handle`](Self::handle) answers a request; so a router is served by a closure. The router and
/// its handlers may borrow from their surroundings.
///
/// ```
/// use segue_http::{Params, Router, Server};
///
/// let greeting = String::from("hello");
/// let router = Router::new()
///     .get("/", |_| "welcome")
///     .get("/hello/{name}", |request| {
///         format!("{greeting}, {}", Params::of(request).get("name").unwrap_or_default())
///     });
/// let server = Server::new(|request| router.handle(request));
/// # let _ = server;
/// ```
///
/// # Paths
///
/// | in a route | matches | `Params` has |
/// | --- | --- | --- |
/// | `/notes/new` | that path | nothing |
/// | `/notes/{id}` | one segment that is not empty | `id` |
/// | `/notes/{id}.txt` | one segment that ends so and is longer | `id` |
/// | `/files/{*path}` | the rest, with its slashes, that is not empty | `path` |
/// | `/{{x}}` | the path `/{x}` | nothing |
///
/// A path with a trailing slash is another path. Where several routes match, a fixed segment goes
/// before a parameter with more text in its segment, and that before a parameter alone or the rest.
/// This route alone decides, whatever its methods are. The request's path is compared as the client
/// has sent the path, and is not normalised: an encoded slash is no separator, and `/%61` is not
/// `/a`. A route with characters beyond ASCII has to have them encoded, as clients send them.
///
/// Values are decoded, once. A path of which a value has a malformed escape, is not UTF-8, or has
/// `.` or `..` between slashes is refused with 400: browsers send none such. A value of an encoded
/// path may have slashes (`%2F`) and zero bytes.
///
/// # Answers without a handler
///
/// | the request | the answer |
/// | --- | --- |
/// | HEAD, where there is a handler for GET | that of GET, of which the head is sent |
/// | OPTIONS | 204 with `Allow` |
/// | another method than those of the path | 405 with `Allow` |
/// | a path without a route | the [fallback](Self::fallback), else 404 |
///
/// # Panics
/// Adding a route panics if the path has a form that is none of the table, if there is the same
/// method with the same path already, or if the path conflicts with another one: `/{a}` with
/// `/{b}`, and each with `/{*rest}`. The message has both paths.
pub struct Router<'h> {
    table: Table<'h>,
    around: Vec<Arc<Around<'h>>>,
    fallback: Option<Box<Handler<'h>>>,
}

/// The calls that add a handler for one method.
macro_rules! verbs {
    ($($(#[$doc:meta])* fn $name:ident = $method:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        #[track_caller]
        pub fn $name<F, R>(self, path: &str, handler: F) -> Router<'h>
        where
            F: Fn(&mut Request<'_>) -> R + Send + Sync + 'h,
            R: IntoResponse,
        {
            self.on(Method::$method, path, handler)
        }
    )*};
}

impl<'h> Router<'h> {
    /// Without routes.
    ///
    /// ```
    /// let router = segue_http::Router::new();
    /// # let _ = router;
    /// ```
    #[must_use]
    pub fn new() -> Router<'h> {
        Router { table: Table::default(), around: Vec::new(), fallback: None }
    }

    verbs! {
        /// Adds a handler for GET, and for HEAD if that has none of its own.
        ///
        /// ```
        /// let router = segue_http::Router::new().get("/", |_| "hello");
        /// # let _ = router;
        /// ```
        fn get = GET;

        /// Adds a handler for POST.
        ///
        /// ```
        /// use segue_http::{Router, http::StatusCode};
        /// let router = Router::new().post("/notes", |_| StatusCode::CREATED);
        /// # let _ = router;
        /// ```
        fn post = POST;

        /// Adds a handler for PUT.
        ///
        /// ```
        /// use segue_http::{Router, http::StatusCode};
        /// let router = Router::new().put("/notes/{id}", |_| StatusCode::NO_CONTENT);
        /// # let _ = router;
        /// ```
        fn put = PUT;

        /// Adds a handler for PATCH.
        ///
        /// ```
        /// use segue_http::{Router, http::StatusCode};
        /// let router = Router::new().patch("/notes/{id}", |_| StatusCode::NO_CONTENT);
        /// # let _ = router;
        /// ```
        fn patch = PATCH;

        /// Adds a handler for DELETE.
        ///
        /// ```
        /// use segue_http::{Router, http::StatusCode};
        /// let router = Router::new().delete("/notes/{id}", |_| StatusCode::NO_CONTENT);
        /// # let _ = router;
        /// ```
        fn delete = DELETE;
    }

    /// Adds a handler for this method.
    ///
    /// ```
    /// use segue_http::{Router, http::{Method, StatusCode}};
    /// let router = Router::new().on(Method::OPTIONS, "/", |_| ([("allow", "GET")], StatusCode::NO_CONTENT));
    /// # let _ = router;
    /// ```
    #[must_use]
    #[track_caller]
    pub fn on<F, R>(mut self, method: Method, path: &str, handler: F) -> Router<'h>
    where
        F: Fn(&mut Request<'_>) -> R + Send + Sync + 'h,
        R: IntoResponse,
    {
        self.table.add(Some(method), path, Endpoint::new(boxed(handler)));
        self
    }

    /// Adds a handler for all methods of a path that have none of their own, OPTIONS too.
    ///
    /// ```
    /// let router = segue_http::Router::new().any("/echo", |request| request.method().to_string());
    /// # let _ = router;
    /// ```
    #[must_use]
    #[track_caller]
    pub fn any<F, R>(mut self, path: &str, handler: F) -> Router<'h>
    where
        F: Fn(&mut Request<'_>) -> R + Send + Sync + 'h,
        R: IntoResponse,
    {
        self.table.add(None, path, Endpoint::new(boxed(handler)));
        self
    }

    /// Sets the handler of paths without a route.
    ///
    /// ```
    /// use segue_http::{Html, Router, http::StatusCode};
    /// let router = Router::new().fallback(|_| (StatusCode::NOT_FOUND, Html("<h1>Not here</h1>")));
    /// # let _ = router;
    /// ```
    #[must_use]
    pub fn fallback<F, R>(mut self, handler: F) -> Router<'h>
    where
        F: Fn(&mut Request<'_>) -> R + Send + Sync + 'h,
        R: IntoResponse,
    {
        self.fallback = Some(boxed(handler));
        self
    }

    /// Puts a function around everything that this router answers, 404 and 405 too, whether the
    /// routes were added before or later.
    ///
    /// The function has the request handled by [`Next::run`], or answers without that. The first
    /// function that was added is the outermost one: of two, the first one sees a request before
    /// the second, and the response after that. The path is looked up behind all of them: so a
    /// function may change the request's method and path, and finds the [`Params`] of the path only
    /// after `run`.
    ///
    /// A function for some of the routes belongs around a router that has these, and is
    /// [nested](Self::nest).
    ///
    /// ```
    /// use segue_http::{IntoResponse, Router, http::StatusCode};
    ///
    /// let router = Router::new().get("/", |_| "the page").around(|request, next| {
    ///     if !request.headers().contains_key("authorization") {
    ///         return StatusCode::UNAUTHORIZED.into_response();
    ///     }
    ///     next.run(request)
    /// });
    /// # let _ = router;
    /// ```
    #[must_use]
    pub fn around<F, R>(mut self, function: F) -> Router<'h>
    where
        F: Fn(&mut Request<'_>, Next<'_>) -> R + Send + Sync + 'h,
        R: IntoResponse,
    {
        self.around
            .push(Arc::new(move |request: &mut Request<'_>, next: Next<'_>| function(request, next).into_response()));
        self
    }

    /// Adds the routes of another router, each path behind `prefix`.
    ///
    /// The prefix is as the path of a route, may have parameters, and does not end with a slash. An
    /// empty prefix merges the two. A route of the other router may have an empty path, which is
    /// the prefix itself. Handlers see the whole path of the request.
    ///
    /// The functions [around](Self::around) the other router go around its handlers, and inside of
    /// those around this router. The answers without a handler are this router's, which knows the
    /// methods of both.
    ///
    /// # Panics
    /// As for adding each route; if the prefix is not as above; if the other router has a fallback.
    ///
    /// ```
    /// use segue_http::{Params, Router, http::StatusCode};
    ///
    /// let notes = Router::new()
    ///     .get("", |_| "all notes")
    ///     .get("/{id}", |request| Params::of(request).get("id").unwrap_or_default().to_owned());
    /// // Answers at `/notes` and `/notes/7`, but not at `/notes/`.
    /// let router = Router::new().nest("/notes", notes);
    /// # let _ = router;
    /// ```
    #[must_use]
    #[track_caller]
    pub fn nest(mut self, prefix: &str, router: Router<'h>) -> Router<'h> {
        let is_prefix = prefix.is_empty() || prefix.starts_with('/') && !prefix.ends_with('/');
        assert!(is_prefix, "the prefix {prefix:?} has to begin with a slash, and not to end with one");
        assert!(router.fallback.is_none(), "the router at {prefix:?} has a fallback, and is not the outermost one");
        self.table.nest(prefix, router.table, &router.around);
        self
    }

    /// Answers a request.
    ///
    /// # Cancellation
    /// That of the handler.
    ///
    /// ```
    /// use segue_http::{Router, Server};
    ///
    /// let router = Router::new().get("/", |_| "hello");
    /// // As long as the server, or borrowed from what is around.
    /// let server = Server::new(move |request| router.handle(request));
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn handle(&self, request: &mut Request<'_>) -> Response {
        if self.around.is_empty() {
            return self.answer(request);
        }
        Next::new(&self.around, &|request| self.answer(request)).run(request)
    }

    fn answer(&self, request: &mut Request<'_>) -> Response {
        let Some((route, captured)) = self.table.find(request.uri().path()) else {
            return self.miss(request);
        };
        if !captured.is_empty() {
            match Params::captured(captured.iter()) {
                Ok(params) => drop(request.extensions_mut().insert(params)),
                Err(refusal) => return refusal.into_response(),
            }
        }
        route.call(request)
    }

    fn miss(&self, request: &mut Request<'_>) -> Response {
        match &self.fallback {
            _ if *request.method() == Method::OPTIONS && request.uri().path() == "*" => self.table.options(),
            Some(handler) => handler(request),
            None => (StatusCode::NOT_FOUND, "there is nothing here").into_response(),
        }
    }
}

fn boxed<'h, F, R>(handler: F) -> Box<Handler<'h>>
where
    F: Fn(&mut Request<'_>) -> R + Send + Sync + 'h,
    R: IntoResponse,
{
    Box::new(move |request| handler(request).into_response())
}

impl Default for Router<'_> {
    fn default() -> Self {
        Router::new()
    }
}

segue_core::impl_debug!([] Router<'_>, |it| paths: it.table.len(), around: it.around.len());
