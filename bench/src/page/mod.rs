//! The page of benchmarks: the text in `page.md`, in which figures are directives, with the figures
//! of the files in `results/`. Used by `bench page`.
//!
//! A line `{{table NAME...}}` becomes a table of these workloads for each processor, from the
//! newest file that has them; `{{versus}}` the tables of two commits; `{{instructions}}` what was
//! counted; `{{soak}}` the picture of the soak; `{{contest NAME}}` that of a contest, with the
//! papers' figures; `{{machines}}` what was measured where;
//! `{{policies}}` the default policy against the best; `{{processors}}` all processors in one
//! table. In a line, `{{median WORKLOAD | VARIANT | WHO}}` is a figure, and `{{ratio WORKLOAD |
//! VARIANT | WHO | OTHER}}` one over another.

mod policies;
mod processors;

use crate::contests;
use crate::measure::{SEGUE, is_segue};
use crate::report::number;
use crate::results::{self, Host, Measured, Results, Row, Summary, Versus};
use crate::soak;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What stands for a figure that nobody has kept.
const NOT_KEPT: &str = "(not measured yet)";

/// All results that are kept.
pub struct Kept {
    /// Of all contestants, the newest file last.
    runs: Vec<Results>,
    /// Of two commits, the newest file last.
    versus: Vec<Versus>,
    /// Of processors whose files are not kept.
    summaries: Vec<Summary>,
    /// Of each architecture.
    instructions: Vec<Instructions>,
}

/// A workload's rows, and the file that has them.
type Run<'a> = (&'a Results, &'a Measured);

/// What the program `instructions` keeps.
#[derive(Deserialize)]
struct Instructions {
    rustc: String,
    paths: Vec<Counted>,
}

impl Kept {
    /// Reads a directory.
    pub fn read(directory: &Path) -> Result<Self, String> {
        let mut runs: Vec<Results> = results::read_all(directory)?;
        let mut versus: Vec<Versus> = results::read_all(&directory.join("versus"))?;
        runs.sort_by(|a, b| a.date.cmp(&b.date));
        versus.sort_by(|a, b| a.date.cmp(&b.date));
        let instructions = results::read_all(&directory.join("instructions"))?;
        let summaries = results::read_all(&directory.join("summaries"))?;
        Ok(Self { runs, versus, summaries, instructions })
    }

    /// The newest rows of a workload, by processor.
    fn newest(&self, workload: &str) -> BTreeMap<&str, Run<'_>> {
        let runs = self.runs.iter().flat_map(|file| file.runs.iter().map(move |run| (file, run)));
        let these = runs.filter(|(_, run)| run.workload == workload);
        these.map(|(file, run)| (file.host.cpu.as_str(), (file, run))).collect()
    }

    /// The newest rows of workloads, in their order, by processor.
    fn by_processor(&self, names: &[&str]) -> BTreeMap<&str, Vec<Run<'_>>> {
        let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for name in names {
            for (processor, run) in self.newest(name) {
                found.entry(processor).or_default().push(run);
            }
        }
        found
    }

    /// A row on the first processor.
    fn rows(&self, workload: &str, variant: &str) -> Vec<&Row> {
        let newest = self.newest(workload);
        let rows = newest.values().next().map(|(_, run)| run.rows.iter());
        rows.into_iter().flatten().filter(|row| row.variant == variant).collect()
    }
}

#[derive(Deserialize)]
struct Counted {
    name: String,
    once: String,
    instructions: f64,
}

/// The page that is committed.
pub fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/evidence/benchmarks.md")
}

/// The page as it should be.
pub fn committed() -> Result<String, String> {
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("page.md");
    let text = std::fs::read_to_string(&text).map_err(|e| format!("{}: {e}", text.display()))?;
    render(&text, &Kept::read(&results::directory())?)
}

/// Fills the text in.
pub fn render(text: &str, kept: &Kept) -> Result<String, String> {
    let mut page = String::new();
    for line in text.lines() {
        if let Some(directive) = line.strip_prefix("{{").and_then(|line| line.strip_suffix("}}")) {
            page += block(directive, kept)?.trim_end();
        } else {
            page += &inline(line, kept)?;
        }
        page.push('\n');
    }
    Ok(page)
}

