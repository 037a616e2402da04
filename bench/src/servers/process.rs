//! A server's process, as the client sees it: how it is started, what it has used. Each of the two
//! has a processor to itself, where there are two.

use super::{SUBCOMMAND, Service, word};
use crate::child;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that runs.
pub struct Process {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Process {
    /// Starts one of the servers in this program, or the one of Go's program.
    pub fn start(service: Service, who: &str) -> Result<Self, String> {
        let program = if who == "Go" { child::go_program() } else { std::env::current_exe().ok() };
        let mut command = Command::new(program.ok_or("its program is unknown")?);
        command.args([SUBCOMMAND, word(service), who]);
        command.env("GOMAXPROCS", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let [ours, its] = processors();
        bind(its);
        let child = command.spawn();
        bind(ours);
        let mut child = child.map_err(|e| format!("its server does not start: {e}"))?;
        let mut line = String::new();
        let told = BufReader::new(child.stdout.take().expect("its output is a pipe")).read_line(&mut line);
        match told.ok().and_then(|_| line.trim().parse().ok()) {
            Some(address) => Ok(Self { child, address }),
            None => {
                let _ = child.wait();
                Err("its server does not start, and has said why".to_owned())
            }
        }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The processor time of all its threads.
    pub fn time(&self) -> Result<Duration, String> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.id())).map_err(|e| e.to_string())?;
        Ok(threads.flatten().filter_map(|thread| time_of(&thread.path())).sum())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The processor time of a thread, by its folder in `/proc`. The kernel counts a turn at its end:
/// so this waits, a second at most, until the thread sleeps, as one of a server does that has
/// answered.
pub fn time_of(thread: &Path) -> Option<Duration> {
    let sleeps = || std::fs::read_to_string(thread.join("stat")).map_or(true, |stat| stat.contains(") S "));
    let asked = Instant::now();
    while !sleeps() && asked.elapsed() < Duration::from_secs(1) {
        std::thread::yield_now();
    }
    let text = std::fs::read_to_string(thread.join("schedstat")).ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// Lets this process have as many descriptors as it may, and says how many that is.
pub fn allow_descriptors() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let more = Rlimit { current: maximum, maximum };
    let now = if setrlimit(Resource::Nofile, more).is_ok() { maximum } else { current };
    now.unwrap_or(u64::MAX)
}

/// The first two on which this process could run when it began: for the client, and for the server.
fn processors() -> [usize; 2] {
    static FOUND: std::sync::OnceLock<[usize; 2]> = std::sync::OnceLock::new();
    *FOUND.get_or_init(|| {
        let allowed = sched_getaffinity(None).expect("Linux tells");
        let mut all = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        let first = all.next().unwrap_or(0);
        [first, all.next().unwrap_or(first)]
    })
}

/// Keeps this thread, and what it starts, on one processor.
fn bind(cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu);
    // Where it is refused, the kernel chooses.
    let _ = sched_setaffinity(None, &only);
}
