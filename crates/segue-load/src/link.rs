//! The stream of one connection, plain or of TLS, as a transport for the client: with bytes that
//! were read before, and with a record of the first exchange. Used by the connections.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use segue::net::TcpStream;
use segue_http::Transport;

/// How to reach the server.
#[derive(Clone)]
pub struct Address {
    pub socket: SocketAddr,
    /// For TLS.
    pub secure: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// The bytes of an exchange in both directions.
#[derive(Default)]
pub struct Record {
    pub sent: Vec<u8>,
    pub received: Vec<u8>,
}

enum Stream {
    Plain(TcpStream),
    Secure(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// A stream to the server.
pub struct Link {
    stream: Stream,
    /// Bytes that are read before those of the stream.
    ahead: Vec<u8>,
    /// How many bytes are not written: they were before.
    swallow: usize,
    record: Option<Rc<RefCell<Record>>>,
}

impl Link {
    /// Connects within this time, which each later read and write has, too.
    pub(crate) fn connect(to: &Address, time: Duration) -> io::Result<Link> {
        let tcp = segue::timeout(time, || TcpStream::connect(to.socket))?;
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(time))?;
        tcp.set_write_timeout(Some(time))?;
        let stream = match &to.secure {
            None => Stream::Plain(tcp),
            Some((config, name)) => {
                let session = ClientConnection::new(Arc::clone(config), name.clone()).map_err(io::Error::other)?;
                let mut stream = Box::new(StreamOwned::new(session, tcp));
                while stream.conn.is_handshaking() {
                    stream.conn.complete_io(&mut stream.sock)?;
                }
                Stream::Secure(stream)
            }
        };
        Ok(Link { stream, ahead: Vec::new(), swallow: 0, record: None })
    }

    /// Has the bytes recorded from now on.
    pub(crate) fn record(&mut self) -> Rc<RefCell<Record>> {
        Rc::clone(self.record.get_or_insert_default())
    }

    /// Has `ahead` read first, and the first `swallow` bytes that are written go nowhere.
    pub(crate) fn resume(&mut self, ahead: &[u8], swallow: usize) {
        self.ahead.extend_from_slice(ahead);
        self.swallow = swallow;
    }

    fn tcp(&self) -> &TcpStream {
        match &self.stream {
            Stream::Plain(tcp) => tcp,
            Stream::Secure(stream) => &stream.sock,
        }
    }
}

impl Read for Link {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = if self.ahead.is_empty() {
            match &mut self.stream {
                Stream::Plain(tcp) => tcp.read(buf)?,
                Stream::Secure(stream) => stream.read(buf)?,
            }
        } else {
            let count = self.ahead.len().min(buf.len());
            buf[..count].copy_from_slice(&self.ahead[..count]);
            self.ahead.drain(..count);
            count
        };
        if let Some(record) = &self.record {
            record.borrow_mut().received.extend_from_slice(&buf[..count]);
        }
        Ok(count)
    }
}

impl Write for Link {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if self.swallow > 0 && !buf.is_empty() {
            let count = self.swallow.min(buf.len());
            self.swallow -= count;
            return Ok(count);
        }
        let count = match &mut self.stream {
            Stream::Plain(tcp) => tcp.write(buf)?,
            Stream::Secure(stream) => {
                let count = stream.write(buf)?;
                stream.flush()?;
                count
            }
        };
        if let Some(record) = &self.record {
            record.borrow_mut().sent.extend_from_slice(&buf[..count]);
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport for Link {
    fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.tcp().set_read_timeout(time)
    }

    fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        self.tcp().set_write_timeout(time)
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.tcp().shutdown(Shutdown::Write)
    }

    fn is_secure(&self) -> bool {
        matches!(self.stream, Stream::Secure(_))
    }
}
