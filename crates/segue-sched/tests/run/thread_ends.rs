//! Whatever starts or runs a fiber is called in destructors of thread-local variables, where the
//! library's own variables are there, not made yet, or gone. Each call does its work; none ends
//! the process.
#![cfg(all(unix, not(miri)))]

use crate::common::in_child;
use segue_core::{scope, spawn, spawn_task, wait_future, yield_now};
use segue_sched::fiber::effect::{Effect, Handler, perform};
use segue_sched::fiber::generator;
use segue_sched::par::prelude::*;
use segue_sched::{Explore, Plain, Polled, Runtime, Sim, default_pool, hosted, join, move_to};
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

/// A call that its drop makes.
struct Calls(fn());

impl Drop for Calls {
    fn drop(&mut self) {
        (self.0)();
        ENDED.fetch_add(1, SeqCst);
    }
}

/// How many of these calls have returned.
static ENDED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static EARLY: RefCell<Vec<Calls>> = const { RefCell::new(Vec::new()) };
    static LATE: RefCell<Vec<Calls>> = const { RefCell::new(Vec::new()) };
}

/// Makes the call in destructors of threads that have made it before, or have not; of variables
/// that are older than the library's, or younger. The first destructor leaves variables of the
/// library's behind, which are destroyed before the next.
fn call_in_destructors(test: &str, call: fn()) {
    static CALL: std::sync::OnceLock<fn()> = std::sync::OnceLock::new();
    fn make(early: usize, before: bool, late: usize) {
        let call = CALL.get().expect("it is set first");
        EARLY.with_borrow_mut(|calls| calls.extend((0..early).map(|_| Calls(*call))));
        if before {
            call();
        }
        LATE.with_borrow_mut(|calls| calls.extend((0..late).map(|_| Calls(*call))));
    }
    let end = in_child(test, || {
        CALL.set(call).expect("one call in this process");
        let bodies: [fn(); 4] = [|| make(2, false, 0), || make(2, true, 0), || make(1, false, 1), || make(1, true, 1)];
        for body in bodies {
            thread::spawn(body).join().unwrap();
            on_foreign_thread(body);
        }
        assert_eq!(ENDED.load(SeqCst), 2 * 8);
    });
    end.assert_passed();
}

/// Calls `body` on a thread that std has not made: it has no alternate stack for signals.
#[allow(unsafe_code, reason = "a thread of the C library")]
fn on_foreign_thread(body: fn()) {
    extern "C" fn start(body: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: it is the address of the caller's function, which waits.
        unsafe { (*body.cast::<fn()>())() };
        std::ptr::null_mut()
    }
    let mut thread = std::mem::MaybeUninit::uninit();
    // SAFETY: the argument outlives the thread, which is joined.
    unsafe {
        let argument = (&raw const body).cast_mut().cast();
        assert_eq!(libc::pthread_create(thread.as_mut_ptr(), std::ptr::null(), start, argument), 0);
        assert_eq!(libc::pthread_join(thread.assume_init(), std::ptr::null_mut()), 0);
    }
}

fn body() -> u32 {
    yield_now().unwrap();
    scope(|s| s.spawn(|| 41).join().unwrap()) + 1
}

struct Ask;

impl Effect for Ask {
    type Output = u32;
}

macro_rules! tests {
    ($($name:ident: $call:expr;)*) => {$(
        #[test]
        fn $name() {
            call_in_destructors(stringify!($name), || assert_eq!($call, 42));
        }
    )*};
}

tests! {
    a_destructor_runs_a_scheduler_on_its_thread: Runtime::new().workers(1).run(body).unwrap();
    a_destructor_runs_a_scheduler_with_two_workers: Runtime::new().workers(2).run(body).unwrap();
    a_destructor_runs_the_plain_scheduler: Plain::run(body);
    a_destructor_makes_a_pool: Runtime::new().workers(1).pool().unwrap().run(body).unwrap();
    a_destructor_starts_the_default_runtime: default_pool().run(body).unwrap();
    a_destructor_spawns: spawn(body).join().unwrap();
    a_destructor_spawns_a_task: spawn_task(async { 42 }).join().unwrap();
    a_destructor_moves: move_to(&default_pool().handle(), body).unwrap();
    a_destructor_forks: join(|| body() - 21, || 21).0 + 21;
    a_destructor_runs_a_parallel_loop: (0..42_u32).into_par_iter().map(|_| 1).sum::<u32>();
    a_destructor_simulates: Sim::new(1).run(body).unwrap();
    a_destructor_explores: {
        Explore::random(2).run(|| assert_eq!(body(), 42)).unwrap();
        // The panics of an exploration are printed once each.
        let fails = || assert_ne!(body(), 42, "on purpose");
        Explore::random(2).run(fails).map_or(42, |_| 0)
    };
    a_destructor_drives_a_scheduler: {
        let mut driven = Runtime::new().driven(|| ()).unwrap();
        let fiber = driven.start(|| 42).unwrap();
        while driven.poll() == Polled::Again {}
        fiber.join().unwrap()
    };
    a_destructor_polls_a_hosted_fiber: wait_future(hosted(body)).unwrap().unwrap();
    a_destructor_reads_a_generator: generator(|numbers| (0..7).for_each(|n| numbers.give(2 * n))).sum::<u32>();
    a_destructor_handles_an_effect: Handler::new().on(|Ask, rest| rest.resume(42)).handle(|| perform(Ask));
}
