//! Push parsers: any split, what is left, ends, drops halfway, and machines inside of others.

use std::cell::{Cell, RefCell};
use std::io::{self, BufRead, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use segue_fiber::effect::{Continuation, Effect, Handler, perform};
use segue_fiber::incremental::{Fed, Feed, Machine, push, push_with_stack};
use segue_fiber::{Yielder, generator, leaked_stacks, region};

struct Ask;
impl Effect for Ask {
    type Output = usize;
}

/// The values of `a=1;` and the like up to an empty one. An error has its place.
fn pairs(input: &mut impl BufRead) -> Result<Vec<(String, u32)>, (usize, String)> {
    let (mut found, mut at) = (Vec::new(), 0);
    loop {
        let mut pair = Vec::new();
        let error = |why: &dyn ToString| (at, why.to_string());
        let length = input.read_until(b';', &mut pair).map_err(|why| error(&why))?;
        if pair.pop() != Some(b';') {
            return Err(error(&"no end"));
        }
        if pair.is_empty() {
            return Ok(found);
        }
        let pair = String::from_utf8(pair).map_err(|why| error(&why))?;
        let (name, value) = pair.split_once('=').ok_or_else(|| error(&"no value"))?;
        found.push((name.to_owned(), value.parse().map_err(|why| error(&why))?));
        at += length;
    }
}

/// Feeds the pieces. Answers with the value and the number of bytes that were not read.
fn fed<T>(mut machine: Machine<'_, T>, pieces: &[&[u8]]) -> (T, usize) {
    for (number, piece) in pieces.iter().enumerate() {
        if let Fed::Done { value, unread } = machine.feed(piece) {
            let later: usize = pieces[number + 1..].iter().map(|piece| piece.len()).sum();
            return (value, unread.len() + later);
        }
    }
    (machine.finish(), 0)
}

#[test]
fn each_split_has_the_outcome_of_the_whole_input() {
    let inputs: [&[u8]; 7] =
        [b"a=1;bc=23;;rest", b";", b"", b"a=1;b", b"a=1;b=x;;", b"a=1;\xff=2;;", b"a=1;novalue;more of this"];
    let (mut done, mut failed) = (0, 0);
    for input in inputs.into_iter().take(if cfg!(miri) { 3 } else { 7 }) {
        let mut reader = input;
        let whole = (pairs(&mut reader), reader.len());
        let mut check = |pieces: &[&[u8]]| {
            let outcome = fed(push(|input: &mut Feed| pairs(input)), pieces);
            assert_eq!(outcome, whole, "{pieces:?}");
            if outcome.0.is_ok() { done += 1 } else { failed += 1 }
        };
        check(&[input]);
        check(&input.chunks(1).collect::<Vec<_>>());
        for at in (0..=input.len()).step_by(if cfg!(miri) { 5 } else { 1 }) {
            let (first, second) = input.split_at(at);
            check(&[first, second]);
            check(&[b"", first, b"", b"", second, b""]);
        }
        let mut random = 7_u64;
        for _ in 0..if cfg!(miri) { 1 } else { 2000 } {
            let (mut pieces, mut rest) = (Vec::new(), input);
            while !rest.is_empty() {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (piece, behind) = rest.split_at((random >> 33) as usize % (rest.len() + 1));
                pieces.push(piece);
                rest = behind;
            }
            check(&pieces);
        }
    }
    assert!(done > 100 && failed > 100 || cfg!(miri), "{done} {failed}");
}

#[test]
fn a_piece_is_lent_and_not_copied() {
    let piece = b"as it is".as_slice();
    let expected = piece.as_ptr().addr();
    let mut machine = push(move |input: &mut Feed| {
        assert_eq!(input.fill_buf().unwrap().as_ptr().addr(), expected);
        input.consume(3);
        assert_eq!(input.fill_buf().unwrap(), b"it is");
        assert_eq!(input.fill_buf().unwrap().as_ptr().addr(), expected + 3);
        input.consume(5);
        input.consume(0);
        input.fill_buf().unwrap().len()
    });
    assert_eq!(machine.feed(piece), Fed::NeedMore);
    assert_eq!(machine.feed(b"more"), Fed::Done { value: 4, unread: b"more" });
}

/// Of a piece that nobody writes to the system has no pages.
#[test]
fn a_gigabyte_at_once_is_lent_as_any_piece() {
    let length = if cfg!(miri) { 1 << 10 } else { 1 << 30 };
    let piece = vec![0; length];
    let mut machine = push(move |input: &mut Feed| {
        let lent = input.fill_buf().unwrap().len();
        input.consume(lent - 2);
        input.read(&mut [1; 4]).unwrap()
    });
    assert_eq!(machine.feed(&piece), Fed::Done { value: 2, unread: b"" });
    let mut skips = push(|input: &mut Feed| {
        let skipped = input.fill_buf().unwrap().len();
        input.consume(skipped);
        skipped
    });
    assert_eq!(skips.feed(&piece), Fed::Done { value: length, unread: b"" });
}

#[test]
fn reads_of_an_exact_length_and_to_the_end_are_as_those_of_a_slice() {
    let text: Vec<u8> = (0..20).collect();
    for (exact, length) in [(0, 1), (3, 1), (5, 5), (7, 2), (20, 7), (21, 3), (40, 20)] {
        let read = move |input: &mut dyn Read| {
            let mut begin = vec![0; exact];
            let outcome = input.read_exact(&mut begin).map_err(|error| format!("{error:?}"));
            let mut rest = vec![99];
            let number = input.read_to_end(&mut rest).unwrap();
            (outcome, begin, number, rest)
        };
        let pieces: Vec<_> = text.chunks(length).collect();
        let pushed = fed(push(move |input: &mut Feed| read(input)), &pieces);
        let mut whole = read(&mut &text[..]);
        if exact > text.len() {
            // How much of a buffer is filled that is too long is nobody's business.
            whole.1.clone_from(&pushed.0.1);
        }
        assert_eq!(pushed, (whole, 0), "{exact} in pieces of {length}");
    }
    // A drop in the middle is an error of either.
    let mut errors = Vec::new();
    region(|region| {
        let mut machine = region.push(|input: &mut Feed| {
            errors.push(input.read_exact(&mut [0; 4]).unwrap_err().kind());
        });
        assert_eq!(machine.feed(b"123"), Fed::NeedMore);
        drop(machine);
    });
    region(|region| {
        let mut machine = region.push(|input: &mut Feed| {
            errors.push(input.read_to_end(&mut Vec::new()).unwrap_err().kind());
        });
        assert_eq!(machine.feed(b"123"), Fed::NeedMore);
        drop(machine);
    });
    assert_eq!(errors, [io::ErrorKind::BrokenPipe; 2]);
}

#[test]
fn what_was_not_read_comes_back() {
    let mut two = push(|input: &mut Feed| {
        let mut two = [0; 2];
        input.read_exact(&mut two).unwrap();
        assert_eq!(input.read(&mut []).unwrap(), 0, "nothing is wanted, and so nothing awaited");
        two
    });
    let piece = b"1234";
    let Fed::Done { value, unread } = two.feed(piece) else { panic!("two are there") };
    assert_eq!((value, unread), (*b"12", &piece[2..]));
    assert_eq!(unread.as_ptr(), piece[2..].as_ptr(), "the feeder's own");

    // One that reads nothing is done with the first piece, which may be empty.
    assert_eq!(push(|_: &mut Feed| 1).feed(b"all"), Fed::Done { value: 1, unread: b"all" });
    assert_eq!(push(|_: &mut Feed| 2).feed(b""), Fed::Done { value: 2, unread: b"" });
    assert_eq!(push(|_: &mut Feed| 3).finish(), 3);
    drop(push(|_: &mut Feed| unreachable!("never fed")));
}

#[test]
fn the_end_of_the_input_stays() {
    let mut machine = push(|input: &mut Feed| {
        let mut all = String::new();
        input.read_to_string(&mut all).unwrap();
        for _ in 0..3 {
            assert_eq!((input.fill_buf().unwrap().len(), input.read(&mut [0; 4]).unwrap()), (0, 0));
        }
        all
    });
    assert_eq!(
        (machine.feed(b"the "), machine.feed(b""), machine.feed(b"end")),
        (Fed::NeedMore, Fed::NeedMore, Fed::NeedMore)
    );
    assert_eq!(machine.finish(), "the end");
}

fn message(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it panics");
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast_ref::<&str>().expect("a text").to_string(),
    }
}

