//! Everything that follows from an analysis, on disk.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Analysis, AnalysisError};
use crate::artifacts::layout::RunDir;
use crate::report::{charts, csv, markdown};

/// Writes `processed/`, `charts/`, the report and `raw/<run-id>/validation.json`, and returns the
/// report's path. What an earlier analysis wrote is replaced.
///
/// # Errors
/// When a file cannot be written; files are replaced one by one, each as a whole.
pub fn publish(run: &RunDir, analysis: &Analysis) -> Result<PathBuf, AnalysisError> {
    let processed = run.processed();
    json(&processed.join("aggregate.json"), &analysis.aggregate)?;
    json(&processed.join("attribution.json"), &analysis.attribution)?;
    write(
        &processed.join("summary.csv"),
        &csv::summary(&analysis.aggregate),
    )?;
    for (name, svg) in charts::all(analysis) {
        write(&run.charts().join(name), &svg)?;
    }
    json(&run.validation(), &analysis.validation)?;
    let report = run.report_md();
    write(&report, &markdown::report(run, analysis))?;
    Ok(report)
}

/// The text of a JSON artifact.
pub(crate) fn json_text(path: &Path, value: &impl Serialize) -> Result<String, AnalysisError> {
    serde_json::to_string_pretty(value)
        .map(|text| text + "\n")
        .map_err(|e| AnalysisError::file(path, e))
}

fn json(path: &Path, value: &impl Serialize) -> Result<(), AnalysisError> {
    write(path, &json_text(path, value)?)
}

/// Writes beside the final name and renames, so that no reader sees half a file.
fn write(path: &Path, text: &str) -> Result<(), AnalysisError> {
    let named = |e: std::io::Error| AnalysisError::file(path, e);
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(named)?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    std::fs::write(&beside, text).map_err(named)?;
    std::fs::rename(&beside, path).map_err(named)
}
