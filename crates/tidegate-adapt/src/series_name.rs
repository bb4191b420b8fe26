//! The name of the series sent to the forecaster.

/// The longest name of a series, in bytes.
pub const LONGEST_SERIES_NAME: usize = 200;

/// What distinguishes this gateway's load from others', where the operator has named no series.
#[derive(Clone, Debug, Default)]
pub struct SeriesNames {
    /// For what it sees alone: its machine and port.
    pub alone: String,
    /// For what it sees together with all gateways that share its limits: where they are shared.
    pub shared: String,
}

impl SeriesNames {
    /// The name of the series for a limit: the one that was `given`, or else one that is the same after a restart,
    /// and at every gateway that shares the limit, so that what a forecaster has learnt stays known. Two gateways
    /// that know nothing of each other have two names, or each would be advised by the mixture of both; unless each
    /// calls a Redis of its own by the same name, which only an operator can know.
    pub fn of(&self, given: Option<&str>, limit: &str, is_shared: bool) -> String {
        if let Some(given) = given {
            return given.to_owned();
        }
        let gateway = if is_shared { &self.shared } else { &self.alone };
        let mut name = format!("{gateway}/{limit}");
        name.truncate(name.floor_char_boundary(LONGEST_SERIES_NAME));
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_named_by_the_operator_or_by_where_its_limit_is() {
        let names = SeriesNames { alone: "host:8080".to_owned(), shared: "redis:6379/app".to_owned() };
        assert_eq!(names.of(Some("shop"), "default", true), "shop");
        assert_eq!(names.of(None, "default", false), "host:8080/default");
        assert_eq!(names.of(None, "default", true), "redis:6379/app/default");
        assert!(names.of(None, &"é".repeat(300), true).len() <= LONGEST_SERIES_NAME);
    }
}
