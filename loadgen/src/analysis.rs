//! From the raw files of a run to everything that is said about it.
//!
//! [`analyze`] reads `raw/<run-id>/` and nothing else; [`publish`] writes what follows from it.
//! Pure of clock and network: the same raw files give the same bytes wherever and whenever they
//! are analysed. Each line of `requests.jsonl` is read once, in order, and let go; its numbers
//! stay, in a fixed amount of memory ([`crate::stats::spill`]).

mod error;
pub mod lines;
pub mod publish;
#[cfg(test)]
mod schemas;
#[cfg(test)]
pub(crate) mod synthetic;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use inferscope_shared::record::SCHEMA_VERSION;
use inferscope_shared::record::request::RequestRecord;
use serde::Deserialize;

use crate::artifacts::layout::RunDir;
use crate::artifacts::manifest::{Manifest, StopReason};
use crate::attribution::waterfall::Waterfall;
use crate::attribution::{Attribution, PointBuilder, differences};
use crate::config::{ArmKind, EngineKind, Resolved};
use crate::gates::{self, Facts, Validation};
use crate::join::{Join, JoinReport};
use crate::measure::aggregate::{Aggregate, Point};
use crate::measure::point::Curves;
use crate::measure::{Asked, Measure};
use crate::reconcile::{Around, Lengths};
use crate::slo::Slo;
use crate::stats::spill::Spill;
use crate::telemetry::readings::Readings;
use crate::telemetry::usage;
use lines::Lines;

pub use error::AnalysisError;
pub use publish::publish;

/// Said of every number that the fake engine gave.
pub const CHAIN_CHECK: &str = "chain check, not a performance result";

/// What the raw files of a run say.
#[derive(Debug)]
pub struct Analysis {
    /// The run as its manifest describes it.
    pub manifest: Manifest,
    /// Its configuration.
    pub config: Resolved,
    /// Numbers per point.
    pub aggregate: Aggregate,
    /// Gates and verdict.
    pub validation: Validation,
    /// How client rows met gateway records; none without gateway records.
    pub join: Option<JoinReport>,
    /// Where the time went.
    pub attribution: Attribution,
    /// Distributions for charts, in the order of the aggregate's points.
    pub curves: Vec<Curves>,
}

impl Analysis {
    /// Exit code of the verdict: 0, 3 or 4.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        self.validation.status.exit_code()
    }

    /// What kind of path an arm is.
    #[must_use]
    pub fn arm_kind(&self, arm: &str) -> Option<ArmKind> {
        arm_kind(&self.manifest, arm)
    }

    /// What ended a point.
    #[must_use]
    pub fn stop_reason(&self, point_id: &str) -> Option<StopReason> {
        let mut runs = self.manifest.points.iter();
        runs.find(|p| p.point_id == point_id)?.stop_reason
    }

    /// Points as people compare them: by load, arms beside each other in the manifest's order.
    #[must_use]
    pub fn points_by_load(&self) -> Vec<&Point> {
        let place = |point: &Point| {
            let runs = &self.manifest.points;
            let run = runs.iter().find(|p| p.point_id == point.point_id);
            let arms = &self.manifest.arms;
            (
                run.map(|p| p.block),
                arms.iter().position(|a| a.name == point.arm),
            )
        };
        let mut points: Vec<&Point> = self.aggregate.points.iter().collect();
        points.sort_by_key(|p| place(p));
        points
    }

    /// What must be said of every number, if anything.
    #[must_use]
    pub fn notice(&self) -> Option<&str> {
        self.aggregate.notice.as_deref()
    }
}

fn arm_kind(manifest: &Manifest, arm: &str) -> Option<ArmKind> {
    let arms = &manifest.arms;
    arms.iter().find(|a| a.name == arm).map(|a| a.kind)
}

/// The raw files of a run, opened.
pub(crate) struct Raw {
    pub manifest: Manifest,
    pub config: Resolved,
    pub slo: Option<Slo>,
}

impl Raw {
    /// Reads manifest and configuration.
    pub fn open(run: &RunDir) -> Result<Self, AnalysisError> {
        let path = run.manifest();
        let manifest = Manifest::read(&path).map_err(|e| AnalysisError::file(&path, e))?;
        let path = run.config();
        let config = Resolved::read(&path).map_err(|e| AnalysisError::file(&path, e))?;
        let slo = config
            .slo
            .as_deref()
            .map(str::parse)
            .transpose()
            .map_err(|e| AnalysisError::file(&path, e))?;
        Ok(Self {
            manifest,
            config,
            slo,
        })
    }

    /// The gateway's records, if the run has any.
    pub fn join(&self, run: &RunDir, spill: &Spill) -> Result<Option<Join>, AnalysisError> {
        let path = run.gateway_records();
        let boot_id = self.manifest.host.boot_id.as_deref();
        path.is_file()
            .then(|| Join::open(&path, run.run_id(), boot_id, spill))
            .transpose()
    }
}

/// Analyses a run from its raw files.
///
/// # Errors
/// When a file is missing or unreadable, or a whole line of one is not what it should be.
pub fn analyze(run: &RunDir) -> Result<Analysis, AnalysisError> {
    analyze_within(run, &Spill::new(scratch_dirs(run)))
}

