//! Texts by name: the parameters of a path, the fields of a query or of a form. Used by handlers;
//! the router makes those of a path.

use std::io;
use std::str::FromStr;

use crate::message::content;
use crate::message::refusal::Refusal;
use crate::message::response::Request;
use crate::routes::escapes::{self, Fault};

/// The most fields that a query or a form may have.
const MOST_FIELDS: usize = 4096;

static NONE: Params = Params { text: String::new(), ends: Vec::new() };

/// Texts by name, decoded: the parameters of a request's path, the fields of its query, or those of
/// a form in its body.
///
/// [`of`](Self::of), [`query`](Self::query) and [`form`](Self::form) are the three ways to get
/// them. [`parse`](Self::parse) is the usual way to use one: a text that is not there, or is not
/// a value of the type, refuses the request with 400.
///
/// ```
/// use segue_http::{Params, Router};
/// use std::io;
///
/// let router = Router::new().get("/users/{id}/notes", |request| -> io::Result<String> {
///     let user: u64 = Params::of(request).parse("id")?;
///     let query = Params::query(request)?;
///     let about = query.get("about").unwrap_or("anything");
///     Ok(format!("the notes of {user} about {about}"))
/// });
/// # let _ = router;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params {
    /// Names and values in turn: two allocations, however many there are.
    text: String,
    /// Where each name ends in the text, and its value.
    ends: Vec<[usize; 2]>,
}

impl Params {
    /// The parameters of the request's path, as its route names them; none outside of a
    /// [`Router`](crate::Router), and none on a route without.
    ///
    /// Values are decoded: `%2F` in the path is a slash in a value.
    ///
    /// ```
    /// use segue_http::{Params, Router};
    /// let router = Router::new().get("/hello/{name}", |request| {
    ///     format!("hello, {}", Params::of(request).get("name").unwrap_or_default())
    /// });
    /// # let _ = router;
    /// ```
    #[must_use]
    pub fn of<'r>(request: &'r Request<'_>) -> &'r Params {
        request.extensions().get::<Params>().unwrap_or(&NONE)
    }

    /// The fields of the request's query, in the form that browsers give to forms: `a=1&b=2`.
    /// This function never waits.
    ///
    /// # Errors
    /// A [`Refusal`] with 400 if a `%` is not followed by two digits, a field is not UTF-8, or
    /// there are more than 4,096.
    ///
    /// ```
    /// use segue_http::{Params, Request, Server};
    /// use std::io;
    ///
    /// let server = Server::new(|request: &mut Request<'_>| -> io::Result<String> {
    ///     let page: usize = Params::query(request)?.parse("page")?;
    ///     Ok(format!("page {page}"))
    /// });
    /// # let _ = server;
    /// ```
    pub fn query(request: &Request<'_>) -> io::Result<Params> {
        Ok(Params::fields(request.uri().query().unwrap_or(""), "query")?)
    }

    /// Reads the body of a request, to its end, as the fields of a form.
    ///
    /// This is `application/x-www-form-urlencoded`, as browsers send a form without files.
    /// The whole body is in memory meanwhile, of at most
    /// [`Config::max_body_bytes`](crate::Config::max_body_bytes).
    ///
    /// # Cancellation
    /// As that of reading a [`Body`](crate::Body); the part of the body that was read is lost: the
    /// read *may already have happened*.
    ///
    /// # Errors
    /// The errors of the [`Body`](crate::Body), unchanged; a [`Refusal`]: 415 if the request has
    /// another content type, 400 as for a [`query`](Self::query).
    ///
    /// ```
    /// use segue_http::{Params, Redirect, Router};
    /// use std::io;
    ///
    /// let router = Router::new().post("/notes", |request| -> io::Result<Redirect> {
    ///     let form = Params::form(request)?;
    ///     println!("a note: {}", form.parse::<String>("text")?);
    ///     Ok(Redirect::to("/notes"))
    /// });
    /// # let _ = router;
    /// ```
    pub fn form(request: &mut Request<'_>) -> io::Result<Params> {
        const TYPE: &str = "application/x-www-form-urlencoded";
        let text = content::read(request, |given| given.eq_ignore_ascii_case(TYPE), TYPE)?;
        Ok(Params::fields(&text, "form")?)
    }

    /// The text of this name: the first one, if there are several.
    ///
    /// ```
    /// use segue_http::Params;
    /// assert_eq!(Params::default().get("id"), None);
    /// ```
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// The text of this name as a value of another type; the first one, if there are several. This
    /// function never waits.
    ///
    /// # Errors
    /// A [`Refusal`] with 400 that names the parameter, if there is none of this name or the text
    /// is not a value of the type.
    ///
    /// ```
    /// use segue_http::Params;
    /// let error = Params::default().parse::<u64>("id").unwrap_err();
    /// assert_eq!(error.to_string(), "`id` is missing");
    /// ```
    pub fn parse<T: FromStr>(&self, name: &str) -> io::Result<T> {
        let text = self.get(name).ok_or_else(|| Refusal::bad(format!("`{name}` is missing")))?;
        let value = text.parse();
        Ok(value.map_err(|_| Refusal::bad(format!("`{name}` has a value that is not possible")))?)
    }

    /// All names with their texts, in the order of the request.
    ///
    /// ```
    /// use segue_http::{Params, Request, Server};
    /// use std::io;
    ///
    /// let server = Server::new(|request: &mut Request<'_>| -> io::Result<String> {
    ///     let query = Params::query(request)?;
    ///     let tags: Vec<&str> = query.iter().filter(|(name, _)| *name == "tag").map(|(_, tag)| tag).collect();
    ///     Ok(tags.join(", "))
    /// });
    /// # let _ = server;
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut begin = 0;
        self.ends.iter().map(move |&[name_end, end]| {
            let pair = (&self.text[begin..name_end], &self.text[name_end..end]);
            begin = end;
            pair
        })
    }

    /// The parameters that a route has found in a path, still encoded.
    pub(super) fn captured<'p>(pairs: impl Iterator<Item = (&'p str, &'p str)>) -> Result<Params, Refusal> {
        let mut params = Params::default();
        for (name, value) in pairs {
            let value = params.push(name, value, false).map_err(|fault| malformed("path", fault))?;
            if escapes::has_dots(value) {
                return Err(Refusal::bad("the path has `.` or `..` between slashes"));
            }
        }
        Ok(params)
    }

    fn fields(text: &str, part: &str) -> Result<Params, Refusal> {
        let mut params = Params::default();
        for field in text.split('&').filter(|field| !field.is_empty()) {
            if params.ends.len() == MOST_FIELDS {
                return Err(Refusal::bad(format!("the {part} has more than {MOST_FIELDS} fields")));
            }
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            params.push(name, value, true).map_err(|fault| malformed(part, fault))?;
        }
        Ok(params)
    }

    /// Appends an encoded pair, a form's or a path's with its name, and returns the value.
    fn push(&mut self, name: &str, value: &str, is_form: bool) -> Result<&str, Fault> {
        if is_form {
            escapes::decode(name, true, &mut self.text)?;
        } else {
            self.text.push_str(name);
        }
        let name_end = self.text.len();
        escapes::decode(value, is_form, &mut self.text)?;
        self.ends.push([name_end, self.text.len()]);
        Ok(&self.text[name_end..])
    }
}

fn malformed(part: &str, fault: Fault) -> Refusal {
    Refusal::bad(format!("the {part} {}", fault.told()))
}
