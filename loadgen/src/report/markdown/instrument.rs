//! How far the instrument itself was off, beside the numbers that it gave.

use std::fmt::Write as _;

use super::table;
use crate::artifacts::manifest::Calibration;
use crate::report::numbers::{or_none, short};

pub(super) fn own_error(out: &mut String, calibration: &Calibration) {
    out.push_str("### The instrument's own error\n\n");
    let Some(it) = &calibration.instrument else {
        let why = calibration.instrument_absent.as_deref();
        let _ = writeln!(out, "Not known: {}.\n", why.unwrap_or("not measured"));
        return;
    };
    let rows = it.errors().map(|(name, e)| {
        vec![
            name.to_owned(),
            e.n.to_string(),
            or_none(e.p50),
            or_none(e.p99),
            or_none(e.max),
        ]
    });
    table(out, &["ms", "n", "p50", "p99", "max"], rows);
    let _ = writeln!(
        out,
        "Client against server stamps, measured on this host after the points at the load of \
         `{}`: {} streams, {} events/s. Client and server share this host's cores: upper bound.\n",
        it.point_id.as_deref().unwrap_or("no point"),
        short(it.streams),
        short(it.events_per_s)
    );
}
