//! The two contexts that a connection runs in, by which it is cancelled, and its place among the
//! others. Used by all parts of a connection.
//!
//! # Two contexts
//!
//! A connection is *at rest* while waiting for the next request, or lingering: the gate or a
//! shutdown ends a connection then, by a cancellation. A connection is *at work* from the head of a
//! request until the response is sent: a shutdown asks that work to finish, and cancels the rest
//! when a grace is over.
//!
//! | | base | at rest | at work |
//! | --- | --- | --- | --- |
//! | one of a server's | the requests of the server and of its call | the token of its place, alone | the base |
//! | served by its caller | the caller's | the base | the requests of the server, alone |

use segue_core::CancelToken;

use crate::connection::gate::Place;

#[derive(Clone, Copy)]
pub(super) struct Contexts<'c> {
    /// Its place among the server's connections, if there are others.
    place: Option<&'c Place<'c>>,
    /// The token that asks the requests to finish, and cancels the rest.
    requests: &'c CancelToken,
}

impl<'c> Contexts<'c> {
    pub(super) fn new(place: Option<&'c Place<'c>>, requests: &'c CancelToken) -> Contexts<'c> {
        Contexts { place, requests }
    }

    /// Runs `f` where the end of a server's idle connections cancels the waits.
    pub(super) fn at_rest<T>(&self, f: impl FnOnce() -> T) -> T {
        match self.place {
            Some(place) => place.token().shield(f),
            None => f(),
        }
    }

    /// Runs `f` under the shutdown's request to finish, and its cancellation at the end of a grace.
    pub(super) fn at_work<T>(&self, f: impl FnOnce() -> T) -> T {
        match self.place {
            Some(_) => f(),
            None => self.requests.shield(f),
        }
    }

    /// The connection may be ended from now on, after a request or without one.
    pub(super) fn rest(&self, used: bool) {
        if let Some(place) = self.place {
            place.rest(used);
        }
    }

    /// The connection is busy from now on. Answers whether it has kept its place.
    pub(super) fn rise(&self) -> bool {
        self.place.is_none_or(Place::rise)
    }

    /// Whether this connection is to end with its next response, for one that waits.
    pub(super) fn is_wanted(&self) -> bool {
        self.place.is_some_and(Place::is_wanted)
    }
}
