//! Which values may stand where another type is wanted, without a conversion of their bytes: `isValueCompatibleWith`
//! of Apache Cassandra's types.

use crate::CqlType;

/// How well a value fits where a type is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    Weak,
    Exact,
}

impl CqlType {
    /// How a value of type `given` fits where this type is wanted; `None`: not at all.
    pub fn fit(&self, given: &CqlType) -> Option<Fit> {
        use CqlType::*;
        let (wanted, given) = (self.without_frozen(), given.without_frozen());
        if wanted == given {
            return Some(Fit::Exact);
        }
        let weak = match (&wanted, &given) {
            (Blob, _) => true,
            (Text, Ascii) | (Uuid, TimeUuid) | (BigInt, Timestamp) | (VarInt, Int | BigInt) => true,
            // A counter that is read is a number like others.
            (BigInt, Counter) => true,
            (List(a), List(b)) | (Set(a), Set(b)) => a.fit(b).is_some(),
            (Map(k, v), Map(a, b)) => k.fit(a).is_some() && v.fit(b).is_some(),
            (Tuple(a), Tuple(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.fit(b).is_some()),
            _ => false,
        };
        weak.then_some(Fit::Weak)
    }

    /// The type with nothing said of freezing, which does not change values.
    pub fn without_frozen(&self) -> CqlType {
        match self {
            CqlType::Frozen(content) => content.without_frozen(),
            CqlType::List(element) => CqlType::list(element.without_frozen()),
            CqlType::Set(element) => CqlType::set(element.without_frozen()),
            CqlType::Map(key, value) => CqlType::map(key.without_frozen(), value.without_frozen()),
            CqlType::Tuple(fields) => CqlType::Tuple(fields.iter().map(CqlType::without_frozen).collect()),
            CqlType::Vector(element, dimension) => CqlType::vector(element.without_frozen(), *dimension),
            other => other.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fits() {
        let check = |wanted: &str, given: &str, expect: Option<Fit>| {
            let (wanted, given) = (CqlType::parse(wanted).unwrap(), CqlType::parse(given).unwrap());
            assert_eq!(wanted.fit(&given), expect, "{given} where {wanted} is wanted");
        };
        check("list<int>", "frozen<list<int>>", Some(Fit::Exact));
        check("blob", "int", Some(Fit::Weak));
        check("int", "blob", None);
        check("text", "ascii", Some(Fit::Weak));
        check("ascii", "text", None);
        check("set<blob>", "set<int>", Some(Fit::Weak));
        check("counter", "bigint", None);
    }
}
