//! Programs that use rayon and know nothing of Segue: the contestants of the workload
//! `rayon_patched`, which has this built twice, with rayon-core as it is and with that of
//! `rayon-patch`.
//!
//! ```text
//! rayon-plain|rayon-patched PROGRAM THREADS
//! ```
//!
//! It speaks the protocol of `child.rs`. Each program checks in each round that it has computed
//! what a plain loop has.

#[allow(dead_code, reason = "a part of it is used here")]
#[path = "../../src/child.rs"]
mod child;
mod loops;
#[allow(dead_code, reason = "a part of it is used here")]
#[path = "../../src/measure.rs"]
mod measure;
mod query;

use measure::Stopwatch;
use std::process::ExitCode;

/// A program: does its work once, and checks it.
pub type Program = Box<dyn Fn() + Sync>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rayon's programs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [name, threads] = &words[..] else { return Err("which program, and how many threads?".to_owned()) };
    let threads = threads.parse().map_err(|_| "that is no number of threads")?;
    let (elements, program) = match name.as_str() {
        "query" => query::program(),
        _ => loops::program(name).ok_or_else(|| format!("no program is called {name:?}"))?,
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|error| error.to_string())?;
    child::serve(Box::new(move |n| {
        let times = (n / elements).max(1);
        // From inside of the pool: how a thread gets in is timed nowhere.
        Ok(pool.install(|| {
            let watch = Stopwatch::start();
            (0..times).for_each(|_| program());
            watch.stop(times * elements)
        }))
    }))
}
