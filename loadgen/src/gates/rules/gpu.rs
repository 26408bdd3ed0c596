//! Rules about the graphics cards that the engine computes on.

use super::Rule;
use crate::gates::{Blame, Check, gpu};

/// Share of a point's samples in which a card may hold its clocks back.
pub(in crate::gates) const THROTTLED_SAMPLES: f64 = 0.05;
/// Spread of the clock under load, of its highest value.
pub(in crate::gates) const CLOCK_SPREAD: f64 = 0.05;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "gpu_isolation",
        needs: "gpu_metrics.jsonl, manifest.json",
        measures: "processes on the engine's cards that are not the engine's",
        threshold: Some(0.0),
        unit: "processes",
        passes: "none in any sample of the point; NOT_APPLICABLE only with gpu: none or the fake \
                 engine; UNDECIDED without samples, or where nobody knows whose processes they are",
        why: "another process takes turns on the same multiprocessors and the same memory bus, and \
              nothing in the engine's own numbers shows it",
        blame: Blame::Environment,
        remedy: "stop the other process (nvidia-smi lists it), or give the engine a card of its own",
        check: Check::Point(gpu::gpu_isolation),
    },
    Rule {
        id: "gpu_throttle",
        needs: "gpu_metrics.jsonl, manifest.json",
        measures: "samples in which heat, power or hardware protection held a card's clocks back",
        threshold: Some(THROTTLED_SAMPLES),
        unit: "1",
        passes: "at or below 0.05 of the point's samples; idle clocks and clocks set by people are \
                 no throttling; NOT_APPLICABLE and UNDECIDED as gpu_isolation",
        why: "a card that protects itself is slower than the same card tomorrow; below one sample in \
              twenty it moves no median and no p90",
        blame: Blame::Environment,
        remedy: "cool the card, or lock its clock to what it can hold (nvidia-smi -lgc), and run \
                 again",
        check: Check::Point(gpu::gpu_throttle),
    },
    Rule {
        id: "gpu_clocks",
        needs: "gpu_metrics.jsonl, manifest.json",
        measures: "spread of the multiprocessors' clock under load: (p90 - p10) / p90 of samples with \
                   kernels running a fifth of the time or more, of the worst card",
        threshold: Some(CLOCK_SPREAD),
        unit: "1",
        passes: "at or below 0.05; NOT_APPLICABLE as gpu_isolation; UNDECIDED also below 10 samples \
                 under load",
        why: "speed follows the clock, so a clock that moves by a twentieth is a difference of five \
              in a hundred that the engine has no part in",
        blame: Blame::Environment,
        remedy: "lock the clock (nvidia-smi -lgc), or warm the card up for longer (load.warmup)",
        check: Check::Point(gpu::gpu_clocks),
    },
];
