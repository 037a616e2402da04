//! Memory that stays flat: its program counts what is allocated.
#![allow(unsafe_code)] // An allocator.

use segue_stm::{TVar, atomically};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, and the bytes that are in use.
struct Counting(AtomicUsize);

// SAFETY: each call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0.fetch_add(layout.size(), Relaxed);
        // SAFETY: as the caller promises, of this layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        self.0.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promises, of this memory and layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting(AtomicUsize::new(0));

/// A million in a release build.
const ROUNDS: u64 = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };

/// Runs `step` so many times, and looks at the bytes in use after each thousand.
fn stays_flat(mut step: impl FnMut(u64)) {
    (0..1_000).for_each(&mut step);
    let (before, mut most) = (ALLOCATOR.0.load(Relaxed), 0);
    for round in 1_000..1_000 + ROUNDS {
        step(round);
        if round % 1_000 == 0 {
            most = most.max(ALLOCATOR.0.load(Relaxed));
        }
    }
    assert!(most <= before + 64 * 1024, "{before} bytes have become {most}");
}

/// In one test, since the bytes are those of the process.
#[test]
fn replaced_values_and_retries_leave_nothing() {
    let (number, text) = (TVar::new(0), TVar::new(String::new()));
    stays_flat(|round| number.set(round).unwrap());
    stays_flat(|round| {
        atomically(|tx| {
            tx.modify(&number, |n| n + 1)?;
            tx.write(&text, format!("round {round}"))
        })
        .unwrap();
    });
    // Each branch on the left retries, and its value goes.
    stays_flat(|round| {
        atomically(|tx| {
            tx.or_else(
                |tx| {
                    tx.write(&text, format!("not {round}"))?;
                    tx.retry()
                },
                |tx| tx.write(&number, round),
            )
        })
        .unwrap();
    });
    // Each waits, and is told.
    let (ping, pong) = (TVar::new(0), TVar::new(0));
    segue::run(|| {
        segue::scope(|s| {
            s.spawn(|| {
                for round in 0..1_000 + ROUNDS {
                    atomically(|tx| {
                        tx.check(*tx.read(&ping)? == round + 1)?;
                        tx.write(&pong, round + 1)
                    })
                    .unwrap();
                }
            });
            stays_flat(|round| {
                ping.set(round + 1).unwrap();
                atomically(|tx| tx.check(*tx.read(&pong)? == round + 1)).unwrap();
            });
        });
    });
}
