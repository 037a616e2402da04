//! The picture of latency by percentile, as SVG. Used by the report.

use std::fmt::Write;
use std::time::Duration;

use crate::figures::shown;
use crate::tally::Tally;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 40.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 50.0;
/// Points of the curve.
const POINTS: u32 = 200;

/// Across: percentiles, where each step has a tenth of the replies of the step before. Upwards: the
/// logarithm of latency.
pub(crate) fn svg(title: &str, tally: &Tally) -> String {
    let steps = (tally.replies().max(10) as f64).log10().ceil().clamp(1.0, 7.0);
    let floor = tally.percentile(0.0).as_nanos().max(1_000) as f64;
    let low = floor.log10().floor();
    let high = (tally.longest().as_nanos().max(2_000) as f64).log10().ceil().max(low + 1.0);
    let x = |step: f64| LEFT + step / steps * (WIDTH - LEFT - RIGHT);
    let y = |nanos: f64| {
        let part = (nanos.max(1.0).log10() - low) / (high - low);
        HEIGHT - BOTTOM - part.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    };
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"14\">{}</text>\n",
        escaped(title)
    );
    // Writing to a text does not fail.
    for power in low as i32..=high as i32 {
        let nanos = 10f64.powi(power);
        let (height, label) = (y(nanos), shown(Duration::from_nanos(nanos as u64)));
        line(&mut out, (LEFT, height), (WIDTH - RIGHT, height));
        let _ =
            writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", LEFT - 8.0, height + 4.0);
    }
    for step in 0..=steps as u32 {
        let across = x(step.into());
        line(&mut out, (across, TOP), (across, HEIGHT - BOTTOM));
        let percent = percent(step.into());
        let digits = step.saturating_sub(2) as usize;
        let _ = writeln!(
            out,
            "<text x=\"{across:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{percent:.digits$} %</text>",
            HEIGHT - BOTTOM + 18.0
        );
    }
    let points = (0..=POINTS).map(|point| {
        let step = f64::from(point) / f64::from(POINTS) * steps;
        format!("{:.1},{:.1}", x(step), y(tally.percentile(percent(step)).as_nanos() as f64))
    });
    let points: Vec<_> = points.collect();
    let _ = writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#1f6fb4\" stroke-width=\"2\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">replies within this latency, of {}</text>\n</svg>",
        points.join(" "),
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 10.0,
        tally.replies()
    );
    out
}

/// 0, 90, 99, 99.9 and so on.
fn percent(step: f64) -> f64 {
    100.0 * (1.0 - 10f64.powf(-step))
}

fn line(out: &mut String, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        out,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
