//! Cost tables: virtual CPU time of each kind of work, for one processor, convertible to others.
//!
//! A cost is written `FIXED + PER_BYTE | STANDING | SOURCE`, such as `1.2 us + 0.4 ns/B | assumed | why`; either part
//! may stand alone. The kinds of work are named as the engine names them; this crate does not know the list.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::figure::{Figure, Standing};
use crate::instance::Instance;
use crate::quantity::{Frequency, Quantity, Rate, Ratio, Time, TimePerByte};

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostTable {
    pub reference: Reference,
    /// By `Work::name()`.
    pub work: BTreeMap<String, Cost>,
}

/// A cost table as a file has it: written out, or that of another system `of`, `times` a factor. What `work` lists is
/// taken as it stands, beside the other's.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CostFile {
    pub of: Option<String>,
    pub times: Option<Figure<Ratio>>,
    pub reference: Option<Reference>,
    #[serde(default)]
    pub work: BTreeMap<String, Cost>,
}

impl CostFile {
    /// The table, given the one that `of` names. `None` where neither that nor a reference is there, or both.
    pub(crate) fn resolve(self, base: Option<&CostTable>) -> Option<CostTable> {
        match (base, self.reference) {
            (None, Some(reference)) => Some(CostTable { reference, work: self.work }),
            (Some(base), None) => {
                let mut work: BTreeMap<String, Cost> = match &self.times {
                    None => base.work.clone(),
                    Some(times) => base.work.iter().map(|(name, cost)| (name.clone(), cost.times(times))).collect(),
                };
                work.extend(self.work);
                Some(CostTable { reference: base.reference.clone(), work })
            }
            _ => None,
        }
    }
}

/// The processor for which the costs are given: one hardware thread, its sibling busy.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    pub clock: Figure<Frequency>,
    pub ipc_factor: Figure<Ratio>,
    pub hyper_thread_factor: Figure<Ratio>,
    /// From one moment to the next the costs go with this power of what one unchanging piece of work takes (`orrery
    /// calibrate`); absent: they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yardstick_power: Option<Figure<Ratio>>,
    /// How many of one unchanging load's operations the system did in a second of CPU when the costs were found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Figure<Rate>>,
    /// The costs go with this power of what such an operation takes; absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_power: Option<Figure<Ratio>>,
}

impl Reference {
    /// GHz x IPC, as [`Instance::vcpu_speed`].
    pub fn speed(&self) -> f64 {
        self.clock.f64() * self.ipc_factor.f64() * self.hyper_thread_factor.f64()
    }

    /// What multiplies the costs while the system does `control` of the unchanging load's operations in a second of CPU; 1
    /// where it is not known what it did then.
    pub fn slowness(&self, control: f64) -> f64 {
        let power = self.control_power.as_ref().map_or(1.0, |power| power.f64());
        self.control.as_ref().map_or(1.0, |then| libm::pow(then.f64() / control, power))
    }

    /// What multiplies the costs at moments at which the machine does `paces` of the yardstick's pieces a second: 1 on
    /// average.
    pub fn unsteadiness(&self, paces: &[f64]) -> Vec<f64> {
        let power = self.yardstick_power.as_ref().map_or(0.0, |power| power.f64());
        let each: Vec<f64> = paces.iter().map(|pace| libm::pow(*pace, -power)).collect();
        let mean = each.iter().sum::<f64>() / each.len().max(1) as f64;
        each.into_iter().map(|factor| factor / mean).collect()
    }
}

/// Cost of one piece of work at the table's reference speed.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    pub fixed: Quantity<Time>,
    pub per_byte: Quantity<TimePerByte>,
    pub standing: Standing,
    pub source: Arc<str>,
}

/// One cost on one instance, ready for the simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkCost {
    pub fixed_ns: f64,
    pub ns_per_byte: f64,
}

impl WorkCost {
    pub fn ns(&self, amount: u64) -> u64 {
        (self.fixed_ns + self.ns_per_byte * amount as f64).round() as u64
    }
}

impl CostTable {
    /// The cost of `work` on a vCPU of `instance` when all its vCPUs are busy; nothing for a kind not listed.
    pub fn on(&self, instance: &Instance, work: &str) -> WorkCost {
        let slower = self.reference.speed() / instance.vcpu_speed();
        match self.work.get(work) {
            None => WorkCost::default(),
            Some(cost) => WorkCost { fixed_ns: cost.fixed.f64() * slower, ns_per_byte: cost.per_byte.f64() * slower },
        }
    }
}

impl Cost {
    /// The same work by a factor: it stands as the factor does.
    fn times(&self, factor: &Figure<Ratio>) -> Self {
        Self {
            fixed: Quantity::new(self.fixed.f64() * factor.f64()),
            per_byte: Quantity::new(self.per_byte.f64() * factor.f64()),
            standing: factor.standing,
            source: factor.source.clone(),
        }
    }

