//! `bench soak web`: a server of `segue-http` at full load, whose client is started anew again and
//! again, and whether the server stays as it was. The clients are `segue-load`, which checks each
//! reply; every other one is ended by a signal in the middle of its requests, as a client is that
//! crashes.
//!
//! It fails
//!
//! * if a reply is wrong, or a client that ends by itself has seen an error;
//! * if memory, or descriptors and fibers *at rest*, are not flat: at rest is the server between
//!   two clients, when the last one's connections have ended. What is flat is said in `mod.rs`;
//! * if descriptors or fibers are left in the end.

use super::{AFTER, MEMORY, Quantity, Sample, Server, is_flat, medians, plot, write};
use crate::contests::{Program, Right};
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

/// What to do.
pub struct Restarts {
    /// For how long.
    pub time: Duration,
    /// How many connections a client has.
    pub connections: usize,
    /// How long a client asks.
    pub turn: Duration,
    /// Where the samples go and where their picture does.
    pub files: Option<[PathBuf; 2]>,
}

/// The time between two samples, of which a client sees several.
const SAMPLE: Duration = Duration::from_millis(500);

impl Restarts {
    /// Ten minutes, or so many.
    pub fn long(minutes: f64, connections: usize) -> Self {
        Self { time: Duration::from_secs_f64(60.0 * minutes), connections, turn: Duration::from_secs(5), files: None }
    }

    /// Some seconds.
    pub fn short() -> Self {
        Self { time: Duration::from_secs(12), connections: 100, turn: Duration::from_secs(1), files: None }
    }

    /// The files of the repository: results, and the picture on the page.
    pub fn kept() -> [PathBuf; 2] {
        let picture = super::picture().with_file_name("soak_web.svg");
        [crate::results::directory().join("soak").join("web.csv"), picture]
    }

    /// Runs it.
    pub fn run(self) -> Result<(), String> {
        let may_have = crate::servers::allow_descriptors();
        if may_have < self.connections as u64 + 100 {
            return Err(format!("a process may have {may_have} descriptors here"));
        }
        let program = Program::find()?;
        let mut server = Server::start(&["soak", "web", "--server"])?;
        let began = Instant::now();
        let before = server.sample(began)?;
        let (mut samples, mut rests) = (Vec::new(), Vec::new());
        let mut seen = Seen::default();
        while began.elapsed() < self.time {
            let is_cut = seen.clients % 2 == 1;
            let mut client =
                program.spawn(server.http, "/", Right::Body(super::ANSWER.as_bytes()), self.connections, self.turn)?;
            let until = Instant::now() + if is_cut { self.turn / 2 } else { self.turn + AFTER };
            while Instant::now() < until && client.try_wait().map_err(|e| e.to_string())?.is_none() {
                std::thread::sleep(SAMPLE);
                samples.push(server.sample(began)?);
            }
            seen.end(client, is_cut)?;
            rests.push(server.when_idle(began, &before)?);
        }
        let after = server.when_idle(began, &before)?;
        if let Some([csv, svg]) = &self.files {
            let head = "seconds,resident bytes,descriptors,fibers,answers\n".to_owned();
            write(csv, &samples.iter().fold(head, |text, sample| text + &sample.row()))?;
            write(svg, &plot::picture(&samples))?;
        }
        verdict(&before, &samples, &rests, &after, &seen)
    }
}

/// What the clients have seen.
#[derive(Default)]
struct Seen {
    clients: usize,
    /// Those that were ended in the middle.
    cut: usize,
    replies: u64,
    wrong: u64,
    errors: String,
}

impl Seen {
    /// Ends a client, and reads its result, if it was to have one.
    fn end(&mut self, mut client: Child, is_cut: bool) -> Result<(), String> {
        self.clients += 1;
        if is_cut {
            self.cut += 1;
            // It may have ended by itself.
            let _ = client.kill();
            return client.wait().map(drop).map_err(|e| e.to_string());
        }
        let _ = client.kill().map_err(|e| e.to_string());
        let out = client.wait_with_output().map_err(|e| e.to_string())?;
        let said: serde_json::Value = serde_json::from_slice(&out.stdout)
            .map_err(|_| format!("a client has no result: {}", String::from_utf8_lossy(&out.stderr).trim()))?;
        self.replies += said["replies"].as_u64().unwrap_or(0);
        self.wrong += said["wrong"].as_u64().unwrap_or(u64::MAX);
        let errors = said["errors"].as_object().cloned().unwrap_or_default();
        // Those that were on their way at the client's end are none.
        let errors: Vec<_> = errors.iter().filter(|(kind, _)| *kind != "unanswered" && *kind != "unsent").collect();
        if !errors.is_empty() {
            self.errors += &format!("{errors:?} ");
        }
        Ok(())
    }
}

/// Says what was seen, and what of it must not be.
fn verdict(before: &Sample, samples: &[Sample], rests: &[Sample], after: &Sample, seen: &Seen) -> Result<(), String> {
    let Seen { clients, cut, replies, wrong, errors } = seen;
    println!("{clients} clients, {cut} of them cut off; {replies} replies, {wrong} wrong; {} answers", after.answers);
    let mut faults = Vec::new();
    let of: [(&[Sample], Quantity); 4] = [
        (samples, ("resident bytes under load", |sample| sample.resident as f64, MEMORY)),
        (rests, ("resident bytes at rest", |sample| sample.resident as f64, MEMORY)),
        (rests, ("descriptors at rest", |sample| sample.descriptors as f64, 0.0)),
        (rests, ("fibers at rest", |sample| sample.fibers as f64, 0.0)),
    ];
    for (samples, (what, of, slack)) in of {
        if samples.len() < 3 {
            return Err("there are too few samples: the machine stood still".to_owned());
        }
        let [middle, last] = medians(samples, of);
        let flat = is_flat(middle, last, slack);
        println!("{what}: {middle:.0}, then {last:.0}: {}", if flat { "flat" } else { "not flat" });
        if !flat {
            faults.push(format!("{what} are not flat"));
        }
    }
    if after.descriptors > before.descriptors || after.fibers > 0 {
        let more = after.descriptors.saturating_sub(before.descriptors);
        faults.push(format!("{more} descriptors and {} fibers are left", after.fibers));
    }
    if *wrong > 0 || *replies == 0 || !errors.is_empty() {
        faults.push(format!("{wrong} wrong replies beside {replies}, errors {errors}"));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(wrong: u64, left: u64, leak: u64) -> Result<(), String> {
        let sample = |i| Sample { resident: (50 << 20) + i * leak, descriptors: 10, ..Sample::default() };
        let samples: Vec<_> = (0..120).map(sample).collect();
        let after = Sample { descriptors: 10, fibers: left, ..Sample::default() };
        let seen = Seen { clients: 4, cut: 2, replies: 1_000, wrong, errors: String::new() };
        verdict(&Sample { descriptors: 10, ..Sample::default() }, &samples, &samples, &after, &seen)
    }

    #[test]
    fn a_leak_a_fiber_that_stays_and_a_wrong_reply_are_faults() {
        assert_eq!(judge(0, 0, 0), Ok(()));
        assert!(judge(1, 0, 0).unwrap_err().contains("1 wrong replies"));
        assert!(judge(0, 1, 0).unwrap_err().contains("1 fibers are left"));
        assert!(judge(0, 0, 250_000).unwrap_err().contains("resident bytes at rest are not flat"));
    }
}
