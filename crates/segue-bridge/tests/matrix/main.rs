//! Every structure between every two hosts: real programs, in which both sides wait for each other
//! at the same object.
//!
//! A cell is a structure and an ordered pair of hosts. In it, the two sides take turns: one holds,
//! until the other is known to wait in the queue, then lets it go, and waits itself. After that
//! both use the object in any order. Then three sides wait at once, of which the one in the middle,
//! on the first host, is cancelled, alone or in a race with the hand-over, and begins anew. Waits
//! are unbounded: a lost wake-up hangs, and a watchdog says where.
//!
//! The run writes the table `docs/evidence/matrix.md`, and fails if that differs from what is in
//! the repository.

mod channels;
#[path = "../common/mod.rs"]
mod common;
mod gates;
mod locks;
mod onces;
mod others;
mod places;
mod rig;

use common::Host;
use rig::{CROWDS, How, Line, MIX, RACES, ROUNDS, Stop, Structure, Until, WAITS, Way, side};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

#[test]
fn every_structure_between_every_two_hosts() {
    let watched = watch();
    let rows = [
        row::<places::APromise>(&watched),
        row::<places::AnMVar>(&watched),
        row::<channels::ARendezvous>(&watched),
        row::<channels::ABuffered<true>>(&watched),
        row::<channels::ABuffered<false>>(&watched),
        row::<channels::ABroadcast>(&watched),
        row::<channels::AWatch>(&watched),
        row::<locks::AMutex>(&watched),
        row::<locks::AnRwLock>(&watched),
        row::<locks::ACondvar>(&watched),
        row::<locks::ASemaphore>(&watched),
        row::<gates::ABarrier>(&watched),
        row::<gates::ALatch>(&watched),
        row::<gates::AWaitGroup>(&watched),
        row::<gates::ANotify>(&watched),
        row::<onces::AOnce>(&watched),
        row::<onces::AOnceCell>(&watched),
        row::<onces::ALazy>(&watched),
        row::<others::AJoinHandle>(&watched),
        row::<others::ATimer>(&watched),
        row::<others::ASelect>(&watched),
        row::<places::ATransaction>(&watched),
    ];
    let (raced, withdrawn) =
        rows.iter().fold((0, 0), |(raced, lost), row| (raced + row.pairs * RACES, lost + row.withdrawn));
    println!("of {raced} cancellations that raced with a hand-over, {withdrawn} came first");
    assert!(0 < withdrawn && withdrawn < raced, "both outcomes of a race are seen: {withdrawn} of {raced}");
    compare(&table(&rows));
}

/// What the cells of a structure have shown.
struct Row {
    name: &'static str,
    /// How many pairs passed.
    pairs: usize,
    /// How many waits were in line before what they waited for came.
    waits: usize,
    /// How many of the cancellations that raced with a hand-over came first.
    withdrawn: usize,
}

fn row<S: Structure>(watched: &Sender<String>) -> Row {
    let mut row = Row { name: S::NAME, pairs: 0, waits: 0, withdrawn: 0 };
    let started = Instant::now();
    for (one, other) in Host::pairs() {
        let cell = format!("{} between {one} and {other}", S::NAME);
        let structure = Arc::new(S::new());
        watched.send(format!("{cell}, in turns")).unwrap();
        row.waits += turns(&cell, &structure, one, other);
        watched.send(format!("{cell}, with cancellation")).unwrap();
        let (waits, withdrawn) = crowds(&cell, &structure, one, other);
        row.waits += waits;
        row.withdrawn += withdrawn;
        structure.check();
        row.pairs += 1;
    }
    println!("{:12} {:?}", S::NAME, started.elapsed());
    row
}

/// Runs bodies on their hosts until all have ended.
struct Cell<'a> {
    name: &'a str,
    running: Vec<common::Running>,
    report: Sender<bool>,
    ended: mpsc::Receiver<bool>,
}

impl<'a> Cell<'a> {
    fn new(name: &'a str) -> Self {
        let (report, ended) = mpsc::channel();
        Self { name, running: Vec::new(), report, ended }
    }

    fn spawn<F>(&mut self, host: Host, body: impl Fn(Way) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.running.push(host.spawn(side(self.report.clone(), body)));
    }

