//! Each kind of event, by a program that has to bring it about.

use segue_core::{Builder, Trigger, WaitsFor, scope, spawn, yield_now};
use segue_sched::recorder::{Event, Recording, Track, snapshot};
use segue_sched::{Runtime, StuckWorker};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;

/// Runs `f` under a scheduler with this name, and yields the tracks of that after `f`.
fn record(name: &str, workers: usize, f: impl FnOnce() + Send) -> Vec<Track> {
    let recording = Runtime::new().workers(workers).name(name).run(|| {
        f();
        snapshot()
    });
    of(recording.unwrap(), name)
}

/// The tracks of the scheduler with this name: other tests run beside.
fn of(recording: Recording, name: &str) -> Vec<Track> {
    recording.tracks.into_iter().filter(|track| track.scheduler == name).collect()
}

fn events(track: &Track) -> Vec<Event> {
    track.entries.iter().map(|entry| entry.event.clone()).collect()
}

#[test]
fn a_child_is_spawned_started_and_joined() {
    let tracks = record("child", 1, || {
        Builder::new().name("thing").spawn(|| ()).join().unwrap();
    });
    let [track] = &tracks[..] else { panic!("{tracks:?}") };
    assert_eq!(track.worker, 0);
    let events = events(track);
    let mut rest = events.iter();
    let mut find =
        |is: &dyn Fn(&Event) -> bool| rest.find(|event| is(event)).unwrap_or_else(|| panic!("{events:?}")).clone();
    let Event::Run { fiber: parent } = find(&|event| matches!(event, Event::Run { .. })) else { unreachable!() };
    let Event::Spawn { closure } = find(&|event| matches!(event, Event::Spawn { .. })) else { unreachable!() };
    let Event::Suspend { fiber, waits_for } = find(&|event| matches!(event, Event::Suspend { .. })) else {
        unreachable!()
    };
    assert_eq!(fiber, parent);
    let waits_for = waits_for.expect("an object");
    assert_eq!(waits_for.what, "the end of a fiber");
    assert!(waits_for.at.file().ends_with("events.rs"), "{waits_for}");
    let Event::Start { fiber: child, closure: of, name } = find(&|event| matches!(event, Event::Start { .. })) else {
        unreachable!()
    };
    assert_eq!((of, name.as_deref()), (closure, Some("thing")));
    find(&|event| *event == Event::Run { fiber: child });
    find(&|event| *event == Event::Resume { fiber: parent });
    find(&|event| *event == Event::End { fiber: child });
    find(&|event| *event == Event::Run { fiber: parent });
}

#[test]
fn a_name_is_cut_between_letters() {
    for (name, kept) in [
        ("seven77", "seven77"),
        ("eight888", "eight888"),
        ("a name of more than thirty-five bytes in all", "a name of more than thirty-five byt"),
        ("a name of more than thirty-five byö", "a name of more than thirty-five by"),
        ("ö", "ö"),
    ] {
        let tracks = record("names", 1, || Builder::new().name(name).spawn(|| ()).join().unwrap());
        let names = tracks[0].entries.iter().filter_map(|entry| match &entry.event {
            Event::Start { name, .. } => name.clone(),
            _ => None,
        });
        let names: Vec<String> = names.collect();
        assert!(names.iter().any(|name| name == kept), "{names:?}");
    }
}

#[test]
fn a_yield_and_a_cancellation_are_told_from_a_wait() {
    let tracks = record("outcomes", 1, || {
        scope(|s| {
            s.spawn(|| yield_now().unwrap());
            let waiter = Builder::new().cancellable().within(s).spawn(|| {
                let _ = Trigger::new().wait(WaitsFor::new("a thing that never comes"));
            });
            yield_now().unwrap();
            yield_now().unwrap();
            waiter.cancel();
            waiter.join().unwrap();
        });
    });
    let events = events(&tracks[0]);
    assert!(events.iter().any(|event| matches!(event, Event::Yield { .. })), "{events:?}");
    let waits = |event: &Event| match event {
        Event::Suspend { fiber, waits_for: Some(object) } if object.what == "a thing that never comes" => Some(*fiber),
        _ => None,
    };
    let waiter = events.iter().find_map(waits).expect("a wait");
    assert!(events.contains(&Event::Cancel { fiber: waiter }), "{events:?}");
}