#[test]
fn misuse_panics_and_says_what_to_do() {
    let mut done = push(|_: &mut Feed| 1);
    assert_eq!(done.feed(b""), Fed::Done { value: 1, unread: b"" });
    assert!(message(|| _ = done.feed(b"x")).contains("feed the rest to a new machine"));
    assert!(message(|| _ = done.finish()).contains("feed the rest to a new machine"));

    let mut panics = push(|input: &mut Feed| -> u8 {
        input.fill_buf().unwrap();
        std::panic::panic_any("the body's");
    });
    assert_eq!(panics.feed(b""), Fed::NeedMore);
    assert_eq!(message(|| _ = panics.feed(b"x")), "the body's");
    assert!(message(|| _ = panics.feed(b"x")).contains("feed the rest to a new machine"));
    drop(panics);

    let mut greedy = push(|input: &mut Feed| {
        let lent = input.fill_buf().unwrap().len();
        input.consume(lent + 1);
    });
    assert!(message(|| _ = greedy.feed(b"123")).contains("4 bytes were consumed, of 3 that were lent"));

    // The cell finds that the machine is in use.
    let itself: Rc<RefCell<Option<Machine<()>>>> = Rc::default();
    let inside = Rc::clone(&itself);
    *itself.borrow_mut() = Some(push(move |_: &mut Feed| _ = inside.borrow_mut().as_mut().unwrap().feed(b"more")));
    let fed = catch_unwind(AssertUnwindSafe(|| _ = itself.borrow_mut().as_mut().unwrap().feed(b"some")));
    assert!(fed.is_err());
    *itself.borrow_mut() = None;
    assert_eq!(leaked_stacks(), 0);
}

