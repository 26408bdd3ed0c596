//! JSON Schemas of the artifacts: those in `shared/schemas/` are those of the types, and what an
//! analysis writes fits them.
//!
//! `UPDATE_SCHEMAS=1 cargo test -p loadgen schemas` rewrites them.

use std::path::{Path, PathBuf};

use inferscope_shared::record::schema;
use serde_json::Value;

use super::synthetic::Synthetic;
use crate::artifacts::manifest::Manifest;
use crate::attribution::Attribution;
use crate::doctor::Examination;
use crate::drive::lag::ClientMetrics;
use crate::gates::Validation;
use crate::measure::aggregate::Aggregate;
use crate::telemetry::engine::scrape::Snapshot;
use crate::telemetry::gpu::GpuSample;
use crate::telemetry::process::ProcessSample;
use crate::telemetry::sampler::Line;

fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("aggregate", schema::of::<Aggregate>()),
        ("attribution", schema::of::<Attribution>()),
        ("client_metrics", schema::of::<ClientMetrics>()),
        ("doctor", schema::of::<Examination>()),
        ("gpu_metrics", schema::of::<Line<GpuSample>>()),
        ("manifest", schema::of::<Manifest>()),
        ("process_metrics", schema::of::<Line<ProcessSample>>()),
        ("server_metrics", schema::of::<Line<Snapshot>>()),
        ("probe", schema::of::<crate::probe::Report>()),
        ("validation", schema::of::<Validation>()),
    ]
}

fn path_of(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/schemas");
    folder.join(format!("{name}.schema.json"))
}

#[test]
fn artifact_schemas_are_current() {
    for (name, schema) in all() {
        let path = path_of(name);
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
            std::fs::write(&path, text).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        let stored: Value = serde_json::from_str(&stored).unwrap_or_default();
        assert!(
            stored == schema,
            "{} is not that of the type: run the schema tests with UPDATE_SCHEMAS=1",
            path.display()
        );
    }
}

#[test]
fn what_an_analysis_writes_fits_its_schema() {
    let mut it = Synthetic::new(60);
    it.slo = Some("ttft=200ms,tpot=50ms,e2e=1s,success=0.99,at=p95");
    let with_limits = it.analyze();
    let without = Synthetic::new(3).analyze();
    for analysis in [with_limits, without] {
        for (name, value) in [
            (
                "aggregate",
                serde_json::to_value(&analysis.aggregate).unwrap(),
            ),
            (
                "attribution",
                serde_json::to_value(&analysis.attribution).unwrap(),
            ),
            (
                "manifest",
                serde_json::to_value(&analysis.manifest).unwrap(),
            ),
            (
                "validation",
                serde_json::to_value(&analysis.validation).unwrap(),
            ),
        ] {
            let (_, schema) = all().into_iter().find(|(n, _)| *n == name).unwrap();
            let validator = jsonschema::validator_for(&schema).unwrap();
            let faults: Vec<String> = validator
                .iter_errors(&value)
                .map(|e| format!("{name}{}: {e}", e.instance_path()))
                .collect();
            assert!(faults.is_empty(), "{faults:?}");
        }
    }
    let mut wrong = serde_json::to_value(&Synthetic::new(3).analyze().validation).unwrap();
    wrong["status"] = "FINE".into();
    let validator = jsonschema::validator_for(&schema::of::<Validation>()).unwrap();
    assert!(
        !validator.is_valid(&wrong),
        "the schema refuses what is no verdict"
    );
}
