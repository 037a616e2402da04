//! Who resumed whom: the events of all workers in the order of their times, with the arrows between
//! them.
//!
//! Used by `perfetto.rs`.

use segue_sched::recorder::{Event, Recording};
use std::collections::HashMap;

/// The arrows of a recording. An event is named by its track's place and its own place there.
#[derive(Debug, Default)]
pub(crate) struct Arrows {
    /// The arrow that begins at this event, if it has an end.
    pub(crate) begins: HashMap<(usize, usize), u64>,
    /// The arrow that ends at this event, the beginning of a turn.
    pub(crate) ends: HashMap<(usize, usize), u64>,
}

/// The last event that a turn can come from.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Of {
    /// The resume of a fiber.
    Fiber(u64),
    /// The spawn of a closure.
    Closure(u64),
}

/// Finds the arrows: from a resume of a fiber to its next turn, and from a spawn to the first turn
/// of what was spawned.
///
/// Both ends have to be recorded. A resume that comes while the fiber still runs leads to its next
/// turn, as it should: the turn under way has begun before.
pub(crate) fn arrows(recording: &Recording) -> Arrows {
    let tracks = recording.tracks.iter().enumerate();
    let mut order: Vec<_> = tracks
        .flat_map(|(t, track)| track.entries.iter().enumerate().map(move |(e, entry)| (entry.at, t, e)))
        .collect();
    // Events of one time are in the order of their tracks, and there in their own.
    order.sort();
    let mut open: HashMap<(u64, Of), (usize, usize)> = HashMap::new();
    // The closure whose first turn begins next, of each track.
    let mut starts: HashMap<usize, u64> = HashMap::new();
    let mut arrows = Arrows::default();
    let mut last = 0;
    for (_, t, e) in order {
        let track = &recording.tracks[t];
        match track.entries[e].event {
            Event::Resume { fiber } => _ = open.insert((track.number, Of::Fiber(fiber)), (t, e)),
            Event::Spawn { closure } => _ = open.insert((track.number, Of::Closure(closure)), (t, e)),
            Event::Start { closure, .. } => _ = starts.insert(t, closure),
            Event::Run { fiber } => {
                let of = starts.remove(&t).map_or(Of::Fiber(fiber), Of::Closure);
                if let Some(from) = open.remove(&(track.number, of)) {
                    last += 1;
                    arrows.begins.insert(from, last);
                    arrows.ends.insert((t, e), last);
                }
            }
            _ => {}
        }
    }
    arrows
}
