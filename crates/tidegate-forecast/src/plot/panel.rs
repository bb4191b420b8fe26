//! The series and its forecasts over a part of the time.

use std::fmt::Write as _;

use super::Lines;
use super::canvas::{Anchor, Canvas};
use super::{ticks, times};
use crate::History;

#[derive(Clone, Copy)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

/// The steps from `first` to the end of the history.
pub(super) struct Panel<'a> {
    area: Area,
    history: History<'a>,
    first: usize,
}

/// What is drawn at one x coordinate: a value, or the lowest and the highest of several.
#[derive(Clone, Copy)]
struct Reach {
    x: f64,
    low: f64,
    high: f64,
}

impl<'a> Panel<'a> {
    pub(super) fn new(area: Area, history: History<'a>, first: usize) -> Self {
        Self { area, history, first }
    }

    pub(super) fn draw(&self, canvas: &mut Canvas, lines: &Lines<'_>) {
        let part = Lines {
            came: &lines.came[self.first..],
            expected: lines.expected[self.first..].to_vec(),
            low: lines.low[self.first..].to_vec(),
            high: lines.high[self.first..].to_vec(),
        };
        let top = part.top();
        self.draw_axes(canvas, top);
        let low = self.reaches(&part.low, top);
        let high = self.reaches(&part.high, top);
        canvas.path(&band(&low, &high), "band");
        canvas.path(&line(&self.reaches(part.came, top)), "came");
        canvas.path(&line(&self.reaches(&part.expected, top)), "expected");
    }

    fn draw_axes(&self, canvas: &mut Canvas, top: f64) {
        let Area { left, right, .. } = self.area;
        for value in ticks::of_values(top) {
            let y = self.y(value, top);
            canvas.path(&format!("M{left:.1} {y:.1}H{right:.1}"), if value > 0.0 { "grid" } else { "axis" });
            canvas.text(left - 8.0, y + 4.0, Anchor::End, "small", &ticks::value(value));
        }
        self.draw_times(canvas);
    }

    fn draw_times(&self, canvas: &mut Canvas) {
        let Area { left, right, bottom, .. } = self.area;
        let step = i64::from(self.history.step);
        let from = self.history.start + self.first as i64 * step;
        let to = self.history.end() - step;
        let ticks =
            if self.history.is_dated() { times::dated(from, to) } else { times::elapsed(from, to, self.history.start) };
        for tick in ticks {
            let x = left + (right - left) * (tick.second - from) as f64 / (to - from).max(1) as f64;
            canvas.path(&format!("M{x:.1} {bottom:.1}v5"), "axis");
            canvas.middle(x, bottom + 18.0, "small", &tick.label);
            if let Some(below) = tick.below {
                canvas.middle(x, bottom + 33.0, "small", &below);
            }
        }
    }

    fn y(&self, value: f64, top: f64) -> f64 {
        let Area { top: highest, bottom, .. } = self.area;
        bottom - (bottom - highest) * (value / top).clamp(0.0, 1.0)
    }

    /// A value each, or where there are more than there is room for the lowest and the highest of those that fall
    /// together. None in a gap.
    fn reaches(&self, values: &[f32], top: f64) -> Vec<Option<Reach>> {
        let Area { left, right, .. } = self.area;
        let room = (right - left) as usize;
        let last = values.len().max(2) - 1;
        let group = values.len().div_ceil(room).max(1);
        let reach = |(number, group_values): (usize, &[f32])| {
            let known = || group_values.iter().filter(|value| !value.is_nan()).map(|value| f64::from(*value));
            let (low, high) = (known().reduce(f64::min)?, known().reduce(f64::max)?);
            let x = left + (right - left) * (number * group).min(last) as f64 / last as f64;
            Some(Reach { x, low: self.y(low, top), high: self.y(high, top) })
        };
        values.chunks(group).enumerate().map(reach).collect()
    }
}

/// From value to value; through both ends of a reach, the nearer one first.
fn line(reaches: &[Option<Reach>]) -> String {
    let mut path = String::new();
    for run in reaches.split(Option::is_none) {
        let mut at: Option<f64> = None;
        for reach in run.iter().flatten() {
            let is_one = (reach.low - reach.high).abs() < 0.05;
            let is_near = at.is_none_or(|at| (reach.low - at).abs() <= (reach.high - at).abs());
            let (near, far) = if is_near { (reach.low, reach.high) } else { (reach.high, reach.low) };
            let command = if at.is_none() { 'M' } else { 'L' };
            let _infallible = write!(path, "{command}{:.1} {near:.1}", reach.x);
            if !is_one {
                let _infallible = write!(path, "V{far:.1}");
            }
            at = Some(far);
        }
        if run.len() == 1 {
            // A round end on both sides: a dot.
            path.push_str("h.01");
        }
    }
    path
}

/// What lies between two lines.
fn band(low: &[Option<Reach>], high: &[Option<Reach>]) -> String {
    let both: Vec<Option<(Reach, Reach)>> = low.iter().zip(high).map(|(low, high)| Some(((*low)?, (*high)?))).collect();
    let mut path = String::new();
    for run in both.split(Option::is_none).filter(|run| !run.is_empty()) {
        for (index, (_, high)) in run.iter().flatten().enumerate() {
            let _infallible = write!(path, "{}{:.1} {:.1}", if index == 0 { 'M' } else { 'L' }, high.x, high.high);
        }
        for (low, _) in run.iter().flatten().rev() {
            let _infallible = write!(path, "L{:.1} {:.1}", low.x, low.low);
        }
        path.push('Z');
    }
    path
}
