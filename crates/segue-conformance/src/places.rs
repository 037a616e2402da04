//! Cases of a fiber's place and identity: its thread, the current-fiber slot, its header.
//!
//! Used by the suite.

use crate::probe::{Gate, Mailbox, Need, Probe, lock};
use crate::report::Case;
use segue_core::plain_thread_local;
use segue_core::scheduling::current;
use segue_core::{Builder, Fiber, in_fiber, scope, sleep, with_current, yield_now};
use std::cell::Cell;
use std::collections::HashSet;
use std::io;
use std::ptr;
use std::sync::Mutex;
use std::thread::{self, ThreadId};
use std::time::Duration;

pub(crate) const CASES: &[Case] = &[
    Case::new("a_fiber_stays_on_its_thread", a_fiber_stays_on_its_thread)
        .checks(&["2"], "thread, thread-local variables and `errno` are the same ones before and after a wait"),
    Case::new("as_many_threads_as_it_says", as_many_threads_as_it_says)
        .checks(&["2"], "fibers run on no more threads than the scheduler has workers")
        .needs(&[Need::Workers]),
    Case::new("current_is_the_running_fiber", current_is_the_running_fiber)
        .checks(
            &["3"],
            "`current` is the header of the fiber that runs, before and after each wait, and `with_current` yields it",
        )
        .needs(&[Need::Fibers]),
    Case::around("current_is_restored", current_is_restored)
        .checks(&["3"], "what was current before a run is current again after it"),
    Case::new("threads_have_no_current_fiber", threads_have_no_current_fiber)
        .checks(
            &["3"],
            "on a plain thread nothing is current, and `with_current` makes a header for the length of the call",
        )
        .needs(&[Need::Threads]),
    Case::new("living_fibers_have_headers_of_their_own", living_fibers_have_headers_of_their_own)
        .checks(&["4"], "no two living fibers share a header, and a header does not move")
        .needs(&[Need::Fibers]),
    Case::new("a_header_is_made_for_its_job", a_header_is_made_for_its_job)
        .checks(&["J2"], "a fiber has the name and the family that its job brought")
        .needs(&[Need::Fibers]),
];

/// Where the caller is, as far as a program can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Here {
    thread: ThreadId,
    local: usize,
    /// Whether `errno` shows what the last call has left in it.
    errno: bool,
}

fn here() -> Here {
    plain_thread_local!(
        static LOCAL: Cell<usize> = Cell::new(0);
    );
    let local = LOCAL.with(|local| ptr::from_ref(local).addr());
    // A call that fails for sure; Miri has no files.
    let failed = (!cfg!(miri)).then(|| std::fs::File::open("").err()).flatten();
    let errno = failed.is_none_or(|error| {
        error.raw_os_error().is_none() || error.raw_os_error() == io::Error::last_os_error().raw_os_error()
    });
    Here { thread: thread::current().id(), local, errno }
}

fn a_fiber_stays_on_its_thread(probe: &Probe) {
    let gate = Gate::new();
    let (arrived, fibers) = (Mailbox::new(), probe.fibers().min(64));
    let look = |what: &str, before: Here| {
        let after = here();
        probe.expect("2", before == after && after.errno, || format!("after {what}: {before:?}, then {after:?}"));
    };
    scope(|s| {
        for _ in 0..fibers {
            s.spawn(|| {
                let before = here();
                gate.arrive(&arrived, ());
                look("a wait", before);
                let _ = yield_now();
                look("a yield", before);
                probe.next("the end of a sleep");
                let _ = sleep(Duration::from_millis(1));
                look("a sleep", before);
            });
        }
        for _ in 0..fibers {
            arrived.get();
        }
        gate.open();
    });
}

fn as_many_threads_as_it_says(probe: &Probe) {
    let workers = probe.setup().workers.unwrap_or(usize::MAX);
    let threads = Mutex::new(HashSet::from([thread::current().id()]));
    scope(|s| {
        for _ in 0..probe.fibers() {
            s.spawn(|| {
                let _ = yield_now();
                lock(&threads).insert(thread::current().id());
            });
        }
    });
    let seen = lock(&threads).len();
    probe.expect("2", seen <= workers, || format!("fibers ran on {seen} threads, and there are {workers} workers"));
}

