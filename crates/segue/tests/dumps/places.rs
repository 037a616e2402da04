//! Where dumps are taken: in fibers, policies, hooks, panics, drops, several at once, and after a
//! fork.

use segue::sched::{FiberState, Fifo, Goes, Policy, Runtime, Task, Why};
use segue::{Builder, scope, spawn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

fn counts_fibers() -> usize {
    segue::dump().fibers().count()
}

/// A policy that dumps in each call.
struct Dumps(Fifo, Arc<AtomicUsize>);

impl Policy for Dumps {
    fn push(&mut self, task: Task, why: Why) -> Goes {
        self.1.fetch_max(counts_fibers(), Relaxed);
        self.0.push(task, why)
    }

    fn pop(&mut self) -> Option<Task> {
        self.1.fetch_max(counts_fibers(), Relaxed);
        self.0.pop()
    }
}

#[test]
fn in_a_policy_and_in_hooks() {
    let _alone = crate::alone();
    let most = Arc::new(AtomicUsize::new(0));
    let hooked = Arc::new(AtomicUsize::new(0));
    let hook = || {
        let hooked = Arc::clone(&hooked);
        move |_: usize| _ = hooked.fetch_add(counts_fibers().min(1) + 1, Relaxed)
    };
    let runtime =
        Runtime::new().workers(1).on_thread_start(hook()).on_park(hook()).on_unpark(hook()).on_thread_stop(hook());
    let policy = || Dumps(Fifo::default(), Arc::clone(&most));
    let total = runtime.run_with(policy, || {
        scope(|s| {
            let fibers = [0, 1, 2, 3, 4].map(|n| s.spawn(move || segue::yield_now().map(|()| n)));
            fibers.into_iter().map(|fiber| fiber.join().unwrap().unwrap()).sum::<i32>()
        })
    });
    assert_eq!(total.unwrap(), 10);
    assert!(most.load(Relaxed) >= 2 && hooked.load(Relaxed) >= 2);
}

struct DumpsAtDrop;

impl Drop for DumpsAtDrop {
    fn drop(&mut self) {
        assert!(counts_fibers() > 0);
    }
}

#[test]
fn in_a_drop_during_a_panic_and_by_several_at_once() {
    let _alone = crate::alone();
    let pool = Runtime::new().workers(2).pool().unwrap();
    let panics = pool.spawn(|| {
        let _dumps = DumpsAtDrop;
        panic!("on purpose");
    });
    assert!(panics.join().unwrap_err().is_panic());
    let fibers: Vec<_> = (0..4)
        .map(|_| pool.spawn(|| (0..5).map(|_| spawn(counts_fibers).join().unwrap().min(1)).sum::<usize>()))
        .collect();
    let threads: Vec<_> =
        (0..3).map(|_| thread::spawn(|| (0..5).map(|_| counts_fibers().min(1)).sum::<usize>())).collect();
    assert!(fibers.into_iter().all(|fiber| fiber.join().unwrap() == 5));
    assert!(threads.into_iter().all(|thread| thread.join().unwrap() <= 5));
}

#[test]
fn in_a_scheduler_that_runs_in_a_fiber_of_another() {
    let _alone = crate::alone();
    Runtime::new()
        .workers(1)
        .name("outer")
        .run(|| {
            let host = Builder::new().name("host").spawn(|| {
                Runtime::new().workers(1).name("inner").run(|| {
                    let dump = Builder::new().name("guest").spawn(segue::dump).join().unwrap();
                    let state = |name: &str| {
                        let mut all = dump.fibers().filter(|fiber| fiber.name.as_deref() == Some(name));
                        let state = all.next().map(|fiber| fiber.state);
                        assert!(all.next().is_none());
                        state
                    };
                    assert_eq!(state("guest"), Some(FiberState::Running), "{dump}");
                    if cfg!(all(target_os = "linux", not(feature = "threads"))) {
                        assert_eq!(state("host"), Some(FiberState::Running), "{dump}");
                    }
                })
            });
            host.join().unwrap().unwrap();
        })
        .unwrap();
}

#[cfg(all(unix, not(miri)))]
#[test]
#[allow(unsafe_code)] // `fork`.
fn in_the_child_of_a_fork_the_dump_says_so() {
    use std::process::Command;
    // A process of its own: the child of a fork must not run the other tests' destructors.
    if std::env::var_os("SEGUE_TEST_FORKS").is_none() {
        let name = "places::in_the_child_of_a_fork_the_dump_says_so";
        let mut command = Command::new(std::env::current_exe().unwrap());
        let status = command.args(["--exact", name, "--nocapture"]).env("SEGUE_TEST_FORKS", "1").status();
        assert!(status.unwrap().success());
        return;
    }
    unsafe extern "C" {
        fn fork() -> i32;
        fn _exit(status: i32) -> !;
        fn waitpid(child: i32, status: *mut i32, options: i32) -> i32;
    }
    let pool = Runtime::new().workers(2).pool().unwrap();
    assert_eq!(pool.spawn(|| 1).join().unwrap(), 1);
    // SAFETY: the child dumps, which locks nothing there, and ends; this process has no other use
    // for its memory meanwhile.
    let status = unsafe {
        let child = fork();
        if child == 0 {
            let dump = segue::dump();
            _exit(if dump.note.is_some() && dump.schedulers.is_empty() { 7 } else { 8 });
        }
        let mut status = 0;
        assert_eq!(waitpid(child, &mut status, 0), child);
        status
    };
    assert_eq!(status >> 8, 7);
    assert!(segue::dump().note.is_none());
}
