//! Gates about client rows and gateway records put together.

use super::{Blame, Facts, Finding, GateStatus};
use crate::config::ArmKind;

fn has_gateway(facts: &Facts<'_>) -> bool {
    let arms = &facts.manifest.arms;
    arms.iter().any(|arm| arm.kind == ArmKind::Gateway)
}

pub(super) fn join_complete(facts: &Facts<'_>) -> Finding {
    if !has_gateway(facts) {
        return Finding::not_applicable("no arm goes through a gateway");
    }
    let Some(join) = facts.join else {
        return if facts.config.gateway_records.is_some() {
            Finding::undecided("gateway records were asked for and raw/ has none")
        } else {
            Finding::not_applicable("no gateway records were asked for; there is no attribution")
                .remedied_by("name them with --gateway-records")
        };
    };
    if let Some(foreign) = &join.foreign_boot_id {
        return Finding::new(
            GateStatus::Fail,
            format!("records are of boot {foreign}, the client's is another: stamps don't compare"),
        )
        .blaming(Blame::Environment)
        .remedied_by("run loadgen and the gateway on one machine");
    }
    let amiss = join.unjoined + join.duplicates + join.records_without_row;
    Finding::held(
        amiss == 0,
        GateStatus::Fail,
        format!(
            "joined {}, unjoined {}, duplicates {}, records without a request {}",
            join.joined, join.unjoined, join.duplicates, join.records_without_row
        ),
    )
    .measured(Some(amiss as f64))
}

pub(super) fn records_dropped(facts: &Facts<'_>) -> Finding {
    let Some(join) = facts.join else {
        return Finding::not_applicable("no gateway records");
    };
    let Some(dropped) = join.records_dropped else {
        return Finding::undecided("the gateway's records have no header line");
    };
    Finding::held(
        dropped == 0 || join.unjoined == 0,
        GateStatus::Fail,
        format!(
            "the gateway lost {dropped} records so far; {} of this run miss theirs",
            join.unjoined
        ),
    )
    .measured(Some(dropped as f64))
}

pub(super) fn byte_identity(facts: &Facts<'_>) -> Finding {
    let Some(join) = facts.join else {
        return Finding::not_applicable("no gateway records");
    };
    if join.hashes.compared == 0 {
        return Finding::not_applicable("no answer has a hash on all three sides");
    }
    let evidence = match &join.hashes.first_difference {
        None => format!("{} answers equal on all three sides", join.hashes.compared),
        Some(id) => format!(
            "{} of {} answers differ; first {id}",
            join.hashes.different, join.hashes.compared
        ),
    };
    Finding::held(join.hashes.different == 0, GateStatus::Fail, evidence)
        .measured(Some(join.hashes.different as f64))
}
