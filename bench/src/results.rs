//! Results as they are kept: what was measured where, by which commit, in `results/` and
//! `results/versus/`, a JSON file for each processor and date. Written by `run` and `versus`, read
//! by `page`.

use crate::compiled::Rivals;
use crate::servers::nginx_version;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Crates whose versions a report names: all whose code is timed.
const RIVALS: &[&str] = &[
    "actix-files",
    "actix-web",
    "actix-ws",
    "async-channel",
    "async-executor",
    "async-lock",
    "async-stm",
    "axum",
    "axum-server",
    "chili",
    "compio",
    "corosensei",
    "crossbeam-channel",
    "crossfire",
    "csv",
    "fast-stm",
    "flume",
    "futures-util",
    "genawaiter",
    "generator",
    "httparse",
    "hyper",
    "io-uring",
    "kanal",
    "may",
    "may_minihttp",
    "monoio",
    "nom",
    "oneshot",
    "parking_lot",
    "png",
    "pollster",
    "quick-xml",
    "rayon",
    "rustls",
    "serde_json",
    "smol",
    "stm",
    "tar",
    "tokio",
    "tokio-uring",
    "tower-http",
    "winnow",
    "zip",
];

/// What figures depend on.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// How many processors.
    pub cpus: usize,
    /// What they call themselves.
    pub cpu: String,
    /// The operating system and its version.
    pub kernel: String,
    /// The compiler of this program.
    pub rustc: String,
    /// The compilers of the rivals in other languages that took part, and nginx, where that is
    /// installed.
    pub compilers: Vec<String>,
    /// `name version` of each rival that is a crate.
    pub rivals: Vec<String>,
}

impl Host {
    /// This machine.
    pub fn this(rivals: Option<&Rivals>) -> Self {
        let uname = rustix::system::uname();
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let compilers = rivals.map(|rivals| [("go", &rivals.go), ("ocaml", &rivals.ocaml), ("ghc", &rivals.ghc)]);
        Self {
            cpus: std::thread::available_parallelism().map_or(0, |n| n.get()),
            cpu: model.map_or("unknown", |(_, model)| model).to_owned(),
            kernel: format!(
                "{} {} {}",
                uname.sysname().to_string_lossy(),
                uname.release().to_string_lossy(),
                uname.machine().to_string_lossy()
            ),
            rustc: env!("BENCH_RUSTC").to_owned(),
            compilers: compilers
                .into_iter()
                .flatten()
                .filter_map(|(name, built)| built.named(name))
                .chain(rivals.and_then(|_| nginx_version()))
                .collect(),
            rivals: rival_versions(),
        }
    }

    /// The processor's name as a part of a file's name.
    fn slug(&self) -> String {
        let words = self.cpu.to_lowercase().replace("(r)", "").replace("(tm)", "");
        let words: Vec<_> = words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
        format!("{}-x{}", words.join("-"), self.cpus)
    }
}

/// From the lock file with which this program was built.
fn rival_versions() -> Vec<String> {
    let lock = include_str!("../../Cargo.lock");
    lock.split("[[package]]")
        .filter_map(|package| {
            let field = |key: &str| {
                let line = package.lines().find_map(|line| line.strip_prefix(key))?;
                Some(line.trim_start_matches(" = ").trim_matches('"'))
            };
            let name = field("name")?;
            RIVALS.contains(&name).then(|| Some(format!("{name} {}", field("version")?)))?
        })
        .collect()
}

/// One contestant's figures for one variant.
#[derive(Clone, Serialize, Deserialize)]
pub struct Row {
    /// The workload's name.
    pub workload: String,
    /// The contestant's.
    pub who: String,
    /// The variant's.
    pub variant: String,
    /// Of the figures, of which the lower are the better ones.
    pub unit: String,
    /// The best round.
    pub min: f64,
    /// The middle one.
    pub median: f64,
    /// The worst one.
    pub max: f64,
    /// How many rounds.
    pub runs: usize,
    /// How many processors were busy, where there are several workers, or a client beside a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// How often a second the kernel moved one of the threads to another processor, in all rounds,
    /// likewise. None where it does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migrations: Option<f64>,
    /// System calls for an operation, where they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<f64>,
    /// The median divided by the same contestant's in the variant with which this one is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<f64>,
    /// How many times its share the worker had that had the most: the least and the greatest round,
    /// and the median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busiest: Option<[f64; 3]>,
}

/// A workload's rows.
#[derive(Clone, Serialize, Deserialize)]
pub struct Measured {
    /// The workload's name.
    pub workload: String,
    /// What was measured.
    pub commit: String,
    /// For how many seconds.
    pub budget: f64,
    /// Variant by variant, the best median first.
    pub rows: Vec<Row>,
    /// What a contest has seen, of which the rows are a part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<Point>,
}

