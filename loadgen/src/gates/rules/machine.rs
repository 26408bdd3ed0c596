//! Rules about the machine and the network that the client runs on.

use super::Rule;
use crate::gates::{Blame, Check, machine};

/// Share of a core that the measuring thread may use.
pub(in crate::gates) const CPU_SHARE: f64 = 0.9;
/// Share of a point's time that the measuring thread may be ready to run without a core.
pub(in crate::gates) const RUN_WAIT_SHARE: f64 = 0.2;
/// Share of a point's time that the control group may hold threads back.
pub(in crate::gates) const THROTTLED_SHARE: f64 = 0.01;
/// Share of TCP segments that may be sent again.
pub(in crate::gates) const RETRANSMITTED: f64 = 0.001;

/// Nanoseconds by which a kernel's stamp may be off.
pub(in crate::gates) const CLOCK_NS: f64 = 25_000.0;
/// Share of kernel stamps that may lie behind the read that they belong to.
pub(in crate::gates) const BEHIND: f64 = 0.001;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "client_cpu",
        needs: "client_metrics.jsonl, manifest.json",
        measures: "CPU time of the measuring thread over the point, per second",
        threshold: Some(CPU_SHARE),
        unit: "1",
        passes: "at or below 0.9 of a core; UNDECIDED without a line before and after the point",
        why: "one thread reads everything; above nine tenths of a core reads queue behind each \
              other, and TTFT and ITL are the client's own",
        blame: Blame::Client,
        remedy: "the client is saturated: lower the load, or share it between several loadgens",
        check: Check::Point(machine::client_cpu),
    },
    Rule {
        id: "client_run_wait",
        needs: "client_metrics.jsonl, manifest.json",
        measures: "time that the measuring thread was ready to run and had no core, per second of \
                   the point",
        threshold: Some(RUN_WAIT_SHARE),
        unit: "1",
        passes: "at or below 0.2; NOT_APPLICABLE where the kernel keeps no schedstat",
        why: "who waits for a core reads late; a fifth of the time is where lags of milliseconds \
              begin (client_loop_lag sees those that are long, this one those that are many)",
        blame: Blame::Environment,
        remedy: "something else uses this machine: stop it, or give loadgen cores of its own \
                 (taskset, cpuset)",
        check: Check::Point(machine::client_run_wait),
    },
    Rule {
        id: "cgroup_throttled",
        needs: "client_metrics.jsonl, manifest.json",
        measures: "time that the control group's CPU quota held threads back, per second of the \
                   point",
        threshold: Some(THROTTLED_SHARE),
        unit: "1",
        passes: "at or below 0.01; NOT_APPLICABLE without a quota; UNDECIDED when there is one and \
                 cpu.stat cannot be read",
        why: "a quota that is used up stops the client for the rest of a 100 ms period: a stall \
              that looks like the server's",
        blame: Blame::Environment,
        remedy: "raise the container's CPU limit, or take it away",
        check: Check::Point(machine::cgroup_throttled),
    },
    Rule {
        id: "tcp_retransmits",
        needs: "client_metrics.jsonl, manifest.json",
        measures: "TCP segments of this network namespace that were sent again, of those sent",
        threshold: Some(RETRANSMITTED),
        unit: "1",
        passes: "at or below 0.001, or fewer than 3 segments",
        why: "a lost segment costs at least 200 ms, which no engine can help; one in a thousand \
              already shows at p99 of answers of ten segments. Two may be chance",
        blame: Blame::Network,
        remedy: "look for loss on the path (nstat, ethtool -S), or measure closer to the engine",
        check: Check::Point(machine::tcp_retransmits),
    },
    Rule {
        id: "clock_uncertainty",
        needs: "manifest.json (kernel_clock)",
        measures: "half the widest bracket by which the kernel's stamps were put on the monotonic \
                   clock",
        threshold: Some(CLOCK_NS),
        unit: "ns",
        passes: "at or below 25000, and at most one stamp in a thousand lies behind its own read; \
                 NOT_APPLICABLE without such stamps (client.kernel_stamps: off, or the system gives \
                 none); UNDECIDED when they are on and no bracket was narrow enough",
        why: "a stamp is known to half its bracket, and 25 us are a tenth of the smallest gap that \
              engines show; a stamp behind its read says that the wall clock was being moved",
        blame: Blame::Environment,
        remedy: "let nothing set the wall clock during a run (slewing is no harm), give loadgen a \
                 free core, or leave the kernel's stamps out (client.kernel_stamps: off)",
        check: Check::Run(machine::clock_uncertainty),
    },
];
