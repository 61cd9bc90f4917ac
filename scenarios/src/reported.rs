//! What the published reports tell of each phase, and therefore our reproduction of them: `reported.csv`.

use crate::metric::Metric;

static LIST: &str = include_str!("../reported.csv");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    pub bench: &'static str,
    pub system: &'static str,
    pub phase: &'static str,
    pub metric: Metric,
}

/// In the order of the list. A line that names no metric is left out; the tests see to it that there is none.
pub fn reported() -> impl Iterator<Item = Reported> {
    LIST.lines().skip(1).filter_map(|line| {
        let mut fields = line.split(',');
        let (bench, system, phase, name) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let metric = Metric::ALL.iter().find(|(known, _)| *known == name)?.1;
        Some(Reported { bench, system, phase, metric })
    })
}

#[cfg(test)]
mod tests {
    use hwprofiles::Profiles;

    use super::*;
    use crate::load;

    #[test]
    fn a_scenario_gives_each_of_them() {
        assert_eq!(reported().count(), LIST.lines().count() - 1, "a line without a metric");
        let profiles = Profiles::embedded();
        let mut given = Vec::new();
        for name in load::names() {
            for run in load::read(&load::find(name).unwrap(), &profiles).unwrap().runs {
                let Some(bench) = run.bench.clone() else { continue };
                let phases = run.phases.iter().flat_map(|phase| phase.reported());
                given.extend(phases.map(|(phase, _)| (bench.clone(), run.reported_as.clone(), phase)));
            }
        }
        for Reported { bench, system, phase, .. } in reported() {
            let place = (bench.to_string(), system.to_string(), phase.to_string());
            assert_eq!(given.iter().filter(|other| **other == place).count(), 1, "{place:?}");
        }
    }
}
