//! Where running threads are, asked by other threads, on real stacks. Where suspended coroutines
//! are is in `traces.rs`.
//!
//! Functions that a trace must name are kept out of line and do something after their calls, so
//! that each has a frame.

#![cfg(watches)]
#![allow(unsafe_code)] // Sends signals.

mod common;

use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use common::{coroutine, count, end, end_returned, names, owner, pool, rest_here, resume_inner};
use segue_fiber::{Backtrace, Coroutine, StackArena, StackConfig, StackOwner, StackPool, Step, Unanswered, Watched};

/// Longer than any test takes: who waits for it has lost something.
const FOR_EVER: Duration = Duration::from_secs(100_000);

/// Runs `main` on a thread that is watched, hands out its handle, and lets it end when `main` does.
fn watched<T: Send + 'static>(main: impl FnOnce() -> T + Send + 'static) -> (Watched, thread::JoinHandle<T>) {
    let (send, receive) = mpsc::channel();
    let thread = thread::spawn(move || {
        send.send(Watched::register().unwrap()).unwrap();
        main()
    });
    (receive.recv().unwrap(), thread)
}

static STOP: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

#[inline(never)]
fn spin_here(stop: usize) {
    while !STOP[stop].load(SeqCst) {
        std::hint::spin_loop();
    }
    black_box(());
}

#[test]
fn a_thread_in_a_loop_without_an_end_says_where_it_is() {
    let entered = Arc::new(Barrier::new(2));
    let inside = Arc::clone(&entered);
    let (watched, thread) = watched(move || {
        let pool = Rc::new(RefCell::new(pool()));
        let stacks = Rc::clone(&pool);
        let mut outer = coroutine(&mut pool.borrow_mut(), 1, "outer", move |_| {
            let mut inner = coroutine(&mut stacks.borrow_mut(), 2, "inner", move |_| {
                inside.wait();
                spin_here(0);
            });
            assert_eq!(resume_inner(&mut inner), Step::Returned);
            end_returned(inner, &mut stacks.borrow_mut());
        });
        assert_eq!(resume_inner(&mut outer), Step::Returned);
        end_returned(outer, &mut pool.borrow_mut());
    });
    entered.wait();
    // It is past the barrier, or still on its way out of it.
    let trace = loop {
        let trace = watched.backtrace(FOR_EVER).unwrap();
        if count(&names(&trace)[0], "spin_here") == 1 {
            break trace;
        }
    };
    let owners: Vec<_> = trace.stacks().iter().map(|stack| stack.owner().clone()).collect();
    assert_eq!(owners, [owner(2, "inner"), owner(1, "outer"), StackOwner::Thread], "{trace}");
    assert!(trace.stacks().iter().all(|stack| stack.is_whole()), "{trace}");
    let names = names(&trace);
    assert_eq!((count(&names[1], "resume_inner"), count(&names[2], "resume_inner")), (1, 1), "{trace}");
    STOP[0].store(true, SeqCst);
    thread.join().unwrap();
    assert_eq!(watched.backtrace(FOR_EVER), Err(Unanswered::Ended));
}

#[test]
fn a_thread_may_ask_itself() {
    let (_, thread) = watched(|| {
        let watched = Watched::register().unwrap();
        let mut pool = pool();
        let mut fiber = coroutine(&mut pool, 3, "self", move |_| {
            let trace = watched.backtrace(FOR_EVER).unwrap();
            assert_eq!(*trace.stacks()[0].owner(), owner(3, "self"));
            assert!(names(&trace)[0].iter().any(|name| name.contains("a_thread_may_ask_itself")), "{trace}");
        });
        assert_eq!(fiber.resume(), Step::Returned);
        end_returned(fiber, &mut pool);
    });
    thread.join().unwrap();
}

#[inline(never)]
fn deep_and_spinning(depth: usize, entered: &Barrier) -> usize {
    if depth == 0 {
        entered.wait();
        spin_here(1);
        return 0;
    }
    black_box(deep_and_spinning(depth - 1, entered)) + 1
}

