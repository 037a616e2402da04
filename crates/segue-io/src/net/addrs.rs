//! What can be given as the address of a host.
//!
//! Used by whatever binds, connects or sends. As [`std::net::ToSocketAddrs`], whose names are
//! resolved on the caller's thread; these are not.

use super::resolve;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::{io, iter, option, slice, vec};

/// What can be turned into addresses on the Internet: a [`SocketAddr`], an [`IpAddr`] or a name
/// with a port, `"host:port"`, a slice of addresses.
///
/// As [`std::net::ToSocketAddrs`], with this difference: an address that is written out is parsed,
/// and whatever else is a name, which the [resolver](super::Resolve) looks up. That suspends the
/// fiber and not its worker.
///
/// # Cancellation
/// Of a look-up: *no effect*.
///
/// # Examples
///
/// ```
/// use segue_io::net::ToSocketAddrs;
/// use std::net::{IpAddr, SocketAddr};
///
/// let wanted = SocketAddr::from(([127, 0, 0, 1], 80));
/// assert!("127.0.0.1:80".to_socket_addrs()?.eq([wanted]));
/// assert!(("127.0.0.1", 80).to_socket_addrs()?.eq([wanted]));
/// assert!((IpAddr::from([127, 0, 0, 1]), 80).to_socket_addrs()?.eq([wanted]));
/// assert!([wanted; 2].to_socket_addrs()?.eq([wanted; 2]));
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait ToSocketAddrs {
    /// The addresses, the preferred one first.
    type Iter: Iterator<Item = SocketAddr>;

    /// Looks the addresses up, if they have to be.
    ///
    /// # Cancellation
    /// *No effect*: it fails at once if the look-up has not begun.
    ///
    /// # Errors
    /// Those of the resolver; `InvalidInput` for what has no port; the cancellation.
    fn to_socket_addrs(&self) -> io::Result<Self::Iter>;
}

/// What is an address, or makes one without a look-up.
macro_rules! literal {
    ($($what:ty),*) => {$(
        impl ToSocketAddrs for $what {
            type Iter = option::IntoIter<SocketAddr>;

            fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
                Ok(Some(SocketAddr::from(*self)).into_iter())
            }
        }
    )*};
}

literal!(SocketAddr, SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16));

/// The addresses of a name; one, without memory of its own, if it was written out.
#[derive(Debug)]
pub struct Resolved(Addrs);

#[derive(Debug)]
enum Addrs {
    Written(Option<SocketAddr>),
    Found(vec::IntoIter<SocketAddr>),
}

impl Resolved {
    /// Those that are left, as of the iterator that std has in this place.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_io::net::ToSocketAddrs;
    ///
    /// let mut addrs = "127.0.0.1:80".to_socket_addrs()?;
    /// assert_eq!(addrs.as_slice(), [([127, 0, 0, 1], 80).into()]);
    /// addrs.next();
    /// assert!(addrs.as_slice().is_empty());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn as_slice(&self) -> &[SocketAddr] {
        match &self.0 {
            Addrs::Written(addr) => addr.as_slice(),
            Addrs::Found(addrs) => addrs.as_slice(),
        }
    }

    fn one(addr: SocketAddr) -> Self {
        Self(Addrs::Written(Some(addr)))
    }

    #[track_caller]
    fn of(host: &str, port: u16) -> io::Result<Self> {
        match host.parse::<IpAddr>() {
            Ok(ip) => Ok(Self::one((ip, port).into())),
            Err(_) => Ok(Self(Addrs::Found(resolve::with_the_resolver(host, port)?.into_iter()))),
        }
    }
}

impl Iterator for Resolved {
    type Item = SocketAddr;

    fn next(&mut self) -> Option<SocketAddr> {
        match &mut self.0 {
            Addrs::Written(addr) => addr.take(),
            Addrs::Found(addrs) => addrs.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.as_slice().len();
        (left, Some(left))
    }
}

impl ToSocketAddrs for str {
    type Iter = Resolved;

    #[track_caller]
    fn to_socket_addrs(&self) -> io::Result<Resolved> {
        if let Ok(addr) = self.parse() {
            return Ok(Resolved::one(addr));
        }
        let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        let (host, port) = self.rsplit_once(':').ok_or_else(|| invalid("an address without a port: give host:port"))?;
        let port = port.parse().map_err(|_| invalid("an address with a port that is none: give host:port"))?;
        Resolved::of(host, port)
    }
}

/// What has addresses by a method of another type.
macro_rules! others {
    ($([$($generics:tt)*] $what:ty => $iter:ty, |$it:ident| $addrs:expr;)*) => {$(
        impl<$($generics)*> ToSocketAddrs for $what {
            type Iter = $iter;

            #[track_caller]
            fn to_socket_addrs(&self) -> io::Result<$iter> {
                let $it = self;
                $addrs
            }
        }
    )*};
}

others! {
    [] String => Resolved, |text| text.as_str().to_socket_addrs();
    [] (&str, u16) => Resolved, |host| Resolved::of(host.0, host.1);
    [] (String, u16) => Resolved, |host| Resolved::of(&host.0, host.1);
    ['a] &'a [SocketAddr] => iter::Copied<slice::Iter<'a, SocketAddr>>, |addrs| Ok(addrs.iter().copied());
    [const N: usize] [SocketAddr; N] => std::array::IntoIter<SocketAddr, N>, |addrs| Ok((*addrs).into_iter());
    [] Vec<SocketAddr> => vec::IntoIter<SocketAddr>, |addrs| Ok(addrs.clone().into_iter());
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {
    type Iter = T::Iter;

    #[track_caller]
    fn to_socket_addrs(&self) -> io::Result<T::Iter> {
        (**self).to_socket_addrs()
    }
}

/// The addresses of a host: `"example.org:80"`, `("example.org", 80)`, `"127.0.0.1:80"`.
///
/// An address that is written out is only read. A name is looked up by the
/// [resolver](super::Resolve), as in whatever takes [`ToSocketAddrs`]: so this is for programs that
/// want to see the addresses.
///
/// # Cancellation
/// *No effect*: the call fails at once before the beginning of the look-up, and else at the end of
/// that.
///
/// # Errors
/// Those of the look-up; or the cancellation.
///
/// # Examples
///
/// ```
/// let found = segue_io::net::lookup("127.0.0.1:80")?;
/// assert_eq!(found, ["127.0.0.1:80".parse().unwrap()]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn lookup(host: impl ToSocketAddrs) -> io::Result<Vec<SocketAddr>> {
    segue_core::admit()?;
    Ok(host.to_socket_addrs()?.collect())
}
