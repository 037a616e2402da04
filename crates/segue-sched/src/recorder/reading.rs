//! The recorder's content: [`snapshot`], and the events as values.
//!
//! Used by applications, and by `segue-trace`.

use crate::recorder::registry::{Ink, all, epoch};
use crate::recorder::word::{Kind, Word};
use segue_core::WaitsFor;
use std::fmt;
use std::time::Duration;

/// Events that are older than this are left out.
const LAST: Duration = Duration::from_secs(10);

/// The last events of all workers of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recording {
    /// When the snapshot was taken, by the clock of [`Entry::at`].
    pub taken: Duration,
    /// The workers, in the order in which they were made.
    pub tracks: Vec<Track>,
}

/// The last events of one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Track {
    /// The [name](crate::Runtime::name) of its scheduler.
    pub scheduler: String,
    /// The number of its scheduler in the process, from 1 on.
    pub number: u64,
    /// Its number in its scheduler.
    pub worker: usize,
    /// The events, the oldest first.
    pub entries: Vec<Entry>,
}

/// An event, with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Since an instant that is the same for all recordings of the process.
    pub at: Duration,
    /// The event.
    pub event: Event,
}

/// An event of a worker.
///
/// `fiber` is the number that reports print, of which the upper 16 bits are the worker; it is one
/// of the worker's scheduler, unless the fiber has [moved](crate::move_to) there. `closure` is a
/// number for a closure that has not started, which may be used again after the start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A fiber's turn begins.
    Run {
        /// The fiber.
        fiber: u64,
    },
    /// Its turn ends: the fiber waits.
    Suspend {
        /// The fiber.
        fiber: u64,
        /// The object of the wait, and the line that waits, if known.
        waits_for: Option<WaitsFor>,
    },
    /// Its turn ends: the fiber lets others run.
    Yield {
        /// The fiber.
        fiber: u64,
    },
    /// Its turn ends: the fiber has returned.
    End {
        /// The fiber.
        fiber: u64,
    },
    /// The running fiber has spawned something.
    Spawn {
        /// The closure of the new fiber or task.
        closure: u64,
    },
    /// A closure has become a fiber, and its first turn begins next. Of a task each poll is one.
    Start {
        /// The fiber.
        fiber: u64,
        /// Its closure.
        closure: u64,
        /// Its name, or the first 35 bytes of that.
        name: Option<String>,
    },
    /// The running fiber has resumed another one, of this worker or another of its scheduler.
    Resume {
        /// The other one.
        fiber: u64,
    },
    /// The worker has learnt that another thread has resumed a fiber.
    Mail {
        /// The fiber.
        fiber: u64,
    },
    /// The worker has ended the wait of a fiber, since it was cancelled.
    Cancel {
        /// The fiber.
        fiber: u64,
    },
    /// The worker has taken a closure from another worker.
    Steal {
        /// The closure.
        closure: u64,
    },
    /// The running fiber has left a request to the kernel with the worker's park.
    Flight {
        /// The fiber.
        fiber: u64,
    },
    /// The worker sleeps.
    Park,
    /// The worker has slept.
    Unpark,
    /// So many turns before the next one were not recorded, about: those in which the worker's loop
    /// has found nothing to run are among them.
    Unrecorded {
        /// How many.
        turns: u64,
    },
}

/// Copies the events that the workers of all schedulers have recorded within the last ten seconds,
/// as far as these are still there.
///
/// No worker waits for this, nor does this wait for any: it can be called while workers are stuck,
/// by a hook of a [monitor](crate::Runtime::on_stuck) for instance, or in a panic hook. It
/// allocates, so not in a handler of a signal. The events of a scheduler that has ended are gone.
#[must_use]
pub fn snapshot() -> Recording {
    let rings = all();
    let taken = epoch().elapsed();
    let since = taken.saturating_sub(LAST);
    let mut tracks: Vec<_> = rings.iter().map(|ink| track(ink, since)).collect();
    tracks.sort_by_key(|track| (track.number, track.worker));
    Recording { taken, tracks }
}

fn track(ink: &Ink, since: Duration) -> Track {
    let mut entries = decode(&ink.ring.copy());
    entries.retain(|entry| entry.at >= since);
    Track { scheduler: ink.scheduler.to_string(), number: ink.number, worker: ink.worker, entries }
}

