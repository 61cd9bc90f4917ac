//! The machine's speed while it was measured, and the mixes as they would have been at one speed.
//!
//! The engine does not slow down as much as the piece of work that watches the processors ([`crate::speed`]): that is
//! the kernel's work and caches' for the greater part, in other proportions. How much it does is measured of what the
//! rounds of a mix have in common, the mix itself, so that a mix that keeps caches busy, and the piece with them, does
//! not pass for a slow machine.

use super::fit::Mix;
use super::measure::Measurements;
use crate::median;

/// Where the rounds say little the power is this: half way between a piece that tells nothing and one that tells all.
const PRIOR_POWER: f64 = 0.5;
/// Weighs as much as one round that is a tenth faster than the others.
const PRIOR_WEIGHT: f64 = 0.01;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Pieces a second, the median of all rounds.
    pub usual: f64,
    /// CPU per operation goes with this power of what a piece takes, 0 to 1.
    pub power: f64,
}

/// One round of a mix on one side: logarithms of pieces a second and of operations a second of CPU.
struct Round<'a> {
    mix: &'a str,
    pace: f64,
    speed: f64,
}

impl Pace {
    /// `None` where the machine's speed was not seen.
    pub fn of(measured: &Measurements) -> Option<Self> {
        let paces = measured.rates.iter().flat_map(|rates| rates.yardstick).filter(|pace| *pace > 0.0).collect();
        let usual = median(paces, f64::total_cmp)?;
        let (mut square, mut product) = (PRIOR_WEIGHT, PRIOR_WEIGHT * PRIOR_POWER);
        for side in sides(measured) {
            for round in &side {
                let same = || side.iter().filter(|other| other.mix == round.mix);
                let mean = |of: fn(&Round) -> f64| same().map(of).sum::<f64>() / same().count() as f64;
                let pace = round.pace - mean(|round| round.pace);
                square += pace * pace;
                product += pace * (round.speed - mean(|round| round.speed));
            }
        }
        Some(Self { usual, power: (product / square).clamp(0.0, 1.0) })
    }

    fn brings(&self, cpu_ns: f64, pace: f64) -> f64 {
        if pace > 0.0 { cpu_ns * libm::pow(pace / self.usual, self.power) } else { cpu_ns }
    }
}

/// Of the server and of the loader, the rounds whose speed was seen.
fn sides(measured: &Measurements) -> [Vec<Round<'_>>; 2] {
    [(0, &measured.server), (1, &measured.loader)].map(|(side, mixes)| {
        let rounds = measured.rates.iter().zip(mixes).map(|(rates, mix)| Round {
            mix: &mix.name,
            pace: libm::log(rates.yardstick[side]),
            speed: libm::log(rates.operations_per_s / mix.cpu_ns),
        });
        rounds.filter(|round| round.pace.is_finite() && round.speed.is_finite()).collect()
    })
}

/// What all rounds of a mix did and took, interrupts aside, as one, as if all had run at the usual speed: the server's
/// and the loader's.
pub fn mixes(measured: &Measurements, pace: Option<Pace>) -> [Vec<Mix>; 2] {
    [(0, &measured.server), (1, &measured.loader)].map(|(side, rounds)| {
        let mut joined: Vec<Mix> = Vec::new();
        for (number, round) in rounds.iter().enumerate() {
            let mut round = round.clone();
            round.cpu_ns *= 1.0 - measured.interrupted;
            if let (Some(pace), Some(rates)) = (pace, measured.rates.get(number)) {
                round.cpu_ns = pace.brings(round.cpu_ns, rates.yardstick[side]);
            }
            match joined.iter_mut().find(|other| other.name == round.name) {
                Some(other) => other.add(&round),
                None => joined.push(round),
            }
        }
        joined
    })
}

#[cfg(test)]
mod tests {
    use super::super::measure::Rates;
    use super::*;

    /// Rounds of mixes on a machine with other paces in each, of which the engine follows a power.
    fn measured(power: f64, paces: &[f64]) -> Measurements {
        let mut all = Measurements::default();
        for pace in paces {
            for (mix, ns) in [("light", 2e3), ("heavy", 9e3)] {
                // The heavy one keeps the piece's caches busy.
                let pace = if mix == "heavy" { pace * 0.6 } else { *pace };
                let took = ns * libm::pow(pace / 1e5, -power);
                let round = Mix { name: mix.into(), cpu_ns: 1e6 * took, ..Mix::default() };
                all.server.push(round.clone());
                all.loader.push(round);
                all.rates.push(Rates {
                    mix: mix.into(),
                    operations_per_s: 1e6,
                    server_busy: took * 1e-3,
                    loader_busy: took * 1e-3,
                    yardstick: [pace; 2],
                });
            }
        }
        all
    }

    #[test]
    fn the_engine_follows_as_much_as_rounds_of_a_mix_tell() {
        for power in [0.0, 0.3, 1.0] {
            let measured = measured(power, &[0.7e5, 1e5, 1.4e5]);
            let pace = Pace::of(&measured).unwrap();
            assert!((pace.power - power).abs() < 0.02, "{pace:?} is not {power}");
            // All rounds of a mix take the same then.
            let [server, _] = mixes(&measured, Some(Pace { usual: 1e5, power }));
            let each: Vec<f64> = server.iter().map(|mix| mix.cpu_ns / 3e6).collect();
            assert!((each[0] - 2e3).abs() < 1.0 && (each[1] - 9e3).abs() < 1.0, "{each:?}");
        }
    }

    #[test]
    fn a_steady_machine_tells_nothing_of_it() {
        let steady = Pace::of(&measured(0.3, &[1e5, 1e5, 1e5])).unwrap();
        assert_eq!((steady.power, steady.usual), (PRIOR_POWER, 1e5));
        let mut unseen = measured(0.3, &[1e5, 1e5]);
        unseen.interrupted = 0.02;
        unseen.rates.iter_mut().for_each(|rates| rates.yardstick = [0.0; 2]);
        assert_eq!(Pace::of(&unseen), None);
        let [server, loader] = mixes(&unseen, None);
        assert_eq!(server, loader);
        assert!((server[0].cpu_ns / (2.0 * 2e9 * 0.98) - 1.0).abs() < 1e-9, "{server:?}");
    }
}
