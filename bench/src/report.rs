//! What a run prints: the machine and the versions, and a table per variant.

use crate::compiled::Rivals;
use crate::measure::{Span, Variant, is_segue};
use crate::results::{Host, Row};
use crate::rounds::{Outcome, min_median_max};

/// Prints what the figures depend on.
pub fn print_host(host: &Host, rivals: Option<&Rivals>) {
    println!("kernel  {}", host.kernel);
    println!("cpu     {} x {}", host.cpus, host.cpu);
    println!("rustc   {}", host.rustc);
    if let Some(rivals) = rivals {
        println!("go      {}", rivals.go.version.as_deref().unwrap_or("none, so Go takes no part"));
        println!("ocaml   {}", rivals.ocaml.version.as_deref().unwrap_or("none, so OCaml takes no part"));
        println!("ghc     {}", rivals.ghc.version.as_deref().unwrap_or("none, so GHC takes no part"));
        println!("rivals  {}", host.rivals.join(", "));
    }
}

/// Turns outcomes into rows, best median first. `first` are the rows of the variant with which this
/// one is compared, if it is.
pub fn rows(workload: &str, variant: &Variant, outcomes: &[Outcome], first: &[Row]) -> Vec<Row> {
    let mut rows: Vec<Row> = outcomes
        .iter()
        .filter(|outcome| !outcome.spans.is_empty())
        .map(|outcome| {
            let figures = outcome.spans.iter().map(|s| variant.figure(s)).collect();
            let [min, median, max] = min_median_max(figures);
            let busiest: Vec<_> = outcome.spans.iter().filter_map(|span| span.busiest).collect();
            let first = first.iter().find(|row| variant.compared && row.who == outcome.who);
            let busy = outcome.spans.iter().map(|s| s.cpus_busy()).collect();
            let all = outcome.spans.iter().copied().reduce(Span::and);
            Row {
                workload: workload.to_owned(),
                who: outcome.who.to_owned(),
                variant: variant.name.clone(),
                unit: variant.unit(),
                min,
                median,
                max,
                runs: outcome.spans.len(),
                busy: variant.tells_busy().then(|| min_median_max(busy)[1]),
                migrations: all.filter(|_| variant.workers > 1).and_then(|all| all.migrations_a_second()),
                calls: all.and_then(|all| all.calls),
                against: first.map(|first| median / first.median),
                busiest: (!busiest.is_empty()).then(|| min_median_max(busiest)),
            }
        })
        .collect();
    rows.sort_by(|a, b| a.median.total_cmp(&b.median));
    rows
}

/// Prints the table of a variant.
pub fn print_table(variant: &Variant, rows: &[Row]) {
    println!("  {}: {}", variant.name, variant.unit());
    let busy = match variant {
        Variant { served: true, .. } => "CPUs busy  system calls",
        Variant { workers: 2.., .. } => "CPUs busy  migrations/s  ",
        _ => "",
    };
    let against = if variant.compared { "against" } else { "" };
    let shares = if rows.iter().any(|row| row.busiest.is_some()) { "the busiest worker has (shares)" } else { "" };
    println!("    {:<22} {:>9} {:>9} {:>9} {:>6}  {busy}{against}{shares}", "", "min", "median", "max", "rounds");
    for row in rows {
        print!(
            "    {:<22} {:>9} {:>9} {:>9} {:>6}",
            row.who,
            number(row.min),
            number(row.median),
            number(row.max),
            row.runs
        );
        if let Some(busy) = row.busy {
            print!("  {busy:<9.2}");
            if variant.served {
                print!("  {:<12}", row.calls.map_or("not counted".to_owned(), number));
            } else {
                print!("  {:<12}", row.migrations.map_or(String::new(), number));
            }
        }
        if let Some(against) = row.against {
            print!("  {against:.3}");
        }
        if let Some([least, median, most]) = row.busiest {
            print!("  {median:.2} ({least:.2} to {most:.2})");
        }
        println!();
    }
    for (who, why) in &variant.absent {
        println!("    {who:<22} does not take part: {why}");
    }
    let Some(best) = rows.iter().find(|row| !is_segue(&row.who)) else { return };
    for ours in rows.iter().filter(|row| is_segue(&row.who)) {
        println!("    {} / best rival ({}), medians: {:.2}", ours.who, best.who, ours.median / best.median);
    }
}

/// Three significant digits, as far as that makes sense.
pub fn number(x: f64) -> String {
    match x {
        x if x < 10.0 => format!("{x:.2}"),
        x if x < 100.0 => format!("{x:.1}"),
        x => format!("{x:.0}"),
    }
}
