//! Prices of kinds of work, from how much of each was done in several mixes and how much CPU each mix took.
//!
//! Every kind has a prior cost, fixed and by the byte. The fit finds what multiplies these, never negative, such that
//! each mix's CPU comes out right in relation to itself. A multiplier that the mixes say nothing of stays where the
//! whole table is: as if the machine were faster or slower than the prior's, and nothing else. Kinds that occur in the
//! same proportion in all mixes cannot be told apart, and share a multiplier.
//!
//! Pure: the same measurements give the same prices, the bounds' resampling included.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::nnls::Normal;
use crate::median;

/// What was counted of one kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    pub times: f64,
    /// Bytes, of most kinds.
    pub amount: f64,
}

/// One mix, as measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    pub name: String,
    pub cpu_ns: f64,
    pub work: BTreeMap<String, Count>,
}

impl Mix {
    /// What another round of it did and took.
    pub fn add(&mut self, round: &Mix) {
        self.cpu_ns += round.cpu_ns;
        for (kind, count) in &round.work {
            let sum = self.work.entry(kind.clone()).or_default();
            (sum.times, sum.amount) = (sum.times + count.times, sum.amount + count.amount);
        }
    }
}

/// ns a time and ns a unit of the amount.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    pub fixed_ns: f64,
    pub ns_per_byte: f64,
}

/// A kind's price as it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub price: Price,
    /// Half of the range that holds nine of ten resamplings, as a part of the price.
    pub uncertainty: f64,
    /// The mixes tell this kind from others; if not, its price follows the prior.
    pub is_determined: bool,
    /// Kinds whose parts share a multiplier with a part of this one.
    pub tied: Vec<String>,
    /// Of all mixes' CPU, at these prices.
    pub share: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Residual {
    pub mix: String,
    pub cpu_ns: f64,
    /// By the prices, over what was measured, minus 1; and the same by prices that this mix had no part in.
    pub error: f64,
    pub error_left_out: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    pub prices: BTreeMap<String, Found>,
    pub residuals: Vec<Residual>,
    /// By how much the machine differs from the priors as a whole.
    pub scale: f64,
}

impl Fit {
    /// The middle of the errors' sizes.
    pub fn median_error(&self, left_out: bool) -> f64 {
        let error = |residual: &Residual| if left_out { residual.error_left_out } else { residual.error };
        let sizes = self.residuals.iter().map(|residual| error(residual).abs()).collect();
        median(sizes, f64::total_cmp).unwrap_or(0.0)
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    #[error("{0} mixes are too few to fit prices to; the design has more")]
    TooFew(usize),
    #[error("the mix {0} used no CPU, so that nothing can be learnt of it")]
    Idle(String),
    #[error("no work that has a prior cost was done in any mix")]
    NoWork,
    #[error("the equations have no solution; were all mixes measured?")]
    Singular,
}

/// A multiplier away from the whole table's by 1 weighs as much as a mix that is wrong by this part: the weaker the pull,
/// the more of the measurements' noise is taken for prices. The one that does best for mixes that were left out is used.
const PULLS: [f64; 4] = [0.02, 0.05, 0.1, 0.2];
/// Columns whose angle has a cosine above this are one.
const SAME: f64 = 0.9995;
/// A multiplier whose pull by the mixes is below this part of its whole weight is the prior's.
const DETERMINED: f64 = 0.5;
const RESAMPLINGS: usize = 200;
/// Of the mixes, which resamplings leave at least.
const LEAST: usize = 3;

/// A part of a kind's price: what it takes each time, or by the byte.
#[derive(Clone, Debug)]
struct Part {
    kind: String,
    by_byte: bool,
}

/// Parts that share a multiplier, and what they amount to at the prior in each mix, as a part of its CPU.
#[derive(Clone, Debug)]
struct Column {
    parts: Vec<Part>,
    values: Vec<f64>,
}

fn columns(mixes: &[Mix], priors: &BTreeMap<String, Price>) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for (kind, price) in priors {
        for (by_byte, ns) in [(false, price.fixed_ns), (true, price.ns_per_byte)] {
            let count = |mix: &Mix| mix.work.get(kind).map_or(0.0, |c| if by_byte { c.amount } else { c.times });
            let values: Vec<f64> = mixes.iter().map(|mix| count(mix) * ns / mix.cpu_ns).collect();
            if values.iter().all(|value| *value <= 0.0) {
                continue;
            }
            let part = Part { kind: kind.clone(), by_byte };
            match columns.iter_mut().find(|column| cosine(&column.values, &values) > SAME) {
                Some(same) => {
                    same.values.iter_mut().zip(&values).for_each(|(sum, value)| *sum += value);
                    same.parts.push(part);
                }
                None => columns.push(Column { parts: vec![part], values }),
            }
        }
    }
    columns
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(f64::MIN_POSITIVE)
}