/// Counts its drops.
struct Note(Rc<Cell<u32>>);
impl Drop for Note {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn dropped_halfway_a_read_fails_and_the_next_one_unwinds() {
    let (dropped, after) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    for reads in 0..4 {
        let (note, after) = (Note(Rc::clone(&dropped)), Rc::clone(&after));
        let mut machine = push(move |input: &mut Feed| {
            let value = Note(Rc::clone(&note.0));
            for _ in 0..reads {
                match input.read(&mut [0; 8]) {
                    Ok(_) => {}
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::BrokenPipe),
                }
                after.set(after.get() + 1);
            }
            (note, value)
        });
        // A body that is at its first read, or done.
        let fed = machine.feed(b"");
        assert_eq!(matches!(fed, Fed::Done { .. }), reads == 0);
    }
    // The first read returns; nobody gets beyond that.
    assert_eq!((dropped.get(), after.get(), leaked_stacks()), (8, 3, 0));
}

#[test]
fn dropped_in_a_panic_and_read_from_in_one() {
    struct Reads<'a, 'f>(&'a mut Feed<'f>, Rc<Cell<u32>>);
    impl Drop for Reads<'_, '_> {
        fn drop(&mut self) {
            let read = self.0.read(&mut [0; 8]);
            self.1.set(self.1.get() + if read.is_err() { 1 } else { 100 });
        }
    }
    let failed = Rc::new(Cell::new(0));
    let body = |failed: Rc<Cell<u32>>, panics: bool| {
        move |input: &mut Feed| {
            input.fill_buf().unwrap();
            let reads = Reads(input, failed);
            if panics {
                std::panic::panic_any("the body's");
            }
            reads.0.consume(1);
            reads.0.fill_buf().unwrap().len()
        }
    };
    // The body panics, with and without something left.
    let mut machine = push(body(Rc::clone(&failed), true));
    assert_eq!(message(|| _ = machine.feed(b"x")), "the body's");
    assert_eq!(failed.take(), 100, "what is left of the piece can be read");
    // The feeder does, and the machine goes along.
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut machine = push(body(Rc::clone(&failed), false));
        assert_eq!(machine.feed(b"x"), Fed::NeedMore);
        std::panic::panic_any("the feeder's");
    }));
    assert_eq!((panicked.unwrap_err().downcast_ref(), failed.get()), (Some(&"the feeder's"), 1));

    // A feeder that feeds during its panic.
    struct Feeds(Option<Machine<'static, usize>>, Rc<Cell<u32>>);
    impl Drop for Feeds {
        fn drop(&mut self) {
            let mut machine = self.0.take().unwrap();
            assert_eq!(machine.feed(b"12"), Fed::NeedMore);
            self.1.set(machine.finish() as u32);
        }
    }
    let read = Rc::new(Cell::new(0));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _feeds = Feeds(Some(push(|input: &mut Feed| input.bytes().count())), Rc::clone(&read));
        std::panic::panic_any("the feeder's");
    }));
    assert_eq!((panicked.is_err(), read.get(), leaked_stacks()), (true, 2, 0));
}

