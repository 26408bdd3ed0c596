//! The machine that loadgen runs on, read from /proc and /sys; what cannot be read is null.

use std::fs;

use super::manifest::{Cgroup, Host};

/// Describes this machine.
#[must_use]
pub fn describe() -> Host {
    Host {
        boot_id: boot_id(),
        cpu: cpu_model(),
        cores: std::thread::available_parallelism()
            .ok()
            .and_then(|n| u32::try_from(n.get()).ok()),
        governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        kernel: line("/proc/sys/kernel/osrelease"),
        cgroup: cgroup(),
        clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    }
}

/// The boot within which monotonic stamps are comparable.
#[must_use]
pub fn boot_id() -> Option<String> {
    line("/proc/sys/kernel/random/boot_id")
}

fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    text.lines()
        .find(|l| l.starts_with("model name"))
        .and_then(|l| l.split_once(':'))
        .map(|(_, name)| name.trim().to_owned())
}

/// Limits of the group at the root of this mount, which is the process's own in a container.
fn cgroup() -> Cgroup {
    let cpu_cores = line("/sys/fs/cgroup/cpu.max").and_then(|text| {
        let (quota, period) = text.split_once(' ')?;
        Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
    });
    Cgroup {
        cpu_cores,
        memory_bytes: line("/sys/fs/cgroup/memory.max").and_then(|text| text.parse().ok()),
    }
}