fn block(directive: &str, kept: &Kept) -> Result<String, String> {
    let (verb, names) = directive.split_once(' ').unwrap_or((directive, ""));
    match verb {
        "table" => table(&names.split_whitespace().collect::<Vec<_>>(), kept),
        "versus" => Ok(versus(kept)),
        "machines" => Ok(machines(kept)),
        "policies" => Ok(policies::tables(kept)),
        "processors" => Ok(processors::table(kept)),
        "instructions" => Ok(instructions(kept)),
        "soak" if soak::picture().exists() => Ok("![Samples of the server](soak.svg)\n".to_owned()),
        "soak" => Ok(format!("{NOT_KEPT}\n")),
        "contest" => contest(names),
        _ => inline(&format!("{{{{{directive}}}}}"), kept),
    }
}

/// The picture of a contest, if that is kept, and the papers' words.
fn contest(name: &str) -> Result<String, String> {
    let contest = contests::find(name).ok_or_else(|| format!("the page wants a contest `{name}`, which is none"))?;
    let picture = if contest.kept_picture().exists() {
        format!("![The contest `{name}`]({name}.svg)")
    } else {
        NOT_KEPT.to_owned()
    };
    Ok(format!("{picture}\n\n{}\n", contest.papers_in_lines()))
}

fn inline(line: &str, kept: &Kept) -> Result<String, String> {
    let Some((before, rest)) = line.split_once("{{") else { return Ok(line.to_owned()) };
    let (directive, after) = rest.split_once("}}").ok_or_else(|| format!("no }}}} in: {line}"))?;
    let (verb, words) = directive.split_once(' ').unwrap_or((directive, ""));
    let words: Vec<_> = words.split('|').map(str::trim).collect();
    let figure = match (verb, &words[..]) {
        ("median", &[workload, variant, who]) => median(kept, workload, variant, who).map(number),
        ("ratio", &[workload, variant, who, other]) => median(kept, workload, variant, who)
            .and_then(|ours| Some(format!("{:.2}", ours / median(kept, workload, variant, other)?))),
        _ => return Err(format!("no directive of the page: {directive}")),
    };
    let figure = figure.unwrap_or_else(|| NOT_KEPT.to_owned());
    Ok(format!("{before}{figure}{}", inline(after, kept)?))
}

fn median(kept: &Kept, workload: &str, variant: &str, who: &str) -> Option<f64> {
    kept.rows(workload, variant).iter().find(|row| row.who == who).map(|row| row.median)
}

fn table(names: &[&str], kept: &Kept) -> Result<String, String> {
    let known = |name: &&&str| {
        contests::find(name).is_some() || crate::workloads::ALL.iter().any(|workload| workload.name == **name)
    };
    if let Some(name) = names.iter().find(|name| !known(name)) {
        return Err(format!("the page wants a table of `{name}`, which is no workload"));
    }
    let mut page = String::new();
    for found in kept.by_processor(names).values() {
        let _ = writeln!(page, "{}:\n", heading(found));
        page += "| workload | variant | unit | Segue: min / **median** / max | Segue otherwise | \
                 the best five rivals' medians | Segue / the best |\n| --- | --- | --- | --- | --- | --- | --- |\n";
        for (_, run) in found {
            for variant in run.rows.chunk_by(|a, b| a.variant == b.variant) {
                variant_row(&mut page, variant);
            }
        }
        page.push('\n');
    }
    Ok(if page.is_empty() { format!("{NOT_KEPT}\n") } else { page })
}

fn instructions(kept: &Kept) -> String {
    let mut page = String::new();
    for Instructions { rustc, paths } in &kept.instructions {
        let _ = writeln!(page, "With {rustc}:\n\n| path | what is done | instructions |\n| --- | --- | --: |");
        for Counted { name, once, instructions } in paths {
            let _ = writeln!(page, "| `{name}` | {once} | {} |", number(*instructions));
        }
        page.push('\n');
    }
    page
}

