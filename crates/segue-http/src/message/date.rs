//! The `Date` header, formatted once a second. Used by the response encoder.

use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The length of a line such as `date: Sun, 06 Nov 1994 08:49:37 GMT`, with its end.
const LENGTH: usize = 37;

segue_core::plain_thread_local! {
    /// The second last formatted, and its text.
    static CACHED: Cell<(u64, [u8; LENGTH])> = Cell::new((u64::MAX, [0; LENGTH]));
}

/// Appends a line with the current date.
pub(crate) fn append(out: &mut Vec<u8>) {
    // The year 9999 is the last that the format has.
    const LAST: u64 = 253_402_300_799;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()).min(LAST);
    let (second, mut text) = CACHED.get();
    if second != now {
        let date = httpdate::HttpDate::from(UNIX_EPOCH + Duration::from_secs(now));
        let mut rest = &mut text[..];
        // The text always fits: its length is exactly this.
        let _ = std::io::Write::write_fmt(&mut rest, format_args!("date: {date}\r\n"));
        CACHED.set((now, text));
    }
    out.extend_from_slice(&text);
}
