//! Bars and lines as SVG by hand, readable on light and on dark ground.

use std::fmt::Write;

const WIDTH: f64 = 760.0;
/// Where bars begin: subjects are named left of it.
const LEFT: f64 = 250.0;
const RIGHT: f64 = 70.0;
const ROW: f64 = 24.0;
const TOP: f64 = 58.0;
const COLOURS: [&str; 8] = [
    "#4269d0", "#e07b39", "#3ca951", "#c2479c", "#8a6fd1", "#9c6b4e", "#2f9fa3", "#b3382c",
];
const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#24292f}.head{font-weight:600;font-size:15px}\
.small{font-size:12px;fill:#57606a}.axis{stroke:#8c959f;stroke-width:1}.grid{stroke:#d0d7de;stroke-width:1}\
.bar{fill:#4269d0}.more{fill:#9db4ea}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}.grid{stroke:#30363d}.more{fill:#2d4a94}}";

/// One bar a subject: a label, a figure, and a second figure on top of it.
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) unit: String,
    pub(crate) subjects: Vec<(String, f64, f64)>,
}

/// One line a series, over a logarithmic axis.
pub(crate) struct Lines {
    pub(crate) title: String,
    pub(crate) across: String,
    pub(crate) series: Vec<(String, Vec<(f64, f64)>)>,
}

impl Bars {
    pub(crate) fn svg(&self) -> String {
        let most = self
            .subjects
            .iter()
            .map(|(_, one, more)| one + more)
            .fold(f64::MIN_POSITIVE, f64::max);
        let scale = (WIDTH - LEFT - RIGHT) / most;
        let mut body = String::new();
        let mut y = TOP;
        for (label, one, more) in &self.subjects {
            let (first, second) = (one * scale, more * scale);
            text(&mut body, LEFT - 8.0, y + 14.0, "end", "", label);
            add(
                &mut body,
                &format!(
                    r#"<rect class="bar" x="{LEFT}" y="{y}" width="{first:.1}" height="17" rx="2"/>"#
                ),
            );
            if *more > 0.0 {
                let x = LEFT + first;
                add(
                    &mut body,
                    &format!(
                        r#"<rect class="more" x="{x:.1}" y="{y}" width="{second:.1}" height="17" rx="2"/>"#
                    ),
                );
            }
            let x = LEFT + first + second + 6.0;
            text(&mut body, x, y + 14.0, "start", "", &figure(one + more));
            y += ROW;
        }
        page(&self.title, &self.unit, y + 12.0, &body)
    }
}

impl Lines {
    pub(crate) fn svg(&self) -> String {
        let (left, right, bottom) = (64.0, 250.0, 300.0);
        let points = || self.series.iter().flat_map(|(_, points)| points);
        let most = points().map(|at| at.1).fold(f64::MIN_POSITIVE, f64::max);
        let first = points().map(|at| at.0).fold(f64::MAX, f64::min).max(1e-9);
        let last = points().map(|at| at.0).fold(first * 1.001, f64::max);
        let x =
            |value: f64| left + (value / first).ln() / (last / first).ln() * (WIDTH - left - right);
        let y = |value: f64| bottom - value / most * (bottom - TOP);
        let mut body = String::new();
        for part in 0..=4 {
            let value = most * f64::from(part) / 4.0;
            let (at, end) = (y(value), WIDTH - right);
            add(
                &mut body,
                &format!(
                    r#"<line class="grid" x1="{left}" x2="{end}" y1="{at:.1}" y2="{at:.1}"/>"#
                ),
            );
            text(
                &mut body,
                left - 6.0,
                at + 4.0,
                "end",
                "small",
                &figure(value),
            );
        }
        let mut marks: Vec<f64> = points().map(|at| at.0).collect();
        marks.sort_by(f64::total_cmp);
        marks.dedup();
        for mark in marks {
            text(
                &mut body,
                x(mark),
                bottom + 18.0,
                "middle",
                "small",
                &figure(mark),
            );
        }
        let middle = f64::midpoint(left, WIDTH - right);
        text(
            &mut body,
            middle,
            bottom + 36.0,
            "middle",
            "small",
            &self.across,
        );
        for (at, (name, points)) in self.series.iter().enumerate() {
            let colour = COLOURS[at % COLOURS.len()];
            let path: Vec<String> = points
                .iter()
                .map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1)))
                .collect();
            add(
                &mut body,
                &format!(
                    r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"#,
                    path.join(" ")
                ),
            );
            #[expect(clippy::cast_precision_loss, reason = "a handful of lines")]
            let row = TOP + 6.0 + at as f64 * 19.0;
            let start = WIDTH - right + 14.0;
            add(
                &mut body,
                &format!(
                    r#"<rect x="{start}" y="{row:.1}" width="12" height="4" fill="{colour}"/>"#
                ),
            );
            text(&mut body, start + 18.0, row + 6.0, "start", "small", name);
        }
        page(&self.title, "", bottom + 48.0, &body)
    }
}

fn page(title: &str, unit: &str, height: f64, body: &str) -> String {
    let mut head = String::new();
    text(&mut head, 16.0, 24.0, "start", "head", title);
    text(&mut head, 16.0, 43.0, "start", "small", unit);
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0}" role="img" aria-label="{}"><style>{STYLE}</style>{head}{body}</svg>
"#,
        escaped(title)
    )
}

fn text(into: &mut String, x: f64, y: f64, anchor: &str, class: &str, words: &str) {
    let words = escaped(words);
    add(
        into,
        &format!(
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" class="{class}">{words}</text>"#
        ),
    );
}

fn add(into: &mut String, part: &str) {
    writeln!(into, "{part}").expect("a string takes everything");
}

fn escaped(words: &str) -> String {
    words
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}

/// A figure short enough for an axis.
fn figure(value: f64) -> String {
    match value {
        large if large >= 1e6 => {
            format!("{:.3}", large / 1e6)
                .trim_end_matches('0')
                .trim_end_matches('.')
                .to_owned()
                + " M"
        }
        large if large >= 1e4 => format!("{:.0} k", large / 1e3),
        plain if plain >= 100.0 || plain.fract() == 0.0 => format!("{plain:.0}"),
        small => format!("{small:.1}"),
    }
}