#[test]
fn a_stack_too_deep_to_be_copied_is_cut_and_what_is_below_is_still_there() {
    let entered = Arc::new(Barrier::new(2));
    let inside = Arc::clone(&entered);
    let (watched, thread) = watched(move || {
        let mut pool = StackPool::new(StackArena::new(StackConfig::new().slot_size(8 << 20)).unwrap());
        let mut fiber = coroutine(&mut pool, 5, "deep", move |_| {
            black_box(deep_and_spinning(20_000, &inside));
        });
        assert_eq!(resume_inner(&mut fiber), Step::Returned);
        end_returned(fiber, &mut pool);
    });
    entered.wait();
    let trace = watched.backtrace(FOR_EVER).unwrap();
    let names = names(&trace);
    assert_eq!(trace.stacks().len(), 2);
    assert!(!trace.stacks()[0].is_whole() && trace.stacks()[1].is_whole());
    let calls = count(&names[0], "deep_and_spinning");
    assert!(calls > 500 && calls < 20_000, "{calls}");
    assert_eq!(count(&names[1], "resume_inner"), 1);
    assert!(trace.to_string().contains("could not be followed further"));
    STOP[1].store(true, SeqCst);
    thread.join().unwrap();
}

#[inline(never)]
fn turn_round(fibers: &mut [Coroutine<()>], turns: &AtomicUsize, stop: &AtomicBool) {
    while !stop.load(SeqCst) {
        for fiber in &mut *fibers {
            assert_eq!(fiber.resume(), Step::Suspended);
        }
        turns.fetch_add(1, SeqCst);
    }
}

#[inline(never)]
fn rest_again_and_again(me: NonNull<()>, leave: &Cell<bool>) {
    while !leave.get() {
        rest_here(me);
        black_box(());
    }
}

/// Whatever instruction of a switch the thread is at, the trace is of one side or of the other, and
/// never of both or of none.
#[test]
fn ten_thousand_questions_amid_switches_have_consistent_answers() {
    let turns = Arc::new(AtomicUsize::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let (counted, stopped) = (Arc::clone(&turns), Arc::clone(&stop));
    let (watched, thread) = watched(move || {
        let mut pool = pool();
        let leave = Rc::new(Cell::new(false));
        let one = |number| {
            let leave = Rc::clone(&leave);
            coroutine(&mut pool, number, "round", move |me| rest_again_and_again(me, &leave))
        };
        let mut fibers: Vec<_> = (0..3).map(one).collect();
        turn_round(&mut fibers, &counted, &stopped);
        leave.set(true);
        fibers.into_iter().for_each(|fiber| end(fiber, &mut pool));
    });
    while turns.load(SeqCst) == 0 {
        thread::yield_now();
    }
    // And on until it was met often on both sides.
    let (mut inside, mut outside) = (0, 0);
    while inside + outside < 10_000 || inside.min(outside) < 100 {
        let trace = watched.backtrace(FOR_EVER).unwrap();
        assert!(trace.stacks().iter().all(|stack| stack.is_whole()), "{trace}");
        let names = names(&trace);
        let outermost = names.last().unwrap();
        assert_eq!(*trace.stacks().last().unwrap().owner(), StackOwner::Thread, "{trace}");
        assert_eq!(count(outermost, "turn_round"), 1, "{trace}");
        match &names[..] {
            [_] => outside += 1,
            [fiber, _] => {
                assert!(
                    matches!(trace.stacks()[0].owner(), StackOwner::Coroutine { id: 0..3, name } if name == "round")
                );
                // At its very first instructions it has no calls yet; that is long past. Afterwards
                // it is always in the loop.
                assert_eq!(count(fiber, "rest_again_and_again"), 1, "{trace}");
                assert_eq!(count(fiber, "turn_round"), 0, "{trace}");
                inside += 1;
            }
            _ => panic!("{trace}"),
        }
    }
    stop.store(true, SeqCst);
    thread.join().unwrap();
}

#[test]
fn coroutines_that_begin_and_end_are_seen_at_every_instruction() {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let (watched, thread) = watched(move || {
        let mut pool = pool();
        while !stopped.load(SeqCst) {
            let mut fiber = coroutine(&mut pool, 9, "short", |_| ());
            assert_eq!(resume_inner(&mut fiber), Step::Returned);
            end_returned(fiber, &mut pool);
        }
    });
    let (mut asked, mut inside) = (0, 0);
    while asked < 5_000 || inside < 50 {
        asked += 1;
        let trace = watched.backtrace(FOR_EVER).unwrap();
        assert!(trace.stacks().iter().all(|stack| stack.is_whole()), "{trace}");
        assert_eq!(*trace.stacks().last().unwrap().owner(), StackOwner::Thread, "{trace}");
        if let [first, _] = trace.stacks() {
            assert_eq!(*first.owner(), owner(9, "short"));
            inside += 1;
        }
    }
    stop.store(true, SeqCst);
    thread.join().unwrap();
}

#[test]
fn threads_that_end_while_they_are_asked_answer_or_have_ended() {
    let (mut answered, mut ended) = (0, 0);
    // And on until many were met alive.
    for round in 0.. {
        if ended >= 2_000 && answered >= 100 {
            break;
        }
        let (watched, thread) = watched(move || {
            for _ in 0..round % 50 * 20 {
                std::hint::spin_loop();
            }
        });
        loop {
            match watched.backtrace(FOR_EVER) {
                Ok(trace) => {
                    assert_eq!(*trace.stacks()[0].owner(), StackOwner::Thread);
                    answered += 1;
                }
                Err(Unanswered::Ended) => break,
                Err(other) => panic!("{other}"),
            }
        }
        ended += 1;
        thread.join().unwrap();
    }
}

#[test]
fn several_askers_take_turns() {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let (watched, thread) = watched(move || {
        while !stopped.load(SeqCst) {
            std::hint::spin_loop();
        }
    });
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let trace = watched.backtrace(FOR_EVER).unwrap();
                    assert!(trace.stacks()[0].is_whole(), "{trace}");
                }
            });
        }
    });
    stop.store(true, SeqCst);
    thread.join().unwrap();
}

