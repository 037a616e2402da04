//! No message of a broadcast is lost or doubled: random operations against a model, and storms of
//! receivers and senders that lag, are cancelled, dropped, and told of the end.

use crate::drain;
use crate::meet;

use drain::drain;
use meet::{Task, block_on, mixed, simulated};
use segue::channel::broadcast::{self, NoMessage, RecvError};
use segue::{CancelToken, Closed, WaitError, scope, yield_now};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

fn pauses(n: u64) {
    (0..n).try_for_each(|_| yield_now()).unwrap();
}

/// A message, of which the living ones are counted.
#[derive(Debug)]
struct Counted(u64, Arc<AtomicUsize>);

impl Counted {
    fn new(n: u64, alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, SeqCst);
        Self(n, Arc::clone(alive))
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Self::new(self.0, &self.1)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, SeqCst);
    }
}

#[test]
fn random_operations_do_what_a_list_and_positions_say() {
    let (mut lagged, mut closed, mut none) = (0, 0, 0);
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let capacity = random.u64(1..6);
        let alive = Arc::new(AtomicUsize::new(0));
        let (sender, receiver) = broadcast::channel::<Counted>(usize::try_from(capacity).unwrap());
        let mut senders = vec![sender];
        // Each with the position that it is to have; the messages are the numbers below `end`.
        let (mut receivers, mut end, mut is_closed) = (vec![(receiver, 0)], 0, false);
        for _ in 0..80 {
            let oldest = u64::saturating_sub(end, capacity);
            let any = random.usize(0..receivers.len().max(1));
            match (random.u32(0..40), receivers.get_mut(any)) {
                (0..14, _) if !senders.is_empty() => {
                    let sent = senders[random.usize(0..senders.len())].send(Counted::new(end, &alive));
                    if is_closed || receivers.is_empty() {
                        let back = sent.unwrap_err();
                        assert_eq!((back.value.0, back.error), (end, Closed));
                    } else {
                        assert_eq!(sent.unwrap(), receivers.len());
                        end += 1;
                    }
                }
                (14..30, Some((receiver, position))) => {
                    let got = receiver.try_recv().map(|got| got.map(|message| message.0));
                    if *position < oldest {
                        assert_eq!(got, Some(Err(NoMessage::Lagged(oldest - *position))));
                        *position = oldest;
                        lagged += 1;
                    } else if *position < end {
                        assert_eq!(got, Some(Ok(*position)));
                        *position += 1;
                    } else if is_closed || senders.is_empty() {
                        assert_eq!(got, Some(Err(NoMessage::Closed)));
                        closed += 1;
                    } else {
                        assert_eq!(got, None);
                        none += 1;
                    }
                }
                (30..32, Some((receiver, position))) => {
                    let copy = (receiver.clone(), *position);
                    receivers.push(copy);
                }
                (32, Some((receiver, _))) => {
                    let late = (receiver.resubscribe(), end);
                    receivers.push(late);
                }
                (33, _) if !senders.is_empty() => receivers.push((senders[0].subscribe(), end)),
                (34..37, Some(_)) => drop(receivers.swap_remove(any)),
                (37, _) if !senders.is_empty() => senders.push(senders[0].clone()),
                (38, _) if !senders.is_empty() && random.u32(0..3) == 0 => drop(senders.pop()),
                (39, _) if !senders.is_empty() && random.u32(0..8) == 0 => {
                    senders[0].close();
                    is_closed = true;
                }
                _ => {}
            }
            let oldest = u64::saturating_sub(end, capacity);
            for (receiver, position) in &receivers {
                assert_eq!(receiver.len() as u64, end - (*position).max(oldest), "seed {seed}");
            }
            let kept = receivers.iter().map(|(_, position)| end - (*position).max(oldest)).max().unwrap_or(0);
            assert_eq!(alive.load(SeqCst) as u64, kept, "kept as long as somebody is to get it, seed {seed}");
            if let Some(sender) = senders.first() {
                assert_eq!((sender.len() as u64, sender.receiver_count()), (kept, receivers.len()));
                assert_eq!(sender.is_closed(), is_closed);
            }
        }
        drop((senders, receivers));
        assert_eq!(alive.load(SeqCst), 0);
    }
    println!("{lagged} lagged, {closed} closed, {none} without a message");
    assert!(lagged > 100 && closed > 100 && none > 100);
}

