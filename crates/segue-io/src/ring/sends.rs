//! Whether a worker's sends fly in its ring or go at once, as the worker measures.
//!
//! Owned by `Ring`; asked by `driver::completions` for each op that moves bytes into a socket, and
//! called by the worker's looks into its ring.
//!
//! # The two ways
//!
//! | way | a send into a socket that has room | without room |
//! | --- | --- | --- |
//! | *fly* | is submitted with those of other fibers, in one system call for all; its fiber is suspended, and comes back after others, to cold cache lines | flies |
//! | *now* | is one system call, after which its fiber goes on | the same call in vain, and then flies |
//!
//! So a flight saves a system call and costs a suspension. A loop that only parses and answers is
//! cheaper with flights; a server with deep frames, timers and a body between receive and send is
//! cheaper without, by a third with a thousand connections. Nothing that a send knows tells the two
//! apart. Hence the worker tries both.
//!
//! # The measure, and why it decides
//!
//! The thread's processor time, divided by the work that was done meanwhile: by the sends that
//! have ended, each of which counts one, and one more for each 4 KiB that the send has moved. That
//! is the price of a connection's whole cycle, with the receive, the fiber's own part, and the
//! misses of caches that one way causes elsewhere. The price of the call alone would not show
//! those. A worker that idles uses no processor time, so idle parks are left out; falling asleep
//! and waking are a part of the price. A fiber that only computes adds the same to both ways.
//!
//! The clock is read once for each *window* of a thousand sends or more: a system call. A window
//! ends at a look into the ring, where every send that was begun is either over or in the queue: in
//! the middle of a round the kernel's part of a send would be in another window than the fiber's.
//! With many connections a window is longer, so that each of them has its turns. After a change of
//! the way some sends are not measured.
//!
//! # States
//!
//! ```text
//!           the hold is over                    the other way was not cheaper by 4 %:
//!   Hold ----------------------> Compare -----> Hold, four times as long, up to 256 windows
//!    ^                            |    ^
//!    |  the other way is kept,    |    |  cheaper, but not yet three times in a row
//!    |  for the shortest hold     |    |
//!    +----------------------------+    +---- kept, other, other, kept: four windows
//! ```
//!
//! One comparison has two windows of each way, around each other: so a cost that grows or shrinks
//! steadily is the same for both. The kept way changes only after three comparisons in a row that
//! say so, so noise does not change the way; and a workload that has changed is noticed when the
//! hold is over. A long hold makes probes cheap: two windows of the other way in 260, which cost
//! less than a percent even where the other way is twice as dear. A worker begins with *now*: with
//! a few connections the ways cost the same, and a send at once is there earlier.
//!
//! | event | effect |
//! | --- | --- |
//! | few sends a second | a window lasts for minutes; nothing runs meanwhile, and no clock is read |
//! | idle | nothing: windows end only after sends |
//! | a cancellation before a send | the send has no effect, by either way |
//! | a cancellation after a send at once | none: the send has happened, its count is returned, and the cancellation shows at the next op |
//! | a cancellation of a flight | as `flying.rs` says |
//!
//! **The race to fear**: none. All of this is the worker's own thread's. Nor does a change of the
//! way reorder bytes: one writer has one send at a time, which is over before the next one begins.
//!
//! # By hand
//!
//! The environment's variable `SEGUE_SENDS` is `auto`, which is the above; `fly` or `now`, for one
//! way for good; or `turns`, where each send goes the other way than the send before, for tests.

use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::ffi::OsStr;
use std::io;
use std::time::Duration;

/// A send that moves so many bytes more is as much work as two.
const BYTES: usize = 4096;

/// How many sends are measured together, at least and at most; in between, two for each flight.
const WINDOW: u64 = 1024;
const LONGEST_WINDOW: u64 = 8192;

/// How many sends after a change of the way are not measured; of more connections, one of each.
const SETTLING: u64 = 128;

/// How many windows a way is kept for, before the first comparison, and after each.
const FIRST_HOLD: u32 = 2;
const SHORTEST_HOLD: u32 = 4;
const LONGEST_HOLD: u32 = 256;
const GROWTH: u32 = 4;

/// By how much the other way must be cheaper, and in how many comparisons in a row.
const MARGIN: f64 = 0.04;
const WINS: u8 = 3;

/// How a send goes into a socket that has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Fly,
    Now,
}

impl Way {
    fn other(self) -> Self {
        match self {
            Way::Fly => Way::Now,
            Way::Now => Way::Fly,
        }
    }
}

/// The choice of the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The cheaper way, as the worker measures.
    #[default]
    Auto,
    Always(Way),
    /// Each send goes the other way than the send before.
    Turns,
}

impl Rule {
    /// The rule that the environment names.
    pub(crate) fn of_environment() -> io::Result<Self> {
        std::env::var_os("SEGUE_SENDS").map_or(Ok(Rule::Auto), |name| Self::named(&name))
    }

    fn named(name: &OsStr) -> io::Result<Self> {
        match name.to_str() {
            Some("" | "auto") => Ok(Rule::Auto),
            Some("fly") => Ok(Rule::Always(Way::Fly)),
            Some("now") => Ok(Rule::Always(Way::Now)),
            Some("turns") => Ok(Rule::Turns),
            _ => {
                let known = "SEGUE_SENDS is to be `auto`, `fly`, `now` or `turns`";
                Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{known}; it is {name:?}")))
            }
        }
    }
}