/// Blocks or unblocks SIGURG on the calling thread.
fn block(how: i32) {
    // SAFETY: a set of our own, which the call reads.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGURG);
        assert_eq!(libc::pthread_sigmask(how, &set, std::ptr::null_mut()), 0);
    }
}

#[test]
fn a_thread_that_blocks_the_signal_times_out_and_answers_later() {
    let (go, wait) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let (watched, thread) = watched(move || {
        block(libc::SIG_BLOCK);
        tell.send(()).unwrap();
        wait.recv().unwrap();
        block(libc::SIG_UNBLOCK);
        tell.send(()).unwrap();
        wait.recv().unwrap();
    });
    told.recv().unwrap();
    for _ in 0..3 {
        assert_eq!(watched.backtrace(Duration::from_millis(5)), Err(Unanswered::TimedOut));
    }
    assert_eq!(watched.backtrace(Duration::ZERO), Err(Unanswered::TimedOut));
    go.send(()).unwrap();
    told.recv().unwrap();
    // The late signal found nobody who asks; the next question is answered.
    assert!(watched.backtrace(FOR_EVER).unwrap().stacks()[0].is_whole());
    // And one that ends with the signal blocked does not keep the asker.
    go.send(()).unwrap();
    thread.join().unwrap();
    assert_eq!(watched.backtrace(FOR_EVER), Err(Unanswered::Ended));
}

static FOREIGN: AtomicUsize = AtomicUsize::new(0);

#[test]
fn signals_that_nobody_asked_for_are_harmless() {
    let (go, wait) = mpsc::channel::<()>();
    let (watched, thread) = watched(move || {
        wait.recv().unwrap();
        FOREIGN.fetch_add(1, SeqCst);
    });
    for _ in 0..1000 {
        // SAFETY: sends a signal that has a handler to this process, to a thread of the kernel's
        // choice.
        unsafe { libc::kill(libc::getpid(), libc::SIGURG) };
    }
    assert!(watched.backtrace(FOR_EVER).is_ok());
    go.send(()).unwrap();
    thread.join().unwrap();
    assert_eq!(FOREIGN.load(SeqCst), 1);
}

#[test]
fn a_thread_on_a_stack_of_somebody_else_gives_one_address() {
    // On the alternate stack of a signal: neither a fiber's nor the thread's.
    static TRACE: std::sync::Mutex<Option<Backtrace>> = std::sync::Mutex::new(None);
    static ASK: std::sync::OnceLock<Watched> = std::sync::OnceLock::new();
    extern "C" fn handler(_: i32) {
        // Not async-signal-safe in general; here it is raised where nothing is interrupted.
        let trace = ASK.get().unwrap().backtrace(FOR_EVER).unwrap();
        *TRACE.lock().unwrap() = Some(trace);
    }
    let thread = thread::spawn(|| {
        ASK.set(Watched::register().unwrap()).unwrap();
        let stack = vec![0_u8; 256 * 1024].leak();
        // SAFETY: a stack that stays, and a handler of the right signature; the signal is raised on
        // this thread, between two statements.
        unsafe {
            let new = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
            assert_eq!(libc::sigaltstack(&new, std::ptr::null_mut()), 0);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_ONSTACK;
            assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
            libc::raise(libc::SIGUSR1);
        }
    });
    thread.join().unwrap();
    let trace = TRACE.lock().unwrap().take().unwrap();
    assert_eq!(trace.stacks().len(), 1);
    assert_eq!(*trace.stacks()[0].owner(), StackOwner::Elsewhere);
    assert_eq!(trace.addresses().count(), 1);
    assert!(!trace.stacks()[0].is_whole());
}
