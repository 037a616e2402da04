//! Prints: the line while the program runs, and the table or JSON at its end. Used by `main` and
//! the watch over the threads.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crate::figures::{grouped, shown};
use crate::options::Options;
use crate::picture;
use crate::tally::{Kind, Outcome, Tally};

/// The percentiles of the table.
const PERCENTILES: [(f64, &str); 4] = [(50.0, "p50"), (90.0, "p90"), (99.0, "p99"), (99.9, "p99.9")];
/// Latencies over which replies are counted, in milliseconds.
const LATE: [u64; 4] = [1, 10, 100, 1_000];

/// Says on stderr how far the program is: on a terminal in one line.
pub(crate) fn progress(seconds: u64, replies: u64, rate: f64, errors: u64) {
    let text = format!("{seconds:>4} s  {} replies  {}/s  {errors} errors", grouped(replies), grouped(rate as u64));
    let mut out = io::stderr().lock();
    // Nobody may be there to read.
    let _ = if out.is_terminal() { write!(out, "\r{text}\x1b[K") } else { writeln!(out, "{text}") };
    let _ = out.flush();
}

/// Clears that line.
pub(crate) fn progress_over() {
    if io::stderr().is_terminal() {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
}

/// Prints the result. Answers whether all replies were right.
pub(crate) fn print(options: &Options, outcome: &Outcome) -> io::Result<bool> {
    let text = if options.json { json(options, outcome) } else { table(options, outcome) };
    io::stdout().write_all(text.as_bytes())?;
    if let Some(path) = &options.svg {
        std::fs::write(path, picture::svg(&title(options), &outcome.tally))
            .map_err(|error| io::Error::new(error.kind(), format!("can't write {}: {error}", path.display())))?;
    }
    Ok(outcome.tally.wrong_replies() == 0)
}

fn title(options: &Options) -> String {
    let rate = options.rate.map_or("as fast as can be".to_owned(), |rate| format!("{rate} requests/s"));
    let plural = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let mut text = format!(
        "{} {}: {rate}, {}, {}",
        options.method,
        options.uri,
        plural(options.connections, "connection"),
        plural(options.threads, "thread")
    );
    if options.pipeline > 1 {
        let _ = write!(text, ", up to {} pipelined", options.pipeline);
    }
    text
}

fn achieved(outcome: &Outcome) -> f64 {
    outcome.tally.replies() as f64 / outcome.time.as_secs_f64().max(1e-9)
}

fn table(options: &Options, outcome: &Outcome) -> String {
    let Outcome { tally, time, .. } = outcome;
    let mut text = format!("{}, {:.1} s\n\n", title(options), time.as_secs_f64());
    let offered = options.rate.map_or("max".to_owned(), |rate| grouped(rate as u64));
    let counts = [
        ("offered/s", offered),
        ("achieved/s", grouped(achieved(outcome) as u64)),
        ("replies", grouped(tally.replies())),
        ("errors", grouped(tally.all_errors())),
    ];
    row(&mut text, "", counts.iter().map(|(name, _)| (*name).to_owned()));
    row(&mut text, "requests", counts.iter().map(|(_, value)| value.clone()));
    if tally.replies() > 0 {
        let names = PERCENTILES.iter().map(|(_, name)| (*name).to_owned()).chain(["max".to_owned()]);
        let values = PERCENTILES.iter().map(|(percent, _)| shown(tally.percentile(*percent)));
        row(&mut text, "", names);
        row(&mut text, "latency", values.chain([shown(tally.longest())]));
        row(&mut text, "", LATE.iter().map(|limit| format!("> {}", shown(Duration::from_millis(*limit)))));
        row(&mut text, "late", LATE.iter().map(|limit| grouped(tally.over(Duration::from_millis(*limit)))));
    }
    row(&mut text, "opening", [format!("{} before", shown(outcome.opening))].into_iter());
    for (name, count) in errors(tally) {
        row(&mut text, "error", [name.to_owned(), grouped(count)].into_iter());
    }
    text
}

fn row(text: &mut String, name: &str, cells: impl Iterator<Item = String>) {
    let _ = write!(text, "{name:<9}");
    for cell in cells {
        let _ = write!(text, "{cell:>13}");
    }
    text.push('\n');
}

/// The kinds of errors there were.
fn errors(tally: &Tally) -> impl Iterator<Item = (&'static str, u64)> {
    Kind::ALL.iter().map(|(kind, name)| (*name, tally.errors(*kind))).filter(|(_, count)| *count > 0)
}

/// Times are in microseconds.
fn json(options: &Options, outcome: &Outcome) -> String {
    let Outcome { tally, time, opening } = outcome;
    let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
    let latencies =
        PERCENTILES.iter().map(|(percent, name)| format!("\"{name}\":{:.1}", micros(tally.percentile(*percent))));
    let latencies: Vec<_> = latencies
        .chain([format!("\"max\":{:.1}", micros(tally.longest())), format!("\"mean\":{:.1}", micros(tally.mean()))])
        .collect();
    let late: Vec<_> =
        LATE.iter().map(|limit| format!("\"{limit}\":{}", tally.over(Duration::from_millis(*limit)))).collect();
    let errors: Vec<_> = errors(tally).map(|(name, count)| format!("\"{name}\":{count}")).collect();
    let rate = options.rate.map_or("null".to_owned(), |rate| format!("{rate}"));
    format!(
        "{{\"connections\":{},\"threads\":{},\"pipeline\":{},\"opening_ms\":{:.3},\"seconds\":{:.3},\"offered\":{rate},\"achieved\":{:.1},\
         \"replies\":{},\"wrong\":{},\"latency_us\":{{{}}},\"late_ms\":{{{}}},\"errors\":{{{}}}}}\n",
        options.connections,
        options.threads,
        options.pipeline,
        opening.as_secs_f64() * 1e3,
        time.as_secs_f64(),
        achieved(outcome),
        tally.replies(),
        tally.wrong_replies(),
        latencies.join(","),
        late.join(","),
        errors.join(","),
    )
}
