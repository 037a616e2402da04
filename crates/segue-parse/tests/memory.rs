//! Memory: input of any length needs that of the longest token. Alone in its process, since the
//! allocator counts for all.

#![allow(unsafe_code)] // An allocator that counts.

use segue_parse::{Error, Input, Refill};
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{self, BufReader, Read};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is handed on to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Relaxed);
        MOST.fetch_max(NOW.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: the contract of this function is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the contract of this function is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most memory that the closure has at a time, and the number of allocations.
fn measured(run: impl FnOnce()) -> (usize, usize) {
    let (before, calls) = (NOW.load(Relaxed), CALLS.load(Relaxed));
    MOST.store(before, Relaxed);
    run();
    (MOST.load(Relaxed) - before, CALLS.load(Relaxed) - calls)
}

/// Words of 1,000 letters, with a blank after each.
fn words<S: Refill>(input: &mut Input<S>, number: usize) -> Result<(), Error> {
    for _ in 0..number {
        assert_eq!(input.take_while(|byte| byte == b'x')?.len(), 1000);
        input.literal(" ")?;
        input.commit();
    }
    Ok(())
}

#[test]
fn the_buffer_is_as_long_as_the_limit_and_a_block() {
    let text = ("x".repeat(1000) + " ").repeat(5000);
    let (most, calls) = measured(|| words(&mut Input::of(text.as_bytes()), 5000).unwrap());
    assert_eq!((most, calls), (0, 0), "a slice");

    // All of it is lent at once; the buffer takes a block at a time.
    let (most, _) = measured(|| words(&mut Input::over(text.as_bytes()).limit(2000), 5000).unwrap());
    assert!(most <= 2 * (2000 + 8192), "{most} bytes for words of 1,000");

    let limit = 100_000;
    let (most, _) = measured(|| {
        let mut reader = BufReader::with_capacity(16, io::repeat(b'x').take(10_000_000));
        let mut input = Input::over(&mut reader).limit(limit);
        assert!(matches!(input.skip_while(|_| true), Err(Error::TooLong { at: 0 })));
    });
    // A buffer that grows is there twice.
    assert!(most <= 2 * (limit + 8192), "{most} bytes for a limit of {limit}");
}
