//! `docs/metrics.md` is written from the definitions.
//!
//! `UPDATE_DOCS=1 cargo test -p inferscope-shared metrics` rewrites it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use inferscope_shared::definitions::{ALL, Definition};

const HEAD: &str = "\
# Metrics

Written from `shared/src/definitions.rs`, where each metric is declared once; don't edit by hand.
Names in formulas are fields of the records, whose schemas are in `shared/schemas/`. \"Origin\" is
`sent_start_ns` in a closed loop and `intended_ns` in an open one. All intervals are
CLOCK_MONOTONIC.
";

fn section(it: &Definition) -> String {
    format!(
        "\n## `{}`\n\n{}, in {}.\n\n```text\n{} = {}\n```\n\n\
         - From: {}\n- To: {}\n- Leaves out: {}\n- Source: {}\n",
        it.symbol,
        capitalised(it.name),
        it.unit.label(),
        it.symbol,
        it.formula,
        it.start,
        it.end,
        it.excludes,
        it.source.label(),
    )
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

#[test]
fn the_document_on_metrics_is_current() {
    let mut text = HEAD.to_owned();
    for it in ALL {
        write!(text, "{}", section(it)).expect("a string takes all text");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::create_dir_all(path.parent().expect("a file lies in a folder"))
            .and_then(|()| fs::write(&path, &text))
            .expect("the document can be written");
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == text,
        "{} is not what the definitions say: run this test with UPDATE_DOCS=1",
        path.display()
    );
}
