//! What a node counts of itself, as its metrics page tells it: Prometheus' text format, version 0.0.4.

use std::collections::BTreeMap;

/// One line of the page.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Without the prefix `scylla_`.
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    pub samples: Vec<Sample>,
}

impl Metrics {
    /// Lines that are no samples are passed over.
    pub fn parse(page: &str) -> Self {
        Self { samples: page.lines().filter(|line| !line.starts_with('#')).filter_map(sample).collect() }
    }

    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Sample> {
        self.samples.iter().filter(move |sample| sample.name == name)
    }

    /// Of all shards and tables.
    pub fn sum(&self, name: &str) -> f64 {
        self.named(name).map(|sample| sample.value).sum()
    }

    /// By the value of one label, all shards together.
    pub fn by_label(&self, name: &str, label: &str) -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for sample in self.named(name) {
            if let Some(value) = sample.labels.get(label) {
                *sums.entry(value.clone()).or_insert(0.0) += sample.value;
            }
        }
        sums
    }
}

fn sample(line: &str) -> Option<Sample> {
    let (head, value) = line.rsplit_once(' ')?;
    let (name, labels) = match head.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (head, ""),
    };
    let labels = labels.split("\",").filter(|label| !label.is_empty()).map(|label| {
        let (key, value) = label.split_once("=\"")?;
        Some((key.to_string(), value.trim_end_matches('"').to_string()))
    });
    Some(Sample {
        name: name.strip_prefix("scylla_").unwrap_or(name).to_string(),
        labels: labels.collect::<Option<_>>()?,
        value: value.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_by_name_and_by_label() {
        let page = "# HELP scylla_reactor_work_total how often\n\
                    scylla_reactor_work_total{shard=\"0\",work=\"poll\"} 7\n\
                    scylla_reactor_work_total{shard=\"1\",work=\"poll\"} 3\n\
                    scylla_reactor_work_total{shard=\"1\",work=\"flush\"} 2\n\
                    plain 1.5\nnot a sample\n";
        let metrics = Metrics::parse(page);
        assert_eq!((metrics.samples.len(), metrics.sum("reactor_work_total"), metrics.sum("plain")), (4, 12.0, 1.5));
        let by_work = metrics.by_label("reactor_work_total", "work");
        assert_eq!((by_work["poll"], by_work["flush"]), (10.0, 2.0));
    }
}
