//! The jobs of these tests, and what each has done in this process.

use segue_remote::{Worker, current, job};
use std::collections::HashMap;
use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

/// Counters by name.
static COUNTS: LazyLock<Mutex<HashMap<String, u64>>> = LazyLock::new(Mutex::default);

pub fn count(name: &str) -> u64 {
    let mut counts = COUNTS.lock().unwrap();
    let count = counts.entry(name.to_owned()).or_default();
    *count += 1;
    *count
}

pub fn counted(name: &str) -> u64 {
    COUNTS.lock().unwrap().get(name).copied().unwrap_or(0)
}

/// A name that no other test has.
pub fn fresh(name: &str) -> String {
    format!("{name}-{}-{}", std::process::id(), count("fresh"))
}

#[job]
pub fn add(a: u64, b: u64) -> u64 {
    a + b
}

#[job]
pub fn nothing() {}

/// Fails with this message.
#[job]
pub fn fails(message: String) -> Result<u64, String> {
    Err(message)
}

/// Panics in each attempt before this one, of which it counts all.
#[job]
pub fn panics_before(attempt: u64, tag: String) -> u64 {
    count(&tag);
    let now = current().expect("it runs as a job").attempt;
    assert!(now >= attempt, "planted");
    now
}

/// Runs until it is cancelled, and counts its begin and its end.
#[job]
pub fn runs_on(tag: String) -> Result<(), segue::Cancelled> {
    count(&format!("{tag} begun"));
    let ended = segue::sleep(Duration::MAX);
    count(&format!("{tag} ended"));
    ended
}

/// Takes some time, and counts how many do so at once.
#[job]
pub fn takes(ms: u64, tag: String) -> Result<u64, segue::Cancelled> {
    count(&tag);
    segue::sleep(Duration::from_millis(ms))?;
    Ok(ms)
}

/// Computes for some time: its fiber keeps its thread.
#[job]
pub fn spins(ms: u64, tag: String) -> u64 {
    count(&tag);
    let end = Instant::now() + Duration::from_millis(ms);
    while Instant::now() < end {
        std::hint::spin_loop();
    }
    ms
}

/// Takes some time, and is not cancelled.
#[job]
pub fn outlasts(ms: u64, tag: String) -> u64 {
    count(&tag);
    segue::shield(|| segue::sleep(Duration::from_millis(ms))).expect("it is shielded");
    ms
}

/// Runs on at first. The second run answers with its attempt.
#[job]
pub fn second_time(tag: String) -> Result<u64, segue::Cancelled> {
    if count(&tag) == 1 {
        segue::sleep(Duration::MAX)?;
    }
    Ok(current().map_or(0, |current| current.attempt))
}

/// The id of its job.
#[job]
pub fn own_id() -> String {
    current().map_or(String::new(), |current| current.id)
}

/// So many letters.
#[job]
pub fn letters(number: usize) -> String {
    "a".repeat(number)
}

/// The length of a text: an argument that may be large.
#[job]
pub fn length(text: String) -> usize {
    text.len()
}

#[job(name = "greet", version = 1)]
pub fn greet_1(name: String) -> String {
    format!("hello {name}")
}

#[job(name = "greet", version = 2)]
pub fn greet_2(name: String, times: usize) -> Vec<String> {
    vec![format!("hello {name}"); times]
}

/// A version that no worker has.
#[job(name = "greet", version = 9)]
pub fn greet_9() {}

#[job]
pub fn trace() -> Option<String> {
    segue::spawn(|| current().and_then(|current| current.trace)).join().unwrap_or_default()
}

/// Adds a line to a file of this process's in that directory, and takes some time. Answers with the
/// process. Each fiftieth number panics.
#[job]
pub fn leaves_a_line(number: u64, ms: u64, directory: String) -> Result<(u64, u32), Box<dyn Error + Send + Sync>> {
    let (attempt, process) = (current().map_or(0, |current| current.attempt), std::process::id());
    let mut file = OpenOptions::new().create(true).append(true).open(format!("{directory}/{process}"))?;
    file.write_all(format!("{number} {attempt}\n").as_bytes())?;
    assert!(number % 50 != 49, "planted");
    segue::sleep(Duration::from_millis(ms))?;
    Ok((number, process))
}

/// The numbers of the lines in that directory, and the processes that wrote them.
pub fn lines(directory: &Path) -> Vec<(u64, u32)> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let process = entry.file_name().into_string().unwrap().parse().unwrap();
        let text = std::fs::read_to_string(entry.path()).unwrap();
        lines.extend(text.lines().map(|line| (line.split(' ').next().unwrap().parse().unwrap(), process)));
    }
    lines
}

/// The worker of all these.
pub fn with_all(worker: Worker) -> Worker {
    worker
        .register::<Add>()
        .register::<Nothing>()
        .register::<Fails>()
        .register::<PanicsBefore>()
        .register::<RunsOn>()
        .register::<Takes>()
        .register::<Spins>()
        .register::<Outlasts>()
        .register::<SecondTime>()
        .register::<OwnId>()
        .register::<crate::pools::MakesUnreadable>()
        .register::<Letters>()
        .register::<Length>()
        .register::<Greet1>()
        .register::<Greet2>()
        .register::<Trace>()
        .register::<LeavesALine>()
}
