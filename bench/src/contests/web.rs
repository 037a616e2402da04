//! `web`: a static page of 2,053 bytes, that of the papers' benchmark, from whole servers on one
//! processor, over 1,000 connections from a load on another.
//!
//! * *the peak*: each connection asks when it has its answer.
//! * *the rate curve*: parts of each server's own peak, on a schedule. (papers/001, figure of
//!   throughput; papers/003, figure 1.)
//! * *two thirds of the slowest peak*: the same rate for all, for latency (papers/001, figure of
//!   tail latency) and for processor time. This is the field's "pinned rate".
//! * *short connections* of one request, and *pipelined*: 16 requests go out together.
//!
//! * *JSON over TLS*, *a file over TLS* and *WebSocket echo* have servers of their own, and
//!   connections that stay. The connections are 1,024, and memory is a figure, too.
//!
//! A profile of the page's servers is a line of [`PROFILES`]: these differ in their [`Load`].
//!
//! All connections are open before a load's first request is due: the opening is in no latency. It
//! is in the processor time, as far as the load is cold: each server is asked for a while before.
//!
//! "segue" is the server of `segue-http` with its default limits, once with each driver; "bare"
//! are the loops of `http_loop`, which answer with fixed bytes, and are the ceiling. nginx has the
//! page as a file, all others have it in memory.

use super::field::{Field, Figure, Step, rows};
use super::load::{Load, Program, Right, Speaks};
use super::plot::{self, Line, Panel};
use super::{Contest, Held, Terms, table};
use crate::measure::smoke;
use crate::results::{Point, QUANTILES};
use crate::servers::profiles::{self, Profile};
use crate::servers::{BARE_EPOLL, Service, TEXT, allow_descriptors, whole_servers, word};
use std::collections::BTreeMap;
use std::time::Duration;

/// See the file's head.
pub const CONTEST: Contest = Contest {
    name: "web",
    timed: "whole servers and a static page: processor time, throughput and latency on one processor",
    papers: "papers/001: 1,000 connections, one core, a static page: OCaml with effects, OCaml with Lwt and Go 1.13 all \
             level off at about 30,000 requests a second; at 20,000, two thirds of that, effects have the best tail \
             latency. (papers/003 has its figures as a picture: effects are level with Lwt and Go 1.15, and below hyper.)",
    hold,
    draw,
};

const PEAK: &str = "peak";
const CURVE: &str = "rate curve";
const PINNED: &str = "two thirds of the slowest peak";

/// Parts of a server's peak.
const PARTS: [f64; 6] = [0.25, 0.5, 2.0 / 3.0, 0.8, 0.9, 1.0];

/// Loads without a schedule, beside the peak: the name, the depth, and whether each request is the
/// last one of its connection.
const PROFILES: [(&str, usize, bool); 2] = [("short connections", 1, true), ("pipelined", 16, false)];

/// How many connections those profiles have that have servers of their own.
const KEPT_OPEN: usize = 1_024;

