//! Percent-encoding, decoded strictly. Used for the parameters of paths, for queries and for forms.
//!
//! Every place that decodes leniently gives a second meaning to some request, which a proxy in
//! front may not have seen: so a `%` without two digits and bytes that are not UTF-8 are errors.

/// Why an encoded text can't be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Digits,
    Utf8,
}

impl Fault {
    pub(super) fn told(self) -> &'static str {
        match self {
            Fault::Digits => "has a % that two hexadecimal digits do not follow",
            Fault::Utf8 => "is not UTF-8 when decoded",
        }
    }
}

/// Appends the decoded text. In a form, `+` is a space.
pub(super) fn decode(encoded: &str, is_form: bool, out: &mut String) -> Result<(), Fault> {
    let is_special = |byte: u8| byte == b'%' || is_form && byte == b'+';
    if !encoded.bytes().any(is_special) {
        out.push_str(encoded);
        return Ok(());
    }
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut bytes = encoded.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => digit(bytes.next())? << 4 | digit(bytes.next())?,
            b'+' if is_form => b' ',
            byte => byte,
        });
    }
    out.push_str(std::str::from_utf8(&decoded).map_err(|_| Fault::Utf8)?);
    Ok(())
}

fn digit(byte: Option<u8>) -> Result<u8, Fault> {
    let digit = byte.and_then(|byte| char::from(byte).to_digit(16)).ok_or(Fault::Digits)?;
    Ok(digit as u8)
}

/// Whether a decoded text has `.` or `..` between slashes, of either kind.
pub(super) fn has_dots(decoded: &str) -> bool {
    decoded.split(['/', '\\']).any(|part| matches!(part, "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_or_refused() {
        let cases = [
            ("", false, Ok("")),
            ("plain", true, Ok("plain")),
            ("a+b", false, Ok("a+b")),
            ("a+b", true, Ok("a b")),
            ("a%2Bb", true, Ok("a+b")),
            ("%2f%2F", false, Ok("//")),
            ("caf%C3%A9", false, Ok("café")),
            ("café%21", false, Ok("café!")),
            ("%00", false, Ok("\0")),
            ("%", false, Err(Fault::Digits)),
            ("%4", false, Err(Fault::Digits)),
            ("a%zz", false, Err(Fault::Digits)),
            ("%+1", true, Err(Fault::Digits)),
            ("%é1", false, Err(Fault::Digits)),
            ("%u0041", true, Err(Fault::Digits)),
            ("%C3", false, Err(Fault::Utf8)),
            ("%C0%AE", false, Err(Fault::Utf8)),
            ("%ED%A0%80", false, Err(Fault::Utf8)),
            ("%F4%90%80%80", false, Err(Fault::Utf8)),
            // Decoded once, and not twice.
            ("%252e", false, Ok("%2e")),
        ];
        for (encoded, is_form, expected) in cases {
            let mut out = String::from("before ");
            let decoded = decode(encoded, is_form, &mut out).map(|()| &out["before ".len()..]);
            assert_eq!(decoded, expected, "{encoded}");
        }
    }

    #[test]
    fn dots_between_slashes_are_found() {
        for with in ["..", ".", "../a", "a/..", "a/./b", "a\\..\\b", "/..", "../"] {
            assert!(has_dots(with), "{with}");
        }
        for without in ["", "a", "...", "a..b", "..a", "a/.b", ".well-known", "/", "//"] {
            assert!(!has_dots(without), "{without}");
        }
    }
}
