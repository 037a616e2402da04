//! [`perfetto`]: a recording in Perfetto's format.
//!
//! Used by applications, and by `file.rs`.

use crate::message::{DebugAnnotation, ProcessDescriptor, Trace, TracePacket, TrackDescriptor, TrackEvent, Type};
use crate::story::{Arrows, arrows};
use prost::Message;
use segue_sched::recorder::{Entry, Event, Recording, Track};
use std::collections::HashMap;
use std::time::Duration;

/// The content of a file for <https://ui.perfetto.dev>, or for any other reader of Perfetto's
/// traces.
///
/// There is a track for each worker, with a slice for each recorded turn of a fiber, and one for
/// each sleep of the worker. An arrow leads from the turn in which a fiber is resumed, or spawned,
/// to the turn that begins by that, if both are recorded. The end of a turn says what the fiber
/// waits for. Slices balance: a turn that has no end, since it is under way or the end was not
/// recorded, ends where the next one begins, or with the recording; an end without a beginning is
/// left out.
///
/// # Examples
///
/// ```
/// let recording = segue_sched::Runtime::new().workers(1).run(|| {
///     segue_core::spawn(|| ()).join().unwrap();
///     segue_sched::recorder::snapshot()
/// })?;
/// assert!(!segue_trace::perfetto(&recording).is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn perfetto(recording: &Recording) -> Vec<u8> {
    let arrows = arrows(recording);
    let mut names = HashMap::new();
    for track in &recording.tracks {
        for entry in &track.entries {
            if let Event::Start { fiber, name: Some(name), .. } = &entry.event {
                names.insert((track.number, *fiber), name.as_str());
            }
        }
    }
    let mut packet = vec![descriptor(TrackDescriptor {
        uuid: Some(PROCESS),
        process: Some(ProcessDescriptor {
            pid: i32::try_from(std::process::id()).ok(),
            process_name: std::env::current_exe().ok().and_then(|exe| Some(exe.file_name()?.to_string_lossy().into())),
        }),
        ..TrackDescriptor::default()
    })];
    for (place, track) in recording.tracks.iter().enumerate() {
        let uuid = PROCESS + 1 + place as u64;
        packet.push(descriptor(TrackDescriptor {
            uuid: Some(uuid),
            name: Some(format!("{}-{} of scheduler {}", track.scheduler, track.worker, track.number)),
            parent_uuid: Some(PROCESS),
            ..TrackDescriptor::default()
        }));
        let mut writer =
            Writer { uuid, place, track, arrows: &arrows, names: &names, open: false, packet: &mut packet };
        track.entries.iter().enumerate().for_each(|(at, entry)| writer.write(at, entry));
        writer.close(recording.taken, Vec::new());
    }
    Trace { packet }.encode_to_vec()
}

/// The number of the process among the tracks.
const PROCESS: u64 = 1;

fn descriptor(descriptor: TrackDescriptor) -> TracePacket {
    TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() }
}

/// Writes one track.
struct Writer<'a> {
    uuid: u64,
    place: usize,
    track: &'a Track,
    arrows: &'a Arrows,
    names: &'a HashMap<(u64, u64), &'a str>,
    /// Whether a slice has begun.
    open: bool,
    packet: &'a mut Vec<TracePacket>,
}

impl Writer<'_> {
    fn write(&mut self, place: usize, entry: &Entry) {
        let (at, key) = (entry.at, (self.place, place));
        match &entry.event {
            Event::Run { fiber } => {
                let arrow = self.arrows.ends.get(&key).copied();
                let event = TrackEvent { terminating_flow_ids: arrow.into_iter().collect(), ..TrackEvent::default() };
                self.begin(at, self.name(*fiber), event);
            }
            Event::Suspend { waits_for, .. } => {
                let object = waits_for.map(|waits_for| note("waits for", waits_for.to_string()));
                self.close(at, object.into_iter().collect());
            }
            Event::Yield { .. } => self.close(at, vec![note("yields", String::new())]),
            Event::End { .. } => self.close(at, vec![note("ends", String::new())]),
            Event::Park => self.begin(at, "sleeps".to_owned(), TrackEvent::default()),
            Event::Unpark => self.close(at, Vec::new()),
            Event::Resume { fiber } => self.instant(at, key, format!("resumes {}", self.name(*fiber))),
            Event::Spawn { closure } => self.instant(at, key, format!("spawns closure {closure:#x}")),
            Event::Flight { .. } => self.instant(at, key, "leaves a request with the park".to_owned()),
            Event::Mail { fiber } => self.instant(at, key, format!("{} was resumed elsewhere", self.name(*fiber))),
            Event::Cancel { fiber } => self.instant(at, key, format!("{} was cancelled", self.name(*fiber))),
            Event::Steal { closure } => self.instant(at, key, format!("steals closure {closure:#x}")),
            Event::Unrecorded { turns } => self.instant(at, key, format!("{turns} turns were not recorded")),
            // Those of the turn that follows; and kinds of a later version.
            _ => {}
        }
    }

    fn name(&self, fiber: u64) -> String {
        match self.names.get(&(self.track.number, fiber)) {
            Some(name) => (*name).to_owned(),
            None => format!("fiber {fiber}"),
        }
    }

    fn push(&mut self, at: Duration, kind: Type, event: TrackEvent) {
        let event = TrackEvent { r#type: Some(kind.into()), track_uuid: Some(self.uuid), ..event };
        self.packet.push(TracePacket {
            timestamp: Some(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX)),
            trusted_packet_sequence_id: Some(1),
            track_event: Some(event),
            ..TracePacket::default()
        });
    }

    fn begin(&mut self, at: Duration, name: String, event: TrackEvent) {
        self.close(at, Vec::new());
        self.open = true;
        self.push(at, Type::SliceBegin, TrackEvent { name: Some(name), ..event });
    }

    fn close(&mut self, at: Duration, debug_annotations: Vec<DebugAnnotation>) {
        if std::mem::take(&mut self.open) {
            self.push(at, Type::SliceEnd, TrackEvent { debug_annotations, ..TrackEvent::default() });
        }
    }

    /// An event without a length, in a turn or between two.
    fn instant(&mut self, at: Duration, key: (usize, usize), name: String) {
        let flow_ids = self.arrows.begins.get(&key).copied().into_iter().collect();
        self.push(at, Type::Instant, TrackEvent { name: Some(name), flow_ids, ..TrackEvent::default() });
    }
}

fn note(name: &str, value: String) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.to_owned()), string_value: Some(value), uint_value: None }
}
