//! Each value ends once, and where it may: it is received, or comes back to its sender, or goes to
//! the hook, or goes with the future that had it; whoever selects, is cancelled, is dropped or
//! closes the channel when.

use crate::meet;

use meet::{poll_once, pool, simulated, task};
use segue::channel::{Options, Receiver, Sender};
use segue::source::OneOf;
use segue::{CancelToken, WaitError, any_of, scope, select, shield, timeout, yield_now};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Received,
    CameBack,
    Undelivered,
    /// Nobody has said what becomes of it.
    Dropped,
}

/// What its sender was told of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Sent,
    NotSent,
    /// A future was dropped.
    Nothing,
}

#[derive(Default)]
struct Book {
    next: AtomicUsize,
    ends: Mutex<BTreeMap<usize, Vec<End>>>,
    told: Mutex<BTreeMap<usize, Told>>,
    seen: Mutex<BTreeMap<(Told, End), usize>>,
}

/// A value that notes its end.
struct Item {
    number: usize,
    end: End,
    book: Arc<Book>,
}

impl Drop for Item {
    fn drop(&mut self) {
        self.book.ends.lock().unwrap().entry(self.number).or_default().push(self.end);
    }
}

impl Item {
    fn new(book: &Arc<Book>) -> Self {
        let number = book.next.fetch_add(1, SeqCst);
        Self { number, end: End::Dropped, book: Arc::clone(book) }
    }

    fn ends(mut self, end: End) {
        self.end = end;
    }
}

impl Book {
    fn tell(&self, number: usize, told: Told) {
        assert_eq!(self.told.lock().unwrap().insert(number, told), None);
    }

    /// All ends of all channels have gone.
    fn settle(&self) {
        let (ends, told) = (self.ends.lock().unwrap(), self.told.lock().unwrap());
        assert_eq!((ends.len(), told.len()), (self.next.load(SeqCst), self.next.load(SeqCst)));
        for (number, ends) in &*ends {
            let [end] = ends[..] else { panic!("value {number} has ended in {ends:?}") };
            let told = told[number];
            let right = match told {
                Told::Sent => matches!(end, End::Received | End::Undelivered),
                Told::NotSent => end == End::CameBack,
                Told::Nothing => end != End::CameBack,
            };
            assert!(right, "the sender of value {number} was told {told:?}, and its end was {end:?}");
            *self.seen.lock().unwrap().entry((told, end)).or_default() += 1;
        }
    }
}

fn channel(capacity: usize) -> (Sender<Item>, Receiver<Item>) {
    let builder = if capacity == usize::MAX { Options::unbounded() } else { Options::bounded(capacity) };
    builder.on_undelivered(|item: Item| item.ends(End::Undelivered)).build()
}

fn dice(seed: u64, n: u64) -> u64 {
    let mut z = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(n.wrapping_mul(0xBF58_476D_1CE4_E5B9));
    z = (z ^ (z >> 30)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)) >> 8
}

/// Sends one of two values, each to its channel, and one that is reserved for.
fn sends(book: &Arc<Book>, [a, b]: [&Sender<Item>; 2], how: u64) {
    let items = [Item::new(book), Item::new(book)];
    let numbers = items.each_ref().map(|item| item.number);
    let [first, second] = items;
    let came_back = |item: Item| {
        book.tell(item.number, Told::NotSent);
        item.ends(End::CameBack);
    };
    match how % 5 {
        0 => {
            for (sender, item) in [(a, first), (b, second)] {
                let number = item.number;
                match sender.send(item) {
                    Ok(()) => book.tell(number, Told::Sent),
                    Err(refused) => came_back(refused.value),
                }
            }
        }
        1 => {
            let mut sendings = [a.send_source(first), b.send_source(second)];
            let mut chosen = {
                let [a, b] = &mut sendings;
                any_of([a.by_ref(), b.by_ref()]).wait().ok()
            };
            for (n, sending) in sendings.into_iter().enumerate() {
                match sending.into_value() {
                    Some(item) => came_back(item),
                    None => {
                        assert!(matches!(chosen.take(), Some((index, Ok(()))) if index == n), "it was not chosen");
                        book.tell(numbers[n], Told::Sent);
                    }
                }
            }
            assert!(!matches!(chosen, Some((_, Ok(())))), "what was chosen has its value");
        }
        2 => {
            // A task that is dropped at some step.
            let mut sendings = [a.send_source(first), b.send_source(second)];
            {
                let [a, b] = &mut sendings;
                let mut choice = task(any_of([a.by_ref(), b.by_ref()]));
                for _ in 0..how / 5 % 4 {
                    if poll_once(&mut choice).is_some() || yield_now().is_err() {
                        break;
                    }
                }
            }
            for (n, sending) in sendings.into_iter().enumerate() {
                match sending.into_value() {
                    Some(item) => came_back(item),
                    None => book.tell(numbers[n], Told::Sent),
                }
            }
        }
        3 => {
            for (sender, item) in [(a, first), (b, second)] {
                let number = item.number;
                let mut sending = task(sender.send_source(item));
                let polled = (0..how / 5 % 4).find_map(|_| {
                    let sent = poll_once(&mut sending);
                    let _ = yield_now();
                    sent
                });
                let told = if polled == Some(Ok(())) { Told::Sent } else { Told::Nothing };
                drop(sending);
                book.tell(number, told);
            }
        }
        _ => {
            for (sender, item) in [(a, first), (b, second)] {
                let number = item.number;
                let room = if sender.capacity() == Some(0) { None } else { sender.reserve().ok() };
                let Some(room) = room else {
                    came_back(item);
                    continue;
                };
                let _ = yield_now();
                if how.is_multiple_of(4) {
                    drop(room);
                    came_back(item);
                } else {
                    match room.send(item) {
                        Ok(()) => book.tell(number, Told::Sent),
                        Err(refused) => came_back(refused.value),
                    }
                }
            }
        }
    }
}

