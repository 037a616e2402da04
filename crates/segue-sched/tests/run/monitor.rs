//! The monitor: who is stuck, where, and that what waits there is done elsewhere. The report is the
//! event that everything waits for.

#[path = "../common/mod.rs"]
mod common;

use common::STAND_IN;
use segue_conformance::this_program;
use segue_core::{Builder, spawn, yield_now};
use segue_sched::{Goes, Policy, Pool, Runtime, Seat, StuckWorker, Task, Why};
use std::collections::VecDeque;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Long enough for a loaded machine not to have too many incidents that nobody means.
const PATIENCE: Duration = Duration::from_millis(10);

/// The reports of a scheduler.
#[derive(Clone, Default)]
struct Reports(Arc<(AtomicUsize, Mutex<Vec<StuckWorker>>)>);

impl Reports {
    fn watch<K>(&self, builder: Runtime<K>) -> Runtime<K> {
        let reports = Arc::clone(&self.0);
        builder.monitor(PATIENCE).on_stuck(move |stuck| {
            reports.1.lock().unwrap().push(stuck.clone());
            reports.0.fetch_add(1, SeqCst);
        })
    }

    fn count(&self) -> usize {
        self.0.0.load(SeqCst)
    }

    /// How many there are of the fiber of this name; of all, where traces know no names.
    fn of(&self, name: &str) -> usize {
        let fiber = format!("fiber `{name}`");
        self.0.1.lock().unwrap().iter().filter(|stuck| STAND_IN || stuck.fiber.as_deref() == Some(&fiber)).count()
    }
}

#[inline(never)]
fn compute_until(done: &dyn Fn() -> bool) {
    while !done() {
        spin_loop();
    }
    black_box(());
}

#[test]
fn a_fiber_that_computes_is_reported_with_its_name_and_stack() {
    let reports = Reports::default();
    let pool = reports.watch(Runtime::new().workers(2).name("busy")).pool().unwrap();
    let seen = reports.clone();
    Builder::new().name("grinder").on(&pool).spawn(move || compute_until(&|| seen.of("grinder") > 0)).join().unwrap();
    let reports = reports.0.1.lock().unwrap();
    let stuck = reports.iter().find(|stuck| STAND_IN || stuck.fiber.as_deref() == Some("fiber `grinder`")).unwrap();
    assert!(stuck.held >= PATIENCE && stuck.worker < 2, "{stuck}");
    assert_eq!(stuck.name, format!("busy-{}", stuck.worker));
    if !STAND_IN {
        let text = stuck.to_string();
        assert!(text.contains("worker busy-") && text.contains("fiber `grinder`"), "{text}");
        assert!(text.contains("compute_until"), "{text}");
        // It ends with the fiber's job: below that are a worker's loop and a thread.
        let last = text.trim_end().lines().rfind(|line| !line.trim_start().starts_with("at ")).unwrap();
        // With lines that is left out.
        assert!(last.contains("compute_until") || last.ends_with("__rust_begin_short_backtrace"), "{text}");
        assert!(!text.contains("on the stack of the thread") && !text.contains("worker::Worker"), "{text}");
    }
}

#[test]
fn the_first_fiber_of_a_run_is_watched_too() {
    let reports = Reports::default();
    let seen = reports.clone();
    reports.watch(Runtime::new().workers(1)).run(|| compute_until(&|| seen.count() > 0)).unwrap();
    let first = reports.0.1.lock().unwrap()[0].clone();
    assert_eq!((first.worker, first.name.as_str()), (0, "segue-0"));
    assert_eq!(first.fiber.as_deref(), (!STAND_IN).then_some("fiber 0"));
}

#[test]
fn a_driven_scheduler_is_watched_while_it_is_polled() {
    let reports = Reports::default();
    let seen = reports.clone();
    let mut driven = reports.watch(Runtime::new()).driven(|| ()).unwrap();
    driven.start(move || compute_until(&|| seen.count() > 0)).unwrap().join().unwrap();
    drop(driven);
}

#[test]
fn a_scheduler_within_a_fiber_reports_its_own_fibers() {
    let (inner, outer) = (Reports::default(), Reports::default());
    let (seen, seen_outside) = (inner.clone(), outer.clone());
    let pool = outer.watch(Runtime::new().workers(1)).pool().unwrap();
    let around = move || {
        let work = || {
            let stuck = move || compute_until(&|| seen.of("within") > 0 && seen_outside.of("around") > 0);
            Builder::new().name("within").spawn(stuck).join().unwrap();
        };
        inner.watch(Runtime::new().workers(1)).run(work).unwrap();
    };
    // Each knows the fiber by its own name, though the stacks are the same.
    Builder::new().name("around").on(&pool).spawn(around).join().unwrap();
}

/// Sends each closure that is spawned to the other worker, where it stays.
#[derive(Default)]
struct Sends {
    ready: VecDeque<Task>,
    worker: usize,
}

impl Policy for Sends {
    fn seated(&mut self, seat: Seat) {
        self.worker = seat.index();
    }

