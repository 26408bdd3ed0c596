//! Why a run cannot be analysed or shown, in one line that names the file.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::stats::spill::SpillError;

/// Why raw files could not be analysed.
#[derive(Debug, Error)]
pub enum AnalysisError {
    /// A file that must be there is not, or cannot be read or written.
    #[error("{path}: {why}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A line of a raw file is not what it should be.
    #[error("{path}:{line}: {why}", path = .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        why: String,
    },
    /// Numbers could not be sorted.
    #[error(transparent)]
    Spill(#[from] SpillError),
    /// An id that several requests end with.
    #[error("run {run}: {id} is the end of several ids; name one of {}", candidates.join(", "))]
    Ambiguous {
        /// The run.
        run: String,
        /// The id asked for.
        id: String,
        /// The ids that it could be, or the first of them.
        candidates: Vec<String>,
    },
    /// A request that the run does not have.
    #[error("run {run}: no request {id}; ids are in {path}", path = .path.display())]
    NoSuchRequest {
        /// The run.
        run: String,
        /// The id asked for.
        id: String,
        /// Where ids are.
        path: PathBuf,
    },
}

impl AnalysisError {
    pub(crate) fn file(path: &Path, why: impl ToString) -> Self {
        Self::File {
            path: path.to_path_buf(),
            why: why.to_string(),
        }
    }
}
