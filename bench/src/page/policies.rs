//! What a program loses that keeps the default policy: the default against the best of the
//! library's policies, in each variant that runs under several. Used by the page's directive
//! `{{policies}}`.

use super::{Kept, NOT_KEPT, Run, heading};
use crate::measure::SEGUE;
use crate::report::number;
use crate::results::Row;
use crate::workloads::{ALL, is_policy};
use std::fmt::Write;

/// The page marks a default that takes over so many times as long as the best.
const MARKED: f64 = 1.15;

/// A table for each processor.
pub fn tables(kept: &Kept) -> String {
    let names: Vec<_> = ALL.iter().map(|workload| workload.name).collect();
    let mut page = String::new();
    for mut runs in kept.by_processor(&names).into_values() {
        runs.retain(|run| variants(run).next().is_some());
        if runs.is_empty() {
            continue;
        }
        let all: Vec<_> = runs.iter().flat_map(variants).collect();
        let near = all.iter().filter(|variant| variant.regret() <= MARKED).count();
        let _ = writeln!(
            page,
            "{}:\n\n| workload | variant | unit | default | the best policy | default / the best |\n\
             | --- | --- | --- | --- | --- | --- |",
            heading(&runs)
        );
        for variant in &all {
            variant.row(&mut page);
        }
        let _ = writeln!(
            page,
            "\nIn {near} of {} rows the default takes at most {MARKED} times as long as the best.\n",
            all.len()
        );
    }
    if page.is_empty() { format!("{NOT_KEPT}\n") } else { page }
}

/// A variant that runs under several policies.
struct Variant<'a> {
    default: &'a Row,
    best: &'a Row,
}

fn variants<'a>(run: &Run<'a>) -> impl Iterator<Item = Variant<'a>> {
    run.1.rows.chunk_by(|a, b| a.variant == b.variant).filter_map(|rows| {
        let ours: Vec<_> = rows.iter().filter(|row| is_policy(&row.who)).collect();
        let default = ours.iter().find(|row| row.who == SEGUE)?;
        let best = ours.iter().min_by(|a, b| a.median.total_cmp(&b.median))?;
        (ours.len() > 1).then_some(Variant { default, best })
    })
}

impl Variant<'_> {
    fn regret(&self) -> f64 {
        self.default.median / self.best.median
    }

    fn row(&self, page: &mut String) {
        let Self { default, best } = self;
        let regret = self.regret();
        let mark = if regret > MARKED { "**" } else { "" };
        let name = best.who.strip_prefix("segue, ").unwrap_or("the default");
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {name} {} | {mark}{regret:.2}{mark} |",
            default.workload,
            default.variant,
            default.unit,
            number(default.median),
            number(best.median)
        );
    }
}
