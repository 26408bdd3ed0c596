//! Limits of the control group that this process is in.
//!
//! A limit of any group above holds as well, so the tightest one counts. In a container the group
//! is usually the root of what can be seen. Version 2 and version 1 of the interface.

use std::fs;
use std::path::{Path, PathBuf};

use procfs::process::Process;

use crate::artifacts::manifest::Cgroup;

const ROOT: &str = "/sys/fs/cgroup";

/// From here on a memory limit of version 1 means none.
const NO_LIMIT_BYTES: u64 = 1 << 60;

/// The limits in force for this process.
pub fn own() -> Cgroup {
    let Some(groups) = Process::myself().ok().and_then(|me| me.cgroups().ok()) else {
        return Cgroup::default();
    };
    let mut all = Cgroup::default();
    for group in groups {
        let path = group.pathname.trim_start_matches('/');
        if group.hierarchy == 0 {
            all.path = Some(group.pathname.clone());
            tighten(&mut all, Path::new(ROOT), path, version_2);
        } else {
            // A hierarchy may be mounted under the names of several controllers.
            let names = group.controllers.join(",");
            for mount in group.controllers.iter().chain([&names]) {
                let root = Path::new(ROOT).join(mount);
                tighten(&mut all, &root, path, version_1);
            }
        }
    }
    all
}

/// Folders of the groups that hold this process's CPU time back: its own and those above it.
pub fn of_cpu() -> Vec<PathBuf> {
    let groups = Process::myself().and_then(|me| me.cgroups());
    let mut all = Vec::new();
    for group in groups.into_iter().flatten() {
        let path = group.pathname.trim_start_matches('/');
        let names = group.controllers.join(",");
        let roots = match group.hierarchy {
            0 => vec![PathBuf::from(ROOT)],
            _ if group.controllers.iter().any(|c| c == "cpu") => {
                vec![Path::new(ROOT).join("cpu"), Path::new(ROOT).join(names)]
            }
            _ => continue,
        };
        // The same hierarchy may be mounted under two names.
        if let Some(root) = roots.iter().find(|root| root.is_dir()) {
            all.extend(upwards(root, path));
        }
    }
    all
}

/// A group's folder and those above it. One that cannot be seen under its own path is the root of
/// what is mounted, as in a container.
fn upwards(root: &Path, path: &str) -> Vec<PathBuf> {
    let own = root.join(path);
    let from = if own.is_dir() { &own } else { root };
    from.ancestors()
        .take_while(|dir| dir.starts_with(root))
        .map(Path::to_path_buf)
        .collect()
}

/// Takes the tightest limits of a group and those above it.
fn tighten(all: &mut Cgroup, root: &Path, path: &str, read: fn(&Path) -> Cgroup) {
    for dir in upwards(root, path) {
        let one = read(&dir);
        all.cpu_cores = least(all.cpu_cores, one.cpu_cores, f64::min);
        all.memory_bytes = least(all.memory_bytes, one.memory_bytes, u64::min);
        all.pids = least(all.pids, one.pids, u64::min);
        all.cpuset = all.cpuset.take().or(one.cpuset);
    }
}

fn least<T>(a: Option<T>, b: Option<T>, min: fn(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(min(a, b)),
        (a, b) => a.or(b),
    }
}

fn text(dir: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(dir.join(name)).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn number(dir: &Path, name: &str) -> Option<u64> {
    text(dir, name)?.parse().ok()
}

fn version_2(dir: &Path) -> Cgroup {
    Cgroup {
        path: None,
        cpu_cores: text(dir, "cpu.max").as_deref().and_then(quota),
        memory_bytes: number(dir, "memory.max"),
        pids: number(dir, "pids.max"),
        cpuset: text(dir, "cpuset.cpus.effective"),
    }
}

fn version_1(dir: &Path) -> Cgroup {
    let cores = || {
        // -1 is no quota.
        let us = number(dir, "cpu.cfs_quota_us")?;
        let period = number(dir, "cpu.cfs_period_us").filter(|&p| p > 0)?;
        Some(us as f64 / period as f64)
    };
    Cgroup {
        path: None,
        cpu_cores: cores(),
        memory_bytes: number(dir, "memory.limit_in_bytes").filter(|&b| b < NO_LIMIT_BYTES),
        pids: number(dir, "pids.max"),
        cpuset: text(dir, "cpuset.effective_cpus"),
    }
}

/// `200000 100000` is two cores, `max 100000` no limit.
fn quota(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_limit_on_the_way_up_counts() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("a/b");
        std::fs::create_dir_all(&own).unwrap();
        let write = |dir: &str, name: &str, text: &str| {
            std::fs::write(root.path().join(dir).join(name), text).unwrap();
        };
        write("a", "cpu.max", "150000 100000\n");
        write("a/b", "cpu.max", "max 100000\n");
        write("a", "memory.max", "max\n");
        write("a/b", "memory.max", "1048576\n");
        write("a/b", "cpuset.cpus.effective", "0-1\n");
        let mut all = Cgroup::default();
        tighten(&mut all, root.path(), "a/b", version_2);
        assert_eq!(all.cpu_cores, Some(1.5));
        assert_eq!(all.memory_bytes, Some(1 << 20));
        assert_eq!(all.cpuset.as_deref(), Some("0-1"));
        assert_eq!(all.pids, None);
    }

    #[test]
    fn a_group_that_is_not_to_be_seen_is_the_root_of_what_is() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        assert_eq!(
            upwards(root, "a/b"),
            [root.join("a/b"), root.join("a"), root.to_path_buf()]
        );
        assert_eq!(upwards(root, "docker/1"), [root]);
    }

    #[test]
    fn version_1_says_no_limit_in_its_own_way() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(root.path().join(name), text).unwrap();
        write("cpu.cfs_quota_us", "-1\n");
        write("cpu.cfs_period_us", "100000\n");
        write("memory.limit_in_bytes", "9223372036854771712\n");
        let one = version_1(root.path());
        assert_eq!((one.cpu_cores, one.memory_bytes), (None, None));
        write("cpu.cfs_quota_us", "50000\n");
        assert_eq!(version_1(root.path()).cpu_cores, Some(0.5));
    }
}
