//! The encodings of a file's content that a client takes, by RFC 9110, 12.5.3. Used by the handler
//! of a directory, for files that lie beside their compressed ones.

use http::HeaderMap;
use http::header;

/// An encoding: its name, and the extension of files in that. The better ones stand first.
pub(super) const KNOWN: [(&str, &str); 2] = [("br", ".br"), ("gzip", ".gz")];

/// Those that the client takes, the one it likes best first.
pub(super) fn accepted(headers: &HeaderMap) -> Vec<(&'static str, &'static str)> {
    let mut weights = [None; KNOWN.len()];
    let mut others = 0;
    let lines = headers.get_all(header::ACCEPT_ENCODING).iter();
    for member in lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b',')) {
        let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default();
        let weight = parts.find_map(weight).unwrap_or(1000);
        if name == b"*" {
            others = weight;
        }
        let is_alias = |known: &str| known == "gzip" && name.eq_ignore_ascii_case(b"x-gzip");
        for (kept, (known, _)) in weights.iter_mut().zip(KNOWN) {
            if name.eq_ignore_ascii_case(known.as_bytes()) || is_alias(known) {
                *kept = Some(weight);
            }
        }
    }
    let mut accepted: Vec<_> = weights.into_iter().map(|weight| weight.unwrap_or(others)).zip(KNOWN).collect();
    accepted.retain(|(weight, _)| *weight > 0);
    accepted.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    accepted.into_iter().map(|(_, known)| known).collect()
}

/// A parameter `q`, in thousandths. A malformed one counts as zero.
fn weight(parameter: &[u8]) -> Option<u32> {
    let value = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="))?;
    let is_number = value.len() <= 5 && value.iter().all(|&byte| byte.is_ascii_digit() || byte == b'.');
    let number = std::str::from_utf8(value).ok().filter(|_| is_number).and_then(|text| text.parse::<f32>().ok());
    Some(number.map_or(0, |number| (number.min(1.0) * 1000.0) as u32))
}
