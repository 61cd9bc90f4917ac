//! Replication strategies and factors that are refused or warned of, under Scylla's names. They hold for superusers too,
//! as Scylla's do.

use types::{KeyspaceDef, Replication};

use crate::ddl::Ddl;
use crate::error::QueryError;
use crate::node::Node;
use crate::settings::Settings;

/// Whether a value is over a threshold.
type IsOver = fn(f64, f64) -> bool;

/// The settings' names without their ends, what counts as a violation, and its word.
const FACTORS: [(&str, IsOver, &str); 2] = [
    ("minimum_replication_factor", |factor, threshold| factor < threshold, "below"),
    ("maximum_replication_factor", |factor, threshold| factor > threshold, "above"),
];

/// A violation: the metric that counts it, and the text.
type Violation = (&'static str, String);

fn metric(setting: &str, kind: &str) -> &'static str {
    match (setting, kind) {
        ("minimum_replication_factor", "fail") => "cql_minimum_replication_factor_fail_violations",
        ("minimum_replication_factor", _) => "cql_minimum_replication_factor_warn_violations",
        (_, "fail") => "cql_maximum_replication_factor_fail_violations",
        _ => "cql_maximum_replication_factor_warn_violations",
    }
}

/// `Err` with the first that refuses; else what is warned of.
fn check(settings: &Settings, keyspace: &KeyspaceDef) -> Result<Vec<Violation>, Violation> {
    let options = keyspace.replication.to_options();
    let class = options.get("class").map_or("", |class| class.rsplit('.').next().unwrap_or(class));
    let listed = |list: &str| {
        let listed = settings.list(list).iter().any(|name| name.rsplit('.').next() == Some(class));
        let simple = if list.ends_with("fail_list") { "true" } else { "warn" };
        listed || (class == "SimpleStrategy" && settings.text("restrict_replication_simplestrategy") == simple)
    };
    if listed("replication_strategy_fail_list") {
        let told = format!("Replication strategy {class} is forbidden: see replication_strategy_fail_list");
        return Err(("cql_replication_strategy_fail_list_violations", told));
    }
    let factors: Vec<(&String, f64)> = match keyspace.replication {
        Replication::Local => Vec::new(),
        _ => options.iter().filter_map(|(dc, factor)| Some((dc, factor.parse().ok()?))).collect(),
    };
    let mut warnings = Vec::new();
    // A factor of zero is a data centre without replicas.
    for (dc, factor) in factors.into_iter().filter(|(_, factor)| *factor > 0.0) {
        for (name, is_over, word) in FACTORS {
            let threshold = |kind: &str| {
                let setting = format!("{name}_{kind}_threshold");
                let threshold = settings.number(&setting);
                (threshold >= 0.0 && is_over(factor, threshold)).then(|| format!("{setting}={threshold}"))
            };
            if let Some(threshold) = threshold("fail") {
                let told = format!("Replication factor {dc}={factor} is forbidden: it is {word} {threshold}");
                return Err((metric(name, "fail"), told));
            }
            if let Some(threshold) = threshold("warn") {
                let told = format!("Replication factor {dc}={factor} is {word} {threshold}, which is not recommended");
                warnings.push((metric(name, "warn"), told));
            }
        }
    }
    if listed("replication_strategy_warn_list") {
        let told = format!("Replication strategy {class} is not recommended: see replication_strategy_warn_list");
        warnings.push(("cql_replication_strategy_warn_list_violations", told));
    }
    Ok(warnings)
}

impl Node {
    /// The warnings about a keyspace that is made or changed.
    pub(super) fn guard_keyspace(&self, ddl: &Ddl) -> Result<Vec<String>, QueryError> {
        let def = match ddl {
            Ddl::CreateKeyspace { def, .. } => def.clone(),
            Ddl::AlterKeyspace { name, properties, .. } => {
                let Some(known) = self.schema().keyspace(name).cloned() else { return Ok(Vec::new()) };
                let mut def = (*known).clone();
                crate::ddl::apply_to_keyspace(&mut def, properties)?;
                // What stays as it is has been warned of.
                if def.replication == known.replication {
                    return Ok(Vec::new());
                }
                def
            }
            _ => return Ok(Vec::new()),
        };
        match check(&self.settings, &def) {
            Ok(warnings) => Ok(warnings.into_iter().map(|(metric, told)| self.counted(metric, told)).collect()),
            Err((metric, told)) => Err(QueryError::config(self.counted(metric, told))),
        }
    }

    fn counted(&self, metric: &'static str, told: String) -> String {
        self.counts.note(metric);
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(given: &[(&str, &str)], options: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let pairs = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            list.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        let replication = Replication::from_options(&pairs(options).into_iter().collect()).unwrap();
        let keyspace = KeyspaceDef { replication, ..KeyspaceDef::new("ks", Replication::Local) };
        let told = check(&Settings::new(&pairs(given)).unwrap(), &keyspace);
        told.map(|warnings| warnings.into_iter().map(|(_, told)| told).collect()).map_err(|(_, told)| told)
    }

    #[test]
    fn strategies_and_factors() {
        let simple = [("class", "SimpleStrategy"), ("replication_factor", "2")];
        let topology = [("class", "NetworkTopologyStrategy"), ("dc1", "2"), ("dc2", "0")];
        let warned = told(&[], &simple).unwrap();
        assert_eq!(
            warned,
            ["Replication strategy SimpleStrategy is not recommended: see replication_strategy_warn_list"]
        );
        assert!(told(&[], &topology).unwrap().is_empty());
        let refused = told(&[("restrict_replication_simplestrategy", "true")], &simple).unwrap_err();
        assert!(refused.contains("forbidden"), "{refused}");
        let warned = told(&[("minimum_replication_factor_warn_threshold", "3")], &topology).unwrap();
        let expected = "Replication factor dc1=2 is below minimum_replication_factor_warn_threshold=3, which is not \
                        recommended";
        assert_eq!(warned, [expected]);
        let refused = told(&[("maximum_replication_factor_fail_threshold", "1")], &topology).unwrap_err();
        assert_eq!(
            refused,
            "Replication factor dc1=2 is forbidden: it is above maximum_replication_factor_fail_threshold=1"
        );
    }
}
