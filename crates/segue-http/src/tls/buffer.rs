//! A queue of bytes in one of the thread's spare buffers, and none while the queue is empty. Used
//! by the engine, for ciphertext in both directions and for plaintext that was not taken at once.

use std::cell::RefCell;

/// The size of a buffer for short messages.
const SMALL: usize = 4 << 10;
/// For one record with its frame.
const MEDIUM: usize = 17 << 10;
/// And for long ones: two records with their frames.
pub(super) const LARGE: usize = 33 << 10;
const SIZES: [usize; 3] = [SMALL, MEDIUM, LARGE];
/// How many spare buffers of each size a thread keeps.
const SPARES: [usize; 3] = [32, 8, 8];

thread_local! {
    /// The buffers that no queue of the thread has, by size. Each is initialised to its full
    /// length.
    static SPARE: RefCell<[Vec<Vec<u8>>; 3]> = const { RefCell::new([Vec::new(), Vec::new(), Vec::new()]) };
}

/// Bytes that leave at the front and come at the end.
#[derive(Default)]
pub(super) struct Buffer {
    /// Always initialised to its full length; `start..end` is filled.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(super) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(super) fn filled_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// The room behind the bytes, at least `room` of it.
    pub(super) fn room(&mut self, room: usize) -> &mut [u8] {
        if self.bytes.len() - self.end < room {
            self.make_room(room);
        }
        &mut self.bytes[self.end..]
    }

    #[cold]
    fn make_room(&mut self, room: usize) {
        let kept = self.len();
        if self.bytes.len() - kept >= room {
            self.bytes.copy_within(self.start..self.end, 0);
        } else {
            // At least twice as much as before: so a long message in pieces is not copied for each.
            let mut bytes = take((kept + room).max(2 * kept));
            bytes[..kept].copy_from_slice(self.filled());
            leave(std::mem::replace(&mut self.bytes, bytes));
        }
        (self.start, self.end) = (0, kept);
    }

    /// So many bytes were put into the room.
    pub(super) fn added(&mut self, count: usize) {
        debug_assert!(count <= self.bytes.len() - self.end);
        self.end += count;
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
            self.added(bytes.len());
        }
    }

    /// Drops bytes at the front; with the last one goes the buffer.
    pub(super) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.len());
        self.start += count;
        if self.is_empty() {
            self.clear();
        }
    }

    /// Moves bytes from the front into `dst`, as many as fit.
    pub(super) fn take_into(&mut self, dst: &mut [u8]) -> usize {
        let count = self.len().min(dst.len());
        dst[..count].copy_from_slice(&self.filled()[..count]);
        self.consume(count);
        count
    }

    /// Moves the bytes to the smallest buffer that holds them: before a wait that may be long.
    pub(super) fn fit(&mut self) {
        let kept = self.len();
        if SIZES.iter().any(|size| kept <= *size && *size < self.bytes.len()) {
            let mut bytes = take(kept);
            bytes[..kept].copy_from_slice(self.filled());
            leave(std::mem::replace(&mut self.bytes, bytes));
            (self.start, self.end) = (0, kept);
        }
    }

    pub(super) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
        leave(std::mem::take(&mut self.bytes));
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A buffer of at least this size.
fn take(size: usize) -> Vec<u8> {
    let Some(kind) = SIZES.iter().position(|fits| size <= *fits) else { return vec![0; size] };
    let size = SIZES[kind];
    // None while the thread ends.
    let spare = SPARE.try_with(|spare| spare.borrow_mut()[kind].pop());
    spare.ok().flatten().unwrap_or_else(|| vec![0; size])
}

/// Leaves a buffer to the thread's other streams.
fn leave(buffer: Vec<u8>) {
    let Some(kind) = SIZES.iter().position(|size| buffer.len() == *size) else { return };
    // Dropped while the thread ends.
    let _ = SPARE.try_with(|spare| {
        let spare = &mut spare.borrow_mut()[kind];
        if spare.len() < SPARES[kind] {
            spare.push(buffer);
        }
    });
}
