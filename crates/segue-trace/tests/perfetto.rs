//! The file, read back: it parses, its slices balance, and its arrows lead from who resumes to who
//! runs.

#[path = "../src/message.rs"]
#[allow(dead_code, unreachable_pub, missing_docs)]
mod message;

use message::{Trace, TrackEvent, Type};
use prost::Message;
use segue::sync::MVar;
use segue_core::{Builder, scope, spawn, yield_now};
use segue_sched::Runtime;
use segue_sched::recorder::{Recording, snapshot};
use std::collections::HashMap;
use std::fs;

/// The events of a track, in their order, with their times.
type Events = Vec<(u64, TrackEvent)>;

/// The tracks by their names, after the checks that hold for every file.
fn read(bytes: &[u8]) -> HashMap<String, Events> {
    let trace = Trace::decode(bytes).expect("a file that parses");
    let mut names = HashMap::new();
    let mut tracks: HashMap<u64, Events> = HashMap::new();
    let (mut from, mut to) = (HashMap::new(), HashMap::new());
    for packet in trace.packet {
        if let Some(descriptor) = packet.track_descriptor {
            let uuid = descriptor.uuid.expect("a number");
            assert_eq!(names.insert(uuid, descriptor.name.unwrap_or_default()), None, "a track is described once");
            continue;
        }
        let (event, at) = (packet.track_event.expect("an event"), packet.timestamp.expect("a time"));
        let uuid = event.track_uuid.expect("a track");
        assert!(names.contains_key(&uuid), "a track is described before its events");
        for arrow in &event.flow_ids {
            assert_eq!(from.insert(*arrow, (at, event.name.clone())), None, "an arrow begins once");
        }
        for arrow in &event.terminating_flow_ids {
            assert_eq!(to.insert(*arrow, at), None, "an arrow ends once");
        }
        tracks.entry(uuid).or_default().push((at, event));
    }
    for (arrow, end) in &to {
        assert!(from[arrow].0 <= *end, "arrow {arrow} goes back in time");
    }
    assert_eq!(from.len(), to.len());
    for events in tracks.values() {
        let (mut depth, mut last) = (0, 0);
        for (at, event) in events {
            assert!(*at >= last, "{event:?} comes before the one before");
            last = *at;
            match event.r#type() {
                Type::SliceBegin => depth += 1,
                Type::SliceEnd => depth -= 1,
                _ => {}
            }
            assert!((0..=1).contains(&depth), "{event:?}");
        }
        assert_eq!(depth, 0, "a slice has no end");
    }
    tracks.into_iter().map(|(uuid, events)| (names.remove(&uuid).unwrap(), events)).collect()
}

/// What a scheduler with this name has recorded when `f` has returned.
fn record(name: &str, workers: usize, f: impl FnOnce() + Send) -> Recording {
    let recording = Runtime::new().workers(workers).name(name).run(|| {
        f();
        snapshot()
    });
    recording.unwrap()
}

fn track<'a>(tracks: &'a HashMap<String, Events>, name: &str) -> &'a Events {
    tracks.iter().find(|(track, _)| track.starts_with(name)).expect("the track").1
}

fn is_named(event: &TrackEvent, name: &str) -> bool {
    event.name.as_deref() == Some(name)
}

#[test]
fn an_arrow_leads_from_the_put_to_the_turn_that_takes() {
    let recording = record("arrows", 1, || {
        let cell = MVar::empty();
        scope(|s| {
            Builder::new().name("taker").within(s).spawn(|| assert_eq!(cell.take(), Ok(7)));
            yield_now().unwrap();
            cell.put(7).unwrap();
        });
    });
    let tracks = read(&segue_trace::perfetto(&recording));
    let events = track(&tracks, "arrows-0");
    let begins = events.iter().filter(|(_, event)| event.r#type() == Type::SliceBegin && is_named(event, "taker"));
    let begins: Vec<_> = begins.collect();
    let [(_, first), (_, second)] = &begins[..] else { panic!("{begins:?}") };
    let from = |arrow: u64| &events.iter().find(|(_, event)| event.flow_ids.contains(&arrow)).unwrap().1;
    assert!(from(first.terminating_flow_ids[0]).name.as_deref().unwrap().starts_with("spawns closure "));
    assert!(is_named(from(second.terminating_flow_ids[0]), "resumes taker"));
    let waits = |event: &TrackEvent| {
        let notes = event.debug_annotations.iter().filter_map(|note| note.string_value.as_deref());
        notes.into_iter().any(|note| note.contains("perfetto.rs:"))
    };
    assert!(events.iter().any(|(_, event)| event.r#type() == Type::SliceEnd && waits(event)), "{events:?}");
}

#[test]
fn files_of_two_busy_workers_balance_whenever_they_are_written() {
    let recordings = std::sync::Mutex::new(Vec::new());
    record("busy", 2, || {
        for _ in 0..20 {
            let cells: Vec<_> = (0..20).map(|_| MVar::empty()).collect();
            scope(|s| {
                for pair in cells.chunks(2) {
                    s.spawn(|| {
                        for i in 0..20 {
                            pair[0].put(i).unwrap();
                            pair[1].take().unwrap();
                        }
                    });
                    s.spawn(|| (0..20).for_each(|_| pair[1].put(pair[0].take().unwrap()).unwrap()));
                }
            });
            recordings.lock().unwrap().push(snapshot());
        }
    });
    let mut arrows = 0;
    for recording in recordings.into_inner().unwrap() {
        let tracks = read(&segue_trace::perfetto(&recording));
        arrows += tracks.values().flatten().map(|(_, event)| event.flow_ids.len()).sum::<usize>();
    }
    assert!(arrows > 100, "{arrows}");
}

#[test]
fn nothing_at_all_is_a_file_too() {
    assert!(read(&segue_trace::perfetto(&Recording::default())).is_empty());
}

#[test]
fn a_file_takes_the_place_of_another_whole() {
    let path = std::env::temp_dir().join(format!("segue-trace-{}.pftrace", std::process::id()));
    fs::write(&path, "another").unwrap();
    record("file", 1, || {
        spawn(|| ()).join().unwrap();
        segue_trace::write(&path).unwrap();
    });
    let tracks = read(&fs::read(&path).unwrap());
    assert!(!track(&tracks, "file-0").is_empty());
    fs::remove_file(path).unwrap();
}

#[test]
fn a_file_that_cannot_be_is_an_error_and_leaves_nothing() {
    let folder = std::env::temp_dir().join(format!("segue-trace-none-{}", std::process::id()));
    assert!(segue_trace::write(folder.join("trace")).is_err());
    assert!(segue_trace::write("/").is_err());
    // A folder is in the way: the file beside that is taken away again.
    fs::create_dir_all(folder.join("trace").join("full")).unwrap();
    assert!(segue_trace::write(folder.join("trace")).is_err());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    fs::remove_dir_all(folder).unwrap();
}
