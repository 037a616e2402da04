//! The contestants of a contest, which take turns under a load: a server starts, is asked, and
//! ends, round after round, so that a disturbance of the machine meets all alike. Used by `web` and
//! `fib`.

use super::load::{Load, Program};
use crate::results::{Point, QUANTILES, Row};
use crate::rounds::min_median_max;
use crate::servers::Process;
use std::path::PathBuf;
use std::time::Duration;

/// Those who take part.
pub struct Field {
    /// The service of their servers.
    pub service: &'static str,
    /// Their names, in the order of the first round.
    pub who: Vec<&'static str>,
    /// The Go program, or why there is none.
    pub go: Result<PathBuf, String>,
    /// The load.
    pub program: Program,
}

/// A load for all.
pub struct Step<'a> {
    /// Its name in tables and files.
    pub profile: String,
    /// On how many processors each server is.
    pub processors: usize,
    /// How often each contestant has its turn.
    pub rounds: usize,
    /// What is asked.
    pub load: Load<'a>,
}

/// One turn.
#[derive(Clone, Copy)]
pub struct Sample {
    served: f64,
    failed: u64,
    cpu: f64,
    busy: f64,
    memory: f64,
    latency: [f64; QUANTILES.len()],
}

/// All turns of a contestant under a load.
pub struct Turns {
    /// Its name.
    pub who: &'static str,
    /// What was offered.
    pub offered: Option<f64>,
    samples: Vec<Sample>,
}

/// Why a turn has no figures.
enum Fault {
    /// There is no server.
    Server(String),
    /// The server does not answer as it should.
    Load(String),
}

impl Field {
    /// Has all take turns. `rate` says how many requests a second a contestant is offered. A
    /// contestant with a fault is told, and left out; for good, if there is no server.
    pub fn turns(&mut self, step: &Step<'_>, rate: impl Fn(&str) -> Option<f64>) -> Vec<Turns> {
        let mut all: Vec<_> =
            self.who.iter().map(|who| Turns { who, offered: rate(who), samples: Vec::new() }).collect();
        for _ in 0..step.rounds {
            all.retain_mut(|turns| match self.turn(turns.who, step, turns.offered) {
                Ok(sample) => {
                    turns.samples.push(sample);
                    true
                }
                Err(Fault::Server(why)) => {
                    println!("  {} does not take part: {why}", turns.who);
                    self.who.retain(|who| *who != turns.who);
                    false
                }
                Err(Fault::Load(why)) => {
                    println!("  {}: {} is left out: {why}", step.profile, turns.who);
                    false
                }
            });
            // The first of a round is the last of the next one.
            if !all.is_empty() {
                all.rotate_left(1);
            }
        }
        let place = |turns: &Turns| self.who.iter().position(|who| *who == turns.who);
        all.sort_by_key(place);
        all
    }

    fn turn(&self, who: &str, step: &Step<'_>, rate: Option<f64>) -> Result<Sample, Fault> {
        let go = who.starts_with("Go").then(|| self.go.clone()).transpose();
        let server = go.and_then(|go| Process::launch(self.service, who, go, step.processors));
        let server = server.map_err(Fault::Server)?;
        self.program.warm(server.address, &step.load, rate).map_err(Fault::Load)?;
        let before = server.time_so_far();
        let seen = self.program.ask(server.address, &step.load, rate).map_err(Fault::Load)?;
        let used = server.time_so_far().saturating_sub(before).max(Duration::from_nanos(1)).as_secs_f64();
        Ok(Sample {
            served: seen.served,
            failed: seen.failed,
            cpu: used * 1e9 / seen.answers as f64,
            busy: used / seen.seconds,
            memory: server.most_memory(),
            latency: seen.latency,
        })
    }
}

impl Turns {
    fn figures(&self, of: impl Fn(&Sample) -> f64) -> [f64; 3] {
        min_median_max(self.samples.iter().map(of).collect())
    }

    /// The medians.
    pub fn point(&self, step: &Step<'_>) -> Point {
        let median = |of: &dyn Fn(&Sample) -> f64| self.figures(of)[1];
        Point {
            who: self.who.to_owned(),
            profile: step.profile.clone(),
            processors: step.processors,
            offered: self.offered,
            served: median(&|sample| sample.served),
            failed: self.samples.iter().map(|sample| sample.failed).sum(),
            cpu: median(&|sample| sample.cpu),
            busy: median(&|sample| sample.busy),
            memory: median(&|sample| sample.memory),
            latency: std::array::from_fn(|place| median(&|sample| sample.latency[place])),
            runs: self.samples.len(),
        }
    }

    fn row(&self, contest: &str, variant: String, unit: &str, of: impl Fn(&Sample) -> f64) -> Row {
        let [min, median, max] = self.figures(of);
        Row {
            workload: contest.to_owned(),
            who: self.who.to_owned(),
            variant,
            unit: unit.to_owned(),
            min,
            median,
            max,
            runs: self.samples.len(),
            busy: Some(self.figures(|sample| sample.busy)[1]),
            migrations: None,
            calls: None,
            against: None,
            busiest: None,
        }
    }
}

/// A figure of all contestants, as rows, the best median first.
pub fn rows(contest: &str, variant: &str, figure: Figure, all: &[Turns]) -> Vec<Row> {
    let variant = |name: &str| format!("{variant}: {name}");
    let mut rows: Vec<_> = match figure {
        Figure::Cpu => {
            let unit = "ns of CPU time per request";
            all.iter().map(|turns| turns.row(contest, variant("CPU"), unit, |sample| sample.cpu)).collect()
        }
        Figure::Wall => {
            let (name, unit) = (variant("throughput"), "ns of wall time per request");
            all.iter().map(|turns| turns.row(contest, name.clone(), unit, |sample| 1e9 / sample.served)).collect()
        }
        Figure::Memory => {
            let unit = "bytes of memory at most";
            all.iter()
                .map(|turns| turns.row(contest, variant("memory"), unit, |sample| sample.memory.max(1.0)))
                .collect()
        }
        Figure::P99 => {
            let (name, unit) = (variant("p99"), "ns, 99th percentile of the latency");
            all.iter()
                .map(|turns| turns.row(contest, name.clone(), unit, |sample| sample.latency[2].max(1.0)))
                .collect()
        }
    };
    rows.sort_by(|a, b| a.median.total_cmp(&b.median));
    rows
}

/// What a row is about.
#[derive(Clone, Copy)]
pub enum Figure {
    /// The server's processor time for an answer.
    Cpu,
    /// The time from one answer to the next.
    Wall,
    /// The most memory that the server has had.
    Memory,
    /// The latency that 99 of 100 answers keep.
    P99,
}
