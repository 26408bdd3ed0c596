//! One thing amiss per gate.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::copy::Copy;

const MS: u64 = 1_000_000;

/// A spoilt copy and what its gate must say.
pub struct Case {
    /// The gate.
    pub id: &'static str,
    /// What it must find.
    pub status: &'static str,
    /// Whom it must point at.
    pub blame: &'static str,
    /// What is amiss.
    pub amiss: fn(&Copy) -> Result<()>,
}

const fn case(
    id: &'static str,
    status: &'static str,
    blame: &'static str,
    amiss: fn(&Copy) -> Result<()>,
) -> Case {
    Case {
        id,
        status,
        blame,
        amiss,
    }
}

/// Every gate at least once.
pub const CASES: &[Case] = &[
    case("run_complete", "UNDECIDED", "workload", |c| {
        c.json("manifest.json", |m| {
            m["points"][0]["stop_reason"] = json!("pool_exhausted");
        })
    }),
    case("raw_written", "FAIL", "environment", |c| {
        c.json("manifest.json", |m| {
            m["disk_error"] = json!("requests.jsonl: no space left on device");
        })
    }),
    case("rows_complete", "FAIL", "environment", |c| {
        c.lines("requests.jsonl", |i, _| i != 9)
    }),
    case("engine_alive", "FAIL", "engine", |c| {
        c.json("manifest.json", |m| {
            m["points"][0]["alive_after"] = json!(false);
            m["points"][0]["alive_error"] = json!("connection refused");
        })
    }),
    case("warmup", "FAIL", "engine", |c| {
        rows(
            c,
            |r| r["phase"] == "warmup",
            |r| broken(r, "http_500", 500),
        )
    }),
    case("success_rate", "FAIL", "engine", |c| {
        rows(c, |r| seq(r) % 4 == 3, |r| broken(r, "http_503", 503))
    }),
    case("success_rate", "FAIL", "client", |c| {
        rows(c, |r| seq(r) % 4 == 3, |r| broken(r, "client_limit", 0))
    }),
    case("timing_complete", "FAIL", "client", |c| {
        rows(c, |r| seq(r) == 9, |r| r["head_ns"] = Value::Null)
    }),
    case("output_length", "FAIL", "workload", |c| {
        rows(
            c,
            |r| seq(r) % 4 == 3,
            |r| r["completion_tokens"] = json!(7),
        )
    }),
    case("token_availability", "UNDECIDED", "engine", |c| {
        rows(
            c,
            |r| seq(r) == 9,
            |r| {
                r["completion_tokens"] = Value::Null;
                r["tokens_source"] = json!("unknown");
            },
        )
    }),
    case("dispatch_lag", "FAIL", "client", |c| {
        rows(
            c,
            |_| true,
            |r| {
                let at = r["intended_ns"].as_u64().unwrap_or_default();
                r["intended_ns"] = json!(at - 20 * MS);
            },
        )
    }),
    case("client_loop_lag", "FAIL", "client", |c| {
        c.lines("client_metrics.jsonl", |_, line| {
            line["loop_lag_ms"] = json!({"n": 200, "p50": 12.0, "p99": 40.0, "max": 60.0});
            true
        })
    }),
    case("instrument_error", "FAIL", "client", |c| {
        c.json("manifest.json", |m| {
            m["calibration"]["instrument"]["ttft_error_ms"]["p99"] = json!(10_000.0);
        })
    }),
    case("sample_size", "UNDECIDED", "statistics", |c| {
        c.replace("config.resolved.yaml", "at=p50", "at=p99")
    }),
    case("join_complete", "FAIL", "gateway", |c| {
        c.lines("gateway_records.jsonl", |i, _| i != 9)
    }),
    case("records_dropped", "FAIL", "gateway", |c| {
        c.lines("gateway_records.jsonl", |i, line| {
            if line.get("header").is_some() {
                line["header"]["dropped"] = json!(1);
            }
            i != 9
        })
    }),
    case("byte_identity", "FAIL", "gateway", |c| {
        c.lines("gateway_records.jsonl", |i, line| {
            if i == 9 {
                line["sha256_downstream"] = json!("00".repeat(32));
            }
            true
        })
    }),
    case("prompt_tokens", "FAIL", "gateway", |c| {
        let through = |r: &Value| r["arm"] == "gateway" && seq(r) % 4 == 3;
        rows(c, through, |r| r["prompt_tokens"] = json!(47))
    }),
    case("completion_tokens", "FAIL", "engine", |c| {
        c.json("manifest.json", |m| {
            let check = &mut m["points"][0]["token_check"];
            let counted = check["counted_tokens"].as_u64().unwrap_or_default();
            check["counted_tokens"] = json!(counted * 4);
        })
    }),
    case("engine_restart", "FAIL", "engine", |c| {
        after(c, "process_start_time_seconds", 60.0)
    }),
    case("engine_requests", "FAIL", "environment", |c| {
        after(c, "vllm:request_success_total", 3.0)
    }),
    case("engine_prompt_tokens", "FAIL", "engine", |c| {
        after(c, "vllm:prompt_tokens_total", -32.0)
    }),
    case("engine_output_tokens", "FAIL", "environment", |c| {
        after(c, "vllm:generation_tokens_total", 24.0)
    }),
    case("prefix_hits", "FAIL", "workload", |c| {
        after(c, "vllm:prefix_cache_hits_total", 600.0)
    }),
    case("client_cpu", "FAIL", "client", |c| {
        over_time(c, |line, seconds| {
            line["loop_cpu_seconds"] = json!(0.97 * seconds);
        })
    }),
    case("client_run_wait", "FAIL", "environment", |c| {
        over_time(c, |line, seconds| {
            line["loop_run_wait_seconds"] = json!(0.4 * seconds);
        })
    }),
    case("cgroup_throttled", "FAIL", "environment", |c| {
        c.json("manifest.json", |m| {
            m["host"]["cgroup"]["cpu_cores"] = json!(0.5);
        })?;
        over_time(c, |line, seconds| {
            line["cgroup"] = json!({"throttled_periods": 3, "throttled_seconds": 0.2 * seconds});
        })
    }),
    case("tcp_retransmits", "FAIL", "network", |c| {
        over_time(c, |line, seconds| {
            let sent = (seconds * 10_000.0) as u64;
            line["tcp"] = json!({"segments_out": sent, "retransmitted": sent / 20});
        })
    }),
    case("clock_uncertainty", "FAIL", "environment", |c| {
        c.json("manifest.json", |m| {
            let clock = &mut m["kernel_clock"];
            clock["widest_ns"] = json!(4_000);
            clock["stamped"] = json!(1_000);
            clock["negative"] = json!(12);
        })
    }),
    case("gpu_isolation", "FAIL", "environment", |c| {
        on_a_card(c, |_, sample| {
            let other =
                json!({"pid": 4711, "name": "train.py", "memory_bytes": 1, "engine": false});
            if let Some(all) = sample["processes"].as_array_mut() {
                all.push(other);
            }
        })
    }),
    case("gpu_isolation", "UNDECIDED", "environment", |c| {
        c.json("manifest.json", |m| m["engine"]["kind"] = json!("vllm"))
    }),
    case("gpu_throttle", "FAIL", "environment", |c| {
        on_a_card(c, |_, sample| {
            sample["throttle"] = json!(["hw_thermal_slowdown"]);
        })
    }),
    case("gpu_clocks", "FAIL", "environment", |c| {
        on_a_card(c, |i, sample| {
            sample["sm_clock_mhz"] = json!(if i % 2 == 0 { 1_980 } else { 1_410 });
        })
    }),
];

