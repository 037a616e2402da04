//! The load of a contest: the program `segue-load` of this repository, in a process of its own on
//! the client's processor. Used by `field`.
//!
//! On a schedule `segue-load` does not wait for answers, and latency counts from the instant at
//! which a request was due. Without a schedule each connection asks again when the answer is there.
//! All answers are checked.
//!
//! A cargo that runs `bench` does not build another crate's program: so this asks cargo for that,
//! in the profile and the folder of this program. Where there is no cargo, the program that lies
//! beside this one is taken.

use crate::results::QUANTILES;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// The program's name, and that of its crate.
const PROGRAM: &str = "segue-load";
/// A server that has not answered anything in this time has failed.
const ENOUGH: Duration = Duration::from_secs(1);
/// Requests without an answer that are no fault: those that were due and waited when a load ended.
const LATE: [&str; 2] = ["unanswered", "unsent"];

/// What to ask for, and how.
#[derive(Clone, Copy)]
pub struct Load<'a> {
    /// How requests are sent.
    pub speaks: Speaks<'a>,
    /// The path of all requests.
    pub path: &'a str,
    /// The answers that are right.
    pub right: Right<'a>,
    /// How many connections.
    pub connections: usize,
    /// The most requests that go out on a connection before the first of their answers.
    pub depth: usize,
    /// Whether each request is the last one of its connection.
    pub closes: bool,
    /// How long the server is asked before.
    pub warm: Duration,
    /// How long everything counts.
    pub time: Duration,
}

/// What is spoken with a server.
#[derive(Clone, Copy)]
pub enum Speaks<'a> {
    /// HTTP.
    Http,
    /// HTTP over TLS.
    Https,
    /// This message over WebSockets, which comes back.
    WebSocket(&'a [u8]),
}

/// Which answers are right.
#[derive(Clone, Copy)]
pub enum Right<'a> {
    /// Those with this body.
    Body(&'a [u8]),
    /// Those with a body of this length.
    Length(usize),
    /// The same as was sent.
    Echo,
}

/// The load's program, and the files that it needs.
pub struct Program {
    file: PathBuf,
    folder: TempDir,
}

/// The answer of the program, as far as it matters here.
#[derive(Deserialize)]
struct Said {
    seconds: f64,
    achieved: f64,
    replies: u64,
    wrong: u64,
    latency_us: BTreeMap<String, f64>,
    errors: BTreeMap<String, u64>,
}

/// What came of a load.
#[derive(Debug)]
pub struct Seen {
    /// How long the load was.
    pub seconds: f64,
    /// Right answers.
    pub answers: u64,
    /// The same a second.
    pub served: f64,
    /// Requests that got another answer, or none.
    pub failed: u64,
    /// In ns, in the order of [`QUANTILES`].
    pub latency: [f64; QUANTILES.len()],
}

impl Program {
    /// Builds it, and finds it.
    pub fn find() -> Result<Self, String> {
        let this = std::env::current_exe().map_err(|e| e.to_string())?;
        let profile = this.parent().ok_or("this program has no folder")?;
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--quiet", "--package", PROGRAM]).current_dir(env!("CARGO_MANIFEST_DIR"));
        cargo.args(profile.ends_with("release").then_some("--release")).arg("--target-dir").args(profile.parent());
        let built = cargo.status().is_ok_and(|status| status.success());
        let file = profile.join(PROGRAM);
        if !file.exists() {
            let why = if built { "cargo has put it elsewhere" } else { "cargo does not build it" };
            return Err(format!("no load: `{PROGRAM}` is not at {}; {why}", file.display()));
        }
        let folder = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
        Ok(Self { file, folder })
    }

    /// Asks a server, at this rate, for as long as the load says; or longer, if the server has not
    /// answered anything by then, as the machine may stand still for so long.
    pub fn ask(&self, address: SocketAddr, load: &Load<'_>, rate: Option<f64>) -> Result<Seen, String> {
        let mut time = load.time;
        loop {
            match self.run(address, load, rate, time)?.judge() {
                Err(_) if time < ENOUGH => time *= 4,
                done => return done,
            }
        }
    }

    /// Asks a server before anything counts.
    pub fn warm(&self, address: SocketAddr, load: &Load<'_>, rate: Option<f64>) -> Result<(), String> {
        if load.warm.is_zero() { Ok(()) } else { self.run(address, load, rate, load.warm).map(drop) }
    }

