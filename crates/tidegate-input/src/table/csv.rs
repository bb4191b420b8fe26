//! Lines of comma-separated values.

/// The most columns of a line.
const MOST_FIELDS: usize = 1_000;

/// The fields of a line. One in quotes may have commas in it, and quotes that stand twice.
pub(super) fn fields(line: &str) -> Result<Vec<String>, &'static str> {
    let (mut fields, mut rest) = (Vec::new(), line);
    loop {
        let (field, after) = if let Some(quoted) = rest.trim_start().strip_prefix('"') {
            quoted_field(quoted)?
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            (rest[..end].trim().to_owned(), &rest[end..])
        };
        fields.push(field);
        if fields.len() > MOST_FIELDS {
            return Err("has more than 1000 columns");
        }
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None if after.is_empty() => return Ok(fields),
            None => return Err("has something between a quote and the next comma"),
        }
    }
}

/// A field after its first quote, and what follows it.
fn quoted_field(mut rest: &str) -> Result<(String, &str), &'static str> {
    let mut field = String::new();
    loop {
        let end = rest.find('"').ok_or("has a quote that does not end")?;
        field.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                rest = more;
            }
            None => return Ok((field, rest.trim_start())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_told_apart() {
        for (line, expected) in [
            ("a", &["a"][..]),
            ("a, b ,c", &["a", "b", "c"]),
            ("a,,", &["a", "", ""]),
            ("\"a,b\",c", &["a,b", "c"]),
            ("x, \"say \"\"a\"\"\" ,y", &["x", "say \"a\"", "y"]),
            ("\"\"", &[""]),
        ] {
            assert_eq!(fields(line).expect(line), expected, "{line}");
        }
        for line in ["\"a", "\"a\"b,c", "a,\"", &",".repeat(1_000)] {
            assert!(fields(line).is_err(), "{line}");
        }
    }
}
