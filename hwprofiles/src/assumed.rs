//! What nobody published of a profile: which figures those are, and the same profile with one of them moved.
//!
//! It works on a profile as it is written, so it holds for every kind of profile and for figures that are added later.
//! The points of one distribution move together, or they would not rise any more.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_yaml::Value;
use serde_yaml::with::singleton_map_recursive;

use crate::figure::Standing;

/// A figure that was assumed, such as `costs.work.flush` of a system.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Assumed {
    pub path: String,
    /// As it is written, without its source; a distribution's median.
    pub value: String,
}

/// All that was assumed and is not zero, in the profile's order.
pub fn assumed<T: Serialize>(profile: &T) -> Vec<Assumed> {
    let mut found = Vec::new();
    if let Ok(value) = singleton_map_recursive::serialize(profile, serde_yaml::value::Serializer) {
        walk(&value, "", &mut found);
    }
    found
}

/// The profile with the figure at `path` times `factor`; `None` where it has no such figure, or cannot be so.
pub fn moved<T: Serialize + DeserializeOwned>(profile: &T, path: &str, factor: f64) -> Option<T> {
    let mut value = singleton_map_recursive::serialize(profile, serde_yaml::value::Serializer).ok()?;
    let place = path.split('.').try_fold(&mut value, |place, key| match place {
        Value::Sequence(items) => items.get_mut(key.parse::<usize>().ok()?),
        place => place.get_mut(key),
    })?;
    match place {
        Value::Mapping(points) => points.values_mut().for_each(|point| multiply(point, factor)),
        figure => multiply(figure, factor),
    }
    singleton_map_recursive::deserialize(value).ok()
}

/// Amount and standing of a figure's text.
fn parts(text: &str) -> Option<(&str, Standing)> {
    let (amount, rest) = text.split_once('|')?;
    Some((amount.trim(), Standing::parse(rest.split('|').next()?.trim())?))
}

fn is_assumed(value: &Value) -> bool {
    value.as_str().and_then(parts).is_some_and(|(_, standing)| standing == Standing::Assumed)
}

/// The numbers of an amount, each with its unit: `1.2 us + 0.4 ns/B` has two.
fn numbers(amount: &str) -> impl Iterator<Item = (f64, &str)> {
    amount.split(" + ").filter_map(|part| {
        let (number, unit) = part.trim().split_once(' ')?;
        Some((number.parse().ok()?, unit))
    })
}

fn multiply(figure: &mut Value, factor: f64) {
    let Some(text) = figure.as_str() else { return };
    let Some((amount, rest)) = text.split_once('|') else { return };
    let moved: Vec<String> = numbers(amount).map(|(number, unit)| format!("{} {unit}", number * factor)).collect();
    if !moved.is_empty() {
        *figure = Value::String(format!("{} |{rest}", moved.join(" + ")));
    }
}

fn walk(value: &Value, path: &str, found: &mut Vec<Assumed>) {
    let below = |key: &str| if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
    let amount = |figure: &Value| figure.as_str().and_then(parts).map(|(amount, _)| amount.to_string());
    match value {
        Value::Mapping(map) if map.contains_key("mid") && map.values().any(is_assumed) => {
            let value = map.get("mid").and_then(amount).unwrap_or_default();
            found.push(Assumed { path: path.to_string(), value });
        }
        Value::Mapping(map) => {
            map.iter().for_each(|(key, value)| walk(value, &below(key.as_str().unwrap_or_default()), found));
        }
        Value::Sequence(items) => {
            items.iter().enumerate().for_each(|(i, item)| walk(item, &below(&i.to_string()), found));
        }
        figure if is_assumed(figure) => {
            let value = amount(figure).unwrap_or_default();
            if numbers(&value).any(|(number, _)| number != 0.0) {
                found.push(Assumed { path: path.to_string(), value });
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profiles;

    #[test]
    fn every_assumed_figure_of_every_profile_can_be_moved() {
        fn check<T: Serialize + DeserializeOwned + PartialEq>(name: &str, profile: &T) -> usize {
            let all = assumed(profile);
            for Assumed { path, value } in &all {
                let moved = moved(profile, path, 1.2);
                assert!(moved.as_ref().is_some_and(|moved| moved != profile), "{name}: {path} {value}");
            }
            all.len()
        }
        let profiles = Profiles::embedded();
        let mut count = 0;
        profiles.systems.iter().for_each(|(name, system)| count += check(name, system));
        profiles.disks.iter().for_each(|(name, disk)| count += check(name, disk));
        profiles.networks.iter().for_each(|(name, network)| count += check(name, network));
        profiles.instances.iter().for_each(|(name, instance)| count += check(name, instance));
        assert!(count > 200, "{count}");
    }

    #[test]
    fn one_figure_moves_and_the_points_of_a_distribution_together() {
        let profiles = Profiles::embedded();
        let cassandra = &profiles.systems["cassandra-3.0.9"];
        let path = "costs.work.flush";
        let flush = &assumed(cassandra).into_iter().find(|assumed| assumed.path == path).unwrap();
        let before = &cassandra.costs.work["flush"];
        assert!(flush.value.contains(&format!("{} ns/B", before.per_byte.f64())), "{flush:?}");
        let after = moved(cassandra, path, 2.0).unwrap();
        assert_eq!(after.costs.work["flush"].per_byte.f64(), 2.0 * before.per_byte.f64());
        assert_eq!(after.costs.work["compaction"], cassandra.costs.work["compaction"]);
        let network = &profiles.networks["one-zone"];
        let slower = moved(network, "rtt", 1.5).unwrap();
        assert_eq!((slower.rtt.min.f64(), slower.rtt.max.f64()), (90e3, 4.5e6));
        assert!(moved(network, "rtt.nothing", 1.5).is_none());
    }
}
