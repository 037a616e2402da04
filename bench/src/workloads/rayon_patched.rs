//! `rayon_patched`: programs that use rayon, with rayon-core as it is and with `rayon-patch`'s,
//! which runs them on Segue's workers; an operation is one element of a loop, or one row.
//!
//! * Loops over a million numbers: a sum of a map, a filter that collects, a sort; a thousand loops
//!   over a thousand numbers each, one after the other, and inside of a loop.
//! * A query over columns: a filter, a join, groups, an order, in the steps in which a library of
//!   data frames runs them.
//!
//! The programs are in `bench/rayon`, which this workload has Cargo build twice, since a program
//! has one rayon-core. They run as processes that take turns. Timed: the work, from inside of the
//! pool, with a look whether its result is right. Not timed: to start pool and process, to make the
//! data.

use crate::child;
use crate::measure::{Contestant, Place, Run, SEGUE, Variant, Workload, smoke};
use std::path::{Path, PathBuf};
use std::process::Command;

/// See the file's head.
pub const WORKLOAD: Workload = Workload {
    name: "rayon_patched",
    timed: "programs that use rayon, unmodified, on Segue's workers and on rayon's, per element",
    variants,
};

fn variants() -> Vec<Variant> {
    let with = |name: &str, program, op, workers| {
        let name = format!("{name}, {}", if workers == 1 { "one worker" } else { "two workers" });
        let mut variant = Variant::new(name, op, workers);
        for (who, package) in [(SEGUE, "patched"), ("rayon", "plain")] {
            let place = Place::Here(process(package, program, workers));
            variant.contestants.push(Contestant { who, place });
        }
        variant
    };
    let programs = [
        ("sum of a map", "sum", "element"),
        ("filter and collect", "filter", "element"),
        ("sort", "sort", "element"),
        ("a thousand short loops", "short", "element"),
        ("short loops in a loop", "nested", "element"),
        ("query", "query", "row"),
    ];
    programs.iter().flat_map(|(name, program, op)| [1, 2].map(|workers| with(name, program, op, workers))).collect()
}

/// A contestant: the program, in a process that is started when it is first called.
fn process(package: &'static str, program: &'static str, workers: usize) -> Run {
    let mut started: Option<Run> = None;
    Box::new(move |n| {
        let run = match &mut started {
            Some(run) => run,
            none => {
                let mut command = Command::new(build(package)?);
                command.args([program, &workers.to_string()]);
                none.insert(child::start(command)?)
            }
        };
        run(n)
    })
}

/// Has Cargo build the programs with this package's rayon-core, below this one's directory. For a
/// run that only shows that everything runs, the quicker way.
fn build(package: &str) -> Result<PathBuf, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = this.ancestors().nth(2).ok_or("this program lies nowhere")?.join("rayon-patched");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("rayon").join(package).join("Cargo.toml");
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--locked", "--manifest-path"]).arg(manifest).arg("--target-dir").arg(&target);
    let profile = if smoke() { "debug" } else { "release" };
    command.args((!smoke()).then_some("--release"));
    let built = command.output().map_err(|error| format!("no Cargo: {error}"))?;
    if !built.status.success() {
        let said = String::from_utf8_lossy(&built.stderr);
        return Err(format!("its program can't be built: {}", said.lines().next().unwrap_or_default()));
    }
    Ok(target.join(profile).join(format!("rayon-{package}")))
}
