//! std's addresses, with the sockets of [`segue::net`].
//!
//! A [`ToSocketAddrs`] of a program's own goes wherever a socket takes an address:
//!
//! ```
//! use segue_std::net::{SocketAddr, TcpListener, ToSocketAddrs};
//! use std::{io, option};
//!
//! /// Any free port of this machine.
//! struct Local;
//!
//! impl ToSocketAddrs for Local {
//!     type Iter = option::IntoIter<SocketAddr>;
//!
//!     fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
//!         Ok(Some(([127, 0, 0, 1], 0).into()).into_iter())
//!     }
//! }
//!
//! assert!(TcpListener::bind(Local)?.local_addr()?.port() > 0);
//! # Ok::<(), io::Error>(())
//! ```

pub use segue::net::{Incoming, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
#[doc(no_inline)]
pub use std::net::*;
