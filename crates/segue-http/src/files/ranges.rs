//! The ranges of bytes that a request asks for, by RFC 9110, 14.1.2 and 14.2.
//! Used by responses with files.
//!
//! Ranges that overlap, or touch, are one. So no byte is sent twice, however often a request names
//! that byte. A request that names more than [`MOST`] ranges that do not touch gets the whole file,
//! as 14.2 allows.

use std::ops::Range;

use http::HeaderMap;
use http::header;

/// The most parts of a response.
pub(super) const MOST: usize = 16;

/// The part of a file that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// All of the file: there is no range, none of bytes, a malformed one, or too many.
    Whole,
    /// None of these bytes are in the file.
    Unsatisfiable,
    /// These, in the order of the request. There is at least one; none is empty, none touches
    /// another one, and each is within the file.
    Parts(Vec<Range<u64>>),
}

/// The ranges of a request for a file of this length.
pub(super) fn asked(headers: &HeaderMap, length: u64) -> Asked {
    let mut lines = headers.get_all(header::RANGE).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return Asked::Whole };
    let line = line.as_bytes();
    match line.split_at_checked(6) {
        Some((unit, set)) if unit.eq_ignore_ascii_case(b"bytes=") => parse(set, length).unwrap_or(Asked::Whole),
        _ => Asked::Whole,
    }
}

/// Parses a set of ranges; `None` if the set is malformed.
fn parse(set: &[u8], length: u64) -> Option<Asked> {
    // Each with its place in the request.
    let mut ranges: Vec<(Range<u64>, usize)> = Vec::new();
    let mut count = 0;
    for member in set.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty()) {
        let dash = member.iter().position(|&byte| byte == b'-')?;
        let range = match (&member[..dash], &member[dash + 1..]) {
            (b"", suffix) => {
                let suffix = number(suffix)?;
                if suffix > 0 && length == 0 {
                    // All of nothing, of which no range can be told.
                    return Some(Asked::Whole);
                }
                length.saturating_sub(suffix)..length
            }
            (first, b"") => number(first)?..length,
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                if last < first {
                    return None;
                }
                first..last.saturating_add(1).min(length)
            }
        };
        if range.start < range.end {
            ranges.push((range, count));
        }
        count += 1;
    }
    match (count, ranges.len()) {
        (0, _) => None,
        (_, 0) => Some(Asked::Unsatisfiable),
        _ => Some(joined(ranges)),
    }
}

/// Joins ranges that overlap or touch, at the place of the first one.
fn joined(mut ranges: Vec<(Range<u64>, usize)>) -> Asked {
    ranges.sort_unstable_by_key(|(range, _)| range.start);
    let mut parts: Vec<(Range<u64>, usize)> = Vec::new();
    for (range, place) in ranges {
        match parts.last_mut() {
            Some((last, first)) if range.start <= last.end => {
                last.end = last.end.max(range.end);
                *first = place.min(*first);
            }
            _ => parts.push((range, place)),
        }
    }
    if parts.len() > MOST {
        return Asked::Whole;
    }
    parts.sort_unstable_by_key(|(_, place)| *place);
    Asked::Parts(parts.into_iter().map(|(range, _)| range).collect())
}

/// Digits alone. One beyond all lengths is the greatest there is.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |number: u64, &digit: &u8| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(digits.iter().fold(0, add))
}
