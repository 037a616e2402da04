//! One program, one file per workload, the rivals compiled in and run in the same minutes on the
//! same machine.
//!
//! ```text
//! bench list
//! bench run [NAME...] [--budget SECONDS] [--json FILE | --keep] [--smoke]
//! bench versus COMMIT PROGRAM [NAME...] [--layout BEFORE AFTER]... (and as `run`)
//! bench page
//! bench soak [web] [--short | [--minutes MINUTES] [--connections NUMBER]] [--keep | --out DIRECTORY]
//! ```
//!
//! `run` without names runs everything. The budget is for each workload; every contestant gets at
//! least seven rounds whatever the budget is. With `--smoke` each contestant runs once, for a few
//! operations: the run only shows that everything runs.
//!
//! `run` also holds contests of whole servers, each with a picture beside the JSON, which `--keep`
//! writes to `docs/evidence`.
//!
//! `versus` takes the `bench` that was built from another commit, and runs Segue's entries of both
//! in turns; and again for each further pair of programs of these commits, which are built in
//! another layout. `--keep` writes to `bench/results`, from which `page` writes
//! `docs/evidence/benchmarks.md`.
//!
//! `soak` is no measurement: it has a server asked for a long time, by some who mean harm, and
//! fails if that leaves something behind. `soak web` has one client after the other load the server
//! as fast as can be, and cuts off each second one. Their pictures are kept in `docs/evidence`.
//!
//! One-worker figures are CPU time of the contestant's process. Two-worker figures are wall time,
//! with the number of CPUs that were busy beside them, since many runtimes bring two fibers that
//! talk to each other to one core.

mod child;
mod compiled;
mod contests;
mod counted;
mod measure;
mod page;
mod report;
mod results;
mod rounds;
mod servers;
mod soak;
mod versus;
mod workloads;

use contests::Contest;
use lexopt::prelude::*;
use measure::{Place, Workload};
use results::{Measured, Results, Versus};
use rounds::Plan;
use soak::{Restarts, Soak};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use versus::Layout;

const USAGE: &str = "usage: bench list | bench page | bench soak [web] [--short | --minutes MINUTES --connections NUMBER] \
                     [--keep | --out DIRECTORY] | bench run [NAME...] [--budget SECONDS] \
                     [--json FILE | --keep] [--smoke] | bench versus COMMIT PROGRAM [--layout BEFORE AFTER]... (as run)";

/// What the command line asks for.
enum Command {
    Help,
    List,
    Page,
    Run(Task),
    Versus { before: String, program: PathBuf, layouts: Vec<Layout>, task: Task },
    Child([String; 3]),
    Serve([String; 2]),
    Soak(Soak),
    SoakWeb(Restarts),
    SoakServer { patient: bool },
}

/// What to measure, and where to write it.
struct Task {
    workloads: Vec<&'static Workload>,
    contests: Vec<&'static Contest>,
    plan: Plan,
    json: Option<PathBuf>,
    keep: bool,
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
        Command::Page => page::committed().and_then(|page| {
            std::fs::write(page::file(), page).map_err(|e| format!("{}: {e}", page::file().display()))
        }),
        Command::Run(task) => run(task),
        Command::Versus { before, program, layouts, task } => versus(before, program, layouts, task),
        Command::Child(names) => serve(&names),
        Command::Soak(soak) => soak.run(),
        Command::SoakWeb(soak) => soak.run(),
        Command::SoakServer { patient } => soak::serve(patient),
        Command::Serve([service, who]) if service == contests::FIB => contests::serve_fib(&who),
        Command::Serve([service, who]) => servers::serve(&service, &who),
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
        "list" => last(args).map(|()| Command::List),
        "page" => last(args).map(|()| Command::Page),
        "run" => Ok(parse_task(args, None)?.map_or(Command::Help, Command::Run)),
        "versus" => {
            let before = args.value()?.string()?;
            let program = program(&mut args)?;
            let mut layouts = Vec::new();
            let task = parse_task(args, Some(&mut layouts))?;
            Ok(task.map_or(Command::Help, |task| Command::Versus { before, program, layouts, task }))
        }
        "soak" => parse_soak(args),
        child::SUBCOMMAND => {
            let names: Vec<String> = args.raw_args()?.map(|word| word.string()).collect::<Result<_, _>>()?;
            let names = names.try_into().map_err(|_| "child takes a workload, a variant and a name")?;
            Ok(Command::Child(names))
        }
        servers::SUBCOMMAND => {
            let names: Vec<String> = args.raw_args()?.map(|word| word.string()).collect::<Result<_, _>>()?;
            Ok(Command::Serve(names.try_into().map_err(|_| "serve takes a service and a name")?))
        }
        other => Err(format!("no command `{other}`; {USAGE}").into()),
    }
}