/// Receives of either, in one of the ways.
fn receives([a, b]: [&Receiver<Item>; 2], how: u64) {
    let received = match how % 5 {
        0 => a.recv().ok(),
        1 => match any_of((a.recv_source(), b.recv_source())).wait() {
            Ok(OneOf::A(received) | OneOf::B(received)) => received.ok(),
            Err(_) => None,
        },
        2 => select! {
            item = b.recv_source() => item.ok(),
            item = a.recv_source() => item.ok(),
        }
        .unwrap_or(None),
        3 => {
            // The same twice, in a task that is dropped at some step.
            let mut choice = task(any_of([a.recv_source(), b.recv_source(), a.recv_source()]));
            let polled = (0..how / 5 % 4).find_map(|_| {
                let received = poll_once(&mut choice);
                let _ = yield_now();
                received
            });
            polled.and_then(|(_, received)| received.ok())
        }
        _ => b.try_recv().ok(),
    };
    if let Some(item) = received {
        item.ends(End::Received);
    }
}

/// Senders and receivers of three channels, each cancelled, dropped or out of time at some step.
fn deliver_under_cancellation(book: &Arc<Book>, seed: u64) {
    let capacities = [[0, 1, 3], [0, 0, 1], [1, 2, usize::MAX]][seed as usize % 3];
    let ends = capacities.map(channel);
    scope(|s| {
        for n in 0..8 {
            let token = CancelToken::new();
            let canceller = token.clone();
            let pick = |k: u64| (dice(seed, n * 64 + k) % 3) as usize;
            let [x, y] = [pick(1), pick(2)];
            if n % 2 == 0 {
                let senders = [ends[x].0.clone(), ends[y].0.clone()];
                s.spawn(move || {
                    let [a, b] = &senders;
                    token.run(|| {
                        for round in 0..4 {
                            let how = dice(seed, n * 64 + 8 + round);
                            timeout(MILLI * (how % 20) as u32, || sends(book, [a, b], how));
                        }
                    });
                    if dice(seed, n).is_multiple_of(5) {
                        a.close();
                    }
                });
            } else {
                let receivers = [ends[x].1.clone(), ends[y].1.clone()];
                s.spawn(move || {
                    let [a, b] = &receivers;
                    token.run(|| {
                        for round in 0..6 {
                            let how = dice(seed, n * 64 + 8 + round);
                            timeout(MILLI * (how % 20) as u32, || receives([a, b], how));
                        }
                    });
                    if dice(seed, n).is_multiple_of(5) {
                        b.close();
                    }
                });
            }
            if dice(seed, n + 1000).is_multiple_of(3) {
                s.spawn(move || {
                    (0..dice(seed, n + 2000) % 24).for_each(|_| drop(yield_now()));
                    canceller.cancel();
                });
            }
        }
        // Most are with those who use them.
        drop(ends);
    });
}

/// What is to be seen, and where receivers stay until all is received, the last of it is not.
const ALL: [(Told, End); 5] = [
    (Told::Sent, End::Received),
    (Told::NotSent, End::CameBack),
    (Told::Nothing, End::Received),
    (Told::Nothing, End::Dropped),
    (Told::Sent, End::Undelivered),
];

