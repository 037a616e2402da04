//! The proof that a server speaks WebSocket: the SHA-1 of the client's key, in Base64. Used by the
//! handshake.
//!
//! SHA-1 is no secret's guard here, and the input is 60 bytes: so there is no dependency for it.

/// Appended to each key, by RFC 6455.
const SUFFIX: &[u8; 36] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Whether this is the Base64 of 16 bytes.
pub(super) fn is_key(key: &[u8]) -> bool {
    key.len() == 24 && key.ends_with(b"==") && key[..22].iter().all(|digit| DIGITS.contains(digit))
}

/// The answer to a client's key.
pub(super) fn answer(key: &[u8]) -> String {
    base64(&sha1(&[key, SUFFIX].concat()))
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0, |word, &byte| word << 8 | usize::from(byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let digit = DIGITS[word >> (18 - 6 * place) & 63];
            text.push(if place <= three.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

fn sha1(bytes: &[u8]) -> [u8; 20] {
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    let bits = (bytes.len() as u64 * 8).to_be_bytes();
    if padded.len() - bytes.len() < 1 + bits.len() {
        padded.resize(padded.len() + 64, 0);
    }
    let end = padded.len() - bits.len();
    padded[end..].copy_from_slice(&bits);

    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in padded.chunks_exact(64) {
        let mut words = [0; 80];
        for (word, four) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = four.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte));
        }
        for at in 16..80 {
            words[at] = (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (at, word) in words.into_iter().enumerate() {
            let (mixed, constant) = match at / 20 {
                0 => (b & c | !b & d, 0x5a82_7999),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6u32),
            };
            let sum = [mixed, e, constant, word].into_iter().fold(a.rotate_left(5), u32::wrapping_add);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, sum);
        }
        for (word, more) in state.iter_mut().zip([a, b, c, d, e]) {
            *word = word.wrapping_add(more);
        }
    }
    let mut digest = [0; 20];
    for (four, word) in digest.chunks_exact_mut(4).zip(state) {
        four.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::{answer, base64, sha1};

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn digests_are_those_of_the_standards() {
        assert_eq!(hex(&sha1(b"")), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(hex(&sha1(b"abc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
        let two_blocks = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(hex(&sha1(two_blocks)), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
        assert_eq!(hex(&sha1(&[b'a'; 1_000_000])), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(answer(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
