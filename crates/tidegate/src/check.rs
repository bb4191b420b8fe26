//! `tidegate check`

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use tidegate_gateway::config::{self, InvalidConfig};
use tidegate_gateway::settings::Settings;
use tidegate_input::counted;

use crate::print;

/// Check a configuration file of the gateway
///
/// Prints the first syntax error with its line, or every invalid setting with its path. Exit code 2 if something is
/// wrong. What is valid but probably not meant, such as a route that is never reached, is a warning.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The file, YAML or JSON
    #[arg(required_unless_present_any = ["schema", "reference"])]
    file: Option<PathBuf>,
    /// Print the JSON Schema of a configuration instead
    #[arg(long, conflicts_with = "file")]
    schema: bool,
    /// Print the reference of all settings, in Markdown, instead
    #[arg(long, conflicts_with_all = ["file", "schema"])]
    reference: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.schema {
        print(format!("{}\n", serde_json::to_string_pretty(&config::schema())?).as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(path) = &arguments.file else {
        print(config::reference().as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    let checked = config::read(path).and_then(|config| Settings::check(&config));
    let path = path.display();
    let (report, code) = match checked {
        Ok(settings) => {
            let [routes, limits, upstreams] = [
                (settings.routes.len(), "route"),
                (settings.limits.len(), "limit"),
                (settings.upstreams.len(), "upstream"),
            ]
            .map(|(count, noun)| counted(count as u64, noun));
            let warnings = settings.lints.iter().map(|lint| format!("{path}: warning: {lint}\n"));
            let ok = format!("{path}: ok ({routes}, {limits}, {upstreams})\n");
            let lines: Vec<String> = warnings.chain([ok]).collect();
            (lines.concat(), ExitCode::SUCCESS)
        }
        Err(InvalidConfig::Syntax(error)) => (format!("{path}: {error}\n"), ExitCode::from(2)),
        Err(InvalidConfig::Meaning(problems)) => {
            let lines: Vec<String> = problems.iter().map(|problem| format!("{path}: {problem}\n")).collect();
            (lines.concat(), ExitCode::from(2))
        }
    };
    print(report.as_bytes())?;
    Ok(code)
}
