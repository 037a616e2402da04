//! Contests of whole servers: each contestant is a process of its own, which a load asks at several
//! rates; a figure is a server's processor time, its throughput or its latency. Used by `bench
//! run`, beside the workloads.
//!
//! * `web` and `fib` are the contests: who takes part, and under which loads.
//! * `fib_servers` are the servers of `fib`; those of `web` are in the room `servers`.
//! * `load` asks over many connections, on a schedule that does not wait for answers, by the
//!   program `segue-load`.
//! * `field` has all contestants take turns under a load.
//! * `table` prints, `plot` draws.

mod fib;
mod fib_servers;
mod field;
mod load;
mod plot;
mod table;
mod web;

pub use fib_servers::serve as serve_fib;
pub use load::{Program, Right};

use crate::results::{self, Host, Measured, Point, Row};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The service of the servers in `fib_servers`.
pub const FIB: &str = "fib";

/// A contest.
pub struct Contest {
    /// As given on the command line.
    pub name: &'static str,
    /// One line on what is measured.
    pub timed: &'static str,
    /// The papers' figures of the same experiment, in sentences.
    papers: &'static str,
    hold: fn(&Terms) -> Result<Held, String>,
    draw: fn(&str, &[Point]) -> String,
}

/// All of them, in the order of `list`.
pub const ALL: &[Contest] = &[web::CONTEST, fib::CONTEST];

/// What the command line asks for, and what there is.
pub struct Terms {
    /// For all of a contest. A load has a shortest time that it takes whatever this is.
    pub budget: Duration,
    /// The Go program, or why there is none.
    pub go: Result<PathBuf, String>,
}

/// What a contest has seen.
#[derive(Default)]
struct Held {
    rows: Vec<Row>,
    points: Vec<Point>,
}

impl Contest {
    /// Holds it. The load's thread is bound to a processor, so it is none of the caller's.
    pub fn run(&self, terms: &Terms) -> Result<Measured, String> {
        println!("\n{}: {}\n{}", self.name, self.timed, self.papers_in_lines());
        let Held { rows, points } = std::thread::scope(|threads| {
            threads.spawn(|| (self.hold)(terms)).join().map_err(|_| format!("{} has panicked", self.name))?
        })?;
        table::print_rows(&rows);
        let (workload, commit) = (self.name.to_owned(), results::commit());
        Ok(Measured { workload, commit, budget: terms.budget.as_secs_f64(), rows, points })
    }

    /// The papers' figures, in lines of at most 100 columns.
    pub fn papers_in_lines(&self) -> String {
        let mut lines = vec![String::new()];
        for word in self.papers.split(' ') {
            let line = lines.last_mut().expect("there is one");
            match line.len() {
                0 => line.push_str(word),
                had if had + 1 + word.len() <= 100 => *line += &format!(" {word}"),
                _ => lines.push(word.to_owned()),
            }
        }
        lines.join("\n")
    }

    /// The picture, as SVG, with machine, commit and date.
    pub fn picture(&self, host: &Host, date: &str, measured: &Measured) -> String {
        let Host { cpus, cpu, kernel, .. } = host;
        let head = format!("{}: {cpus} x {cpu}, {kernel}; {date}, commit {}", self.name, measured.commit);
        (self.draw)(&head, &measured.points)
    }

    /// Where the picture is kept.
    pub fn kept_picture(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/evidence").join(format!("{}.svg", self.name))
    }
}

/// The contest of this name.
pub fn find(name: &str) -> Option<&'static Contest> {
    ALL.iter().find(|contest| contest.name == name)
}
