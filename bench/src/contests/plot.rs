//! Pictures of contests: panels with a line for each contestant, as SVG. Used by the contests.

use crate::measure::is_segue;
use crate::report::number;
use crate::results::Point;
use std::fmt::Write;

const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 220.0;
/// Room for the figures at the left of a panel, for its title, and for what is below.
const LEFT: f64 = 60.0;
const ABOVE: f64 = 30.0;
const BELOW: f64 = 44.0;
/// Two of Segue's, and those of the others.
const OURS: [&str; 2] = ["#b2182b", "#ef8a62"];
const OTHERS: [&str; 9] =
    ["#2166ac", "#1b7837", "#762a83", "#e6ab02", "#01665e", "#8c510a", "#666666", "#999999", "#67a9cf"];

/// A contestant's line.
pub struct Line {
    /// Its name.
    pub who: String,
    /// Across and up.
    pub points: Vec<(f64, f64)>,
}

/// A panel.
pub struct Panel {
    /// What goes up.
    pub title: String,
    /// What goes across.
    pub across: String,
    /// The names of 0, 1 and so on, across. Else figures stand there.
    pub names: Vec<String>,
    /// Whether up is logarithmic. Else it begins at zero.
    pub log: bool,
    /// The contestants.
    pub lines: Vec<Line>,
    /// Heights with a name.
    pub marks: Vec<(f64, String)>,
}

/// A line for each contestant, in the order of the points.
pub fn lines<'a>(
    points: impl Iterator<Item = &'a Point>,
    across: impl Fn(&Point) -> f64,
    up: &dyn Fn(&Point) -> f64,
) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for point in points {
        let at = (across(point), up(point));
        match lines.iter_mut().find(|line| line.who == point.who) {
            Some(line) => line.points.push(at),
            None => lines.push(Line { who: point.who.clone(), points: vec![at] }),
        }
    }
    lines
}

/// Draws the panels, two in a row, below the head. A contestant has its colour in all of them.
pub fn picture(head: &str, panels: &[Panel]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for line in panels.iter().flat_map(|panel| &panel.lines) {
        if !names.contains(&line.who.as_str()) {
            names.push(&line.who);
        }
    }
    let colours = colours(&names);
    let (across, down) = (LEFT + WIDTH + 20.0, ABOVE + HEIGHT + BELOW);
    let legend = names.len().div_ceil(5) as f64 * 18.0;
    let (width, height) = (2.0 * across, 30.0 + legend + down * panels.len().div_ceil(2) as f64);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"10\" y=\"18\" \
         font-size=\"12\">{}</text>\n",
        escaped(head)
    );
    for (number, name) in names.iter().enumerate() {
        let (x, y) = (10.0 + (number % 5) as f64 * 180.0, 36.0 + (number / 5) as f64 * 18.0);
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{}\" width=\"14\" height=\"3\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>",
            y - 2.0,
            colours[number],
            x + 20.0,
            y + 3.0,
            escaped(name)
        );
    }
    for (number, panel) in panels.iter().enumerate() {
        let left = (number % 2) as f64 * across + LEFT;
        let top = 30.0 + legend + (number / 2) as f64 * down + ABOVE;
        draw(&mut svg, panel, left, top, |who| colours[names.iter().position(|name| *name == who).unwrap_or(0)]);
    }
    svg + "</svg>\n"
}

fn colours(names: &[&str]) -> Vec<&'static str> {
    let (mut ours, mut others) = (OURS.iter().cycle(), OTHERS.iter().cycle());
    let next = |name: &&str| if is_segue(name) { ours.next() } else { others.next() };
    names.iter().map(next).map(|colour| *colour.expect("there are some, again and again")).collect()
}