    pub fn parse(text: &str) -> Result<Self, String> {
        let (amounts, _) = text.split_once('|').ok_or_else(|| Self::shape(text))?;
        let rest = &text[amounts.len()..];
        let (fixed, per_byte) = match amounts.split_once('+') {
            Some((fixed, per_byte)) => (Some(fixed), Some(per_byte)),
            None if amounts.contains('/') => (None, Some(amounts)),
            None => (Some(amounts), None),
        };
        // Standing and source are read by the figure of whichever part is there.
        let fixed = fixed.map(|part| Figure::<Time>::parse(&format!("{part}{rest}"))).transpose();
        let per_byte = per_byte.map(|part| Figure::<TimePerByte>::parse(&format!("{part}{rest}"))).transpose();
        let (fixed, per_byte) = (fixed.map_err(|e| e.to_string())?, per_byte.map_err(|e| e.to_string())?);
        let (standing, source) = match (&fixed, &per_byte) {
            (Some(f), _) => (f.standing, f.source.clone()),
            (None, Some(f)) => (f.standing, f.source.clone()),
            (None, None) => return Err(Self::shape(text)),
        };
        let zero_or = |value: Option<f64>| value.unwrap_or(0.0);
        Ok(Self {
            fixed: Quantity::new(zero_or(fixed.map(|f| f.f64()))),
            per_byte: Quantity::new(zero_or(per_byte.map(|f| f.f64()))),
            standing,
            source,
        })
    }

    fn shape(text: &str) -> String {
        format!(
            "`{text}` is not a cost; write `FIXED + PER_BYTE | STANDING | SOURCE`, such as `1.2 us + 0.4 ns/B | assumed | why`"
        )
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns + {} ns/B | {} | {}", self.fixed.f64(), self.per_byte.f64(), self.standing, self.source)
    }
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Cost;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a cost such as `1.2 us + 0.4 ns/B | assumed | why`")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Cost, E> {
                Cost::parse(text).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_as_slow_as_its_control_tells_and_unsteady_as_its_yardstick() {
        let profiles = crate::Profiles::embedded();
        let mut reference = profiles.systems["orrery"].costs.reference.clone();
        assert_eq!((reference.slowness(1.0), reference.unsteadiness(&[1.0, 9.0])), (1.0, vec![1.0, 1.0]));
        reference.control = Some(Figure::new(4e5, Standing::Measured, "test"));
        let ratio = |value| Some(Figure::new(value, Standing::Measured, "test"));
        (reference.control_power, reference.yardstick_power) = (ratio(0.5), ratio(1.0));
        assert!((reference.slowness(1e5) - 2.0).abs() < 1e-9);
        // One takes three times as long as the other, and both together what they would.
        let each = reference.unsteadiness(&[3e4, 9e4]);
        assert!((each[0] - 1.5).abs() < 1e-9 && (each[1] - 0.5).abs() < 1e-9, "{each:?}");
    }

    #[test]
    fn a_table_may_follow_another() {
        let profiles = crate::Profiles::embedded();
        let base = &profiles.systems["scylla-1.6.1"].costs;
        let times = Some(Figure::parse("0.5 x | fitted | a rate").unwrap());
        let own = BTreeMap::from([("poll".to_string(), Cost::parse("9 us | assumed | why").unwrap())]);
        let file = |reference| CostFile { of: None, times: times.clone(), reference, work: own.clone() };
        let table = file(None).resolve(Some(base)).unwrap();
        let (all, half) = (&base.work["reconcile"], &table.work["reconcile"]);
        assert_eq!((half.fixed.f64() * 2.0, half.standing), (all.fixed.f64(), Standing::Fitted));
        assert_eq!((table.work["poll"].fixed.f64(), &table.reference), (9000.0, &base.reference));
        assert!(file(None).resolve(None).is_none() && file(Some(base.reference.clone())).resolve(Some(base)).is_none());
    }

    #[test]
    fn both_parts_or_either() {
        let parts = |text| Cost::parse(text).map(|c| (c.fixed.f64(), c.per_byte.f64())).unwrap();
        assert_eq!(parts("1.2 us + 0.4 ns/B | assumed | why"), (1200.0, 0.4));
        assert_eq!(parts("300 ns | assumed | why"), (300.0, 0.0));
        assert_eq!(parts("2 ns/B | measured | here"), (0.0, 2.0));
        assert_eq!(parts("1 us + 80 ns/entry | measured | here"), (1000.0, 80.0));
        assert!(Cost::parse("300 ns | assumed").is_err());
        assert!(Cost::parse("300 | assumed | why").unwrap_err().contains("no unit"));
    }
}
