//! `bench soak`: a Segue server that many connections ask for a long time, some of them slow, some
//! hostile, and whether it stays as it was. Server and clients are two processes, as each may have
//! only so many descriptors; a sample is what the kernel says of the server's.
//!
//! It fails
//!
//! * if memory, or descriptors beyond the one that each connection's fiber has, are not *flat*:
//!   after a warm-up, the first third of the time, the median of the last third may exceed that of
//!   the middle one by a twentieth, and by a little more, which is as much as a short run wavers.
//!   How many connections there are is up to the clients, and goes up and down;
//! * if descriptors or fibers are left when all clients have gone: so a fiber that stays with its
//!   connection is found;
//! * if a client that behaves is not served.
//!
//! It always ends: a client's waits have time-outs, and clients that do not end are an error.

mod clients;
mod plot;
mod restarts;
mod server;

use clients::{Load, Tally};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

pub use restarts::Restarts;
pub use server::serve;

/// How long a client may keep the server waiting, for a head or in a write.
const LIMIT: Duration = Duration::from_secs(2);
/// What the HTTP server answers.
const ANSWER: &str = "a hundred bytes or so, which end where the last full stop stands: \
                      they fit into a single packet.";
/// In this time after the load's end all clients have ended, and the server has noticed.
const AFTER: Duration = Duration::from_secs(60);
/// Samples of a run.
const SAMPLES: u32 = 120;
/// By how much memory may waver, in bytes.
const MEMORY: f64 = 2.0 * 1024.0 * 1024.0;

/// What to do.
pub struct Soak {
    /// For how long.
    pub time: Duration,
    /// How many connections at a time.
    pub connections: usize,
    /// The middle of the pauses between two requests of a connection.
    pub pause: Duration,
    /// Where the samples go and where their picture does.
    pub files: Option<[PathBuf; 2]>,
}

impl Soak {
    /// So many connections for so many minutes.
    pub fn long(minutes: f64, connections: usize) -> Self {
        Self { time: Duration::from_secs_f64(60.0 * minutes), connections, pause: Duration::from_secs(1), files: None }
    }

    /// Twenty seconds.
    pub fn short() -> Self {
        let (time, pause) = (Duration::from_secs(20), Duration::from_millis(100));
        Self { time, connections: 500, pause, files: None }
    }

    /// The files of the repository: results, and the picture on the page.
    pub fn kept() -> [PathBuf; 2] {
        [crate::results::directory().join("soak").join("samples.csv"), picture()]
    }

    /// Runs it.
    pub fn run(self) -> Result<(), String> {
        let may_have = crate::servers::allow_descriptors();
        if may_have < self.connections as u64 + 100 {
            return Err(format!("a process may have {may_have} descriptors here"));
        }
        let mut server = Server::start(&["soak", "--server"])?;
        let began = Instant::now();
        let before = server.sample(began)?;
        let tally = Arc::new(Tally::default());
        let (http, echo) = (server.http, server.echo);
        let until = began + self.time;
        let load = Load { http, echo, connections: self.connections, pause: self.pause, until };
        let (end, ended) = mpsc::channel();
        let clients = Arc::clone(&tally);
        std::thread::spawn(move || end.send(load.run(&clients)));

        let mut samples = Vec::new();
        while Instant::now() < until {
            std::thread::sleep(self.time / SAMPLES);
            samples.push(server.sample(began)?);
        }
        let ended = ended.recv_timeout(AFTER).map_err(|_| "clients that do not end")?;
        ended.map_err(|error| format!("the clients: {error}"))?;
        let after = server.when_idle(began, &before)?;

        if let Some([csv, svg]) = &self.files {
            let head = "seconds,resident bytes,descriptors,fibers,answers\n".to_owned();
            let rows = samples.iter().fold(head, |text, sample| text + &sample.row());
            write(csv, &rows)?;
            write(svg, &plot::picture(&samples))?;
        }
        report(&before, &samples, &after, &tally)
    }
}

/// The picture on the page.
pub fn picture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/evidence/soak.svg")
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    let directory = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    directory.and_then(|()| std::fs::write(file, text)).map_err(|e| format!("{}: {e}", file.display()))
}

/// The server at one time.
#[derive(Clone, Copy, Default)]
struct Sample {
    seconds: f64,
    resident: u64,
    descriptors: u64,
    fibers: u64,
    answers: u64,
}

impl Sample {
    fn row(&self) -> String {
        let Self { seconds, resident, descriptors, fibers, answers } = self;
        format!("{seconds:.1},{resident},{descriptors},{fibers},{answers}\n")
    }
}

/// Says what was seen, and what of it must not be.
fn report(before: &Sample, samples: &[Sample], after: &Sample, tally: &Tally) -> Result<(), String> {
    let [served, failed, hostile] = [&tally.served, &tally.failed, &tally.hostile].map(|count| count.load(Relaxed));
    println!("connections: {served} served, {hostile} hostile, {failed} not served; {} answers", after.answers);
    let mut faults = String::new();
    for (what, of, slack) in QUANTITIES {
        let [middle, last] = medians(samples, of);
        let flat = is_flat(middle, last, slack);
        println!("{what}: {middle:.0}, then {last:.0}: {}", if flat { "flat" } else { "not flat" });
        if !flat {
            let _ = write!(faults, "{what} are not flat; ");
        }
    }
    if after.descriptors > before.descriptors || after.fibers > 0 {
        let more = after.descriptors.saturating_sub(before.descriptors);
        let _ = write!(faults, "{more} descriptors and {} fibers are left; ", after.fibers);
    }
    if failed > 0 || served == 0 {
        let _ = write!(faults, "{failed} clients were not served, {served} were; ");
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.trim_end_matches("; ").to_owned()) }
}

