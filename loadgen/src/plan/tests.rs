use std::time::Duration;

use super::*;
use crate::config::settings::{ArmSettings, Settings};

fn config(change: impl FnOnce(&mut Settings)) -> Resolved {
    let arm = |port| ArmSettings {
        url: Some(format!("http://127.0.0.1:{port}")),
        api_key: None,
    };
    let mut settings = Settings {
        run_id: Some("run".to_owned()),
        direct: arm(1),
        gateway: arm(2),
        model: Some("m".to_owned()),
        concurrency: Some(vec![1, 2]),
        requests: Some(5),
        warmup: Some(2),
        input_tokens: Some(16),
        ..Settings::default()
    };
    change(&mut settings);
    settings.resolve(false).unwrap()
}

fn plan(config: &Resolved) -> Plan {
    Plan::new(config, Vocabulary::assumed(), None).unwrap()
}

fn texts(plan: &Plan, config: &Resolved, point: usize) -> Vec<String> {
    let p = &plan.points[point];
    let arms = salted_arms(config);
    p.arrivals
        .iter()
        .map(|a| plan.prompt_text(&a.content, p.arm, arms))
        .collect()
}

#[test]
fn arms_alternate_per_load_and_every_point_warms_up_first() {
    let c = config(|_| {});
    let p = plan(&c);
    let ids: Vec<&str> = p.points.iter().map(|p| p.id.as_str()).collect();
    assert_eq!(ids, ["direct.c1", "gateway.c1", "gateway.c2", "direct.c2"]);
    for point in &p.points {
        assert_eq!((point.warmup, point.planned), (2, Some(5)));
        assert_eq!(point.arrivals.len(), 7);
        assert_eq!(point.arrivals[1].phase, Phase::Warmup);
        assert_eq!(point.arrivals[2].phase, Phase::Measure);
    }
}

#[test]
fn m23_arms_share_a_schedule_and_seeds_decide_it() {
    let open = |seed| {
        config(|s| {
            s.concurrency = None;
            s.rate = Some(vec![50.0]);
            s.requests = Some(200);
            s.seed = Some(seed);
        })
    };
    let offsets = |c: &Resolved, point: usize| -> Vec<_> {
        plan(c).points[point]
            .arrivals
            .iter()
            .map(|a| a.offset_ns)
            .collect()
    };
    let seven = open(7);
    assert_eq!(offsets(&seven, 0), offsets(&seven, 1));
    assert_eq!(offsets(&seven, 0), offsets(&open(7), 0));
    assert_ne!(offsets(&seven, 0), offsets(&open(8), 0));
}

#[test]
fn hashes_tell_schedules_and_prompts_apart() {
    let hashes = |c: &Resolved| plan(c).write(c, &mut Vec::new()).unwrap();
    let first = hashes(&config(|_| {}));
    let other_run = hashes(&config(|s| s.run_id = Some("other".to_owned())));
    assert_eq!(first.schedule, other_run.schedule);
    assert_ne!(first.prompts, other_run.prompts);
    let longer = hashes(&config(|s| s.output_tokens = Some(65)));
    assert_ne!(first.schedule, longer.schedule);
}

#[test]
fn m24_salt_decides_which_prompts_are_shared() {
    for (salt, arms_share, runs_share) in [
        (Salt::PerArm, false, false),
        (Salt::PerRun, true, false),
        (Salt::None, true, true),
    ] {
        let c = config(|s| s.salt = Some(salt));
        let other = config(|s| {
            s.salt = Some(salt);
            s.run_id = Some("other".to_owned());
        });
        let (p, q) = (plan(&c), plan(&other));
        let direct = texts(&p, &c, 0);
        assert_eq!(direct == texts(&p, &c, 1), arms_share, "{salt:?}");
        assert_eq!(direct == texts(&q, &other, 0), runs_share, "{salt:?}");
        let all: std::collections::BTreeSet<_> = direct.iter().collect();
        assert_eq!(all.len(), direct.len());
    }
}

#[test]
fn a_closed_loop_limited_by_time_alone_has_a_pool_and_no_planned_number() {
    let c = config(|s| {
        s.requests = None;
        s.duration = Some(Duration::from_secs(1));
    });
    let p = plan(&c);
    assert_eq!(p.points[0].planned, None);
    assert!(p.points[0].arrivals.len() > 100);
}

#[test]
fn plan_lines_carry_what_a_reader_needs() {
    let c = config(|_| {});
    let mut out = Vec::new();
    plan(&c).write(&c, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.lines().count(), 28);
    let line: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(line["point_id"], "direct.c1");
    assert_eq!(line["prompt_tokens"], 16);
    assert_eq!(line["prompt_sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn m23_shards_keep_the_numbers_and_prompts_of_the_whole_plan() {
    let open = |shard: Option<&str>| {
        config(|s| {
            s.concurrency = None;
            s.rate = Some(vec![50.0]);
            s.burstiness = Some(0.5);
            s.requests = Some(9);
            s.warmup = Some(3);
            s.shard = shard.map(|s| s.parse().unwrap());
        })
    };
    let rows = |c: &Resolved| -> Vec<(u64, Option<u64>, String)> {
        let p = plan(c);
        let texts = texts(&p, c, 0);
        let arrivals = p.points[0].arrivals.iter().zip(texts);
        arrivals
            .map(|(a, text)| (a.seq, a.offset_ns, text))
            .collect()
    };
    let whole = rows(&open(None));
    let mut union = Vec::new();
    for shard in ["1/2", "2/2"] {
        let c = open(Some(shard));
        let point = &plan(&c).points[0];
        assert_eq!(point.warmup + point.planned.unwrap(), 6);
        let warm = point.arrivals.iter().filter(|a| a.phase == Phase::Warmup);
        assert_eq!(warm.count() as u64, point.warmup);
        union.extend(rows(&c));
    }
    union.sort();
    assert_eq!(union, whole);
}

#[test]
fn a_ramp_and_stages_are_one_point_each_and_end_with_their_time() {
    use crate::config::{Ramp, Stage};
    let ramp = config(|s| {
        s.concurrency = None;
        s.ramp = Some(Ramp {
            from: 10.0,
            to: 30.0,
        });
        s.requests = None;
        s.duration = Some(Duration::from_secs(10));
    });
    let stages = config(|s| {
        s.concurrency = None;
        s.arrival = Some(Process::Constant);
        s.requests = None;
        s.stages = Some(vec![
            Stage {
                rate: 10.0,
                duration: Duration::from_secs(1),
            },
            Stage {
                rate: 20.0,
                duration: Duration::from_secs(1),
            },
        ]);
    });
    let (ramp, stages) = (plan(&ramp), plan(&stages));
    let ids: Vec<&str> = ramp.points.iter().map(|p| p.id.as_str()).collect();
    assert_eq!(ids, ["direct.ramp", "gateway.ramp"]);
    let planned = ramp.points[0].planned.unwrap();
    assert!((150..=250).contains(&planned), "{planned}");
    assert_eq!(stages.points[0].id, "direct.stages");
    assert_eq!(stages.points[0].planned, Some(30));
}
