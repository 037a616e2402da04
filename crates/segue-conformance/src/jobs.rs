//! Cases of spawned work: when it runs, what waits for it, where its panics and its values go.
//!
//! Used by the suite.

use crate::probe::{Gate, Mailbox, Need, Probe, lock, other};
use crate::report::Case;
use segue_core::plain_thread_local;
use segue_core::scheduling::current;
use segue_core::{JoinError, scope, shield, sleep, spawn, yield_now};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the other cases need.
pub(crate) const FIRST: &[Case] = &[Case::new("a_spawn_runs_no_job", a_spawn_runs_no_job)
    .checks(&["15"], "a job does not run inside of the call that spawns it, nor as the fiber that spawned it")];

pub(crate) const CASES: &[Case] = &[
    Case::new("many_jobs_run_once_each", many_jobs_run_once_each)
        .checks(&["15", "J1"], "of thousands of jobs each is run, and run once"),
    Case::new("many_fibers_live_at_once", many_fibers_live_at_once)
        .checks(&["1", "15"], "many fibers are suspended at the same time, and all go on"),
    Case::new("children_spawn_children", children_spawn_children)
        .checks(&["15", "J5"], "fibers of nested scopes borrow from the frames around them, to any depth"),
    Case::new("a_panic_goes_to_the_joiner", a_panic_goes_to_the_joiner)
        .checks(&["J3"], "a panic of a detached fiber is the result of its join, and disturbs nobody else"),
    Case::new("a_scope_raises_the_first_panic", a_scope_raises_the_first_panic).checks(
        &["J3", "C1", "13"],
        "a scope cancels the rest when a fiber panics, waits for all, and re-raises the payload",
    ),
    Case::new("captures_are_dropped_before_the_join_returns", captures_are_dropped_before_the_join_returns).checks(
        &["J1", "J5"],
        "what a closure owns is dropped once, before its handle yields, and before its scope ends",
    ),
    Case::new("a_dropped_handle_detaches", a_dropped_handle_detaches)
        .checks(&["J1"], "a fiber whose handle was dropped goes on, and its result is dropped once"),
    Case::new("joined_by_a_plain_thread", joined_by_a_plain_thread)
        .checks(&["9", "T3"], "a plain thread waits for the end of a fiber, and the fiber for that of the thread")
        .needs(&[Need::Others]),
    Case::around("detached_fibers_end_with_the_run", detached_fibers_end_with_the_run)
        .checks(
            &["13", "J5"],
            "what is detached when the first fiber returns is cancelled and waited for, and what it \
             detaches in its turn",
        )
        .needs(&[Need::Ends]),
];

/// What is counted when it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn a_spawn_runs_no_job(probe: &Probe) {
    plain_thread_local!(
        static SPAWNS: Cell<bool> = Cell::new(false);
    );
    let me = current().addr();
    for _ in 0..probe.few() {
        let watch = probe.clone();
        SPAWNS.set(true);
        let handle = spawn(move || {
            watch.expect("15", !SPAWNS.get(), || "the job ran inside of the call of `spawn`".to_owned());
            let fiber = current().addr();
            watch.expect("15", fiber != me || fiber == 0, || "the job ran as the fiber that spawned it".to_owned());
        });
        SPAWNS.set(false);
        probe.next("the end of a job that was spawned");
        probe.expect("15", handle.join().is_ok(), || "the job was not run".to_owned());
    }
}

fn many_jobs_run_once_each(probe: &Probe) {
    let jobs = probe.rounds();
    let runs: Vec<AtomicUsize> = (0..jobs).map(|_| AtomicUsize::new(0)).collect();
    // Plain threads are all there at once; of fibers as many as there are jobs may be.
    let at_once = if probe.setup().plain_threads { probe.fibers().max(1) } else { jobs.max(1) };
    for runs in runs.chunks(at_once) {
        scope(|s| {
            for run in runs {
                probe.next("the end of every job that was spawned");
                s.spawn(|| {
                    let _ = yield_now();
                    run.fetch_add(1, Ordering::Relaxed)
                });
            }
        });
    }
    let wrong = runs.iter().filter(|run| run.load(Ordering::Relaxed) != 1).count();
    probe.expect("J1", wrong == 0, || format!("of {jobs} jobs {wrong} did not run once"));
}

