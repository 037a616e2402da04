//! The files below a directory, as a handler. Used by programs.
//!
//! # Ways out
//!
//! The request's path is decoded into plain names (`names`), so no path leads out by itself. A
//! symbolic link in the directory might: so files are opened by
//! [`File::open_below`], by which the kernel refuses such a link, at whatever moment the link was
//! made. Nothing is asked twice: the metadata are those of the open file.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use http::header::{self, HeaderValue};
use http::{Method, StatusCode};
use segue_io::fs::{File, Metadata};

use crate::files::respond::FileResponse;
use crate::files::{encodings, names, types};
use crate::message::response::{IntoResponse, Request, Response};

/// The file of a directory that is sent in its place.
const INDEX: &str = "index.html";

/// Answers requests with the files below a directory.
///
/// | the path leads to | the answer |
/// | --- | --- |
/// | a file | as [`FileResponse`] says, with a type by the name's extension |
/// | a directory, and ends in a slash | its `index.html` |
/// | a directory, without a slash at the end | 301 to the path with one |
/// | anything else: a device, a pipe, a socket; a link that leads out; nothing; a file that may not be read | 404 |
///
/// Refused with 404 are paths that have a `..` in whichever encoding, an empty name, a backslash or
/// a NUL, and names that begin with a point. Methods other than GET and HEAD are answered with 405.
///
/// A symbolic link is followed if that leads to something below the directory, and the kernel can
/// watch over the way: see [`File::open_below`]. Nobody waits for the other end of a named pipe.
///
/// ```no_run
/// use segue_http::{Files, Request, Server};
/// use segue_io::net::TcpListener;
///
/// let files = Files::new("public")?;
/// let server = Server::new(|request: &mut Request<'_>| files.respond(request));
/// server.serve(TcpListener::bind("127.0.0.1:8080")?)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Files {
    root: File,
    hidden: bool,
    precompressed: bool,
}

