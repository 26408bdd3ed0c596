//! The table of gates and what docs/methodology.md says of it.

use super::*;

/// The table of gates as `docs/methodology.md` has it.
fn table() -> String {
    let mut text = String::from(
        "| gate | scope | needs | measures | passes | why | points at | remedy |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for rule in rules() {
        let scope = match rule.check {
            Check::Run(_) => "run",
            Check::Point(_) => "point",
        };
        let blame = rule.blame.label();
        assert_eq!(serde_json::to_value(rule.blame).unwrap(), blame);
        let unit = if rule.unit == "1" { "share" } else { rule.unit };
        text.push_str(&format!(
            "| `{}` | {scope} | {} | {} ({unit}) | {} | {} | {} | {} |\n",
            rule.id, rule.needs, rule.measures, rule.passes, rule.why, blame, rule.remedy,
        ));
    }
    text
}

/// `UPDATE_DOCS=1 cargo test -p loadgen methodology` rewrites the table.
#[test]
fn the_methodology_has_every_gate_and_every_metric() {
    const BEGIN: &str = "<!-- gates: written from loadgen/src/gates/rules.rs -->\n";
    const END: &str = "<!-- end of gates -->";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/methodology.md");
    let mut text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (stored, after) = rest.split_once(END).unwrap();
    let stored = stored.to_owned();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        text = format!("{before}{BEGIN}{}{END}{after}", table());
        std::fs::write(&path, &text).unwrap();
    } else {
        assert!(
            stored == table(),
            "{} has another table: run with UPDATE_DOCS=1",
            path.display()
        );
    }
    for metric in inferscope_shared::definitions::ALL {
        let symbol = format!("`{}`", metric.symbol);
        assert!(
            text.contains(&symbol),
            "{symbol} is not in {}",
            path.display()
        );
    }
}

#[test]
fn thresholds_are_said_as_they_are_applied() {
    for rule in rules().filter(|r| r.unit == "1" || r.unit == "ms") {
        // A limit that comes from the run itself.
        let Some(threshold) = rule.threshold else {
            continue;
        };
        let said =
            rule.passes.contains(&threshold.to_string()) || rule.passes.contains("all of them");
        assert!(
            said,
            "{}: {} is not in {:?}",
            rule.id, threshold, rule.passes
        );
    }
}
