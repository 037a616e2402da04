//! Counts the instructions of the hot paths, and compares them with those that are kept.
//!
//! ```text
//! instructions [NAME...]             counts and compares; fails if one has become dearer, is not kept,
//!                                    or takes less than half of what is kept
//! instructions --keep                counts all, and keeps that; `bench page` shows it
//! instructions --planted [NAME...]   the same as the first, with more work in each path
//! ```
//!
//! Times are noise up to a tenth on a virtual machine, and differ between processors. How many
//! instructions a path takes does not: the difference of two runs under valgrind, over the
//! difference of how often they do it, is the same each time to the last digit that is printed. So
//! a gate can be tight: a path that takes over 2 % more fails.
//!
//! A count says nothing of what waits for memory, nor of branches that are predicted wrongly; those
//! are `bench`'s to show. It is the compiler's too: with another one than that which the kept
//! counts are of nothing is compared, and the program ends with 3.

mod clock;
mod http;
mod kept;
mod paths;

use kept::{Count, Counts, LIMIT, Verdict};
use lexopt::prelude::*;
use paths::Path;
use std::process::{Command, ExitCode, Stdio};
use std::{env, hint, thread};

/// How often a path is done in the two runs. Both fill and empty the same stores, such as that of
/// stacks, and there is no remainder for any path.
const FEW: u64 = 2_000;
const MANY: u64 = 12_000;

/// The word with which this program runs itself under valgrind.
const CHILD: &str = "run";

/// The status of a program that has nothing to compare with.
const NOT_COMPARED: u8 = 3;

struct Task {
    paths: Vec<&'static Path>,
    keep: bool,
    planted: bool,
}

fn main() -> ExitCode {
    if env::args().nth(1).is_some_and(|word| word == CHILD) {
        return child(env::args().skip(2));
    }
    match parse(lexopt::Parser::from_env()).map_err(|e| e.to_string()).and_then(count) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut args: lexopt::Parser) -> Result<Task, lexopt::Error> {
    let mut task = Task { paths: Vec::new(), keep: false, planted: false };
    while let Some(arg) = args.next()? {
        match arg {
            Long("keep") => task.keep = true,
            Long("planted") => task.planted = true,
            Value(name) => task.paths.push(find(&name.string()?)?),
            other => return Err(other.unexpected()),
        }
    }
    if task.keep && (task.planted || !task.paths.is_empty()) {
        return Err("--keep is for all paths, as they are".into());
    }
    if task.paths.is_empty() {
        task.paths.extend(paths::ALL);
    }
    Ok(task)
}

fn find(name: &str) -> Result<&'static Path, String> {
    paths::ALL.iter().find(|path| path.name == name).ok_or_else(|| {
        let names: Vec<_> = paths::ALL.iter().map(|path| path.name).collect();
        format!("no path `{name}`; there are {}", names.join(", "))
    })
}

fn count(Task { paths, keep, planted }: Task) -> Result<ExitCode, String> {
    let rustc = rustc()?;
    let before = match Counts::read()? {
        _ if keep => Counts::of(rustc),
        Some(kept) if kept.rustc == rustc => kept,
        None if env::consts::ARCH == "x86_64" => return Err("the counts that are kept are gone".to_owned()),
        kept => {
            let of = kept
                .map_or(format!("no counts on {}", env::consts::ARCH), |kept| format!("the counts of {}", kept.rustc));
            eprintln!("instructions: {of} are kept, and this is {rustc}; --keep counts anew");
            return Ok(ExitCode::from(NOT_COMPARED));
        }
    };
    let mut after = Counts::of(before.rustc.clone());
    let mut wrong = Vec::new();
    println!("{:<14} {:>9} {:>9}", "", "kept", "now");
    for path in paths {
        let was = before.get(path.name);
        let extra = if planted { (was.unwrap_or(0.0) / 20.0) as u64 + 1 } else { 0 };
        let now = each(path, extra)?;
        let (name, once) = (path.name.to_owned(), path.once.to_owned());
        after.paths.push(Count { name, once, instructions: now });
        let verdict = Verdict::of(was, now);
        let shown = was.map_or("-".to_owned(), |was| format!("{was:.1}"));
        println!("{:<14} {shown:>9} {now:>9.1}  {verdict:<6}  {}", path.name, path.once);
        if !keep && verdict.is_wrong() {
            wrong.push(path.name);
        }
    }
    if keep {
        after.write()?;
    }
    if wrong.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "instructions: not what is kept, by more than {LIMIT} % or half: {}; if that has to be, \
         `instructions --keep` and `bench page` keep it, and the commit says why",
        wrong.join(", ")
    );
    Ok(ExitCode::FAILURE)
}

fn rustc() -> Result<String, String> {
    let output = Command::new("rustc").arg("--version").output().map_err(|e| format!("rustc: {e}"))?;
    if !output.status.success() {
        return Err(format!("rustc --version: {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The instructions of one pass along a path, with `extra` rounds of a loop that does nothing.
fn each(path: &Path, extra: u64) -> Result<f64, String> {
    let run = |n| move || under_valgrind(path.name, n, extra);
    let (few, many) = thread::scope(|s| {
        let few = s.spawn(run(FEW));
        let many = run(MANY)();
        (few.join().expect("no panic"), many)
    });
    let (few, many) = (few?, many?);
    let each = many.saturating_sub(few);
    if each == 0 {
        return Err(format!("{}: {few} instructions for {FEW}, and {many} for {MANY}", path.name));
    }
    Ok((each as f64 * 10.0 / (MANY - FEW) as f64).round() / 10.0)
}

/// All instructions of this program as the child that goes along a path `n` times.
fn under_valgrind(name: &str, n: u64, extra: u64) -> Result<u64, String> {
    let program = env::current_exe().map_err(|e| e.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(program)
        .args([CHILD, name, &n.to_string(), &extra.to_string()])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("valgrind: {e} (it is a package of most systems)"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("`{name}` has failed under valgrind:\n{said}"));
    }
    // "I   refs:" or "I refs:", by its version.
    let total = said.lines().find_map(|line| {
        let (of, total) = line.split_once("refs:")?;
        of.trim_end().ends_with('I').then(|| total.trim().replace(',', ""))
    });
    total.and_then(|total| total.parse().ok()).ok_or_else(|| format!("valgrind did not say how many:\n{said}"))
}

/// Goes along a path, for a parent that counts.
fn child(args: impl Iterator<Item = String>) -> ExitCode {
    let args: Vec<String> = args.collect();
    let [name, n, extra] = &args[..] else { return ExitCode::from(2) };
    let (Ok(path), Ok(n), Ok(extra)) = (find(name), n.parse(), extra.parse::<u64>()) else { return ExitCode::from(2) };
    assert!(clock::stands_still(), "the clock goes on");
    (path.run)(n);
    for i in 0..n * extra {
        hint::black_box(i);
    }
    ExitCode::SUCCESS
}