impl Files {
    /// The files below a directory, which is opened once: a directory that is renamed is served
    /// under its new name, and another one that takes its place is not.
    ///
    /// A client may ask for any name below the directory, and the name is opened to see its kind:
    /// a named pipe or a device there is opened and closed, as programs at its other end notice.
    ///
    /// # Cancellation
    /// *No effect*: the directory is opened.
    ///
    /// # Errors
    /// Those of an open; `NotADirectory` for anything else.
    ///
    /// ```
    /// let files = segue_http::Files::new("src")?;
    /// # let _ = files;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(root: impl AsRef<Path>) -> io::Result<Files> {
        let root = File::open(root)?;
        if !root.metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Files { root, hidden: false, precompressed: false })
    }

    /// Whether files and directories are served with names that begin with a point. By default they
    /// are not.
    ///
    /// ```
    /// let files = segue_http::Files::new("src")?.hidden(true);
    /// # let _ = files;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn hidden(self, yes: bool) -> Files {
        Files { hidden: yes, ..self }
    }

    /// Whether a file is sent compressed to a client that takes that, if there is a compressed one
    /// beside the file: `page.html.br` or `page.html.gz` beside `page.html`. By default not.
    ///
    /// ```
    /// let files = segue_http::Files::new("src")?.precompressed(true);
    /// # let _ = files;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn precompressed(self, yes: bool) -> Files {
        Files { precompressed: yes, ..self }
    }

    /// The answer to a request for a file, by the request's path.
    ///
    /// # Cancellation
    /// *No effect*: the file is opened, and asked for its metadata. The answer is then 500.
    ///
    /// ```
    /// use segue_http::{Files, Request, Server};
    ///
    /// let files = Files::new("src")?;
    /// let server = Server::new(|request: &mut Request<'_>| files.respond(request));
    /// # let _ = server;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn respond(&self, request: &Request<'_>) -> Response {
        self.respond_at(request, request.uri().path())
    }

    /// The answer to a request by another path, as one without a prefix. The path is one of a URI:
    /// its percent signs are decoded here.
    ///
    /// # Cancellation
    /// As for [`respond`](Self::respond).
    ///
    /// ```
    /// use http::StatusCode;
    /// use segue_http::{Files, IntoResponse, Request, Server};
    ///
    /// let files = Files::new("src")?;
    /// let server = Server::new(|request: &mut Request<'_>| {
    ///     match request.uri().path().strip_prefix("/static/") {
    ///         Some(path) => files.respond_at(request, path),
    ///         None => StatusCode::NOT_FOUND.into_response(),
    ///     }
    /// });
    /// # let _ = server;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn respond_at(&self, request: &Request<'_>, path: &str) -> Response {
        if *request.method() != Method::GET && *request.method() != Method::HEAD {
            let mut response = StatusCode::METHOD_NOT_ALLOWED.into_response();
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match self.find(request, path) {
            Ok(Some(response)) => response,
            Ok(None) => (StatusCode::NOT_FOUND, "not found").into_response(),
            Err(error) => error.into_response(),
        }
    }

    /// The answer if there is such a file or directory.
    fn find(&self, request: &Request<'_>, path: &str) -> io::Result<Option<Response>> {
        let Some((mut path, is_directory)) = names::below(path, self.hidden) else { return Ok(None) };
        if is_directory {
            path.push(INDEX);
        }
        let (file, metadata) = match self.open(&path)? {
            Some(found) if found.1.is_file() => found,
            Some(_) if !is_directory => return Ok(redirect(request)),
            _ => return Ok(None),
        };
        let content_type = types::of_name(path.as_os_str().as_bytes());
        if !self.precompressed {
            return Ok(Some(FileResponse::of(file, &metadata).content_type(content_type).respond(request)));
        }
        let (file, metadata, encoding) = match self.open_encoded(request, path)? {
            Some((other, metadata, encoding)) => (other, metadata, Some(encoding)),
            None => (file, metadata, None),
        };
        let mut response = FileResponse::of(file, &metadata).content_type(content_type).respond(request);
        let headers = response.headers_mut();
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        if let Some(encoding) = encoding {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        Ok(Some(response))
    }

    /// The compressed file beside another one that the client likes best, and its encoding.
    fn open_encoded(&self, request: &Request<'_>, path: PathBuf) -> io::Result<Option<(File, Metadata, &'static str)>> {
        for (encoding, extension) in encodings::accepted(request.headers()) {
            let mut path = OsString::from(&path);
            path.push(extension);
            if let Some((file, metadata)) = self.open(Path::new(&path))?.filter(|(_, metadata)| metadata.is_file()) {
                return Ok(Some((file, metadata, encoding)));
            }
        }
        Ok(None)
    }

    /// Opens a file, or a directory. `None` if there is nothing that a client may see.
    fn open(&self, path: &Path) -> io::Result<Option<(File, Metadata)>> {
        let opened = File::open_below(&self.root, path).and_then(|file| file.metadata().map(|it| (file, it)));
        match opened {
            Ok(found) => Ok(Some(found).filter(|(_, metadata)| metadata.is_file() || metadata.is_dir())),
            Err(error) if is_nothing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

segue_core::impl_debug!([] Files, |it| hidden: it.hidden, precompressed: it.precompressed);

/// Whether an open says that there is nothing for the client.
fn is_nothing(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, InvalidFilename, NotADirectory, NotFound, PermissionDenied};
    // That is said of a socket, and of a device without a driver: ENXIO and ENODEV, of all systems.
    let no_device = matches!(error.raw_os_error(), Some(6 | 19));
    let kinds = [CrossesDevices, InvalidFilename, NotADirectory, NotFound, PermissionDenied];
    no_device || kinds.contains(&error.kind())
}

/// Sends the client to the request's path with a slash behind. The new one begins with one slash
/// alone: two would lead to another host.
fn redirect(request: &Request<'_>) -> Option<Response> {
    let path = request.uri().path().trim_start_matches(['/', '\\']);
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let location = HeaderValue::try_from(format!("/{path}/{query}")).ok()?;
    let mut response = StatusCode::MOVED_PERMANENTLY.into_response();
    response.headers_mut().insert(header::LOCATION, location);
    Some(response)
}
