//! A runtime inside of a fiber suspends that fiber, also with a driver: the outer worker's fibers,
//! timers and sockets go on. One at the end of a thread does its work, too.
#![cfg(feature = "io")]

use segue::net::{TcpListener, TcpStream};
use segue::sched::{Handle, move_to};
use segue::sync::MVar;
use segue::{scope, sleep, spawn, timeout, yield_now};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Runs `f` as a fiber of a runtime with one worker, which it can stop.
fn on_one_worker<T>(f: impl FnOnce() -> T) -> T {
    segue::runtime().workers(1).run(f).unwrap()
}

const SOON: Duration = Duration::from_millis(30);

#[test]
fn a_time_out_ends_an_inner_run_that_waits() {
    let ended = segue::run(|| timeout(SOON, || segue::run(|| MVar::<()>::empty().take())));
    assert!(ended.unwrap_err().timed_out());
    for workers in [1, 2] {
        let inner = || segue::runtime().workers(workers).run(|| MVar::<()>::empty().take()).unwrap();
        let ended = on_one_worker(|| timeout(SOON, inner));
        assert!(ended.unwrap_err().timed_out());
    }
}

#[test]
fn timers_and_sockets_of_the_outer_run_go_on_while_an_inner_one_is_busy() {
    fn is_told(inner: impl FnOnce(&dyn Fn())) {
        on_one_worker(|| {
            let (timer, socket) = (AtomicBool::new(false), AtomicBool::new(false));
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            scope(|s| {
                s.spawn(|| {
                    sleep(Duration::from_millis(1)).unwrap();
                    timer.store(true, SeqCst);
                    drop(std::net::TcpStream::connect(address).unwrap());
                });
                s.spawn(|| {
                    drop(listener.accept().unwrap());
                    socket.store(true, SeqCst);
                });
                yield_now().unwrap();
                inner(&|| {
                    while !(timer.load(SeqCst) && socket.load(SeqCst)) {
                        yield_now().unwrap();
                    }
                });
            });
        });
    }
    is_told(|busy| on_one_worker(busy));
    // The same with a park that has no driver.
    is_told(|busy| segue::sched::Runtime::new().workers(1).run(busy).unwrap());
}

#[test]
fn fibers_of_the_outer_and_the_inner_run_wait_for_each_other() {
    for workers in [1, 2] {
        let sum = on_one_worker(|| {
            let (question, answer) = (MVar::empty(), MVar::empty());
            scope(|s| {
                s.spawn(|| {
                    for n in 0..100 {
                        question.put(n).unwrap();
                        assert_eq!(answer.take(), Ok(n + 1));
                    }
                    question.put(1000).unwrap();
                });
                let inner = segue::runtime().workers(workers).run(|| {
                    let mut sum = 0;
                    loop {
                        match question.take().unwrap() {
                            1000 => return sum,
                            n => {
                                sleep(Duration::from_micros(1)).unwrap();
                                sum += n;
                                answer.put(n + 1).unwrap();
                            }
                        }
                    }
                });
                inner.unwrap()
            })
        });
        assert_eq!(sum, 4950);
    }
}

#[test]
fn sockets_of_both_runs_are_served() {
    on_one_worker(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let echo = spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut byte = [0];
            while stream.read(&mut byte).unwrap() == 1 {
                byte[0] += 1;
                stream.write_all(&byte).unwrap();
            }
        });
        // Three deep: each worker but the outermost is a guest.
        let stream = on_one_worker(|| {
            on_one_worker(|| {
                let mut stream = TcpStream::connect(address).unwrap();
                for n in 0..100 {
                    let mut answer = [0];
                    stream.write_all(&[n]).unwrap();
                    stream.read_exact(&mut answer).unwrap();
                    assert_eq!(answer, [n + 1]);
                }
                stream
            })
        });
        // It outlives the run in which it was made.
        let mut answer = [0];
        (&stream).write_all(&[7]).unwrap();
        (&stream).read_exact(&mut answer).unwrap();
        assert_eq!(answer, [8]);
        drop(stream);
        echo.join().unwrap();
    });
}

#[test]
fn a_visitor_on_another_worker_holds_up_only_the_fiber_with_the_run() {
    let gate = Arc::new(MVar::empty());
    let (came, ended) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
    let place = Arc::new(MVar::empty());
    let other = segue::runtime().workers(1).pool().unwrap();
    on_one_worker(|| {
        scope(|s| {
            let guest = other.spawn({
                let (gate, came, place) = (Arc::clone(&gate), Arc::clone(&came), Arc::clone(&place));
                move || {
                    let to: Handle = place.take().unwrap();
                    move_to(&to, || {
                        came.store(true, SeqCst);
                        gate.take().unwrap()
                    })
                }
            });
            let run = s.spawn(|| {
                let inner = segue::runtime().workers(2).run(|| {
                    place.put(Handle::current().unwrap()).unwrap();
                    // It keeps its own worker, so that the visitor comes to the other one.
                    while !came.load(SeqCst) {
                        std::thread::yield_now();
                    }
                });
                inner.unwrap();
                ended.fetch_add(1, SeqCst);
            });
            while !came.load(SeqCst) {
                yield_now().unwrap();
            }
            // This worker has got here, although the inner run waits in a fiber of it: the inner
            // body kept this worker until the visitor had come.
            gate.put(5).unwrap();
            run.join().unwrap();
            assert_eq!(guest.join().unwrap(), Ok(5));
        });
    });
    assert_eq!(ended.into_inner(), 1);
}

/// The thread's variables of the library are gone, or not made yet, or made anew.
#[test]
fn a_destructor_of_a_thread_local_variable_does_io() {
    static DONE: AtomicUsize = AtomicUsize::new(0);
    fn talk() {
        let talk = || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            scope(|s| {
                s.spawn(|| listener.accept().unwrap().0.write_all(b"hello").unwrap());
                let mut said = String::new();
                TcpStream::connect(address).unwrap().read_to_string(&mut said).unwrap();
                assert_eq!(said, "hello");
            });
            sleep(Duration::from_millis(1)).unwrap();
        };
        on_one_worker(talk);
        segue::runtime().workers(2).run(talk).unwrap();
        spawn(talk).join().unwrap();
        // On the plain thread itself.
        talk();
    }
    struct Talks;
    impl Drop for Talks {
        fn drop(&mut self) {
            talk();
            DONE.fetch_add(1, SeqCst);
        }
    }
    thread_local! {
        static EARLY: Talks = const { Talks };
        static LATE: Talks = const { Talks };
    }
    for before in [false, true] {
        let thread = std::thread::spawn(move || {
            EARLY.with(|_| ());
            if before {
                talk();
            }
            LATE.with(|_| ());
        });
        thread.join().unwrap();
    }
    assert_eq!(DONE.load(SeqCst), 4);
}
