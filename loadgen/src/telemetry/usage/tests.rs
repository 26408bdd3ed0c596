use super::*;
use crate::config::{LoadKind, LoadValue};
use crate::drive::lag::Lag;
use crate::measure::aggregate::{Throughput, Window};
use crate::telemetry::client::{CgroupUse, TcpUse, ThreadUse};
use crate::telemetry::engine::Counters;
use crate::telemetry::process::ProcessSample;
use crate::telemetry::readings::EngineReading;
use crate::telemetry::sampler::When;

const S: u64 = 1_000_000_000;

/// A point from 10 s to 20 s whose window is 12 s to 18 s and holds 600 tokens.
fn point() -> (PointRun, Point) {
    let load = LoadValue {
        kind: LoadKind::Concurrency,
        value: Some(1.0),
    };
    let run = PointRun {
        point_id: "p".to_owned(),
        arm: "direct".to_owned(),
        block: 0,
        load,
        warmup: 0,
        planned: Some(1),
        stop_reason: None,
        start_ns: Some(MonoNs(10 * S)),
        end_ns: Some(MonoNs(20 * S)),
        alive_after: None,
        alive_error: None,
        token_check: None,
    };
    let mut aggregate = crate::analysis::synthetic::Synthetic::new(3).analyze();
    let mut point = aggregate.aggregate.points.remove(0);
    point.window = Window {
        seconds: Some(6.0),
        start_ns: Some(MonoNs(12 * S)),
        end_ns: Some(MonoNs(18 * S)),
    };
    point.throughput = Throughput {
        output_tokens_per_s: Some(100.0),
        ..point.throughput
    };
    (run, point)
}

/// A line at `s` seconds of a client that uses half a core, and whose threads wait a tenth.
fn client(s: u64) -> ClientMetrics {
    let s_float = s as f64;
    ClientMetrics {
        writer_backlog_bytes: 0,
        t_ns: MonoNs(s * S),
        loop_lag_ms: Lag::default(),
        cpu_seconds: 7.0 + s_float / 2.0,
        loop_cpu_seconds: s_float / 4.0,
        loop_run_wait_seconds: None,
        in_flight: 0,
        threads: ["main", "feed"]
            .map(|name| ThreadUse {
                name: name.to_owned(),
                cpu_seconds: s_float / 4.0,
                run_wait_seconds: Some(s_float / 20.0),
            })
            .to_vec(),
        cgroup: Some(CgroupUse {
            throttled_periods: 0,
            throttled_seconds: s_float / 100.0,
        }),
        tcp: Some(TcpUse {
            segments_out: 1000 * s,
            retransmitted: 10 * s,
        }),
    }
}

fn processes(s: u64, count: u32, rss_bytes: u64) -> ProcessSample {
    ProcessSample {
        t_ns: MonoNs(s * S),
        pid: 1,
        processes: count,
        threads: 4 * count,
        rss_bytes,
        pss_bytes: None,
        cpu_seconds: 2.0 * s as f64,
    }
}

fn card(s: u64, index: u32, engine: Option<bool>) -> GpuSample {
    GpuSample {
        utilization: Some(0.5),
        energy_joules: Some(100.0 * s as f64),
        power_watts: Some(100.0),
        sm_clock_mhz: Some(if s == 15 { 900 } else { 1800 }),
        throttle: Some(if s == 15 {
            vec!["hw_slowdown".to_owned()]
        } else {
            Vec::new()
        }),
        processes: Some(vec![GpuProcess {
            pid: 5,
            name: None,
            memory_bytes: None,
            engine,
        }]),
        ..GpuSample::unknown(MonoNs(s * S), index)
    }
}

fn close(value: Option<f64>, wanted: f64) -> bool {
    value.is_some_and(|v| (v - wanted).abs() < 1e-9)
}

