//! What a run prints and writes: the machine and the versions, a table per variant, and rows of JSON.

use crate::compiled::Rivals;
use crate::measure::{Variant, is_segue};
use crate::rounds::{Outcome, min_median_max};
use serde::Serialize;

/// Crates whose versions a report names: all whose code is timed.
const RIVALS: &[&str] = &[
    "async-channel",
    "async-executor",
    "async-lock",
    "chili",
    "corosensei",
    "crossbeam-channel",
    "flume",
    "futures-util",
    "genawaiter",
    "generator",
    "kanal",
    "may",
    "oneshot",
    "parking_lot",
    "pollster",
    "rayon",
    "smol",
    "tokio",
];

/// One contestant's figures for one variant, as written to the JSON file.
#[derive(Serialize)]
pub struct Row {
    workload: &'static str,
    who: &'static str,
    variant: String,
    unit: String,
    better: &'static str,
    min: f64,
    median: f64,
    max: f64,
    runs: usize,
    /// The median divided by the same contestant's in the variant with which this one is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    against: Option<f64>,
}

/// Prints what the figures depend on.
pub fn print_host(rivals: &Rivals) {
    let uname = rustix::system::uname();
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown", |(_, model)| model);
    let cpus = std::thread::available_parallelism().map_or(0, |n| n.get());
    println!(
        "kernel  {} {} {}",
        uname.sysname().to_string_lossy(),
        uname.release().to_string_lossy(),
        uname.machine().to_string_lossy()
    );
    println!("cpu     {cpus} x {cpu}");
    println!("rustc   {}", env!("BENCH_RUSTC"));
    println!("go      {}", rivals.go.version.as_deref().unwrap_or("none, so Go takes no part"));
    println!("ocaml   {}", rivals.ocaml.version.as_deref().unwrap_or("none, so OCaml takes no part"));
    println!("rivals  {}", rival_versions().join(", "));
}

/// `name version` of each rival, from the lock file with which this program was built.
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

/// Turns outcomes into rows, best median first. `first` are the rows of the variant with which this one is compared, if it is.
pub fn rows(workload: &'static str, variant: &Variant, outcomes: &[Outcome], first: &[Row]) -> Vec<Row> {
    let mut rows: Vec<Row> = outcomes
        .iter()
        .filter(|outcome| !outcome.spans.is_empty())
        .map(|outcome| {
            let figures = outcome.spans.iter().map(|s| variant.figure(s)).collect();
            let [min, median, max] = min_median_max(figures);
            let first = first.iter().find(|row| variant.compared && row.who == outcome.who);
            Row {
                workload,
                who: outcome.who,
                variant: variant.name.clone(),
                unit: variant.unit(),
                better: "lower",
                min,
                median,
                max,
                runs: outcome.spans.len(),
                against: first.map(|first| median / first.median),
            }
        })
        .collect();
    rows.sort_by(|a, b| a.median.total_cmp(&b.median));
    rows
}

/// Prints the table of a variant.
pub fn print_table(variant: &Variant, rows: &[Row], outcomes: &[Outcome]) {
    println!("  {}: {}", variant.name, variant.unit());
    let busy = if variant.workers > 1 { "CPUs busy  " } else { "" };
    let against = if variant.compared { "against" } else { "" };
    println!("    {:<22} {:>9} {:>9} {:>9} {:>6}  {busy}{against}", "", "min", "median", "max", "rounds");
    for row in rows {
        print!(
            "    {:<22} {:>9} {:>9} {:>9} {:>6}",
            row.who,
            number(row.min),
            number(row.median),
            number(row.max),
            row.runs
        );
        match outcomes.iter().find(|outcome| outcome.who == row.who) {
            Some(outcome) if variant.workers > 1 => {
                let busy = outcome.spans.iter().map(|s| s.cpus_busy()).collect();
                print!("  {:<9.2}", min_median_max(busy)[1]);
            }
            _ => {}
        }
        match row.against {
            Some(against) => println!("  {against:.3}"),
            None => println!(),
        }
    }
    for (who, why) in &variant.absent {
        println!("    {who:<22} does not take part: {why}");
    }
    let Some(best) = rows.iter().find(|row| !is_segue(row.who)) else { return };
    for ours in rows.iter().filter(|row| is_segue(row.who)) {
        println!("    {} / best rival ({}), medians: {:.2}", ours.who, best.who, ours.median / best.median);
    }
}

/// Three significant digits, as far as that makes sense.
fn number(x: f64) -> String {
    match x {
        x if x < 10.0 => format!("{x:.2}"),
        x if x < 100.0 => format!("{x:.1}"),
        x => format!("{x:.0}"),
    }
}
