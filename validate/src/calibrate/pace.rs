//! The machine's speed while it was measured, and the mixes as they would have been at one speed.
//!
//! Two tell it: the control ([`crate::control`]), before and behind each round of a mix, and the piece of work that watches
//! the processors ([`crate::speed`]), from moment to moment. The engine slows down as much as neither: the control is one
//! mix, at another moment, and the piece is the kernel's work and caches' for the greater part. How much it does is
//! measured of what the rounds of a mix differ by. Only that is the piece asked for: it is slow beside a mix that keeps
//! caches busy, however fast the machine is.

use super::fit::Mix;
use super::measure::{Measurements, Rates};
use super::nnls::Normal;
use crate::median;

/// Where the rounds say little a power is this: half way between what tells nothing and what tells all.
const PRIOR_POWER: f64 = 0.5;
/// Weighs as much as one round that is a tenth faster than the others.
const PRIOR_WEIGHT: f64 = 0.01;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// CPU per operation goes with this power of what a piece takes, 0 to 1.
    pub power: f64,
    /// `None` where there was none.
    pub control: Option<ControlPace>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControlPace {
    /// Operations a second of CPU, the medians of all rounds: the server's and the loader's.
    pub usual: [f64; 2],
    /// CPU per operation goes with this power of the control's, 0 to 1.
    pub power: f64,
}

/// One round of a mix on one side: logarithms of pieces a second, of the control's operations a second of CPU, and of its
/// own.
struct Round<'a> {
    mix: &'a str,
    pace: f64,
    control: f64,
    speed: f64,
}

impl Pace {
    /// `None` where the machine's speed was not seen.
    pub fn of(measured: &Measurements) -> Option<Self> {
        let control = |side: usize| usual(measured.rates.iter().map(|rates| rates.control[side]));
        let mut normal = Normal::new(2);
        (0..2).for_each(|power| normal.pull(power, PRIOR_POWER, PRIOR_WEIGHT));
        let sides = sides(measured);
        if sides.iter().all(Vec::is_empty) {
            return None;
        }
        for side in &sides {
            for round in side {
                let beside = |of: fn(&Round) -> f64| of(round) - mean(side, round.mix, of);
                let beside_it = [beside(|round| round.pace), beside(|round| round.control)];
                normal.add(&beside_it, beside(|round| round.speed), 1.0);
            }
        }
        let powers = normal.least()?;
        let power = |of: usize| powers[of].min(1.0);
        let control =
            control(0).zip(control(1)).map(|(server, loader)| ControlPace { usual: [server, loader], power: power(1) });
        Some(Self { power: power(0), control })
    }

    /// What the CPU of a round would have been, where its mix has `usual` pieces a second.
    fn brings(&self, cpu_ns: f64, rates: &Rates, side: usize, usual: f64) -> f64 {
        let factor = |now: f64, usual: f64, power: f64| if now > 0.0 { libm::pow(now / usual, power) } else { 1.0 };
        let by_control =
            self.control.map_or(1.0, |control| factor(rates.control[side], control.usual[side], control.power));
        cpu_ns * factor(rates.yardstick[side], usual, self.power) * by_control
    }
}

/// The middle of those that were seen.
fn usual(of: impl Iterator<Item = f64>) -> Option<f64> {
    median(of.filter(|seen| *seen > 0.0).collect(), f64::total_cmp)
}

/// Of the server and of the loader, the rounds whose speed was seen.
fn sides(measured: &Measurements) -> [Vec<Round<'_>>; 2] {
    [(0, &measured.server), (1, &measured.loader)].map(|(side, mixes)| {
        let rounds = measured.rates.iter().zip(mixes).map(|(rates, mix)| Round {
            mix: &mix.name,
            pace: libm::log(rates.yardstick[side]),
            // Without one it is the same in all.
            control: libm::log(if rates.control[side] > 0.0 { rates.control[side] } else { 1.0 }),
            speed: libm::log(rates.operations_per_s / mix.cpu_ns),
        });
        rounds.filter(|round| round.pace.is_finite() && round.speed.is_finite()).collect()
    })
}