/// Where these runs were, with their dates and commits.
fn heading(runs: &[Run<'_>]) -> String {
    let when: BTreeSet<_> = runs.iter().map(|(file, run)| format!("{} at {}", file.date, run.commit)).collect();
    on(&runs[0].0.host, &when.into_iter().collect::<Vec<_>>().join(", "))
}

fn on(host: &Host, when: &str) -> String {
    format!("{} x {}, {when}", host.cpus, host.cpu)
}

/// The entry of ours that stands in front: where each has a name, the best.
fn ours(rows: &[Row]) -> Option<&Row> {
    rows.iter().find(|row| row.who == SEGUE).or_else(|| rows.iter().find(|row| is_segue(&row.who)))
}

fn variant_row(page: &mut String, rows: &[Row]) {
    let first = &rows[0];
    let ours = ours(rows);
    let figures = ours.map_or(String::new(), |row| {
        let mut text = format!("{} / **{}** / {}", number(row.min), number(row.median), number(row.max));
        if let Some(name) = row.who.strip_prefix("segue, ") {
            text = format!("{name}: {text}");
        }
        let _ = row.busy.map(|busy| write!(text, "; {busy:.1} CPUs"));
        let _ = row.calls.map(|calls| write!(text, ", {} system calls", number(calls)));
        let _ = row.migrations.map(|moves| write!(text, ", {moves:.0} migrations/s"));
        let _ = row.busiest.map(|[_, median, _]| write!(text, "; the busiest worker has {median:.2} shares"));
        let _ = row.against.map(|against| write!(text, "; {against:.2} of the first"));
        text
    });
    let short = |row: &Row| {
        let against = row.against.map_or(String::new(), |against| format!(" ({against:.2} of its first)"));
        let name = row.who.strip_prefix(SEGUE).map_or(row.who.as_str(), |name| name.trim_start_matches(", "));
        format!("{name} {}{against}", number(row.median))
    };
    let others = rows.iter().filter(|row| is_segue(&row.who) && ours.is_none_or(|ours| ours.who != row.who));
    let others: Vec<_> = others.map(short).collect();
    let mut rivals = rows.iter().filter(|row| !is_segue(&row.who));
    let best = rivals.clone().next();
    let ratio = ours.zip(best).map_or(String::new(), |(ours, best)| format!("{:.2}", ours.median / best.median));
    let rivals: Vec<_> = rivals.by_ref().take(5).map(short).collect();
    let _ = writeln!(
        page,
        "| `{}` | {} | {} | {figures} | {} | {} | {ratio} |",
        first.workload,
        first.variant,
        first.unit,
        others.join(", "),
        rivals.join(", ")
    );
}

fn versus(kept: &Kept) -> String {
    let mut page = String::new();
    for file in kept.versus.iter().rev() {
        let commits = format!("{}: before {}, after {}", file.date, file.before, file.after);
        let _ = writeln!(page, "{}:\n", on(&file.host, &commits));
        page += "| workload | variant | who | unit | before: min / **median** | after: min / **median** | \
                 after / before: median (range) | in each layout |\n\
                 | --- | --- | --- | --- | --- | --- | --- | --- |\n";
        for row in &file.rows {
            let side = |side: [f64; 3]| format!("{} / **{}**", number(side[0]), number(side[1]));
            let [low, ratio, high] = row.ratio;
            let by_layout: Vec<_> = row.by_layout.iter().map(|ratio| format!("{ratio:.2}")).collect();
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} | {} | {} | {ratio:.2} ({low:.2} to {high:.2}) | {} |",
                row.workload,
                row.variant,
                row.who,
                row.unit,
                side(row.before),
                side(row.after),
                by_layout.join(", ")
            );
        }
        page.push('\n');
    }
    if page.is_empty() { format!("{NOT_KEPT}\n") } else { page }
}

