//! The known word that a misspelt one was probably meant to be.

/// The nearest of `names` within a third of the word's length in edits, at least one.
pub(super) fn nearest<'a>(word: &str, names: &[&'a str]) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(1);
    names
        .iter()
        .map(|&name| (distance(word, name), name))
        .filter(|&(edits, _)| edits <= limit)
        .min_by_key(|&(edits, _)| edits)
        .map(|(_, name)| name)
}

/// Insertions, deletions, replacements and swaps of neighbours between two words (optimal
/// string alignment).
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let above = &rows[i - 1];
            let mut edits = (above[j - 1] + usize::from(a[i - 1] != b[j - 1]))
                .min(above[j] + 1)
                .min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                edits = edits.min(rows[i - 2][j - 2] + 1);
            }
            row.push(edits);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_single_edits() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("timeouts", "timeouts"), 0);
        assert_eq!(distance("timeuots", "timeouts"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn only_a_near_word_is_suggested() {
        let names = ["listen", "models", "pools"];
        assert_eq!(nearest("model", &names), Some("models"));
        assert_eq!(nearest("listne", &names), Some("listen"));
        assert_eq!(nearest("queue", &names), None);
    }
}
