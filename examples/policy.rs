//! A policy of one's own: a lottery. It passes the conformance suite, whose report is printed.
//!
//! Each fiber holds tickets, and who has the next turn is drawn: with twice as many tickets one
//! gets about twice as many turns, and whoever has any gets one sooner or later (Waldspurger and
//! Weihl, "Lottery scheduling", 1994).

use segue::fiber::Attribute;
use segue::sched::{self, Goes, Policy, Task, Why};
use segue::{Builder, yield_now};
use segue_conformance::{Main, Suite};
use std::cell::Cell;

/// How many tickets a fiber holds; one if it carries none.
#[derive(Clone, Copy)]
struct Tickets(u64);

impl Attribute for Tickets {
    fn to_bits(self) -> u64 {
        self.0
    }

    fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// The policy: what is ready, with its tickets.
#[derive(Default)]
struct Lottery {
    ready: Vec<(u64, Task)>,
    sold: u64,
}

impl Policy for Lottery {
    fn push(&mut self, task: Task, _why: Why) -> Goes {
        let tickets = task.attribute().map_or(1, |Tickets(tickets)| tickets.clamp(1, 1_000_000));
        self.sold += tickets;
        self.ready.push((tickets, task));
        Goes::Here
    }

    fn pop(&mut self) -> Option<Task> {
        let mut drawn = fastrand::u64(..self.sold.max(1));
        let holds = |(tickets, _): &(u64, Task)| drawn.checked_sub(*tickets).map(|rest| drawn = rest).is_none();
        let winner = self.ready.iter().position(holds)?;
        let (tickets, task) = self.ready.swap_remove(winner);
        self.sold -= tickets;
        Some(task)
    }
}

thread_local! {
    static TURNS: [Cell<u32>; 3] = const { [const { Cell::new(0) }; 3] };
}

/// Three fibers that take turns for as long as the first has any left to take, with 1, 2 and 4
/// tickets. Answers who had how many.
fn race() -> [u32; 3] {
    let runners = [0, 1, 2].map(|n| {
        let builder = Builder::new().attribute(Tickets(1 << n));
        builder.spawn(move || {
            while TURNS.with(|turns| turns[0].get() < 10_000) {
                TURNS.with(|turns| turns[n].set(turns[n].get() + 1));
                yield_now().expect("nobody cancels");
            }
        })
    });
    runners.into_iter().for_each(|runner| runner.join().expect("it ends well"));
    TURNS.with(|turns| [0, 1, 2].map(|n| turns[n].get()))
}

fn scheduler(workers: usize) -> sched::Runtime {
    sched::Runtime::new().workers(workers)
}

fn main() -> std::io::Result<()> {
    for workers in [1, 2] {
        let run = move |main: Main| scheduler(workers).run_with(Lottery::default, main).expect("it starts");
        let report = Suite::new(format!("a lottery on {workers}"), run).workers(workers).nests().rounds(1_000).run();
        println!("{report}");
        report.unwrap();
    }
    let turns = scheduler(1).run_with(Lottery::default, race)?;
    println!("turns with 1, 2 and 4 tickets: {turns:?}");
    assert!(
        (17_000..23_000).contains(&turns[1]) && (35_000..45_000).contains(&turns[2]),
        "twice and four times as many"
    );
    Ok(())
}
