//! The picture of a soak: three panels over one axis of time, as SVG.

use super::Sample;
use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 90.0;
/// Room for the figures at the left, and for the words above each panel.
const LEFT: f64 = 70.0;
const ABOVE: f64 = 26.0;

type Panel = (&'static str, fn(&Sample) -> f64);

const PANELS: [Panel; 3] = [
    ("resident memory, MiB", |sample| sample.resident as f64 / (1 << 20) as f64),
    ("open descriptors", |sample| sample.descriptors as f64),
    ("fibers of connections", |sample| sample.fibers as f64),
];

/// Draws the samples. Each panel begins at zero.
pub fn picture(samples: &[Sample]) -> String {
    let end = samples.last().map_or(1.0, |sample| sample.seconds);
    let (width, height) = (LEFT + WIDTH + 10.0, (ABOVE + HEIGHT) * PANELS.len() as f64 + 30.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (number, (words, of)) in PANELS.iter().enumerate() {
        let top = number as f64 * (ABOVE + HEIGHT) + ABOVE;
        let most = samples.iter().map(of).fold(1.0, f64::max);
        let bottom = top + HEIGHT;
        let points: String = samples.iter().fold(String::new(), |mut points, sample| {
            let (x, y) = (LEFT + WIDTH * sample.seconds / end, bottom - HEIGHT * of(sample) / most);
            let _ = write!(points, "{x:.1},{y:.1} ");
            points
        });
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{}\">{words}</text>\n\
             <text x=\"{label}\" y=\"{}\" text-anchor=\"end\">{most:.0}</text>\n\
             <text x=\"{label}\" y=\"{bottom}\" text-anchor=\"end\">0</text>\n\
             <rect x=\"{LEFT}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"none\" stroke=\"#bbb\"/>\n\
             <polyline points=\"{}\" fill=\"none\" stroke=\"#2166ac\" stroke-width=\"1.5\"/>",
            top - 6.0,
            top + 10.0,
            points.trim_end(),
            label = LEFT - 6.0,
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{end:.0} s; the first third is the warm-up</text>\n</svg>",
        LEFT + WIDTH,
        height - 10.0
    );
    svg
}
