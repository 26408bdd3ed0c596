//! Gates about the machine and the network that the client runs on.
//!
//! Lines of `client_metrics.jsonl` hold sums since the start, so a point is the difference of the
//! last line before it and the first one after it.

use super::rules::{BEHIND, CLOCK_NS, CPU_SHARE, RETRANSMITTED, RUN_WAIT_SHARE, THROTTLED_SHARE};
use super::{Facts, Finding, GateStatus};
use crate::drive::lag::ClientMetrics;
use crate::measure::point::PointMeasure;

/// Segments sent again that may be chance.
const CHANCE: u64 = 2;

/// The two lines that enclose a point most closely.
struct Enclosed<'a> {
    first: &'a ClientMetrics,
    last: &'a ClientMetrics,
    seconds: f64,
}

impl<'a> Enclosed<'a> {
    fn find(facts: &Facts<'a>, point: &PointMeasure) -> Result<Self, Finding> {
        let run = facts.point_run(&point.point.point_id);
        let Some((start, end)) = run.and_then(|r| Some((r.start_ns?, r.end_ns?))) else {
            return Err(
                Finding::undecided("the point has no recorded start and end")
                    .remedied_by("run it again to its end; what was measured is kept"),
            );
        };
        let lines = &facts.readings.client;
        let first = lines.iter().rfind(|l| l.t_ns <= start);
        let last = lines.iter().find(|l| l.t_ns >= end);
        first
            .zip(last)
            .filter(|(first, last)| first.t_ns < last.t_ns)
            .map(|(first, last)| Self {
                first,
                last,
                seconds: last.t_ns.since(first.t_ns) as f64 / 1e9,
            })
            .ok_or_else(|| {
                Finding::undecided("no two lines of client_metrics.jsonl enclose this point")
                    .remedied_by("client_metrics.jsonl is not whole: run it again to its end")
            })
    }

    /// Growth of a sum per second.
    fn per_second(&self, read: impl Fn(&ClientMetrics) -> Option<f64>) -> Option<f64> {
        let grown = read(self.last)? - read(self.first)?;
        Some((grown / self.seconds).max(0.0))
    }
}

pub(super) fn client_cpu(facts: &Facts<'_>, point: &PointMeasure) -> Finding {
    let lines = match Enclosed::find(facts, point) {
        Ok(lines) => lines,
        Err(finding) => return finding,
    };
    let share = lines
        .per_second(|l| Some(l.loop_cpu_seconds))
        .unwrap_or(0.0);
    let all = lines.per_second(|l| Some(l.cpu_seconds)).unwrap_or(0.0);
    Finding::held(
        share <= CPU_SHARE,
        GateStatus::Fail,
        format!(
            "the measuring thread used {share:.2} of a core over {:.1} s, the whole of loadgen \
             {all:.2}",
            lines.seconds
        ),
    )
    .measured(Some(share))
}

pub(super) fn client_run_wait(facts: &Facts<'_>, point: &PointMeasure) -> Finding {
    let lines = match Enclosed::find(facts, point) {
        Ok(lines) => lines,
        Err(finding) => return finding,
    };
    let Some(share) = lines.per_second(|l| l.loop_run_wait_seconds) else {
        // A kernel that keeps no schedstat keeps none for any thread.
        let any = |l: &ClientMetrics| l.threads.iter().any(|t| t.run_wait_seconds.is_some());
        return if !lines.last.threads.is_empty() && !any(lines.last) {
            Finding::not_applicable("the kernel keeps no schedstat")
        } else {
            Finding::undecided("client_metrics.jsonl has no run-queue wait of the measuring thread")
        };
    };
    Finding::held(
        share <= RUN_WAIT_SHARE,
        GateStatus::Fail,
        format!(
            "the measuring thread waited for a core {:.1} % of the time",
            share * 100.0
        ),
    )
    .measured(Some(share))
}

pub(super) fn cgroup_throttled(facts: &Facts<'_>, point: &PointMeasure) -> Finding {
    let quota = facts.manifest.host.cgroup.cpu_cores;
    let Some(cores) = quota else {
        return Finding::not_applicable("no CPU quota is set");
    };
    let lines = match Enclosed::find(facts, point) {
        Ok(lines) => lines,
        Err(finding) => return finding,
    };
    let throttled = |l: &ClientMetrics| Some(l.cgroup.as_ref()?.throttled_seconds);
    let Some(share) = lines.per_second(throttled) else {
        return Finding::undecided(format!(
            "the quota is {cores} cores, and cpu.stat of the control group could not be read"
        ));
    };
    Finding::held(
        share <= THROTTLED_SHARE,
        GateStatus::Fail,
        format!(
            "a quota of {cores} cores held threads back {:.1} % of the time",
            share * 100.0
        ),
    )
    .measured(Some(share))
}

pub(super) fn tcp_retransmits(facts: &Facts<'_>, point: &PointMeasure) -> Finding {
    let lines = match Enclosed::find(facts, point) {
        Ok(lines) => lines,
        Err(finding) => return finding,
    };
    let Some((before, after)) = lines.first.tcp.zip(lines.last.tcp) else {
        return Finding::undecided("TCP counters of the client could not be read");
    };
    let again = after.retransmitted.saturating_sub(before.retransmitted);
    let sent = after.segments_out.saturating_sub(before.segments_out);
    let share = again as f64 / sent.max(1) as f64;
    Finding::held(
        again <= CHANCE || share <= RETRANSMITTED,
        GateStatus::Fail,
        format!("{again} of {sent} segments were sent again"),
    )
    .measured(Some(share))
}

pub(super) fn clock_uncertainty(facts: &Facts<'_>) -> Finding {
    let Some(clock) = &facts.manifest.kernel_clock else {
        return if facts.manifest.finished {
            Finding::not_applicable("this run has no stamps of the kernel's")
        } else {
            Finding::undecided("loadgen itself was ended before it could say")
                .remedied_by("run it again to its end")
        };
    };
    if clock.stamped == 0 && clock.unusable == 0 {
        let why = clock.reason.as_deref().unwrap_or("no event had one");
        return Finding::not_applicable(format!(
            "stamps of the kernel's: {}, {why}; the reads' own are used",
            clock.stamps
        ));
    }
    let Some(widest) = clock.widest_ns else {
        return Finding::undecided(format!(
            "no bracket was narrow enough, {} were too wide",
            clock.discarded
        ));
    };
    let half = widest as f64 / 2.0;
    let behind = clock.negative as f64 / clock.stamped.max(1) as f64;
    Finding::held(
        half <= CLOCK_NS && behind <= BEHIND,
        GateStatus::Fail,
        format!(
            "{} brackets, {} of {} stamps behind their read, wall clock set {} times",
            clock.brackets, clock.negative, clock.stamped, clock.steps
        ),
    )
    .measured(Some(half))
}
