//! Against a library that stands for the driver's, built here by the C compiler.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::*;

/// The stub with these defines.
fn stub(dir: &TempDir, defines: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/nvml_stub.c");
    let library = dir.path().join("libnvml.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .args(defines.iter().map(|d| format!("-D{d}")))
        .status()
        .expect("the tests need a C compiler called cc");
    assert!(built.success());
    library
}

fn opened(defines: &[&str], engine: Option<u32>) -> Result<Cards, String> {
    let dir = tempfile::tempdir().unwrap();
    let library = stub(&dir, defines);
    Cards::open(Some(library.as_os_str()), engine)
}

#[test]
fn a_card_says_what_it_does() {
    let cards = opened(&["UTILIZATION=93", "WATTS=350", "THROTTLE=0x25"], None).unwrap();
    let first = cards.card(0);
    let wanted = GpuSample {
        t_ns: first.t_ns,
        index: 0,
        uuid: Some("GPU-stub".to_owned()),
        name: Some("Stub GPU".to_owned()),
        utilization: Some(0.93),
        memory_used_bytes: Some(400),
        memory_total_bytes: Some(1000),
        power_watts: Some(350.0),
        energy_joules: first.energy_joules,
        sm_clock_mhz: Some(1800),
        sm_clock_max_mhz: Some(1980),
        memory_clock_mhz: Some(2600),
        temperature_celsius: Some(61.0),
        throttle: Some(vec![
            "sw_power_cap".to_owned(),
            "sw_thermal_slowdown".to_owned(),
        ]),
        processes: Some(Vec::new()),
    };
    assert_eq!(first, wanted);
    assert!(cards.card(0).energy_joules >= first.energy_joules);
    assert!(first.energy_joules > Some(0.0));
    let mut report = SourceReport::default();
    cards.describe(&mut report);
    assert_eq!(
        report.subject.as_deref(),
        Some("1 × Stub GPU, driver 999.1")
    );
}

#[test]
fn each_card_has_its_line() {
    let mut cards = opened(&["CARDS=3"], None).unwrap();
    let mut lines = Lines::default();
    cards.sample("p", When::During, &mut lines).unwrap();
    let text = String::from_utf8(lines.into_bytes()).unwrap();
    let all: Vec<GpuSample> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let indices: Vec<u32> = all.iter().map(|s| s.index).collect();
    assert_eq!(indices, [0, 1, 2]);
}

#[test]
fn what_a_card_or_a_driver_does_not_support_is_null() {
    for defines in [["UNSUPPORTED=1"], ["OLD_DRIVER=1"]] {
        let card = opened(&defines, None).unwrap().card(0);
        let wanted = GpuSample {
            uuid: Some("GPU-stub".to_owned()),
            name: Some("Stub GPU".to_owned()),
            memory_used_bytes: Some(400),
            memory_total_bytes: Some(1000),
            ..GpuSample::unknown(card.t_ns, 0)
        };
        assert_eq!(card, wanted, "{defines:?}");
    }
}

#[test]
fn an_idle_card_is_not_held_back_and_a_falling_clock_is_seen() {
    let cards = opened(&["THROTTLE=0x1", "CLOCK_DROP_AFTER=1"], None).unwrap();
    assert_eq!(cards.card(0).throttle, Some(Vec::new()));
    assert_eq!(cards.card(0).sm_clock_mhz, Some(900));
}

fn sleeper() -> Child {
    Command::new("sleep")
        .arg("60")
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn processes_on_a_card_are_the_engines_or_not_or_unknown() {
    let mut foreign = sleeper();
    let (own, other) = (std::process::id(), foreign.id());
    // No process has this id: they end before it.
    let unseen = u32::MAX / 2;
    let computing = format!("PIDS={{{own},{other},{unseen}}}");
    let drawing = format!("GRAPHICS_PIDS={{{own}}}");
    let of = |engine| {
        let cards = opened(&[&computing, &drawing], engine).unwrap();
        let mut all = cards.card(0).processes.unwrap();
        all.sort_by_key(|p| [own, other, unseen].iter().position(|&pid| pid == p.pid));
        all
    };
    // The sleeper stands for the engine.
    let seen = of(Some(other));
    let engine: Vec<Option<bool>> = seen.iter().map(|p| p.engine).collect();
    assert_eq!(engine, [Some(false), Some(true), None]);
    assert_eq!(seen[1].name.as_deref(), Some("sleep"));
    assert_eq!(seen[2].name, None);
    assert_eq!(
        seen[0].memory_bytes,
        Some(100),
        "on both lists, counted once"
    );
    assert!(of(None).iter().all(|p| p.engine.is_none()));
    foreign.kill().unwrap();
    foreign.wait().unwrap();
}

#[test]
fn no_driver_and_no_card_are_said() {
    let why = Cards::open(Some(OsStr::new("/nowhere/libnvml.so")), None).unwrap_err();
    assert!(why.starts_with("no NVIDIA driver on this host"), "{why}");
    let why = opened(&["INIT=9"], None).unwrap_err();
    assert_eq!(why, "NVML: NVIDIA driver is not loaded");
    let why = opened(&["CARDS=0"], None).unwrap_err();
    assert_eq!(why, "the NVIDIA driver shows no card");
}
