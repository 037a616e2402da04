//! Names to addresses: the system's resolver, on a thread of the crew, or one that a program sets.
//!
//! Used by `addrs`, for whatever is not an address that is written out.

use segue_core::Blocking;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, PoisonError, RwLock};

/// A resolver of the addresses of a host.
///
/// The method is called on the fiber or thread that asks, for a name and never for an address that
/// is written out, and may wait as any code there. A call that blocks its thread belongs into
/// [`blocking`](segue_core::blocking).
///
/// # Examples
///
/// For one call, the resolver is asked first:
///
/// ```
/// use segue_io::net::{Resolve, TcpListener, TcpStream};
/// use std::io;
/// use std::net::SocketAddr;
///
/// /// Knows one host.
/// struct Home;
///
/// impl Resolve for Home {
///     fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
///         match host {
///             "home" => Ok(vec![([127, 0, 0, 1], port).into()]),
///             _ => Err(io::Error::new(io::ErrorKind::NotFound, "there is no place like home")),
///         }
///     }
/// }
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let port = listener.local_addr()?.port();
/// let stream = TcpStream::connect(Home.resolve("home", port)?)?;
/// assert_eq!(stream.peer_addr()?, listener.local_addr()?);
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Resolve: Send + Sync {
    /// The addresses of `host`, each with this port, the preferred ones first.
    ///
    /// # Cancellation
    /// Is to have *no effect*: the look-up fails, or its result is returned.
    ///
    /// # Errors
    /// The reason for a host without an address. A list of none is none for
    /// [`lookup`](super::lookup) as well; to connect or to bind fails then.
    fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// The system's resolver: std and the C library with `/etc/hosts`, DNS and all other configuration.
/// This resolver works on one of the threads for [`blocking`](segue_core::blocking) calls while the
/// fiber waits; for a plain thread, in place.
///
/// The default, unless another one is [set](set_resolver).
///
/// # Cancellation
/// *No effect*: the look-up fails at once before its beginning, and else ends with the system's
/// answer, which nothing can cut short; the addresses are returned then.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    #[track_caller]
    fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Blocking::new().run(|| (host, port).to_socket_addrs().map(Iterator::collect))?
    }
}

static RESOLVER: RwLock<Option<Arc<dyn Resolve>>> = RwLock::new(None);

/// Has names be looked up by `resolver` from now on, in the whole process, and gives back the
/// former one; `None` is the [`SystemResolver`]. Look-ups that have begun go on. Never waits.
///
/// # Examples
///
/// ```
/// use segue_io::net::{self, Resolve, SystemResolver};
/// use std::net::SocketAddr;
/// use std::sync::Arc;
/// use std::{fmt, io};
///
/// /// Says what it is asked.
/// struct Logs(SystemResolver);
///
/// impl Resolve for Logs {
///     fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
///         eprintln!("who is {host}?");
///         self.0.resolve(host, port)
///     }
/// }
///
/// assert!(net::set_resolver(Some(Arc::new(Logs(SystemResolver)))).is_none());
/// assert!(!net::lookup("localhost:80")?.is_empty());
/// net::set_resolver(None);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn set_resolver(resolver: Option<Arc<dyn Resolve>>) -> Option<Arc<dyn Resolve>> {
    let mut slot = RESOLVER.write().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut *slot, resolver)
}

/// Asks the resolver that is set. No lock is held meanwhile.
#[track_caller]
pub(super) fn with_the_resolver(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    segue_core::check()?;
    let set = RESOLVER.read().unwrap_or_else(PoisonError::into_inner).clone();
    match set {
        Some(resolver) => resolver.resolve(host, port),
        None => SystemResolver.resolve(host, port),
    }
}
