//! Numbers without the traces of binary arithmetic.

/// A number that differs from a whole one only by errors of binary arithmetic becomes that one.
pub(crate) fn whole(number: f64) -> f64 {
    if (number - number.round()).abs() < 1e-6 { number.round() } else { number }
}

/// A figure for people: at most six digits after the decimal point.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