fn current_is_the_running_fiber(probe: &Probe) {
    let gate = Gate::new();
    let (arrived, fibers) = (Mailbox::new(), probe.fibers().min(64));
    let me = current().addr();
    let look = |when: &str, due: usize| {
        let (slot, yielded) = (current().addr(), with_current(|fiber| ptr::from_ref(fiber).addr()));
        probe.expect("3", slot == due && slot != 0 && in_fiber(), || {
            format!("{when} `current` is {slot:#x}, and the fiber's header is at {due:#x}")
        });
        probe.expect("3", yielded == due, || format!("{when} `with_current` yields {yielded:#x} instead of {due:#x}"));
    };
    look("at the start of the first fiber", me);
    scope(|s| {
        for _ in 0..fibers {
            s.spawn(|| {
                let mine = current().addr();
                look("at its start", mine);
                probe.expect("3", mine != me, || "a fiber has started as the one that spawned it".to_owned());
                gate.arrive(&arrived, ());
                look("after a wait", mine);
                let _ = yield_now();
                look("after a yield", mine);
                let _ = sleep(Duration::from_micros(100));
                look("after a sleep", mine);
            });
        }
        look("after a spawn", me);
        for _ in 0..fibers {
            arrived.get();
            look("after a wait", me);
        }
        gate.open();
        look("after it has resumed others", me);
    });
    look("after a scope", me);
}

fn current_is_restored(probe: &Probe) {
    let before = current();
    for _ in 0..3 {
        probe.run(|_| {
            scope(|s| {
                s.spawn(|| yield_now().is_ok());
            });
        });
        let after = current();
        probe.expect("3", ptr::eq(before, after), || {
            format!("current was {before:p} before the run and is {after:p} after it")
        });
        if !ptr::eq(before, after) {
            return;
        }
    }
}

fn threads_have_no_current_fiber(probe: &Probe) {
    probe.expect("3", current().is_null() && !in_fiber(), || "a plain thread has a current fiber".to_owned());
    with_current(|_| probe.expect("3", current().is_null(), || "`with_current` has set the slot".to_owned()));
    scope(|s| {
        s.spawn(|| {
            probe.expect("3", current().is_null() && !in_fiber(), || "a thread was started with a fiber".to_owned());
        });
    });
}

fn living_fibers_have_headers_of_their_own(probe: &Probe) {
    for _ in 0..3 {
        let gate = Gate::new();
        let (headers, fibers) = (Mailbox::new(), probe.fibers());
        scope(|s| {
            for _ in 0..fibers {
                s.spawn(|| {
                    let mine = current().addr();
                    gate.arrive(&headers, mine);
                    probe.equal("4", "the address of a header after a wait", current().addr(), mine);
                });
            }
            let mut living = HashSet::from([current().addr()]);
            for _ in 0..fibers {
                probe.next("the start of every fiber that was spawned");
                let header = headers.get();
                probe.expect("4", living.insert(header), || format!("two living fibers have the header {header:#x}"));
            }
            gate.open();
        });
    }
}

fn a_header_is_made_for_its_job(probe: &Probe) {
    let family = |fiber: &Fiber| fiber.detaches_to().map_or(0, |family| ptr::from_ref(family).addr());
    let mine = with_current(family);
    scope(|s| {
        let look = || with_current(|fiber| (fiber.name().map(str::to_owned), family(fiber)));
        let named = Builder::new().name("so called").within(s).spawn(look).join();
        let due = (Some("so called".to_owned()), mine);
        probe.equal("J2", "name and family of a fiber", named.ok(), Some(due));
        let unnamed = s.spawn(look).join();
        probe.equal("J2", "name and family of a fiber without a name", unnamed.ok(), Some((None, mine)));
    });
}
