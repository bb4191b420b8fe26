/// A length of time as people write it: `37.4 s`, `5 min`, `1.5 h`, `7 d`.
pub fn span(seconds: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s")];
    // The largest unit that shows it with one decimal, or fits into it at least twice.
    let suits = |unit: f64| {
        let tenths = seconds / unit * 10.0;
        tenths >= 10.0 && ((tenths - tenths.round()).abs() < 1e-6 || tenths >= 20.0)
    };
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| suits(*unit)).unwrap_or((1.0, "s"));
    let text = format!("{:.1}", seconds / unit);
    format!("{} {name}", text.strip_suffix(".0").unwrap_or(&text))
}
