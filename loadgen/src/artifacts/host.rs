//! The machine that loadgen runs on, read from /proc and /sys; what cannot be read is null.
//!
//! - [`cgroup`]: the limits of the control group that this process is in, those of the groups
//!   above it included.
//! - [`sysctls`]: the kernel settings that can change a result, each with its reason.

pub(crate) mod cgroup;
mod sysctls;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use super::manifest::Host;

pub use sysctls::SYSCTLS;

const CPUS: &str = "/sys/devices/system/cpu";

/// Describes this machine.
#[must_use]
pub fn describe() -> Host {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Host {
        boot_id: boot_id(),
        cpu: cpu_model(&cpuinfo),
        cores: std::thread::available_parallelism()
            .ok()
            .and_then(|n| u32::try_from(n.get()).ok()),
        smt: line(&format!("{CPUS}/smt/active")).map(|active| active == "1"),
        numa_nodes: numbered("/sys/devices/system/node", "node"),
        governor: line(&format!("{CPUS}/cpu0/cpufreq/scaling_governor")),
        governors: governors(),
        kernel: line("/proc/sys/kernel/osrelease"),
        cgroup: cgroup::own(),
        clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        virtualisation: virtualisation(&cpuinfo),
        transparent_hugepages: line("/sys/kernel/mm/transparent_hugepage/enabled")
            .and_then(|text| chosen(&text).map(str::to_owned)),
        open_files: getrlimit(Resource::Nofile).current,
        sysctls: sysctls::read(),
    }
}

/// The boot within which monotonic stamps are comparable.
#[must_use]
pub fn boot_id() -> Option<String> {
    line("/proc/sys/kernel/random/boot_id")
}

/// The one line of a file; none when it is empty or cannot be read.
pub(crate) fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    cpuinfo
        .lines()
        .find(|l| l.starts_with("model name"))
        .and_then(|l| l.split_once(':'))
        .map(|(_, name)| name.trim().to_owned())
}

/// Entries of a directory that are `name` and a number.
fn numbered(dir: &str, name: &str) -> Option<u32> {
    let entries = fs::read_dir(dir).ok()?;
    let count = entries
        .flatten()
        .filter(|entry| {
            let file = entry.file_name();
            let number = file.to_str().and_then(|f| f.strip_prefix(name));
            number.is_some_and(|n| n.parse::<u32>().is_ok())
        })
        .count();
    u32::try_from(count).ok().filter(|&n| n > 0)
}

/// The different frequency governors of the cores.
fn governors() -> Vec<String> {
    let entries = fs::read_dir(CPUS).into_iter().flatten().flatten();
    let all: BTreeSet<String> = entries
        .filter_map(|entry| {
            let file: &Path = &entry.path().join("cpufreq/scaling_governor");
            line(file.to_str()?)
        })
        .collect();
    all.into_iter().collect()
}

/// `none`, or what the firmware says of the virtual machine; null where the processor does not
/// tell whether it is one.
fn virtualisation(cpuinfo: &str) -> Option<String> {
    let flags = cpuinfo.lines().find(|l| l.starts_with("flags"))?;
    if !flags.split_whitespace().any(|flag| flag == "hypervisor") {
        return Some("none".to_owned());
    }
    let said: Vec<String> = ["sys_vendor", "product_name"]
        .into_iter()
        .filter_map(|name| line(&format!("/sys/class/dmi/id/{name}")))
        .collect();
    Some(match said.as_slice() {
        [] => "virtual machine".to_owned(),
        _ => said.join(" "),
    })
}

/// The word in brackets: `always [madvise] never`.
fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_machine_is_told_by_its_processor() {
        let cpu = |flags: &str| virtualisation(&format!("model name : x\nflags\t\t: {flags}\n"));
        assert_eq!(cpu("fpu sse2").as_deref(), Some("none"));
        assert_ne!(cpu("fpu hypervisor sse2").as_deref(), Some("none"));
        assert_eq!(virtualisation("Features : fp asimd"), None);
        assert_eq!(
            cpu_model("model name\t: Some CPU @ 2 GHz\n").as_deref(),
            Some("Some CPU @ 2 GHz")
        );
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
    }
}