/// The sends of a worker.
pub(crate) struct Sends {
    rule: Rule,
    way: Cell<Way>,
    chooser: Cell<Chooser>,
    /// Sends until the window is over, and the work that was done in it.
    left: Cell<u64>,
    work: Cell<u64>,
    /// The processor time at the begin of the window; `None` while the way settles.
    begun: Cell<Option<Duration>>,
    /// How many sends have flown, and how many went at once.
    #[cfg(test)]
    went: [Cell<u64>; 2],
}

impl Sends {
    pub(crate) fn new(rule: Rule) -> Self {
        let chooser = Chooser::new(Way::Now);
        let way = if let Rule::Always(way) = rule { way } else { chooser.way() };
        Self {
            rule,
            way: Cell::new(way),
            chooser: Cell::new(chooser),
            left: Cell::new(SETTLING),
            work: Cell::new(0),
            begun: Cell::new(None),
            #[cfg(test)]
            went: Default::default(),
        }
    }

    /// The way of the next send.
    #[inline]
    pub(crate) fn next(&self) -> Way {
        let way = self.way.get();
        if self.rule == Rule::Turns {
            self.way.set(way.other());
        }
        way
    }

    /// A send is over that has moved so many bytes.
    #[inline]
    pub(crate) fn sent(&self, bytes: usize, _way: Way) {
        self.left.set(self.left.get().saturating_sub(1));
        self.work.set(self.work.get() + 1 + (bytes / BYTES) as u64);
        #[cfg(test)]
        self.went[_way as usize].set(self.went[_way as usize].get() + 1);
    }

    /// The worker looks into its ring, where so many ops fly.
    #[inline]
    pub(crate) fn look(&self, flying: usize) {
        if self.left.get() == 0 && self.rule == Rule::Auto {
            self.end_window(flying as u64);
        }
    }

    #[cold]
    #[inline(never)]
    fn end_window(&self, flying: u64) {
        let now = processor_time();
        let mut begun = Some(now);
        if let Some(before) = self.begun.get() {
            let mut chooser = self.chooser.get();
            chooser.over(now.saturating_sub(before).as_nanos() as f64 / self.work.get().max(1) as f64);
            self.chooser.set(chooser);
            if self.way.replace(chooser.way()) != chooser.way() {
                begun = None;
            }
        }
        self.begun.set(begun);
        self.work.set(0);
        self.left.set(match begun {
            None => flying.clamp(SETTLING, WINDOW),
            Some(_) => flying.saturating_mul(2).clamp(WINDOW, LONGEST_WINDOW),
        });
    }

    /// How many sends went by each way: have flown, went at once.
    #[cfg(test)]
    pub(crate) fn went(&self) -> (u64, u64) {
        (self.went[0].get(), self.went[1].get())
    }
}

/// The processor time that this thread has used.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Keeps a way, and tries the other one now and then. Knows neither sends nor clocks: a caller says
/// the cost of each window.
#[derive(Clone, Copy, Debug)]
struct Chooser {
    kept: Way,
    /// How many windows the way is kept for, after the next comparison.
    hold: u32,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Hold {
        left: u32,
    },
    Compare {
        /// How many of the four windows are over, and the costs of each way in them.
        step: u8,
        kept: f64,
        other: f64,
        /// How many comparisons in a row the other way has won before this one.
        wins: u8,
    },
}

impl State {
    fn compare(wins: u8) -> Self {
        State::Compare { step: 0, kept: 0.0, other: 0.0, wins }
    }
}

impl Chooser {
    fn new(kept: Way) -> Self {
        Self { kept, hold: SHORTEST_HOLD, state: State::Hold { left: FIRST_HOLD } }
    }

    /// The way of the next window.
    fn way(&self) -> Way {
        match self.state {
            State::Compare { step: 1 | 2, .. } => self.kept.other(),
            _ => self.kept,
        }
    }

    /// A window is over, in which a piece of work has cost so much.
    fn over(&mut self, cost: f64) {
        self.state = match self.state {
            State::Hold { left: 0 | 1 } => State::compare(0),
            State::Hold { left } => State::Hold { left: left - 1 },
            State::Compare { step: 0, wins, .. } => State::Compare { step: 1, kept: cost, other: 0.0, wins },
            State::Compare { step: 3, kept, other, wins } => self.compared(kept + cost, other, wins),
            State::Compare { step, kept, other, wins } => {
                State::Compare { step: step + 1, kept, other: other + cost, wins }
            }
        };
    }

    /// A comparison is over, with these costs.
    fn compared(&mut self, kept: f64, other: f64, wins: u8) -> State {
        if other >= kept * (1.0 - MARGIN) {
            let left = self.hold;
            self.hold = (left * GROWTH).min(LONGEST_HOLD);
            return State::Hold { left };
        }
        if wins + 1 < WINS {
            return State::compare(wins + 1);
        }
        self.kept = self.kept.other();
        self.hold = SHORTEST_HOLD * GROWTH;
        State::Hold { left: SHORTEST_HOLD }
    }
}

#[cfg(test)]
#[path = "../../tests/units/sends.rs"]
mod tests;
