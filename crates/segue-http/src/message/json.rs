//! JSON in requests and in responses, with the feature `json`.
//!
//! Used by handlers.

use std::io;

use http::StatusCode;
use http::header::HeaderValue;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::message::content;
use crate::message::refusal::Refusal;
use crate::message::response::{IntoResponse, Request, Response, internal_error, plain};

/// The most bytes of a parser's message that a client is told: a message can quote the body.
const MOST_TOLD: usize = 120;

static JSON: HeaderValue = HeaderValue::from_static("application/json");

/// JSON: as a response, and as the reader of a request's body.
///
/// A value that cannot be serialised is answered with 500.
///
/// ```
/// use segue_http::{Json, Router};
/// use serde::{Deserialize, Serialize};
/// use std::io;
///
/// #[derive(Deserialize, Serialize)]
/// struct Point {
///     x: i64,
///     y: i64,
/// }
///
/// let router = Router::new().post("/mirror", |request| -> io::Result<Json<Point>> {
///     let Point { x, y } = Json::read(request)?;
///     Ok(Json(Point { x: y, y: x }))
/// });
/// # let _ = router;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> Json<T> {
    /// Reads the body of a request, to its end, as one JSON value.
    ///
    /// The whole body is in memory meanwhile, of at most
    /// [`Config::max_body_bytes`](crate::Config::max_body_bytes). Values are nested 128 deep at the
    /// most.
    ///
    /// # Cancellation
    /// As that of reading a [`Body`](crate::Body); the part of the body that was read is lost: the
    /// read *may already have happened*.
    ///
    /// # Errors
    /// The errors of the [`Body`](crate::Body), unchanged: a body that is too large is answered
    /// with 413. A [`Refusal`]: 415 if the request's content type is neither `application/json` nor
    /// ends in `+json`; 400 if the body is not UTF-8, not JSON, not a `T`, or goes on behind the
    /// value. The text names line and column, and quotes little of the body.
    ///
    /// ```
    /// use segue_http::{Json, Request, Server};
    /// use std::io;
    ///
    /// let server = Server::new(|request: &mut Request<'_>| -> io::Result<String> {
    ///     let numbers: Vec<i64> = Json::read(request)?;
    ///     Ok(numbers.iter().sum::<i64>().to_string())
    /// });
    /// # let _ = server;
    /// ```
    pub fn read(request: &mut Request<'_>) -> io::Result<T> {
        let text = content::read(request, is_json, "application/json")?;
        serde_json::from_str(&text).map_err(|error| refusal(&error).into())
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(text) => plain(StatusCode::OK, Some(&JSON), text.into()),
            Err(_) => internal_error(),
        }
    }
}

fn is_json(media_type: &str) -> bool {
    let ends_in_json = |name: &str| name.len() > 5 && name[name.len() - 5..].eq_ignore_ascii_case("+json");
    media_type.eq_ignore_ascii_case("application/json") || media_type.is_ascii() && ends_in_json(media_type)
}

/// The parser's message, cut off where that is long.
fn refusal(error: &serde_json::Error) -> Refusal {
    let (line, column) = (error.line(), error.column());
    let said = error.to_string();
    let place = format!(" at line {line} column {column}");
    let said = said.strip_suffix(&place).unwrap_or(&said);
    let told = &said[..said.floor_char_boundary(MOST_TOLD)];
    let dots = if told.len() < said.len() { "..." } else { "" };
    Refusal::bad(format!("the body is not the JSON that was expected: line {line}, column {column}: {told}{dots}"))
}
