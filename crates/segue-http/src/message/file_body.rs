//! The body of a response that is a file, or parts of one.
//! Made by handlers, and by the room of files; sent by the connection loop.

use std::io;
use std::ops::Range;

use segue_io::fs::File;

use crate::wire::buffers::{Pace, Wire};
use crate::wire::transport::Transport;

/// Ranges of a file, with bytes before each and behind the last.
pub(crate) struct FileBody {
    file: File,
    parts: Vec<(Vec<u8>, Range<u64>)>,
    end: Vec<u8>,
}

impl FileBody {
    /// One range alone.
    pub(crate) fn new(file: File, range: Range<u64>) -> FileBody {
        FileBody { file, parts: vec![(Vec::new(), range)], end: Vec::new() }
    }

    /// Ranges, each behind its bytes, and the bytes behind the last one.
    pub(crate) fn of_parts(file: File, parts: Vec<(Vec<u8>, Range<u64>)>, end: Vec<u8>) -> FileBody {
        FileBody { file, parts, end }
    }

    pub(crate) fn length(&self) -> u64 {
        let parts =
            self.parts.iter().map(|(before, range)| before.len() as u64 + range.end.saturating_sub(range.start));
        parts.fold(self.end.len() as u64, u64::saturating_add)
    }

    /// Sends all of it, or leaves the rest in the output. After an error there is a part in the
    /// output, or has been sent.
    pub(crate) fn send(&self, wire: &mut Wire<dyn Transport>) -> io::Result<()> {
        // A read of the file may wait, and has the wire meanwhile.
        wire.flush_finished();
        let mut pace = Pace::default();
        for (before, range) in &self.parts {
            wire.out.extend_from_slice(before);
            wire.send_file(&self.file, range.clone(), &mut pace)?;
        }
        wire.out.extend_from_slice(&self.end);
        Ok(())
    }
}
