//! Sends a range of a file: by the transport where that can, else by reads and writes.
//! Used by the bodies of responses that are files.
//!
//! A short range is read behind the head, so that one write sends both, and responses to requests
//! that came together stay together. Before a long one the output is sent. The client's pace is
//! counted over all long ranges of a body, whichever way their bytes go.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use segue_io::fs::File;

use crate::wire::buffers::{COPY_LIMIT, Pace, Wire, retry};
use crate::wire::transport::Transport;

/// How much is read at a time where the transport does not send files.
const READ: usize = 64 << 10;

impl Wire<dyn Transport> {
    /// Sends the output, and the bytes of a file in a range; or appends them to the output. An
    /// error of kind `UnexpectedEof` if the file has fewer.
    pub(crate) fn send_file(&mut self, file: &File, range: Range<u64>, pace: &mut Pace) -> io::Result<()> {
        let Range { start, end } = range;
        if end.saturating_sub(start) <= COPY_LIMIT as u64 {
            return self.append_file(file, start, end);
        }
        let count = self.send_at(pace, &[])?;
        if count > 0 {
            self.took(pace, count);
        }
        let at = self.send_directly(file, start, end, pace)?;
        self.copy_file(file, at, end, pace)
    }

    /// Appends bytes of a file to the output.
    fn append_file(&mut self, file: &File, mut at: u64, end: u64) -> io::Result<()> {
        while at < end {
            let length = self.out.len();
            self.out.resize(length + (end - at) as usize, 0);
            let read = retry(|| file.read_at(&mut self.out[length..], at));
            self.out.truncate(length + *read.as_ref().unwrap_or(&0));
            at += some(read? as u64)?;
        }
        self.flush_if_much()
    }

    /// Has the transport send bytes of a file. Returns the place from which on it does not.
    fn send_directly(&mut self, file: &File, mut at: u64, end: u64, pace: &mut Pace) -> io::Result<u64> {
        while at < end {
            if let Err(late) = self.limit_write(pace) {
                self.failed_by(&late);
                return Err(late);
            }
            match retry(|| self.transport.send_file(file, at, end - at)) {
                Ok(count) => {
                    let count = some(count.min(end - at))?;
                    at += count;
                    self.sent += count;
                    self.took(pace, usize::try_from(count).unwrap_or(usize::MAX));
                }
                Err(error) if error.kind() == io::ErrorKind::Unsupported => break,
                Err(error) => {
                    self.failed_by(&error);
                    return Err(error);
                }
            }
        }
        // A stream of TLS has encrypted the last bytes, and not sent them.
        self.transport.flush().inspect_err(|error| self.failed_by(error))?;
        Ok(at)
    }

    /// Reads and writes bytes of a file.
    fn copy_file(&mut self, file: &File, mut at: u64, end: u64, pace: &mut Pace) -> io::Result<()> {
        let mut bytes = Vec::new();
        while at < end {
            bytes.resize(READ.min(usize::try_from(end - at).unwrap_or(READ)), 0);
            let read = retry(|| file.read_at(&mut bytes, at))?;
            at += some(read as u64)?;
            let count = self.send_at(pace, &bytes[..read])?;
            self.took(pace, count);
        }
        Ok(())
    }
}

/// No bytes are the end of a file that was longer.
fn some(count: u64) -> io::Result<u64> {
    if count == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(count) }
}
