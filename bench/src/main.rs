//! One program, one file per workload, the rivals compiled in and run in the same minutes on the same machine.
//!
//! ```text
//! bench list
//! bench run [NAME...] [--budget SECONDS] [--json FILE] [--smoke]
//! ```
//!
//! `run` without names runs everything. The budget is for each workload; every contestant gets at least seven
//! rounds whatever the budget is (three with `--smoke`, which only shows that everything runs).
//!
//! One-worker figures are CPU time of the contestant's process. Two-worker figures are wall time, with the number of
//! CPUs that were busy beside them, since many runtimes bring two fibers that talk to each other to one core.

mod child;
mod compiled;
mod measure;
mod report;
mod rounds;
mod workloads;

use lexopt::prelude::*;
use measure::{Place, Workload};
use rounds::Plan;
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "usage: bench list | bench run [NAME...] [--budget SECONDS] [--json FILE] [--smoke]";

/// What the command line asks for.
enum Command {
    Help,
    List,
    Run { workloads: Vec<&'static Workload>, plan: Plan, json: Option<PathBuf> },
    Child([String; 3]),
}

fn main() -> ExitCode {
    let command = match parse(lexopt::Parser::from_env()) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("bench: {error}");
            return ExitCode::from(2);
        }
    };
    let done = match command {
        Command::Help => {
            println!("{USAGE}");
            Ok(())
        }
        Command::List => {
            list();
            Ok(())
        }
        Command::Run { workloads, plan, json } => run(&workloads, plan, json),
        Command::Child(names) => serve(&names),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut args: lexopt::Parser) -> Result<Command, lexopt::Error> {
    let subcommand = match args.next()? {
        Some(Value(word)) => word.string()?,
        Some(Long("help") | Short('h')) => return Ok(Command::Help),
        Some(other) => return Err(other.unexpected()),
        None => return Err(USAGE.into()),
    };
    match subcommand.as_str() {
        "list" => match args.next()? {
            None => Ok(Command::List),
            Some(other) => Err(other.unexpected()),
        },
        "run" => parse_run(args),
        child::SUBCOMMAND => {
            let names: Vec<String> = args.raw_args()?.map(|word| word.string()).collect::<Result<_, _>>()?;
            let names = names.try_into().map_err(|_| "child takes a workload, a variant and a name")?;
            Ok(Command::Child(names))
        }
        other => Err(format!("no command `{other}`; {USAGE}").into()),
    }
}

fn parse_run(mut args: lexopt::Parser) -> Result<Command, lexopt::Error> {
    let mut workloads = Vec::new();
    let mut budget = None;
    let mut json = None;
    let mut smoke = false;
    while let Some(arg) = args.next()? {
        match arg {
            Value(name) => workloads.push(find(&name.string()?)?),
            Long("budget") => budget = Some(args.value()?.parse_with(seconds)?),
            Long("json") => json = Some(args.value()?.into()),
            Long("smoke") => {
                smoke = true;
                measure::set_smoke();
            }
            Long("help") | Short('h') => return Ok(Command::Help),
            other => return Err(other.unexpected()),
        }
    }
    if workloads.is_empty() {
        workloads.extend(workloads::ALL);
    }
    let plan = match (smoke, budget) {
        (true, Some(_)) => return Err("--smoke sets its own budget".into()),
        (true, None) => Plan::smoke(),
        (false, budget) => Plan::full(budget.unwrap_or(Duration::from_secs(20))),
    };
    Ok(Command::Run { workloads, plan, json })
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>().map(Duration::try_from_secs_f64) {
        Ok(Ok(duration)) if !duration.is_zero() => Ok(duration),
        _ => Err("not a number of seconds above zero".into()),
    }
}

fn find(name: &str) -> Result<&'static Workload, String> {
    let found = workloads::ALL.iter().find(|workload| workload.name == name);
    found.ok_or_else(|| format!("no workload `{name}`; `bench list` names them"))
}

fn list() {
    for workload in workloads::ALL {
        println!("{:<17} {}", workload.name, workload.timed);
    }
}

fn run(workloads: &[&'static Workload], plan: Plan, json: Option<PathBuf>) -> Result<(), String> {
    // Created first, so that a bad path is told before the measurements and not after them.
    let json = match json {
        Some(path) => {
            let file = File::create(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            Some((path, file))
        }
        None => None,
    };
    let rivals = compiled::Rivals::build();
    report::print_host(&rivals);
    let mut all = Vec::new();
    for workload in workloads {
        println!("\n{}: {}", workload.name, workload.timed);
        let mut variants = (workload.variants)();
        let share = plan.budget / variants.len() as u32;
        for group in variants.chunk_by_mut(|_, next| next.compared) {
            let outcomes = rounds::measure(workload.name, group, &rivals, plan, share * group.len() as u32);
            let first = report::rows(workload.name, &group[0], &outcomes[0], &[]);
            for (variant, outcomes) in group.iter().zip(&outcomes) {
                let rows = report::rows(workload.name, variant, outcomes, &first);
                report::print_table(variant, &rows, outcomes);
                all.extend(rows);
            }
        }
    }
    if let Some((path, file)) = json {
        serde_json::to_writer_pretty(file, &all).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

/// Runs one contestant for a parent that asks for rounds.
fn serve([workload, variant, who]: &[String; 3]) -> Result<(), String> {
    let variants = (find(workload)?.variants)();
    let contestant = variants
        .into_iter()
        .find(|v| v.name == *variant)
        .and_then(|v| v.contestants.into_iter().find(|c| c.who == who))
        .ok_or_else(|| format!("no contestant `{who}` in `{variant}` of `{workload}`"))?;
    match contestant.place {
        Place::Here(run) | Place::Apart(run) => child::serve(run),
        Place::Go(_) | Place::OCaml(_) => Err(format!("{who} has a program of its own")),
    }
}
