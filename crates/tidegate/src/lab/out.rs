//! Where reports are written.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;
use tidegate_lab::report::page;

use crate::print;

/// A page for people, and all figures for machines.
pub(crate) struct Out {
    page: PathBuf,
    figures: PathBuf,
}

impl Out {
    /// In this directory, which is made if it is missing. Whether they can be written is found out now, when nothing is
    /// lost yet.
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let out = Self { page: directory.join("report.html"), figures: directory.join("report.json") };
        for file in [&out.page, &out.figures] {
            try_to_write(file).with_context(|| file.display().to_string())?;
        }
        Ok(out)
    }

    /// Writes both, and prints where.
    pub(crate) fn write(&self, report: &Value) -> Result<()> {
        let Self { page: html, figures } = self;
        fs::write(html, page(report)).with_context(|| html.display().to_string())?;
        fs::write(figures, format!("{report:#}\n")).with_context(|| figures.display().to_string())?;
        print(format!("Report: {} (and {})\n", html.display(), figures.display()).as_bytes())
    }
}

/// Leaves everything as it is.
fn try_to_write(file: &Path) -> io::Result<()> {
    let was_there = file.symlink_metadata().is_ok();
    OpenOptions::new().append(true).create(true).open(file)?;
    if was_there { Ok(()) } else { fs::remove_file(file) }
}
