//! The tables of a contest in a terminal. Used by the contests.

use crate::measure::is_segue;
use crate::report::number;
use crate::results::{Point, Row};

/// Prints what contestants did under loads of one profile.
pub fn print(points: &[Point]) {
    let Some(first) = points.first() else { return };
    let words = if first.processors == 1 { "processor" } else { "processors" };
    println!("  {}, {} {words}:", first.profile, first.processors);
    println!(
        "    {:<22} {:>9} {:>9} {:>9} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6} {:>7}",
        "",
        "offered/s",
        "served/s",
        "CPU us",
        "busy",
        "p50 us",
        "p90 us",
        "p99 us",
        "p99.9 us",
        "max us",
        "failed",
        "MiB"
    );
    for point in points {
        let offered = point.offered.map_or("all".to_owned(), number);
        let [p50, p90, p99, p999, most] = point.latency.map(|ns| number(ns / 1e3));
        println!(
            "    {:<22} {offered:>9} {:>9} {:>9} {:>6.2} {p50:>9} {p90:>9} {p99:>9} {p999:>9} {most:>9} {:>6} {:>7.1}",
            point.who,
            number(point.served),
            number(point.cpu / 1e3),
            point.busy,
            point.failed,
            point.memory / f64::from(1 << 20)
        );
    }
}

/// Prints the figures that count, with the ratio to the best rival. What is no whole server is a
/// ceiling, and no rival.
pub fn print_rows(rows: &[Row]) {
    for variant in rows.chunk_by(|a, b| a.variant == b.variant) {
        let rival = variant.iter().find(|row| !is_segue(&row.who) && !row.who.starts_with("bare"));
        let Some(rival) = rival else { continue };
        for ours in variant.iter().filter(|row| is_segue(&row.who)) {
            println!(
                "    {}: {} / best rival ({}), medians: {:.2}",
                ours.variant,
                ours.who,
                rival.who,
                ours.median / rival.median
            );
        }
    }
}
