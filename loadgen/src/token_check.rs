//! Counting some answers' tokens again, so that usage is not the only witness.
//!
//! While a run goes on the writing thread keeps the texts of a few answers per point
//! ([`KeptTexts`]); when it is over they are counted by a local `tokenizer.json` or by the engine's
//! `/tokenize`, and the sums go into the manifest. What a difference means is judged by
//! [`crate::gates`].
//!
//! The surprise: text is not tokens. Each kind of output is counted apart, because what lies between
//! them (the end of reasoning, the end of the answer) is generated and never shown.

pub mod local;

use inferscope_shared::openai::Texts;
use inferscope_shared::record::request::{Outcome, Phase, RequestRecord};
use tokio::sync::watch;

use crate::artifacts::manifest::TokenCheck;
use crate::client::target::Target;
use crate::config::Resolved;
use crate::plan::calibrate::Tokenizer;
use local::Local;

/// Answers kept per point.
const ANSWERS: usize = 20;

/// Bytes of text kept per answer; longer ones are passed over, since a part has no count.
const BYTES: usize = 64 * 1024;

/// What all counting may take.
const BUDGET: std::time::Duration = std::time::Duration::from_secs(30);

/// The text of one answer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    request_id: String,
    usage: u64,
    texts: Vec<String>,
}

/// Texts of a run's answers, a few per point.
#[derive(Debug, Default)]
pub struct KeptTexts {
    points: Vec<Vec<Kept>>,
}

impl KeptTexts {
    /// Keeps the text of a measured answer that ended ok and was counted, as long as there is room.
    pub fn offer(&mut self, point: usize, record: &RequestRecord, texts: Option<&Texts>) {
        let Some((usage, texts)) = record.completion_tokens.zip(texts) else {
            return;
        };
        // Of a tool call only name and arguments are shown, not the words around them.
        let plain = record.finish_reason.as_deref() != Some("tool_calls");
        if record.outcome != Outcome::Ok || record.phase != Phase::Measure || !plain {
            return;
        }
        if self.points.len() <= point {
            self.points.resize_with(point + 1, Vec::new);
        }
        let kept = &mut self.points[point];
        if kept.len() < ANSWERS && texts.pieces().map(str::len).sum::<usize>() <= BYTES {
            kept.push(Kept {
                request_id: record.request_id.clone(),
                usage,
                texts: texts
                    .pieces()
                    .filter(|t| !t.is_empty())
                    .map(str::to_owned)
                    .collect(),
            });
        }
    }

    fn of(&self, point: usize) -> &[Kept] {
        self.points.get(point).map_or(&[], Vec::as_slice)
    }
}

/// Who counts.
enum Counter<'a> {
    Local(&'a Local),
    Engine(Tokenizer<'a>),
}

impl Counter<'_> {
    fn name(&self) -> &'static str {
        match self {
            Self::Local(_) => "tokenizer.json",
            Self::Engine(tokenizer) => tokenizer.name(),
        }
    }

    async fn count(&self, text: &str) -> Result<u64, String> {
        match self {
            Self::Local(tokenizer) => {
                // A place for the time limit and a signal to come in.
                tokio::task::yield_now().await;
                tokenizer.count(text)
            }
            Self::Engine(tokenizer) => tokenizer.count_text(text).await,
        }
    }
}

/// Counts what was kept, for each of `points` points, within a time limit and until a signal.
pub async fn count(
    config: &Resolved,
    local: Option<&Local>,
    engine: (&Target, Option<&str>),
    kept: &KeptTexts,
    points: usize,
    mut interrupt: watch::Receiver<bool>,
) -> Vec<TokenCheck> {
    let mut checks = vec![TokenCheck::default(); points];
    let why = {
        let counting = all(config, local, engine, kept, &mut checks);
        tokio::select! {
            biased;
            _ = interrupt.wait_for(|i| *i) => Err("interrupted".to_owned()),
            counted = tokio::time::timeout(BUDGET, counting) => counted.unwrap_or_else(|_| {
                Err(format!("counting took longer than {} s", BUDGET.as_secs()))
            }),
        }
    };
    if let Err(why) = why {
        for check in &mut checks {
            if check.answers == 0 {
                check.reason.get_or_insert_with(|| why.clone());
            }
        }
    }
    checks
}

async fn all(
    config: &Resolved,
    local: Option<&Local>,
    engine: (&Target, Option<&str>),
    kept: &KeptTexts,
    checks: &mut [TokenCheck],
) -> Result<(), String> {
    let counter = match local {
        Some(local) => Counter::Local(local),
        None => Counter::Engine(Tokenizer::find(config, engine.0, engine.1).await?),
    };
    for (point, check) in checks.iter_mut().enumerate() {
        counter.name().clone_into(&mut check.tokenizer);
        let mut worst = 0;
        for answer in kept.of(point) {
            let mut counted = 0_u64;
            for text in &answer.texts {
                counted = counted.saturating_add(counter.count(text).await?);
            }
            check.answers += 1;
            check.texts += answer.texts.len() as u64;
            check.usage_tokens = check.usage_tokens.saturating_add(answer.usage);
            check.counted_tokens = check.counted_tokens.saturating_add(counted);
            let difference = counted.abs_diff(answer.usage);
            if difference > worst {
                worst = difference;
                check.worst = Some(format!(
                    "{}: {} by usage, {counted} counted",
                    answer.request_id, answer.usage
                ));
            }
        }
        if check.answers == 0 {
            check.reason = Some("no measured answer with text and a count ended ok".to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
