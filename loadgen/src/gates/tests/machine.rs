//! Gates about the machine and the network that the client runs on.

use super::*;
use crate::telemetry::client::CgroupUse;

/// Seconds between the line before the direct point and the one behind it.
fn seconds(it: &Synthetic) -> f64 {
    it.client[2].t_ns.since(it.client[0].t_ns) as f64 / 1e9
}

#[test]
fn m15_a_client_without_a_core_to_spare_fails_its_own_run() {
    let mut it = Synthetic::new(20);
    let all = seconds(&it);
    it.client[2].loop_cpu_seconds = 0.95 * all;
    let cpu = gate(&it, "client_cpu", DIRECT);
    assert_eq!((cpu.status, cpu.blame), (GateStatus::Fail, Blame::Client));
    assert!(
        cpu.remedy.contains("the client is saturated"),
        "{}",
        cpu.remedy
    );
    assert_eq!(it.analyze().exit_code(), 3);

    let mut it = Synthetic::new(20);
    it.client[2].loop_run_wait_seconds = Some(0.3 * all);
    let wait = gate(&it, "client_run_wait", DIRECT);
    assert_eq!(
        (wait.status, wait.blame),
        (GateStatus::Fail, Blame::Environment)
    );
    assert!(wait.evidence.contains("30.0 %"), "{}", wait.evidence);
}

#[test]
fn a_kernel_without_schedstat_has_no_run_wait_to_judge() {
    let mut it = Synthetic::new(20);
    for line in &mut it.client {
        line.loop_run_wait_seconds = None;
    }
    assert_eq!(
        gate(&it, "client_run_wait", DIRECT).status,
        GateStatus::Undecided
    );
    for line in &mut it.client {
        line.threads = vec![crate::telemetry::client::ThreadUse {
            name: "loadgen".to_owned(),
            cpu_seconds: 1.0,
            run_wait_seconds: None,
        }];
    }
    assert_eq!(
        gate(&it, "client_run_wait", DIRECT).status,
        GateStatus::NotApplicable
    );
}

#[test]
fn a_quota_that_holds_the_client_back_fails_the_run() {
    let throttled = |share: f64, quota| {
        let mut it = Synthetic::new(20);
        let all = seconds(&it);
        it.manifest.host.cgroup.cpu_cores = quota;
        for (i, line) in it.client.iter_mut().enumerate() {
            line.cgroup = Some(CgroupUse {
                throttled_periods: i as u64,
                throttled_seconds: if i < 2 { 0.0 } else { share * all },
            });
        }
        it
    };
    let it = gate(&throttled(0.02, Some(2.0)), "cgroup_throttled", DIRECT);
    assert_eq!(
        (it.status, it.blame),
        (GateStatus::Fail, Blame::Environment)
    );
    let it = gate(&throttled(0.005, Some(2.0)), "cgroup_throttled", DIRECT);
    assert_eq!(it.status, GateStatus::Pass);
    let it = gate(&throttled(0.0, None), "cgroup_throttled", DIRECT);
    assert_eq!(it.status, GateStatus::NotApplicable);
    let mut unread = throttled(0.0, Some(2.0));
    unread.client[2].cgroup = None;
    let it = gate(&unread, "cgroup_throttled", DIRECT);
    assert_eq!(it.status, GateStatus::Undecided);
}

#[test]
fn lost_segments_point_at_the_network_and_two_are_chance() {
    let lost = |n| {
        let mut it = Synthetic::new(20);
        if let Some(tcp) = &mut it.client[2].tcp {
            tcp.retransmitted = n;
        }
        gate(&it, "tcp_retransmits", DIRECT)
    };
    assert_eq!(lost(2).status, GateStatus::Pass);
    assert_eq!(
        lost(10).status,
        GateStatus::Pass,
        "10 of 10000 are one in a thousand"
    );
    let it = lost(11);
    assert_eq!((it.status, it.blame), (GateStatus::Fail, Blame::Network));
    assert!(it.evidence.contains("11 of 10000"), "{}", it.evidence);
}

#[test]
fn a_point_between_no_two_lines_is_undecided() {
    // The line within the point is none behind it.
    for left in [1, 2] {
        let mut it = Synthetic::new(20);
        it.client.truncate(left);
        for id in ["client_cpu", "client_run_wait", "tcp_retransmits"] {
            assert_eq!(gate(&it, id, DIRECT).status, GateStatus::Undecided, "{id}");
        }
    }
}