    fn join(self) {
        for _ in &self.running {
            // The others may wait for the one that has failed.
            assert!(self.ended.recv().unwrap(), "a side has failed: {}", self.name);
        }
        self.running.into_iter().for_each(common::Running::join);
    }
}

/// The two sides hold and wait in turn, each wait being in line before the other lets go; then both
/// do as they like. Returns how many waits were in line.
fn turns<S: Structure>(name: &str, structure: &Arc<S>, one: Host, other: Host) -> usize {
    let [held, line, met]: [Arc<Line>; 3] = Default::default();
    let mut cell = Cell::new(name);
    for (me, host) in [one, other].into_iter().enumerate() {
        let (structure, line) = (Arc::clone(structure), Arc::clone(&line));
        let (held, met) = (Arc::clone(&held), Arc::clone(&met));
        cell.spawn(host, move |way| {
            let (structure, line) = (Arc::clone(&structure), Arc::clone(&line));
            let (held, met) = (Arc::clone(&held), Arc::clone(&met));
            async move {
                for round in 0..ROUNDS {
                    if round % 2 == me {
                        let (held, line) = (Arc::clone(&held), Arc::clone(&line));
                        let until: Until = Arc::new(move |way| {
                            let (held, line) = (Arc::clone(&held), Arc::clone(&line));
                            Box::pin(async move {
                                held.ring();
                                line.until(way, round + 1).await;
                            })
                        });
                        Arc::clone(&structure).hold(way, round, until).await;
                    } else {
                        held.until(way, round + 1).await;
                        let how = How::new(way, 0, Some(&line), None);
                        assert!(Arc::clone(&structure).wait(&how, round).await);
                    }
                }
                met.ring();
                met.until(way, 2).await;
                structure.mix(way, me).await;
            }
        });
    }
    cell.join();
    line.count()
}

/// What the four sides of the second part share.
struct Crowd<S> {
    structure: Arc<S>,
    held: Line,
    line: Arc<Line>,
    gone: Line,
    served: Line,
    stops: Vec<Arc<Stop>>,
}

/// Three wait for what a fourth holds; the second is cancelled. Returns how many waits were in
/// line, and how many cancellations came before the hand-over that they raced with.
fn crowds<S: Structure>(name: &str, structure: &Arc<S>, one: Host, other: Host) -> (usize, usize) {
    let crowd = Arc::new(Crowd {
        structure: Arc::clone(structure),
        held: Line::default(),
        line: Arc::default(),
        gone: Line::default(),
        served: Line::default(),
        stops: (0..CROWDS).map(|_| Arc::new(Stop::new())).collect(),
    });
    let mut cell = Cell::new(name);
    for (who, host) in [other, one, other].into_iter().enumerate() {
        let crowd = Arc::clone(&crowd);
        cell.spawn(host, move |way| Arc::clone(&crowd).waiter(way, who));
    }
    cell.spawn(other, {
        let crowd = Arc::clone(&crowd);
        move |way| Arc::clone(&crowd).holder(way)
    });
    cell.join();
    assert_eq!(crowd.served.count(), 3 * CROWDS, "{name}");
    (crowd.line.count(), crowd.gone.count().checked_sub(CROWDS - RACES).expect(name))
}

/// Whether the cancellation races with the hand-over: with the first of all, or with that from the
/// first waiter to the next.
fn is_race(crowd: usize) -> bool {
    crowd >= CROWDS - RACES
}

impl<S: Structure> Crowd<S> {
    async fn waiter(self: Arc<Self>, way: Way, who: usize) {
        for crowd in 0..CROWDS {
            self.held.until(way, crowd + 1).await;
            // One after the other.
            self.line.until(way, 3 * crowd + who).await;
            let stop = (who == 1).then_some(&self.stops[crowd]);
            let mut how = How::new(way, who, Some(&self.line), stop);
            if !Arc::clone(&self.structure).wait(&how, ROUNDS + crowd).await {
                assert_eq!(who, 1);
                self.gone.ring();
                how = How::new(way, who, None, None);
                assert!(Arc::clone(&self.structure).wait(&how, ROUNDS + crowd).await);
            }
            if who == 0 && is_race(crowd) {
                // The next is being served, or has been.
                self.stops[crowd].now();
            }
            self.served.ring();
        }
    }

