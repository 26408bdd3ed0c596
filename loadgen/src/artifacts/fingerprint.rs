//! What must be equal for two runs to be compared, as hashes.
//!
//! One hash for each of the three things that can differ (the machine, the engine, the load
//! generator) and one over all, so that a comparison can say what changed. Left out is what differs
//! between any two runs and changes no number: boot id, process ids, addresses, times.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::manifest::{Host, Loadgen, ManifestEngine};

/// Hashes over what must be equal to compare two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Fingerprint {
    /// Over the other three.
    pub sha256: String,
    /// Processor, cores, kernel and its settings, limits, graphics cards.
    pub host_sha256: String,
    /// Kind, version, model, flags and settings of the engine.
    pub engine_sha256: String,
    /// Version and commit of loadgen.
    pub loadgen_sha256: String,
}

impl Fingerprint {
    /// Of a machine, its graphics cards, an engine and a load generator.
    #[must_use]
    pub fn of(host: &Host, gpu: Option<&str>, engine: &ManifestEngine, loadgen: &Loadgen) -> Self {
        let host_sha256 = hash(&json!({
            "cpu": host.cpu,
            "cores": host.cores,
            "smt": host.smt,
            "numa_nodes": host.numa_nodes,
            "governors": host.governors,
            "kernel": host.kernel,
            "cpu_quota": host.cgroup.cpu_cores,
            "memory_limit": host.cgroup.memory_bytes,
            "clock_source": host.clock_source,
            "virtualisation": host.virtualisation,
            "transparent_hugepages": host.transparent_hugepages,
            "sysctls": host.sysctls,
            "gpu": gpu,
        }));
        let engine_sha256 = hash(&json!({
            "kind": engine.kind,
            "name": engine.name,
            "version": engine.version,
            "model": engine.model,
            "model_root": engine.model_root,
            "max_model_len": engine.max_model_len,
            "flags": engine.flags,
            "settings": engine.settings,
        }));
        let loadgen_sha256 = hash(&json!({"version": loadgen.version, "git": loadgen.git}));
        Self {
            sha256: hash(&json!([host_sha256, engine_sha256, loadgen_sha256])),
            host_sha256,
            engine_sha256,
            loadgen_sha256,
        }
    }
}

/// Keys of an object are in order, so equal values have equal text.
fn hash(value: &Value) -> String {
    hex::encode(Sha256::digest(value.to_string().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_changes_with_what_matters_and_with_nothing_else() {
        let loadgen = Loadgen {
            version: "1".to_owned(),
            git: None,
        };
        let engine = ManifestEngine::default();
        let of =
            |host: &Host, engine: &ManifestEngine| Fingerprint::of(host, None, engine, &loadgen);
        let host = Host::default();
        let base = of(&host, &engine);
        let rebooted = Host {
            boot_id: Some("b".to_owned()),
            open_files: Some(7),
            ..Host::default()
        };
        assert_eq!(of(&rebooted, &engine), base);
        let other = Host {
            kernel: Some("6.1".to_owned()),
            ..Host::default()
        };
        let changed = of(&other, &engine);
        assert_ne!(changed.host_sha256, base.host_sha256);
        assert_ne!(changed.sha256, base.sha256);
        assert_eq!(changed.engine_sha256, base.engine_sha256);
        let flagged = ManifestEngine {
            flags: vec!["--enforce-eager".to_owned()],
            ..ManifestEngine::default()
        };
        assert_ne!(of(&host, &flagged).engine_sha256, base.engine_sha256);
    }
}
