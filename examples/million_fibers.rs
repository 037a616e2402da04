//! A million fibers suspended at once on one worker, then resumed, with what each costs in memory
//! and time.
//!
//! Run it by hand: `cargo run --release --example million_fibers [FIBERS]`. It needs about 4.4 GiB
//! for a million.

use segue::sync::promise;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// The resident memory of this process, in bytes.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

fn main() -> std::io::Result<()> {
    let fibers: u64 = match std::env::args().nth(1).map(|n| n.parse()) {
        None => 1_000_000,
        Some(Ok(n @ 1..=4_000_000)) => n,
        Some(_) => {
            eprintln!("usage: million_fibers [FIBERS, from 1 to 4000000]");
            std::process::exit(2);
        }
    };
    // One touched page a stack: the smaller slots keep the page tables small too.
    let stacks = segue::sched::StackConfig::new().slot_size(64 << 10).max_slots(fibers as usize + 64);
    segue::runtime().workers(1).stacks(stacks).run(|| {
        let before = resident();
        let (resolver, gate) = promise();
        let waiting = AtomicU64::new(0);
        let started = Instant::now();
        segue::scope(|s| {
            let handles: Vec<_> = (0..fibers)
                .map(|n| {
                    let (gate, waiting) = (&gate, &waiting);
                    s.spawn(move || {
                        waiting.fetch_add(1, Relaxed);
                        gate.wait().map(|start| start + n)
                    })
                })
                .collect();
            while waiting.load(Relaxed) < fibers {
                let _ = segue::yield_now();
            }
            let suspended = started.elapsed();
            let bytes = resident().saturating_sub(before);
            println!(
                "{fibers} fibers suspended in {suspended:.1?}: {} MiB, {} bytes each",
                bytes >> 20,
                bytes / fibers
            );
            let resumed = Instant::now();
            resolver.fill(1).unwrap();
            let sum: u64 = handles.into_iter().map(|fiber| fiber.join().expect("no panic").expect("filled")).sum();
            assert_eq!(sum, fibers * (fibers + 1) / 2);
            println!("resumed and joined in {:.1?}", resumed.elapsed());
        });
    })
}
