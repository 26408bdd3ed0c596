//! What will be sent when, fixed before the first byte leaves.
//!
//! A plan is a pure function of the configuration, the vocabulary and the workload: absolute
//! offsets per point, never re-anchored, and a prompt per arrival. It is written to `plan.jsonl`
//! and hashed before anything is driven. Arms of one block share their schedule; their prompts
//! are as [`crate::config::Salt`] says. Offsets are nanoseconds from the point's start.
//!
//! The surprise: a closed loop that time limits has no known number of requests, so its plan is
//! what it may use at most, and arrivals not reached in time are not "planned". Where only time
//! limits it, that is a pool of [`MAX_POOL`] requests at most; a point that uses it up before its
//! time says so (`pool_exhausted`).

pub mod arrivals;
pub mod body;
pub mod calibrate;
pub mod prompts;
pub mod workload;

use std::io::{self, Write};

use inferscope_shared::record::request::Phase;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::config::{Arrival as Process, Load, LoadKind, LoadValue, Resolved, Salt};
use arrivals::{Law, Profile};
use prompts::Vocabulary;
use workload::Workload;

/// Arrivals in the pool of a closed loop that only time limits, at most.
pub const MAX_POOL: u64 = 100_000;

/// All points of a run, in the order in which they run.
#[derive(Debug)]
pub struct Plan {
    /// The points.
    pub points: Vec<Point>,
    /// What prompts are made of.
    pub vocabulary: Vocabulary,
    /// What is replayed instead of synthetic prompts.
    pub workload: Option<Workload>,
}

/// One load on one arm.
#[derive(Debug)]
pub struct Point {
    /// `<arm>.c4`, `<arm>.r10`, `<arm>.replay`.
    pub id: String,
    /// Index into the configuration's arms.
    pub arm: usize,
    /// Position of the load; arms of one block share their schedule.
    pub block: u32,
    /// The load.
    pub load: LoadValue,
    /// Arrivals of the warm-up, which come first.
    pub warmup: u64,
    /// Measured arrivals, unless only time limits them.
    pub planned: Option<u64>,
    /// Warm-up, then measured arrivals.
    pub arrivals: Vec<Arrival>,
}

/// One request to send.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// Warm-up or measured.
    pub phase: Phase,
    /// Number within the point.
    pub seq: u64,
    /// When, from the point's start; null in a closed loop.
    pub offset_ns: Option<u64>,
    /// Tokens of the prompt, where known.
    pub prompt_tokens: Option<u64>,
    /// Tokens asked for.
    pub output_tokens: u64,
    /// What it asks.
    pub content: Content,
}

/// What an arrival asks.
#[derive(Debug, Clone)]
pub enum Content {
    /// This many words drawn with this seed.
    Words {
        /// Words.
        count: u64,
        /// Seed of the draw.
        seed: [u8; 32],
    },
    /// Line of the workload, from 0.
    Replay(usize),
}

/// Line of `plan.jsonl`.
#[derive(Serialize)]
struct PlanLine<'a> {
    point_id: &'a str,
    arm: &'a str,
    block: u32,
    phase: Phase,
    seq: u64,
    offset_ns: Option<u64>,
    prompt_tokens: Option<u64>,
    output_tokens: u64,
    prompt_sha256: String,
}

/// Hashes of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hashes {
    /// Over times, phases and lengths; the same for equal seeds and loads.
    pub schedule: String,
    /// Over all prompts.
    pub prompts: String,
}

