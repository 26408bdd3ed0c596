//! Gates about graphics cards.

use super::*;
use crate::config::EngineKind;
use crate::telemetry::gpu::{GpuProcess, GpuSample};

const ALL: [&str; 3] = ["gpu_isolation", "gpu_throttle", "gpu_clocks"];

fn sample(t_ns: MonoNs, index: u32) -> GpuSample {
    GpuSample {
        t_ns,
        index,
        uuid: None,
        name: Some("card".to_owned()),
        utilization: Some(0.9),
        memory_used_bytes: None,
        memory_total_bytes: None,
        power_watts: None,
        energy_joules: None,
        sm_clock_mhz: Some(1_980),
        sm_clock_max_mhz: Some(1_980),
        memory_clock_mhz: None,
        temperature_celsius: None,
        throttle: Some(vec!["applications_clocks_setting".to_owned()]),
        processes: Some(vec![process(10, Some(true))]),
    }
}

fn process(pid: u32, engine: Option<bool>) -> GpuProcess {
    GpuProcess {
        pid,
        name: Some("python3".to_owned()),
        memory_bytes: None,
        engine,
    }
}

/// A run on a real engine with twenty samples of one card in the direct point.
fn on_a_card(change: impl Fn(usize, &mut GpuSample)) -> Synthetic {
    let mut it = Synthetic::new(20);
    it.manifest.engine.kind = EngineKind::Vllm;
    let start = it.manifest.points[0].start_ns.unwrap();
    it.gpu = (0..20)
        .map(|i| {
            let mut sample = sample(start.plus_ns(i * 100 * MS), 0);
            change(usize::try_from(i).unwrap(), &mut sample);
            sample
        })
        .collect();
    it
}

fn status(it: &Synthetic, id: &str) -> GateStatus {
    gate(it, id, DIRECT).status
}

#[test]
fn a_card_of_its_own_with_a_steady_clock_passes() {
    let it = on_a_card(|_, _| {});
    for id in ALL {
        let found = gate(&it, id, DIRECT);
        assert_eq!(found.status, GateStatus::Pass, "{id}: {}", found.evidence);
        let found = gate(&it, id, "gateway.c1");
        assert_eq!(found.status, GateStatus::Undecided, "{id}: no sample there");
    }
}

#[test]
fn only_a_stated_absence_or_the_fake_engine_makes_gpu_gates_not_apply() {
    let mut it = Synthetic::new(20);
    assert_eq!(status(&it, ALL[0]), GateStatus::NotApplicable);
    it.manifest.engine.kind = EngineKind::Llamacpp;
    for id in ALL {
        let found = gate(&it, id, DIRECT);
        assert_eq!(found.status, GateStatus::Undecided, "{id}");
        assert!(found.remedy.contains("gpu: none"), "{}", found.remedy);
    }
    it.gpu_setting = "none";
    for id in ALL {
        assert_eq!(status(&it, id), GateStatus::NotApplicable, "{id}");
    }
}

#[test]
fn somebody_else_on_the_card_fails_and_on_another_card_does_not() {
    let foreign = on_a_card(|i, s| {
        if i == 7 {
            s.processes = Some(vec![process(10, Some(true)), process(99, Some(false))]);
        }
    });
    let found = gate(&foreign, "gpu_isolation", DIRECT);
    assert_eq!(
        (found.status, found.blame, found.measured),
        (GateStatus::Fail, Blame::Environment, Some(1.0))
    );
    assert!(
        found.evidence.contains("pid 99 (python3)"),
        "{}",
        found.evidence
    );

    let elsewhere = on_a_card(|i, s| {
        if i % 2 == 1 {
            s.index = 1;
            s.processes = Some(vec![process(99, Some(false))]);
        }
    });
    assert_eq!(status(&elsewhere, "gpu_isolation"), GateStatus::Pass);

    let unknown = on_a_card(|_, s| s.processes = Some(vec![process(10, None)]));
    assert_eq!(status(&unknown, "gpu_isolation"), GateStatus::Undecided);
}

#[test]
fn heat_and_power_fail_and_idle_clocks_do_not() {
    let hot = on_a_card(|i, s| {
        if i < 2 {
            s.throttle = Some(vec!["hw_thermal_slowdown".to_owned()]);
        }
    });
    let found = gate(&hot, "gpu_throttle", DIRECT);
    assert_eq!(
        (found.status, found.measured),
        (GateStatus::Fail, Some(0.1))
    );
    assert!(
        found.evidence.contains("hw_thermal_slowdown"),
        "{}",
        found.evidence
    );
    let idle = on_a_card(|_, s| s.throttle = Some(vec!["gpu_idle".to_owned()]));
    assert_eq!(status(&idle, "gpu_throttle"), GateStatus::Pass);
    let mute = on_a_card(|_, s| s.throttle = None);
    assert_eq!(status(&mute, "gpu_throttle"), GateStatus::Undecided);
}

#[test]
fn a_clock_that_moves_under_load_fails_and_one_that_rests_does_not() {
    let moving = on_a_card(|i, s| s.sm_clock_mhz = Some(if i < 5 { 1_700 } else { 1_980 }));
    let found = gate(&moving, "gpu_clocks", DIRECT);
    assert_eq!(found.status, GateStatus::Fail);
    assert!(
        found.evidence.contains("1700 to 1980 MHz"),
        "{}",
        found.evidence
    );
    let resting = on_a_card(|i, s| {
        if i < 5 {
            (s.sm_clock_mhz, s.utilization) = (Some(300), Some(0.0));
        }
    });
    assert_eq!(status(&resting, "gpu_clocks"), GateStatus::Pass);
    let few = on_a_card(|i, s| s.utilization = Some(if i < 9 { 0.9 } else { 0.0 }));
    assert_eq!(status(&few, "gpu_clocks"), GateStatus::Undecided);
    let none = on_a_card(|_, s| s.utilization = Some(0.1));
    assert_eq!(status(&none, "gpu_clocks"), GateStatus::Undecided);
}
