//! Push parsers with a fiber as their body: fed from everywhere, by any thread.
#![cfg(feature = "sched")]

use crate::meet::{block_on, everywhere, mixed};
use segue::incremental::{Fed, FiberMachine, Pieces, spawn};
use segue::sync::Semaphore;
use segue::{Either, after, timeout, yield_now};
use std::io::{self, BufRead, Read};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);

/// Words up to an empty one, and their lengths.
fn words(input: &mut impl BufRead) -> io::Result<Vec<(String, usize)>> {
    let mut words = Vec::new();
    loop {
        let mut word = Vec::new();
        input.read_until(b' ', &mut word)?;
        match word.strip_suffix(b" ") {
            Some([]) => return Ok(words),
            Some(word) => words.push((String::from_utf8_lossy(word).into_owned(), word.len())),
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// The value of a body, and the rest of its input.
fn fed<T>(mut machine: FiberMachine<T>, pieces: &[&[u8]]) -> (T, Vec<u8>) {
    for (index, piece) in pieces.iter().enumerate() {
        if let Fed::Done { value, unread } = machine.feed(piece).unwrap() {
            return (value, [unread, &pieces[index + 1..].concat()].concat());
        }
    }
    (machine.finish().unwrap(), Vec::new())
}

#[test]
fn each_split_has_the_outcome_of_the_whole_input() {
    everywhere(|| {
        for text in [&b"one two  rest of it"[..], b"cut in the mid", b" at once", b""] {
            let mut rest = text;
            let whole = words(&mut rest).map_err(|error| error.kind());
            let agrees = |pieces: &[&[u8]]| {
                let (value, unread) = fed(spawn(|input: &mut Pieces| words(input)), pieces);
                assert_eq!((value.map_err(|error| error.kind()), &unread[..]), (whole.clone(), rest), "{pieces:?}");
            };
            (0..=text.len()).for_each(|at| agrees(&[&text[..at], &text[at..]]));
            agrees(&text.chunks(1).collect::<Vec<_>>());
        }
    });
}

#[test]
fn a_feed_that_is_cancelled_or_not_chosen_loses_no_byte() {
    everywhere(|| {
        let permits = Arc::new(Semaphore::new(0));
        let allowed = Arc::clone(&permits);
        let mut machine = spawn(move |input: &mut Pieces| {
            let mut bytes = [0; 3];
            input.read_exact(&mut bytes).unwrap();
            permits.acquire().unwrap().forget();
            let line = input.take(2).bytes().map(Result::unwrap).collect::<Vec<_>>();
            permits.acquire().unwrap().forget();
            (bytes, line)
        });
        assert_eq!(machine.feed(b"a").unwrap(), Fed::NeedMore);
        // The body waits for a permit, and the feeder for the body.
        assert!(timeout(MILLI, || machine.feed(b"bc")).is_err());
        assert_eq!(machine.feed_source(b"d").or(after(MILLI)).wait().unwrap(), Either::Right(()));
        allowed.add_permits(1);
        assert_eq!(machine.feed(b"").unwrap(), Fed::NeedMore, "the answer to all of them");
        drop(machine.feed_source(b"ef"));
        allowed.add_permits(1);
        match machine.feed(b"gh").unwrap() {
            Fed::Done { value, unread } => assert_eq!((value, unread), ((*b"abc", b"de".to_vec()), &b"fgh"[..])),
            Fed::NeedMore => unreachable!(),
        }
    });
}

#[test]
fn the_end_of_the_input_stays_and_a_choice_of_it_can_be_repeated() {
    everywhere(|| {
        let permits = Arc::new(Semaphore::new(0));
        let allowed = Arc::clone(&permits);
        let mut machine = spawn(move |input: &mut Pieces| {
            let ends = [(); 3].map(|()| input.read(&mut [0; 8]).unwrap());
            permits.acquire().unwrap().forget();
            (ends, input.fill_buf().unwrap().len())
        });
        assert_eq!(machine.feed(b"123").unwrap(), Fed::NeedMore);
        assert!(matches!(machine.finish_source().or(after(MILLI)).wait().unwrap(), Either::Right(())));
        assert!(message(|| _ = machine.feed(b"more")).contains("was fed after the end of its input"));
        allowed.add_permits(1);
        assert_eq!(block_on(machine.finish_source()).unwrap(), ([3, 0, 0], 0));
    });
}

fn message(f: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(f)).unwrap_err();
    panic
        .downcast_ref::<&str>()
        .map_or_else(|| panic.downcast_ref::<String>().unwrap().clone(), |said| said.to_string())
}

#[test]
fn a_panic_is_the_feeders_and_a_machine_is_used_until_its_end() {
    everywhere(|| {
        let mut machine = spawn(|input: &mut Pieces| match input.bytes().count() {
            3 => panic_any("three bytes"),
            count => count,
        });
        assert_eq!(machine.feed(b"123").unwrap(), Fed::NeedMore);
        assert_eq!(message(|| _ = machine.finish_source().wait()), "three bytes");
        assert!(message(|| _ = machine.feed(b"x")).contains("was used after its body"));
        // One that reads nothing has all of the piece left.
        let mut machine = spawn(|_: &mut Pieces| 7);
        assert_eq!(machine.feed(b"all").unwrap(), Fed::Done { value: 7, unread: b"all" });
        let mut machine = spawn(|input: &mut Pieces| input.consume(1));
        assert_eq!(message(|| _ = machine.feed(b"")), "1 bytes were consumed, of 0 that were lent");
    });
}

#[test]
fn dropped_halfway_a_read_fails_and_the_next_one_unwinds() {
    struct Counts(Arc<Semaphore>, Arc<AtomicUsize>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.1.fetch_add(1, SeqCst);
            self.0.add_permits(1);
        }
    }
    everywhere(|| {
        let (ended, unwound, failed) = (Arc::new(Semaphore::new(0)), Arc::default(), Arc::new(AtomicUsize::new(0)));
        for reads_on in [false, true] {
            let counts = Counts(Arc::clone(&ended), Arc::clone(&unwound));
            let failed = Arc::clone(&failed);
            let mut machine = spawn(move |input: &mut Pieces| {
                let _counts = counts;
                let error = input.bytes().find_map(Result::err).unwrap();
                assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
                failed.fetch_add(1, SeqCst);
                if reads_on {
                    loop {
                        _ = input.read(&mut [0]);
                    }
                }
            });
            assert_eq!(machine.feed(b"some").unwrap(), Fed::NeedMore);
            drop(machine);
            ended.acquire().unwrap().forget();
        }
        // And before the start the body finds the error at once.
        let counts = Counts(Arc::clone(&ended), Arc::clone(&unwound));
        drop(spawn(move |input: &mut Pieces| {
            assert_eq!(input.fill_buf().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
            drop(counts);
        }));
        ended.acquire().unwrap().forget();
        assert_eq!((failed.load(SeqCst), unwound.load(SeqCst)), (2, 3));
    });
}

#[test]
fn dropped_after_the_end_of_its_input_a_machine_lets_the_body_read_the_rest() {
    everywhere(|| {
        let (permits, read) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let (allowed, ended, sum) = (Arc::clone(&permits), Arc::new(Semaphore::new(0)), Arc::clone(&read));
        let end = Arc::clone(&ended);
        let mut machine = spawn(move |input: &mut Pieces| {
            allowed.acquire().unwrap().forget();
            sum.fetch_add(input.bytes().map(Result::unwrap).count(), SeqCst);
            end.add_permits(1);
        });
        drop(machine.feed_source(b"12345"));
        assert!(timeout(MILLI, || machine.finish()).is_err());
        permits.add_permits(1);
        ended.acquire().unwrap().forget();
        assert_eq!(read.load(SeqCst), 5);
    });
}

#[test]
fn a_fiber_that_is_cancelled_fails_in_its_read_or_does_not_start() {
    let body = |input: &mut Pieces| {
        let mut read = 0;
        loop {
            match input.read(&mut [0; 4]) {
                Ok(bytes) => read += bytes,
                Err(error) => return (read, segue::Cancelled::caused(&error)),
            }
        }
    };
    // The runtime ends, and with it the fibers of the machines.
    let runtime = || segue::sched::Runtime::new().workers(1);
    let begun = runtime().run(|| {
        let (mut begun, fresh) = (spawn(body), spawn(body));
        assert_eq!(begun.feed(b"1").unwrap(), Fed::NeedMore);
        [begun, fresh]
    });
    for (mut machine, read) in begun.unwrap().into_iter().zip([1, 0]) {
        assert_eq!(machine.feed(b"2").unwrap(), Fed::Done { value: (read, true), unread: b"2" });
    }
    let mut machine = runtime().run(|| spawn(body)).unwrap();
    assert!(machine.feed(b"1").is_err(), "its fiber has not started");
    assert!(message(|| _ = machine.finish()).contains("was used after its body"));
}

#[test]
fn machines_go_from_thread_to_thread() {
    let (sum, whole) = (&AtomicUsize::new(0), 3 * 40 * 41 / 2);
    mixed(6, |_| {
        let mut machine = spawn(|input: &mut Pieces| input.bytes().count());
        for length in 1..=40 {
            assert_eq!(machine.feed(&vec![0; length]).unwrap(), Fed::NeedMore);
            // To another thread, and back.
            let (back, returned) = segue::channel::bounded(1);
            std::thread::spawn(move || {
                assert_eq!(block_on(machine.feed_source(&vec![0; 2 * length])).unwrap(), Fed::NeedMore);
                back.send(machine).unwrap();
            });
            machine = returned.recv().unwrap();
            let _ = yield_now();
        }
        let read = machine.finish().unwrap();
        assert_eq!(read, whole);
        sum.fetch_add(read, SeqCst);
    });
    assert_eq!(sum.load(SeqCst), 6 * whole);
}
