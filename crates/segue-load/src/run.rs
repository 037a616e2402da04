//! Runs the threads, says how far they are, and ends them: at the end of the time, or at Ctrl-C.
//! Used by `main`.

use std::cell::{Cell, OnceCell, RefCell};
use std::io::{self, IsTerminal};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use segue::channel::{self, Receiver, Sender};
use segue::signal::{self, Signals};
use segue::{CancelToken, Either};

use crate::connection::{Seen, Thread};
use crate::expected::Expected;
use crate::link::Address;
use crate::opening::Opening;
use crate::options::Options;
use crate::report;
use crate::tally::{Kind, Outcome, Tally};
use crate::target;

/// How long requests that are on their way at the end have for their replies, at most.
const GRACE: Duration = Duration::from_secs(2);

/// Asks as the options say.
pub(crate) fn run(options: &Options) -> io::Result<Outcome> {
    let address = target::address(&options.uri)?;
    segue::runtime().workers(1).run(|| {
        let interrupt = signal::ctrl_c()?;
        let expected = Expected::find(options, &address)?;
        let seen: Vec<Seen> = (0..options.threads).map(|_| Seen::default()).collect();
        let token = CancelToken::new();
        let opening = Opening::new(options.connections);
        let (ended, inbox) = channel::bounded(options.threads);
        thread::scope(|scope| {
            let threads = seen.iter().enumerate().map(|(number, seen)| {
                let (address, expected, token, ended) = (&address, &expected, token.clone(), ended.clone());
                let opening = &opening;
                scope.spawn(move || ask(options, address, expected, seen, &token, opening, number, &ended))
            });
            let threads: Vec<_> = threads.collect();
            // A Ctrl-C in the opening ends everything at once.
            if let Either::Right(_) = opening.opened().wait_source().or(interrupt.recv_source()).wait()? {
                token.cancel();
            }
            let (start, took) = opening.start();
            let time = watch(options, &seen, &token, start, &inbox, &interrupt)?;
            let mut tally = Tally::new();
            for thread in threads {
                tally.add(&thread.join().map_err(|_| io::Error::other("a thread has panicked"))??);
            }
            Ok(Outcome { tally, time, opening: took })
        })
    })?
}

/// One thread: a fiber for each of its connections.
#[expect(clippy::too_many_arguments, reason = "of one call")]
fn ask(
    options: &Options,
    address: &Address,
    expected: &Expected,
    seen: &Seen,
    token: &CancelToken,
    opening: &Opening,
    number: usize,
    ended: &Sender<()>,
) -> io::Result<Tally> {
    let connections =
        options.connections / options.threads + usize::from(number < options.connections % options.threads);
    let schedule = OnceCell::new();
    let tally = RefCell::new(Tally::new());
    let thread = Thread { options, address, expected, opening, schedule, number, tally, seen, others: Cell::new(0) };
    let ran = segue::runtime().workers(1).run(|| {
        token.run(|| {
            segue::scope(|scope| {
                for _ in 0..connections {
                    drop(scope.spawn_local(|| thread.ask()));
                }
            });
        });
        // Without a start nothing was due.
        let left = thread.schedule.get().map_or(0, |schedule| schedule.left(Instant::now()));
        thread.tally.borrow_mut().wrong(Kind::Unsent, left);
    });
    if ran.is_err() {
        // Nobody is to wait for connections of a runtime that could not start.
        token.cancel();
        opening.tell(connections);
    }
    // The inbox has room, and is there.
    let _ = ended.send(());
    ran.map(|()| thread.tally.into_inner())
}

/// Waits until all threads have ended. Returns for how long requests were sent.
fn watch(
    options: &Options,
    seen: &[Seen],
    token: &CancelToken,
    start: Instant,
    inbox: &Receiver<()>,
    interrupt: &Signals,
) -> io::Result<Duration> {
    let shows = options.progress || io::stderr().is_terminal();
    let end = start + options.duration;
    let over = end + options.timeout.min(GRACE);
    let (mut time, mut running, mut ticks) = (options.duration, options.threads, 0);
    let mut last = (start, 0);
    while running > 0 {
        // A cancelled thread needs no other end.
        let tick = start + Duration::from_secs(ticks + 1);
        let next = if token.is_cancelled() { tick } else { tick.min(over) };
        match inbox.recv_source().or(interrupt.recv_source()).or(segue::at(Some(next))).wait()? {
            Either::Left(Either::Left(_)) => running -= 1,
            Either::Left(Either::Right(_)) => {
                time = time.min(start.elapsed());
                token.cancel();
            }
            Either::Right(()) => {
                let now = Instant::now();
                if now >= over {
                    token.cancel();
                }
                if now >= tick {
                    ticks += 1;
                    let replies = seen.iter().map(|seen| seen.replies.load(Ordering::Relaxed)).sum::<u64>();
                    let errors = seen.iter().map(|seen| seen.errors.load(Ordering::Relaxed)).sum::<u64>();
                    let rate = (replies - last.1) as f64 / (now - last.0).as_secs_f64();
                    last = (now, replies);
                    if shows {
                        report::progress(ticks, replies, rate, errors);
                    }
                }
            }
        }
    }
    if shows {
        report::progress_over();
    }
    Ok(time)
}