#[test]
fn machines_in_machines_in_generators() {
    // The outer one reads lengths, and feeds the inner one with the parts.
    let outer = |input: &mut Feed| {
        let mut inner = push(|input: &mut Feed| pairs(input));
        loop {
            let length = input.bytes().next().unwrap().unwrap() - b'0';
            let mut part = vec![0; length.into()];
            input.read_exact(&mut part).unwrap();
            if let Fed::Done { value, unread } = inner.feed(&part) {
                return (value.unwrap().len(), unread.len());
            }
        }
    };
    for length in 1..=5 {
        let pieces: Vec<_> = b"3a=15;b=223;;.".chunks(length).collect();
        assert_eq!(fed(push(outer), &pieces), ((2, 1), 0), "{length}");
    }

    // A generator reads from the machine that runs it.
    let mut lines = push(|input: &mut Feed| {
        region(|region| {
            let lines = region.generator(|y: &Yielder<String>| input.lines().for_each(|line| y.give(line.unwrap())));
            lines.map(|line| line.len()).collect::<Vec<_>>()
        })
    });
    assert_eq!(
        (lines.feed(b"on"), lines.feed(b"e\ntwo\nth"), lines.feed(b"ree")),
        (Fed::NeedMore, Fed::NeedMore, Fed::NeedMore)
    );
    assert_eq!(lines.finish(), [3, 3, 5]);

    // And a machine is fed by a generator's body.
    let counts = generator(|y| {
        let mut machine = push(|input: &mut Feed| input.bytes().count());
        for piece in [&b"ab"[..], b"c"] {
            assert_eq!(machine.feed(piece), Fed::NeedMore);
            y.give(0);
        }
        y.give(machine.finish());
    });
    assert!(counts.eq([0, 0, 3]));
    assert_eq!(leaked_stacks(), 0);
}

