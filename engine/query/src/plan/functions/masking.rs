//! `mask_null`, `mask_default`, `mask_replace`, `mask_inner` and `mask_outer`: something shown in a value's place, of the
//! value's own type. Cassandra's `MaskingFcts`.

use types::{CqlType, collection};

use crate::error::{QueryError, invalid};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Null,
    Default,
    Replace,
    /// All but so many characters at both ends.
    Inner,
    /// So many characters at both ends.
    Outer,
}

#[derive(Clone, Debug)]
pub(crate) struct Mask {
    kind: Kind,
    ty: CqlType,
}

const NAMES: [(&str, Kind); 5] = [
    ("mask_null", Kind::Null),
    ("mask_default", Kind::Default),
    ("mask_replace", Kind::Replace),
    ("mask_inner", Kind::Inner),
    ("mask_outer", Kind::Outer),
];

pub(super) fn is_name(name: &str) -> bool {
    NAMES.iter().any(|(known, _)| *known == name)
}

/// Cassandra's `getMaskedValue` of a type.
fn default_of(ty: &CqlType) -> Vec<u8> {
    match ty.unfrozen() {
        CqlType::Text | CqlType::Ascii => b"****".to_vec(),
        CqlType::Boolean => vec![0],
        CqlType::Float => 0f32.to_be_bytes().to_vec(),
        CqlType::Double => 0f64.to_be_bytes().to_vec(),
        CqlType::Decimal => types::decimal::decimal_value(0, &num_bigint::BigInt::ZERO),
        CqlType::VarInt => vec![0],
        CqlType::Date => (types::calendar::DATE_EPOCH as u32).to_be_bytes().to_vec(),
        CqlType::Time | CqlType::Timestamp => vec![0; 8],
        CqlType::Inet => vec![0; 4],
        CqlType::Uuid => vec![0; 16],
        // The first of version 1 and of its variant.
        CqlType::TimeUuid => vec![0, 0, 0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0, 0, 0, 0, 0],
        CqlType::Duration => vec![0; 3],
        CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..) => collection::write_collection(0, std::iter::empty()),
        CqlType::Tuple(types) => fields(types.iter()),
        CqlType::Udt(udt) => fields(udt.field_types()),
        CqlType::Vector(element, dimension) => {
            let one = default_of(element);
            let all = std::iter::repeat_n(one.as_slice(), *dimension as usize);
            collection::write_vector(element.fixed_len(), all)
        }
        number => vec![0; number.integer_len().unwrap_or(0)],
    }
}

fn fields<'t>(types: impl Iterator<Item = &'t CqlType>) -> Vec<u8> {
    let values: Vec<Vec<u8>> = types.map(default_of).collect();
    collection::write_tuple(values.iter().map(|value| Some(value.as_slice())))
}

impl Mask {
    /// The function of a name for a value of a type, and what it takes, of `count` arguments.
    pub fn of(name: &str, ty: &CqlType, count: usize) -> Result<(Mask, Vec<CqlType>), QueryError> {
        let Some(&(_, kind)) = NAMES.iter().find(|(known, _)| *known == name) else {
            return Err(invalid!("Unknown function '{name}'"));
        };
        let is_text = matches!(ty, CqlType::Text | CqlType::Ascii);
        let types = match kind {
            Kind::Null | Kind::Default => vec![ty.clone()],
            Kind::Replace => vec![ty.clone(), ty.clone()],
            Kind::Inner | Kind::Outer if !is_text => {
                return Err(invalid!("Function system.{name} requires a text argument, but found {ty}"));
            }
            Kind::Inner | Kind::Outer if count == 4 => vec![ty.clone(), CqlType::Int, CqlType::Int, CqlType::Text],
            Kind::Inner | Kind::Outer => vec![ty.clone(), CqlType::Int, CqlType::Int],
        };
        if types.len() != count {
            let wanted = types.len();
            return Err(invalid!(
                "Invalid number of arguments for function system.{name}: {wanted} required but {count} provided"
            ));
        }
        Ok((Mask { kind, ty: ty.clone() }, types))
    }

