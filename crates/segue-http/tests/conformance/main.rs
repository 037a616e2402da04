//! What the server does with raw requests, judged by RFC 9110 and RFC 9112; and what hyper does
//! with the same ones in the same run.
//!
//! `cases.txt` is the table: each case has a request, the section that speaks of it, its level, and
//! what is acceptable. Each runs three ways: all octets in one read, one octet for each read, and
//! in five pieces. A case deviates if one of the ways does.
//!
//! The run writes `docs/evidence/http.md`, and fails if that differs from what is in the
//! repository. It fails if this server deviates from a MUST.

#[path = "../common/mod.rs"]
mod common;

mod cases;
mod handler;
mod rival;
mod run;

use cases::{Case, Level};
use run::{ARRIVALS, Arrival, Who, run};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// A case that a server did not pass: what it did instead, and in which ways of arriving.
struct Deviation<'c> {
    case: &'c Case,
    seen: String,
}

fn deviations<'c>(cases: &'c [Case], who: Who) -> Vec<Deviation<'c>> {
    let mut found = Vec::new();
    for case in cases {
        let failed: Vec<(Arrival, String)> = ARRIVALS
            .into_iter()
            .filter_map(|arrival| Some((arrival, case.judge(&run(case, who, arrival)).err()?)))
            .collect();
        let Some((first, seen)) = failed.first() else { continue };
        let ways: Vec<&str> = failed.iter().map(|(arrival, _)| arrival.name()).collect();
        let same = failed.len() == ARRIVALS.len();
        let seen =
            if same && *first == Arrival::Whole { seen.clone() } else { format!("{seen} ({})", ways.join(", ")) };
        found.push(Deviation { case, seen });
    }
    found
}

impl Arrival {
    fn name(self) -> &'static str {
        match self {
            Arrival::Whole => "whole",
            Arrival::ByteByByte => "byte by byte",
            Arrival::FivePieces => "in five pieces",
        }
    }
}

fn count(deviations: &[Deviation<'_>], level: Level) -> usize {
    deviations.iter().filter(|deviation| deviation.case.level == level).count()
}

fn page(cases: &[Case], ours: &[Deviation<'_>], hypers: &[Deviation<'_>]) -> String {
    let mut page = String::from(
        "# Raw requests to the HTTP server

Each case is a request as the wire brings it, the section of RFC 9110 or RFC 9112 that speaks of the
request, a level, and the acceptable answers. [cases.txt](../../crates/segue-http/tests/conformance/cases.txt)
has the cases. Each case runs in memory three ways: whole, byte by byte, and in five pieces; the case
deviates if one of the three ways does. hyper gets the same octets in the same run, without a
runtime, and the same handler on top. Rules that hyper leaves to the service, such as all of those
about `Host`, count as its own here.

Targets with characters that RFC 3986 does not have, or with a `%` that escapes nothing, are served
on purpose: browsers send them.

The test that runs all cases writes this page. The test fails if the run would write another page,
or if this server deviates from a MUST:

```
SEGUE_UPDATE_HTTP=1 cargo test -p segue-http --test conformance
```

",
    );
    let requests: BTreeSet<&[u8]> = cases.iter().map(|case| &*case.request).collect();
    writeln!(page, "{} distinct requests. hyper {}.\n", requests.len(), hyper_version()).unwrap();
    page += "| level | cases | Segue deviates | hyper deviates |\n|---|--:|--:|--:|\n";
    for level in [Level::Must, Level::Should, Level::May] {
        let all = cases.iter().filter(|case| case.level == level).count();
        writeln!(page, "| {level} | {all} | {} | {} |", count(ours, level), count(hypers, level)).unwrap();
    }
    for (who, deviations) in [("Segue", ours), ("hyper", hypers)] {
        writeln!(page, "\n## Where {who} deviates\n").unwrap();
        page += "| level | section | case | answer |\n|---|---|---|---|\n";
        for Deviation { case, seen } in deviations {
            let name = format!("{}: {}", case.group, case.name).replace('|', "\\|");
            writeln!(page, "| {} | {} | {name} | {seen} |", case.level, case.section).unwrap();
        }
    }
    page
}

fn hyper_version() -> &'static str {
    let lock = include_str!("../../../../Cargo.lock");
    let (_, rest) = lock.split_once("name = \"hyper\"\nversion = \"").expect("hyper is a dependency");
    rest.split('"').next().expect("its version")
}

#[test]
fn every_must_is_kept_and_the_page_is_up_to_date() {
    let cases = cases::parse(include_str!("cases.txt"));
    let ours = deviations(&cases, Who::Segue);
    let hypers = deviations(&cases, Who::Hyper);
    let page = page(&cases, &ours, &hypers);
    println!("{page}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/evidence/http.md");
    if std::env::var_os("SEGUE_UPDATE_HTTP").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let broken: Vec<String> = ours
        .iter()
        .filter(|deviation| deviation.case.level == Level::Must)
        .map(|Deviation { case, seen }| format!("{}: {} ({}): {seen}", case.group, case.name, case.section))
        .collect();
    assert!(broken.is_empty(), "{} MUSTs are broken:\n{}", broken.len(), broken.join("\n"));
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept == page,
        "docs/evidence/http.md is not what this run has shown; write it with `SEGUE_UPDATE_HTTP=1 cargo test -p segue-http --test conformance`"
    );
}

#[test]
fn the_table_is_large_and_its_requests_differ() {
    let cases = cases::parse(include_str!("cases.txt"));
    let requests: BTreeSet<&[u8]> = cases.iter().map(|case| &*case.request).collect();
    assert_eq!(requests.len(), cases.len(), "two cases have the same request");
    assert!(cases.len() >= 380, "{}", cases.len());
    let musts = cases.iter().filter(|case| case.level == Level::Must).count();
    assert!(musts >= 270, "{musts}");
}

/// The gate can fail: a case that no server may pass is found, in each way of arriving and for both
/// servers.
#[test]
fn a_planted_case_is_found() {
    for planted in [
        "MUST | - | 200 next | a request that is to be refused | GET~~",
        "MUST | - | 400 shut | a good request | GET / HTTP/1.1~Host: h~~",
        "MUST | - | 200 shut | a connection that goes on | GET / HTTP/1.1~Host: h~~",
        "MUST | - | 200 next | a connection that ends | GET / HTTP/1.1~Host: h~Connection: close~~",
        "MUST | - | 200 next n=2 | one request for two | GET / HTTP/1.1~Host: h~~",
        "MUST | - | 200 next bare | a body that is there | GET / HTTP/1.1~Host: h~~",
        "MUST | - | 200 next has=nowhere | what is not there | GET / HTTP/1.1~Host: h~~",
        "MUST | - | 200 next not=date: | what is there | GET / HTTP/1.1~Host: h~~",
        "MUST | - | 200 100 next | an interim response | GET / HTTP/1.1~Host: h~~",
        "MUST | - | 200 next n=2 order=/two,/one | the wrong order | GET /one HTTP/1.1~Host: h~~GET /two HTTP/1.1~Host: h~~",
        "MUST | - | 200 next | a body to HEAD | HEAD / HTTP/1.1~Host: h~~",
    ] {
        let case = Case::parse("planted", planted);
        for who in [Who::Segue, Who::Hyper] {
            for arrival in ARRIVALS {
                assert!(case.judge(&run(&case, who, arrival)).is_err(), "{planted}, {arrival:?}");
            }
        }
    }
}
