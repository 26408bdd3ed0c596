//! Sentences about how the answer comes once it has begun.

use super::{Sentence, alike, comparison, times};
use crate::probe::measure::Way;
use crate::probe::report::Report;
use crate::probe::schedule::Experiment;
use crate::report::numbers::{NONE, median, or_none, short};
use crate::stats::Summary;

/// Tokens per event this near to 1 are one token each.
const ONE_EACH: f64 = 0.02;
/// The 90th percentile this many times the median is still steady.
const STEADY: f64 = 1.25;
/// A drift below this is not worth a word.
const DRIFT: f64 = 0.02;
/// Stalls named at most.
const STALLS_SHOWN: usize = 3;

pub(super) fn way(report: &Report) -> Option<Sentence> {
    let it = &report.streaming;
    let spread = it.spread.p50.or(it.spread.min).map(|s| s * 100.0);
    let share = spread.map_or_else(|| NONE.to_owned(), |s| format!("{s:.0}"));
    let per_read = (it.reads > 0).then(|| it.events as f64 / it.reads as f64);
    let mut text = match it.way {
        Way::Streams => format!(
            "It streams: {} events with output came in {} reads, spread over {} % of an answer's \
             time (n {}).",
            it.events, it.reads, share, it.answers
        ),
        Way::Bundles => format!(
            "It bundles: {} events with output came in {} reads, {} in each, spread over {} % of an \
             answer's time (n {}).",
            it.events,
            it.reads,
            or_none(per_read),
            share,
            it.answers
        ),
        Way::Lump => format!(
            "It streams in form only: all output comes within {} % of an answer's time (n {}), so it \
             is held back, or made too fast to be told apart. Gaps say nothing here.",
            share, it.answers
        ),
        Way::Whole => format!(
            "It answers in one piece although a stream was asked for (n {}): first token and gaps \
             cannot be measured.",
            it.answers
        ),
        Way::Unknown => return None,
    };
    text.push_str(match (it.kept, it.answers) {
        (0, _) => " It closes the connection after each answer.",
        (kept, all) if kept == all => " It leaves connections open.",
        _ => " It closes the connection after some answers.",
    });
    Some(Sentence::new(
        "streaming",
        text,
        &[
            ("answers", Some(it.answers as f64)),
            ("events", Some(it.events as f64)),
            ("reads", Some(it.reads as f64)),
            ("spread_percent", spread),
            ("kept", Some(it.kept as f64)),
        ],
    ))
}

pub(super) fn decode(report: &Report) -> Option<Sentence> {
    if matches!(report.streaming.way, Way::Lump | Way::Whole) {
        return None;
    }
    let gaps = &report.stalls.iter().find(|s| s.of == "alone")?.gap_ms;
    let middle = gaps.p50?;
    let rates = rates(report);
    let per_event = report.streaming.tokens_per_event;
    let (what, note) = match per_event {
        Some(n) if (n - 1.0).abs() <= ONE_EACH => ("token", String::new()),
        Some(n) => ("event", format!(", {} tokens in each by usage", short(n))),
        None => (
            "event",
            " (events, not tokens: it gives no usage)".to_owned(),
        ),
    };
    let unit = if per_event.is_some() {
        "tokens"
    } else {
        "events"
    };
    let even = match gaps.p90 {
        Some(p90) if p90 <= STEADY * middle => ": steady".to_owned(),
        Some(p90) => format!(": uneven, one gap in ten is {} ms or longer", short(p90)),
        None => String::new(),
    };
    let p99 = gaps
        .p99
        .map_or_else(String::new, |p99| format!(", p99 {} ms", short(p99)));
    let rate = or_none(rates.p50.or(rates.min));
    Some(Sentence::new(
        "decode",
        format!(
            "From the first token on there is one {what} every {} ms{note}, {rate} {unit}/s ({} gaps of \
             {} answers{p99}){even}.",
            median(gaps),
            gaps.n,
            rates.n
        ),
        &[
            ("gaps", Some(gaps.n as f64)),
            ("gap_p50_ms", Some(middle)),
            ("gap_p90_ms", gaps.p90),
            ("gap_p99_ms", gaps.p99),
            ("gap_max_ms", gaps.max),
            ("tokens_per_event", per_event),
            ("per_s", rates.p50),
        ],
    ))
}

/// Speeds of all answers that were alone.
fn rates(report: &Report) -> Summary {
    let alone = report
        .rows
        .iter()
        .filter(|r| matches!(r.experiment, Experiment::Cold | Experiment::Warm) && r.ok());
    Summary::of(alone.filter_map(|r| r.decode_rate()).collect())
}

