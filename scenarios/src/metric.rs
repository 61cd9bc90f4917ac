//! The names of what a phase reports, each with the dimension its values are written in.

use std::fmt;

use hwprofiles::nearest;
use hwprofiles::quantity::{Bytes, Count, Quantity, QuantityError, Rate, Ratio, Time};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Defines the enum and its list, in the order in which they are printed, together.
macro_rules! metrics {
    ($($(#[$doc:meta])* $name:ident = $text:literal in $unit:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Metric { $($(#[$doc])* $name,)* }

        impl Metric {
            pub const ALL: &[(&'static str, Metric)] = &[$(($text, Metric::$name),)*];

            pub fn name(self) -> &'static str {
                match self { $(Metric::$name => $text,)* }
            }

            /// The unit in which reports print it.
            pub fn unit(self) -> &'static str {
                match self { $(Metric::$name => $unit,)* }
            }
        }
    };
}

metrics! {
    /// Operations a second, all loaders together.
    Throughput = "throughput" in "op/s",
    LatencyMean = "latency_mean" in "ms",
    LatencyP50 = "latency_p50" in "ms",
    LatencyP90 = "latency_p90" in "ms",
    LatencyP95 = "latency_p95" in "ms",
    LatencyP99 = "latency_p99" in "ms",
    LatencyP999 = "latency_p99.9" in "ms",
    LatencyMax = "latency_max" in "ms",
    /// From the first operation to the last answer, in full-size time.
    Duration = "duration" in "s",
    /// From the first operation until all compaction has ceased, in full-size time.
    QuiesceTotal = "quiesce_total" in "s",
    /// From the last answer until all compaction has ceased, in full-size time.
    CompactionAfterLoad = "compaction_after_load" in "s",
    WriteThroughput = "write_throughput" in "op/s",
    WriteLatencyMean = "write_latency_mean" in "ms",
    WriteLatencyP50 = "write_latency_p50" in "ms",
    WriteLatencyP90 = "write_latency_p90" in "ms",
    WriteLatencyP99 = "write_latency_p99" in "ms",
    ReadThroughput = "read_throughput" in "op/s",
    ReadLatencyMean = "read_latency_mean" in "ms",
    ReadLatencyP50 = "read_latency_p50" in "ms",
    ReadLatencyP90 = "read_latency_p90" in "ms",
    ReadLatencyP99 = "read_latency_p99" in "ms",
    /// The same as [`Metric::WriteLatencyP99`], as YCSB's reports name it.
    LatencyP99Write = "latency_p99_write" in "ms",
    LatencyP99Read = "latency_p99_read" in "ms",
    /// The highest rate of a search at which the 99th percentile keeps its bound.
    MaxThroughput = "max_throughput_p99_under_10ms" in "op/s",
    /// The rate at which the 99th percentile is at that bound, between this step and the next: of use where two runs are
    /// compared, as no report tells it.
    ThroughputAtBound = "throughput_at_p99_10ms" in "op/s",
    /// From a request's arrival at its coordinator to the answer's departure; of one node without replicas elsewhere.
    ServerLatencyP99 = "server_latency_p99" in "ms",
    SstablesPerReadP50 = "sstables_per_read_p50" in "count",
    SstablesPerReadP75 = "sstables_per_read_p75" in "count",
    SstablesPerReadP95 = "sstables_per_read_p95" in "count",
    SstablesPerReadP98 = "sstables_per_read_p98" in "count",
    SstablesPerReadP99 = "sstables_per_read_p99" in "count",
    SstablesPerReadMax = "sstables_per_read_max" in "count",
    /// Of one replica, all nodes together: from the request's arrival at the shard to the answer.
    LocalWriteLatencyP50 = "local_write_latency_p50" in "us",
    LocalWriteLatencyP75 = "local_write_latency_p75" in "us",
    LocalWriteLatencyP95 = "local_write_latency_p95" in "us",
    LocalWriteLatencyP98 = "local_write_latency_p98" in "us",
    LocalWriteLatencyP99 = "local_write_latency_p99" in "us",
    LocalReadLatencyP50 = "local_read_latency_p50" in "us",
    LocalReadLatencyP75 = "local_read_latency_p75" in "us",
    LocalReadLatencyP95 = "local_read_latency_p95" in "us",
    LocalReadLatencyP98 = "local_read_latency_p98" in "us",
    LocalReadLatencyP99 = "local_read_latency_p99" in "us",
    /// Mean use of the servers' processors.
    Cpu = "cpu" in "ratio",
    /// The data disks' operations or bytes a second over what they can do, whichever is more.
    StorageUsed = "storage_used" in "ratio",
    /// SSTables of all nodes at the phase's end, at full size.
    ClusterBytes = "cluster_bytes" in "B",
    ClusterBytesAfterMajor = "cluster_bytes_after_major" in "B",
    /// Items that memory holds before the first has to go.
    Items = "items" in "items",
}

impl Metric {
    pub fn is_latency(self) -> bool {
        matches!(self.unit(), "ms" | "us")
    }

    /// Whether more of it is better, where that can be said.
    pub fn more_is_better(self) -> Option<bool> {
        match self.unit() {
            "op/s" | "items" => Some(true),
            "ms" | "us" | "s" => Some(false),
            _ => None,
        }
    }

    /// Reads `50 ms`, `124958 op/s` or `16039 s` into [`Metric::unit`].
    pub fn parse_value(self, text: &str) -> Result<f64, QuantityError> {
        let time = |unit_ns: f64| Quantity::<Time>::parse(text).map(|t| t.f64() / unit_ns);
        match self.unit() {
            "op/s" => Quantity::<Rate>::parse(text).map(Quantity::f64),
            "s" => time(1e9),
            "us" => time(1e3),
            "ms" => time(1e6),
            "B" => Quantity::<Bytes>::parse(text).map(Quantity::f64),
            "ratio" => Quantity::<Ratio>::parse(text).map(Quantity::f64),
            _ => Quantity::<Count>::parse(text).map(Quantity::f64),
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
                let names = || Metric::ALL.iter().map(|(name, _)| *name);
                Metric::ALL.iter().find(|(name, _)| *name == text).map(|(_, metric)| *metric).ok_or_else(|| {
                    let hint = match nearest(text, names()) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("known: {}", names().collect::<Vec<_>>().join(", ")),
                    };
                    E::custom(format!("unknown metric `{text}`; {hint}"))
                })
            }
        }
        deserializer.deserialize_str(Text)
    }
}
