//! A server's process, as the client sees it: how it is started, what it has used. Client and
//! server have a processor each, where there are two. Used by `client` and by the contests.

use super::{SUBCOMMAND, Service, word};
use crate::child;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Where a server that needs files may have them.
pub const FOLDER: &str = "BENCH_FOLDER";

/// A server that runs.
pub struct Process {
    child: Child,
    /// Its files, which go with it.
    _folder: TempDir,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Process {
    /// Starts one of the servers in this program, or the one of Go's program, on a processor of its
    /// own.
    pub fn start(service: Service, who: &str) -> Result<Self, String> {
        Self::launch(word(service), who, child::go_program(), 1)
    }

    /// Starts a server on so many processors, of which the last one is the client's.
    pub fn launch(service: &str, who: &str, go: Option<PathBuf>, processors: usize) -> Result<Self, String> {
        let program = if who.starts_with("Go") { go } else { std::env::current_exe().ok() };
        let folder = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
        super::profiles::prepare(service, folder.path()).map_err(|e| format!("its files: {e}"))?;
        let mut command = Command::new(program.ok_or("its program is unknown")?);
        command.args([SUBCOMMAND, service, who]).env(FOLDER, folder.path());
        command.env("GOMAXPROCS", processors.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let all = all_processors();
        let (ours, others) = all.split_first().expect("this runs on one");
        let its: Vec<_> = others.iter().chain([ours]).copied().take(processors.max(1)).collect();
        bind(&its);
        let child = command.spawn();
        // Where the server has all processors, the client has no better one.
        bind(if its.contains(ours) { all } else { std::slice::from_ref(ours) });
        let mut child = child.map_err(|e| format!("its server does not start: {e}"))?;
        let mut line = String::new();
        let told = BufReader::new(child.stdout.take().expect("its output is a pipe")).read_line(&mut line);
        match told.ok().and_then(|_| line.trim().parse().ok()) {
            Some(address) => {
                let server = Self { child, _folder: folder, address };
                server.await_listening().map(|()| server)
            }
            None => {
                let _ = child.wait();
                Err(match line.strip_prefix("error ") {
                    Some(why) => why.trim().to_owned(),
                    None => "its server does not start, and has said why".to_owned(),
                })
            }
        }
    }

    /// Waits for servers that tell their address before they listen.
    fn await_listening(&self) -> Result<(), String> {
        let asked = Instant::now();
        while let Err(error) = TcpStream::connect(self.address) {
            if asked.elapsed() > Duration::from_secs(10) {
                return Err(format!("its server does not listen: {error}"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
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

    /// The same while the threads run, a few milliseconds late: the kernel counts at its ticks.
    pub fn time_so_far(&self) -> Duration {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.id())).into_iter().flatten().flatten();
        threads.filter_map(|thread| counted_time(&thread.path())).sum()
    }

    /// The most memory that the process has had, in bytes; zero where the kernel does not tell.
    pub fn most_memory(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kib.unwrap_or(0.0) * 1024.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The servers of other programs do not look at their input.
        let _ = self.child.kill();
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
    counted_time(thread)
}

fn counted_time(thread: &Path) -> Option<Duration> {
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

/// Those on which this process could run when it began: the first is the client's.
pub fn all_processors() -> &'static [usize] {
    static FOUND: std::sync::OnceLock<Vec<usize>> = std::sync::OnceLock::new();
    FOUND.get_or_init(|| {
        let allowed = sched_getaffinity(None).expect("Linux tells");
        (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect()
    })
}

/// Keeps this thread, and what it starts, on these processors.
fn bind(cpus: &[usize]) {
    let mut only = CpuSet::new();
    cpus.iter().for_each(|cpu| only.set(*cpu));
    // Where it is refused, the kernel chooses.
    let _ = sched_setaffinity(None, &only);
}
