//! The validators of a file, and a request's conditions on them, in the order of RFC 9110, 13.2.2.
//! Used by responses with files.
//!
//! # Strong validators
//!
//! The entity tag is made of the file's length, number and two times in nanoseconds: the last
//! change of the bytes, and the last change of anything. A program can set the former, as copies
//! that keep times do; the latter is the kernel's. Two changes within one tick of the kernel's
//! clock, a few ms, that keep the length have one tag.
//!
//! `Last-Modified` has whole seconds. The header is left out until the second of the change is
//! over. The date is a strong validator, good for `If-Range`, if nothing of the file was changed
//! after that second; not so for a file with a time that was set. A change in the future, or before
//! 1970, is never stated.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{self, GetAll, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use segue_io::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// The validators of one file.
pub(super) struct Validators {
    etag: HeaderValue,
    /// When the file was changed, in seconds since 1970.
    modified: i64,
    /// The same as a header, if that is stated.
    last_modified: Option<HeaderValue>,
    /// No other content has this date.
    is_exact: bool,
}

impl Validators {
    pub(super) fn new(metadata: &Metadata, now: SystemTime) -> Validators {
        let (modified, nanos) = (metadata.mtime(), metadata.mtime_nsec());
        let (changed, change_nanos) = (metadata.ctime(), metadata.ctime_nsec());
        let (length, number) = (metadata.len(), metadata.ino());
        let etag = format!("\"{length:x}-{modified:x}.{nanos:x}-{changed:x}.{change_nanos:x}-{number:x}\"");
        Validators {
            // Digits and points are always a value.
            etag: HeaderValue::from_str(&etag).unwrap_or(HeaderValue::from_static("\"\"")),
            modified,
            last_modified: stated(modified, now),
            is_exact: changed <= modified,
        }
    }

    /// States them in a response.
    pub(super) fn state(&self, headers: &mut HeaderMap) {
        headers.insert(header::ETAG, self.etag.clone());
        if let Some(date) = &self.last_modified {
            headers.insert(header::LAST_MODIFIED, date.clone());
        }
    }

    /// The tag between its quotes.
    fn opaque(&self) -> &[u8] {
        let etag = self.etag.as_bytes();
        &etag[1..etag.len() - 1]
    }
}

/// The date of a change, if its second is over.
fn stated(modified: i64, now: SystemTime) -> Option<HeaderValue> {
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(modified).ok()?))?;
    if time.checked_add(Duration::from_secs(1))? > now {
        return None;
    }
    HeaderValue::from_str(&httpdate::fmt_http_date(time)).ok()
}

/// The outcome of a request's conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The whole file is asked for.
    Whole,
    /// The ranges that the request may have.
    Ranges,
    /// The status in place of the file.
    Status(StatusCode),
}

/// Judges the conditions of a request for a file that is there.
pub(super) fn judge(method: &Method, headers: &HeaderMap, validators: &Validators) -> Verdict {
    if *method != Method::GET && *method != Method::HEAD {
        return Verdict::Whole;
    }
    if headers.contains_key(header::IF_MATCH) {
        if !matches(headers.get_all(header::IF_MATCH), validators, false) {
            return Verdict::Status(StatusCode::PRECONDITION_FAILED);
        }
    } else if date(headers, header::IF_UNMODIFIED_SINCE).is_some_and(|date| validators.modified > date) {
        return Verdict::Status(StatusCode::PRECONDITION_FAILED);
    }
    if headers.contains_key(header::IF_NONE_MATCH) {
        if matches(headers.get_all(header::IF_NONE_MATCH), validators, true) {
            return Verdict::Status(StatusCode::NOT_MODIFIED);
        }
    } else if validators.last_modified.is_some()
        && date(headers, header::IF_MODIFIED_SINCE).is_some_and(|date| validators.modified <= date)
    {
        return Verdict::Status(StatusCode::NOT_MODIFIED);
    }
    if *method == Method::GET && has_range(headers, validators) { Verdict::Ranges } else { Verdict::Whole }
}

/// Whether `If-Range` allows a range.
fn has_range(headers: &HeaderMap, validators: &Validators) -> bool {
    let mut lines = headers.get_all(header::IF_RANGE).iter();
    match (lines.next(), lines.next()) {
        (None, _) => true,
        (Some(value), None) if value.as_bytes().starts_with(b"\"") => *value == validators.etag,
        (Some(value), None) => {
            let is_strong = validators.is_exact && validators.last_modified.is_some();
            is_strong && parse(value) == Some(validators.modified)
        }
        _ => false,
    }
}

/// The date of a header that stands once. Others say nothing.
fn date(headers: &HeaderMap, name: HeaderName) -> Option<i64> {
    let mut lines = headers.get_all(name).iter();
    let value = lines.next()?;
    if lines.next().is_some() { None } else { parse(value) }
}

fn parse(value: &HeaderValue) -> Option<i64> {
    let time = httpdate::parse_http_date(value.to_str().ok()?).ok()?;
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

/// Whether a list of entity tags has the file's, or is `*`. The comparison is strong, unless a weak
/// tag counts as well. A malformed list has the tags that stand before the fault.
fn matches(lines: GetAll<'_, HeaderValue>, validators: &Validators, weak_too: bool) -> bool {
    lines.iter().any(|line| {
        let mut rest = line.as_bytes();
        if rest.trim_ascii() == b"*" {
            return true;
        }
        while let Some((is_weak, opaque, behind)) = next_tag(rest) {
            if opaque == validators.opaque() && (weak_too || !is_weak) {
                return true;
            }
            rest = behind;
        }
        false
    })
}

/// The next tag of a list: whether that is weak, the bytes between its quotes, and the rest.
fn next_tag(list: &[u8]) -> Option<(bool, &[u8], &[u8])> {
    let start = list.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b','))?;
    let (is_weak, list) = match &list[start..] {
        [b'W', b'/', list @ ..] => (true, list),
        list => (false, list),
    };
    let list = list.strip_prefix(b"\"")?;
    let end = list.iter().position(|&byte| byte == b'"')?;
    let behind = &list[end + 1..];
    // A comma, or the end, stands behind each.
    let next = behind.iter().find(|byte| !matches!(byte, b' ' | b'\t'));
    next.is_none_or(|&byte| byte == b',').then_some((is_weak, &list[..end], behind))
}