/// As [`analyze`], in the memory and on the disk of `spill`.
fn analyze_within(run: &RunDir, spill: &Spill) -> Result<Analysis, AnalysisError> {
    let raw = Raw::open(run)?;
    let mut join = raw.join(run, spill)?;
    let manifest = &raw.manifest;
    let asked = asked(&run.plan(), spill)?;
    let mut measure = Measure::new(&manifest.points, raw.slo, asked, spill);
    let mut builders = attributions(manifest, join.as_ref(), spill);

    let mut rows = Lines::open(&run.requests())?;
    while let Some(at) = rows.read::<RequestRecord>()? {
        let row = at.value;
        if !measure.push(&row) {
            let why = format!("point {} is not in manifest.json", row.point_id);
            return Err(AnalysisError::file(&run.requests(), why));
        }
        let record = match &mut join {
            Some(join) if arm_kind(manifest, &row.arm) == Some(ArmKind::Gateway) => {
                join.meet(&row)?
            }
            _ => None,
        };
        if let Some(&index) = builders.places.get(&row.point_id) {
            builders.all[index].push(&row, record.as_ref(), at.offset);
        }
        spill.check()?;
    }

    let mut points = Vec::new();
    for builder in builders.all {
        points.push(builder.finish(|offset| waterfall(&mut rows, join.as_mut(), offset))?);
    }
    let join = join.map(Join::report).transpose()?;
    let mut measured = measure.finish();
    // Nothing is said from here on that rests on what a full disk did not take.
    spill.check()?;
    let readings = Readings::read(run)?;
    for it in &mut measured {
        let around = Around::point(&readings, &it.point.point_id);
        it.point.engine = around.served().ok();
    }
    let validation = gates::judge(&Facts {
        manifest,
        config: &raw.config,
        slo: raw.slo.as_ref(),
        points: &measured,
        join: join.as_ref(),
        readings: &readings,
    });
    let notice = (manifest.engine.kind == EngineKind::Fake).then(|| CHAIN_CHECK.to_owned());
    let (mut points_of_aggregate, curves): (Vec<Point>, Vec<_>) =
        measured.into_iter().map(|m| (m.point, m.curves)).unzip();
    for (point, run) in points_of_aggregate.iter_mut().zip(&manifest.points) {
        point.telemetry = Some(usage::of(&readings, run, point));
    }
    let attribution = Attribution {
        schema_version: SCHEMA_VERSION,
        run_id: run.run_id().to_owned(),
        notice: notice.clone(),
        join: join.clone(),
        points,
        differences: differences::of(&points_of_aggregate, |arm| arm_kind(manifest, arm)),
        differences_note: differences::NOTE.to_owned(),
    };
    Ok(Analysis {
        aggregate: Aggregate {
            schema_version: SCHEMA_VERSION,
            run_id: run.run_id().to_owned(),
            notice,
            points: points_of_aggregate,
        },
        validation,
        join,
        attribution,
        curves,
        manifest: raw.manifest,
        config: raw.config,
    })
}

struct Builders {
    all: Vec<PointBuilder>,
    places: HashMap<String, usize>,
}

/// One builder per point. Without records of the client's own boot a gateway's point is seen
/// from the client alone.
fn attributions(manifest: &Manifest, join: Option<&Join>, spill: &Spill) -> Builders {
    let comparable = join.is_some_and(Join::same_boot);
    let all: Vec<PointBuilder> = manifest
        .points
        .iter()
        .map(|p| {
            let gateway = arm_kind(manifest, &p.arm) == Some(ArmKind::Gateway);
            PointBuilder::new(&p.point_id, &p.arm, gateway && comparable, spill)
        })
        .collect();
    let places = manifest
        .points
        .iter()
        .enumerate()
        .map(|(i, p)| (p.point_id.clone(), i))
        .collect();
    Builders { all, places }
}

fn waterfall(
    rows: &mut Lines,
    join: Option<&mut Join>,
    offset: u64,
) -> Result<Option<Waterfall>, AnalysisError> {
    let Some(row) = rows.at::<RequestRecord>(offset)? else {
        return Ok(None);
    };
    let record = match join.filter(|join| join.same_boot()) {
        Some(join) => join.look_up(&row.request_id)?,
        None => None,
    };
    Ok(Waterfall::of(&row, record.as_ref()))
}

#[derive(Deserialize)]
struct PlanLine {
    point_id: String,
    seq: u64,
    prompt_tokens: Option<u64>,
    output_tokens: u64,
}

/// What each arrival asked for.
fn asked(path: &Path, spill: &Spill) -> Result<Asked, AnalysisError> {
    let mut asked = Asked::new(spill);
    let mut lines = Lines::open(path)?;
    while let Some(at) = lines.read::<PlanLine>()? {
        let line = at.value;
        let lengths = Lengths {
            prompt_tokens: line.prompt_tokens,
            output_tokens: Some(line.output_tokens),
        };
        if !asked.push(&line.point_id, line.seq, lengths) {
            return Err(AnalysisError::file(
                path,
                format!("seq {} is out of order", line.seq),
            ));
        }
    }
    Ok(asked)
}

/// Where an analysis may sort what memory does not hold: in `TMPDIR` if that is set, else beside
/// the run's results, else where the system keeps temporary files.
pub(crate) fn scratch_dirs(run: &RunDir) -> Vec<PathBuf> {
    match std::env::var_os("TMPDIR") {
        Some(dir) if !dir.is_empty() => vec![dir.into()],
        _ => vec![run.roots().results().to_path_buf(), std::env::temp_dir()],
    }
}
#[cfg(test)]
mod tests;
