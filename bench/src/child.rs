//! Contestants in a process of their own, and the protocol spoken with them: a line with a number
//! of operations goes in, a line `operations cpu-nanoseconds wall-nanoseconds` comes out, with a
//! fourth number where the shares of the workers are told, `migrations=NUMBER` where the kernel
//! tells, and `calls=NUMBER` where system calls were counted; or a line `error REASON`. The end of
//! the input ends the process. The child uses its own clocks around the same
//! region as everybody else, so pipes are not timed.

use crate::measure::{Run, Span, set_smoke, smoke};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The subcommand with which this program serves one of its contestants.
pub const SUBCOMMAND: &str = "child";

/// Where a child finds the Go program.
const GO: &str = "BENCH_GO";

/// Set for a child that is only to show that everything runs.
const SMOKE: &str = "BENCH_SMOKE";

/// A contestant in a child process that runs this program again. If it needs the Go program, it is
/// told where that is.
pub fn this_program(workload: &str, variant: &str, who: &str, go: Option<PathBuf>) -> Result<Run, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new(program);
    command.args([SUBCOMMAND, workload, variant, who]).envs(go.map(|program| (GO, program)));
    command.envs(smoke().then_some((SMOKE, "1")));
    start(command)
}

/// In a child: takes over whether the run is only to show that everything runs. Before any variant
/// is built.
pub fn take_over() {
    if std::env::var_os(SMOKE).is_some() {
        set_smoke();
    }
}

/// The Go program, in a child that was told where it is.
pub fn go_program() -> Option<PathBuf> {
    std::env::var_os(GO).map(PathBuf::from)
}

/// A contestant that speaks the protocol.
pub fn start(mut command: Command) -> Result<Run, String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("its process does not start: {e}"))?;
    let input = child.stdin.take();
    let output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
    let mut process = Process { child, input, output };
    Ok(Box::new(move |n| process.ask(n)))
}

struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn ask(&mut self, n: u64) -> Result<Span, String> {
        let mut line = String::new();
        let input = self.input.as_mut().expect("open until dropped");
        writeln!(input, "{n}")
            .and_then(|()| self.output.read_line(&mut line))
            .map_err(|e| format!("its process is gone: {e}"))?;
        if let Some(reason) = line.strip_prefix("error ") {
            return Err(reason.trim_end().to_owned());
        }
        let mut words = line.split_whitespace();
        let numbers: Vec<u64> = words.by_ref().take(3).flat_map(str::parse).collect();
        let &[ops, cpu, wall] = &numbers[..] else {
            return Err(format!("its process answered {line:?}"));
        };
        let (cpu, wall) = (Duration::from_nanos(cpu), Duration::from_nanos(wall));
        let mut span = Span { ops, cpu, wall, busiest: None, migrations: None, calls: None };
        for word in words {
            match word.split_once('=') {
                Some(("migrations", number)) => span.migrations = number.parse().ok(),
                Some((_, number)) => span.calls = number.parse().ok(),
                None => span.busiest = word.parse().ok(),
            }
        }
        Ok(span)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// The child's side: answers until the input ends.
pub fn serve(mut run: Run) -> Result<(), String> {
    for line in std::io::stdin().lines() {
        let line = line.map_err(|e| e.to_string())?;
        let n = line.trim().parse().map_err(|_| format!("{line:?} is not a number"))?;
        let Span { ops, wall, cpu, busiest, migrations, calls } = match run(n) {
            Ok(span) => span,
            Err(reason) => {
                println!("error {reason}");
                continue;
            }
        };
        let busiest = busiest.map_or(String::new(), |busiest| format!(" {busiest}"));
        let migrations = migrations.map_or(String::new(), |migrations| format!(" migrations={migrations}"));
        let calls = calls.map_or(String::new(), |calls| format!(" calls={calls}"));
        println!("{ops} {} {}{busiest}{migrations}{calls}", cpu.as_nanos(), wall.as_nanos());
    }
    Ok(())
}
