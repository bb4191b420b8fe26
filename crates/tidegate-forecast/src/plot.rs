//! A backtest as a picture: the series and what was expected, all of it and its end closely, and how good each model
//! was.

mod calendar;
mod canvas;
mod figures;
mod panel;
mod ticks;
mod times;

use crate::backtest::{Course, Outcome};
use crate::{History, span};
use calendar::Moment;
use canvas::{Anchor, Canvas};
use panel::{Area, Panel};
use tidegate_input::counted;

const WIDTH: f64 = 1_000.0;
/// Where panels begin and end, from left to right: room for numbers, and for half of a time.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 972.0;
/// Where the first panel begins, how high each is, and the room for times below it.
const FIRST: f64 = 78.0;
const PANEL: f64 = 190.0;
const GAP: f64 = 66.0;
/// A longer series has its end drawn closely besides.
const CLOSELY: usize = 360;

/// What is drawn, value by value; NaN where there is none.
struct Lines<'a> {
    came: &'a [f32],
    expected: Vec<f32>,
    low: Vec<f32>,
    high: Vec<f32>,
}

impl<'a> Lines<'a> {
    fn new(came: &'a [f32], course: &[Course]) -> Self {
        let nothing = || vec![f32::NAN; came.len()];
        let (mut expected, mut low, mut high) = (nothing(), nothing(), nothing());
        for course in course {
            put(&mut expected, course.index, &course.mean);
            put(&mut low, course.index, &course.band.0);
            put(&mut high, course.index, &course.band.1);
        }
        Self { came, expected, low, high }
    }

    /// The highest value there is room for. What was expected far above all that came would make everything else flat.
    fn top(&self) -> f64 {
        let highest = |values: &[f32]| f64::from(values.iter().copied().fold(0.0, f32::max));
        let came = highest(self.came);
        let top = came.max(highest(&self.high).min(1.5 * came));
        // Of nothing but zeros, an axis up to 1.
        if top > 0.0 { top } else { 1.0 }
    }
}

/// Each forecast up to the next one.
fn put(values: &mut [f32], index: usize, path: &[f64]) {
    for (value, expected) in values.iter_mut().skip(index).zip(path) {
        *value = *expected as f32;
    }
}

/// An SVG file that needs nothing else; at most 400 kB, however long the series is.
pub fn svg(title: &str, history: History<'_>, outcome: &Outcome) -> String {
    let lines = Lines::new(history.values, &outcome.course);
    let count = history.values.len();
    let mut canvas = Canvas::new();
    canvas.text(LEFT, 34.0, Anchor::Start, "title", &shortened(title));
    canvas.text(LEFT, 54.0, Anchor::Start, "small", &subtitle(history, outcome));
    // Not beside the title, which may be long.
    legend(&mut canvas, 54.0);
    let mut bottom = FIRST;
    let mut draw = |canvas: &mut Canvas, first: usize, height: f64| {
        let area = Area { left: LEFT, right: RIGHT, top: bottom, bottom: bottom + height };
        Panel::new(area, history, first).draw(canvas, &lines);
        bottom += height + GAP;
    };
    if count > 2 * CLOSELY {
        draw(&mut canvas, 0, PANEL);
        let last = span(CLOSELY as f64 * f64::from(history.step));
        canvas.text(LEFT, FIRST + PANEL + GAP - 12.0, Anchor::Start, "small", &format!("the last {last}"));
        draw(&mut canvas, count - CLOSELY, PANEL);
    } else {
        draw(&mut canvas, 0, 1.5 * PANEL);
    }
    let bottom = figures::draw(&mut canvas, outcome, bottom);
    canvas.finish(WIDTH, bottom + 20.0)
}

fn shortened(title: &str) -> String {
    if title.chars().count() <= 48 { title.to_owned() } else { title.chars().take(47).chain(['…']).collect() }
}

fn subtitle(history: History<'_>, outcome: &Outcome) -> String {
    let cycles: Vec<String> =
        outcome.seasons.iter().map(|season| span(season.period * f64::from(history.step))).collect();
    let cycles = if cycles.is_empty() { "no cycle".to_owned() } else { format!("cycle of {}", cycles.join(" and ")) };
    let step = span(f64::from(history.step));
    let (steps, forecasts) =
        (counted(history.values.len() as u64, "step"), counted(outcome.origins as u64, "forecast"));
    format!("{steps} of {step} · {forecasts} · {cycles}")
}

/// A second of the calendar, as `2026-01-19T16:30:00Z`.
pub fn moment(second: i64) -> String {
    Moment::new(second).whole()
}

fn legend(canvas: &mut Canvas, y: f64) {
    let mut entry = |x: f64, class: &str, is_area: bool, text: &str| {
        if is_area {
            canvas.rect(x, y - 10.0, 22.0, 11.0, class);
        } else {
            canvas.path(&format!("M{x:.1} {:.1}h22", y - 4.5), class);
        }
        canvas.text(x + 28.0, y, Anchor::Start, "label", text);
    };
    entry(620.0, "came", false, "observed");
    entry(730.0, "expected", false, "expected");
    entry(842.0, "band", true, "10 % to 90 %");
}