    async fn holder(self: Arc<Self>, way: Way) {
        for crowd in 0..CROWDS {
            self.served.until(way, 3 * crowd).await;
            let this = Arc::clone(&self);
            let until: Until = Arc::new(move |way| {
                let this = Arc::clone(&this);
                Box::pin(async move {
                    this.held.ring();
                    this.line.until(way, 3 * (crowd + 1)).await;
                    if !is_race(crowd) {
                        this.stops[crowd].now();
                        this.gone.until(way, crowd + 1).await;
                    } else if crowd % 2 == 0 {
                        this.stops[crowd].now();
                    }
                })
            });
            Arc::clone(&self.structure).hold(way, ROUNDS + crowd, until).await;
        }
    }
}

/// Ends the process when five minutes have passed since it was last told what is being done.
fn watch() -> Sender<String> {
    let (watched, told) = mpsc::channel::<String>();
    std::thread::spawn(move || {
        let mut doing = String::from("nothing yet");
        loop {
            match told.recv_timeout(Duration::from_secs(300)) {
                Ok(next) => doing = next,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    // Straight to the descriptor: what the harness captures is lost with the
                    // process.
                    let _ = writeln!(std::io::stderr(), "it hangs: {doing}");
                    std::process::abort();
                }
            }
        }
    });
    watched
}

/// The page. A pair that fails ends the test, so there is nothing to say of single pairs.
fn table(rows: &[Row]) -> String {
    let hosts = Host::ALL.len();
    let each = Host::pairs().count();
    let (pairs, waits) = rows.iter().fold((0, 0), |(pairs, waits), row| (pairs + row.pairs, waits + row.waits));
    for row in rows {
        assert_eq!((row.pairs, row.waits), (each, each * WAITS), "{}", row.name);
    }
    let mut page = format!(
        "\
# Which structures work between which hosts

All of these {} structures do, between all ordered pairs of these {hosts} hosts, with both sides at
the same object: {each} pairs for each structure, {pairs} in all. A pair that failed would fail the
test that writes this page. So does a page that differs from the run; to write it:

```
SEGUE_UPDATE_MATRIX=1 cargo test -p segue-bridge --test matrix
```

Structures: {}.

| host | what runs there | how it waits |
| --- | --- | --- |
",
        rows.len(),
        rows.iter().map(|row| row.name).collect::<Vec<_>>().join(", "),
    );
    for host in Host::ALL {
        let (name, runs) = title(host);
        let how = if host.is_async() { "awaits `x_source()`" } else { "calls `x()`" };
        let _ = writeln!(page, "| {name} | {runs} | {how} |");
    }
    let _ = write!(
        page,
        "
## What a pair does

1. {ROUNDS} turns: one side holds what the other wants until it is seen in the queue, then lets go,
   and waits itself the next time.
2. {MIX} steps or more of both sides, in any order.
3. {CROWDS} times, three waiters stand in the queue, and the second, on the first host, is cancelled:
   {} times alone, {RACES} times in a race with the hand-over. It begins anew, and all three are
   served.

Of the waits in all pairs, {waits} were seen in the queue before what they waited for came. To be
seen there, a wait in straight-line code has a second arm that never becomes ready. A task runs the
slow initialisers of `Once` and `Lazy` by `direct`.
",
        CROWDS - RACES,
    );
    page
}

fn title(host: Host) -> (&'static str, &'static str) {
    match host {
        Host::Fifo => ("`Fifo`", "fibers, on one worker"),
        Host::Stealing => ("`Stealing`", "fibers, on several workers"),
        Host::Sim => ("`Sim`", "fibers of an open simulation"),
        Host::Threads => ("threads", "plain threads"),
        Host::TokioCurrent => ("tokio, one thread", "tasks"),
        Host::TokioMulti => ("tokio, several threads", "tasks"),
        Host::Smol => ("smol", "tasks"),
        Host::Rayon => ("rayon", "jobs, which park their thread"),
    }
}

fn compare(page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/evidence/matrix.md");
    if std::env::var_os("SEGUE_UPDATE_MATRIX").is_some() {
        std::fs::write(path, page).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept == page,
        "docs/evidence/matrix.md is not what this run has shown; write it with `SEGUE_UPDATE_MATRIX=1 cargo test -p segue-bridge --test matrix`. It would be:\n{page}"
    );
}
