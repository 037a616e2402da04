//! `fib`: a server that computes a Fibonacci number for each request, recursively, as in chapter
//! 6.2 of the thesis (papers/000): throughput and latency at several rates, and on several
//! processors.
//!
//! * *segue, composed*: an I/O worker serves; the number is computed by a pool with fork-join, and
//!   comes back through a promise. (The thesis' "Eio + Domainslib".)
//! * *segue, no fork-join*: the same, but each number is one computation on one worker. (The
//!   thesis' "Eio Domain Manager".)
//! * *tokio and rayon*: hyper on tokio, fork-join in rayon, joined by a channel.
//! * *Go*: `net/http`; each request has a goroutine, which computes. *Go, forks* forks goroutines,
//!   down to the size at which all others go on alone.
//!
//! All requests are for one number, or for a mixture: of 16 requests one is for the same number,
//! three for a seventh of its work, and twelve for less than a hundredth. The number is the largest
//! of which a load has a hundred; the thesis has 45. Rates are parts of the rate that all
//! processors could keep up by the recursion alone, as this program measures the recursion. The
//! load shares the server's processors where the server has all.

use super::field::{Field, Figure, Step, rows};
use super::load::{Load, Program, Right, Speaks};
use super::plot::{self, Line, Panel};
use super::{Contest, FIB, Held, Terms, fib_servers, table};
use crate::measure::smoke;
use crate::results::Point;
use crate::servers::all_processors;
use std::time::{Duration, Instant};

/// See the file's head.
pub const CONTEST: Contest = Contest {
    name: "fib",
    timed: "a server that computes Fibonacci numbers: throughput and latency, by rate and by processors",
    papers: "papers/000: fib(45), 3,000 requests a minute on 1 to 24 cores (figures 6.1a, 6.2a), and more and more of \
             them on 24 cores (6.1b, 6.2b). In all of these the composed server has the higher throughput and the \
             lower p90, against one computation per domain. The thesis has its figures as pictures.",
    hold,
    draw,
};

/// The kinds of load.
const RATES: &str = "one number";
const CONSTANT: &str = "one number, constant rate";
const MIXED: &str = "mixture";

/// Of what all processors could do.
const PARTS: [f64; 5] = [0.25, 0.5, 0.75, 0.9, 1.1];
const MIXED_PARTS: [f64; 3] = [0.5, 0.75, 0.9];
const CONSTANT_PART: f64 = 0.6;

/// Requests that a load shall have at half of what all processors could do.
const ENOUGH: f64 = 100.0;

/// How long the recursion takes here.
struct Recursion {
    n: u32,
    took: Duration,
}

impl Recursion {
    fn measure(n: u32) -> Self {
        let turn = || {
            let begun = Instant::now();
            std::hint::black_box(fib_servers::fib(std::hint::black_box(n)));
            begun.elapsed()
        };
        Self { n, took: (0..5).map(|_| turn()).min().expect("some turns") }
    }

    /// For another number: the work grows with the golden ratio.
    fn seconds(&self, n: u32) -> f64 {
        self.took.as_secs_f64() * GOLDEN.powi(n as i32 - self.n as i32)
    }
}

const GOLDEN: f64 = 1.618_033_988_749_895;

