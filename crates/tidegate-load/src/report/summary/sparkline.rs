//! Numbers as a line of bars.

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The most bars.
const WIDTH: usize = 56;

/// A bar for each number, or for the highest of as many as share one. The highest of all is a whole bar.
pub(super) fn of(numbers: &[f64]) -> String {
    let bars = numbers.len().min(WIDTH);
    let most = numbers.iter().copied().fold(0.0, f64::max);
    let bar = |index: usize| {
        let share = &numbers[index * numbers.len() / bars..(index + 1) * numbers.len() / bars];
        let height = share.iter().copied().fold(0.0, f64::max);
        let height = if most > 0.0 { (height / most * 8.0).ceil() as usize } else { 0 };
        if height == 0 { ' ' } else { BARS[height.min(8) - 1] }
    };
    (0..bars).map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_the_numbers() {
        assert_eq!(of(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]), " ▁▂▃▄▅▆▇█");
        assert_eq!(of(&[]), "");
        assert_eq!(of(&[0.0, 0.0]), "  ");
        let long: Vec<f64> = (0..10_000).map(|number| if number == 7_777 { 5.0 } else { 0.1 }).collect();
        let line = of(&long);
        assert_eq!((line.chars().count(), line.matches('█').count()), (WIDTH, 1), "a short peak is seen");
    }
}
