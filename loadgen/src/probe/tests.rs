//! Probes of engines with known behaviour, and text of known rows.

use std::time::Duration;

use inferscope_fake_engine::{Config, FakeEngine, Handle, Script, Scripts};
use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::request::Outcome;

use super::conduct::{Measured, Watched};
use super::row::Row;
use super::schedule::{self, Experiment};
use super::watch::Seen;
use super::*;
use crate::artifacts::manifest::{Calibration, ManifestEngine};
use crate::config::{Endpoint, EngineKind};
use crate::telemetry::process::ProcessSample;

fn options(url: &str) -> Options {
    Options {
        url: url.to_owned(),
        model: None,
        api_key: None,
        process: WhichProcess::Listener,
        prompt: Some((64, 96)),
        output_tokens: 4,
        rounds: 1,
        at_once: 2,
        timeout: Duration::from_secs(30),
        within: Duration::from_secs(600),
        out: None,
    }
}

fn engine(scripts: Scripts) -> Handle {
    FakeEngine::start(Config {
        ttft: Duration::from_millis(4),
        itl: Duration::from_millis(2),
        scripts,
        ..Config::default()
    })
    .unwrap()
}

fn probe(options: &Options) -> Result<Probed, ProbeError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(run(options))
}

fn refused(options: &Options) -> (bool, String) {
    match probe(options).unwrap_err() {
        ProbeError::Usage(text) => (true, text),
        ProbeError::Failed(text) => (false, text),
    }
}

/// A chat event with this content.
fn content(text: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":null}}]}}"#)
}

const FINISH: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

#[test]
fn an_engine_is_probed_from_its_url_alone_and_leaves_files() {
    let engine = engine(Scripts::new());
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("probe");
    let options = Options {
        out: Some(out.clone()),
        ..options(&format!("{}/v1", engine.url()))
    };
    let probed = probe(&options).unwrap();
    let report = &probed.report;
    assert_eq!((probed.exit_code(), &report.failure), (0, &None));
    assert_eq!((report.requests.sent, report.requests.failed), (9, 0));
    assert_eq!(
        report.notice.as_deref(),
        Some("chain check, not a performance result")
    );
    assert!(report.prompt_lengths.exact);
    // The fake engine runs in this process.
    assert_eq!(report.process.pid, Some(std::process::id()));
    assert!(report.process.memory.unwrap().peak.rss_bytes > 0);
    for row in &report.rows {
        assert_eq!(row.completion_tokens, Some(4), "{row:?}");
        if row.experiment != Experiment::Opening {
            assert_eq!(row.prompt_tokens, Some(row.asked_tokens), "{row:?}");
        }
    }
    let sent: Vec<_> = engine
        .requests()
        .into_iter()
        .filter(|r| r.target.contains("chat"))
        .collect();
    assert_eq!(sent.len(), 9);

    let text = std::fs::read_to_string(out.join("probe.txt")).unwrap();
    assert!(text.contains("fake engine: chain check"), "{text}");
    let svg = std::fs::read_to_string(out.join("timeline.svg")).unwrap();
    assert!(svg.contains("chain check") && svg.contains("96 tokens, cold"));
    let json = std::fs::read(out.join("probe.json")).unwrap();
    assert_eq!(&serde_json::from_slice::<Report>(&json).unwrap(), report);
    let (usage, text) = refused(&options);
    assert!(
        usage && text.contains("holds a probe.json already"),
        "{text}"
    );
}

