//! The order of values, as Cassandra's `AbstractType.compare` gives it for each type.
//!
//! The empty value (which most types allow) comes before all others. Malformed values do not panic: malformed
//! scalars come before well-formed ones, by their bytes. Values are validated where they enter, so this only matters
//! for damaged files.

use std::cmp::Ordering;

use crate::{CqlType, collection, decimal};

impl CqlType {
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            CqlType::Int => compare_signed::<4>(a, b),
            CqlType::BigInt | CqlType::Timestamp => compare_signed::<8>(a, b),
            CqlType::SmallInt => compare_signed::<2>(a, b),
            CqlType::TinyInt => compare_signed::<1>(a, b),
            // Dates are unsigned days around 2^31, times are never negative: their bytes are in order.
            CqlType::Ascii | CqlType::Text | CqlType::Blob | CqlType::Inet | CqlType::Date | CqlType::Time => a.cmp(b),
            // Not comparable in CQL; a total order is still needed wherever values are sorted.
            CqlType::Duration | CqlType::Counter => a.cmp(b),
            CqlType::Boolean => match (a, b) {
                ([x], [y]) => (*x != 0).cmp(&(*y != 0)),
                _ => compare_malformed(a, b, |bytes| bytes.len() == 1),
            },
            CqlType::Float => compare_float(a, b, |bytes| Some(f32::from_be_bytes(bytes.try_into().ok()?) as f64)),
            CqlType::Double => compare_float(a, b, |bytes| Some(f64::from_be_bytes(bytes.try_into().ok()?))),
            CqlType::Uuid => compare_uuid(a, b),
            CqlType::TimeUuid => compare_time_uuid(a, b),
            CqlType::VarInt => compare_varint(a, b),
            CqlType::Decimal => decimal::compare(a, b),
            CqlType::Frozen(inner) => inner.compare(a, b),
            CqlType::List(element) | CqlType::Set(element) => {
                compare_collection(a, b, &[element]).unwrap_or_else(|| a.cmp(b))
            }
            CqlType::Map(key, value) => compare_collection(a, b, &[key, value]).unwrap_or_else(|| a.cmp(b)),
            CqlType::Tuple(fields) => compare_tuple(a, b, fields.iter()).unwrap_or_else(|| a.cmp(b)),
            CqlType::Udt(udt) => compare_tuple(a, b, udt.field_types()).unwrap_or_else(|| a.cmp(b)),
            CqlType::Vector(element, dimension) => {
                compare_vector(a, b, element, *dimension).unwrap_or_else(|| a.cmp(b))
            }
        }
    }
}

/// Two's complement big-endian integers of one width: flipping the sign bit makes them bytewise.
fn compare_signed<const N: usize>(a: &[u8], b: &[u8]) -> Ordering {
    match (<&[u8; N]>::try_from(a), <&[u8; N]>::try_from(b)) {
        (Ok(a), Ok(b)) => {
            let (mut a, mut b) = (*a, *b);
            a[0] ^= 0x80;
            b[0] ^= 0x80;
            a.cmp(&b)
        }
        _ => compare_malformed(a, b, |bytes| bytes.len() == N),
    }
}

/// One of the two is not a value of the type.
fn compare_malformed(a: &[u8], b: &[u8], well_formed: impl Fn(&[u8]) -> bool) -> Ordering {
    well_formed(a).cmp(&well_formed(b)).then_with(|| a.cmp(b))
}

/// As Java's `Double.compare`: -0.0 before 0.0, every NaN equal and after infinity.
fn compare_float(a: &[u8], b: &[u8], read: impl Fn(&[u8]) -> Option<f64>) -> Ordering {
    let canonical = |x: f64| if x.is_nan() { f64::NAN.copysign(1.0) } else { x };
    match (read(a), read(b)) {
        (Some(x), Some(y)) => canonical(x).total_cmp(&canonical(y)),
        _ => compare_malformed(a, b, |bytes| read(bytes).is_some()),
    }
}

/// The 60-bit time of a version 1 UUID with its version nibble first: bytes 6-7, 4-5, 0-3.
fn time_first(uuid: &[u8; 16]) -> u64 {
    let word = u64::from_be_bytes(uuid[..8].try_into().expect("half of sixteen bytes"));
    (word << 48) | ((word << 16) & 0xFFFF_0000_0000) | (word >> 32)
}

/// By time, then by the remaining bytes as signed: `TimeUUIDType` compares them as Java bytes for compatibility.
fn compare_time_uuid(a: &[u8], b: &[u8]) -> Ordering {
    let (Ok(x), Ok(y)) = (<&[u8; 16]>::try_from(a), <&[u8; 16]>::try_from(b)) else {
        return compare_malformed(a, b, |bytes| bytes.len() == 16);
    };
    let time = |uuid| time_first(uuid) & 0x0FFF_FFFF_FFFF_FFFF;
    let signed = |uuid: &[u8; 16]| u128::from_be_bytes(*uuid) ^ 0x8080_8080_8080_8080_8080_8080_8080_8080;
    time(x).cmp(&time(y)).then_with(|| signed(x).cmp(&signed(y)))
}