    fn push(&mut self, task: Task, why: Why) -> Goes {
        match task {
            Task::Fresh(job) if why == Why::Spawned => Goes::To(1 - self.worker, job),
            task => {
                self.ready.push_back(task);
                Goes::Here
            }
        }
    }

    fn pop(&mut self) -> Option<Task> {
        self.ready.pop_front()
    }
}

#[test]
fn what_is_sent_to_a_stuck_worker_runs_elsewhere_and_one_incident_is_one_report() {
    const SENT: usize = 8;
    let reports = Reports::default();
    let seen = reports.clone();
    static RAN: AtomicUsize = AtomicUsize::new(0);
    // The first fiber is worker 0's and never lets go of it; the sender is worker 1's.
    let first = || {
        let sender = spawn(|| {
            for sent in 1..=SENT {
                // The next is sent when the one before has run: so each takes a look of its own.
                spawn(|| RAN.fetch_add(1, SeqCst)).join().unwrap();
                assert_eq!(RAN.load(SeqCst), sent);
            }
        });
        compute_until(&|| RAN.load(SeqCst) == SENT && seen.count() > 0);
        let reported = seen.0.1.lock().unwrap().iter().filter(|stuck| stuck.worker == 0).count();
        sender.join().unwrap();
        reported
    };
    let reported = reports.watch(Runtime::new().workers(2)).run_with(Sends::default, first).unwrap();
    assert_eq!(reported, 1);
}

#[test]
fn a_report_that_nobody_reads_ends_nothing() {
    const CHILD: &str = "SEGUE_MONITOR_CHILD";
    const SENT: usize = 3;
    static RAN: AtomicUsize = AtomicUsize::new(0);
    if std::env::var_os(CHILD).is_some() {
        let first = || {
            // Each of these takes a look of its own, and the report comes in the first.
            spawn(|| (0..SENT).for_each(|_| assert!(spawn(|| RAN.fetch_add(1, SeqCst)).join().is_ok())));
            compute_until(&|| RAN.load(SeqCst) == SENT);
        };
        return Runtime::new().workers(2).monitor(PATIENCE).run_with(Sends::default, first).unwrap();
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child = this_program();
    child.args(["a_report_that_nobody_reads_ends_nothing", "--exact", "--nocapture"]).env(CHILD, "1").stderr(writer);
    let output = child.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn each_incident_is_reported_and_only_of_the_worker_that_is_stuck() {
    let reports = Reports::default();
    let seen = reports.clone();
    let work = || {
        for incident in 1..=5 {
            compute_until(&|| seen.count() >= incident);
            yield_now().unwrap();
        }
    };
    // The other worker sleeps all the time, or looks whether there is something to do.
    reports.watch(Runtime::new().workers(2)).run(work).unwrap();
    let reports = reports.0.1.lock().unwrap();
    assert!(reports.len() >= 5);
    assert!(reports.iter().all(|stuck| STAND_IN || stuck.fiber.is_none() || stuck.worker == 0), "{reports:?}");
    assert!(reports.iter().filter(|stuck| stuck.worker == 0).count() >= 5);
}

#[test]
fn a_report_may_drop_the_pool_that_it_is_about() {
    let pool = Arc::new(Mutex::new(None::<Pool>));
    let (owner, (free, freed), (tell, told)) = (Arc::clone(&pool), mpsc::channel(), mpsc::channel());
    let builder = Runtime::new().workers(1).monitor(PATIENCE).on_stuck(move |_| {
        let _ = free.send(());
        if let Some(pool) = owner.lock().unwrap().take() {
            drop(pool);
            tell.send(()).unwrap();
        }
    });
    let mut place = pool.lock().unwrap();
    let fiber = place.insert(builder.pool().unwrap()).spawn(move || freed.recv().unwrap());
    drop(place);
    told.recv().unwrap();
    let _ = fiber.join();
}

/// What the thread of this name waits in, if it waits in a futex without a time-out.
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
fn sleeps_for_good(thread: &str) -> bool {
    use std::fs::{read_dir, read_to_string};
    let is_it = |task: &std::path::Path| read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == thread);
    let task = read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path()).find(|task| is_it(task));
    let call = task.and_then(|task| read_to_string(task.join("syscall")).ok()).unwrap_or_default();
    let words: Vec<_> = call.split_whitespace().collect();
    // Number of the call, then its arguments, of which the fourth is the time-out.
    words.first() == Some(&"202") && words.get(4) == Some(&"0x0")
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
fn the_monitor_sleeps_for_good_while_all_workers_do_and_wakes_with_them() {
    let reports = Reports::default();
    let pool = reports.watch(Runtime::new().workers(2).name("quiet")).pool().unwrap();
    for round in 1..=5 {
        while !sleeps_for_good("quiet-monitor") {
            std::thread::yield_now();
        }
        let seen = reports.clone();
        pool.run(|| compute_until(&|| seen.count() >= round)).unwrap();
    }
}
