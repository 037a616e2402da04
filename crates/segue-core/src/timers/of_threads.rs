//! The timers of all plain threads, and the thread that fires them.
//!
//! Used by plain threads, by schedulers that have no timers of their own, and by those that look
//! after a worker which is away (`late.rs`).

use crate::timers::Timers;
use std::sync::OnceLock;

/// The timers of all plain threads, fired by one thread that starts on first use. Also for
/// schedulers that have none of their own.
#[must_use]
pub fn thread_timers() -> &'static Timers {
    static TIMERS: OnceLock<Timers> = OnceLock::new();
    static STARTED: OnceLock<()> = OnceLock::new();
    let timers = TIMERS.get_or_init(Timers::real);
    STARTED.get_or_init(|| {
        let thread = std::thread::Builder::new()
            .name("segue-timer".to_owned())
            .spawn(|| fire_for_ever(timers))
            .expect("the timer thread of plain threads could not be started");
        timers.call_earlier(thread.thread().clone());
    });
    timers
}

fn fire_for_ever(timers: &Timers) -> ! {
    loop {
        timers.fire();
        match timers.until_next() {
            Some(wait) => std::thread::park_timeout(wait),
            None => std::thread::park(),
        }
    }
}
