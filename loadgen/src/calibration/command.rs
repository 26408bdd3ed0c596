//! `loadgen calibrate`: the instrument's error at a load that the user names, without a run.

use std::fmt::Write as _;

use serde_json::json;
use tokio::signal::ctrl_c;
use tokio::sync::watch;

use super::shape::Shape;
use super::{measure, standalone};
use crate::artifacts::manifest::{ErrorSummary, Instrument};
use crate::cli::calibrate_args::CalibrateArgs;
use crate::config::{LoadKind, LoadValue};
use crate::gates::instrument::{Excess, held_against};
use crate::gates::{GateStatus, Status};
use crate::report::numbers::{or_none, short};
use crate::run::RunError;
use crate::show::Shown;
use crate::slo::Slo;

/// Measures the instrument as the arguments say.
///
/// # Errors
/// When the arguments contradict a rule, or when nothing could be compared.
pub async fn calibrate(args: &CalibrateArgs) -> Result<Shown, RunError> {
    let usage = |e: &dyn ToString| RunError::Usage(e.to_string());
    let slo: Option<Slo> = match &args.slo {
        Some(text) => Some(text.parse().map_err(|e| usage(&e))?),
        None => None,
    };
    let load = match args.rate {
        Some(rate) => LoadValue {
            kind: LoadKind::Rate,
            value: Some(rate),
        },
        None => LoadValue {
            kind: LoadKind::Concurrency,
            value: Some(args.concurrency.into()),
        },
    };
    let shape = Shape {
        load,
        ttft: args.ttft,
        itl: args.itl,
        outputs: args.output_tokens,
        duration: args.duration,
    };
    let config = standalone(args.endpoint, args.input_tokens, &shape).map_err(|e| usage(&e))?;
    let (ask, interrupt) = watch::channel(false);
    tokio::spawn(async move {
        if ctrl_c().await.is_ok() {
            ask.send_replace(true);
        }
        // Held until the process ends: a dropped sender would read as no interrupt any more.
        std::future::pending::<()>().await;
    });
    let instrument = measure(&config, &shape, interrupt)
        .await
        .map_err(|why| RunError::Failed {
            what: "calibration".to_owned(),
            why,
        })?;
    let held = slo.map(|slo| held_against(&instrument, &slo.limits));
    Ok(show(&instrument, held.as_deref(), args.json))
}

fn show(instrument: &Instrument, held: Option<&[Excess]>, as_json: bool) -> Shown {
    let status = held.map(|all| {
        if all.iter().any(|e| e.status() == GateStatus::Fail) {
            Status::Invalid
        } else if all.is_empty() || all.iter().any(|e| e.status() == GateStatus::Undecided) {
            Status::Inconclusive
        } else {
            Status::Valid
        }
    });
    let exit_code = status.map_or(0, Status::exit_code);
    if as_json {
        let value = json!({"status": status, "instrument": instrument});
        return Shown {
            text: format!("{value:#}\n"),
            exit_code,
        };
    }
    let mut text = text(instrument);
    for excess in held.unwrap_or_default() {
        let _ = writeln!(text, "{}  {excess}", excess.status().label());
    }
    match (status, held) {
        (Some(status), Some([])) => {
            let _ = writeln!(text, "{}: the SLO has no latency limit", status.label());
        }
        (Some(status), _) => {
            let _ = writeln!(text, "{}", status.label());
        }
        (None, _) => {}
    }
    Shown { text, exit_code }
}

/// The figures in words, a line for the load and one for each error.
#[must_use]
pub fn text(instrument: &Instrument) -> String {
    let i = instrument;
    let mut out = format!(
        "{}, {} streams, {} events/s ({} events an answer, TTFT {} ms, gaps {} ms), {} requests in \
         {} s\n",
        i.load.label(),
        short(i.streams),
        short(i.events_per_s),
        i.output_events,
        short(i.server_ttft_ms),
        short(i.server_itl_ms),
        i.requests,
        short(i.seconds)
    );
    for (name, e) in i.errors() {
        let _ = writeln!(out, "{name:<28} {}", figures(e));
    }
    out.push_str("client and server share this host's cores: errors are upper bounds\n");
    out
}

fn figures(e: &ErrorSummary) -> String {
    format!(
        "p50 {} ms  p99 {} ms  max {} ms  ({} values)",
        or_none(e.p50),
        or_none(e.p99),
        or_none(e.max),
        e.n
    )
}