fn many_fibers_live_at_once(probe: &Probe) {
    let (arrived, gate, fibers) = (Mailbox::shared(), Arc::new(Gate::new()), probe.fibers());
    let handles: Vec<_> = (0..fibers)
        .map(|index| {
            let (arrived, gate) = (Arc::clone(&arrived), Arc::clone(&gate));
            spawn(move || gate.arrive(&arrived, ()).then_some(index))
        })
        .collect();
    for _ in 0..fibers {
        probe.next("the start of every fiber, while the others are suspended");
        arrived.get();
    }
    gate.open();
    probe.next("the end of every fiber that was suspended");
    for (index, handle) in handles.into_iter().enumerate() {
        probe.equal("1", "what a fiber returned", handle.join().ok().flatten(), Some(index));
    }
}

fn children_spawn_children(probe: &Probe) {
    fn tree(depth: u32, leaves: &AtomicUsize) -> u32 {
        if depth == 0 {
            leaves.fetch_add(1, Ordering::Relaxed);
            return 1;
        }
        let (mut left, mut right) = (0, 0);
        scope(|s| {
            s.spawn(|| left = tree(depth - 1, leaves));
            let handle = s.spawn(|| tree(depth - 1, leaves));
            right = handle.join().unwrap_or(0);
        });
        left + right + 1
    }
    let depth = if probe.fibers() < 200 { 4 } else { 7 };
    let leaves = AtomicUsize::new(0);
    probe.equal("J5", "the fibers of the tree", tree(depth, &leaves), (2 << depth) - 1);
    probe.equal("J5", "the leaves of the tree", leaves.into_inner(), 1 << depth);
}

/// The payload that a case panics with, if that is what it is.
fn is_planted(payload: &(dyn Any + Send)) -> bool {
    payload.downcast_ref::<u32>() == Some(&7)
}

/// Panics without a word.
fn panic_quietly() {
    resume_unwind(Box::new(7_u32));
}

fn a_panic_goes_to_the_joiner(probe: &Probe) {
    for _ in 0..probe.few().min(50) {
        let bystander = spawn(|| (0..3).all(|_| yield_now().is_ok()));
        let planted = match spawn(panic_quietly).join() {
            Err(JoinError::Panicked(panic)) => is_planted(panic.into_payload().as_ref()),
            _ => false,
        };
        probe.expect("J3", planted, || "the handle does not yield what the fiber panicked with".to_owned());
        probe.equal("J3", "whether the joiner counts as panicking", std::thread::panicking(), false);
        probe.equal("J3", "the end of a fiber beside it", bystander.join().ok(), Some(true));
    }
}

fn a_scope_raises_the_first_panic(probe: &Probe) {
    let (gate, cancelled) = (Gate::new(), AtomicUsize::new(0));
    let raised = catch_unwind(AssertUnwindSafe(|| {
        scope(|s| {
            for _ in 0..5 {
                s.spawn(|| {
                    cancelled.fetch_add(usize::from(!gate.pass()), Ordering::SeqCst);
                });
            }
            // Those that have not started by then are dropped unrun.
            let started = s.spawn(|| yield_now().is_ok());
            let _ = started.join();
            s.spawn(panic_quietly);
            probe.next("the cancellation of a scope in which a fiber panicked");
            gate.pass()
        })
    }));
    let planted = raised.is_err_and(|payload| is_planted(payload.as_ref()));
    probe.expect("J3", planted, || "the scope did not raise what its fiber panicked with".to_owned());
    probe.equal("C1", "whether the cancellation has stayed in the scope", segue_core::check().is_ok(), true);
}

