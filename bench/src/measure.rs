//! What a measurement is: the clocks, a contestant, a variant, a workload.
//! Every file under `workloads/` builds these; `rounds.rs` runs them.
//!
//! A contestant is a closure that is asked for about `n` operations. It sets up whatever it needs
//! (a runtime, a pool, its fibers), starts a [`Stopwatch`], works, stops it with the number of
//! operations that really happened, and tears down again. Set-up and tear-down are therefore never
//! timed.

use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::DirEntry;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The name under which Segue's own entry runs. Where it has several, the others' names begin with
/// this and a comma. Everybody else is a rival.
pub const SEGUE: &str = "segue";

/// Whether this is the name of an entry of Segue's.
pub fn is_segue(who: &str) -> bool {
    who.strip_prefix(SEGUE).is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
}

static SMOKE: AtomicBool = AtomicBool::new(false);

/// Whether the run is only to show that everything runs. Workloads with much data then make less of
/// it.
pub fn smoke() -> bool {
    SMOKE.load(Relaxed)
}

/// Says so, before any variant is built.
pub fn set_smoke() {
    SMOKE.store(true, Relaxed);
}

/// One round of one contestant: how much was done and what it took.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Operations done between start and stop.
    pub ops: u64,
    /// Elapsed time.
    pub wall: Duration,
    /// CPU time of the whole process, all threads.
    pub cpu: Duration,
    /// How many times its share the worker had that had the most, in workloads that are about that.
    pub busiest: Option<f64>,
    /// How often the kernel moved a thread to another CPU, where it tells.
    pub migrations: Option<u64>,
    /// System calls for an operation, where they were counted.
    pub calls: Option<f64>,
}

impl Span {
    /// How many CPUs were busy on average.
    pub fn cpus_busy(&self) -> f64 {
        self.cpu.as_secs_f64() / self.wall.as_secs_f64().max(1e-9)
    }

    /// How often a second the kernel moved a thread to another CPU.
    pub fn migrations_a_second(&self) -> Option<f64> {
        Some(self.migrations? as f64 / self.wall.as_secs_f64().max(1e-9))
    }

    /// A measurement of memory, for a variant [in bytes](Variant::in_bytes): they stand in the
    /// place of the processor time.
    pub fn of_bytes(ops: u64, bytes: u64, wall: Duration) -> Self {
        Self { ops, wall, cpu: Duration::from_nanos(bytes), busiest: None, migrations: None, calls: None }
    }

    /// Both together.
    pub fn and(self, other: Self) -> Self {
        let busiest = self.busiest.into_iter().chain(other.busiest).reduce(f64::max);
        let migrations = self.migrations.zip(other.migrations).map(|(one, other)| one + other);
        let (ops, wall, cpu) = (self.ops + other.ops, self.wall + other.wall, self.cpu + other.cpu);
        Self { ops, wall, cpu, busiest, migrations, calls: self.calls.or(other.calls) }
    }

    /// With what each worker had.
    pub fn with_shares(self, shares: &[f64]) -> Self {
        let all: f64 = shares.iter().sum();
        let most = shares.iter().copied().fold(0.0, f64::max);
        Self { busiest: Some(most * shares.len() as f64 / all.max(f64::MIN_POSITIVE)), ..self }
    }
}

/// A running measurement.
pub struct Stopwatch {
    wall: Instant,
    cpu: Duration,
    migrations: Option<BTreeMap<OsString, u64>>,
}

impl Stopwatch {
    /// Starts both clocks.
    pub fn start() -> Self {
        let migrations = migrations();
        let cpu = process_cpu_time();
        Self { migrations, cpu, wall: Instant::now() }
    }

    /// Stops both clocks, after `ops` operations.
    pub fn stop(self, ops: u64) -> Span {
        let wall = self.wall.elapsed();
        let cpu = process_cpu_time() - self.cpu;
        let before = self.migrations.unwrap_or_default();
        let since = |(thread, now)| now - before.get(&thread).copied().unwrap_or(0);
        let migrations = migrations().map(|now| now.into_iter().map(since).sum());
        Span { ops, wall, cpu, busiest: None, migrations, calls: None }
    }
}

/// How often the kernel has moved each thread of this process so far. None where it does not tell.
fn migrations() -> Option<BTreeMap<OsString, u64>> {
    let of = |thread: DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("sched")).ok()?;
        let line = text.lines().find(|line| line.starts_with("se.nr_migrations"))?;
        Some((thread.file_name(), line.split_whitespace().last()?.parse().ok()?))
    };
    let all: BTreeMap<_, _> = std::fs::read_dir("/proc/self/task").ok()?.flatten().filter_map(of).collect();
    (!all.is_empty()).then_some(all)
}

