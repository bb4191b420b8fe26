//! A page of metrics.

use std::collections::BTreeMap;

pub(crate) struct Page(pub(crate) String);

impl Page {
    /// The sum of a metric's samples whose labels contain `label`.
    pub(crate) fn sum(&self, metric: &str, label: &str) -> u64 {
        let samples = self.0.lines().filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            let labels = name.strip_prefix(metric)?;
            let is_it = (labels.is_empty() || labels.starts_with('{')) && labels.contains(label);
            is_it.then(|| value.parse::<f64>().ok())?
        });
        samples.sum::<f64>() as u64
    }

    /// A metric's samples that are above 0, by the value of a label.
    pub(crate) fn by_label(&self, metric: &str, label: &str) -> BTreeMap<String, u64> {
        let samples = self.0.lines().filter_map(|line| {
            let (name, value) = line.strip_prefix(metric)?.rsplit_once(' ')?;
            let rest = name.split_once(&format!("{label}=\""))?.1;
            Some((rest.split('"').next()?.to_owned(), value.parse::<f64>().ok()? as u64))
        });
        samples.filter(|(_, value)| *value > 0).collect()
    }

    /// Responses with statuses of 500 and above.
    pub(crate) fn failures(&self) -> u64 {
        self.sum("ratelimiter_responses_total", "status=\"5")
    }

    /// Responses to requests that were not for the gateway itself.
    pub(crate) fn responses(&self) -> u64 {
        self.sum("ratelimiter_responses_total", "")
    }
}