/// By version, then by time if both are version 1, then bytes unsigned: `UUIDType`.
fn compare_uuid(a: &[u8], b: &[u8]) -> Ordering {
    let (Ok(x), Ok(y)) = (<&[u8; 16]>::try_from(a), <&[u8; 16]>::try_from(b)) else {
        return compare_malformed(a, b, |bytes| bytes.len() == 16);
    };
    let version = |uuid: &[u8; 16]| uuid[6] >> 4;
    version(x).cmp(&version(y)).then_with(|| {
        let by_time = if version(x) == 1 { time_first(x).cmp(&time_first(y)) } else { Ordering::Equal };
        by_time.then_with(|| x.cmp(y))
    })
}

/// Two's complement of any width; redundant sign bytes do not count.
fn compare_varint(a: &[u8], b: &[u8]) -> Ordering {
    if a.is_empty() || b.is_empty() {
        return a.len().cmp(&b.len());
    }
    let (a, b) = (trim_sign(a), trim_sign(b));
    let (a_negative, b_negative) = (a[0] >= 0x80, b[0] >= 0x80);
    match (a_negative, b_negative) {
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
        (true, true) => b.len().cmp(&a.len()).then_with(|| a.cmp(b)),
    }
}

fn trim_sign(mut bytes: &[u8]) -> &[u8] {
    while let [first, second, ..] = bytes
        && ((*first == 0 && *second < 0x80) || (*first == 0xFF && *second >= 0x80))
    {
        bytes = &bytes[1..];
    }
    bytes
}