fn process_cpu_time() -> Duration {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// Runs about that many operations; the error says why it could not.
pub type Run = Box<dyn FnMut(u64) -> Result<Span, String>>;

/// Where a contestant's code runs.
pub enum Place {
    /// In this process.
    Here(Run),
    /// In a child process of this program: for a library that starts threads which never end, or
    /// that can be configured only once.
    Apart(Run),
    /// The same, for a run that asks a server in the Go program, which is [`child::go_program`].
    ///
    /// [`child::go_program`]: crate::child::go_program
    ApartFromGo(Run),
    /// In the Go program, which gets the workload's name and these arguments.
    Go(Vec<String>),
    /// In the OCaml program, likewise.
    OCaml(Vec<String>),
    /// In the Haskell program, likewise.
    Ghc(Vec<String>),
}

/// Somebody who can do a variant's work.
pub struct Contestant {
    /// [`SEGUE`] or the rival's name.
    pub who: &'static str,
    /// Where and how it runs.
    pub place: Place,
}

/// One piece of work that all its contestants do alike.
pub struct Variant {
    /// What distinguishes it within its workload; the same for all contestants.
    pub name: String,
    /// The singular of what one operation is.
    pub op: &'static str,
    /// How many workers may run it. One: CPU time counts. More: wall time counts.
    pub workers: usize,
    /// Whether it is compared with the nearest variant before it that is not: both are then
    /// measured in turns, and each contestant's figure is also told against its own figure there.
    pub compared: bool,
    /// Whether the figures are bytes, and not times.
    pub bytes: bool,
    /// Whether a server is measured that another process asks: then how busy it was is told.
    pub served: bool,
    /// Who takes part.
    pub contestants: Vec<Contestant>,
    /// Who does not take part, and why.
    pub absent: Vec<(&'static str, &'static str)>,
}

impl Variant {
    /// A variant without contestants. An operation is one `op`.
    pub fn new(name: impl Into<String>, op: &'static str, workers: usize) -> Self {
        Self {
            name: name.into(),
            op,
            workers,
            compared: false,
            bytes: false,
            served: false,
            contestants: Vec::new(),
            absent: Vec::new(),
        }
    }

    /// Has it [compared](Self::compared) with the first variant of its group.
    pub fn against_first(mut self) -> Self {
        self.compared = true;
        self
    }

    /// Has its contestants measure memory: see [`Span::of_bytes`].
    pub fn in_bytes(mut self) -> Self {
        self.bytes = true;
        self
    }

    /// Has it tell how busy the contestants were: servers, of whose processor time a span has
    /// nothing else.
    pub fn served(mut self) -> Self {
        self.served = true;
        self
    }

    /// Whether a row has a number of busy processors.
    pub fn tells_busy(&self) -> bool {
        self.served || self.workers > 1
    }

    /// Adds a contestant that runs in this process.
    pub fn add(mut self, who: &'static str, mut run: impl FnMut(u64) -> Span + 'static) -> Self {
        let place = Place::Here(Box::new(move |n| Ok(run(n))));
        self.contestants.push(Contestant { who, place });
        self
    }

    /// Adds a contestant that runs in a child process of this program.
    pub fn add_apart(mut self, who: &'static str, mut run: impl FnMut(u64) -> Span + 'static) -> Self {
        let place = Place::Apart(Box::new(move |n| Ok(run(n))));
        self.contestants.push(Contestant { who, place });
        self
    }

    /// Adds a contestant that asks a server from a child process of this program. `Go` is the
    /// server in the Go program.
    pub fn add_client(mut self, who: &'static str, run: impl FnMut(u64) -> Result<Span, String> + 'static) -> Self {
        let place = if who == "Go" { Place::ApartFromGo } else { Place::Apart };
        self.contestants.push(Contestant { who, place: place(Box::new(run)) });
        self
    }

    /// Adds the Go program's function for this workload.
    pub fn add_go(mut self, args: &[&str]) -> Self {
        let place = Place::Go(args.iter().map(|a| a.to_string()).collect());
        self.contestants.push(Contestant { who: "Go", place });
        self
    }

    /// Adds the OCaml program's function for this workload.
    pub fn add_ocaml(mut self, args: &[&str]) -> Self {
        let place = Place::OCaml(args.iter().map(|a| a.to_string()).collect());
        self.contestants.push(Contestant { who: "OCaml", place });
        self
    }

    /// Adds the Haskell program's function for this workload.
    pub fn add_ghc(mut self, args: &[&str]) -> Self {
        let place = Place::Ghc(args.iter().map(|a| a.to_string()).collect());
        self.contestants.push(Contestant { who: "GHC", place });
        self
    }

    /// Says why somebody whom a reader would expect here is missing.
    pub fn absent(mut self, who: &'static str, why: &'static str) -> Self {
        self.absent.push((who, why));
        self
    }

    /// The unit of the figures.
    pub fn unit(&self) -> String {
        if self.bytes {
            return format!("bytes per {}", self.op);
        }
        let clock = if self.workers == 1 { "CPU" } else { "wall" };
        format!("ns of {clock} time per {}", self.op)
    }

    /// The figure that counts, in [`unit`](Self::unit)s.
    pub fn figure(&self, span: &Span) -> f64 {
        let time = if self.workers == 1 { span.cpu } else { span.wall };
        time.as_secs_f64() * 1e9 / span.ops as f64
    }
}

/// A file under `workloads/`.
pub struct Workload {
    /// As given on the command line.
    pub name: &'static str,
    /// One line on what is timed.
    pub timed: &'static str,
    /// Builds the variants. Must be cheap: contestants start their runtimes when they run.
    pub variants: fn() -> Vec<Variant>,
}