impl Plan {
    /// Lays out every point of a run.
    ///
    /// # Errors
    /// A sentence, when the prompt length cannot hold the chat template.
    pub fn new(
        config: &Resolved,
        vocabulary: Vocabulary,
        workload: Option<Workload>,
    ) -> Result<Self, String> {
        let words = vocabulary.words_for(config.prompts.input_tokens)?;
        let mut points = Vec::new();
        for (block, load) in config.load.values().into_iter().enumerate() {
            let offsets = schedule(config, block, load, workload.as_ref());
            let mut arms: Vec<usize> = (0..config.arms.len()).collect();
            if block % 2 == 1 {
                arms.reverse();
            }
            for arm in arms {
                let arrivals = offsets
                    .iter()
                    .map(|&(seq, offset_ns)| {
                        let phase = phase_of(seq, &config.load);
                        arrival(
                            config,
                            workload.as_ref(),
                            words,
                            Place {
                                block,
                                arm,
                                phase,
                                seq,
                            },
                            offset_ns,
                        )
                    })
                    .collect();
                let warmup = offsets.iter().filter(|(seq, _)| *seq < config.load.warmup);
                let warmup = warmup.count() as u64;
                points.push(Point {
                    id: format!("{}.{}", config.arms[arm].name, load.label()),
                    arm,
                    block: u32::try_from(block).unwrap_or(u32::MAX),
                    load,
                    warmup,
                    planned: (load.is_open() || config.load.requests.is_some())
                        .then(|| offsets.len() as u64 - warmup),
                    arrivals,
                });
            }
        }
        Ok(Self {
            points,
            vocabulary,
            workload,
        })
    }

    /// The prompt text of an arrival, for hashing; requests are built by [`body`].
    #[must_use]
    pub fn prompt_text(&self, content: &Content, arm: usize, arms: usize) -> String {
        match content {
            Content::Words { count, seed } => self.vocabulary.text(*count, seed, arm, arms),
            Content::Replay(line) => self
                .workload
                .as_ref()
                .map(|w| w.lines[*line].content_text())
                .unwrap_or_default(),
        }
    }

    /// Writes `plan.jsonl` and returns its hashes.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&self, config: &Resolved, out: &mut impl Write) -> io::Result<Hashes> {
        let per_arm = salted_arms(config);
        let mut schedule = Sha256::new();
        let mut prompts = Sha256::new();
        for point in &self.points {
            for a in &point.arrivals {
                let text = self.prompt_text(&a.content, point.arm, per_arm);
                let digest = Sha256::digest(text.as_bytes());
                prompts.update(digest);
                if point.arm == 0 {
                    schedule.update(format!(
                        "{} {} {:?} {} {:?} {:?} {}\n",
                        point.block,
                        point.load.label(),
                        a.phase,
                        a.seq,
                        a.offset_ns,
                        a.prompt_tokens,
                        a.output_tokens
                    ));
                }
                let line = PlanLine {
                    point_id: &point.id,
                    arm: &config.arms[point.arm].name,
                    block: point.block,
                    phase: a.phase,
                    seq: a.seq,
                    offset_ns: a.offset_ns,
                    prompt_tokens: a.prompt_tokens,
                    output_tokens: a.output_tokens,
                    prompt_sha256: hex::encode(digest),
                };
                serde_json::to_writer(&mut *out, &line)?;
                out.write_all(b"\n")?;
            }
        }
        Ok(Hashes {
            schedule: hex::encode(schedule.finalize()),
            prompts: hex::encode(prompts.finalize()),
        })
    }

    /// Arrivals of all points, warm-up included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.points.iter().map(|p| p.arrivals.len()).sum()
    }

    /// Whether nothing is planned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Arms that must not share the first word of a prompt: all of them, or no distinction.
#[must_use]
pub fn salted_arms(config: &Resolved) -> usize {
    match config.prompts.salt {
        Salt::PerArm => config.arms.len(),
        Salt::PerRun | Salt::None => 1,
    }
}

fn phase_of(seq: u64, load: &Load) -> Phase {
    if seq < load.warmup {
        Phase::Warmup
    } else {
        Phase::Measure
    }
}

#[derive(Clone, Copy)]
struct Place {
    block: usize,
    arm: usize,
    phase: Phase,
    seq: u64,
}

