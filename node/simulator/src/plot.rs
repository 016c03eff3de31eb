//! Curves over time as an SVG: seconds on the x-axis; logarithmic milliseconds, or counts from 0, on the y-axis.

use crate::report::Sample;
use std::{collections::BTreeMap, fmt::Write};

/// Points of one engine, in seconds and units of the y-axis, with their name and colour.
pub struct Curve {
    pub name: &'static str,
    pub colour: &'static str,
    pub points: Vec<(f64, f64)>,
}

/// Colours that are easy to tell apart, also without colour vision.
pub const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444"];

/// Transactions of this time are one point, µs.
const POINT_US: u64 = 100_000;

/// The slowest of these transactions for each tenth of a second of their submission, in seconds and milliseconds.
pub fn slowest<'a>(transactions: impl IntoIterator<Item = &'a Sample>) -> Vec<(f64, f64)> {
    let mut slowest = BTreeMap::<u64, u64>::new();
    for sample in transactions {
        let latency_us = slowest.entry(sample.submitted_us / POINT_US).or_default();
        *latency_us = sample.latency_us.max(*latency_us);
    }
    let point = |(tenth, us): (u64, u64)| ((tenth as f64 + 0.5) / 10.0, us as f64 / 1_000.0);
    slowest.into_iter().map(point).collect()
}

/// The y-axis.
#[derive(Clone, Copy)]
pub enum Scale {
    /// From one power of ten to another, milliseconds.
    Milliseconds(f64, f64),
    /// From 0 to at least this count.
    Count(f64),
}

pub struct Plot<'a> {
    pub title: &'a str,
    /// Meaning of the curves.
    pub remark: &'a str,
    /// Meaning of the seconds.
    pub axis: &'a str,
    /// Label, start and end of a shaded period, seconds.
    pub blip: Option<(&'a str, f64, f64)>,
    /// Range of the x-axis, seconds.
    pub window: (f64, f64),
    pub scale: Scale,
    pub curves: Vec<Curve>,
}

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 62.0;
const BOTTOM: f64 = 54.0;

impl Plot<'_> {
    /// Returns the whole file.
    pub fn svg(&self) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"14\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
        );
        self.shade(&mut svg);
        self.axes(&mut svg);
        for (index, curve) in self.curves.iter().enumerate() {
            self.curve(&mut svg, index, curve);
        }
        text(&mut svg, LEFT, 24.0, "start", "font-size=\"16\" font-weight=\"bold\"", self.title);
        text(&mut svg, WIDTH - RIGHT, 24.0, "end", "font-size=\"12\" fill=\"#666666\"", self.remark);
        svg.push_str("</svg>\n");
        svg
    }

    fn x(&self, seconds: f64) -> f64 {
        let (from, to) = self.window;
        LEFT + (seconds - from) / (to - from) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Milliseconds(low, high) => (value.clamp(low, high) / low).log10() / (high / low).log10(),
            Scale::Count(most) => value / round_up(most),
        };
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }

    /// Values of the lines, with their colours and labels.
    fn levels(&self) -> Vec<(f64, &'static str, String)> {
        let label = |ms: f64| if ms < 1_000.0 { format!("{ms} ms") } else { format!("{} s", ms / 1_000.0) };
        match self.scale {
            Scale::Milliseconds(low, high) => {
                let decades = (high / low).log10().round() as i32;
                let powers = (0..=decades).map(|power| low * 10f64.powi(power));
                let steps = powers.flat_map(|power| {
                    [(1.0, "#bbbbbb"), (2.0, "#e4e4e4"), (5.0, "#e4e4e4")].map(|(step, colour)| (power * step, colour))
                });
                steps.filter(|(ms, _)| *ms <= high * 1.001).map(|(ms, colour)| (ms, colour, label(ms))).collect()
            }
            Scale::Count(most) => {
                let top = round_up(most);
                (0..=5).map(|fifth| top * f64::from(fifth) / 5.0).map(|count| (count, "#e4e4e4", format!("{count}"))).collect()
            }
        }
    }

    fn shade(&self, svg: &mut String) {
        let Some((name, from, to)) = self.blip else { return };
        let (left, right) = (self.x(from), self.x(to));
        let (width, height) = (right - left, HEIGHT - TOP - BOTTOM);
        line(svg, &format!("<rect x=\"{left:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{height}\" fill=\"#eeeeee\"/>"));
        text(svg, (left + right) / 2.0, HEIGHT - BOTTOM - 8.0, "middle", "fill=\"#666666\"", name);
    }

    fn axes(&self, svg: &mut String) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for (value, colour, label) in self.levels() {
            let y = self.y(value);
            line(svg, &format!("<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"{colour}\"/>"));
            text(svg, LEFT - 8.0, y + 5.0, "end", "", &label);
        }
        let (from, to) = self.window;
        let step = [0.5, 1.0, 2.0, 5.0].into_iter().find(|step| (to - from) / step <= 16.0).unwrap_or(10.0);
        let mut seconds = (from / step).ceil() * step;
        while seconds <= to + 0.001 {
            let x = self.x(seconds);
            line(
                svg,
                &format!("<line x1=\"{x:.1}\" y1=\"{bottom}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#444444\"/>", bottom + 5.0),
            );
            text(svg, x, bottom + 20.0, "middle", "", &format!("{seconds}"));
            seconds += step;
        }
        line(svg, &format!("<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#444444\"/>"));
        text(svg, (LEFT + right) / 2.0, HEIGHT - 12.0, "middle", "", &format!("{}, seconds", self.axis));
    }

    fn curve(&self, svg: &mut String, index: usize, curve: &Curve) {
        let (from, to) = self.window;
        let shown = curve.points.iter().filter(|(at, _)| (from..=to).contains(at));
        let points = shown.map(|(at, ms)| format!("{:.1},{:.1}", self.x(*at), self.y(*ms))).collect::<Vec<_>>().join(" ");
        let colour = curve.colour;
        line(
            svg,
            &format!(
                "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-linejoin=\"round\"/>"
            ),
        );
        let width = 150f64.min((WIDTH - LEFT - RIGHT) / self.curves.len() as f64);
        let x = LEFT + width * index as f64;
        line(
            svg,
            &format!("<line x1=\"{x}\" y1=\"45\" x2=\"{}\" y2=\"45\" stroke=\"{colour}\" stroke-width=\"3\"/>", x + 26.0),
        );
        text(svg, x + 33.0, 50.0, "start", "", curve.name);
    }
}

/// The next of 1, 2 and 5 times a power of ten.
fn round_up(most: f64) -> f64 {
    let power = 10f64.powf(most.max(1.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|step| step * power).into_iter().find(|top| *top >= most).unwrap_or(most)
}

fn line(svg: &mut String, element: &str) {
    // Writes to a string cannot fail.
    let _ = writeln!(svg, "{element}");
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, style: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    line(svg, &format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {style}>{text}</text>"));
}