    pub fn name(&self) -> String {
        let name = NAMES.iter().find(|(_, kind)| *kind == self.kind).map_or("", |(name, _)| name);
        format!("system.{name}")
    }

    pub fn result(&self) -> CqlType {
        self.ty.clone()
    }

    pub fn call(&self, arguments: &[Option<&[u8]>]) -> Result<Option<Vec<u8>>, QueryError> {
        let argument = |at: usize| arguments.get(at).copied().flatten();
        let count = |at: usize| match argument(at).map(<[u8; 4]>::try_from) {
            None | Some(Err(_)) => 0,
            Some(Ok(bytes)) => usize::try_from(i32::from_be_bytes(bytes)).unwrap_or(0),
        };
        Ok(match (self.kind, argument(0)) {
            (Kind::Null, _) => None,
            (Kind::Default, _) => Some(default_of(&self.ty)),
            (Kind::Replace, _) => argument(1).map(<[u8]>::to_vec),
            (_, None) => None,
            (kind, Some(value)) => {
                let text = std::str::from_utf8(value).map_err(|error| invalid!("{error}"))?;
                let padding = argument(3).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or("*");
                let mut padding = padding.chars();
                let (Some(pad), None) = (padding.next(), padding.next()) else {
                    return Err(invalid!(
                        "The padding argument for function {} should be single-character",
                        self.name()
                    ));
                };
                let length = text.chars().count();
                let (first, last) = (count(1), length.saturating_sub(count(2)));
                let masked = |(at, c): (usize, char)| {
                    let is_inner = at >= first && at < last;
                    if is_inner == (kind == Kind::Inner) { pad } else { c }
                };
                Some(text.chars().enumerate().map(masked).collect::<String>().into_bytes())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_hidden() {
        let call = |name: &str, arguments: &[Option<&[u8]>]| {
            let (mask, types) = Mask::of(name, &CqlType::Text, arguments.len()).unwrap();
            assert_eq!(types.len(), arguments.len());
            mask.call(arguments).unwrap().map(|bytes| String::from_utf8(bytes).unwrap())
        };
        let (one, two) = (1i32.to_be_bytes(), 2i32.to_be_bytes());
        let alice: Option<&[u8]> = Some("Alicé".as_bytes());
        assert_eq!(call("mask_null", &[alice]), None);
        assert_eq!(call("mask_default", &[None]).unwrap(), "****");
        assert_eq!(call("mask_replace", &[alice, Some(b"x")]).unwrap(), "x");
        assert_eq!(call("mask_inner", &[alice, Some(&one), Some(&two)]).unwrap(), "A**cé");
        assert_eq!(call("mask_inner", &[alice, Some(&one), None, Some(b"#")]).unwrap(), "A####");
        assert_eq!(call("mask_outer", &[alice, Some(&one), Some(&two)]).unwrap(), "*li**");
        assert_eq!(call("mask_outer", &[None, Some(&one), Some(&two)]), None);
        let (inner, _) = Mask::of("mask_inner", &CqlType::Text, 4).unwrap();
        assert!(inner.call(&[alice, Some(&one), Some(&one), Some(b"##")]).is_err());
        assert!(Mask::of("mask_inner", &CqlType::Int, 3).is_err() && Mask::of("mask_null", &CqlType::Int, 2).is_err());
    }

    #[test]
    fn every_type_has_a_default() {
        let nested = CqlType::parse("tuple<int, vector<float, 2>, duration>").unwrap();
        let all = [
            (CqlType::Int, "0"),
            (CqlType::Boolean, "false"),
            (CqlType::Decimal, "0"),
            (CqlType::Date, "\"1970-01-01\""),
            (CqlType::Inet, "\"0.0.0.0\""),
            (CqlType::TimeUuid, "\"00000000-0000-1000-8000-000000000000\""),
            (CqlType::list(CqlType::Int), "[]"),
        ];
        for (ty, json) in all {
            assert_eq!(ty.to_json(&default_of(&ty)).unwrap(), json, "{ty}");
        }
        assert!(nested.validate(&default_of(&nested)).is_ok());
    }
}
