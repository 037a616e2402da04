//! How often each sequence of `k` nucleotides occurs, counted in parts: by the fibers of this
//! process, or with `NATS_URL` by workers elsewhere. One line decides; see `remote_fib.rs`.

use segue_remote::{Options, Pool, RemoteError, Worker, job};
use std::collections::BTreeMap;
use std::error::Error;

/// Counts the frames of a part of a sequence.
#[job]
fn count_frames(part: String, frame: usize) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for at in 0..=part.len().saturating_sub(frame) {
        // Frames of a part that is shorter than one are none.
        if let Some(frame) = part.get(at..at + frame) {
            *counts.entry(frame.to_owned()).or_default() += 1;
        }
    }
    counts
}

/// A sequence that is the same everywhere.
fn sequence(length: usize) -> String {
    let mut seed = 42_u32;
    let mut next = || {
        seed = (seed * 3877 + 29573) % 139_968;
        char::from(b"ACGT"[(seed * 4 / 139_968) as usize])
    };
    (0..length).map(|_| next()).collect()
}

fn pool(fibers: &segue::Pool) -> Result<Pool, RemoteError> {
    let options = Options::new("k-nucleotide");
    #[cfg(feature = "nats")]
    if let Ok(url) = std::env::var("NATS_URL") {
        return Pool::nats(&url, options);
    }
    Ok(Pool::local_with(fibers, options))
}

fn main() -> Result<(), Box<dyn Error>> {
    let fibers = segue::runtime().workers(2).pool()?;
    let pool = pool(&fibers)?;
    if std::env::args().nth(1).as_deref() == Some("worker") {
        println!("{:?}", Worker::new(pool).register::<CountFrames>().at_most(2).run()?);
        return Ok(());
    }
    let (sequence, frame, part) = (sequence(200_000), 6, 10_000);
    // Parts overlap by one frame less a nucleotide, so that each frame is in one of them.
    let parts = (0..sequence.len()).step_by(part).map(|at| {
        let end = (at + part + frame - 1).min(sequence.len());
        CountFrames { part: sequence[at..end].to_owned(), frame }
    });
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for counted in pool.map(parts, 8) {
        for (frame, count) in counted? {
            *counts.entry(frame).or_default() += count;
        }
    }
    assert_eq!(counts, count_frames(sequence.clone(), frame), "the parts have what the whole has");
    let most = counts.iter().max_by_key(|(_, count)| **count);
    println!("{} sequences of {frame}, {most:?} the most often", counts.len());
    Ok(())
}
