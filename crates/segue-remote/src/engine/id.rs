//! Ids of jobs, and the names that subjects and keys are made of.
//!
//! Used by the pool for each job, by options, and by engines.
//!
//! An id is one token of a NATS subject and a key of its buckets: letters, digits, `-`, `_`, `=`
//! and `/`. The id of a job with a key is `name/key`, where each other byte of the key is `=` with
//! two hexadecimal digits: two keys never have one id. All other ids are `prefix-number`, with a
//! prefix of 128 bits that are the submitter's own; they contain no `/`.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most bytes that a key may have: an id is a part of subjects.
pub(crate) const LONGEST_KEY: usize = 128;
/// The most bytes of the name of a job or of a pool.
pub(crate) const LONGEST_NAME: usize = 64;

/// A prefix for one submitter. Its bits are those of the system's randomness that std's maps use.
pub(crate) fn prefix() -> String {
    let half = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", half(), half())
}

/// An id that nothing else has.
pub(crate) fn fresh(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The id of the job of this name that has this key.
pub(crate) fn keyed(name: &str, key: &str) -> String {
    let mut id = format!("{name}/");
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            id.push(char::from(byte));
        } else {
            id.push_str(&format!("={byte:02X}"));
        }
    }
    id
}

/// Whether this is an id that [`keyed`] has made.
pub(crate) fn is_keyed(id: &str) -> bool {
    id.contains('/')
}

/// The submitter's prefix in an id that [`fresh`] has made.
#[cfg(feature = "nats")]
pub(crate) fn prefix_of(id: &str) -> Option<&str> {
    if is_keyed(id) { None } else { id.rsplit_once('-').map(|(prefix, _)| prefix) }
}

/// Whether this can be the name of a job or of a pool.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether this is one token of a subject, and a key of a bucket.
    fn is_token(id: &str) -> bool {
        !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_=/".contains(&byte))
    }

    #[test]
    fn two_keys_never_have_one_id_and_each_id_is_a_token() {
        let keys = ["a", "a b", "a=20b", "a/b", "a.b", "a*b", "a>b", "ä", "", "A", "a\n", "a=2Fb"];
        let ids: std::collections::HashSet<String> = keys.iter().map(|key| keyed("job", key)).collect();
        assert_eq!(ids.len(), keys.len());
        assert!(ids.iter().all(|id| is_token(id) && is_keyed(id)));
    }

    #[test]
    fn fresh_ids_differ_and_say_whose_they_are() {
        let prefix = prefix();
        let (one, other) = (fresh(&prefix), fresh(&prefix));
        assert!(one != other && is_token(&one) && !is_keyed(&one));
        #[cfg(feature = "nats")]
        assert_eq!((prefix_of(&one), prefix_of("job/a-1")), (Some(prefix.as_str()), None));
        assert_ne!(prefix, super::prefix());
    }

    #[test]
    fn names_are_tokens() {
        for (name, fine) in [("fib", true), ("k-nucleotide_2", true), ("", false), ("a.b", false), ("a b", false)] {
            assert_eq!(is_name(name), fine, "{name}");
        }
        assert!(!is_name(&"a".repeat(LONGEST_NAME + 1)));
    }
}
