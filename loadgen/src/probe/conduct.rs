//! Conducts a probe: opens, fixes prompt lengths, and goes through the rounds.
//!
//! One request, or one group, at a time; between them a short silence in which the process can be
//! seen at rest. Nothing can hang: each request has its limit and so has the whole probe, an engine
//! that is gone ends it, and so does a signal. What was measured until then is kept.

use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use inferscope_shared::clock::MonoNs;
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::ask::{Asker, Order};
use super::find::{self, Engine};
use super::row::Row;
use super::schedule::{self, Experiment, Step};
use super::watch::{INTERVAL, Seen, Watch};
use super::{Options, ProbeError};
use crate::artifacts::manifest::{Calibration, ManifestEngine};
use crate::client::exchange::Cut;
use crate::client::kernel_clock::KernelClock;
use crate::config::{Endpoint, KernelStamps};
use crate::drive::timer;
use crate::plan::body;
use crate::plan::calibrate;
use crate::plan::prompts::Vocabulary;
use crate::run::{Signal, Signals};

/// Words of the first prompt, before lengths are known.
const OPENING_WORDS: u64 = 32;
/// The engine at rest, before anything is asked.
const REST: Duration = Duration::from_millis(500);
/// Steps that may fail one after the other.
const PATIENCE: u32 = 3;

/// A probe's raw findings.
#[derive(Debug)]
pub(super) struct Measured {
    pub options: Options,
    pub url: String,
    pub model: String,
    pub endpoint: Endpoint,
    pub about: ManifestEngine,
    pub lengths: Calibration,
    pub levels: Vec<u64>,
    pub origin: MonoNs,
    pub seconds: f64,
    pub rows: Vec<Row>,
    pub watched: Watched,
    /// Why it ended before its time.
    pub stopped: Option<String>,
    pub interrupted: bool,
}

/// What is known of the engine's process.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pub pid: Option<u32>,
    pub command: Option<String>,
    pub seen: Seen,
}

/// Probes an engine that was found.
pub(super) async fn rounds(
    options: &Options,
    engine: Engine,
) -> Result<(Measured, Option<Signal>), ProbeError> {
    let signals = Signals::listen().map_err(|e| ProbeError::Failed(format!("signals: {e}")))?;
    let (cutter, cut) = watch::channel(Cut::No);
    let mut asked = signals.asked.clone();
    let within = options.within;
    tokio::spawn(async move {
        tokio::select! {
            Ok(_) = asked.wait_for(|it| *it) => cutter.send_replace(Cut::Interrupted),
            () = tokio::time::sleep(within) => cutter.send_replace(Cut::RunEnd),
        };
        // Kept open: a closed channel means the end of the run to an exchange.
        cutter.closed().await;
    });
    timer::go_first();
    let origin = MonoNs::now();
    let mut watched = Watched::default();
    let watch = match engine.process {
        Ok((tree, command)) => {
            (watched.pid, watched.command) = (Some(tree.root()), Some(command));
            Watch::start(tree).map_err(|e| e.to_string())
        }
        Err(why) => Err(why),
    };
    let mut probe = Probe {
        asker: Asker {
            target: engine.target.clone(),
            key: engine.key.clone(),
            model: engine.config.request.model.clone(),
            endpoint: engine.config.request.endpoint,
            usage: true,
            ignore_eos: body::knows_ignore_eos(engine.about.kind),
            output_tokens: options.output_tokens,
            timeout: options.timeout,
            origin,
            id: engine.config.run_id.clone(),
            clock: Arc::new(KernelClock::start(KernelStamps::Auto)),
        },
        vocabulary: Vocabulary::assumed(),
        rows: Vec::new(),
        silence: watch.as_ref().ok().map(|_| INTERVAL * 5 / 2),
        cut,
    };
    let progress = progress(schedule::total(options.rounds, options.at_once));
    if watch.is_ok() {
        probe.rest(REST).await;
    }
    let mut opened = probe.open(options).await;
    let mut lengths = Calibration::default();
    let levels = schedule::lengths(engine.lengths);
    let mut stopped = None;
    if opened.is_ok() {
        let mut config = engine.config.clone();
        config.request.endpoint = probe.asker.endpoint;
        let mut cut = probe.cut.clone();
        tokio::select! {
            _ = cut.wait_for(|c| *c != Cut::No) => {}
            found = calibrate::calibrate(&config, &engine.target, engine.key.as_deref()) => {
                (probe.vocabulary, lengths) = found;
            }
        }
        opened = check_lengths(&probe.vocabulary, &levels);
    }
    if opened.is_ok() {
        stopped = probe.rounds(options, &levels, &progress).await;
        // The last request's end is followed by a sample too.
        probe.pause().await;
    }
    progress.finish_and_clear();
    timer::go_along();
    let interrupted = *signals.got.borrow();
    let end = MonoNs::now();
    match watch {
        Ok(watch) => watched.seen = watch.finish(),
        Err(why) => watched.seen.reason = Some(why),
    }
    signals.over();
    if interrupted.is_none() {
        opened?;
    }
    let measured = Measured {
        options: options.clone(),
        url: engine.target.to_string(),
        model: engine.config.request.model.clone(),
        endpoint: probe.asker.endpoint,
        about: engine.about,
        lengths,
        levels,
        origin,
        seconds: end.since(origin) as f64 / 1e9,
        rows: probe.rows,
        watched,
        stopped,
        interrupted: interrupted.is_some(),
    };
    Ok((measured, interrupted))
}

/// The template may leave no room for the shortest prompt.
fn check_lengths(vocabulary: &Vocabulary, levels: &[u64]) -> Result<(), ProbeError> {
    let template = vocabulary.template_tokens();
    match levels.first() {
        Some(&short) if short <= template => Err(ProbeError::Usage(format!(
            "--prompt {short},…: the chat template alone takes {template} tokens; ask for at least {}",
            template + 1
        ))),
        _ => Ok(()),
    }
}

