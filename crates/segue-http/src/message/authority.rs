//! The structure of a host and its port, by RFC 3986. Used for `Host` and for targets in absolute
//! form.

use std::net::Ipv6Addr;

/// Whether this is a host with a port behind it or without one. An empty one says that there is no
/// host, which `Host` may say; a port without a host is none.
pub(crate) fn is_authority(value: &[u8]) -> bool {
    // Most often there is a name and perhaps a port.
    let name = value.iter().take_while(|&&byte| PLAIN[usize::from(byte)]).count();
    match value.get(name..) {
        Some([]) => return true,
        Some([b':', port @ ..]) if name > 0 && port.iter().all(u8::is_ascii_digit) => return true,
        _ => {}
    }
    let host = match value.iter().rposition(|&byte| byte == b':') {
        // A colon inside of brackets belongs to the host.
        Some(colon) if !value[colon..].contains(&b']') => {
            // A port may be empty.
            if colon == 0 || !value[colon + 1..].iter().all(u8::is_ascii_digit) {
                return false;
            }
            &value[..colon]
        }
        _ => value,
    };
    match host {
        [b'[', literal @ .., b']'] => is_ip_literal(literal),
        name => is_name(name),
    }
}

/// The content of brackets: an address of version 6, or one of a version to come.
fn is_ip_literal(literal: &[u8]) -> bool {
    if let [b'v' | b'V', rest @ ..] = literal {
        let mut parts = rest.splitn(2, |&byte| byte == b'.');
        let (Some(version), Some(address)) = (parts.next(), parts.next()) else { return false };
        let hexadecimal = !version.is_empty() && version.iter().all(u8::is_ascii_hexdigit);
        return hexadecimal && !address.is_empty() && address.iter().all(|&byte| is_plain(byte) || byte == b':');
    }
    // Digits, colons and points alone: std takes a zone as well, where RFC 3986 has none.
    let address = literal.iter().all(|&byte| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.');
    address && std::str::from_utf8(literal).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// A registered name, of which addresses of version 4 are a special case.
fn is_name(name: &[u8]) -> bool {
    let mut rest = name;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = match (byte, behind) {
            (b'%', [high, low, behind @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => behind,
            (byte, behind) if is_plain(byte) => behind,
            _ => return false,
        };
    }
    true
}

/// [`is_plain`] of each byte.
static PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        plain[byte as usize] = is_plain(byte);
        byte += 1;
    }
    plain
};

/// RFC 3986's unreserved characters and sub-delimiters.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'='
        )
}
