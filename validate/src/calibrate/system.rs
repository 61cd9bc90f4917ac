//! Prices as system profiles: the engine's, with the settings that its profile has, and the loading client's.

use std::sync::Arc;

use hwprofiles::quantity::Quantity;
use hwprofiles::{Cost, CostTable, Figure, Profiles, Reference, Standing, System};

use super::fit::{Fit, Found};
use super::measure::Measurements;
use super::{Calibrated, PRIOR, PRIOR_CLIENT, Pace};
use crate::probe::profile::{Document, rounded};

/// Both systems' files, in a folder of profiles: `name`, and `name-bench` for the loading client.
pub fn systems(measured: &Measurements, found: &Calibrated, name: &str) -> Result<Vec<Document>, serde_yaml::Error> {
    let profiles = Profiles::embedded();
    let prior = &profiles.systems[PRIOR];
    let host = &measured.host;
    let about = |what: &str| format!("{what} on {}, calibrated on {}", host.processor, measured.date);
    let server = System {
        name: name.to_string(),
        about: about("orrery"),
        costs: costs(measured, found.pace, 0, &found.server),
        ..prior.clone()
    };
    let bench = format!("{name}-bench");
    let client = profiles.systems.get(PRIOR_CLIENT).unwrap_or(prior);
    let loader = System {
        name: bench.clone(),
        about: about("orrery's loading client"),
        costs: costs(measured, found.pace, 1, &found.loader),
        ..client.clone()
    };
    let document = |name: &str, system: &System, fit: &Fit| -> Result<Document, serde_yaml::Error> {
        Ok(Document { path: format!("systems/{name}.yaml"), text: text(system, fit)? })
    };
    Ok(vec![document(name, &server, &found.server)?, document(&bench, &loader, &found.loader)?])
}

fn text(system: &System, fit: &Fit) -> Result<String, serde_yaml::Error> {
    let mut written = Vec::new();
    let mut serializer = serde_yaml::Serializer::new(&mut written);
    serde_yaml::with::singleton_map_recursive::serialize(system, &mut serializer)?;
    drop(serializer);
    let body = String::from_utf8_lossy(&written);
    Ok(format!(
        "# By orrery calibrate: {} mixes, median error {:.1} %, {:.1} % of a mix that was left out.\n{body}",
        fit.residuals.len(),
        fit.median_error(false) * 100.0,
        fit.median_error(true) * 100.0,
    ))
}

/// `side`: 0 of the server's costs, 1 of the loader's.
fn costs(measured: &Measurements, pace: Option<Pace>, side: usize, fit: &Fit) -> CostTable {
    let host = &measured.host;
    let source = format!("orrery calibrate on {}", measured.date);
    let cost = |(kind, found): (&String, &Found)| {
        // Tables are for a thread whose sibling is busy; each side had a core for itself.
        let ns = |ns: f64| rounded(ns / host.hyper_thread_factor);
        let (standing, why) = standing(found, &source);
        let cost = Cost {
            fixed: Quantity::new(ns(found.price.fixed_ns)),
            per_byte: Quantity::new(ns(found.price.ns_per_byte)),
            standing,
            source: why,
        };
        (kind.clone(), cost)
    };
    let control = pace.and_then(|pace| pace.control);
    let clock_standing = if host.clock_measured { Standing::Measured } else { Standing::Assumed };
    CostTable {
        reference: Reference {
            clock: Figure::new(rounded(host.clock_ghz), clock_standing, &host.processor),
            ipc_factor: Figure::new(1.0, Standing::Assumed, "the processor is its own measure"),
            hyper_thread_factor: Figure::new(rounded(host.hyper_thread_factor), Standing::Measured, &source),
            yardstick_power: pace.map(|pace| Figure::new(rounded(pace.power), Standing::Measured, &source)),
            control: control.map(|control| Figure::new(rounded(control.usual[side]), Standing::Measured, &source)),
            control_power: control.map(|control| Figure::new(rounded(control.power), Standing::Measured, &source)),
        },
        work: fit.prices.iter().map(cost).collect(),
    }
}

fn standing(found: &Found, source: &str) -> (Standing, Arc<str>) {
    if !found.is_determined {
        let why = format!("{source}: too little of it to tell, as its prior in proportion to all others");
        return (Standing::Assumed, why.into());
    }
    let mut why = format!("{source}, +-{:.0} %", (found.uncertainty * 100.0).min(999.0));
    if !found.tied.is_empty() {
        why += &format!(", in its prior proportion to {}", found.tied.join(" and "));
    }
    (Standing::Measured, why.into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::*;
    use crate::calibrate::fit::{Count, Mix};
    use crate::calibrate::prices;
    use crate::probe::host::Host;

    /// Mixes of two kinds of work; a receive costs 700 ns, a byte of it 0.1 ns, a poll 90 ns, and interrupts come on top.
    fn measured() -> Measurements {
        let mix = |i: u32| {
            let (receives, bytes, polls) = (1e4 * f64::from(i + 1), 1e6 * f64::from(i * i % 7), 1e6 / f64::from(i + 1));
            let counts = [("net-receive", receives, bytes), ("poll", polls, 0.0)];
            let count = |(kind, times, amount): (&str, f64, f64)| (kind.to_string(), Count { times, amount });
            let work: BTreeMap<String, Count> = counts.into_iter().map(count).collect();
            Mix { name: format!("mix {i}"), cpu_ns: (receives * 700.0 + bytes * 0.1 + polls * 90.0) / 0.98, work }
        };
        let mixes: Vec<Mix> = (0..12).map(mix).collect();
        Measurements {
            date: "2026-11-21".into(),
            host: Host {
                processor: "Made-up CPU @ 2.50GHz".into(),
                clock_ghz: 2.5,
                clock_measured: true,
                hyper_thread_factor: 1.0,
                ..Host::default()
            },
            loader: mixes.clone(),
            server: mixes,
            rates: Vec::new(),
            interrupted: 0.02,
        }
    }

    #[test]
    fn what_is_written_is_read_by_scenarios() {
        let measured = measured();
        let folder = tempfile::tempdir().unwrap();
        for document in systems(&measured, &prices(&measured).unwrap(), "here").unwrap() {
            let path = folder.path().join(&document.path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &document.text).unwrap();
        }
        let profiles = Profiles::with_folder(folder.path()).unwrap();
        let (server, loader) = (profiles.system("here").unwrap(), profiles.system("here-bench").unwrap());
        assert_eq!(loader.name, "here-bench");
        let prior = profiles.system(PRIOR).unwrap();
        assert_eq!((&server.threading, &server.commitlog), (&prior.threading, &prior.commitlog));
        let receive = &server.costs.work["net-receive"];
        assert!((receive.fixed.f64() / 700.0 - 1.0).abs() < 0.02, "{receive}");
        assert!((server.costs.work["poll"].fixed.f64() / 90.0 - 1.0).abs() < 0.02);
        assert_eq!(receive.standing, Standing::Measured);
        assert_eq!(server.costs.work["compaction"].standing, Standing::Assumed);
        assert_eq!(server.costs.reference.speed(), 2.5);
    }

    #[test]
    fn measurements_are_kept_whole() {
        let measured = measured();
        let text = serde_json::to_string(&measured).unwrap();
        let read: Measurements = serde_json::from_str(&text).unwrap();
        assert_eq!(read, measured);
        assert_eq!(prices(&read).unwrap(), prices(&measured).unwrap());
    }
}