fn progress(total: u64) -> ProgressBar {
    // Hidden by itself where standard error is no terminal.
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} {eta}") {
        bar.set_style(style);
    }
    bar
}

struct Probe {
    asker: Asker,
    vocabulary: Vocabulary,
    rows: Vec<Row>,
    silence: Option<Duration>,
    cut: watch::Receiver<Cut>,
}

impl Probe {
    /// Why no more is asked, if so.
    fn why_cut(&self, options: &Options) -> Option<String> {
        match *self.cut.borrow() {
            Cut::No => None,
            Cut::Interrupted => Some("interrupted".to_owned()),
            Cut::RunEnd | Cut::PointTimeout => Some(format!(
                "its {:?} are over; give it more with --within, or ask for less",
                options.within
            )),
        }
    }

    async fn rest(&mut self, time: Duration) {
        tokio::select! {
            _ = self.cut.wait_for(|c| *c != Cut::No) => {}
            () = tokio::time::sleep(time) => {}
        }
    }

    async fn pause(&mut self) {
        if let Some(time) = self.silence {
            self.rest(time).await;
        }
    }

    /// A prompt that no other request of this or any other probe has.
    fn prompt(&self, words: u64, seq: u32) -> String {
        let seed = Sha256::digest(format!("probe {} {seq}", self.asker.id).as_bytes()).into();
        self.vocabulary.text(words, &seed, 0, 1)
    }

    /// The first request of all: finds out the endpoint, and whether usage can be asked for.
    async fn open(&mut self, options: &Options) -> Result<(), ProbeError> {
        loop {
            let order = Order {
                seq: 0,
                experiment: Experiment::Opening,
                round: 0,
                tokens: OPENING_WORDS,
                prompt: self.prompt(OPENING_WORDS, 0),
            };
            let row = self.asker.ask(order, self.cut.clone()).await;
            let message = row.error_message.clone().unwrap_or_default();
            match row.status {
                Some(404 | 405 | 501) if self.asker.endpoint == Endpoint::Chat => {
                    self.asker.endpoint = Endpoint::Completions;
                    continue;
                }
                Some(400 | 422) if self.asker.usage && message.contains("stream_options") => {
                    self.asker.usage = false;
                    continue;
                }
                Some(400 | 422) if self.asker.ignore_eos && message.contains("ignore_eos") => {
                    self.asker.ignore_eos = false;
                    continue;
                }
                _ => {}
            }
            if row.ok() {
                self.rows.push(row);
                return Ok(());
            }
            let url = &options.url;
            if let Some(why) = self.why_cut(options) {
                return Err(ProbeError::Failed(format!("{url}: {why}")));
            }
            let kind = row.error_kind.as_deref().unwrap_or("unknown");
            return Err(match row.status {
                Some(status @ (401 | 403)) => ProbeError::Usage(find::refused(options, status)),
                _ if kind.ends_with("_timeout") => ProbeError::Failed(format!(
                    "{url}: the first request did not end within {:?}; give it more with --timeout",
                    options.timeout
                )),
                _ => ProbeError::Failed(format!(
                    "{url}: the first request failed ({kind}: {message}); look at the engine's log"
                )),
            });
        }
    }

    /// All rounds; why they ended early, if they did.
    async fn rounds(
        &mut self,
        options: &Options,
        levels: &[u64],
        progress: &ProgressBar,
    ) -> Option<String> {
        let mut failures = 0;
        for number in 0..options.rounds {
            progress.set_message(format!("round {} of {}", number + 1, options.rounds));
            for step in schedule::round(number, levels, options.at_once) {
                self.pause().await;
                if let Some(why) = self.why_cut(options) {
                    return Some(why);
                }
                let before = self.rows.len();
                self.step(number, step).await;
                progress.set_position(self.rows.len() as u64);
                let rows = &self.rows[before..];
                let Some(failed) = rows.iter().all(|r| !r.ok()).then(|| rows.last()).flatten()
                else {
                    failures = 0;
                    continue;
                };
                if let Some(why) = self.why_cut(options) {
                    return Some(why);
                }
                failures += 1;
                let kind = failed.error_kind.as_deref().unwrap_or("unknown");
                let message = failed.error_message.as_deref().unwrap_or_default();
                if matches!(kind, "connect" | "connect_refused" | "connect_timeout") {
                    return Some(format!(
                        "the engine no longer accepts connections ({message}); look at its log"
                    ));
                }
                if failures == PATIENCE {
                    return Some(format!(
                        "{PATIENCE} requests in a row failed, the last with {kind}: {message}"
                    ));
                }
            }
        }
        None
    }

    /// One step: its requests, all at once.
    async fn step(&mut self, round: u32, step: Step) {
        let asker = Arc::new(self.asker.clone());
        let mut running = JoinSet::new();
        for index in 0..step.at_once {
            let seq = u32::try_from(self.rows.len()).unwrap_or(u32::MAX) + index;
            // The same content as the request before, or content that nobody has seen.
            let content = match step.experiment {
                Experiment::Warm => seq.saturating_sub(1),
                _ => seq,
            };
            let words = self.vocabulary.words_for(step.tokens).unwrap_or(1);
            let order = Order {
                seq,
                experiment: step.experiment,
                round,
                tokens: step.tokens,
                prompt: self.prompt(words, content),
            };
            let (asker, cut) = (Arc::clone(&asker), self.cut.clone());
            running.spawn(async move { asker.ask(order, cut).await });
        }
        let mut rows = running.join_all().await;
        rows.sort_by_key(|row| row.seq);
        self.rows.extend(rows);
    }
}
