//! A figure: a quantity together with where it comes from and how far it may be trusted.
//!
//! Written `VALUE UNIT | STANDING | SOURCE`, for instance `10000 IOPS | published | AWS EBS user guide, 2017`.
//! All three parts are always there: a figure without a source cannot be read, so no profile can hold one.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::nearest::nearest;
use crate::quantity::{Dimension, Quantity, QuantityError};

/// How a figure came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// A vendor's document, source code or a report says so.
    Published,
    /// We measured it; the source says on what and how.
    Measured,
    /// Nobody published it; the source gives the reasoning.
    Assumed,
    /// Chosen so that a simulated result meets a published one; the source names that result, which the model
    /// may then never claim to have predicted.
    Fitted,
}

impl Standing {
    const ALL: [(&'static str, Standing); 4] = [
        ("published", Standing::Published),
        ("measured", Standing::Measured),
        ("assumed", Standing::Assumed),
        ("fitted", Standing::Fitted),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, standing)| *standing == self).expect("ALL lists every standing").0
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, standing)| *standing)
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FigureError {
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    #[error("`{text}` is not a figure; write `VALUE UNIT | STANDING | SOURCE`, such as `{example} | assumed | why`")]
    Parts { text: String, example: &'static str },
    #[error("`{text}` is not a standing{}; use published, measured, assumed or fitted", .nearest.map(|n| format!(", did you mean `{n}`?")).unwrap_or_default())]
    Standing { text: String, nearest: Option<&'static str> },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Figure<D> {
    pub value: Quantity<D>,
    pub standing: Standing,
    pub source: Arc<str>,
}

impl<D: Dimension> Figure<D> {
    /// `base_units`: ns, bytes, bytes/s, 1/s, .. as the dimension says.
    pub fn new(base_units: f64, standing: Standing, source: &str) -> Self {
        Self { value: Quantity::new(base_units), standing, source: source.into() }
    }

    pub fn parse(text: &str) -> Result<Self, FigureError> {
        let mut parts = text.splitn(3, '|').map(str::trim);
        let (value, standing, source) = match (parts.next(), parts.next(), parts.next()) {
            (Some(value), Some(standing), Some(source)) if !source.is_empty() => (value, standing, source),
            _ => return Err(FigureError::Parts { text: text.to_string(), example: D::EXAMPLE }),
        };
        Ok(Self {
            value: Quantity::parse(value)?,
            standing: Standing::parse(standing).ok_or_else(|| FigureError::Standing {
                text: standing.to_string(),
                nearest: nearest(standing, Standing::ALL.iter().map(|(name, _)| *name)),
            })?,
            source: source.into(),
        })
    }

    pub fn f64(&self) -> f64 {
        self.value.f64()
    }

    /// Rounded to the nearest whole base unit.
    pub fn u64(&self) -> u64 {
        self.value.u64()
    }
}

impl<D: Dimension> fmt::Display for Figure<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} | {} | {}", self.value, self.standing, self.source)
    }
}

impl<D: Dimension> Serialize for Figure<D> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, D: Dimension> Deserialize<'de> for Figure<D> {
    fn deserialize<De: Deserializer<'de>>(deserializer: De) -> Result<Self, De::Error> {
        struct Text<D>(PhantomData<D>);
        impl<D: Dimension> Visitor<'_> for Text<D> {
            type Value = Figure<D>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a {} such as `{} | assumed | why`", D::NAME, D::EXAMPLE)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Figure::parse(text).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Text(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::{Rate, Time};

    #[test]
    fn all_three_parts_are_read() {
        let figure = Figure::<Rate>::parse("10000 IOPS | published | AWS EBS user guide, 2017").unwrap();
        assert_eq!((figure.f64(), figure.standing), (10_000.0, Standing::Published));
        assert_eq!(&*figure.source, "AWS EBS user guide, 2017");
    }

    #[test]
    fn a_figure_without_a_source_cannot_be_read() {
        for text in ["5 ms", "5 ms | assumed", "5 ms | assumed |  "] {
            assert!(matches!(Figure::<Time>::parse(text), Err(FigureError::Parts { .. })), "{text}");
        }
        let error = Figure::<Time>::parse("5 ms | guessed | x").unwrap_err().to_string();
        assert!(error.starts_with("`guessed` is not a standing"), "{error}");
        let error = Figure::<Time>::parse("5 ms | asumed | x").unwrap_err().to_string();
        assert!(error.contains("did you mean `assumed`"), "{error}");
    }
}
