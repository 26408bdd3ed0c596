//! This host: its clocks, limits, load and disk.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use inferscope_shared::clock::MonoNs;
use rustix::fs::statvfs;
use rustix::time::{ClockId, clock_getres};

use super::{Findings, Level};
use crate::artifacts::manifest::Host;
use crate::client::io::Stamping;
use crate::config::{Arrival, KernelStamps, Resolved};
use crate::preflight;

/// Clock sources that take a system call or more to read.
const SLOW_CLOCKS: [&str; 5] = ["hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies"];

/// Readings of the clock to time.
const READINGS: u64 = 10_000;

/// A reading that takes longer shows in every stamp.
const SLOW_READING_NS: u64 = 500;

/// Share of the cores that others may use before they are said to disturb.
const BUSY: f64 = 0.5;

/// Bytes of a request's record apart from its events, and of each event.
const RECORD_BYTES: u64 = 1_500;
const EVENT_BYTES: u64 = 24;

/// Room that a disk should have beside what a run needs.
const SPARE_BYTES: u64 = 1 << 30;

pub(super) fn look(config: &Resolved, host: &Host, f: &mut Findings) {
    clocks(host, f);
    kernel_stamps(config, f);
    limits(config, host, f);
    cores(host, f);
    load_now(host, f);
    disk(config, f);
}

fn clocks(host: &Host, f: &mut Findings) {
    match host.clock_source.as_deref() {
        Some(source) if SLOW_CLOCKS.contains(&source) => f.warn(
            "clock source",
            source,
            "use tsc or the hypervisor's clock: each stamp costs a system call",
        ),
        Some(source) => f.ok("clock source", source),
        None => f.ok("clock source", "not to be seen here"),
    }
    let resolution = clock_getres(ClockId::Monotonic);
    let resolution_ns = resolution.tv_sec * 1_000_000_000 + resolution.tv_nsec;
    let start = MonoNs::now();
    for _ in 0..READINGS {
        std::hint::black_box(MonoNs::now());
    }
    let each_ns = MonoNs::now().since(start) / READINGS;
    let saw = format!("resolution {resolution_ns} ns, a reading takes {each_ns} ns");
    if resolution_ns > 1_000 {
        f.add(
            "monotonic clock",
            Level::Fail,
            saw,
            Some("stamps are this coarse; use a kernel with high resolution timers"),
        );
    } else if each_ns > SLOW_READING_NS {
        f.warn(
            "monotonic clock",
            saw,
            "every stamp costs this; use tsc or the hypervisor's clock source",
        );
    } else {
        f.ok("monotonic clock", saw);
    }
    match &host.boot_id {
        Some(id) => f.ok("boot id", id.clone()),
        None => f.warn(
            "boot id",
            "cannot be read",
            "stamps of gateway and client cannot be compared; give loadgen /proc/sys/kernel/random",
        ),
    }
}

fn kernel_stamps(config: &Resolved, f: &mut Findings) {
    const CHECK: &str = "kernel receive stamps";
    if config.client.kernel_stamps == KernelStamps::Off {
        return f.ok(CHECK, "off by client.kernel_stamps");
    }
    let asked = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| TcpStream::connect(listener.local_addr()?))
        .map(|socket| Stamping::ask(&socket, config.client.kernel_stamps));
    let remedy = "times of arrival are those of the reads; nothing else is lost";
    match asked {
        Ok(Stamping::On) => f.ok(CHECK, "given by this kernel"),
        Ok(Stamping::Off) => f.ok(CHECK, "off"),
        Ok(Stamping::Refused(errno)) => f.warn(CHECK, format!("refused ({errno})"), remedy),
        Err(e) => f.warn(CHECK, format!("not tried ({e})"), remedy),
    }
}

fn limits(config: &Resolved, host: &Host, f: &mut Findings) {
    let mut faults = Vec::new();
    preflight::check_open_files(config, &mut faults);
    let files = host
        .open_files
        .map_or_else(|| "no limit".to_owned(), |n| n.to_string());
    match faults.pop() {
        Some(fault) => f.fail("open files", fault),
        None => f.ok("open files", files),
    }
    let backlog = host.sysctls.get("net.core.somaxconn");
    let highest = u64::from(preflight::most_in_flight(&config.load).1);
    match backlog.and_then(|text| text.parse::<u64>().ok()) {
        Some(backlog) if config.load.arrival == Arrival::Closed && backlog < highest => f.warn(
            "net.core.somaxconn",
            format!("{backlog}, and {highest} connections may open at once"),
            "raise it where engine and gateway run, or stagger the start (load.stagger)",
        ),
        Some(backlog) => f.ok("net.core.somaxconn", backlog.to_string()),
        None => f.ok("net.core.somaxconn", "not to be seen here"),
    }
}

fn cores(host: &Host, f: &mut Findings) {
    let slow: Vec<&str> = host
        .governors
        .iter()
        .map(String::as_str)
        .filter(|g| *g != "performance")
        .collect();
    if host.governors.is_empty() {
        f.ok("frequency governor", "not to be seen here");
    } else if slow.is_empty() {
        f.ok("frequency governor", "performance");
    } else {
        f.warn(
            "frequency governor",
            slow.join(", "),
            "set performance: cores that sleep deeply answer late",
        );
    }
    let cores = f64::from(host.cores.unwrap_or(1));
    let group = &host.cgroup;
    match group.cpu_cores {
        Some(quota) if quota < cores => f.warn(
            "CPU quota",
            format!("{quota} of {cores} cores"),
            "a group that used up its share stands still for up to 100 ms; lift the quota or bind cores instead",
        ),
        Some(quota) => f.ok("CPU quota", format!("{quota} cores")),
        None => f.ok("CPU quota", "none"),
    }
    if cores < 2.0 {
        f.warn(
            "cores",
            "1",
            "give loadgen a second core: server, gateway and its own threads share this one",
        );
    } else {
        f.ok("cores", cores.to_string());
    }
}