#[test]
fn random_operations_on_a_lossless_one_do_what_a_list_and_a_queue_say() {
    let (mut waited, mut withdrawn, mut taken, mut refused) = (0, 0, 0, 0);
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let capacity = random.u64(1..4);
        let alive = Arc::new(AtomicUsize::new(0));
        let (sender, receiver) = broadcast::lossless::<Counted>(usize::try_from(capacity).unwrap());
        let mut receivers = vec![(receiver, 0_usize)];
        let mut sent = Vec::new();
        // Senders that wait, in their order, and those whose message was taken and who don't know.
        let mut waiting: VecDeque<(u64, Task<'_, Result<(), Closed>>)> = VecDeque::new();
        let mut served = Vec::new();
        for n in 0..100 {
            let any = random.usize(0..receivers.len().max(1));
            match (random.u32(0..20), receivers.get_mut(any)) {
                (0..8, _) => {
                    let mut task = Task::new(sender.send_source(Counted::new(n, &alive)));
                    let slowest = receivers.iter().map(|(_, position)| *position).min();
                    match (task.poll(), slowest) {
                        (None, Some(slowest)) => {
                            assert_eq!((sent.len() - slowest) as u64, capacity, "it waits only if there is no room");
                            waiting.push_back((n, task));
                            waited += 1;
                        }
                        (Some(Ok(())), Some(slowest)) => {
                            assert!(waiting.is_empty() && ((sent.len() - slowest) as u64) < capacity);
                            sent.push(n);
                        }
                        (Some(Err(Closed)), None) => refused += 1,
                        (polled, slowest) => panic!("{polled:?} with the slowest at {slowest:?}, seed {seed}"),
                    }
                }
                (8..15, Some((receiver, position))) => {
                    let got = receiver.try_recv().map(|got| got.unwrap().0);
                    assert_eq!(got, sent.get(*position).copied(), "seed {seed}");
                    *position += usize::from(got.is_some());
                }
                (15, Some((receiver, position))) => {
                    let copy = (receiver.clone(), *position);
                    receivers.push(copy);
                }
                (16, _) => receivers.push((sender.subscribe(), sent.len())),
                (17, Some(_)) => drop(receivers.swap_remove(any)),
                (18, _) if !waiting.is_empty() => {
                    withdrawn += 1;
                    drop(waiting.remove(random.usize(0..waiting.len())));
                }
                (19, _) if !served.is_empty() => drop(served.pop()),
                _ => {}
            }
            match receivers.iter().map(|(_, position)| *position).min() {
                None => {
                    for (_, mut task) in waiting.drain(..) {
                        assert_eq!(task.poll(), Some(Err(Closed)), "seed {seed}");
                        refused += 1;
                    }
                }
                Some(slowest) => {
                    while (sent.len() - slowest) as u64 != capacity
                        && let Some((n, task)) = waiting.pop_front()
                    {
                        assert_eq!(task.wakes(), 1, "seed {seed}");
                        sent.push(n);
                        served.push(task);
                        taken += 1;
                    }
                }
            }
            assert!(waiting.iter().all(|(_, task)| task.wakes() == 0), "who is not served is not woken");
            let slowest = receivers.iter().map(|(_, position)| *position).min().unwrap_or(sent.len());
            assert_eq!(alive.load(SeqCst), sent.len() - slowest + waiting.len(), "seed {seed}");
        }
        for task in &mut served {
            assert_eq!(task.poll(), Some(Ok(())));
        }
    }
    println!("{waited} waited: {taken} sent, {withdrawn} withdrawn; {refused} refused");
    assert!(taken > 100 && withdrawn > 100 && refused > 100);
}

#[test]
fn conservation_in_every_schedule_with_lags_ends_and_cancellations() {
    let (lags, ends, cancels) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    simulated(600, |seed| {
        let (sender, receiver) = broadcast::channel(2);
        let token = CancelToken::new();
        scope(|s| {
            for n in 0..3 {
                let (mut receiver, token) = (receiver.clone(), &token);
                let (lags, ends, cancels) = (&lags, &ends, &cancels);
                drop(s.spawn(move || {
                    let (mut next, mut is_cancelled) = (0, false);
                    loop {
                        let received = match n {
                            0 => block_on(receiver.recv_source()).map_err(RecvError::from),
                            1 if !is_cancelled => token.run(|| receiver.recv()),
                            _ => receiver.recv(),
                        };
                        match received {
                            Ok(message) => {
                                assert_eq!(message, next, "what comes is the next");
                                next += 1;
                                pauses(n);
                            }
                            Err(RecvError::Lagged(missed)) => {
                                next += missed;
                                lags.fetch_add(1, SeqCst);
                            }
                            Err(RecvError::Cancelled(_)) => {
                                is_cancelled = true;
                                cancels.fetch_add(1, SeqCst);
                            }
                            Err(RecvError::Closed) => break,
                        }
                    }
                    assert_eq!(next, 8, "each message was got or missed");
                    ends.fetch_add(1, SeqCst);
                }));
            }
            drop(receiver);
            let canceller = s.spawn(|| {
                pauses(seed % 5);
                token.cancel();
            });
            for n in 0..8 {
                assert!(sender.send(n).is_ok());
                pauses(seed % 3);
            }
            drop(sender);
            drop(canceller);
        });
    });
    let (lags, ends, cancels) = (lags.into_inner(), ends.into_inner(), cancels.into_inner());
    println!("{lags} lags, {ends} ends, {cancels} cancellations");
    assert!(lags > 100 && ends == 1800 && cancels > 100);
}

