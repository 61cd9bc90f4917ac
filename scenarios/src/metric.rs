//! The names of what a phase reports, each with the dimension its values are written in.

use std::fmt;

use hwprofiles::nearest;
use hwprofiles::quantity::{Quantity, QuantityError, Rate, Time};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Operations a second, all loaders together.
    Throughput,
    LatencyMean,
    LatencyP50,
    LatencyP90,
    LatencyP95,
    LatencyP99,
    LatencyP999,
    LatencyMax,
    /// From the first operation to the last answer, in full-size time.
    Duration,
    /// From the first operation until all compaction has ceased, in full-size time.
    QuiesceTotal,
}

impl Metric {
    pub const ALL: [(&'static str, Metric); 10] = [
        ("throughput", Metric::Throughput),
        ("latency_mean", Metric::LatencyMean),
        ("latency_p50", Metric::LatencyP50),
        ("latency_p90", Metric::LatencyP90),
        ("latency_p95", Metric::LatencyP95),
        ("latency_p99", Metric::LatencyP99),
        ("latency_p99.9", Metric::LatencyP999),
        ("latency_max", Metric::LatencyMax),
        ("duration", Metric::Duration),
        ("quiesce_total", Metric::QuiesceTotal),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, metric)| *metric == self).expect("ALL lists every metric").0
    }

    /// The unit in which reports print it.
    pub fn unit(self) -> &'static str {
        match self {
            Metric::Throughput => "op/s",
            Metric::Duration | Metric::QuiesceTotal => "s",
            _ => "ms",
        }
    }

    pub fn is_latency(self) -> bool {
        self.unit() == "ms"
    }

    /// Reads `50 ms`, `124958 op/s` or `16039 s` into [`Metric::unit`].
    pub fn parse_value(self, text: &str) -> Result<f64, QuantityError> {
        match self.unit() {
            "op/s" => Quantity::<Rate>::parse(text).map(Quantity::f64),
            "s" => Quantity::<Time>::parse(text).map(|t| t.f64() / 1e9),
            _ => Quantity::<Time>::parse(text).map(|t| t.f64() / 1e6),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A visitor, for an error raised inside of one keeps its place in the file.
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Metric;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a metric such as `latency_p99`")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Metric, E> {
                let names = Metric::ALL.map(|(name, _)| name);
                Metric::ALL.iter().find(|(name, _)| *name == text).map(|(_, metric)| *metric).ok_or_else(|| {
                    let hint = match nearest(text, names) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("known: {}", names.join(", ")),
                    };
                    E::custom(format!("unknown metric `{text}`; {hint}"))
                })
            }
        }
        deserializer.deserialize_str(Text)
    }
}
