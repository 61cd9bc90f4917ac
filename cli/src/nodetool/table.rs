//! Columns of text, each as wide as its widest cell.

/// The first row is the head. Nothing stands behind the last cell of a row.
pub fn render(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// As Cassandra's `FileUtils.stringifyFileSize`: `1.5 KiB`.
pub fn bytes(count: f64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut count = count;
    let mut unit = 0;
    while count >= 1024.0 && unit + 1 < UNITS.len() {
        count /= 1024.0;
        unit += 1;
    }
    let number = if unit == 0 { format!("{count}") } else { format!("{count:.2}") };
    format!("{number} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must() {
        let rows = [vec!["a".to_string(), "b".into()], vec!["long".into(), "c".into()]];
        assert_eq!(render(&rows), "a     b\nlong  c\n");
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!([bytes(0.0), bytes(1023.0), bytes(1536.0)], ["0 bytes", "1023 bytes", "1.50 KiB"]);
        assert_eq!(bytes(5e15), "4547.47 TiB");
    }
}