    /// Starts a load of plain HTTP without a schedule, for a caller that ends it.
    pub fn spawn(
        &self,
        address: SocketAddr,
        path: &str,
        right: Right<'_>,
        connections: usize,
        time: Duration,
    ) -> Result<Child, String> {
        let load = Load {
            speaks: Speaks::Http,
            path,
            right,
            connections,
            depth: 1,
            closes: false,
            warm: Duration::ZERO,
            time,
        };
        let mut command = self.command(address, &load, None, time)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|e| format!("the load does not start: {e}"))
    }

    fn file(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, String> {
        let file = self.folder.path().join(name);
        std::fs::write(&file, bytes).map_err(|e| format!("{}: {e}", file.display()))?;
        Ok(file)
    }

    fn run(&self, address: SocketAddr, load: &Load<'_>, rate: Option<f64>, time: Duration) -> Result<Said, String> {
        let mut command = self.command(address, load, rate, time)?;
        let out = command.output().map_err(|e| format!("the load does not start: {e}"))?;
        Said::read(&out.stdout).map_err(|why| format!("{why} {}", String::from_utf8_lossy(&out.stderr).trim()))
    }

    fn command(
        &self,
        address: SocketAddr,
        load: &Load<'_>,
        rate: Option<f64>,
        time: Duration,
    ) -> Result<Command, String> {
        let mut command = Command::new(&self.file);
        let scheme = match load.speaks {
            Speaks::Http => "http",
            Speaks::Https => "https",
            Speaks::WebSocket(_) => "ws",
        };
        command.arg(format!("{scheme}://{address}{}", load.path)).args(["--json", "--insecure"]);
        command.args(["--rate", &rate.map_or("max".to_owned(), |rate| format!("{rate:.3}"))]);
        command.args(["--connections", &load.connections.to_string(), "--pipeline", &load.depth.to_string()]);
        command.args(["--duration", &format!("{}ms", time.as_millis())]);
        if load.closes {
            command.args(["--header", "Connection: close"]);
        }
        match load.right {
            Right::Length(length) => command.args(["--expect-length", &length.to_string()]),
            Right::Body(body) => command.arg("--expect-body").arg(self.file("right", body)?),
            Right::Echo => &mut command,
        };
        if let Speaks::WebSocket(message) = load.speaks {
            command.arg("--body").arg(self.file("message", message)?);
        }
        Ok(command)
    }
}

impl Said {
    fn read(text: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(text).map_err(|_| "the load has no result:".to_owned())
    }

    /// Some answers must be right, and nearly all of them.
    fn judge(self) -> Result<Seen, String> {
        let missing = self.errors.iter().filter(|(kind, _)| !LATE.contains(&kind.as_str()));
        // Wrong replies are of these kinds, too.
        let failed = missing.map(|(_, count)| count).sum::<u64>().max(self.wrong);
        if self.replies == 0 || failed > self.replies / 100 {
            return Err(format!("{failed} wrong answers beside {} right ones: {:?}", self.replies, self.errors));
        }
        let latency = |part: f64| {
            let name = if part < 1.0 { format!("p{}", part * 100.0) } else { "max".to_owned() };
            self.latency_us.get(&name).map(|us| us * 1e3).ok_or_else(|| format!("the load tells no {name}"))
        };
        let mut seen = Seen {
            seconds: self.seconds,
            answers: self.replies,
            served: self.achieved,
            failed,
            latency: [0.0; QUANTILES.len()],
        };
        for (place, part) in QUANTILES.into_iter().enumerate() {
            seen.latency[place] = latency(part)?;
        }
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(replies: u64, errors: &str) -> Result<Seen, String> {
        let text = format!(
            "{{\"connections\":1,\"seconds\":2.000,\"offered\":null,\"achieved\":50.0,\"replies\":{replies},\"wrong\":0,\
             \"latency_us\":{{\"p50\":1.0,\"p90\":2.0,\"p99\":3.0,\"p99.9\":4.0,\"max\":5.5,\"mean\":1.5}},\
             \"late_ms\":{{\"1\":0}},\"errors\":{{{errors}}}}}\n"
        );
        Said::read(text.as_bytes())?.judge()
    }

    #[test]
    fn a_result_is_read_with_all_its_quantiles() {
        let seen = said(100, "").expect("it is fine");
        assert_eq!((seen.answers, seen.failed, seen.seconds, seen.served), (100, 0, 2.0, 50.0));
        assert_eq!(seen.latency, [1e3, 2e3, 3e3, 4e3, 5.5e3]);
    }

    #[test]
    fn wrong_answers_are_faults_and_late_ones_are_not() {
        assert_eq!(said(1_000, "\"unsent\":500,\"unanswered\":64,\"closed\":3").expect("it is fine").failed, 3);
        assert!(said(1_000, "\"status\":11").expect_err("too many").contains("11 wrong answers"));
        assert!(said(0, "\"unanswered\":1").is_err());
        assert!(Said::read(b"").and_then(Said::judge).is_err());
    }
}
