//! Column values: the write's version in the first eight bytes, then random-looking bytes that follow from the
//! partition, the column and the version, so that a reader can tell an invented value from a written one.

use crate::generate::random::mix64;

/// Fills `value`. The same three numbers always give the same bytes.
pub fn fill_value(partition: u64, column: u32, version: u64, value: &mut [u8]) {
    let mut word = mix64(partition ^ (u64::from(column) << 56)).wrapping_add(mix64(version));
    let head = value.len().min(8);
    value[..head].copy_from_slice(&version.to_be_bytes()[..head]);
    for chunk in value[head..].chunks_mut(8) {
        word = mix64(word);
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_the_three_matters() {
        let value = |partition, column, version| {
            let mut bytes = [0; 34];
            fill_value(partition, column, version, &mut bytes);
            bytes
        };
        assert_eq!(value(1, 2, 3), value(1, 2, 3));
        let others = [value(2, 2, 3), value(1, 3, 3), value(1, 2, 4)];
        assert!(others.iter().all(|o| *o != value(1, 2, 3)));
    }
}
