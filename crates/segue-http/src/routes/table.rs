//! The table of routes: a tree of paths, and the methods of each. Used by the router.
//!
//! The tree is searched with the path as the client has sent that, escapes and all: a part of a
//! path that is encoded needlessly is another path, and an encoded slash separates nothing.

use std::sync::Arc;

use http::header::HeaderValue;
use http::{Method, StatusCode, header};

use crate::message::response::{IntoResponse, Request, Response};
use crate::routes::around::{Around, Handler, Next};

/// The paths with their routes.
#[derive(Default)]
pub(super) struct Table<'h> {
    routes: Vec<Route<'h>>,
    /// The place in `routes`, by path.
    tree: matchit::Router<usize>,
}

/// A path and its methods.
pub(super) struct Route<'h> {
    path: String,
    /// None stands for every other method.
    methods: Vec<(Option<Method>, Endpoint<'h>)>,
    /// The header that names the methods.
    allow: HeaderValue,
}

/// A handler, with the functions around the router from which the handler has come.
pub(super) struct Endpoint<'h> {
    handler: Box<Handler<'h>>,
    around: Vec<Arc<Around<'h>>>,
}

impl<'h> Endpoint<'h> {
    pub(super) fn new(handler: Box<Handler<'h>>) -> Endpoint<'h> {
        Endpoint { handler, around: Vec::new() }
    }

    fn call(&self, request: &mut Request<'_>) -> Response {
        if self.around.is_empty() {
            return (self.handler)(request);
        }
        Next::new(&self.around, &*self.handler).run(request)
    }
}

impl<'h> Table<'h> {
    /// How many paths there are.
    pub(super) fn len(&self) -> usize {
        self.routes.len()
    }

    /// Adds a handler. No method is every one that the path does not have otherwise.
    #[track_caller]
    pub(super) fn add(&mut self, method: Option<Method>, path: &str, endpoint: Endpoint<'h>) {
        let at = match self.routes.iter().position(|route| route.path == path) {
            Some(at) => at,
            None => self.add_path(path),
        };
        let route = &mut self.routes[at];
        if route.methods.iter().any(|(known, _)| *known == method) {
            let name = method.as_ref().map_or("any", Method::as_str);
            panic!("there are two routes {name} {path:?}");
        }
        route.methods.push((method, endpoint));
        route.allow = allow([&*route]);
    }

    #[track_caller]
    fn add_path(&mut self, path: &str) -> usize {
        assert!(path.is_empty() || path.starts_with('/'), "the path {path:?} of a route does not begin with a slash");
        let at = self.routes.len();
        // An empty path is one of a router that will be nested.
        if !path.is_empty()
            && let Err(error) = self.tree.insert(path, at)
        {
            match error {
                matchit::InsertError::Conflict { with } => {
                    panic!("the paths {path:?} and {with:?} conflict: a request could be for either")
                }
                error => panic!("the path {path:?} is not one of a route: {error}"),
            }
        }
        let (path, methods) = (path.to_owned(), Vec::new());
        self.routes.push(Route { path, methods, allow: HeaderValue::from_static("") });
        at
    }

    /// Adds the routes of another table, each path behind `prefix` and each handler inside of
    /// `around`.
    #[track_caller]
    pub(super) fn nest(&mut self, prefix: &str, table: Table<'h>, around: &[Arc<Around<'h>>]) {
        for route in table.routes {
            let path = format!("{prefix}{}", route.path);
            for (method, mut endpoint) in route.methods {
                endpoint.around.splice(0..0, around.iter().cloned());
                self.add(method, &path, endpoint);
            }
        }
    }

    /// The route of a path, with the parameters that the path has for this route.
    pub(super) fn find<'p>(&self, path: &'p str) -> Option<(&Route<'h>, matchit::Params<'_, 'p>)> {
        let found = self.tree.at(path).ok()?;
        Some((&self.routes[*found.value], found.params))
    }

    /// The answer to OPTIONS for the server as a whole.
    pub(super) fn options(&self) -> Response {
        options(allow(&self.routes))
    }
}

impl Route<'_> {
    /// Has a request handled by its method.
    pub(super) fn call(&self, request: &mut Request<'_>) -> Response {
        let find = |method: Option<&Method>| self.methods.iter().find(|(known, _)| known.as_ref() == method);
        let method = request.method();
        let found = match find(Some(method)) {
            None if *method == Method::HEAD => find(Some(&Method::GET)),
            found => found,
        };
        match found.or_else(|| find(None)) {
            Some((_, endpoint)) => endpoint.call(request),
            None if *method == Method::OPTIONS => options(self.allow.clone()),
            None => {
                let refusal = (StatusCode::METHOD_NOT_ALLOWED, "this path has other methods");
                ([(header::ALLOW, self.allow.clone())], refusal).into_response()
            }
        }
    }
}

fn options(allow: HeaderValue) -> Response {
    ([(header::ALLOW, allow)], StatusCode::NO_CONTENT).into_response()
}

/// The methods of these routes, each once, in the order of their addition.
fn allow<'r, 'h: 'r>(routes: impl IntoIterator<Item = &'r Route<'h>>) -> HeaderValue {
    let mut names = Vec::new();
    let mut note = |name| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    for route in routes {
        for (method, _) in &route.methods {
            let Some(method) = method else { continue };
            note(method.as_str());
            if *method == Method::GET {
                note(Method::HEAD.as_str());
            }
        }
    }
    note(Method::OPTIONS.as_str());
    HeaderValue::from_str(&names.join(", ")).expect("methods are tokens")
}