fn machines(kept: &Kept) -> String {
    let mut page = String::new();
    for file in &kept.runs {
        let Host { kernel, rustc, compilers, rivals, .. } = &file.host;
        let versions = compilers.iter().chain(rivals).map(String::as_str).collect::<Vec<_>>().join(", ");
        let workloads: Vec<_> = file.runs.iter().map(|run| format!("`{}` {} s", run.workload, run.budget)).collect();
        let _ = writeln!(
            page,
            "| {} | {kernel}; {rustc} | {versions} | {} |",
            on(&file.host, &file.date),
            workloads.join(", ")
        );
    }
    if page.is_empty() {
        return format!("{NOT_KEPT}\n");
    }
    "| processor, date | system, compiler | rivals | workloads, each with its budget |\n| --- | --- | --- | --- |\n"
        .to_owned()
        + &page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(who: &str, median: f64) -> Row {
        let text = "mvar".to_owned();
        let (variant, unit) = ("same worker".to_owned(), "ns".to_owned());
        let (min, max) = (median / 2.0, median * 2.0);
        let who = who.to_owned();
        let (busy, migrations, calls, against, busiest) = (None, None, None, None, None);
        Row { workload: text, who, variant, unit, min, median, max, runs: 3, busy, migrations, calls, against, busiest }
    }

    fn results(cpu: &str, date: &str, ours: f64) -> Results {
        let [kernel, rustc] = ["Linux", "rustc"].map(str::to_owned);
        let host =
            Host { cpus: 2, cpu: cpu.to_owned(), kernel, rustc, compilers: Vec::new(), rivals: vec!["kanal 1".into()] };
        let rows = vec![row("kanal", 40.0), row(SEGUE, ours), row("segue, lifo", 60.0), row("Go", 80.0)];
        let run =
            Measured { workload: "mvar".to_owned(), commit: "abc".to_owned(), budget: 20.0, rows, points: Vec::new() };
        Results { host, date: date.to_owned(), runs: vec![run] }
    }

    fn kept(runs: Vec<Results>) -> Kept {
        Kept { runs, versus: Vec::new(), summaries: Vec::new(), instructions: Vec::new() }
    }

    #[test]
    fn a_table_has_the_newest_figures_of_each_processor() {
        let all = kept(vec![results("Z", "1", 1.0), results("X", "1", 50.0), results("Z", "2", 20.0)]);
        let page = render("# Head\n\n{{table mvar}}\n\nEnd", &all).expect("it renders");
        let row = |ours: &str| format!("| `mvar` | same worker | ns | {ours} | lifo 60.0 | kanal 40.0, Go 80.0 |");
        assert!(page.starts_with("# Head\n\n2 x X, 1 at abc:\n\n| workload"), "{page}");
        assert!(page.contains(&(row("25.0 / **50.0** / 100") + " 1.25 |\n\n2 x Z, 2 at abc:\n")), "{page}");
        assert!(page.ends_with(&(row("10.0 / **20.0** / 40.0") + " 0.50 |\n\nEnd\n")), "{page}");
    }

    #[test]
    fn a_default_that_takes_over_the_bound_is_marked() {
        let page = |ours| render("{{policies}}", &kept(vec![results("X", "1", ours)])).expect("it renders");
        let row = |default: &str, best: &str, regret: &str| {
            format!("| `mvar` | same worker | ns | {default} | {best} | {regret} |\n")
        };
        let marked = page(90.0);
        assert!(marked.ends_with("In 0 of 1 rows the default takes at most 1.15 times as long as the best.\n"));
        assert!(marked.contains(&row("90.0", "lifo 60.0", "**1.50**")), "{marked}");
        assert!(page(66.0).contains(&row("66.0", "lifo 60.0", "1.10")), "{}", page(66.0));
        assert!(page(50.0).contains(&row("50.0", "the default 50.0", "1.00")), "{}", page(50.0));
        assert_eq!(render("{{policies}}", &kept(Vec::new())).expect("too"), format!("{NOT_KEPT}\n"));
    }

    #[test]
    fn each_processor_has_its_columns() {
        let text = r#"{"cpu": "Y", "commit": "def", "rows": [
            {"workload": "mvar", "variant": "same worker", "ours": [60], "ratio": [1.01]},
            {"workload": "mvar", "variant": "apart", "ours": [805, 1000], "ratio": [4.3, 7]}]}"#;
        let summaries = vec![serde_json::from_str(text).expect("a summary")];
        let kept = Kept { summaries, ..kept(vec![results("Z", "1", 20.0), results("X", "1", 50.0)]) };
        let page = render("{{processors}}", &kept).expect("it renders");
        assert!(
            page.starts_with("| workload | variant | Y at def | ratio | 2 x X | ratio | 2 x Z | ratio |\n"),
            "{page}"
        );
        assert!(page.contains("\n| `mvar` | same worker | 60.0 | 1.01 | 50.0 | 1.25 | 20.0 | 0.50 |\n"), "{page}");
        assert!(page.ends_with("\n| `mvar` | apart | 805 to 1000 | 4.30 to 7.00 |  |  |  |  |\n"), "{page}");
    }

    #[test]
    fn figures_in_the_text_come_from_the_files() {
        let all = kept(vec![results("X", "1", 50.0)]);
        let text = "{{median mvar | same worker | Go}} and {{ratio mvar | same worker | segue | kanal}}.";
        assert_eq!(render(text, &all).expect("it renders"), "80.0 and 1.25.\n");
        assert_eq!(render(text, &kept(Vec::new())).expect("too"), format!("{NOT_KEPT} and {NOT_KEPT}.\n"));
        for fault in ["{{medium mvar}}", "{{median mvar | same worker}}", "{{table no_such}}", "{{median"] {
            assert!(render(fault, &all).is_err(), "{fault}");
        }
    }

    #[test]
    fn two_commits_stand_in_one_table() {
        let host = results("X", "1", 1.0).host;
        let row = results::Pair {
            workload: "mvar".to_owned(),
            who: SEGUE.to_owned(),
            variant: "same worker".to_owned(),
            unit: "ns".to_owned(),
            before: [9.0, 10.0, 11.0],
            after: [4.0, 5.0, 6.0],
            ratio: [0.4, 0.5, 0.6],
            by_layout: vec![0.5, 0.4],
            runs: 9,
        };
        let [date, before, after] = ["1", "abc", "def"].map(str::to_owned);
        let versus = vec![Versus { host, date, before, after, budget: 20.0, rows: vec![row] }];
        let page = render("{{versus}}", &Kept { versus, ..kept(Vec::new()) }).expect("it renders");
        assert!(page.starts_with("2 x X, 1: before abc, after def:\n"), "{page}");
        assert!(page.contains("| 9.00 / **10.0** | 4.00 / **5.00** | 0.50 (0.40 to 0.60) | 0.50, 0.40 |"), "{page}");
    }

    #[test]
    fn the_best_of_ours_stands_in_front_where_each_has_a_name() {
        let mut all = results("X", "1", 50.0);
        all.runs[0].rows = vec![row("segue, ring", 20.0), row("tokio", 40.0), row("segue, epoll", 80.0)];
        let page = render("{{table mvar}}", &kept(vec![all])).expect("it renders");
        assert!(page.contains("| ring: 10.0 / **20.0** / 40.0 | epoll 80.0 | tokio 40.0 | 0.50 |"), "{page}");
    }

    fn difference(page: &str, should_be: &str) -> Option<String> {
        let pairs = page.lines().zip(should_be.lines()).enumerate();
        let lines = pairs.filter(|(_, (is, must))| is != must);
        let mut lines = lines.map(|(number, (is, must))| format!("line {}: {is}\nis not {must}", number + 1));
        lines.next().or_else(|| (page != should_be).then(|| "one is longer".to_owned()))
    }

    #[test]
    fn the_page_is_what_the_command_makes() {
        let page = std::fs::read_to_string(file()).expect("the page is there");
        let should_be = committed().expect("it renders");
        let found = difference(&page, &should_be);
        assert_eq!(found, None, "`cargo run --release -p bench -- page` writes the page");
        // Planted: a figure that somebody typed.
        assert!(difference(&page.replacen("Benchmarks", "Benchmarks 0.97", 1), &should_be).is_some());
        assert!(difference(&(page + "0.97\n"), &should_be).is_some());
    }
}
