//! The two families of addresses: those of the Internet, and those within a machine.
//!
//! Used by everything in `net`. A family says how its addresses go to the kernel and come back.

use rustix::net::{SocketAddrAny, SocketAddrUnix};
use socket2::{Domain, SockAddr};
use std::ffi::OsStr;
use std::io;
use std::net::SocketAddr;
#[cfg(target_os = "android")]
use std::os::android::net::SocketAddrExt;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::SocketAddr as UnixAddr;
use std::path::Path;

/// How the addresses of a protocol go to the kernel and come back.
pub trait Family: Copy {
    type Address;

    /// Whether both ends are within a machine. Then a read may end before all that has arrived is
    /// read, where descriptors come with the data; and a connect waits for room in the queue of a
    /// listener, of which the kernel tells nobody.
    const IS_LOCAL: bool;

    fn domain(address: &Self::Address) -> Domain;
    fn to_kernel(address: &Self::Address) -> io::Result<SockAddr>;
    fn from_kernel(address: Option<SocketAddrAny>) -> io::Result<Self::Address>;
}

/// The Internet.
#[derive(Clone, Copy)]
pub enum Internet {}

impl Family for Internet {
    type Address = SocketAddr;
    const IS_LOCAL: bool = false;

    fn domain(address: &SocketAddr) -> Domain {
        Domain::for_address(*address)
    }

    fn to_kernel(address: &SocketAddr) -> io::Result<SockAddr> {
        Ok((*address).into())
    }

    fn from_kernel(address: Option<SocketAddrAny>) -> io::Result<SocketAddr> {
        let found = address.and_then(|address| SocketAddr::try_from(address).ok());
        found.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the socket has no Internet address"))
    }
}

/// The machine.
#[derive(Clone, Copy)]
pub enum Machine {}

impl Family for Machine {
    type Address = UnixAddr;
    const IS_LOCAL: bool = true;

    fn domain(_: &UnixAddr) -> Domain {
        Domain::UNIX
    }

    fn to_kernel(address: &UnixAddr) -> io::Result<SockAddr> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(name) = address.as_abstract_name() {
            return SockAddr::unix(OsStr::from_bytes(&[b"\0", name].concat()));
        }
        SockAddr::unix(address.as_pathname().unwrap_or(Path::new("")))
    }

    fn from_kernel(address: Option<SocketAddrAny>) -> io::Result<UnixAddr> {
        // Behind the family there is nothing; or a path of 108 bytes, which some programs make,
        // has no room for its end: no address of std's, and `rustix` panics.
        let speakable = 3..=110;
        let Some(address) = address.filter(|address| speakable.contains(&address.addr_len())) else {
            return UnixAddr::from_pathname("");
        };
        let address = SocketAddrUnix::try_from(address)?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(name) = address.abstract_name() {
            return UnixAddr::from_abstract_name(name);
        }
        UnixAddr::from_pathname(OsStr::from_bytes(address.path_bytes().unwrap_or_default()))
    }
}