fn seq(row: &Value) -> u64 {
    row["seq"].as_u64().unwrap_or_default()
}

/// Changes those request records that `which` names.
fn rows(copy: &Copy, which: impl Fn(&Value) -> bool, how: impl Fn(&mut Value)) -> Result<()> {
    copy.lines("requests.jsonl", |_, row| {
        if which(row) {
            how(row);
        }
        true
    })
}

fn broken(row: &mut Value, kind: &str, status: u16) {
    row["outcome"] = json!("failed");
    row["error_kind"] = json!(kind);
    row["status"] = if status == 0 {
        Value::Null
    } else {
        json!(status)
    };
}

/// Adds to a counter of each snapshot after a point; aborted requests are no answers.
fn after(copy: &Copy, name: &str, more: f64) -> Result<()> {
    let mut found = false;
    copy.lines("server_metrics.jsonl", |_, line| {
        if line["when"] != "after" {
            return true;
        }
        let metrics = line["metrics"].as_object_mut();
        let of_name = metrics.and_then(|m| {
            m.iter_mut()
                .find(|(key, _)| key.split('{').next() == Some(name) && !key.contains("abort"))
        });
        if let Some((_, value)) = of_name {
            found = true;
            *value = json!(value.as_f64().unwrap_or_default() + more);
        }
        true
    })?;
    found.then_some(()).with_context(|| format!("no {name}"))
}

/// Changes each line of the client's own state, with the seconds since the first one.
fn over_time(copy: &Copy, how: impl Fn(&mut Value, f64)) -> Result<()> {
    let mut first = None;
    copy.lines("client_metrics.jsonl", |_, line| {
        let at = line["t_ns"].as_u64().unwrap_or_default();
        let start = *first.get_or_insert(at);
        how(line, (at - start) as f64 / 1e9);
        true
    })
}

/// As if vLLM had answered, on a card that was sampled twenty times in each point.
pub fn on_a_card(copy: &Copy, how: impl Fn(usize, &mut Value)) -> Result<()> {
    copy.json("manifest.json", |m| m["engine"]["kind"] = json!("vllm"))?;
    let manifest = copy.manifest()?;
    let mut samples = Vec::new();
    for point in manifest["points"].as_array().context("points")? {
        let at = |key: &str| point[key].as_u64().context("an instant");
        let (start, end) = (at("start_ns")?, at("end_ns")?);
        for i in 0..20_u32 {
            let mut sample = json!({
                "t_ns": start + (end - start) / 20 * u64::from(i),
                "point_id": point["point_id"], "when": "during",
                "index": 0, "uuid": "GPU-1", "name": "card", "utilization": 0.9,
                "memory_used_bytes": 1, "memory_total_bytes": 2, "power_watts": 300.0,
                "energy_joules": 1.0, "sm_clock_mhz": 1_980, "sm_clock_max_mhz": 1_980,
                "memory_clock_mhz": 2_600, "temperature_celsius": 50.0, "throttle": ["gpu_idle"],
                "processes": [
                    {"pid": 1, "name": "engine", "memory_bytes": 1, "engine": true},
                ],
            });
            how(i as usize, &mut sample);
            samples.push(sample);
        }
    }
    copy.write("gpu_metrics.jsonl", &samples)
}
