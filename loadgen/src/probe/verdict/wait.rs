//! Sentences about the time until the first token.

use super::{Sentence, alike, comparison, group, times};
use crate::probe::report::Report;
use crate::probe::schedule::Experiment;
use crate::report::numbers::{median, or_none, short, with_interval};

/// Share of the TTFT from which on the head came with the first token.
const HEAD_WITH_TOKEN: f64 = 0.9;
/// How many times slower the first request must be to be worth a word.
const SLOW_OPENING: f64 = 2.0;

pub(super) fn first_token(report: &Report) -> Option<Sentence> {
    let it = group(report, Experiment::Cold, true)?;
    let ttft = it.ttft_ms.p50?;
    let (upload, head) = (it.upload_ms.p50?, it.head_ms.p50?);
    let mut text = format!(
        "A prompt of {} tokens that was never seen before has its first token after {} ms (n {}). ",
        it.asked_tokens,
        median(&it.ttft_ms),
        it.ttft_ms.n
    );
    text.push_str(&if head > HEAD_WITH_TOKEN * ttft {
        format!(
            "Of that the upload takes {} ms; the answer's head comes after {} ms, with the first token.",
            short(upload),
            short(head)
        )
    } else {
        format!(
            "Of that the upload takes {} ms, the answer's head comes after {} ms, and for {} ms more \
             the answer is open and empty.",
            short(upload),
            short(head),
            short(ttft - head)
        )
    });
    text.push_str(&format!(
        " Connecting took {} ms before that.",
        or_none(it.connect_ms.p50)
    ));
    Some(Sentence::new(
        "first_token",
        text,
        &[
            ("prompt_tokens", Some(it.asked_tokens as f64)),
            ("n", Some(it.ttft_ms.n as f64)),
            ("ttft_ms", Some(ttft)),
            ("upload_ms", Some(upload)),
            ("head_ms", Some(head)),
            ("connect_ms", it.connect_ms.p50),
        ],
    ))
}

pub(super) fn prefill(report: &Report) -> Option<Sentence> {
    let fit = report.fit.as_ref()?;
    let (first, last) = (fit.levels.first()?, fit.levels.last()?);
    let range = format!(
        "{} answers of {} lengths from {:.0} to {:.0} tokens",
        fit.n,
        fit.levels.len(),
        first.tokens,
        last.tokens
    );
    let slope = with_interval(Some(fit.per_100_tokens_ms), fit.ci95);
    let grows = fit.ci95.is_some_and(|[low, _]| low > 0.0);
    let share = (fit.per_100_tokens_ms * last.tokens / 100.0 / last.line_ms).clamp(0.0, 1.0);
    let mut text = if grows {
        let over = match fit.fixed_ms {
            fixed if fixed > 0.0 => format!(" over a fixed {} ms", short(fixed)),
            _ => String::new(),
        };
        format!(
            "TTFT grows by {slope} ms per 100 prompt tokens{over} ({range}): at {:.0} tokens {:.0} % \
             of it grows with the prompt, as prefill does.",
            last.tokens,
            share * 100.0
        )
    } else {
        format!(
            "TTFT does not measurably grow with the prompt: {slope} ms per 100 tokens ({range})."
        )
    };
    if fit.straight == Some(false) {
        let off = |l: &crate::probe::fit::Level| l.off_ms.p50.unwrap_or(0.0).abs();
        let inner = &fit.levels[1..fit.levels.len() - 1];
        if let Some(worst) = inner.iter().max_by(|a, b| off(a).total_cmp(&off(b))) {
            text.push_str(&format!(
                " It does not do so evenly: at {:.0} tokens it is {} ms off the line.",
                worst.tokens,
                or_none(worst.off_ms.p50)
            ));
        }
    }
    Some(Sentence::new(
        "prefill",
        text,
        &[
            ("n", Some(fit.n as f64)),
            ("per_100_tokens_ms", Some(fit.per_100_tokens_ms)),
            ("low_ms", fit.ci95.map(|ci| ci[0])),
            ("high_ms", fit.ci95.map(|ci| ci[1])),
            ("fixed_ms", Some(fit.fixed_ms)),
            ("off_ms", Some(fit.off_ms)),
            ("growing_share", Some(share)),
        ],
    ))
}

