//! Writes the frames of a client, and reads those of the server.

pub const CONTINUE: u8 = 0;
pub const TEXT: u8 = 1;
pub const BINARY: u8 = 2;
pub const CLOSE: u8 = 8;
pub const PING: u8 = 9;
pub const PONG: u8 = 10;

/// The mask of all frames here. None of its bytes is zero.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// A frame with this first byte: the flags and the opcode.
pub fn raw(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = head(first, 0x80, payload.len() as u64);
    frame.extend_from_slice(&MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// The beginning of a frame; `masked` is the flag in the second byte.
pub fn head(first: u8, masked: u8, length: u64) -> Vec<u8> {
    let mut head = vec![first];
    match length {
        0..126 => head.push(masked | length as u8),
        126..0x1_0000 => {
            head.push(masked | 126);
            head.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            head.push(masked | 127);
            head.extend_from_slice(&length.to_be_bytes());
        }
    }
    head
}

/// A frame that ends its message.
pub fn last(opcode: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    raw(0x80 | opcode, payload.as_ref())
}

/// A frame that others follow.
pub fn part(opcode: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    raw(opcode, payload.as_ref())
}

pub fn close(code: u16) -> Vec<u8> {
    last(CLOSE, code.to_be_bytes())
}

/// A message in fragments of this many bytes.
pub fn fragments(opcode: u8, payload: &[u8], size: usize) -> Vec<Vec<u8>> {
    let count = payload.len().div_ceil(size).max(1);
    (0..count)
        .map(|at| {
            let opcode = if at == 0 { opcode } else { CONTINUE };
            let some = &payload[(at * size).min(payload.len())..((at + 1) * size).min(payload.len())];
            if at + 1 == count { last(opcode, some) } else { part(opcode, some) }
        })
        .collect()
}

/// The frames of a server: opcode and payload. Each is a whole message, unmasked; and the last one
/// has its end.
pub fn of_server(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        assert_eq!(bytes[0] & 0xf0, 0x80, "a frame of a server ends its message, and has no flags");
        assert_eq!(bytes[1] & 0x80, 0, "a server does not mask");
        let (length, at) = match bytes[1] {
            126 => (u64::from(u16::from_be_bytes([bytes[2], bytes[3]])), 4),
            127 => (u64::from_be_bytes(bytes[2..10].try_into().unwrap()), 10),
            short => (u64::from(short), 2),
        };
        let end = at + length as usize;
        assert!(bytes.len() >= end, "half a frame");
        frames.push((bytes[0] & 15, bytes[at..end].to_vec()));
        bytes = &bytes[end..];
    }
    frames
}
