//! The wires of Segue's on which a crate is tried, in one direction.
//!
//! Used by `streaming`.

use rustix::pipe::fcntl_setpipe_size;
use segue::net::{TcpListener, TcpStream, UnixStream};
use segue::pipe::{PipeReader, PipeWriter, pipe};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;

/// Something to read from, with something to write to at its other end.
pub trait Wire: Read + AsFd + Send + Sized {
    /// The end that is written to.
    type Writer: Write + AsFd + Send;

    /// Both ends.
    ///
    /// # Errors
    /// What the kernel says.
    fn pair() -> io::Result<(Self::Writer, Self)>;
}

impl Wire for TcpStream {
    type Writer = Self;

    fn pair() -> io::Result<(Self, Self)> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let writer = Self::connect(listener.local_addr()?)?;
        writer.set_nodelay(true)?;
        let (reader, _peer) = listener.accept()?;
        reader.set_nodelay(true)?;
        Ok((writer, reader))
    }
}

impl Wire for UnixStream {
    type Writer = Self;

    fn pair() -> io::Result<(Self, Self)> {
        Self::pair()
    }
}

/// A page has room in it, so that who writes more has to wait.
impl Wire for PipeReader {
    type Writer = PipeWriter;

    fn pair() -> io::Result<(PipeWriter, Self)> {
        let (reader, writer) = pipe()?;
        fcntl_setpipe_size(&writer, 4096)?;
        Ok((writer, reader))
    }
}