#[test]
fn conservation_of_lossless_sends_that_are_cancelled_or_dropped_in_every_schedule() {
    let (sent, cancelled, refused) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    simulated(600, |seed| {
        let (sender, mut receiver) = broadcast::lossless(1);
        let mut other = receiver.clone();
        let (token, mine) = (CancelToken::new(), Mutex::new(Vec::new()));
        let mut got = scope(|s| {
            for n in 0..3 {
                let (sender, token, mine) = (sender.clone(), &token, &mine);
                let (sent, cancelled, refused) = (&sent, &cancelled, &refused);
                drop(s.spawn(move || {
                    for step in 0..3 {
                        let message = n * 10 + step;
                        let outcome = match n {
                            0 => block_on(sender.send_source(message)).map_err(|closed| (message, closed.into())),
                            1 => token.run(|| sender.send(message)).map_err(|back| (back.value, back.error)),
                            _ => sender.send(message).map_err(|back| (back.value, back.error)),
                        };
                        match outcome {
                            Ok(()) => {
                                mine.lock().unwrap().push(message);
                                sent.fetch_add(1, SeqCst);
                            }
                            Err((back, error)) => {
                                assert_eq!(back, message, "it comes back");
                                match error {
                                    WaitError::Cancelled(_) => cancelled.fetch_add(1, SeqCst),
                                    WaitError::Closed => refused.fetch_add(1, SeqCst),
                                };
                            }
                        }
                    }
                }));
            }
            drop(s.spawn(|| {
                pauses(seed % 7);
                token.cancel();
            }));
            let whole = s.spawn(move || drain(&mut receiver, seed % 2 == 0).0);
            let part = s.spawn(move || {
                let got: Vec<_> = (0..seed % 4).map_while(|_| other.recv().ok()).collect();
                if seed % 5 == 0 {
                    drop(other);
                    return got;
                }
                let mut rest = drain(&mut other, false).0;
                rest.splice(0..0, got);
                rest
            });
            if seed % 3 == 0 {
                pauses(seed % 11);
                sender.close();
            }
            drop(sender);
            let (whole, part) = (whole.join().unwrap(), part.join().unwrap());
            assert!(whole.starts_with(&part), "one order: {whole:?}, {part:?}");
            whole
        });
        let mut mine = mine.into_inner().unwrap();
        got.sort_unstable();
        mine.sort_unstable();
        assert_eq!(mine, got, "what was sent was got, and what came back was not");
    });
    let (sent, cancelled, refused) = (sent.into_inner(), cancelled.into_inner(), refused.into_inner());
    println!("{sent} sent, {cancelled} cancelled, {refused} refused");
    assert!(sent > 100 && cancelled > 100 && refused > 100);
}

#[test]
fn conservation_on_threads_where_receivers_come_and_go() {
    let (mut lags, mut drops, mut cancels) = (0, 0, 0);
    for round in 0..60 {
        let (sender, receiver) = broadcast::channel(4);
        let sent = AtomicUsize::new(0);
        let (lagged, dropped, cancelled) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let (senders, stays) = (Mutex::new((0..3).map(|_| sender.clone()).collect::<Vec<_>>()), receiver.clone());
        let before = Mutex::new((0..6).map(|_| receiver.clone()).collect::<Vec<_>>());
        drop((sender, receiver));
        mixed(9, |n| {
            if n < 3 {
                let sender = senders.lock().unwrap().pop().unwrap();
                for step in 0..20 {
                    assert!(sender.send(step).is_ok(), "somebody stays");
                    sent.fetch_add(1, SeqCst);
                }
                return;
            }
            let mut receiver = before.lock().unwrap().pop().unwrap();
            let (mut got, token) = (0, CancelToken::new());
            loop {
                let received = match (n + round) % 3 {
                    0 => receiver.recv(),
                    1 => {
                        let mut task = Task::new(receiver.recv_source());
                        match task.poll() {
                            Some(received) => received.map_err(RecvError::from),
                            None => {
                                let _ = yield_now();
                                drop(task);
                                dropped.fetch_add(1, SeqCst);
                                continue;
                            }
                        }
                    }
                    _ => {
                        if got > 10 {
                            token.cancel();
                        }
                        match token.run(|| receiver.recv()) {
                            Err(RecvError::Cancelled(_)) => {
                                cancelled.fetch_add(1, SeqCst);
                                receiver.recv()
                            }
                            received => received,
                        }
                    }
                };
                match received {
                    Ok(_) => got += 1,
                    Err(RecvError::Lagged(missed)) => {
                        lagged.fetch_add(1, SeqCst);
                        got += missed;
                    }
                    Err(_) => break,
                }
            }
            assert_eq!(got, 60, "each message was got or missed");
        });
        assert_eq!((sent.into_inner(), stays.len()), (60, 4));
        lags += lagged.into_inner();
        drops += dropped.into_inner();
        cancels += cancelled.into_inner();
    }
    println!("{lags} lags, {drops} dropped, {cancels} cancelled");
    assert!(drops > 0 && cancels > 0);
}