enum Stage {
    Asked(Continuation<'static, usize, Stage>),
    Over(usize),
}

#[test]
fn effects_of_a_body_go_to_the_feeder_and_capture_the_feed() {
    let body = |input: &mut Feed| {
        let mut total = 0;
        loop {
            // A loan is alive meanwhile.
            let lent = input.fill_buf().unwrap();
            let (length, first) = (lent.len(), lent.first().copied());
            total += perform(Ask);
            assert_eq!(lent.first().copied(), first);
            if length == 0 {
                return total;
            }
            input.consume(length);
        }
    };
    let handler = Handler::stored().on(|_: Ask, k| Stage::Asked(k)).value(Stage::Over);
    let mut stage = handler.handle(move || {
        let mut machine = push(body);
        for piece in ["1", "23"] {
            let piece = piece.to_owned();
            assert_eq!(machine.feed(piece.as_bytes()), Fed::NeedMore);
        }
        machine.finish()
    });
    let mut captures = 0;
    let answer = loop {
        match stage {
            Stage::Asked(continuation) => {
                captures += 1;
                stage = continuation.resume(captures);
            }
            Stage::Over(answer) => break answer,
        }
    };
    assert_eq!((captures, answer, leaked_stacks()), (3, 6, 0));

    // Dropped in the middle of a feed, both end.
    let handler = Handler::stored().on(|_: Ask, k| Stage::Asked(k)).value(Stage::Over);
    let begun = handler.handle(move || {
        let mut machine = push(body);
        _ = machine.feed(b"lent");
        unreachable!()
    });
    drop(begun);
    assert_eq!(leaked_stacks(), 0);

    // Resumed during a panic that began after the feed, the body's value arrives all the same.
    struct Resumes<'a>(Option<Stage>, &'a Cell<usize>);
    impl Drop for Resumes<'_> {
        fn drop(&mut self) {
            if let Some(Stage::Asked(continuation)) = self.0.take()
                && let Stage::Over(answer) = continuation.resume(7)
            {
                self.1.set(answer);
            }
        }
    }
    let answer = Cell::new(0);
    let handler = Handler::stored().on(|_: Ask, k| Stage::Asked(k)).value(Stage::Over);
    let begun = handler.handle(|| {
        let mut machine = push(|input: &mut Feed| input.fill_buf().unwrap().len() + perform(Ask));
        match machine.feed(b"abc") {
            Fed::Done { value, unread } => value * unread.len(),
            Fed::NeedMore => unreachable!(),
        }
    });
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _resumes = Resumes(Some(begun), &answer);
        std::panic::panic_any("the holder's");
    }));
    assert_eq!((panicked.is_err(), answer.get(), leaked_stacks()), (true, 30, 0));
}

#[test]
fn a_machine_that_borrows_ends_with_its_region() {
    let (note, words) = (Cell::new(0), vec!["a", "b"]);
    struct Set<'a>(&'a Cell<u32>);
    impl Drop for Set<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    region(|region| {
        let body = |input: &mut Feed| {
            let _set = Set(&note);
            let read = input.read(&mut [0; 8]);
            assert!(read.is_err());
            words.len()
        };
        let mut dropped = region.push(body);
        assert_eq!(dropped.feed(b""), Fed::NeedMore);
        drop(dropped);
        assert_eq!(note.get(), 1);
        let mut forgotten = region.push_with_stack(100_000, body);
        assert_eq!(forgotten.feed(b""), Fed::NeedMore);
        std::mem::forget(forgotten);
        std::mem::forget(region.push(body));
    });
    assert_eq!((note.get(), leaked_stacks()), (2, 0));
}

#[test]
fn a_stack_of_its_own_size_and_machines_that_move() {
    fn depth(input: &mut Feed, deepest: &Cell<u32>) -> u32 {
        deepest.set(deepest.get() + 1);
        match input.bytes().next() {
            Some(Ok(b'[')) => 1 + depth(input, deepest),
            _ => 0,
        }
    }
    let mut machine = push_with_stack(32 << 20, |input: &mut Feed| depth(input, &Cell::new(0)));
    let length = if cfg!(miri) { 10 } else { 1000 };
    for _ in 0..10 {
        let mut moved = Box::new(machine);
        assert_eq!(moved.feed(&[b'['; 1000][..length]), Fed::NeedMore);
        machine = *moved;
    }
    assert_eq!(machine.feed(b"x"), Fed::Done { value: 10 * length as u32, unread: b"" });
}

