//! What must be equal for two runs to be compared, as hashes.
//!
//! One hash for each of the three things that can differ (the machine, the engine, the load
//! generator) and one over all, so that a comparison can say what changed. Left out is what differs
//! between any two runs and changes no number: boot id, process ids, addresses, times.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::manifest::Manifest;

/// Hashes over what must be equal to compare two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Fingerprint {
    /// Over the other three.
    pub sha256: String,
    /// Processor, cores, kernel and its settings, limits, graphics cards.
    pub host_sha256: String,
    /// Kind, version, model, flags and settings of the engine; the local tokenizer.
    pub engine_sha256: String,
    /// Version and commit of loadgen.
    pub loadgen_sha256: String,
}

impl Fingerprint {
    /// Of what a manifest says of machine, graphics cards, engine and load generator.
    #[must_use]
    pub fn of(manifest: &Manifest) -> Self {
        let Manifest {
            host,
            gpu,
            engine,
            loadgen,
            tokenizer_sha256,
            ..
        } = manifest;
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
            "tokenizer": tokenizer_sha256,
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
    use crate::analysis::synthetic::Synthetic;

    #[test]
    fn a_hash_changes_with_what_matters_and_with_nothing_else() {
        let of = |change: &dyn Fn(&mut Manifest)| {
            let mut manifest = Synthetic::new(1).manifest;
            change(&mut manifest);
            Fingerprint::of(&manifest)
        };
        let base = of(&|_| {});
        let rebooted = of(&|m| {
            m.host.boot_id = Some("b".to_owned());
            m.host.open_files = Some(7);
            m.run_id = "other".to_owned();
        });
        assert_eq!(rebooted, base);
        let other_kernel = of(&|m| m.host.kernel = Some("6.1".to_owned()));
        assert_ne!(other_kernel.host_sha256, base.host_sha256);
        assert_ne!(other_kernel.sha256, base.sha256);
        assert_eq!(other_kernel.engine_sha256, base.engine_sha256);
        let flagged = of(&|m| m.engine.flags = vec!["--enforce-eager".to_owned()]);
        assert_ne!(flagged.engine_sha256, base.engine_sha256);
        assert_ne!(
            of(&|m| m.gpu = Some("card".to_owned())).host_sha256,
            base.host_sha256
        );
    }
}