/// Of all rounds of a mix.
fn mean(rounds: &[Round<'_>], mix: &str, of: fn(&Round) -> f64) -> f64 {
    let same = || rounds.iter().filter(|round| round.mix == mix);
    same().map(of).sum::<f64>() / same().count() as f64
}

/// What all rounds of a mix did and took, interrupts aside, as one, as if all had run at the usual speed: the server's
/// and the loader's.
pub fn mixes(measured: &Measurements, pace: Option<Pace>) -> [Vec<Mix>; 2] {
    let seen = sides(measured);
    [(0, &measured.server), (1, &measured.loader)].map(|(side, rounds)| {
        let mut joined: Vec<Mix> = Vec::new();
        for (number, round) in rounds.iter().enumerate() {
            let mut round = round.clone();
            round.cpu_ns *= 1.0 - measured.interrupted;
            if let (Some(pace), Some(rates)) = (pace, measured.rates.get(number)) {
                let usual = libm::exp(mean(&seen[side], &round.name, |round| round.pace));
                round.cpu_ns = pace.brings(round.cpu_ns, rates, side, usual);
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

    /// Rounds of mixes on a machine with other paces in each, and other controls, of which the engine follows powers.
    fn measured(powers: [f64; 2], rounds: &[(f64, f64)]) -> Measurements {
        let mut all = Measurements::default();
        for (pace, control) in rounds {
            for (mix, ns) in [("light", 2e3), ("heavy", 9e3)] {
                // The heavy one keeps the piece's caches busy.
                let pace = if mix == "heavy" { pace * 0.6 } else { *pace };
                let took = ns * libm::pow(pace / 1e5, -powers[0]) * libm::pow(control / 4e5, -powers[1]);
                let round = Mix { name: mix.into(), cpu_ns: 1e6 * took, ..Mix::default() };
                all.server.push(round.clone());
                all.loader.push(round);
                all.rates.push(Rates {
                    mix: mix.into(),
                    operations_per_s: 1e6,
                    server_busy: took * 1e-3,
                    loader_busy: took * 1e-3,
                    yardstick: [pace; 2],
                    control: [*control, 2.0 * control],
                });
            }
        }
        all
    }

    #[test]
    fn the_engine_follows_as_much_as_rounds_of_a_mix_tell() {
        for powers in [[0.0, 0.9], [0.3, 0.6], [1.0, 0.0]] {
            let measured = measured(powers, &[(0.7e5, 4e5), (1e5, 3.2e5), (1.4e5, 4.1e5), (1.2e5, 5e5)]);
            let pace = Pace::of(&measured).unwrap();
            let control = pace.control.unwrap();
            let near = |found: f64, power: f64| (found - power).abs() < 0.05;
            assert!(near(pace.power, powers[0]) && near(control.power, powers[1]), "{pace:?} is not {powers:?}");
            assert_eq!(control.usual, [4.1e5, 8.2e5]);
            // All rounds of a mix take the same then.
            let control = Some(ControlPace { usual: [4e5, 8e5], power: powers[1] });
            let [server, _] = mixes(&measured, Some(Pace { power: powers[0], control }));
            let at = |pace: f64| libm::pow(pace / 1e5, -powers[0]);
            let usual = libm::pow(0.7e5 * 1e5 * 1.4e5 * 1.2e5, 0.25);
            let each: Vec<f64> = server.iter().map(|mix| mix.cpu_ns / 4e6).collect();
            let expected = [2e3 * at(usual), 9e3 * at(0.6 * usual)];
            assert!(
                (each[0] - expected[0]).abs() < 1.0 && (each[1] - expected[1]).abs() < 1.0,
                "{each:?} {expected:?}"
            );
        }
    }

    #[test]
    fn a_steady_machine_tells_nothing_of_it() {
        let steady = Pace::of(&measured([0.3, 0.3], &[(1e5, 4e5); 3])).unwrap();
        assert!((steady.power - PRIOR_POWER).abs() < 1e-9);
        assert_eq!(steady.control.unwrap().usual, [4e5, 8e5]);
        let mut unseen = measured([0.3, 0.0], &[(1e5, 4e5); 2]);
        unseen.rates.iter_mut().for_each(|rates| rates.control = [0.0; 2]);
        assert_eq!(Pace::of(&unseen).unwrap().control, None);
        unseen.interrupted = 0.02;
        unseen.rates.iter_mut().for_each(|rates| rates.yardstick = [0.0; 2]);
        assert_eq!(Pace::of(&unseen), None);
        let [server, loader] = mixes(&unseen, None);
        assert_eq!(server, loader);
        assert!((server[0].cpu_ns / (2.0 * 2e9 * 0.98) - 1.0).abs() < 1e-9, "{server:?}");
    }
}