fn captures_are_dropped_before_the_join_returns(probe: &Probe) {
    for round in 0..probe.few() {
        let drops = Arc::new(AtomicUsize::new(0));
        let captured = Counted(Arc::clone(&drops));
        let panics = round % 2 == 0;
        let handle = spawn(move || {
            let _captured = captured;
            let _ = yield_now();
            if panics {
                panic_quietly();
            }
        });
        probe.equal("J3", "whether the fiber panicked", handle.join().is_err(), panics);
        probe.equal("J1", "drops of what it owned, after its join", drops.load(Ordering::SeqCst), 1);
        scope(|s| {
            for _ in 0..3 {
                let captured = Counted(Arc::clone(&drops));
                s.spawn(move || drop(captured));
            }
        });
        probe.equal("J5", "drops of what fibers owned, after their scope", drops.load(Ordering::SeqCst), 4);
    }
}

fn a_dropped_handle_detaches(probe: &Probe) {
    for _ in 0..probe.few() {
        let drops = Arc::new(AtomicUsize::new(0));
        let (gate, ended) = (Arc::new(Gate::new()), Mailbox::shared());
        let (held, at_end, result) = (Arc::clone(&gate), Arc::clone(&ended), Counted(Arc::clone(&drops)));
        drop(spawn(move || {
            held.pass();
            at_end.put(());
            result
        }));
        gate.open();
        probe.next("the end of a fiber whose handle was dropped");
        ended.get();
        while drops.load(Ordering::SeqCst) == 0 {
            // Its result is dropped just after.
            let _ = sleep(Duration::from_micros(50));
        }
        probe.equal("J1", "drops of the result", drops.load(Ordering::SeqCst), 1);
    }
}

fn joined_by_a_plain_thread(probe: &Probe) {
    for round in 0..probe.few() {
        let (gate, results) = (Arc::new(Gate::new()), Mailbox::shared());
        let held = Arc::clone(&gate);
        let fiber = spawn(move || held.pass().then_some(round));
        let to = Arc::clone(&results);
        let thread = other(move || {
            gate.open();
            to.put(fiber.join().ok().flatten());
        });
        probe.next("a plain thread that joins a fiber");
        probe.equal("T3", "what the thread was told", results.get(), Some(round));
        thread.end(probe);
    }
}

fn detached_fibers_end_with_the_run(probe: &Probe) {
    /// What each of them has seen at its end; and whether the run has returned.
    type Seen = (Mutex<Vec<[bool; 4]>>, AtomicBool);
    let ends = Arc::new(Seen::default());
    let seen = Arc::clone(&ends);
    probe.next("the end of a run that has left detached fibers behind");
    probe.run(move |_| {
        let started = Mailbox::shared();
        for _ in 0..20 {
            let (seen, started) = (Arc::clone(&seen), Arc::clone(&started));
            spawn(move || {
                started.put(());
                let cancelled = !Gate::new().pass();
                // What is spawned by a cancelled fiber is dropped unrun.
                let unrun = spawn(|| ()).join().is_err();
                // Cleaning up may wait.
                let clean = shield(|| sleep(Duration::from_millis(1))).is_ok();
                lock(&seen.0).push([cancelled, unrun, clean, !seen.1.load(Ordering::SeqCst)]);
            });
        }
        (0..20).for_each(|_| started.get());
    });
    ends.1.store(true, Ordering::SeqCst);
    let ends = lock(&ends.0).clone();
    probe.equal("J5", "the detached fibers that have ended when the run returned", ends.len(), 20);
    for [cancelled, unrun, clean, in_time] in ends {
        probe.expect("13", cancelled, || "a detached fiber's wait ended without a cancellation".to_owned());
        probe.expect("J7", unrun, || "a fiber that a cancelled one detached was run".to_owned());
        probe.expect("18", clean, || "a shielded sleep failed at the end of the run".to_owned());
        probe.expect("J5", in_time, || "a detached fiber ended after the run".to_owned());
    }
}