fn hold(terms: &Terms) -> Result<Held, String> {
    let all = all_processors().len();
    let mut processors: Vec<_> = (0..).map(|power| 1 << power).take_while(|count| *count < all).collect();
    processors.push(all);
    let (rounds, parts, mixed) = match smoke() {
        true => (1, &PARTS[1..2], &MIXED_PARTS[..1]),
        false => (3, &PARTS[..], &MIXED_PARTS[..]),
    };
    let who = fib_servers::names().chain(["Go", "Go, forks"]).collect::<Vec<_>>();
    let turns = rounds * who.len() * (parts.len() + mixed.len() + processors.len());
    let time = terms.budget / turns as u32;
    let (time, warm, most) = match smoke() {
        true => (Duration::from_millis(60), Duration::ZERO, 20),
        false => (time.max(Duration::from_secs(1)), Duration::from_millis(300), 45),
    };
    let recursion = Recursion::measure(28.min(most));
    let longest = 0.5 * all as f64 * time.as_secs_f64() / ENOUGH;
    let n = (5..=most).rev().find(|n| recursion.seconds(*n) <= longest).unwrap_or(5);
    let capacity = 1.0 / recursion.seconds(n);
    println!(
        "  fib({n}) takes {:.2} ms alone: {:.1} a second on {all} processors",
        1e3 / capacity,
        capacity * all as f64
    );
    let body = fib_servers::body(fib_servers::fib(n));
    let (one, mixture) = (format!("/fib/{n}"), format!("/mixed/{n}"));
    let connections = if smoke() { 8 } else { 64 };
    let right = Right::Body(body.as_bytes());
    let load = Load { speaks: Speaks::Http, path: &one, right, connections, depth: 1, closes: false, warm, time };
    let mixture = Load { path: &mixture, right: Right::Length(body.len()), ..load };
    let mut field = Field { service: FIB, who, go: terms.go.clone(), program: Program::find()? };
    let mut held = Held::default();

    let mut hold = |profile: &str, processors, load, figures: &[Figure], loads: &[(f64, String)]| {
        let mut points = Vec::new();
        for (rate, name) in loads {
            let step = Step { profile: profile.to_owned(), processors, rounds, load };
            let all = field.turns(&step, |_| Some(*rate));
            held.rows.extend(figures.iter().flat_map(|figure| rows("fib", name, *figure, &all)));
            points.extend(all.iter().map(|turns| turns.point(&step)));
        }
        points.sort_by_key(|point| field.who.iter().position(|who| *who == point.who));
        table::print(&points);
        held.points.extend(points);
    };
    let named = |profile: &str, work: f64, parts: &[f64]| -> Vec<(f64, String)> {
        let rate = |part: &f64| (part * capacity * all as f64 / work, format!("{profile}, {:.0} %", part * 100.0));
        parts.iter().map(rate).collect()
    };
    let both = [Figure::Wall, Figure::P99];
    hold(RATES, all, load, &both, &named(RATES, 1.0, parts));
    for count in processors {
        let rates = named(&format!("{count} processors"), 1.0, &[CONSTANT_PART]);
        hold(CONSTANT, count, load, &both, &rates);
    }
    hold(MIXED, all, mixture, &both, &named(MIXED, mixture_work(), mixed));
    if held.points.is_empty() { Err("nobody takes part".to_owned()) } else { Ok(held) }
}

/// The work of a request of the mixture, on average, in that of the number itself.
fn mixture_work() -> f64 {
    let work: f64 = fib_servers::LESS.iter().map(|less| GOLDEN.powi(-(*less as i32))).sum();
    work / fib_servers::LESS.len() as f64
}

fn draw(head: &str, points: &[Point]) -> String {
    let of = |profile: &'static str| points.iter().filter(move |point| point.profile == profile);
    let offered = |point: &Point| point.offered.unwrap_or(0.0);
    let processors = |point: &Point| point.processors as f64;
    let rates = |figure: &dyn Fn(&Point) -> f64| plot::lines(of(RATES), offered, figure);
    let scaling = |figure: &dyn Fn(&Point) -> f64| plot::lines(of(CONSTANT), processors, figure);
    let mixed = |figure: &dyn Fn(&Point) -> f64| plot::lines(of(MIXED), offered, figure);
    let (served, p90, p99) = (|point: &Point| point.served, |point: &Point| ms(point, 1), |point: &Point| ms(point, 2));
    let (by_rate, by_processors) = ("offered, requests a second", "processors, at a constant rate");
    let panel = |title: &str, across: &str, log, lines: Vec<Line>| Panel {
        title: title.to_owned(),
        across: across.to_owned(),
        names: Vec::new(),
        log,
        lines,
        marks: Vec::new(),
    };
    plot::picture(
        head,
        &[
            panel("figure 6.1a: served a second", by_processors, false, scaling(&served)),
            panel("figure 6.1b: served a second", by_rate, false, rates(&served)),
            panel("figure 6.2a: p90 of the latency, ms", by_processors, true, scaling(&p90)),
            panel("figure 6.2b: p90 of the latency, ms", by_rate, true, rates(&p90)),
            panel("mixture: p99 of the latency, ms", by_rate, true, mixed(&p99)),
            panel("one number: p99 of the latency, ms", by_rate, true, rates(&p99)),
        ],
    )
}

fn ms(point: &Point, place: usize) -> f64 {
    point.latency[place] / 1e6
}