fn draw<'a>(svg: &mut String, panel: &Panel, left: f64, top: f64, colour: impl Fn(&str) -> &'a str) {
    let bottom = top + HEIGHT;
    let all = || panel.lines.iter().flat_map(|line| &line.points);
    let ups = || all().map(|point| point.1).chain(panel.marks.iter().map(|mark| mark.0)).filter(|up| *up > 0.0);
    let (least, most) = (ups().fold(f64::MAX, f64::min), ups().fold(f64::MIN_POSITIVE, f64::max));
    let (from, to) = if panel.log { (least.min(most).log10().floor(), most.log10().ceil()) } else { (0.0, most) };
    let (first, end) = match panel.names.len() {
        0 => (0.0, all().map(|point| point.0).fold(f64::MIN_POSITIVE, f64::max)),
        names => (-0.5, names as f64 - 0.5),
    };
    let x = |across: f64| left + WIDTH * (across - first) / (end - first);
    let y = |up: f64| {
        let up = if panel.log { up.max(f64::MIN_POSITIVE).log10() } else { up };
        bottom - HEIGHT * ((up - from) / (to - from).max(1e-9)).clamp(0.0, 1.0)
    };
    let _ = writeln!(
        svg,
        "<text x=\"{left}\" y=\"{}\">{}</text>\n<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n\
         <rect x=\"{left}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"none\" stroke=\"#bbb\"/>",
        top - 8.0,
        escaped(&panel.title),
        left + WIDTH,
        bottom + 32.0,
        escaped(&panel.across)
    );
    let ticks: Vec<f64> = match panel.log {
        true => (from as i32..=to as i32).map(|power| 10f64.powi(power)).collect(),
        false => [0.0, 0.25, 0.5, 0.75, 1.0].map(|part| part * to).to_vec(),
    };
    for tick in ticks {
        let at = y(tick);
        let text = if tick == 0.0 { "0".to_owned() } else { number(tick) };
        let _ = writeln!(
            svg,
            "<line x1=\"{left}\" y1=\"{at:.1}\" x2=\"{}\" y2=\"{at:.1}\" stroke=\"#eee\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            left + WIDTH,
            left - 6.0,
            at + 4.0
        );
    }
    let named = panel.names.iter().enumerate().map(|(place, name)| (place as f64, name.clone()));
    let counted = [0.0, 0.25, 0.5, 0.75, 1.0].map(|part| (part * end, number(part * end)));
    let across: Vec<_> = if panel.names.is_empty() { counted.to_vec() } else { named.collect() };
    for (at, text) in across {
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>", x(at), bottom + 15.0);
    }
    for (up, name) in &panel.marks {
        let at = y(*up);
        let _ = writeln!(
            svg,
            "<line x1=\"{left}\" y1=\"{at:.1}\" x2=\"{}\" y2=\"{at:.1}\" stroke=\"#555\" stroke-dasharray=\"4 3\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{}</text>",
            left + WIDTH,
            left + WIDTH - 4.0,
            // Below the line where that is at the top.
            if at - top < 14.0 { at + 12.0 } else { at - 4.0 },
            escaped(name)
        );
    }
    for line in &panel.lines {
        let (mut points, mut dots) = (String::new(), String::new());
        let colour = colour(&line.who);
        for (across, up) in &line.points {
            let (x, y) = (x(*across), y(*up));
            let _ = write!(points, "{x:.1},{y:.1} ");
            let _ = write!(dots, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.2\" fill=\"{colour}\"/>");
        }
        let wide = if is_segue(&line.who) { 2.4 } else { 1.3 };
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{wide}\"/>{dots}",
            points.trim_end()
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_each_contestant_once_and_a_line_in_each_panel() {
        let line = |who: &str| Line { who: who.to_owned(), points: vec![(1.0, 10.0), (2.0, 1_000.0)] };
        let panel = |log| Panel {
            title: "up & down".to_owned(),
            across: "across".to_owned(),
            names: Vec::new(),
            log,
            lines: vec![line("segue, ring"), line("Go")],
            marks: vec![(30.0, "there".to_owned())],
        };
        let svg = picture("head <1>", &[panel(false), panel(true)]);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
        assert_eq!((svg.matches("<polyline").count(), svg.matches(">Go<").count()), (4, 1), "{svg}");
        assert!(svg.contains("head &lt;1&gt;") && svg.contains("up &amp; down"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
