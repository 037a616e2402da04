//! The name of a file below a root that a request's path means. Used by the handler of a directory.
//!
//! The path is cut at its slashes first, and each name decoded by itself, once: so `%2f` makes no
//! new name, and `%252e` is the three bytes `%2e`. A name that could mean anything but an entry of
//! its directory is refused: an empty one, `.` and `..`; one with a slash, a backslash or a NUL.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The decoded names, and whether the path asks for a directory: ends in a slash, or is empty.
/// `None` for a path that is refused; names that begin with a point are, unless `hidden`.
pub(super) fn below(path: &str, hidden: bool) -> Option<(PathBuf, bool)> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let (names, is_directory) = match path.strip_suffix('/') {
        _ if path.is_empty() => return Some((PathBuf::new(), true)),
        Some(names) => (names, true),
        None => (path, false),
    };
    let mut decoded = PathBuf::new();
    for name in names.split('/') {
        let name = decode(name.as_bytes())?;
        let is_plain = !matches!(&name[..], b"" | b"." | b"..") && !name.iter().any(|byte| b"/\\\0".contains(byte));
        if !is_plain || name[0] == b'.' && !hidden {
            return None;
        }
        decoded.push(OsString::from_vec(name));
    }
    Some((decoded, is_directory))
}

/// Decodes percent signs; `None` if one has no two digits behind.
fn decode(name: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: &u8| (*byte as char).to_digit(16).map(|digit| digit as u8);
    let mut decoded = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        decoded.push(match (byte, behind) {
            (b'%', [high, low, behind @ ..]) => {
                rest = behind;
                digit(high)? << 4 | digit(low)?
            }
            (b'%', _) => return None,
            (byte, _) => byte,
        });
    }
    Some(decoded)
}