pub(super) fn drift(report: &Report) -> Option<Sentence> {
    let long = comparison(report, "long_gap")?;
    let late = comparison(report, "late_gap")?;
    let told = |c: &crate::probe::measure::Comparison| {
        c.differs == Some(true) && c.ratio.p50.is_some_and(|r| (r - 1.0).abs() > DRIFT)
    };
    let lengths = &report.asked.prompt_tokens;
    let by_prompt = format!(
        "behind {} tokens of prompt it is {} times that behind {} ({} pairs)",
        lengths.last()?,
        times(&long.ratio),
        lengths.first()?,
        long.ratio.n
    );
    let by_place = format!(
        "in an answer's second half it is {} times that in its first ({} answers)",
        times(&late.ratio),
        late.ratio.n
    );
    let text = match (told(long), told(late)) {
        (false, false) => return None,
        (true, false) => by_prompt,
        (false, true) => by_place,
        (true, true) => format!("{by_prompt}, {by_place}"),
    };
    Some(Sentence::new(
        "drift",
        format!("The gap between events changes: {text}."),
        &[
            ("long_ratio", long.ratio.p50),
            ("long_pairs", Some(long.ratio.n as f64)),
            ("late_ratio", late.ratio.p50),
            ("late_answers", Some(late.ratio.n as f64)),
        ],
    ))
}

pub(super) fn stalls(report: &Report) -> Option<Sentence> {
    if matches!(report.streaming.way, Way::Lump | Way::Whole) {
        return None;
    }
    let mut parts = Vec::new();
    let mut figures = Vec::new();
    for (it, names) in report.stalls.iter().zip([
        ["alone", "alone_limit_ms", "alone_gaps"],
        ["parallel", "parallel_limit_ms", "parallel_gaps"],
    ]) {
        let Some(limit) = it.limit_ms else { continue };
        let whose = if it.of == "alone" { "alone" } else { "at once" };
        let mut part = match it.stalls.len() {
            0 => "no stall".to_owned(),
            1 => "1 stall".to_owned(),
            n => format!("{n} stalls"),
        };
        part.push_str(&format!(
            " among {} gaps of answers {whose} (longer than {} ms)",
            it.gap_ms.n,
            short(limit)
        ));
        let shown: Vec<String> = it
            .stalls
            .iter()
            .take(STALLS_SHOWN)
            .map(|s| {
                format!(
                    "{} ms at {:.2} s in request {}",
                    short(s.gap_ms),
                    s.at_ms / 1e3,
                    s.seq
                )
            })
            .collect();
        if !shown.is_empty() {
            let more = it.stalls.len() - shown.len();
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            part.push_str(&format!(": {}{more}", shown.join(", ")));
        }
        let beside = it.stalls.iter().filter(|s| s.beside_prefill).count();
        if beside > 0 {
            part.push_str(&format!(
                "; {beside} of them while another request waited for its first token: prefill of \
                 one holds up the others"
            ));
        }
        parts.push(part);
        figures.extend([
            (names[0], Some(it.stalls.len() as f64)),
            (names[1], Some(limit)),
            (names[2], Some(it.gap_ms.n as f64)),
        ]);
    }
    let mut text = parts.join("; ");
    let first = text.get(..1)?.to_uppercase();
    text.replace_range(..1, &first);
    Some(Sentence::new("stalls", format!("{text}."), &figures))
}

pub(super) fn whole(report: &Report) -> Option<Sentence> {
    let it = comparison(report, "whole_e2e")?;
    let ratio = it.ratio.p50?;
    let what = format!(
        "{} times as long as streamed ({} pairs)",
        times(&it.ratio),
        it.ratio.n
    );
    let text = match it.differs {
        Some(true) => format!("The same answer in one piece takes {what}."),
        Some(false) if alike(it) => format!(
            "The same answer in one piece takes {what}: streaming costs nothing that can be measured."
        ),
        Some(false) => format!(
            "The same answer in one piece took {what}: too uncertain to say what streaming costs."
        ),
        None => format!("The same answer in one piece took {what}; too few to say more."),
    };
    Some(Sentence::new(
        "whole",
        text,
        &[
            ("ratio", Some(ratio)),
            ("low", it.ratio.ci95.p50.map(|ci| ci[0])),
            ("high", it.ratio.ci95.p50.map(|ci| ci[1])),
            ("pairs", Some(it.ratio.n as f64)),
        ],
    ))
}