/// The multipliers, from the mixes at `rows`, which may be there several times.
fn multipliers(columns: &[Column], rows: &[usize], pull: f64) -> Option<(Vec<f64>, f64)> {
    let row = |mix: usize| -> Vec<f64> { columns.iter().map(|column| column.values[mix]).collect() };
    // The one multiplier of all that is best, in relation to each mix.
    let sums: Vec<f64> = rows.iter().map(|mix| row(*mix).iter().sum()).collect();
    let scale = sums.iter().sum::<f64>() / dot(&sums, &sums);
    let mut normal = Normal::new(columns.len());
    rows.iter().for_each(|mix| normal.add(&row(*mix), 1.0, 1.0));
    // In units of the scale, so that the pull is as strong on a fast machine as on a slow one.
    (0..columns.len()).for_each(|i| normal.pull(i, scale, (pull / scale) * (pull / scale)));
    Some((normal.least()?, scale))
}

pub fn fit(mixes: &[Mix], priors: &BTreeMap<String, Price>) -> Result<Fit, FitError> {
    if mixes.len() <= LEAST {
        return Err(FitError::TooFew(mixes.len()));
    }
    if let Some(idle) = mixes.iter().find(|mix| mix.cpu_ns <= 0.0) {
        return Err(FitError::Idle(idle.name.clone()));
    }
    let columns = columns(mixes, priors);
    if columns.is_empty() {
        return Err(FitError::NoWork);
    }
    let tried = PULLS.iter().filter_map(|pull| Pulled::new(mixes, &columns, *pull));
    let best = tried.min_by(|a, b| a.left_out_square().total_cmp(&b.left_out_square())).ok_or(FitError::Singular)?;
    let bounds = uncertainty(&columns, &best, mixes.len()).ok_or(FitError::Singular)?;
    let prices = prices(mixes, priors, &columns, &best, &bounds);
    Ok(Fit { prices, residuals: best.residuals, scale: best.scale })
}

/// What one strength of the pull gives.
struct Pulled {
    pull: f64,
    /// Multipliers, by column.
    found: Vec<f64>,
    scale: f64,
    residuals: Vec<Residual>,
}

impl Pulled {
    /// `None`: the equations have no solution.
    fn new(mixes: &[Mix], columns: &[Column], pull: f64) -> Option<Self> {
        let all: Vec<usize> = (0..mixes.len()).collect();
        let (found, scale) = multipliers(columns, &all, pull)?;
        let predicted = |multipliers: &[f64], mix: usize| {
            columns.iter().zip(multipliers).map(|(c, m)| c.values[mix] * m).sum::<f64>()
        };
        let mut residuals = Vec::new();
        for (mix, measured) in mixes.iter().enumerate() {
            let others: Vec<usize> = all.iter().copied().filter(|other| *other != mix).collect();
            let (without, _) = multipliers(columns, &others, pull)?;
            residuals.push(Residual {
                mix: measured.name.clone(),
                cpu_ns: measured.cpu_ns,
                error: predicted(&found, mix) - 1.0,
                error_left_out: predicted(&without, mix) - 1.0,
            });
        }
        Some(Self { pull, found, scale, residuals })
    }

    /// Of mixes by multipliers that they had no part in.
    fn left_out_square(&self) -> f64 {
        self.residuals.iter().map(|residual| residual.error_left_out.powi(2)).sum()
    }
}

