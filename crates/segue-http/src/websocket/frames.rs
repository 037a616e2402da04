//! Follows the frames that arrive, so that no byte is taken behind the frame that is read. Used by
//! the socket, which hands the bytes on to the protocol.
//!
//! The protocol's buffer cannot be seen from outside. With this count the buffer is known to be
//! empty between two frames: so a protocol whose buffer has grown can be replaced by a new one,
//! where no message is half read. The count judges nothing: the protocol does.

/// The place in the stream of frames.
#[derive(Default)]
pub(super) struct Frames {
    /// The bytes of a header so far.
    head: [u8; 14],
    length: usize,
    /// The rest of the payload.
    left: u64,
    /// A message has begun, and its last frame has not come.
    open: bool,
    /// A payload was longer than a small one since the last new protocol.
    pub(super) grown: bool,
}

/// A payload up to this length does not count as growth.
const SMALL: u64 = 128;

impl Frames {
    /// How many bytes there are before something else begins: a part of a header, or a payload.
    pub(super) fn want(&self) -> usize {
        if self.left > 0 { usize::try_from(self.left).unwrap_or(usize::MAX) } else { self.head_length() - self.length }
    }

    /// The length of the header, as far as known.
    fn head_length(&self) -> usize {
        if self.length < 2 {
            return 2;
        }
        let mask = if self.head[1] & 0x80 == 0 { 0 } else { 4 };
        2 + mask + self.extended()
    }

    /// The bytes of the header for a length beyond 125.
    fn extended(&self) -> usize {
        match self.head[1] & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        }
    }

    /// Takes bytes, not more than wanted.
    pub(super) fn took(&mut self, bytes: &[u8]) {
        if self.left > 0 {
            self.left = self.left.saturating_sub(bytes.len() as u64);
            return;
        }
        self.head[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
        if self.length < self.head_length() || self.length < 2 {
            return;
        }
        let long = &self.head[2..2 + self.extended()];
        self.left = match long {
            [] => u64::from(self.head[1] & 0x7f),
            long => long.iter().fold(0, |length, &byte| length << 8 | u64::from(byte)),
        };
        self.grown |= self.left > SMALL;
        if self.head[0] & 0x08 == 0 {
            // A frame of data.
            self.open = self.head[0] & 0x80 == 0;
        }
        self.length = 0;
    }

    /// Whether a message, or a frame, is read in part.
    pub(super) fn is_within(&self) -> bool {
        self.open || self.length > 0 || self.left > 0
    }
}
