//! Each processor's figures beside those of the others: a row for a variant, two columns for a
//! processor. Used by the page's directive `{{processors}}`.

use super::{Kept, NOT_KEPT};
use crate::measure::is_segue;
use crate::report::number;
use crate::results::Row;
use crate::workloads::ALL;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A workload's and a variant's name.
type Key<'a> = (&'a str, &'a str);

/// A processor's two columns.
struct Column<'a> {
    head: String,
    /// Segue's figure and its ratio to the best rival's, as text.
    cells: BTreeMap<Key<'a>, [String; 2]>,
}

/// All processors in one table.
pub fn table(kept: &Kept) -> String {
    let mut keys = Vec::new();
    let columns = columns(kept, &mut keys);
    if columns.is_empty() {
        return format!("{NOT_KEPT}\n");
    }
    let mut page = "| workload | variant |".to_owned();
    for column in &columns {
        let _ = write!(page, " {} | ratio |", column.head);
    }
    let _ = writeln!(page, "\n| --- | --- |{}", " --: | --: |".repeat(columns.len()));
    for name in ALL.iter().map(|workload| workload.name) {
        for key in keys.iter().filter(|(workload, _)| *workload == name) {
            let _ = write!(page, "| `{name}` | {} |", key.1);
            for column in &columns {
                let [ours, ratio] = column.cells.get(key).cloned().unwrap_or_default();
                let _ = write!(page, " {ours} | {ratio} |");
            }
            page.push('\n');
        }
    }
    page
}

/// The summaries come first. `keys` gets each variant once, in the order of the newest runs.
fn columns<'a>(kept: &'a Kept, keys: &mut Vec<Key<'a>>) -> Vec<Column<'a>> {
    let names: Vec<_> = ALL.iter().map(|workload| workload.name).collect();
    let mut measured = Vec::new();
    for runs in kept.by_processor(&names).into_values() {
        let host = &runs[0].0.host;
        let mut column = Column { head: format!("{} x {}", host.cpus, host.cpu), cells: BTreeMap::new() };
        for rows in runs.iter().flat_map(|(_, run)| run.rows.chunk_by(|a, b| a.variant == b.variant)) {
            if let Some(cells) = against_the_best(rows) {
                column.add((&rows[0].workload, &rows[0].variant), cells, keys);
            }
        }
        measured.push(column);
    }
    let summaries = kept.summaries.iter().map(|summary| {
        let mut column = Column { head: format!("{} at {}", summary.cpu, summary.commit), cells: BTreeMap::new() };
        for row in &summary.rows {
            column.add((&row.workload, &row.variant), [range(&row.ours), range(&row.ratio)], keys);
        }
        column
    });
    summaries.collect::<Vec<_>>().into_iter().chain(measured).collect()
}

impl<'a> Column<'a> {
    fn add(&mut self, key: Key<'a>, cells: [String; 2], keys: &mut Vec<Key<'a>>) {
        if !keys.contains(&key) {
            keys.push(key);
        }
        self.cells.insert(key, cells);
    }
}

/// None if nobody else takes part.
fn against_the_best(rows: &[Row]) -> Option<[String; 2]> {
    let ours = super::ours(rows)?.median;
    let best = rows.iter().find(|row| !is_segue(&row.who))?.median;
    Some([number(ours), format!("{:.2}", ours / best)])
}

fn range(figures: &[f64]) -> String {
    figures.iter().map(|figure| number(*figure)).collect::<Vec<_>>().join(" to ")
}