pub(super) fn again(report: &Report) -> Option<Sentence> {
    let it = comparison(report, "warm_ttft")?;
    let ratio = it.ratio.p50?;
    let warm = group(report, Experiment::Warm, true)?;
    let said = cached(report);
    let mut text = match it.differs {
        Some(true) if ratio < 1.0 => {
            let sooner = |r: f64| (1.0 - r) * 100.0;
            let interval = it
                .ratio
                .ci95
                .p50
                .map(|[low, high]| [sooner(high), sooner(low)]);
            format!(
                "Asked again at once, the same prompt has its first token {} % sooner, after {} ms \
                 ({} pairs): a prefix cache.",
                with_interval(Some(sooner(ratio)), interval),
                median(&warm.ttft_ms),
                it.ratio.n
            )
        }
        Some(true) => format!(
            "Asked again at once, the same prompt takes {} times as long to its first token ({} \
             pairs): the prefix cache, if there is one, does not help.",
            times(&it.ratio),
            it.ratio.n
        ),
        Some(false) if alike(it) => format!(
            "Asked again at once, the same prompt is not measurably faster: {} times the TTFT ({} \
             pairs). No prefix cache is at work, or prefill is too short to show it.",
            times(&it.ratio),
            it.ratio.n
        ),
        Some(false) => format!(
            "Asked again at once, the same prompt took {} times the TTFT ({} pairs): too uncertain to \
             say whether a prefix cache is at work.",
            times(&it.ratio),
            it.ratio.n
        ),
        None => format!(
            "Asked again at once, the same prompt took {} times the TTFT; {} pairs are too few to \
             say more.",
            short(ratio),
            it.ratio.n
        ),
    };
    if let Some(tokens) = said {
        text.push_str(&format!(
            " The engine itself says that {tokens:.0} of its {} tokens came from the cache.",
            warm.asked_tokens
        ));
    }
    Some(Sentence::new(
        "prefix_cache",
        text,
        &[
            ("pairs", Some(it.ratio.n as f64)),
            ("ratio", Some(ratio)),
            ("low", it.ratio.ci95.p50.map(|ci| ci[0])),
            ("high", it.ratio.ci95.p50.map(|ci| ci[1])),
            ("warm_ttft_ms", warm.ttft_ms.p50),
            ("cached_tokens", said),
        ],
    ))
}

/// What the engine said of prompts asked again, if all answers say so.
fn cached(report: &Report) -> Option<f64> {
    let rows = || {
        report
            .rows
            .iter()
            .filter(|r| r.experiment == Experiment::Warm && r.ok())
    };
    let mut said: Vec<u64> = rows().filter_map(|r| r.cached_tokens).collect();
    said.sort_unstable();
    (said.len() == rows().count())
        .then(|| said.get(said.len() / 2).map(|&n| n as f64))
        .flatten()
}

pub(super) fn opening(report: &Report) -> Option<Sentence> {
    let first = report.opening_ttft_ms?;
    let later = group(report, Experiment::Cold, false)?;
    let usual = later.ttft_ms.p50?;
    (first > SLOW_OPENING * usual).then(|| {
        Sentence::new(
            "opening",
            format!(
                "The very first request waited {} ms, {} times as long as later ones of {} tokens: \
                 something was still warming up (one observation).",
                short(first),
                short(first / usual),
                later.asked_tokens
            ),
            &[
                ("opening_ttft_ms", Some(first)),
                ("later_ttft_ms", Some(usual)),
            ],
        )
    })
}
