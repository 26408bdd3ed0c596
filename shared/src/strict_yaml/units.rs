//! Numbers with units: durations and byte sizes, in exact integers.

use std::time::Duration;

use super::{FromYaml, Node, Problems};

/// A number of bytes, written with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// Nanoseconds of each unit.
const DURATIONS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Bytes of each unit.
const SIZES: &[(&str, u64)] = &[
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// A duration such as `200ms`, `1.5s` or `1m`.
///
/// # Errors
/// A sentence that names the value and the units that are accepted.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    scaled(text, DURATIONS)
        .map(Duration::from_nanos)
        .ok_or_else(|| {
            format!(
                "`{text}` is no duration: write a number and one of ns, us, ms, s, m, h, as in 200ms"
            )
        })
}

/// A size such as `64KiB` or `1GB`.
///
/// # Errors
/// A sentence that names the value and the units that are accepted.
pub fn parse_byte_size(text: &str) -> Result<ByteSize, String> {
    scaled(text, SIZES).map(ByteSize).ok_or_else(|| {
        format!(
            "`{text}` is no size: write a number and one of B, KB, MB, GB, KiB, MiB, GiB, as in 32MiB"
        )
    })
}

/// The decimal at the start of `text` times the unit at its end, rounded down.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let parts = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let total = whole.parse::<u128>().ok()?.checked_mul(parts)? + fraction.parse::<u128>().ok()?;
    u64::try_from(total.checked_mul(u128::from(*factor))? / parts).ok()
}

impl FromYaml for Duration {
    fn from_yaml(node: &Node, problems: &mut Problems) -> Option<Self> {
        with_unit(
            node,
            parse_duration,
            "a duration such as 200ms, 5s or 1m",
            problems,
        )
    }
}

impl FromYaml for ByteSize {
    fn from_yaml(node: &Node, problems: &mut Problems) -> Option<Self> {
        with_unit(
            node,
            parse_byte_size,
            "a size such as 64KiB, 32MiB or 1GB",
            problems,
        )
    }
}

fn with_unit<T>(
    node: &Node,
    parse: impl FnOnce(&str) -> Result<T, String>,
    wanted: &str,
    problems: &mut Problems,
) -> Option<T> {
    let parsed = match node.scalar() {
        Some(text) => parse(text),
        None => Err(format!("expected {wanted}, found {}", node.describe())),
    };
    parsed.map_err(|message| problems.at(node, message)).ok()
}