/// Half the range of nine resamplings of ten, by column, as a part of the multiplier.
fn uncertainty(columns: &[Column], best: &Pulled, mixes: usize) -> Option<Vec<f64>> {
    let mut random = 0x6f72_7265_7279_u64;
    let mut drawn = vec![Vec::with_capacity(RESAMPLINGS); columns.len()];
    for _ in 0..RESAMPLINGS {
        let rows: Vec<usize> = (0..mixes).map(|_| (next(&mut random) % mixes as u64) as usize).collect();
        let (multipliers, _) = multipliers(columns, &rows, best.pull)?;
        drawn.iter_mut().zip(multipliers).for_each(|(all, one)| all.push(one));
    }
    let half = |(all, found): (Vec<f64>, &f64)| {
        let mut all = all;
        all.sort_by(f64::total_cmp);
        let (low, high) = (all[RESAMPLINGS / 20], all[RESAMPLINGS - 1 - RESAMPLINGS / 20]);
        if *found > 0.0 { (high - low) / 2.0 / found } else { 1.0 }
    };
    Some(drawn.into_iter().zip(&best.found).map(half).collect())
}

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn prices(
    mixes: &[Mix],
    priors: &BTreeMap<String, Price>,
    columns: &[Column],
    Pulled { pull, found, scale, .. }: &Pulled,
    bounds: &[f64],
) -> BTreeMap<String, Found> {
    let all_cpu: f64 = mixes.iter().map(|mix| mix.cpu_ns).sum();
    let mut prices: BTreeMap<String, Found> = BTreeMap::new();
    for (kind, prior) in priors {
        let mut price = Price { fixed_ns: prior.fixed_ns * scale, ns_per_byte: prior.ns_per_byte * scale };
        let (mut uncertainty, mut is_determined, mut tied) = (0.0f64, false, Vec::new());
        for ((column, multiplier), bound) in columns.iter().zip(found).zip(bounds) {
            for part in column.parts.iter().filter(|part| part.kind == *kind) {
                match part.by_byte {
                    true => price.ns_per_byte = prior.ns_per_byte * multiplier,
                    false => price.fixed_ns = prior.fixed_ns * multiplier,
                }
                let weight = dot(&column.values, &column.values) * scale * scale;
                is_determined |= weight / (weight + pull * pull) > DETERMINED;
                uncertainty = uncertainty.max(*bound);
                let others = column.parts.iter().map(|other| other.kind.clone()).filter(|other| other != kind);
                tied.extend(others);
            }
        }
        tied.sort();
        tied.dedup();
        let spent = |mix: &Mix| {
            let count = mix.work.get(kind).copied().unwrap_or_default();
            count.times * price.fixed_ns + count.amount * price.ns_per_byte
        };
        let share = mixes.iter().map(spent).sum::<f64>() / all_cpu;
        prices.insert(kind.clone(), Found { price, uncertainty, is_determined, tied, share });
    }
    prices
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [(&str, f64, f64); 6] = [
        ("poll", 20.0, 0.0),
        ("net-receive", 1_200.0, 0.15),
        ("net-send", 1_600.0, 0.15),
        ("coordinate-read", 800.0, 0.0),
        ("memtable-insert", 1_200.0, 0.3),
        ("decompress", 0.0, 0.5),
    ];

    fn priors() -> BTreeMap<String, Price> {
        let price = |(_, fixed_ns, ns_per_byte): (&str, f64, f64)| Price { fixed_ns, ns_per_byte };
        KINDS.into_iter().map(|kind| (kind.0.to_string(), price(kind))).collect()
    }

    /// Mixes of unlike work that cost what `truth` says, but for an error of up to `noise`.
    fn mixes(truth: &BTreeMap<String, Price>, noise: f64) -> Vec<Mix> {
        let mut random = 7;
        let mut uniform = move || (next(&mut random) >> 11) as f64 / (1u64 << 53) as f64;
        (0..30)
            .map(|i| {
                let operations = 1e5 * (1.0 + uniform());
                let bytes = [100.0, 1_000.0, 8_000.0][i % 3];
                let mut work = BTreeMap::new();
                for (kind, ..) in KINDS {
                    let times = operations * (0.1 + uniform());
                    work.insert(kind.to_string(), Count { times, amount: times * bytes });
                }
                // In proportion to another: nothing can tell these two apart.
                let sends = work["net-send"];
                work.insert("frame-encode".into(), Count { times: sends.times * 2.0, amount: 0.0 });
                let cpu = |(kind, price): (&String, &Price)| {
                    let count = work.get(kind).copied().unwrap_or_default();
                    count.times * price.fixed_ns + count.amount * price.ns_per_byte
                };
                let cpu_ns = truth.iter().map(cpu).sum::<f64>() * (1.0 + noise * (2.0 * uniform() - 1.0));
                Mix { name: format!("mix {i}"), cpu_ns, work }
            })
            .collect()
    }

    fn near(found: &Fit, kind: &str, truth: Price, tolerance: f64) {
        let Found { price, .. } = &found.prices[kind];
        let off = |ours: f64, true_ns: f64| if true_ns > 0.0 { (ours / true_ns - 1.0).abs() } else { ours };
        assert!(off(price.fixed_ns, truth.fixed_ns) < tolerance, "{kind}: {price:?} is not {truth:?}");
        assert!(off(price.ns_per_byte, truth.ns_per_byte) < tolerance, "{kind}: {price:?} is not {truth:?}");
    }

    #[test]
    fn known_prices_are_found_again() {
        let mut truth = priors();
        let factors = [0.5, 0.8, 1.7, 0.4, 1.1, 2.0];
        for ((kind, ..), factor) in KINDS.into_iter().zip(factors) {
            let price = truth.get_mut(kind).unwrap();
            (price.fixed_ns, price.ns_per_byte) = (price.fixed_ns * factor, price.ns_per_byte * factor * 0.7);
        }
        let exact = fit(&mixes(&truth, 0.0), &priors()).unwrap();
        // A poll takes less than the pull sees: it stays with the whole table.
        assert!(!exact.prices["poll"].is_determined, "{:?}", exact.prices["poll"]);
        for (kind, price) in truth.iter().filter(|(kind, _)| *kind != "poll") {
            near(&exact, kind, *price, 0.05);
        }
        assert!(exact.median_error(false) < 0.002, "{:?}", exact.residuals);
        let noisy = fit(&mixes(&truth, 0.03), &priors()).unwrap();
        assert!(noisy.median_error(false) < 0.02 && noisy.median_error(true) < 0.03, "{:?}", noisy.residuals);
        for kind in ["net-receive", "net-send", "memtable-insert"] {
            let bound = noisy.prices[kind].uncertainty;
            assert!((0.001..0.5).contains(&bound), "{kind}: {bound}");
        }
        assert_eq!(noisy, fit(&mixes(&truth, 0.03), &priors()).unwrap());
    }

    #[test]
    fn what_cannot_be_told_apart_keeps_its_proportion() {
        let mut priors = priors();
        priors.insert("frame-encode".into(), Price { fixed_ns: 400.0, ns_per_byte: 0.0 });
        priors.insert("compaction".into(), Price { fixed_ns: 0.0, ns_per_byte: 5.0 });
        let truth: BTreeMap<String, Price> = priors
            .iter()
            .map(|(kind, p)| (kind.clone(), Price { fixed_ns: p.fixed_ns * 0.6, ns_per_byte: p.ns_per_byte * 0.6 }))
            .collect();
        let fitted = fit(&mixes(&truth, 0.0), &priors).unwrap();
        assert_eq!(fitted.prices["frame-encode"].tied, ["net-send"]);
        assert_eq!(fitted.prices["net-send"].tied, ["frame-encode"]);
        let ratio = fitted.prices["frame-encode"].price.fixed_ns / fitted.prices["net-send"].price.fixed_ns;
        assert!((ratio - 400.0 / 1_600.0).abs() < 1e-9, "{ratio}");
        // Nothing was compacted: the prior, as much cheaper as all else is.
        let compaction = &fitted.prices["compaction"];
        assert!(!compaction.is_determined && (compaction.price.ns_per_byte / 3.0 - 1.0).abs() < 0.01, "{compaction:?}");
        assert!((fitted.scale - 0.6).abs() < 0.01);
    }

    #[test]
    fn what_cannot_be_fitted_is_told() {
        let truth = priors();
        let all = mixes(&truth, 0.0);
        assert_eq!(fit(&all[..2], &truth), Err(FitError::TooFew(2)));
        let mut idle = all.clone();
        idle[3].cpu_ns = 0.0;
        assert_eq!(fit(&idle, &truth), Err(FitError::Idle("mix 3".into())));
        assert_eq!(fit(&all, &BTreeMap::new()), Err(FitError::NoWork));
    }
}