fn parse_soak(mut args: lexopt::Parser) -> Result<Command, lexopt::Error> {
    let (mut minutes, mut connections, mut short, mut files) = (None, None, false, None);
    let (mut is_web, mut keep) = (false, false);
    while let Some(arg) = args.next()? {
        match arg {
            Long("minutes") => minutes = Some(args.value()?.parse_with(seconds)?.as_secs_f64()),
            Long("connections") => connections = Some(args.value()?.parse()?),
            Long("short") => short = true,
            Value(word) if word == "web" && !is_web => is_web = true,
            Long("keep") if files.is_none() => keep = true,
            Long("out") if !keep => {
                let directory = PathBuf::from(args.value()?);
                files = Some(["soak.csv", "soak.svg"].map(|name| directory.join(name)));
            }
            Long("server") => return Ok(Command::SoakServer { patient: is_web }),
            Long("help") | Short('h') => return Ok(Command::Help),
            other => return Err(other.unexpected()),
        }
    }
    if is_web {
        let soak = match (short, minutes, connections) {
            (true, None, None) => Restarts::short(),
            (true, ..) => return Err("--short sets its own time and connections".into()),
            (false, ..) => Restarts::long(minutes.unwrap_or(10.0), connections.unwrap_or(1_000)),
        };
        let files = files.or_else(|| keep.then(Restarts::kept));
        return Ok(Command::SoakWeb(Restarts { files, ..soak }));
    }
    let files = files.or_else(|| keep.then(Soak::kept));
    let soak = match (short, minutes, connections) {
        (true, None, None) => Soak::short(),
        (true, ..) => return Err("--short sets its own time and connections".into()),
        (false, ..) => Soak::long(minutes.unwrap_or(10.0), connections.unwrap_or(10_000)),
    };
    Ok(Command::Soak(Soak { files, ..soak }))
}

fn last(mut args: lexopt::Parser) -> Result<(), lexopt::Error> {
    args.next()?.map_or(Ok(()), |other| Err(other.unexpected()))
}