#[test]
fn faults_before_the_first_request_name_object_and_remedy() {
    let fake = engine(Scripts::new());
    let good = options(&fake.url());
    let down = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let cases = [
        (
            Options {
                url: down.clone(),
                ..good.clone()
            },
            false,
            "unreachable",
        ),
        (
            Options {
                url: "localhost:1".to_owned(),
                ..good.clone()
            },
            true,
            "write it like http://",
        ),
        (
            Options {
                model: Some("other".to_owned()),
                ..good.clone()
            },
            true,
            "it serves fake-model",
        ),
        (
            Options {
                process: WhichProcess::Id(u32::MAX),
                ..good.clone()
            },
            true,
            "--pid",
        ),
        (
            Options {
                process: WhichProcess::Named("no-such-engine".to_owned()),
                ..good.clone()
            },
            true,
            "--process",
        ),
        (
            Options {
                api_key: Some("env:PROBE_TEST_UNSET".to_owned()),
                ..good.clone()
            },
            true,
            "is not set",
        ),
    ];
    for (options, usage, says) in cases {
        let (was_usage, text) = refused(&options);
        assert_eq!(was_usage, usage, "{text}");
        assert!(text.contains(says), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }
}

#[test]
fn a_probe_ends_when_its_time_is_over_and_keeps_what_it_has() {
    let fake = engine(Scripts::new());
    let options = Options {
        rounds: 1_000,
        within: Duration::from_secs(2),
        ..options(&fake.url())
    };
    match probe(&options) {
        Ok(probed) => {
            let failure = probed.report.failure.as_deref().unwrap();
            assert!(failure.contains("--within"), "{failure}");
            assert!(!probed.report.rows.is_empty());
            assert_eq!(probed.exit_code(), 1);
        }
        // A very slow machine: not even the first request was over.
        Err(e) => assert!(e.to_string().contains("--within"), "{e}"),
    }
}

#[test]
fn a_key_that_is_wanted_or_wrong_is_told_apart() {
    let refusal = Script::new().json("401 Unauthorized", r#"{"error":{"message":"no"}}"#);
    let fake = engine(Scripts::new().add("no", refusal).route("/v1/models", "no"));
    let (usage, text) = refused(&options(&fake.url()));
    assert!(usage && text.contains("--api-key-env NAME"), "{text}");
}

#[test]
fn an_engine_that_answers_a_stream_in_one_piece_is_measured_as_far_as_it_goes() {
    let whole = r#"{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":4}}"#;
    let fake = engine(Scripts::new().add("whole", Script::new().json("200 OK", whole)));
    let options = Options {
        model: Some("script:whole".to_owned()),
        ..options(&fake.url())
    };
    let probed = probe(&options).unwrap();
    assert_eq!(probed.exit_code(), 0);
    let text = probed.text(false);
    assert!(text.contains("It answers in one piece"), "{text}");
    assert!(
        probed
            .report
            .rows
            .iter()
            .all(|r| r.ok() && !r.streamed && r.ttft_ms.is_none())
    );
    assert!(
        probed
            .report
            .rows
            .iter()
            .all(|r| r.completion_tokens == Some(4))
    );
}

#[test]
fn without_usage_events_are_not_called_tokens() {
    let answer = (0..4).fold(Script::new().head_sse(), |s, _| {
        s.event(&content("a")).delay(Duration::from_millis(1))
    });
    let answer = answer.event(FINISH).done().end();
    let fake = engine(Scripts::new().add("mute", answer));
    let options = Options {
        model: Some("script:mute".to_owned()),
        ..options(&fake.url())
    };
    let text = probe(&options).unwrap().text(false);
    assert!(text.contains("events, not tokens"), "{text}");
    assert!(text.contains("streams came without usage"), "{text}");
}

#[test]
fn an_engine_that_dies_ends_the_probe_and_keeps_what_was_measured() {
    let fake = engine(Scripts::new());
    let options = Options {
        rounds: 1_000,
        ..options(&fake.url())
    };
    let stopper = std::thread::spawn(move || {
        assert!(fake.wait(Duration::from_secs(30), |c| c.requests > 60));
        fake.stop();
    });
    let probed = probe(&options).unwrap();
    stopper.join().unwrap();
    assert_eq!(probed.exit_code(), 1);
    let why = probed.report.failure.as_deref().unwrap();
    assert!(why.contains("no longer accepts connections"), "{why}");
    assert!(probed.report.requests.ok > 0);
    assert!(probed.text(false).contains("ended early"));
}

#[test]
fn answers_that_all_fail_are_no_measurement() {
    let fault = Script::new().json(
        "500 Internal Server Error",
        r#"{"error":{"message":"broken"}}"#,
    );
    let fake = engine(Scripts::new().add("bad", fault));
    let options = Options {
        model: Some("script:bad".to_owned()),
        ..options(&fake.url())
    };
    let (usage, text) = refused(&options);
    assert!(!usage && text.contains("broken"), "{text}");
}

/// Rows of an engine of one's own making: TTFT 10 ms and 0.8 ms per token, a prefix cache, a token
/// each 20 ms, batching at 1.5 times the gap, one stall, two cores in prefill and one in decode.
fn known(rounds: u32) -> Measured {
    let levels = schedule::lengths((64, 512));
    let mut rows = Vec::new();
    let mut samples = vec![(0.0, 0.0)];
    let mut now = 500.0;
    let mut cpu = 0.0;
    let mut seq = 0;
    for round in 0..rounds {
        for step in schedule::round(round, &levels, 4) {
            let noise = f64::from((seq * 7) % 5) * 0.1;
            let parallel = step.experiment == Experiment::Parallel;
            let gap = if parallel { 30.0 } else { 20.0 };
            let ttft = match step.experiment {
                Experiment::Warm => 25.0,
                _ => 10.0 + 0.8 * step.tokens as f64,
            } + noise;
            let stall = if seq == 10 { 200.0 } else { 0.0 };
            let outputs: Vec<f64> = (0..24)
                .map(|i| ttft + f64::from(i) * gap + if i > 9 { stall } else { 0.0 })
                .collect();
            let end = ttft + 23.0 * gap + stall + 0.2;
            for _ in 0..step.at_once {
                rows.push(row(seq, round, step, now, &outputs, end));
                seq += 1;
            }
            samples.push((now, cpu));
            cpu += 2.0 * ttft / 1e3;
            samples.push((now + 0.3 + ttft, cpu));
            cpu += (end - ttft) / 1e3;
            samples.push((now + 0.3 + end, cpu));
            now += end + 120.0;
        }
    }
    samples.push((now, cpu));
    Measured {
        options: Options {
            rounds,
            at_once: 4,
            output_tokens: 24,
            ..options("http://127.0.0.1:8000")
        },
        url: "http://127.0.0.1:8000".to_owned(),
        model: "m".to_owned(),
        endpoint: Endpoint::Chat,
        about: ManifestEngine {
            kind: EngineKind::Vllm,
            name: Some("vllm".to_owned()),
            version: Some("0.32".to_owned()),
            ..ManifestEngine::default()
        },
        lengths: Calibration {
            prompt_tokens: "vllm_tokenize".to_owned(),
            exact: true,
            ..Calibration::default()
        },
        levels,
        origin: MonoNs(0),
        seconds: now / 1e3,
        rows,
        watched: Watched {
            pid: Some(42),
            command: Some("vllm serve".to_owned()),
            seen: Seen {
                samples: samples.into_iter().map(sample).collect(),
                ..Seen::default()
            },
        },
        stopped: None,
        interrupted: false,
    }
}

fn sample((at_ms, cpu_seconds): (f64, f64)) -> ProcessSample {
    ProcessSample {
        t_ns: MonoNs((at_ms * 1e6) as u64),
        pid: 42,
        processes: 2,
        threads: 34,
        rss_bytes: 1 << 30,
        pss_bytes: None,
        cpu_seconds,
    }
}

pub(super) fn row(
    seq: u32,
    round: u32,
    step: schedule::Step,
    start: f64,
    outputs: &[f64],
    end: f64,
) -> Row {
    let whole = step.experiment == Experiment::Whole;
    let streamed = |value: f64| (!whole).then_some(value);
    Row {
        seq,
        experiment: step.experiment,
        round,
        asked_tokens: step.tokens,
        stream_asked: !whole,
        streamed: !whole,
        start_ms: start,
        sent_ms: Some(start + 0.3),
        end_ms: start + 0.3 + end,
        connect_ms: Some(0.2),
        upload_ms: Some(0.1),
        head_ms: Some(3.0),
        first_event_ms: streamed(3.1),
        ttft_ms: streamed(outputs[0]),
        last_output_ms: streamed(outputs[23]),
        e2e_ms: Some(end),
        status: Some(200),
        outcome: Outcome::Ok,
        error_kind: None,
        error_message: None,
        prompt_tokens: Some(step.tokens),
        completion_tokens: Some(24),
        cached_tokens: (step.experiment == Experiment::Warm).then_some(496),
        finish_reason: Some("length".to_owned()),
        output_ms: if whole { Vec::new() } else { outputs.to_vec() },
        output_reads: if whole { 0 } else { 24 },
        read_lag_ms: vec![0.02; 24],
        kept: true,
        life: None,
    }
}

#[test]
fn the_text_of_a_known_engine_says_what_was_built_into_it() {
    let report = report::of(known(6));
    insta::assert_snapshot!(text::of(&report));
    for sentence in &report.verdict {
        assert!(!sentence.figures.is_empty(), "{}", sentence.id);
        assert!(sentence.figures.values().all(|v| v.is_finite()));
    }
    let svg = timeline::svg(&report);
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    assert_eq!(
        svg.matches("class=\"alarm\"").count(),
        2,
        "legend and stall"
    );
}

#[test]
fn three_rounds_make_no_claim() {
    let report = report::of(known(3));
    assert!(
        report
            .comparisons
            .iter()
            .filter(|c| c.id != "late_gap")
            .all(|c| c.differs.is_none())
    );
    let text = text::of(&report);
    assert!(text.contains("too few"), "{text}");
    assert!(
        !text.contains("a prefix cache.") && !text.contains("It batches"),
        "{text}"
    );
    assert!(text.contains("--requests 6"), "{text}");
}

#[test]
fn a_wide_interval_is_neither_a_difference_nor_none() {
    let mut noisy = known(6);
    for row in &mut noisy.rows {
        let far = if row.round % 2 == 0 { 0.2 } else { 5.0 };
        if row.experiment == Experiment::Warm {
            row.ttft_ms = Some(420.0 * far);
        }
        if row.experiment == Experiment::Whole {
            row.e2e_ms = Some(520.0 * far);
        }
    }
    let text = text::of(&report::of(noisy)).replace("\n  ", " ");
    assert!(
        text.contains("too uncertain to say whether a prefix cache"),
        "{text}"
    );
    assert!(
        text.contains("too uncertain to say what streaming costs"),
        "{text}"
    );
}

#[test]
fn nothing_measured_is_said_and_breaks_nothing() {
    let mut nothing = known(1);
    nothing.rows.clear();
    nothing.watched = Watched::default();
    nothing.interrupted = true;
    let report = report::of(nothing);
    assert!(text::of(&report).contains("nothing was measured"));
    assert!(timeline::svg(&report).contains("</svg>"));
}