fn arrival(
    config: &Resolved,
    workload: Option<&Workload>,
    words: u64,
    place: Place,
    offset_ns: Option<u64>,
) -> Arrival {
    let replayed = workload.map(|w| {
        let line = usize::try_from(place.seq).unwrap_or(usize::MAX) % w.lines.len();
        (line, w.lines[line].output_tokens)
    });
    let (content, prompt_tokens, output_tokens) = match replayed {
        Some((line, output_tokens)) => (
            Content::Replay(line),
            None,
            output_tokens.unwrap_or(config.prompts.output_tokens),
        ),
        None => (
            Content::Words {
                count: words,
                seed: prompt_seed(config, place),
            },
            Some(config.prompts.input_tokens),
            config.prompts.output_tokens,
        ),
    };
    Arrival {
        phase: place.phase,
        seq: place.seq,
        offset_ns,
        prompt_tokens,
        output_tokens,
        content,
    }
}

/// The seed of one prompt: everything that must make it differ from another, and nothing else.
fn prompt_seed(config: &Resolved, place: Place) -> [u8; 32] {
    let (run, arm) = match config.prompts.salt {
        Salt::PerArm => (config.run_id.as_str(), place.arm + 1),
        Salt::PerRun => (config.run_id.as_str(), 0),
        Salt::None => ("", 0),
    };
    let key = format!(
        "prompt {} {run} {arm} {} {}",
        config.seed, place.block, place.seq
    );
    Sha256::digest(key.as_bytes()).into()
}

/// Numbers and offsets of one block's arrivals that this process sends, warm-up first; no offset
/// in a closed loop.
fn schedule(
    config: &Resolved,
    block: usize,
    load: LoadValue,
    workload: Option<&Workload>,
) -> Vec<(u64, Option<u64>)> {
    let settings = &config.load;
    let duration_ns = settings
        .duration
        .map(|d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX));
    if !load.is_open() {
        let measured = settings.requests.unwrap_or_else(|| {
            let slots = load.value.unwrap_or(1.0);
            let seconds = duration_ns.unwrap_or(0) as f64 / 1e9;
            // No server answers faster than 5 ms on average, or the pool's end stops the point.
            ((slots * seconds / 0.005) as u64).clamp(1, MAX_POOL)
        });
        let all = measured.saturating_add(settings.warmup);
        return (0..all).map(|seq| (seq, None)).collect();
    }
    let seed = Sha256::digest(format!("arrivals {} {block}", config.seed).as_bytes()).into();
    let offsets: Box<dyn Iterator<Item = u64>> = match (settings.arrival, workload) {
        (Process::Replay, Some(w)) => Box::new(w.offsets_ns()),
        _ => Box::new(arrivals::offsets(
            law(settings),
            profile(settings, load),
            settings.warmup,
            seed,
        )),
    };
    let whole = arrivals::cut(offsets, settings.warmup, settings.requests, duration_ns);
    (0_u64..)
        .zip(whole)
        .filter(|(seq, _)| settings.shard.is_none_or(|s| s.holds(*seq)))
        .map(|(seq, offset)| (seq, Some(offset)))
        .collect()
}

fn law(load: &Load) -> Law {
    match load.arrival {
        Process::Poisson => Law::Poisson,
        Process::Gamma => Law::Gamma(load.burstiness.unwrap_or(1.0)),
        Process::Closed | Process::Constant | Process::Replay => Law::Constant,
    }
}

fn profile(load: &Load, value: LoadValue) -> Profile {
    match (value.kind, load.ramp) {
        (LoadKind::Ramp, Some(ramp)) => Profile::Ramp {
            from: ramp.from,
            to: ramp.to,
            seconds: load.duration.unwrap_or_default().as_secs_f64(),
        },
        (LoadKind::Stages, _) => {
            let stages = load.stages.iter();
            Profile::Stages(stages.map(|s| (s.rate, s.duration.as_secs_f64())).collect())
        }
        _ => Profile::Rate(value.value.unwrap_or(1.0)),
    }
}

#[cfg(test)]
mod tests;