/// None if it asks for help. Where there are `layouts`, they may be given.
fn parse_task(mut args: lexopt::Parser, mut layouts: Option<&mut Vec<Layout>>) -> Result<Option<Task>, lexopt::Error> {
    let (mut workloads, mut contests) = (Vec::new(), Vec::new());
    let mut budget = None;
    let mut json = None;
    let mut keep = false;
    let mut smoke = false;
    while let Some(arg) = args.next()? {
        match arg {
            Value(name) => {
                let name = name.string()?;
                match contests::find(&name).filter(|_| layouts.is_none()) {
                    Some(contest) => contests.push(contest),
                    None => workloads.push(find(&name)?),
                }
            }
            Long("budget") => budget = Some(args.value()?.parse_with(seconds)?),
            Long("json") => json = Some(args.value()?.into()),
            Long("keep") => keep = true,
            Long("layout") if let Some(layouts) = &mut layouts => {
                layouts.push([program(&mut args)?, program(&mut args)?]);
            }
            Long("smoke") => {
                smoke = true;
                measure::set_smoke();
            }
            Long("help") | Short('h') => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    if keep && (smoke || json.is_some()) {
        return Err("--keep is for whole runs, and names its file itself".into());
    }
    if workloads.is_empty() && contests.is_empty() {
        workloads.extend(workloads::ALL);
        contests.extend(contests::ALL.iter().filter(|_| layouts.is_none()));
    }
    let plan = match (smoke, budget) {
        (true, Some(_)) => return Err("--smoke sets its own budget".into()),
        (true, None) => Plan::smoke(),
        (false, budget) => Plan::full(budget.unwrap_or(Duration::from_secs(20))),
    };
    Ok(Some(Task { workloads, contests, plan, json, keep }))
}

/// A program that is there. A wrong path is told before the measurements and not after them.
fn program(args: &mut lexopt::Parser) -> Result<PathBuf, lexopt::Error> {
    let program = PathBuf::from(args.value()?);
    match program.canonicalize() {
        Ok(program) if program.is_file() => Ok(program),
        _ => Err(format!("there is no program {}", program.display()).into()),
    }
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
    for contest in contests::ALL {
        println!("{:<17} {}", contest.name, contest.timed);
    }
}

fn run(task: Task) -> Result<(), String> {
    let Task { workloads, contests, plan, json, keep } = task;
    writable(&json)?;
    let rivals = compiled::Rivals::build();
    let host = results::Host::this(Some(&rivals));
    report::print_host(&host, Some(&rivals));
    let mut runs = Vec::new();
    for workload in workloads {
        let rows = measure(workload, plan, &rivals);
        let (workload, points) = (workload.name.to_owned(), Vec::new());
        runs.push(Measured { workload, commit: results::commit(), budget: plan.budget.as_secs_f64(), rows, points });
    }
    let date = results::date();
    let terms = contests::Terms { budget: plan.budget, go: rivals.go.file() };
    for contest in contests {
        let measured = contest.run(&terms)?;
        let picture = json.as_ref().map(|file| file.with_extension(format!("{}.svg", contest.name)));
        if let Some(file) = picture.or_else(|| keep.then(|| contest.kept_picture())) {
            let picture = contest.picture(&host, &date, &measured);
            std::fs::write(&file, picture).map_err(|e| format!("{}: {e}", file.display()))?;
        }
        runs.push(measured);
    }
    let results = Results { host, date, runs };
    match json {
        Some(file) => results::write(&file, &results),
        None if keep => {
            let file = results.file();
            results::write(&file, &results.join(&file)?)
        }
        None => Ok(()),
    }
}

/// Measures all variants of a workload, and prints their tables.
fn measure(workload: &Workload, plan: Plan, rivals: &compiled::Rivals) -> Vec<results::Row> {
    println!("\n{}: {}", workload.name, workload.timed);
    let mut all = Vec::new();
    let mut variants = (workload.variants)();
    let share = plan.budget / variants.len() as u32;
    for group in variants.chunk_by_mut(|_, next| next.compared) {
        let outcomes = rounds::measure(workload.name, group, rivals, plan, share * group.len() as u32);
        let first = report::rows(workload.name, &group[0], &outcomes[0], &[]);
        for (variant, outcomes) in group.iter().zip(&outcomes) {
            let rows = report::rows(workload.name, variant, outcomes, &first);
            report::print_table(variant, &rows);
            all.extend(rows);
        }
    }
    all
}

fn versus(before: String, program: PathBuf, others: Vec<Layout>, task: Task) -> Result<(), String> {
    let this = std::env::current_exe().map_err(|e| e.to_string())?;
    let layouts: Vec<_> = std::iter::once([program, this]).chain(others).collect();
    let Task { workloads, plan, json, keep, .. } = task;
    writable(&json)?;
    let host = results::Host::this(None);
    report::print_host(&host, None);
    let rows = versus::measure(&layouts, &workloads, plan);
    if rows.is_empty() {
        return Err(format!("nothing was measured: has commit {before} these workloads?"));
    }
    let (date, after, budget) = (results::date(), results::commit(), plan.budget.as_secs_f64());
    let versus = Versus { host, date, before, after, budget, rows };
    match json.or_else(|| keep.then(|| versus.file())) {
        Some(file) => results::write(&file, &versus),
        None => Ok(()),
    }
}

/// A bad path is told before the measurements and not after them.
fn writable(json: &Option<PathBuf>) -> Result<(), String> {
    let Some(path) = json else { return Ok(()) };
    std::fs::File::create(path).map(drop).map_err(|e| format!("{}: {e}", path.display()))
}

/// Runs one contestant for a parent that asks for rounds.
fn serve([workload, variant, who]: &[String; 3]) -> Result<(), String> {
    child::take_over();
    let variants = (find(workload)?.variants)();
    let contestant = variants
        .into_iter()
        .find(|v| v.name == *variant)
        .and_then(|v| v.contestants.into_iter().find(|c| c.who == who))
        .ok_or_else(|| format!("no contestant `{who}` in `{variant}` of `{workload}`"))?;
    match contestant.place {
        Place::Here(run) | Place::Apart(run) | Place::ApartFromGo(run) => child::serve(run),
        Place::Go(_) | Place::OCaml(_) | Place::Ghc(_) => Err(format!("{who} has a program of its own")),
    }
}
