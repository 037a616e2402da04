//! A file's bytes that go out by a socket, without a copy in the program where the kernel can do
//! that.
//!
//! Used by programs, as `File::send_to`, and by servers of files. The system's `sending` has the
//! kernel's way; here are the conditions for that, and the other way, of reads and writes.
//!
//! The kernel's way (`sendfile`) has two faults. The call raises `SIGPIPE` where the other end has
//! gone, and no flag prevents that: so a program that does not ignore the signal, as Rust programs
//! do from their start, has its files copied. And only the description of the socket says that the
//! call must not wait: see the system's `sending`.

use super::file::File;
use super::system;
use crate::driver::op::Write;
use crate::driver::run::run;
use crate::net::Stream;
use crate::net::protocol::Protocol;
use crate::signal::{Signal, is_ignored};
use std::io;
use std::os::unix::fs::FileExt;

/// How much is read and written at a time.
const COPIED: u64 = 64 << 10;

impl File {
    /// Sends bytes of this file from an offset on, at most `count`, and returns how many the
    /// socket took, as a write does: at least one, unless the file ends at the offset. The position
    /// stays.
    ///
    /// On Linux bytes of a disk's file go from the page cache to the socket without a copy, those
    /// in memory at once and the others by a thread for blocking calls, up to 128 KiB by one call.
    /// Files that another party is asked for, and all files elsewhere, are read and written.
    /// The same happens where the process does not ignore `SIGPIPE`, which the kernel's way would
    /// raise, and where another owner of the socket has made that block.
    ///
    /// The stream's [time-out](Stream::set_write_timeout) limits the wait for room. Bytes that
    /// change while they wait in the socket may be sent either way.
    ///
    /// # Cancellation
    /// *No effect*. If the socket took some bytes, the call returns how many. A loop over this call
    /// *may already have* sent a part.
    ///
    /// # Errors
    /// Those of a write to the stream and of a read at the offset; the kernel's for a file that has
    /// no offsets, as a pipe.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_io::fs::{self, File};
    /// use segue_io::net::UnixStream;
    /// use std::io::Read;
    ///
    /// let path = std::env::temp_dir().join(format!("segue-sent-{}", std::process::id()));
    /// fs::write(&path, "hello, you there")?;
    /// let file = File::open(&path)?;
    /// let (here, mut there) = UnixStream::pair()?;
    /// assert_eq!(file.send_to(&here, 7, 3)?, 3);
    /// let mut sent = [0; 3];
    /// there.read_exact(&mut sent)?;
    /// assert_eq!(&sent, b"you");
    /// assert_eq!(file.send_to(&here, 16, 3)?, 0);
    /// fs::remove_file(&path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn send_to<P: Protocol>(&self, stream: &Stream<P>, offset: u64, count: u64) -> io::Result<u64> {
        segue_core::check()?;
        let (socket, timeout) = (stream.socket(), stream.write_timeout()?);
        if self.is_disk()
            && is_ignored(Signal::PIPE)
            && let Some(sent) = system::send(self.borrowed(), socket, offset, count, timeout)
        {
            return sent.map(|sent| sent as u64);
        }
        let mut bytes = vec![0; count.min(COPIED) as usize];
        let read = self.read_at(&mut bytes, offset)?;
        if read == 0 {
            return Ok(0);
        }
        run(socket, Write(&bytes[..read]), timeout).map(|sent| sent as u64)
    }
}
