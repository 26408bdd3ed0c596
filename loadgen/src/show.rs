//! Looking at a run again: what `loadgen show`, `validate` and `report` print.
//!
//! Everything is recomputed from `raw/<run-id>/`; nothing stored is trusted but raw files.
//! [`validate`] says whether the stored verdict still follows from them.

pub mod timeline;

use serde_json::{Value, json};

use crate::analysis::{Analysis, AnalysisError, analyze, publish};
use crate::artifacts::inventory;
use crate::artifacts::layout::RunDir;
use crate::gates::{Status, Validation};
use crate::report::headline;

/// Text for standard output, and the exit code that goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// What to print; ends with a line end.
    pub text: String,
    /// 0, 3 or 4 by the verdict.
    pub exit_code: u8,
}

impl Shown {
    fn json(value: &Value, exit_code: u8) -> Self {
        Self {
            text: format!("{value:#}\n"),
            exit_code,
        }
    }
}

/// The headline of an analysis, as text or JSON.
#[must_use]
pub fn summary(analysis: &Analysis, as_json: bool) -> Shown {
    let exit_code = analysis.exit_code();
    if !as_json {
        return Shown {
            text: headline::text(analysis),
            exit_code,
        };
    }
    let value = json!({
        "run_id": analysis.manifest.run_id,
        "status": analysis.validation.status,
        "interrupted": analysis.manifest.interrupted,
        "notice": analysis.notice(),
        "gates": analysis.validation.gates,
        "instrument": analysis.manifest.calibration.instrument,
        "instrument_absent": analysis.manifest.calibration.instrument_absent,
        "join": analysis.join,
        "points": analysis.aggregate.points,
        "differences": analysis.attribution.differences,
    });
    Shown::json(&value, exit_code)
}

/// `loadgen show RUN`.
///
/// # Errors
/// When the raw files cannot be analysed.
pub fn show(run: &RunDir, as_json: bool) -> Result<Shown, AnalysisError> {
    let mut shown = summary(&analyze(run)?, as_json);
    shown.exit_code = 0;
    Ok(shown)
}

/// `loadgen show RUN --request ID`: one request's timeline merged from both sides.
///
/// # Errors
/// When the raw files cannot be read or hold no such request.
pub fn request(run: &RunDir, id: &str, as_json: bool) -> Result<Shown, AnalysisError> {
    let timeline = timeline::of(run, id)?;
    if as_json {
        let value =
            serde_json::to_value(&timeline).map_err(|e| AnalysisError::file(&run.requests(), e))?;
        return Ok(Shown::json(&value, 0));
    }
    Ok(Shown {
        text: timeline.text(),
        exit_code: 0,
    })
}

/// `loadgen validate RUN`: gates and verdict anew, whether what is stored says the same, and whether
/// the raw files are as the run left them; if one is not, the exit code is that of INVALID.
///
/// # Errors
/// When the raw files cannot be analysed.
pub fn validate(run: &RunDir, as_json: bool) -> Result<Shown, AnalysisError> {
    let analysis = analyze(run)?;
    let changed = inventory::changed(run, &analysis.manifest.artifacts);
    let exit_code = if changed.is_empty() {
        analysis.exit_code()
    } else {
        Status::Invalid.exit_code()
    };
    let differs = against_stored(run, &analysis.validation);
    let validation = &analysis.validation;
    if as_json {
        let value = json!({
            "run_id": run.run_id(),
            "status": validation.status,
            "gates": validation.gates,
            "stored_differs": differs,
            "changed": changed,
        });
        return Ok(Shown::json(&value, exit_code));
    }
    let mut text = format!("{}  {}\n", validation.status.label(), run.run_id());
    for gate in &validation.gates {
        text.push_str(&headline::gate_line(gate));
        text.push('\n');
    }
    text.push_str(&headline::gate_counts(&validation.gates));
    text.push('\n');
    text.push_str(&match differs {
        None => "stored verdict: the same\n".to_owned(),
        Some(how) => format!("stored verdict: {how}\n"),
    });
    for line in changed {
        text.push_str(&format!("INVALID: changed since the run: {line}\n"));
    }
    Ok(Shown { text, exit_code })
}

/// How the stored verdict differs from the one computed now, if it does.
fn against_stored(run: &RunDir, now: &Validation) -> Option<String> {
    let path = run.validation();
    let stored = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(e) => return Some(format!("{} cannot be read ({e})", path.display())),
    };
    let stored: Validation = match serde_json::from_slice(&stored) {
        Ok(stored) => stored,
        Err(e) => return Some(format!("{} is not a verdict ({e})", path.display())),
    };
    if stored == *now {
        return None;
    }
    if stored.status != now.status {
        let (then, now) = (stored.status.label(), now.status.label());
        return Some(format!("differs: {then} then, {now} now"));
    }
    let differing: Vec<String> = now
        .gates
        .iter()
        .filter(|gate| !stored.gates.contains(gate))
        .map(|gate| format!("{} [{}]", gate.id, gate.scope))
        .collect();
    Some(format!("differs in gates: {}", differing.join(", ")))
}

/// `loadgen report RUN`: writes everything that follows from the raw files again.
///
/// # Errors
/// When the raw files cannot be analysed or a file cannot be written.
pub fn report(run: &RunDir, as_json: bool) -> Result<Shown, AnalysisError> {
    let analysis = analyze(run)?;
    let path = publish(run, &analysis)?;
    let status = analysis.validation.status;
    if as_json {
        let value = json!({
            "run_id": run.run_id(),
            "status": status,
            "report": path,
            "processed": run.processed(),
            "charts": run.charts(),
        });
        return Ok(Shown::json(&value, 0));
    }
    Ok(Shown {
        text: format!(
            "{}  {}\nreport: {}\n",
            status.label(),
            run.run_id(),
            path.display()
        ),
        exit_code: 0,
    })
}
