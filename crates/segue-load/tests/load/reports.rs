//! The table and the picture.

use super::{Served, load};

#[test]
fn the_table_has_the_rates_and_the_percentiles() {
    let server = Served::new(|_| "hello");
    let output = load(&server.url(), "--rate 1000 --duration 100ms --connections 2");
    let table = String::from_utf8(output.stdout).unwrap();
    let mut lines = table.lines();
    let expected = format!("GET {}: 1000 requests/s, 2 connections, 1 thread, 0.1 s", server.url());
    assert_eq!(lines.next(), Some(&*expected));
    for name in
        ["offered/s", "achieved/s", "replies", "errors", "p50", "p90", "p99", "p99.9", "max", "> 100 ms", "opening"]
    {
        assert!(table.contains(name), "{name}: {table}");
    }
    assert!(table.lines().any(|line| line.starts_with("requests") && line.contains("1,000")));
    assert!(output.stderr.is_empty(), "no progress but on a terminal");
}

#[test]
fn the_picture_is_one_of_latency_by_percentile() {
    let server = Served::new(|_| "hello");
    let path = std::env::temp_dir().join(format!("segue-load-{}.svg", std::process::id()));
    let output = load(&server.url(), &format!("--rate 1000 --duration 200ms --svg {}", path.display()));
    assert!(output.status.success());
    let picture = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{picture}");
    for text in ["<polyline points=", ">90 %<", ">99 %<", "of 200<", "ms<"] {
        assert!(picture.contains(text), "{text}: {picture}");
    }
    assert!(!picture.contains("NaN") && !picture.contains("inf"), "{picture}");
    let output = load(&server.url(), "--rate 100 --duration 10ms --svg /nowhere/at/all.svg");
    assert!(String::from_utf8(output.stderr).unwrap().contains("can't write /nowhere/at/all.svg"));
}