fn assert_seen(book: &Book, outcomes: &[(Told, End)], at_least: usize) {
    let seen = book.seen.lock().unwrap();
    for outcome in outcomes {
        assert!(seen.get(outcome).is_some_and(|count| *count >= at_least), "{outcome:?}: {seen:?}");
    }
}

#[test]
fn each_value_ends_once_whoever_is_cancelled_dropped_or_closes_at_whichever_step() {
    let all = Book::default();
    simulated(600, |seed| {
        let book = Arc::default();
        deliver_under_cancellation(&book, seed);
        book.settle();
        for (outcome, count) in &*book.seen.lock().unwrap() {
            *all.seen.lock().unwrap().entry(*outcome).or_default() += count;
        }
    });
    assert_seen(&all, &ALL, 50);
}

/// Of fibers of two pools, of which some are cancelled, and threads, all at once.
#[test]
fn each_value_ends_once_on_workers_and_threads() {
    const ROUNDS: u64 = 400;
    let book = &Arc::<Book>::default();
    let cancelled_at_some_time = |how: u64, f: &(dyn Fn() + Sync)| {
        let token = CancelToken::new();
        scope(|s| {
            let runs = s.spawn(|| token.run(f));
            if how.is_multiple_of(2) {
                let _ = yield_now();
            }
            if !how.is_multiple_of(3) {
                token.cancel();
            }
            shield(|| runs.join()).unwrap();
        });
    };
    // In time, since the partner of a wait may be busy with another.
    let in_time = |number: u64, f: &(dyn Fn() + Sync)| timeout(MILLI * (1 + number % 2) as u32, f);
    let on_host = |n: u64, each: &(dyn Fn(u64) -> bool + Sync)| match n % 3 {
        0 => pool(2)
            .run(|| {
                let goes_on = AtomicBool::new(true);
                for round in (0..).take_while(|_| goes_on.load(SeqCst)) {
                    cancelled_at_some_time(dice(n, round), &|| {
                        in_time(round, &|| goes_on.store(each(round), SeqCst));
                    });
                }
            })
            .unwrap(),
        _ => {
            let goes_on = AtomicBool::new(true);
            for round in (0..).take_while(|_| goes_on.load(SeqCst)) {
                in_time(round, &|| goes_on.store(each(round), SeqCst));
            }
        }
    };
    let ends = [0, 1, usize::MAX].map(channel);
    std::thread::scope(|t| {
        for n in 0..6 {
            let [(send_a, a), (send_b, b)] = [n, n + 1].map(|n| ends[n % 3].clone());
            let n = n as u64;
            if n < 3 {
                t.spawn(move || {
                    on_host(n, &|round| {
                        sends(book, [&send_a, &send_b], dice(n + 10, round));
                        round < ROUNDS
                    });
                });
            } else {
                t.spawn(move || {
                    on_host(n, &|round| {
                        receives([&a, &b], dice(n + 10, round));
                        !(a.is_closed() && b.is_closed())
                    });
                });
            }
        }
        drop(ends);
    });
    book.settle();
    assert_seen(book, &ALL[..4], 1);
}

/// Every schedule of two that meet while a third closes.
#[segue::test(policy = exhaustive(200_000))]
fn under_every_schedule_a_value_is_received_or_comes_back() {
    let (sender, receiver) = Options::rendezvous().build();
    scope(|s| {
        let sends = s.spawn(|| sender.send(7).map_err(|refused| refused.value));
        let receives = s.spawn(|| receiver.recv());
        sender.close();
        match (sends.join().unwrap(), receives.join().unwrap()) {
            (Ok(()), Ok(7)) | (Err(7), Err(WaitError::Closed)) => (),
            other => panic!("{other:?}"),
        }
    });
}

/// And of a receiver that goes while one sends into its buffer, in room that was reserved.
#[segue::test(policy = exhaustive(200_000))]
fn under_every_schedule_what_was_sent_is_received_or_undelivered() {
    let undelivered = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&undelivered);
    let (sender, receiver) =
        Options::bounded(1).on_undelivered(move |n: usize| _ = counts.fetch_add(n, SeqCst)).build();
    let (sent, received) = scope(|s| {
        let sends = s.spawn(|| sender.reserve().is_ok_and(|room| room.send(1).is_ok()));
        let receives = s.spawn(move || receiver.try_recv().is_ok());
        (sends.join().unwrap(), receives.join().unwrap())
    });
    assert_eq!(usize::from(sent), usize::from(received) + undelivered.load(SeqCst));
}