fn hold(terms: &Terms) -> Result<Held, String> {
    let connections = if smoke() { 50 } else { 1_000 };
    let may_have = allow_descriptors();
    if may_have < connections + 100 {
        return Err(format!("a process may have {may_have} descriptors here"));
    }
    let bare = ["bare io_uring", BARE_EPOLL];
    let who: Vec<_> = whole_servers().chain(["Go"]).chain(bare).collect();
    let (rounds, parts) = if smoke() { (1, &PARTS[2..3]) } else { (3, &PARTS[..]) };
    let others: usize = profiles::ALL.iter().map(|profile| profile.servers().len()).sum();
    let turns = who.len() * (parts.len() + rounds * (2 + PROFILES.len())) + rounds * others;
    let time = terms.budget / turns as u32;
    let (time, warm) = match smoke() {
        true => (Duration::from_millis(60), Duration::ZERO),
        false => (time.max(Duration::from_secs(1)), Duration::from_millis(300)),
    };
    let connections = connections as usize;
    let load = Load {
        speaks: Speaks::Http,
        path: "/text",
        right: Right::Body(TEXT),
        connections,
        depth: 1,
        closes: false,
        warm,
        time,
    };
    let bodies = profiles::ALL.map(|profile| (profile, profile.body()));
    let step = |profile: &str, rounds, load| Step { profile: profile.to_owned(), processors: 1, rounds, load };
    let mut field = Field { service: word(Service::Http), who, go: terms.go.clone(), program: Program::find()? };
    let mut held = Held::default();

    let peak = step(PEAK, rounds, load);
    let all = field.turns(&peak, |_| None);
    let points: Vec<_> = all.iter().map(|turns| turns.point(&peak)).collect();
    table::print(&points);
    let peaks: BTreeMap<_, _> = points.iter().map(|point| (point.who.clone(), point.served)).collect();
    field.who.retain(|who| peaks.contains_key(*who));
    let slowest = peaks.values().copied().reduce(f64::min).ok_or("nobody takes part")?;
    held.rows.extend(rows("web", PEAK, Figure::Cpu, &all));
    held.points.extend(points);

    let mut points = Vec::new();
    for part in parts {
        let curve = step(CURVE, 1, load);
        points.extend(field.turns(&curve, |who| Some(peaks[who] * part)).iter().map(|turns| turns.point(&curve)));
    }
    points.sort_by_key(|point| field.who.iter().position(|who| *who == point.who));
    table::print(&points);
    held.points.extend(points);

    let pinned = step(PINNED, rounds, load);
    let rate = slowest * 2.0 / 3.0;
    let all = field.turns(&pinned, |_| Some(rate));
    let points: Vec<_> = all.iter().map(|turns| turns.point(&pinned)).collect();
    table::print(&points);
    held.rows.extend([Figure::P99, Figure::Cpu].into_iter().flat_map(|figure| rows("web", PINNED, figure, &all)));
    held.points.extend(points);

    for (name, depth, closes) in PROFILES {
        let profile = step(name, rounds, Load { depth, closes, ..load });
        let all = field.turns(&profile, |_| None);
        let points: Vec<_> = all.iter().map(|turns| turns.point(&profile)).collect();
        table::print(&points);
        held.rows.extend(rows("web", name, Figure::Cpu, &all));
        held.points.extend(points);
    }
    drop(field);
    for (profile, body) in &bodies {
        let (speaks, right) = match profile {
            Profile::WebSocket => (Speaks::WebSocket(body), Right::Echo),
            _ => (Speaks::Https, Right::Body(body)),
        };
        let connections = if smoke() { 8 } else { KEPT_OPEN };
        let load = Load { speaks, right, connections, path: profile.path(), ..load };
        let name = named(*profile);
        let step = step(name, rounds, load);
        let mut field =
            Field { service: profile.word(), who: profile.servers(), go: terms.go.clone(), program: Program::find()? };
        let all = field.turns(&step, |_| None);
        let points: Vec<_> = all.iter().map(|turns| turns.point(&step)).collect();
        table::print(&points);
        for figure in [Figure::Cpu, Figure::Memory] {
            held.rows.extend(rows("web", name, figure, &all));
        }
        held.points.extend(points);
    }
    Ok(held)
}

fn named(profile: Profile) -> &'static str {
    match profile {
        Profile::Json => "JSON over TLS",
        Profile::File => "a file over TLS",
        Profile::WebSocket => "WebSocket echo",
    }
}

fn draw(head: &str, points: &[Point]) -> String {
    let of = |profile: &'static str| points.iter().filter(move |point| point.profile == profile);
    let curve = |figure: &dyn Fn(&Point) -> f64| -> Vec<Line> {
        plot::lines(of(CURVE), |point| point.offered.unwrap_or(0.0) / 1e3, figure)
    };
    let tail = of(PINNED).map(|point| Line {
        who: point.who.clone(),
        points: point.latency.iter().enumerate().map(|(place, ns)| (place as f64, ns / 1e3)).collect(),
    });
    let rate = of(PINNED).find_map(|point| point.offered).unwrap_or(0.0);
    let offered = "offered, thousands of requests a second";
    let names = QUANTILES.map(|part| if part < 1.0 { format!("p{}", part * 100.0) } else { "max".to_owned() });
    let panel = |title: &str, across: &str, log, lines, marks| Panel {
        title: title.to_owned(),
        across: across.to_owned(),
        names: Vec::new(),
        log,
        lines,
        marks,
    };
    let served = curve(&|point| point.served / 1e3);
    let mark = vec![(30.0, "papers/001: all level off".to_owned())];
    let p99 = curve(&|point| point.latency[2] / 1e3);
    let cpu = curve(&|point| point.cpu / 1e3);
    plot::picture(
        head,
        &[
            panel("served, thousands of requests a second", offered, false, served, mark),
            panel("p99 of the latency, µs", offered, true, p99, Vec::new()),
            Panel {
                names: names.to_vec(),
                ..panel(
                    &format!("latency, µs, at {rate:.0} requests a second"),
                    "two thirds of the slowest peak",
                    true,
                    tail.collect(),
                    Vec::new(),
                )
            },
            panel("the server's processor time for a request, µs", offered, false, cpu, Vec::new()),
        ],
    )
}
