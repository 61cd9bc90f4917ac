//! The known word nearest to a mistyped one, for "did you mean".

/// Optimal string alignment distance (insert, delete, replace, swap of neighbours), ignoring case at half price.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = 2 * i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = 2 * j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replace = match (a[i - 1], b[j - 1]) {
                (x, y) if x == y => 0,
                (x, y) if x.eq_ignore_ascii_case(&y) || (matches!(x, '-' | '_') && matches!(y, '-' | '_')) => 1,
                _ => 2,
            };
            let mut best = (rows[i - 1][j] + 2).min(rows[i][j - 1] + 2).min(rows[i - 1][j - 1] + replace);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 2);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

/// The candidate with the least distance, if it is near enough to be a slip of the finger; the first of equals.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .min_by_key(|(distance, _)| *distance)
        // Half of the longer word may differ: beyond that a suggestion is a guess.
        .filter(|(distance, candidate)| *distance <= word.chars().count().max(candidate.chars().count()))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let keys = ["throughput", "latency_p99", "replication_factor", "instance"];
        assert_eq!(nearest("instnace", keys), Some("instance"));
        assert_eq!(nearest("latency-p99", keys), Some("latency_p99"));
        assert_eq!(nearest("Throughput", keys), Some("throughput"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest("x", []), None);
    }
}