/// A contestant of a contest under one load: the medians of all rounds.
#[derive(Clone, Serialize, Deserialize)]
pub struct Point {
    /// The contestant's name.
    pub who: String,
    /// What kind of load.
    pub profile: String,
    /// On how many processors the server was.
    pub processors: usize,
    /// Requests a second on the schedule. None where each answer is followed by a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered: Option<f64>,
    /// Answers a second.
    pub served: f64,
    /// Requests that got a wrong answer or none, in all rounds.
    pub failed: u64,
    /// The server's processor time for an answer, in ns.
    pub cpu: f64,
    /// How many processors the server kept busy.
    pub busy: f64,
    /// The most memory that the server has had, in bytes.
    #[serde(default)]
    pub memory: f64,
    /// In ns, from the instant on the schedule, in the order of [`QUANTILES`].
    pub latency: [f64; 5],
    /// How many rounds.
    pub runs: usize,
}

/// The parts of all answers that came as fast.
pub const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 1.0];

/// A file of results: a processor and a date.
#[derive(Clone, Serialize, Deserialize)]
pub struct Results {
    /// Where.
    pub host: Host,
    /// When.
    pub date: String,
    /// What.
    pub runs: Vec<Measured>,
}

/// What is known of a run whose file is not kept: Segue's figures, and their ratios to the best
/// rivals'. In `results/summaries`.
#[derive(Clone, Deserialize)]
pub struct Summary {
    /// The processor.
    pub cpu: String,
    /// What was measured.
    pub commit: String,
    /// Variant by variant.
    pub rows: Vec<SummaryRow>,
}

/// A variant in a summary. Where it was summed up with others, a figure is the least and the
/// greatest of them all.
#[derive(Clone, Deserialize)]
pub struct SummaryRow {
    /// The workload's name.
    pub workload: String,
    /// The variant's.
    pub variant: String,
    /// Segue's median.
    pub ours: Vec<f64>,
    /// The same divided by the best rival's.
    pub ratio: Vec<f64>,
}

/// One entry of Segue's, measured in turns at two commits.
#[derive(Clone, Serialize, Deserialize)]
pub struct Pair {
    /// The workload's name.
    pub workload: String,
    /// The entry's.
    pub who: String,
    /// The variant's.
    pub variant: String,
    /// Of the figures.
    pub unit: String,
    /// Least, median and greatest at the older commit.
    pub before: [f64; 3],
    /// And at the newer one.
    pub after: [f64; 3],
    /// After over before: lower quartile, median and upper quartile of the rounds; or, in several
    /// layouts, least, median and greatest of their medians.
    pub ratio: [f64; 3],
    /// The median of the rounds in each layout of the two programs.
    #[serde(default)]
    pub by_layout: Vec<f64>,
    /// How many rounds.
    pub runs: usize,
}

/// A file of results of two commits.
#[derive(Clone, Serialize, Deserialize)]
pub struct Versus {
    /// Where.
    pub host: Host,
    /// When.
    pub date: String,
    /// The older commit.
    pub before: String,
    /// The newer one.
    pub after: String,
    /// For how many seconds for each workload.
    pub budget: f64,
    /// In the order of measuring.
    pub rows: Vec<Pair>,
}

/// The directory with the results that are kept.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results")
}

/// The commit of the sources here, marked if what is measured differs from it.
pub fn commit() -> String {
    let commit = said(Command::new("git").args(["rev-parse", "--short", "HEAD"]), "an unknown commit");
    let changes = ["diff", "--name-only", "HEAD", "--", ":/crates", ":/bench/src", ":/Cargo.lock"];
    let changed = !said(Command::new("git").args(changes), "").is_empty();
    if changed { commit + "+" } else { commit }
}

/// Today.
pub fn date() -> String {
    said(Command::new("date").args(["-u", "+%F"]), "undated")
}

fn said(command: &mut Command, otherwise: &str) -> String {
    let out = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().ok().filter(|out| out.status.success());
    out.map_or(otherwise.to_owned(), |out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

impl Results {
    /// The file in which they are kept.
    pub fn file(&self) -> PathBuf {
        directory().join(format!("{}-{}.json", self.host.slug(), self.date))
    }

    /// Adds what was measured on the same day, where it was not measured again.
    pub fn join(mut self, file: &Path) -> Result<Self, String> {
        if !file.exists() {
            return Ok(self);
        }
        let older: Self = read(file)?;
        if older.host != self.host {
            return Err(format!("{}: measured with other versions than now; move it away", file.display()));
        }
        let again: Vec<_> = self.runs.iter().map(|run| run.workload.clone()).collect();
        let kept = older.runs.into_iter().filter(|run| !again.contains(&run.workload));
        self.runs.splice(0..0, kept);
        Ok(self)
    }
}

impl Versus {
    /// The file in which they are kept.
    pub fn file(&self) -> PathBuf {
        directory().join("versus").join(format!("{}-{}-{}.json", self.host.slug(), self.date, self.before))
    }
}

/// Reads a file.
pub fn read<T: DeserializeOwned>(file: &Path) -> Result<T, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))
}

/// Reads every file of a directory, sorted by name. None if there is no such directory.
pub fn read_all<T: DeserializeOwned>(directory: &Path) -> Result<Vec<T>, String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Ok(Vec::new()) };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "json"));
    files.sort();
    files.iter().map(|file| read(file)).collect()
}

/// Writes a file.
pub fn write(file: &Path, results: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_string_pretty(results).map_err(|e| e.to_string())?;
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    }
    std::fs::write(file, text + "\n").map_err(|e| format!("{}: {e}", file.display()))
}