#[test]
fn a_fiber_that_a_thread_resumes_comes_by_mail_after_a_sleep() {
    let tracks = record("mail", 1, || {
        let trigger = std::sync::Arc::new(Trigger::new());
        let (tell, told) = mpsc::channel::<()>();
        let signaller = std::sync::Arc::clone(&trigger);
        let thread = std::thread::spawn(move || {
            // This worker sleeps by then, or is about to: both ways lead through the mail.
            told.recv().unwrap();
            assert!(signaller.signal(0));
        });
        tell.send(()).unwrap();
        let _ = trigger.wait(WaitsFor::new("a thread"));
        thread.join().unwrap();
    });
    let events = events(&tracks[0]);
    assert!(events.iter().any(|event| matches!(event, Event::Mail { .. })), "{events:?}");
    let parks = events.iter().filter(|event| **event == Event::Park).count();
    let unparks = events.iter().filter(|event| **event == Event::Unpark).count();
    assert_eq!(parks, unparks, "{events:?}");
}

#[test]
fn what_one_worker_resumes_and_steals_of_another_is_on_both_tracks() {
    let waits = |event: &Event| match event {
        Event::Suspend { waits_for: Some(object), .. } => object.what == "the other worker",
        _ => false,
    };
    let tracks = record("two", 2, || {
        // The parent blocks its worker until another one has taken the child; and the child resumes
        // the parent after the recorder has seen it wait.
        let (ran, wait) = (AtomicBool::new(false), Trigger::new());
        scope(|s| {
            s.spawn(|| {
                ran.store(true, SeqCst);
                while !of(snapshot(), "two").iter().any(|track| events(track).iter().any(waits)) {}
                assert!(wait.signal(0));
            });
            while !ran.load(SeqCst) {
                std::thread::yield_now();
            }
            let _ = wait.wait(WaitsFor::new("the other worker"));
        });
    });
    assert_eq!(tracks.iter().map(|track| track.worker).collect::<Vec<_>>(), [0, 1]);
    let (first, second) = (events(&tracks[0]), events(&tracks[1]));
    let spawned = first.iter().filter_map(|event| match event {
        Event::Spawn { closure } => Some(*closure),
        _ => None,
    });
    let spawned: Vec<u64> = spawned.collect();
    let stolen = |event: &Event| matches!(event, Event::Steal { closure } if spawned.contains(closure));
    let began = |event: &Event| matches!(event, Event::Start { closure, .. } if spawned.contains(closure));
    assert!(second.iter().any(stolen), "{second:?}");
    assert!(second.iter().any(began), "{second:?}");
    assert!(second.iter().any(|event| matches!(event, Event::Resume { .. })), "{second:?}");
}

#[test]
fn a_scheduler_without_a_recorder_has_no_track() {
    let recording = Runtime::new().workers(1).name("none").recorder(0).run(|| {
        spawn(|| ()).join().unwrap();
        snapshot()
    });
    assert_eq!(of(recording.unwrap(), "none"), []);
}

#[test]
fn the_events_of_a_scheduler_that_has_ended_are_gone() {
    assert_eq!(record("ended", 1, || ()).len(), 1);
    assert_eq!(of(snapshot(), "ended"), []);
}

#[test]
fn the_monitor_sees_who_is_stuck_and_what_came_before() {
    let (tell, told) = mpsc::channel();
    let runtime = Runtime::new().workers(1).name("stuck").monitor(Duration::from_millis(20));
    let runtime = runtime.on_stuck(move |_: &StuckWorker| tell.send(snapshot()).unwrap());
    let recording = runtime.run(|| {
        let stuck = Builder::new().name("stuck").spawn(move || told.recv().unwrap());
        stuck.join().unwrap()
    });
    let tracks = of(recording.unwrap(), "stuck");
    let events = events(&tracks[0]);
    let stuck = events.iter().find_map(|event| match event {
        Event::Start { fiber, name: Some(name), .. } if name == "stuck" => Some(*fiber),
        _ => None,
    });
    // Its turn has begun, and not ended.
    assert_eq!(events.last(), Some(&Event::Run { fiber: stuck.unwrap() }));
}

#[test]
fn a_text_names_the_waits() {
    let recording = Runtime::new().workers(1).name("text").run(|| {
        spawn(|| ()).join().unwrap();
        snapshot()
    });
    let text = recording.unwrap().to_string();
    assert!(text.contains("worker text-0 of scheduler"), "{text}");
    assert!(text.contains("waits for the end of a fiber at "), "{text}");
}