#[test]
fn very_many_machines_leave_nothing() {
    let many = match () {
        () if cfg!(miri) => 5,
        () if cfg!(threads) => 50,
        () => 20_000,
    };
    for number in 0..many {
        let mut machine = push(|input: &mut Feed| input.bytes().take(3).count());
        assert_eq!(machine.feed(b"12"), Fed::NeedMore);
        if number % 2 == 0 {
            assert_eq!(machine.feed(b"34"), Fed::Done { value: 3, unread: b"4" });
        }
    }
    assert_eq!(leaked_stacks(), 0);
}

/// Feeds a machine in its drop, with a piece that is gone then. Whether that panics is told.
struct Feeds<'r>(Rc<RefCell<Option<Machine<'r, ()>>>>, Rc<Cell<u32>>);
impl Drop for Feeds<'_> {
    fn drop(&mut self) {
        let fed = catch_unwind(AssertUnwindSafe(|| {
            let gone = vec![1_u8; 1 << 16];
            _ = self.0.borrow_mut().as_mut().unwrap().feed(&gone);
        }));
        self.1.set(self.1.get() + u32::from(fed.is_err()));
    }
}

#[test]
fn a_machine_that_its_region_ends_is_not_fed_by_its_own_destructors() {
    /// Reads in its drop: nothing is there.
    struct Reads<'a, 'f>(&'a mut Feed<'f>, Rc<Cell<u32>>);
    impl Drop for Reads<'_, '_> {
        fn drop(&mut self) {
            let lent = self.0.fill_buf();
            self.1.set(self.1.get() + u32::from(lent.is_err()));
        }
    }
    let (refused, failed) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    region(|region| {
        let slot: Rc<RefCell<Option<Machine<'_, ()>>>> = Rc::default();
        let feeds = Feeds(Rc::clone(&slot), Rc::clone(&refused));
        // A machine that is dropped in its own body leaves its stack behind.
        std::mem::forget(Rc::clone(&slot));
        let failed = Rc::clone(&failed);
        *slot.borrow_mut() = Some(region.push(move |input: &mut Feed| {
            let reads = Reads(input, failed);
            let _feeds = feeds;
            _ = reads.0.fill_buf();
        }));
        assert_eq!(slot.borrow_mut().as_mut().unwrap().feed(b""), Fed::NeedMore);
    });
    assert_eq!((refused.get(), failed.get(), leaked_stacks()), (1, 1, 0));
}

#[test]
fn a_machine_that_its_region_has_ended_is_not_fed() {
    let refused = Rc::new(Cell::new(0));
    region(|region| {
        let slot: Rc<RefCell<Option<Machine<'_, ()>>>> = Rc::default();
        // Made first, and so ended last.
        let feeds = Feeds(Rc::clone(&slot), Rc::clone(&refused));
        let mut generator = region.generator(move |y: &Yielder<u8>| {
            let _feeds = feeds;
            y.give(1);
        });
        assert_eq!(generator.next(), Some(1));
        std::mem::forget(generator);
        *slot.borrow_mut() = Some(region.push(|input: &mut Feed| _ = input.fill_buf()));
        assert_eq!(slot.borrow_mut().as_mut().unwrap().feed(b""), Fed::NeedMore);
    });
    assert_eq!((refused.get(), leaked_stacks()), (1, 0));
}

#[test]
fn a_body_that_catches_its_unwinding_and_returns_ends_all_the_same() {
    let dropped = Rc::new(Cell::new(0));
    let note = Rc::clone(&dropped);
    let mut machine = push(move |input: &mut Feed| {
        for _ in 0..3 {
            _ = catch_unwind(AssertUnwindSafe(|| input.read_to_end(&mut Vec::new())));
        }
        Note(note)
    });
    assert!(matches!(machine.feed(b"1"), Fed::NeedMore));
    assert!(format!("{machine:?}").contains("waits: true"));
    drop(machine);
    assert_eq!((dropped.get(), leaked_stacks()), (1, 0));
}
