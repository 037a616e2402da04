//! Snapshots by another thread while workers write round and round.

use segue_core::{scope, yield_now};
use segue_sched::Runtime;
use segue_sched::recorder::{Event, Track, snapshot};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

/// What a track of one worker has to keep, wherever it begins: times do not go back, and what ends
/// a turn is of the fiber that began it. Answers how many turns are complete.
fn check(track: &Track) -> usize {
    let (mut last, mut running, mut complete) = (None, None, 0);
    for entry in &track.entries {
        assert!(Some(entry.at) >= last, "{entry:?} after {last:?}");
        last = Some(entry.at);
        match entry.event {
            Event::Run { fiber } => running = Some(fiber),
            Event::Suspend { fiber, .. } | Event::Yield { fiber } | Event::End { fiber } => {
                // The beginning may be gone with the oldest.
                assert!(running.is_none_or(|running| running == fiber), "{entry:?} of {running:?}");
                complete += usize::from(running.take().is_some());
            }
            Event::Resume { .. } | Event::Spawn { .. } => {}
            Event::Park | Event::Unpark => assert_eq!(running, None, "{entry:?}"),
            _ => {}
        }
    }
    complete
}

#[test]
fn snapshots_are_true_while_small_rings_are_written_round_and_round() {
    let over = AtomicBool::new(false);
    // Each fiber waits, wakes and yields: for some words a turn.
    thread::scope(|threads| {
        threads.spawn(|| {
            let runtime = Runtime::new().workers(2).name("load").recorder(4096);
            let done = runtime.run(|| {
                while !over.load(SeqCst) {
                    scope(|s| {
                        for _ in 0..20 {
                            s.spawn(|| (0..20).for_each(|_| yield_now().unwrap()));
                        }
                    });
                }
            });
            done.unwrap();
        });
        let (mut turns, mut looks) = (0, 0);
        while turns < 20_000 {
            looks += 1;
            for track in snapshot().tracks.iter().filter(|track| track.scheduler == "load") {
                turns += check(track);
                // Some rings have wrapped, and none has more than there is room for.
                assert!(track.entries.len() <= 4096 / 8);
            }
        }
        assert!(looks > 10);
        over.store(true, SeqCst);
    });
}

#[test]
fn the_turns_that_are_missing_are_counted() {
    const TURNS: u64 = 10_000;
    let recording = Runtime::new().workers(1).name("flood").run(|| {
        scope(|s| {
            for _ in 0..2 {
                s.spawn(|| (0..TURNS / 2).for_each(|_| yield_now().unwrap()));
            }
        });
        snapshot()
    });
    let recording = recording.unwrap();
    let track = recording.tracks.iter().find(|track| track.scheduler == "flood").unwrap();
    check(track);
    let count = |event: &Event| match event {
        Event::Run { .. } => 1,
        Event::Unrecorded { turns } => *turns,
        _ => 0,
    };
    let counted: u64 = track.entries.iter().map(|entry| count(&entry.event)).sum();
    // Turns of the loop in which it finds nothing to run, and those after the last recorded one,
    // which are at most 1,024.
    assert!((TURNS - 1_100..TURNS + 1_100).contains(&counted), "{counted}");
}
