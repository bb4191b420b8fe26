//! The page: a template with the report in it. `make report-page` bundles the template from its sources in `report/`.

use serde_json::Value;

/// Everything that a browser needs, but for the data.
const TEMPLATE: &str = include_str!("../../report/bundled.html");
/// Where the data belongs.
const PLACEHOLDER: &str = "/*TIDEGATE_REPORT*/";

/// The page for this report, in one file.
pub fn page(report: &Value) -> String {
    // Nothing in the data can end the element it stands in.
    let data = report.to_string().replace('<', "\\u003c");
    TEMPLATE.replacen(PLACEHOLDER, &data, 1)
}
