//! The race of addresses in virtual time: head starts, failures, cancellation. Part of
//! `net/race.rs`.

use super::*;
use io::ErrorKind::{ConnectionRefused, InvalidInput, NetworkUnreachable, TimedOut};
use segue_core::{Waitable, after, timeout};
use segue_sched::Sim;
use std::cell::RefCell;
use std::rc::Rc;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// The fate of an attempt: after so long, this.
#[derive(Clone, Copy)]
enum Fate {
    Answers(u64, Result<u32, io::ErrorKind>),
    FailsAtOnce(io::ErrorKind),
}
use Fate::{Answers, FailsAtOnce};

/// Notes its own drop, where a socket would be closed.
struct Open(usize, Rc<RefCell<Vec<usize>>>);

impl Drop for Open {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0);
    }
}

/// The outcome of a race, its time, the beginning of each attempt, and the order in which they
/// were dropped. In virtual time.
#[derive(Debug)]
struct Course {
    end: Result<u32, io::ErrorKind>,
    took: Duration,
    begun: Vec<Duration>,
    closed: Vec<usize>,
}

fn run(fates: &[Fate]) -> Course {
    let start = now();
    let (begun, closed) = (RefCell::new(Vec::new()), Rc::default());
    let begin = |(index, fate): (usize, &Fate)| {
        begun.borrow_mut().push(now() - start);
        match *fate {
            FailsAtOnce(kind) => Err(kind.into()),
            Answers(time, end) => {
                let open = Open(index, Rc::clone(&closed));
                let ended = after(MS(time)).map(move |()| {
                    let _ = &open;
                    end.map_err(io::Error::from)
                });
                Ok(Waitable::into_source(ended))
            }
        }
    };
    let end = first(fates.iter().enumerate(), HEAD_START, begin).map_err(|error| error.kind());
    let took = now() - start;
    Course { end, took, begun: begun.into_inner(), closed: closed.take() }
}

fn simulated(fates: &[Fate]) -> Course {
    Sim::new(7).run(|| run(fates)).unwrap()
}

#[test]
fn the_first_address_has_a_head_start() {
    let ran = simulated(&[Answers(249, Ok(1)), Answers(0, Ok(2))]);
    assert_eq!((ran.end, ran.took, ran.begun), (Ok(1), MS(249), vec![MS(0)]));
}

#[test]
fn an_answer_when_the_head_start_is_over_begins_no_other_attempt() {
    let ran = simulated(&[Answers(250, Ok(1)), Answers(0, Ok(2))]);
    assert_eq!((ran.end, ran.begun), (Ok(1), vec![MS(0)]));
}

#[test]
fn an_address_that_does_not_answer_costs_its_head_start_alone() {
    let never = Answers(1_000_000, Err(TimedOut));
    let ran = simulated(&[never, never, Answers(30, Ok(3)), Answers(0, Ok(4))]);
    assert_eq!((ran.end, ran.took), (Ok(3), MS(530)));
    assert_eq!(ran.begun, [MS(0), MS(250), MS(500)]);
    assert_eq!(ran.closed, [0, 1, 2], "an attempt is still open");
}

#[test]
fn one_that_is_slow_still_wins_against_one_that_is_slower() {
    let ran = simulated(&[Answers(400, Ok(1)), Answers(900, Ok(2))]);
    assert_eq!((ran.end, ran.took, ran.begun), (Ok(1), MS(400), vec![MS(0), MS(250)]));
}

#[test]
fn a_failure_has_the_next_one_begin_at_once() {
    let ran = simulated(&[Answers(10, Err(ConnectionRefused)), FailsAtOnce(TimedOut), Answers(5, Ok(3))]);
    assert_eq!((ran.end, ran.took, ran.begun), (Ok(3), MS(15), vec![MS(0), MS(10), MS(10)]));
}

#[test]
fn a_failure_of_an_older_attempt_has_the_next_one_begin_too() {
    let fates = [Answers(300, Err(ConnectionRefused)), Answers(900, Ok(2)), Answers(5, Ok(3))];
    let ran = simulated(&fates);
    assert_eq!((ran.end, ran.took, ran.begun), (Ok(3), MS(305), vec![MS(0), MS(250), MS(300)]));
}

#[test]
fn the_last_error_counts_unless_it_is_about_this_machine() {
    let (refused, nowhere) = (Answers(1, Err(ConnectionRefused)), FailsAtOnce(NetworkUnreachable));
    assert_eq!(simulated(&[refused, nowhere]).end, Err(ConnectionRefused));
    assert_eq!(simulated(&[nowhere, refused]).end, Err(ConnectionRefused));
    assert_eq!(simulated(&[refused, Answers(1, Err(TimedOut))]).end, Err(TimedOut));
    assert_eq!(simulated(&[nowhere, nowhere]).end, Err(NetworkUnreachable));
    assert_eq!(simulated(&[]).end, Err(InvalidInput));
}

#[test]
fn a_cancellation_ends_the_race_and_closes_all() {
    let closed = Sim::new(1).run(|| {
        let closed = Rc::new(RefCell::new(Vec::new()));
        let begin = |index| {
            let open = Open(index, Rc::clone(&closed));
            Ok(after(MS(1_000_000)).map(move |()| Ok(open.0)).into_source())
        };
        let start = now();
        let ended = timeout(MS(600), || first(0..9, HEAD_START, begin));
        assert!(Cancelled::caused(&ended.unwrap_err()));
        assert_eq!(now() - start, MS(600));
        closed.take()
    });
    assert_eq!(closed.unwrap(), [0, 1, 2]);
}

#[test]
fn a_plain_thread_races_as_well() {
    let ran = run(&[Answers(1_000_000, Ok(1)), FailsAtOnce(TimedOut), Answers(1, Ok(3))]);
    assert_eq!(ran.end, Ok(3));
    assert!(ran.took >= HEAD_START);
}

#[test]
fn families_take_turns_in_the_order_that_they_came_in() {
    let row = |text: &str| -> Vec<String> {
        let addrs = text.split(' ').map(|addr| addr.parse().unwrap());
        interleaved(addrs).iter().map(SocketAddr::to_string).collect()
    };
    let mixed = row("[::1]:1 [::1]:2 [::1]:3 1.1.1.1:1 1.1.1.1:2");
    assert_eq!(mixed, ["[::1]:1", "1.1.1.1:1", "[::1]:2", "1.1.1.1:2", "[::1]:3"]);
    assert_eq!(row("1.1.1.1:1 1.1.1.1:2 [::1]:3"), ["1.1.1.1:1", "[::1]:3", "1.1.1.1:2"]);
    assert!(interleaved([]).is_empty());
}
