//! What a run left on disk: every file that it may have, present with its hash or absent with
//! the reason.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::layout::{RAW_FILES, RunDir};
use super::manifest::Artifact;

/// Lists the run's files. `reasons` says why one is absent, by its name.
#[must_use]
pub fn take(run: &RunDir, reasons: &[(&str, String)]) -> Vec<Artifact> {
    let mut all = Vec::new();
    for name in RAW_FILES {
        all.push(one(
            &run.raw().join(name),
            format!("raw/{}/{name}", run.run_id()),
            name,
            reasons,
        ));
    }
    for name in [
        "aggregate.json",
        "summary.csv",
        "attribution.json",
        "comparison.json",
    ] {
        all.push(one(
            &run.processed().join(name),
            format!("processed/{}/{name}", run.run_id()),
            name,
            reasons,
        ));
    }
    for chart in charts(&run.charts()) {
        all.push(one(
            &run.charts().join(&chart),
            format!("charts/{}/{chart}", run.run_id()),
            &chart,
            reasons,
        ));
    }
    for name in [
        format!("{}.md", run.run_id()),
        format!("{}.html", run.run_id()),
    ] {
        let path = run.roots().reports().join(&name);
        let shown = path.display().to_string();
        all.push(one(&path, shown, &name, reasons));
    }
    all
}

/// Raw files that are no longer as the run left them, by the hashes in its manifest: a line each.
/// What is computed from the others (the verdict) is left out.
#[must_use]
pub fn changed(run: &RunDir, stored: &[Artifact]) -> Vec<String> {
    stored
        .iter()
        .filter(|artifact| is_evidence(artifact))
        .filter_map(|artifact| {
            let name = artifact.path.rsplit('/').next()?;
            let path = run.raw().join(name);
            let was = artifact.sha256.as_deref()?;
            match sha256_of(&path) {
                Ok(is) if is == was => None,
                Ok(is) => Some(format!(
                    "{}: has sha256 {is}, the run left {was}; restore it or run again",
                    path.display()
                )),
                Err(e) => Some(format!("{}: cannot be read ({e})", path.display())),
            }
        })
        .collect()
}

/// A file of `raw/` that nothing but the run itself writes.
#[must_use]
pub fn is_evidence(artifact: &Artifact) -> bool {
    artifact.path.starts_with("raw/")
        && artifact.sha256.is_some()
        && !artifact.path.ends_with("/validation.json")
}

fn one(path: &Path, shown: String, name: &str, reasons: &[(&str, String)]) -> Artifact {
    // The manifest is being written as it is listed, and a hash cannot hold itself.
    let is_manifest = name == "manifest.json";
    let present = is_manifest || path.is_file();
    let reason = reasons
        .iter()
        .find(|(of, _)| *of == name || (of.starts_with('.') && name.ends_with(of)))
        .map_or_else(|| default_reason(name).to_owned(), |(_, why)| why.clone());
    Artifact {
        path: shown,
        present,
        reason: (!present).then_some(reason),
        sha256: if present && !is_manifest {
            sha256_of(path).ok()
        } else {
            None
        },
    }
}

/// Why a file is absent that nobody gave a reason for.
fn default_reason(name: &str) -> &'static str {
    if is_analysed(name) {
        "the analysis has not written it; loadgen report does"
    } else {
        "not produced by this version"
    }
}

/// Whether the analysis writes it.
fn is_analysed(name: &str) -> bool {
    matches!(
        name,
        "validation.json" | "aggregate.json" | "summary.csv" | "attribution.json"
    ) || name.ends_with(".svg")
        || name.ends_with(".md")
}

fn charts(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok())
        .filter(|n| n.ends_with(".svg"))
        .collect();
    names.sort();
    names
}

/// SHA-256 of a file, in hex.
///
/// # Errors
/// When it cannot be read.
pub fn sha256_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex::encode(hash.finalize())),
            n => hash.update(&buffer[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::Roots;
    use super::*;

    #[test]
    fn present_files_have_hashes_and_absent_ones_reasons() {
        let dir = tempfile::tempdir().unwrap();
        let run = Roots::new(dir.path().join("results")).run("r1");
        std::fs::create_dir_all(run.raw()).unwrap();
        std::fs::write(run.plan(), "abc").unwrap();
        let all = take(&run, &[("gpu_metrics.jsonl", "no GPU".to_owned())]);
        let find = |name: &str| all.iter().find(|a| a.path.ends_with(name)).unwrap();
        let plan = find("plan.jsonl");
        assert!(plan.present && plan.reason.is_none());
        assert_eq!(
            plan.sha256.as_deref(),
            Some("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        );
        assert_eq!(find("gpu_metrics.jsonl").reason.as_deref(), Some("no GPU"));
        assert!(find("manifest.json").present);
        assert_eq!(find("manifest.json").sha256, None);
        let reason = |name: &str| find(name).reason.clone().unwrap_or_default();
        assert!(reason("r1.html").contains("not produced by this version"));
        for name in ["aggregate.json", "validation.json", "r1.md"] {
            assert!(reason(name).contains("analysis has not written"), "{name}");
        }

        std::fs::create_dir_all(run.processed()).unwrap();
        std::fs::write(run.processed().join("aggregate.json"), "abc").unwrap();
        let all = take(&run, &[]);
        let aggregate = all.iter().find(|a| a.path.ends_with("aggregate.json"));
        assert_eq!(aggregate.unwrap().sha256, plan.sha256);
    }
}