#[test]
fn rates_are_those_of_the_window_and_peaks_those_of_the_point() {
    let (run, point) = point();
    let readings = Readings {
        client: vec![client(0), client(11), client(19), client(30)],
        process: vec![
            processes(5, 9, 1),
            processes(9, 1, 100),
            processes(15, 3, 300),
            processes(21, 2, 200),
            processes(40, 9, 900),
        ],
        ..Readings::default()
    };
    let usage = of(&readings, &run, &point);
    assert!(close(usage.client_cpu_cores, 0.5), "{usage:?}");
    assert!(close(usage.client_loop_cpu, 0.25));
    assert!(close(usage.client_run_wait, 0.1));
    assert!(close(usage.client_throttled, 0.01));
    assert!(close(usage.tcp_retransmitted, 0.01));
    let process = usage.process;
    assert!(close(process.cpu_cores, 2.0));
    assert_eq!(
        (process.rss_peak_bytes, process.threads_peak),
        (Some(300), Some(12))
    );
    assert_eq!(
        (process.processes_min, process.processes_max),
        (Some(1), Some(3))
    );
    assert_eq!(process.pss_peak_bytes, None);
}

#[test]
fn nothing_sampled_is_nothing_known() {
    let (run, point) = point();
    assert_eq!(of(&Readings::default(), &run, &point), Usage::default());
    // Samples that end inside the window don't reach around it.
    let readings = Readings {
        client: vec![client(0), client(15)],
        ..Readings::default()
    };
    assert_eq!(of(&readings, &run, &point).client_cpu_cores, None);
}

#[test]
fn m33_counts_of_a_point_are_differences_and_a_counter_that_is_not_there_stays_unknown() {
    let (run, point) = point();
    let reading = |when, counters| EngineReading {
        t_ns: MonoNs(0),
        point_id: "p".to_owned(),
        when,
        counters,
    };
    let at = |queries, hits, waiting| Counters {
        prefix_queries: Some(queries),
        prefix_hits: Some(hits),
        waiting: Some(waiting),
        ..Counters::default()
    };
    let mut readings = Readings {
        engine: vec![
            reading(When::Before, at(100.0, 50.0, 0.0)),
            reading(When::During, at(150.0, 60.0, 7.0)),
            reading(When::After, at(200.0, 75.0, 0.0)),
        ],
        ..Readings::default()
    };
    let usage = of(&readings, &run, &point).engine;
    assert_eq!(
        (usage.prefix_hits, usage.waiting_peak),
        (Some(0.25), Some(7.0))
    );
    assert_eq!((usage.preemptions, usage.kv_usage_peak), (None, None));
    readings.engine[2].counters.prefix_queries = Some(3.0);
    let restarted = of(&readings, &run, &point).engine;
    assert_eq!(restarted.prefix_hits, None, "the engine was restarted");
}

#[test]
fn tokens_per_joule_are_those_of_the_engines_cards_in_the_window() {
    let (run, point) = point();
    let samples = |engines: &[Option<bool>]| Readings {
        gpu: [9, 12, 15, 18, 21]
            .into_iter()
            .flat_map(|s| {
                let cards = engines.iter().enumerate();
                cards
                    .map(move |(i, engine)| card(s, u32::try_from(i).unwrap(), *engine))
                    .collect::<Vec<_>>()
            })
            .collect(),
        ..Readings::default()
    };
    let usage = of(&samples(&[Some(true), Some(false)]), &run, &point);
    assert_eq!(usage.energy_joules, Some(600.0));
    assert_eq!(usage.output_tokens_per_joule, Some(1.0));
    let first = &usage.gpu[0];
    assert_eq!(
        (first.sm_clock_min_mhz, first.sm_clock_max_mhz),
        (Some(900), Some(1800))
    );
    assert_eq!(
        first.throttle.as_deref(),
        Some(&["hw_slowdown".to_owned()][..])
    );
    assert_eq!((usage.gpu.len(), usage.gpu[1].engine), (2, Some(false)));

    let both = of(&samples(&[Some(true), Some(true)]), &run, &point);
    assert_eq!(both.energy_joules, Some(1200.0));
    assert_eq!(
        of(&samples(&[None]), &run, &point).energy_joules,
        Some(600.0)
    );
    for engines in [&[None, None][..], &[Some(false)]] {
        let usage = of(&samples(engines), &run, &point);
        assert_eq!(
            (usage.energy_joules, usage.output_tokens_per_joule),
            (None, None)
        );
        assert!(
            usage.energy_note.unwrap().contains("no card"),
            "{engines:?}"
        );
    }
}
