//! A fiber that does the work of a workflow engine's activity.
//!
//! An activity is a function that an engine calls for a workflow: it sends heartbeats, so that the
//! engine knows that its worker lives; it is told of a cancellation; it is retried. Here that is a
//! job in straight-line code. The worker sends the heartbeats, whatever the function does. The
//! cancellation arrives at the next wait, and cleanup under a shield undoes what was done. A step
//! that may fail is retried in a loop, the whole by the engine after a panic, and a payment has the
//! id of its job as the key by which the bank knows a repetition.
//!
//! The simulation's time makes hours of it short, and exact.

use segue::testing::Sim;
use segue::{Cancelled, now, sleep, timeout};
use segue_remote::{Options, Pool, RemoteError, SubmitOptions, current, job};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// The world: a hotel that often does not answer, a bank, and what each has.
static ROOMS: AtomicU32 = AtomicU32::new(0);
static CALLS: AtomicU32 = AtomicU32::new(0);
static PAID: LazyLock<Mutex<HashMap<String, u64>>> = LazyLock::new(Mutex::default);

/// Two of three calls of the hotel have no answer.
fn reserve_room() -> Result<u32, Cancelled> {
    if CALLS.fetch_add(1, Ordering::SeqCst) % 3 < 2 {
        sleep(Duration::MAX)?;
    }
    sleep(Duration::from_secs(2))?;
    Ok(ROOMS.fetch_add(1, Ordering::SeqCst) + 1)
}

fn give_room_back() -> Result<(), Cancelled> {
    sleep(Duration::from_secs(1))?;
    ROOMS.fetch_sub(1, Ordering::SeqCst);
    Ok(())
}

/// A payment with a key that the bank has seen is the one that it has seen.
fn pay(key: String, cents: u64) {
    PAID.lock().unwrap().entry(key).or_insert(cents);
}

/// Books a trip: a room, a payment, and a confirmation that takes its time.
#[job]
fn book_trip(cents: u64, confirmation: Duration) -> Result<u32, Cancelled> {
    let here = current().expect("it is a job");
    // A step with its own time limit and retries, at growing intervals.
    let mut pause = Duration::from_secs(1);
    let room = loop {
        match timeout(Duration::from_secs(10), reserve_room) {
            Ok(room) => break room,
            Err(cancelled) if cancelled.timed_out() => sleep(pause)?,
            Err(cancelled) => return Err(cancelled),
        }
        pause *= 2;
    };
    pay(here.id, cents);
    // The payment is there: a crash after it is repaired by the next attempt, which pays no more.
    if here.attempt == 1 {
        _ = segue::shield(give_room_back);
        panic!("planted: the process has died here");
    }
    // Longer than any ack wait; a cancellation gives back what this has.
    if let Err(cancelled) = sleep(confirmation) {
        _ = segue::shield(give_room_back);
        return Err(cancelled);
    }
    Ok(room)
}

fn main() {
    let ended = Sim::new(1).run(|| {
        let pool = Pool::local_here(Options::new("trips").ack_wait(MINUTE).log(|line| println!("{line}")));

        // Retried after a panic, and longer than the ack wait: one room, one payment.
        let began = now();
        let trip = pool.submit(BookTrip { cents: 90_000, confirmation: 60 * MINUTE });
        assert_eq!(trip.take(), Ok(Ok(1)));
        println!("booked after {:?}", now() - began);
        assert!(now() - began > 60 * MINUTE);
        assert_eq!(PAID.lock().unwrap().len(), 1);

        // Cancelled while it waits for its confirmation: the room is given back.
        let trip = pool.submit(BookTrip { cents: 50_000, confirmation: 60 * MINUTE });
        sleep(30 * MINUTE).unwrap();
        assert_eq!(ROOMS.load(Ordering::SeqCst), 2);
        drop(trip);
        sleep(MINUTE).unwrap();
        assert_eq!(ROOMS.load(Ordering::SeqCst), 1);

        // Its time is over.
        let limit = SubmitOptions::new().limit(10 * MINUTE);
        let trip = pool.submit_with(BookTrip { cents: 70_000, confirmation: 60 * MINUTE }, limit);
        assert_eq!(trip.take(), Ok(Err(RemoteError::TimedOut)));
        sleep(MINUTE).unwrap();
        assert_eq!(ROOMS.load(Ordering::SeqCst), 1);
    });
    ended.expect("no deadlock");
}
