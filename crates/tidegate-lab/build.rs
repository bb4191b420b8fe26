//! Bundles the report's page (`report/`, TypeScript and uPlot from npm, by its lockfile) into one file that the binary carries.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// What the page is made of.
const SOURCES: [&str; 6] =
    ["package.json", "package-lock.json", ".npmrc", "vite.config.mjs", "tsconfig.json", "report.html"];

fn main() {
    println!("cargo::rerun-if-changed=report/src");
    println!("cargo::rerun-if-env-changed=TIDEGATE_REPORT_TEMPLATE");
    for source in SOURCES {
        println!("cargo::rerun-if-changed=report/{source}");
    }
    if let Err(reason) = bundle() {
        println!("cargo::error=the lab's report could not be bundled: {reason}");
    }
}

fn bundle() -> Result<(), String> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("there is no OUT_DIR")?);
    let page = out.join("report.html");
    // For whoever builds without a network: a page that was bundled elsewhere.
    if let Some(template) = env::var_os("TIDEGATE_REPORT_TEMPLATE") {
        return copy(Path::new(&template), &page);
    }
    let (from, to) = (Path::new("report"), out.join("report"));
    for source in SOURCES {
        copy(&from.join(source), &to.join(source))?;
    }
    copy_all(&from.join("src"), &to.join("src")).map_err(|error| format!("report/src: {error}"))?;
    npm(&to, &["ci", "--no-audit", "--no-fund", "--ignore-scripts"])?;
    npm(&to, &["run", "build"])?;
    copy(&to.join("dist/report.html"), &page)
}

fn npm(directory: &Path, arguments: &[&str]) -> Result<(), String> {
    let ran = Command::new("npm").args(arguments).current_dir(directory).output();
    let ran = ran.map_err(|error| {
        format!("npm can't be run ({error}): install Node.js 20.19 or newer, or name a page bundled elsewhere in TIDEGATE_REPORT_TEMPLATE")
    })?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(if ran.stderr.is_empty() { &ran.stdout } else { &ran.stderr }).into_owned();
    // Cargo takes one line.
    let said: Vec<&str> = said.lines().rev().take(8).collect();
    Err(format!("npm {}: {}", arguments.join(" "), said.into_iter().rev().collect::<Vec<_>>().join(" | ")))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let copied = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::copy(from, to));
    copied.map(|_| ()).map_err(|error| format!("{}: {error}", from.display()))
}

fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
