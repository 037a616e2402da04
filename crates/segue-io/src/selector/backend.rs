//! The choice of the kernel interface that a worker waits in.
//!
//! Made by programs and by the environment, for `DriverPark`.

#[cfg(linux)]
use super::epoll;
#[cfg(any(feature = "polling", not(linux)))]
use super::polled;
use super::reports::Selector;
use std::ffi::OsStr;
use std::io;

/// The kernel interface that a [`DriverPark`](crate::driver::DriverPark) waits in.
///
/// # Examples
///
/// ```
/// use segue_io::{Backend, DriverPark};
///
/// // Whatever the environment says: this one waits by readiness.
/// let park = DriverPark::with(Backend::Native)?;
/// # drop(park);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// The value of the environment's variable `SEGUE_IO`: `ring` or `epoll` on Linux, `native`
    /// everywhere. Without that, `Ring` on Linux and `Native` elsewhere.
    #[default]
    Auto,
    /// Readiness, by the best interface of this system: epoll, directly, on Linux; elsewhere
    /// `Polling`.
    Native,
    /// On Linux: an io_uring beside epoll, in which the reads, writes, accepts and connects of a
    /// worker's own fibers are submitted together. The ring is made at the first of them. Where the
    /// system allows none, the worker goes on as with `Native`, and one line on the standard error
    /// says so; likewise for a single kind of op that the kernel does not have.
    #[cfg(linux)]
    Ring,
    /// The same with room for so many submissions at a time, at least one: for tests of a ring that
    /// is full.
    #[cfg(linux)]
    RingOf(u16),
    /// The interface of the crate `polling` here, edge-triggered where possible. On Linux with the
    /// feature `polling`.
    #[cfg(any(feature = "polling", not(linux)))]
    Polling,
    /// The same, where every wait asks anew for one report: the only way where there are no edges.
    #[cfg(any(feature = "polling", not(linux)))]
    PollingOneShot,
}

/// How many submissions at a time a ring is to have room for; `None` for as many as fit.
type Entries = Option<u16>;

impl Backend {
    /// The selector of a worker's reactor, and the ring beside it, if there is to be one.
    pub(crate) fn resolve(self) -> io::Result<(Self, Option<Entries>)> {
        match self {
            Backend::Auto => match std::env::var_os("SEGUE_IO") {
                Some(name) => Self::named(&name)?.resolve(),
                None => Self::best().resolve(),
            },
            #[cfg(linux)]
            Backend::Ring => Ok((Backend::Native, Some(None))),
            #[cfg(linux)]
            Backend::RingOf(entries) => Ok((Backend::Native, Some(Some(entries)))),
            readiness => Ok((readiness, None)),
        }
    }

    fn best() -> Self {
        #[cfg(linux)]
        return Backend::Ring;
        #[cfg(not(linux))]
        return Backend::Native;
    }

    fn named(name: &OsStr) -> io::Result<Self> {
        match name.to_str() {
            Some("") => Ok(Self::best()),
            Some("native") => Ok(Backend::Native),
            #[cfg(linux)]
            Some("epoll") => Ok(Backend::Native),
            #[cfg(linux)]
            Some("ring") => Ok(Backend::Ring),
            _ => {
                let known = "SEGUE_IO is to be `ring`, `epoll` or `native`, of which a system may lack the first two";
                Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{known}; it is {name:?}")))
            }
        }
    }

    pub(crate) fn selector(self) -> io::Result<Box<dyn Selector>> {
        let (readiness, _) = self.resolve()?;
        Ok(match readiness {
            #[cfg(any(feature = "polling", not(linux)))]
            Backend::Polling => Box::new(polled::Polled::new(false)?),
            #[cfg(any(feature = "polling", not(linux)))]
            Backend::PollingOneShot => Box::new(polled::Polled::new(true)?),
            #[cfg(linux)]
            _ => Box::new(epoll::Epoll::new()?),
            #[cfg(not(linux))]
            _ => Box::new(polled::Polled::new(false)?),
        })
    }
}