/// The events of these words. Those before the first time are left out.
fn decode(words: &[Word]) -> Vec<Entry> {
    let mut words = words.iter().copied().peekable();
    let mut next = |kind| words.next_if(|word| kind == Kind::Time || word.kind() == Some(kind));
    let mut entries = Vec::new();
    let mut at = None;
    // Of the kind `Time` any word is taken.
    while let Some(word) = next(Kind::Time) {
        let fiber = word.fiber();
        let event = match word.kind() {
            Some(Kind::Time) => {
                at = Some(Duration::from_nanos(word.content()));
                continue;
            }
            Some(Kind::Run) => Event::Run { fiber },
            Some(Kind::End) => Event::End { fiber },
            Some(Kind::Yield) => Event::Yield { fiber },
            Some(Kind::Suspend) => {
                let what = next(Kind::What).and_then(Word::what);
                let place = next(Kind::At).and_then(Word::at);
                Event::Suspend { fiber, waits_for: what.zip(place).map(|(what, at)| WaitsFor { what, at }) }
            }
            Some(Kind::Spawn) => Event::Spawn { closure: word.content() },
            Some(Kind::Start) => {
                let closure = next(Kind::Closure).map_or(0, Word::content);
                let bytes: Vec<_> = std::iter::from_fn(|| next(Kind::Name)).flat_map(Word::bytes).collect();
                let name = (!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned());
                Event::Start { fiber, closure, name }
            }
            Some(Kind::Resume) => Event::Resume { fiber },
            Some(Kind::Mail) => Event::Mail { fiber },
            Some(Kind::Cancel) => Event::Cancel { fiber },
            Some(Kind::Steal) => Event::Steal { closure: word.content() },
            Some(Kind::Flight) => Event::Flight { fiber },
            Some(Kind::Park) => Event::Park,
            Some(Kind::Unpark) => Event::Unpark,
            Some(Kind::Unrecorded) => Event::Unrecorded { turns: word.content() },
            // The rest of an event that has lost its beginning.
            Some(Kind::What | Kind::At | Kind::Closure | Kind::Name) | None => continue,
        };
        entries.extend(at.map(|at| Entry { at, event }));
    }
    entries
}

/// A text for people: a line for each event.
impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for track in &self.tracks {
            writeln!(f, "worker {}-{} of scheduler {}", track.scheduler, track.worker, track.number)?;
            for Entry { at, event } in &track.entries {
                let micros = at.as_nanos() as f64 / 1e3;
                writeln!(f, "  {micros:>14.3} {event}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run { fiber } => write!(f, "fiber {fiber} runs"),
            Self::Suspend { fiber, waits_for: Some(waits_for) } => write!(f, "fiber {fiber} waits for {waits_for}"),
            Self::Suspend { fiber, waits_for: None } => write!(f, "fiber {fiber} waits"),
            Self::Yield { fiber } => write!(f, "fiber {fiber} yields"),
            Self::End { fiber } => write!(f, "fiber {fiber} ends"),
            Self::Spawn { closure } => write!(f, "  spawns closure {closure:#x}"),
            Self::Start { fiber, closure, name: Some(name) } => {
                write!(f, "closure {closure:#x} starts as fiber {fiber}, `{name}`")
            }
            Self::Start { fiber, closure, name: None } => write!(f, "closure {closure:#x} starts as fiber {fiber}"),
            Self::Resume { fiber } => write!(f, "  resumes fiber {fiber}"),
            Self::Mail { fiber } => write!(f, "fiber {fiber} was resumed by another thread"),
            Self::Cancel { fiber } => write!(f, "the wait of fiber {fiber} was cancelled"),
            Self::Steal { closure } => write!(f, "takes closure {closure:#x} from another worker"),
            Self::Flight { fiber } => write!(f, "  fiber {fiber} leaves a request with the park"),
            Self::Park => write!(f, "parks"),
            Self::Unpark => write!(f, "has slept"),
            Self::Unrecorded { turns } => write!(f, "({turns} turns were not recorded)"),
        }
    }
}