fn compare_nullable(ty: &CqlType, a: Option<&[u8]>, b: Option<&[u8]>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => ty.compare(a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// Element by element (for a map key, value, key, value), then the shorter first. `None` when malformed.
fn compare_collection(mut a: &[u8], mut b: &[u8], types: &[&CqlType]) -> Option<Ordering> {
    if a.is_empty() || b.is_empty() {
        return Some(a.len().cmp(&b.len()));
    }
    let a_count = collection::read_count(&mut a).ok()?;
    let b_count = collection::read_count(&mut b).ok()?;
    for _ in 0..a_count.min(b_count) {
        for ty in types {
            let (x, y) = (collection::read_value(&mut a).ok()?, collection::read_value(&mut b).ok()?);
            let order = compare_nullable(ty, x, y);
            if order != Ordering::Equal {
                return Some(order);
            }
        }
    }
    Some(a_count.cmp(&b_count))
}

/// Field by field, null first; a tuple that ends early equals one with trailing nulls.
fn compare_tuple<'t>(mut a: &[u8], mut b: &[u8], fields: impl Iterator<Item = &'t CqlType>) -> Option<Ordering> {
    if a.is_empty() || b.is_empty() {
        return Some(a.len().cmp(&b.len()));
    }
    for ty in fields {
        let x = if a.is_empty() { None } else { collection::read_value(&mut a).ok()? };
        let y = if b.is_empty() { None } else { collection::read_value(&mut b).ok()? };
        let order = compare_nullable(ty, x, y);
        if order != Ordering::Equal {
            return Some(order);
        }
    }
    Some(Ordering::Equal)
}

/// Element by element.
fn compare_vector(a: &[u8], b: &[u8], element: &CqlType, dimension: u32) -> Option<Ordering> {
    if a.is_empty() || b.is_empty() {
        return Some(a.len().cmp(&b.len()));
    }
    let list = |bytes| collection::vector_elements(bytes, element.fixed_len(), dimension).ok();
    let (a, b) = (list(a)?, list(b)?);
    let orders = a.into_iter().zip(b).map(|(x, y)| element.compare(x, y));
    Some(orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ascending(ty: CqlType, values: &[&str]) {
        let bytes: Vec<_> = values.iter().map(|text| ty.from_text(text).unwrap()).collect();
        for (i, a) in bytes.iter().enumerate() {
            for (j, b) in bytes.iter().enumerate() {
                assert_eq!(ty.compare(a, b), i.cmp(&j), "{ty}: {} against {}", values[i], values[j]);
            }
            assert_eq!(ty.compare(&[], a), Ordering::Less, "{ty}: empty first");
        }
    }

    #[test]
    fn scalars() {
        ascending(CqlType::Int, &["-2147483648", "-1", "0", "1", "2147483647"]);
        ascending(CqlType::TinyInt, &["-128", "-1", "0", "127"]);
        ascending(CqlType::SmallInt, &["-32768", "-1", "0", "256"]);
        ascending(CqlType::BigInt, &["-9223372036854775808", "-1", "0", "9223372036854775807"]);
        ascending(CqlType::Double, &["-Infinity", "-1.5", "-0.0", "0.0", "1e-300", "1e300", "Infinity", "NaN"]);
        ascending(CqlType::Float, &["-Infinity", "-1.5", "-0.0", "0.0", "2.5", "Infinity", "NaN"]);
        ascending(CqlType::Boolean, &["false", "true"]);
        ascending(CqlType::Text, &["a", "aa", "b", "é"]);
        ascending(CqlType::Date, &["-0001-01-01", "1969-12-31", "1970-01-01", "2026-02-28"]);
        ascending(CqlType::VarInt, &["-300", "-129", "-128", "-1", "0", "127", "128", "255", "100000000000000000000"]);
        ascending(CqlType::Decimal, &["-1e10", "-2.5", "-2.49", "0", "1e-50", "2.4999", "2.5", "25", "1e10"]);
        ascending(
            CqlType::TimeUuid,
            &[
                "ffffffff-0000-1000-8000-000000000000",
                "00000000-0001-1000-8000-000000000000",
                "00000000-0001-1000-8000-000000000001",
                "00000000-0000-1001-8000-000000000000",
            ],
        );
        ascending(
            CqlType::Uuid,
            &[
                "ffffffff-0000-1000-8000-000000000000",
                "00000000-0001-1000-8000-000000000000",
                "00000000-0000-4000-8000-000000000000",
                "10000000-0000-4000-8000-000000000000",
            ],
        );
    }

    #[test]
    fn time_uuids_of_one_time_compare_as_signed_bytes() {
        let low = CqlType::TimeUuid.from_text("00000000-0000-1000-8000-0000000000ff").unwrap();
        let high = CqlType::TimeUuid.from_text("00000000-0000-1000-8000-000000000001").unwrap();
        assert_eq!(CqlType::TimeUuid.compare(&low, &high), Ordering::Less);
        assert_eq!(CqlType::Uuid.compare(&low, &high), Ordering::Greater);
    }

    #[test]
    fn redundant_digits_do_not_count() {
        assert_eq!(CqlType::VarInt.compare(&[0, 5], &[5]), Ordering::Equal);
        assert_eq!(CqlType::VarInt.compare(&[0xFF, 0x80], &[0x80]), Ordering::Equal);
        let (a, b) = (CqlType::Decimal.from_text("2.50").unwrap(), CqlType::Decimal.from_text("2.5").unwrap());
        assert_eq!(CqlType::Decimal.compare(&a, &b), Ordering::Equal);
        let zeros = (CqlType::Decimal.from_text("0.00").unwrap(), CqlType::Decimal.from_text("-0").unwrap());
        assert_eq!(CqlType::Decimal.compare(&zeros.0, &zeros.1), Ordering::Equal);
    }

    #[test]
    fn collections() {
        let int = |n: i32| n.to_be_bytes().to_vec();
        let list = |items: &[i32]| {
            let items: Vec<_> = items.iter().map(|&n| int(n)).collect();
            collection::write_collection(items.len(), items.iter().map(Vec::as_slice))
        };
        let ty = CqlType::list(CqlType::Int).frozen();
        assert_eq!(ty.compare(&list(&[-1, 5]), &list(&[0])), Ordering::Less);
        assert_eq!(ty.compare(&list(&[1]), &list(&[1, 2])), Ordering::Less);
        assert_eq!(ty.compare(&list(&[1, 2]), &list(&[1, 2])), Ordering::Equal);
        let tuple = CqlType::Tuple(vec![CqlType::Int, CqlType::Int]);
        let short = collection::write_tuple([Some(&int(1)[..])]);
        let nulled = collection::write_tuple([Some(&int(1)[..]), None]);
        let whole = collection::write_tuple([Some(&int(1)[..]), Some(&int(-9)[..])]);
        assert_eq!(tuple.compare(&short, &nulled), Ordering::Equal);
        assert_eq!(tuple.compare(&short, &whole), Ordering::Less);
    }

    proptest! {
        #[test]
        fn total_and_never_panics(at in 0..20usize, a in ".{0,20}", b in ".{0,20}") {
            let ty = &CqlType::SCALARS[at];
            prop_assert_eq!(ty.compare(a.as_bytes(), b.as_bytes()), ty.compare(b.as_bytes(), a.as_bytes()).reverse());
        }

        #[test]
        fn collections_never_panic(a: Vec<u8>, b: Vec<u8>) {
            let ty = CqlType::parse("map<text, frozen<list<tuple<int, decimal>>>>").unwrap();
            prop_assert_eq!(ty.compare(&a, &b), ty.compare(&b, &a).reverse());
            let _ = ty.validate(&a);
        }

        #[test]
        fn varint_as_i64(a: i64, b: i64) {
            prop_assert_eq!(compare_varint(&a.to_be_bytes(), &b.to_be_bytes()[..]), a.cmp(&b));
        }
    }
}