type Quantity = (&'static str, fn(&Sample) -> f64, f64);

/// What has to be flat, with the slack that it has beside the twentieth.
const QUANTITIES: [Quantity; 2] = [
    ("resident bytes", |sample| sample.resident as f64, MEMORY),
    ("descriptors of no fiber", |sample| sample.descriptors.saturating_sub(sample.fibers) as f64, 20.0),
];

/// Of the middle third and of the last one.
fn medians(samples: &[Sample], of: fn(&Sample) -> f64) -> [f64; 2] {
    let third = samples.len() / 3;
    [&samples[third..2 * third], &samples[2 * third..]]
        .map(|part| crate::rounds::min_median_max(part.iter().map(of).collect())[1])
}

fn is_flat(middle: f64, last: f64, slack: f64) -> bool {
    last <= middle * 1.05 + slack
}

/// The server's process.
struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    http: SocketAddr,
    echo: SocketAddr,
}

impl Server {
    fn start(arguments: &[&str]) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("the server does not start: {e}"))?;
        let input = child.stdin.take().expect("its input is a pipe");
        let mut output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let [http, echo] = pair(&mut output)?;
        Ok(Self { child, input, output, http, echo })
    }

    fn sample(&mut self, began: Instant) -> Result<Sample, String> {
        writeln!(self.input).map_err(|e| format!("the server is gone: {e}"))?;
        let [fibers, answers] = pair(&mut self.output)?;
        let process = format!("/proc/{}", self.child.id());
        let text = std::fs::read_to_string(format!("{process}/statm")).map_err(|e| e.to_string())?;
        let pages: u64 = text.split(' ').nth(1).and_then(|word| word.parse().ok()).ok_or("no statm")?;
        let descriptors = std::fs::read_dir(format!("{process}/fd")).map_err(|e| e.to_string())?.count() as u64;
        let resident = pages * rustix::param::page_size() as u64;
        Ok(Sample { seconds: began.elapsed().as_secs_f64(), resident, descriptors, fibers, answers })
    }

    /// When the server has as few descriptors as before and no fiber, or after a while.
    fn when_idle(&mut self, began: Instant, before: &Sample) -> Result<Sample, String> {
        let end = Instant::now() + AFTER;
        loop {
            let sample = self.sample(began)?;
            if sample.fibers == 0 && sample.descriptors <= before.descriptors || Instant::now() > end {
                return Ok(sample);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two words of a line.
fn pair<T: std::str::FromStr>(output: &mut impl BufRead) -> Result<[T; 2], String> {
    let mut line = String::new();
    output.read_line(&mut line).map_err(|e| format!("the server is gone: {e}"))?;
    let words: Vec<T> = line.split_whitespace().flat_map(str::parse).collect();
    words.try_into().map_err(|_| format!("the server says {line:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(resident: impl Fn(u64) -> u64) -> Vec<Sample> {
        let sample = |i| Sample { seconds: i as f64, resident: resident(i), descriptors: 100, fibers: 90, answers: i };
        (0..120).map(sample).collect()
    }

    fn verdict(samples: &[Sample], after: Sample, failed: u64) -> Result<(), String> {
        let tally = Tally { served: 1.into(), failed: failed.into(), ..Tally::default() };
        report(&Sample { descriptors: 10, ..Sample::default() }, samples, &after, &tally)
    }

    #[test]
    fn what_grows_only_in_the_warm_up_is_flat() {
        let idle = Sample { descriptors: 10, ..Sample::default() };
        let wavering = samples(|i| (i.min(39) << 20) + (i % 7) * 10_000);
        assert_eq!(verdict(&wavering, idle, 0), Ok(()));
        // Planted: a leak, of less than a megabyte between two samples.
        let leak = verdict(&samples(|i| (100 << 20) + i * 250_000), idle, 0);
        assert_eq!(leak, Err("resident bytes are not flat".to_owned()));
        // And descriptors of connections whose fibers have ended.
        let mut leak = samples(|_| 1 << 20);
        leak.iter_mut().for_each(|sample| sample.fibers -= sample.seconds as u64 * 3 / 4);
        assert_eq!(verdict(&leak, idle, 0), Err("descriptors of no fiber are not flat".to_owned()));
    }

    #[test]
    fn what_is_left_behind_and_who_was_not_served_are_faults() {
        let flat = samples(|_| 1 << 20);
        let left = verdict(&flat, Sample { descriptors: 11, ..Sample::default() }, 0);
        assert_eq!(left, Err("1 descriptors and 0 fibers are left".to_owned()));
        let not_served = verdict(&flat, Sample::default(), 2);
        assert_eq!(not_served, Err("2 clients were not served, 1 were".to_owned()));
    }
}
