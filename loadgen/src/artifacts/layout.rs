//! Every path of a run, from two things: the results directory and the run id.
//!
//! ```text
//! results/raw/<run-id>/…   results/processed/<run-id>/…   results/charts/<run-id>/*.svg
//! reports/generated/<run-id>.md
//! ```
//!
//! A results directory called `results` keeps its reports beside it in `reports/generated`; any
//! other one keeps them inside, in `DIR/reports`, so that a run written elsewhere stays together.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// The two directories that runs of one project share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    results: PathBuf,
    reports: PathBuf,
}

impl Roots {
    /// The roots that belong to a results directory.
    #[must_use]
    pub fn new(results: impl Into<PathBuf>) -> Self {
        let results = results.into();
        let reports = if results.file_name().is_some_and(|name| name == "results") {
            results
                .parent()
                .unwrap_or(Path::new(""))
                .join("reports")
                .join("generated")
        } else {
            results.join("reports")
        };
        Self { results, reports }
    }

    /// The results directory.
    #[must_use]
    pub fn results(&self) -> &Path {
        &self.results
    }

    /// The directory of generated reports.
    #[must_use]
    pub fn reports(&self) -> &Path {
        &self.reports
    }

    /// The paths of one run.
    #[must_use]
    pub fn run(&self, run_id: &str) -> RunDir {
        RunDir {
            roots: self.clone(),
            run_id: run_id.to_owned(),
        }
    }
}

/// The paths of one run; nothing here touches the disk except [`RunDir::locate`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    roots: Roots,
    run_id: String,
}

/// Why a RUN argument names no run.
#[derive(Debug, Error)]
#[error(
    "run {run}: neither a directory with a manifest.json nor a run id under {raw}; list the runs with: ls {raw}"
)]
pub struct NoSuchRun {
    run: String,
    raw: String,
}

/// Files of `raw/<run-id>/`, in the order in which the manifest lists them.
pub const RAW_FILES: [&str; 10] = [
    "config.resolved.yaml",
    "plan.jsonl",
    "requests.jsonl",
    "client_metrics.jsonl",
    "server_metrics.jsonl",
    "gpu_metrics.jsonl",
    "process_metrics.jsonl",
    "gateway_records.jsonl",
    "validation.json",
    "manifest.json",
];

impl RunDir {
    /// Finds the run that a RUN argument names: a path to `raw/<run-id>` or a run id.
    ///
    /// # Errors
    /// When there is no manifest at either place.
    pub fn locate(run: &str, results_dir: &Path) -> Result<Self, NoSuchRun> {
        let as_path = Path::new(run);
        if as_path.join("manifest.json").is_file() {
            let full = as_path.canonicalize().unwrap_or(as_path.to_path_buf());
            if let (Some(id), Some(results)) = (
                full.file_name().and_then(|n| n.to_str()),
                full.parent().and_then(Path::parent),
            ) {
                return Ok(Roots::new(results).run(id));
            }
        }
        let by_id = Roots::new(results_dir).run(run);
        if !run.contains('/') && by_id.manifest().is_file() {
            return Ok(by_id);
        }
        Err(NoSuchRun {
            run: run.to_owned(),
            raw: results_dir.join("raw").display().to_string(),
        })
    }

    /// The run's id.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The directories that the run shares with others.
    #[must_use]
    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    /// `raw/<run-id>`.
    #[must_use]
    pub fn raw(&self) -> PathBuf {
        self.roots.results.join("raw").join(&self.run_id)
    }

    /// `processed/<run-id>`.
    #[must_use]
    pub fn processed(&self) -> PathBuf {
        self.roots.results.join("processed").join(&self.run_id)
    }

    /// `charts/<run-id>`.
    #[must_use]
    pub fn charts(&self) -> PathBuf {
        self.roots.results.join("charts").join(&self.run_id)
    }

    /// `reports/generated/<run-id>.md`.
    #[must_use]
    pub fn report_md(&self) -> PathBuf {
        self.roots.reports.join(format!("{}.md", self.run_id))
    }

    /// `raw/<run-id>/manifest.json`.
    #[must_use]
    pub fn manifest(&self) -> PathBuf {
        self.raw().join("manifest.json")
    }

    /// `raw/<run-id>/config.resolved.yaml`.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.raw().join("config.resolved.yaml")
    }

    /// `raw/<run-id>/plan.jsonl`.
    #[must_use]
    pub fn plan(&self) -> PathBuf {
        self.raw().join("plan.jsonl")
    }

    /// `raw/<run-id>/requests.jsonl`.
    #[must_use]
    pub fn requests(&self) -> PathBuf {
        self.raw().join("requests.jsonl")
    }

    /// `raw/<run-id>/client_metrics.jsonl`.
    #[must_use]
    pub fn client_metrics(&self) -> PathBuf {
        self.raw().join("client_metrics.jsonl")
    }

    /// `raw/<run-id>/server_metrics.jsonl`.
    #[must_use]
    pub fn server_metrics(&self) -> PathBuf {
        self.raw().join("server_metrics.jsonl")
    }

    /// `raw/<run-id>/process_metrics.jsonl`.
    #[must_use]
    pub fn process_metrics(&self) -> PathBuf {
        self.raw().join("process_metrics.jsonl")
    }

    /// `raw/<run-id>/gpu_metrics.jsonl`.
    #[must_use]
    pub fn gpu_metrics(&self) -> PathBuf {
        self.raw().join("gpu_metrics.jsonl")
    }

    /// `raw/<run-id>/gateway_records.jsonl`.
    #[must_use]
    pub fn gateway_records(&self) -> PathBuf {
        self.raw().join("gateway_records.jsonl")
    }

    /// `raw/<run-id>/validation.json`.
    #[must_use]
    pub fn validation(&self) -> PathBuf {
        self.raw().join("validation.json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_lie_beside_results_or_inside_any_other_directory() {
        assert_eq!(
            Roots::new("results").run("r1").report_md(),
            Path::new("reports/generated/r1.md")
        );
        assert_eq!(
            Roots::new("/x/results").run("r1").report_md(),
            Path::new("/x/reports/generated/r1.md")
        );
        assert_eq!(
            Roots::new("/x/other").run("r1").report_md(),
            Path::new("/x/other/reports/r1.md")
        );
    }

    #[test]
    fn a_run_is_found_by_id_and_by_path() {
        let dir = tempfile::tempdir().unwrap();
        let results = dir.path().canonicalize().unwrap().join("results");
        let run = Roots::new(&results).run("r1");
        std::fs::create_dir_all(run.raw()).unwrap();
        std::fs::write(run.manifest(), "{}").unwrap();

        assert_eq!(RunDir::locate("r1", &results).unwrap(), run);
        let path = run.raw();
        assert_eq!(
            RunDir::locate(path.to_str().unwrap(), Path::new("elsewhere")).unwrap(),
            run
        );
        let error = RunDir::locate("r2", &results).unwrap_err().to_string();
        assert!(error.contains("r2") && error.contains("raw"), "{error}");
    }
}
