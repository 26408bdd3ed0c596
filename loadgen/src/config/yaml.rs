//! `config.resolved.yaml`: every setting written out, in a form that `-c` reads back.

use std::fmt::Write;

use inferscope_shared::units::format_duration as time;

use super::{Arm, Resolved};

impl Resolved {
    /// The configuration as YAML, defaults included.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let mut out = String::from(
            "# What the run used, defaults and flags included. Read it back with: loadgen -c FILE --run-id NEW\n",
        );
        // Writing to a String cannot fail.
        let _ = self.write_yaml(&mut out);
        out
    }

    fn write_yaml(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "version: {}", self.version)?;
        writeln!(out, "run_id: {}", text(&self.run_id))?;
        optional(out, "", "candidate_id", self.candidate_id.as_deref())?;
        writeln!(out, "seed: {}", self.seed)?;
        let path = match self.arms.as_slice() {
            [one] => one.name.as_str(),
            _ => "both",
        };
        writeln!(out, "path: {path}")?;
        writeln!(out, "arms:")?;
        for Arm {
            name, url, api_key, ..
        } in &self.arms
        {
            writeln!(out, "  {name}:")?;
            writeln!(out, "    url: {}", text(url))?;
            optional(out, "    ", "api_key", api_key.as_deref())?;
        }
        writeln!(out, "engine:")?;
        writeln!(out, "  kind: {}", word(&self.engine.kind))?;
        optional(out, "  ", "url", self.engine.url.as_deref())?;
        if let Some(pid) = self.engine.pid {
            writeln!(out, "  pid: {pid}")?;
        }
        optional(out, "  ", "process", self.engine.process.as_deref())?;
        writeln!(out, "telemetry:")?;
        writeln!(out, "  interval: {}", time(self.telemetry.interval))?;
        writeln!(out, "  engine: {}", word(&self.telemetry.engine))?;
        writeln!(out, "  process: {}", word(&self.telemetry.process))?;
        writeln!(out, "gpu: {}", word(&self.gpu))?;
        writeln!(out, "request:")?;
        writeln!(out, "  endpoint: {}", word(&self.request.endpoint))?;
        writeln!(out, "  model: {}", text(&self.request.model))?;
        if let Some(t) = self.request.temperature {
            writeln!(out, "  temperature: {t}")?;
        }
        optional(out, "  ", "body", self.request.body.as_deref())?;
        writeln!(out, "prompts:")?;
        writeln!(out, "  input_tokens: {}", self.prompts.input_tokens)?;
        writeln!(out, "  output_tokens: {}", self.prompts.output_tokens)?;
        writeln!(out, "  salt: {}", word(&self.prompts.salt))?;
        let workload = self.prompts.workload.as_ref();
        optional(
            out,
            "  ",
            "workload",
            workload.map(|w| w.display().to_string()).as_deref(),
        )?;
        let hits = self.prompts.expect_prefix_hits;
        writeln!(out, "  expect_prefix_hits: {hits}")?;
        let tokenizer = self.prompts.tokenizer.as_ref();
        optional(
            out,
            "  ",
            "tokenizer",
            tokenizer.map(|t| t.display().to_string()).as_deref(),
        )?;
        self.write_load(out)?;
        optional(out, "", "slo", self.slo.as_deref())?;
        match self.calibration {
            Some(duration) => writeln!(out, "calibration:\n  duration: {}", time(duration))?,
            None => writeln!(out, "calibration: off")?,
        }
        optional(out, "", "gateway_records", self.gateway_records.as_deref())?;
        writeln!(out, "client:")?;
        let stamps = word(&self.client.kernel_stamps);
        writeln!(out, "  kernel_stamps: {stamps}")?;
        let t = &self.timeouts;
        writeln!(out, "timeouts:")?;
        for (name, value) in [
            ("connect", t.connect),
            ("first_byte", t.first_byte),
            ("idle", t.idle),
            ("total", t.total),
            ("point", t.point),
            ("drain", t.drain),
            ("after_done", t.after_done),
            ("keep_alive", t.keep_alive),
            ("late", t.late),
            ("records", t.records),
        ] {
            writeln!(out, "  {name}: {}", time(value))?;
        }
        writeln!(
            out,
            "results_dir: {}",
            text(&self.results_dir.display().to_string())
        )
    }

    fn write_load(&self, out: &mut String) -> std::fmt::Result {
        let load = &self.load;
        writeln!(out, "load:")?;
        writeln!(out, "  arrival: {}", word(&load.arrival))?;
        if !load.concurrency.is_empty() {
            writeln!(out, "  concurrency: {:?}", load.concurrency)?;
        }
        if !load.rate.is_empty() {
            writeln!(out, "  rate: {:?}", load.rate)?;
        }
        if let Some(ramp) = load.ramp {
            writeln!(out, "  ramp: {{from: {}, to: {}}}", ramp.from, ramp.to)?;
        }
        if !load.stages.is_empty() {
            writeln!(out, "  stages:")?;
            for stage in &load.stages {
                let duration = time(stage.duration);
                writeln!(out, "    - {{rate: {}, duration: {duration}}}", stage.rate)?;
            }
        }
        if let Some(burstiness) = load.burstiness {
            writeln!(out, "  burstiness: {burstiness}")?;
        }
        if let Some(shard) = load.shard {
            writeln!(out, "  shard: {shard}")?;
        }
        if let Some(requests) = load.requests {
            writeln!(out, "  requests: {requests}")?;
        }
        if let Some(duration) = load.duration {
            writeln!(out, "  duration: {}", time(duration))?;
        }
        writeln!(out, "  warmup: {}", load.warmup)?;
        writeln!(out, "  stagger: {}", time(load.stagger))?;
        writeln!(out, "  max_in_flight: {}", load.max_in_flight)?;
        writeln!(out, "  over_limit: {}", word(&load.over_limit))?;
        writeln!(out, "  reuse: {}", load.reuse)
    }
}

fn optional(out: &mut String, indent: &str, key: &str, value: Option<&str>) -> std::fmt::Result {
    match value {
        Some(value) => writeln!(out, "{indent}{key}: {}", text(value)),
        None => Ok(()),
    }
}

/// A double-quoted scalar; JSON's escapes are YAML's too.
fn text(value: &str) -> String {
    serde_json::Value::from(value).to_string()
}

/// The word that serde uses for a choice.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}
