//! A plan in one line.

use serde_json::Value;

use super::Plan;

impl Plan {
    /// `profile=burst, baseRps=100, spikeRps=500, …, duration=60, limiterUrl=http://…`: what people look for in a log.
    /// Without secrets.
    pub fn about(&self) -> String {
        let mut pieces = vec![format!("profile={}", self.kind)];
        let params = self.shown.pointer("/profile/params").and_then(Value::as_object);
        let numbers = params.into_iter().flatten().filter(|(_, value)| value.is_number());
        pieces.extend(numbers.map(|(name, value)| format!("{name}={}", plainly(value))));
        pieces.push(format!("duration={}", self.duration.as_secs_f64()));
        pieces.extend(self.part.map(|part| format!("part={part}")));
        let url = ["limiterUrl", "url"].iter().find_map(|name| self.shown.get(name)).and_then(Value::as_str);
        pieces.extend(url.map(|url| format!("limiterUrl={url}")));
        pieces.join(", ")
    }
}

/// 20, though the command line gave 20.0.
fn plainly(number: &Value) -> String {
    number.as_f64().map_or_else(|| number.to_string(), |number| number.to_string())
}