fn load_now(host: &Host, f: &mut Findings) {
    let cores = f64::from(host.cores.unwrap_or(1));
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = text.split(' ').next().and_then(|n| n.parse::<f64>().ok());
    let pressure = fs::read_to_string("/proc/pressure/cpu")
        .ok()
        .and_then(|text| waiting(&text));
    let mut saw = load.map_or_else(
        || "unknown".to_owned(),
        |l| format!("load {l} on {cores} cores"),
    );
    if let Some(share) = pressure {
        saw.push_str(&format!(
            ", {share} % of the time something waits for a core"
        ));
    }
    if load.is_some_and(|l| l > BUSY * cores) || pressure.is_some_and(|p| p > 100.0 * BUSY) {
        f.warn(
            "load now",
            saw,
            "wait until the machine is quiet, or run loadgen elsewhere",
        );
    } else {
        f.ok("load now", saw);
    }
}

/// `some avg10=1.23 avg60=…`: the share of the last ten seconds, in percent.
fn waiting(text: &str) -> Option<f64> {
    let some = text.lines().find(|l| l.starts_with("some"))?;
    let avg10 = some.split(' ').find_map(|w| w.strip_prefix("avg10="))?;
    avg10.parse().ok()
}

fn disk(config: &Resolved, f: &mut Findings) {
    let dir = &config.results_dir;
    if let Err(e) = preflight::writable(dir) {
        return f.fail(
            "results",
            format!(
                "results_dir {}: cannot be written ({e}); choose another with --results-dir",
                dir.display()
            ),
        );
    }
    let there = dir
        .ancestors()
        .find(|d| d.exists() && !d.as_os_str().is_empty());
    let free = match statvfs(there.unwrap_or(Path::new("."))) {
        Ok(disk) => disk.f_bavail.saturating_mul(disk.f_frsize),
        Err(e) => {
            return f.warn(
                "results",
                format!("free space unknown ({e})"),
                "look at the disk yourself",
            );
        }
    };
    let need = needed_bytes(config);
    let mib = |bytes: u64| bytes >> 20;
    let saw = match need {
        Some(need) => format!("{} MiB free, about {} MiB needed", mib(free), mib(need)),
        None => format!(
            "{} MiB free; how many requests there will be is not planned",
            mib(free)
        ),
    };
    let need = need.unwrap_or(0);
    if free < need {
        f.add(
            "results",
            Level::Fail,
            saw,
            Some("make room, or name another disk with --results-dir"),
        );
    } else if free < need.saturating_add(SPARE_BYTES) {
        f.warn(
            "results",
            saw,
            "make room: a disk that runs full ends the evidence",
        );
    } else {
        f.ok("results", saw);
    }
}

/// What the records of a run take, about: its own and those of the gateway. None where the plan
/// does not say how many there are: a closed loop that only time limits, a workload's own times.
fn needed_bytes(config: &Resolved) -> Option<u64> {
    let load = &config.load;
    let each_point = load.values().into_iter().map(|value| {
        let by_time = || {
            let rate = load.highest_rate(value)?;
            let seconds = load.duration?.as_secs_f64();
            Some(load.expected().unwrap_or(rate * seconds) as u64)
        };
        Some(load.requests.or_else(by_time)?.saturating_add(load.warmup))
    });
    let requests: u64 = each_point.sum::<Option<u64>>()?;
    let each = RECORD_BYTES + EVENT_BYTES.saturating_mul(config.prompts.output_tokens);
    let of_an_arm = requests.saturating_mul(each).saturating_mul(2);
    Some(of_an_arm.saturating_mul(config.arms.len() as u64))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Ramp;
    use crate::config::settings::Settings;

    #[test]
    fn pressure_is_that_of_the_last_ten_seconds() {
        let text = "some avg10=12.50 avg60=3.00 avg300=1.00 total=5\nfull avg10=0.00 avg60=0.00\n";
        assert_eq!(waiting(text), Some(12.5));
        assert_eq!(waiting(""), None);
    }

    #[test]
    fn the_disk_that_a_run_needs_is_known_where_its_requests_are() {
        let need = |change: &dyn Fn(&mut Settings)| {
            let mut settings = Settings {
                model: Some("m".to_owned()),
                output_tokens: Some(100),
                warmup: Some(0),
                ..Settings::default()
            };
            settings.direct.url = Some("http://h:1".to_owned());
            change(&mut settings);
            needed_bytes(&settings.resolve(false).unwrap())
        };
        let ten_seconds = Some(Duration::from_secs(10));
        let of = |requests: u64| Some(requests * 2 * (RECORD_BYTES + 100 * EVENT_BYTES));
        let counted = need(&|s| s.requests = Some(7));
        assert_eq!(counted, of(7));
        let timed = need(&|s| {
            (s.rate, s.duration) = (Some(vec![5.0, 10.0]), ten_seconds);
        });
        assert_eq!(timed, of(150));
        let ramp = need(&|s| {
            (s.ramp, s.duration) = (Some(Ramp { from: 1.0, to: 9.0 }), ten_seconds);
        });
        assert_eq!(ramp, of(50));
        let closed = need(&|s| {
            (s.concurrency, s.duration) = (Some(vec![4]), ten_seconds);
        });
        assert_eq!(closed, None);
    }
}
