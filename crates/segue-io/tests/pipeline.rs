//! 1 GiB on its way through three processes, cancelled half-way: no child, no descriptor and no
//! byte of memory is left. Alone in its program, since it counts.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)] // An allocator that counts.

mod common;

use common::{on_one_worker, on_two_workers, until};
use segue_core::{CancelToken, Cancelled, scope};
use segue_io::Backend;
use segue_io::pipe::{PipeReader, PipeWriter};
use segue_io::process::{self, Child, Command, Stdio};
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::{Duration, Instant};

struct Counts;

static LIVE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: passed on to the system's.
unsafe impl GlobalAlloc for Counts {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as isize, Ordering::SeqCst);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as isize, Ordering::SeqCst);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTS: Counts = Counts;

const GIB: u64 = 1 << 30;

/// What there is besides this program itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    children: usize,
    descriptors: usize,
    /// The thread that waits for children which nobody else waits for.
    reapers: usize,
    bytes: isize,
}

impl Left {
    fn now() -> Self {
        let count = |path| std::fs::read_dir(path).unwrap().count();
        // Running or a zombie. Its parent stands behind its state, and that behind its name.
        let is_ours = |stat: String| {
            stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok()) == Some(std::process::id())
        };
        let stats = std::fs::read_dir("/proc").unwrap().flatten().map(|process| process.path().join("stat"));
        let children = stats.filter_map(|path| std::fs::read_to_string(path).ok()).filter(|stat| is_ours(stat.clone()));
        let names = std::fs::read_dir("/proc/self/task").unwrap().flatten().map(|thread| thread.path().join("comm"));
        let threads = names.filter_map(|path| std::fs::read_to_string(path).ok());
        Self {
            children: children.count(),
            descriptors: count("/proc/self/fd"),
            reapers: threads.filter(|name| name.trim() == "segue-reaper").count(),
            bytes: LIVE.load(Ordering::SeqCst),
        }
    }
}

fn cat(input: Stdio) -> io::Result<Child> {
    Ok(process::spawn(Command::new("cat").stdin(input).stdout(Stdio::piped()))?.kill_on_drop(true))
}

fn feed(mut to: PipeWriter, bytes: u64) -> io::Result<()> {
    let piece = vec![7; 64 << 10];
    (0..bytes / piece.len() as u64).try_for_each(|_| to.write_all(&piece))
}

/// Sends so many bytes through, and says after each piece how many have come out.
fn pipeline(bytes: u64, mut seen: impl FnMut(u64)) -> io::Result<u64> {
    let mut first = cat(Stdio::piped())?;
    let mut second = cat(first.stdout.take().unwrap().into_stdio()?)?;
    let mut third = cat(second.stdout.take().unwrap().into_stdio()?)?;
    let input = first.stdin.take().unwrap();
    let mut output: PipeReader = third.stdout.take().unwrap();
    let (fed, read) = scope(|s| {
        let feeds = s.spawn(move || feed(input, bytes));
        let (mut piece, mut count) = (vec![0; 64 << 10], 0);
        let read = loop {
            match output.read(&mut piece) {
                Ok(0) => break Ok(count),
                Ok(more) => {
                    count += more as u64;
                    seen(count);
                }
                Err(error) => break Err(error),
            }
        };
        (feeds.join(), read)
    });
    fed.expect("it does not panic").and(read)
}

fn cancelled_half_way(bytes: u64) {
    let token = CancelToken::new();
    let mut most = 0;
    let ended = token.run(|| {
        pipeline(bytes, |count| {
            most = count;
            if count >= bytes / 2 {
                token.cancel();
            }
        })
    });
    assert!(Cancelled::caused(&ended.unwrap_err()));
    assert!((bytes / 2..bytes / 2 + (1 << 20)).contains(&most), "{most}");
}

/// Lets whatever is on its way end. It prints nothing meanwhile: the harness keeps what is printed,
/// and that is memory.
fn settled(before: Left) {
    let begun = Instant::now();
    until(|| Left::now() == before || begun.elapsed() > Duration::from_secs(30));
    assert_eq!(Left::now(), before, "now, and before");
}

/// What there is when nothing of a pipeline is on its way any more.
fn calm() -> Left {
    until(|| Left::now().children == 0 && Left::now().reapers == 0);
    Left::now()
}

fn leaves_nothing() {
    assert_eq!(pipeline(10 << 20, |_| ()).unwrap(), 10 << 20);
    // Twice for what is made at the first use and kept, such as the worker's ring.
    cancelled_half_way(10 << 20);
    cancelled_half_way(10 << 20);
    let before = calm();
    cancelled_half_way(GIB);
    settled(before);
}

#[test]
fn a_pipeline_that_is_cancelled_half_way_leaves_nothing() {
    for backend in [common::BEST, Backend::Native] {
        on_one_worker(backend, leaves_nothing);
        // Of two workers each makes its own, and which one has what to do is not said: so it is
        // looked from outside, and what a scheduler's run itself leaves is not counted.
        let before = calm();
        on_two_workers(backend, || cancelled_half_way(GIB));
        let after = calm();
        assert_eq!(after, Left { bytes: after.bytes, ..before });
    }
}
