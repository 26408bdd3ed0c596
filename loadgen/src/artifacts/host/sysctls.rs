//! Kernel settings that can change what is measured, each with the reason why it is noted.

use std::collections::BTreeMap;

use super::line;

/// Name under `/proc/sys` with dots, and why it is noted.
pub const SYSCTLS: [(&str, &str); 16] = [
    (
        "net.core.somaxconn",
        "bounds how many connections can wait to be accepted; a burst above it is refused or delayed by a second",
    ),
    (
        "net.core.netdev_max_backlog",
        "packets above it are dropped before TCP sees them",
    ),
    (
        "net.core.rmem_max",
        "bounds the receive buffer that a socket may ask for",
    ),
    ("net.core.wmem_max", "the same for the send buffer"),
    (
        "net.core.busy_poll",
        "spinning on the device changes latency and CPU",
    ),
    (
        "net.ipv4.tcp_rmem",
        "receive window: how much an engine can send ahead of a slow reader",
    ),
    (
        "net.ipv4.tcp_wmem",
        "send buffer: how much a write hides of a slow reader",
    ),
    (
        "net.ipv4.tcp_congestion_control",
        "decides how a stream paces over a real network",
    ),
    (
        "net.ipv4.tcp_slow_start_after_idle",
        "a kept connection starts slowly again after a pause",
    ),
    (
        "net.ipv4.tcp_max_syn_backlog",
        "half-open connections above it wait for a retry",
    ),
    (
        "net.ipv4.ip_local_port_range",
        "bounds connections to one address",
    ),
    (
        "net.ipv4.tcp_tw_reuse",
        "decides whether many short connections run out of ports",
    ),
    (
        "kernel.sched_autogroup_enabled",
        "shares the CPU by session, so a busy terminal takes from the client",
    ),
    (
        "kernel.sched_rt_runtime_us",
        "bounds how long real-time threads may run",
    ),
    ("vm.swappiness", "swapping shows up as stalls"),
    (
        "vm.overcommit_memory",
        "decides whether an engine's large mappings succeed",
    ),
];

/// The settings as they are; those that cannot be seen are left out.
pub fn read() -> BTreeMap<String, String> {
    SYSCTLS
        .iter()
        .filter_map(|(name, _)| {
            let value = line(&format!("/proc/sys/{}", name.replace('.', "/")))?;
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            Some(((*name).to_owned(), value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `UPDATE_DOCS=1 cargo test -p loadgen sysctls` rewrites the table.
    #[test]
    fn the_decision_lists_every_setting_with_its_reason() {
        const BEGIN: &str =
            "<!-- sysctls: written from loadgen/src/artifacts/host/sysctls.rs -->\n";
        const END: &str = "<!-- end of sysctls -->";
        let mut rows = "| kernel setting | why it is noted |\n| --- | --- |\n".to_owned();
        for (name, why) in SYSCTLS {
            rows.push_str(&format!("| `{name}` | {why} |\n"));
        }
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../docs/adr/0012-fingerprint.md");
        let text = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = text.split_once(BEGIN).unwrap();
        let (stored, after) = rest.split_once(END).unwrap();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, format!("{before}{BEGIN}{rows}{END}{after}")).unwrap();
        } else {
            assert_eq!(stored, rows, "run with UPDATE_DOCS=1");
        }
    }

    #[test]
    fn what_is_there_is_read_under_its_own_name() {
        let all = read();
        assert!(
            all.keys()
                .all(|name| SYSCTLS.iter().any(|(known, _)| known == name))
        );
        assert!(all.contains_key("vm.swappiness"), "{all:?}");
    }
}
