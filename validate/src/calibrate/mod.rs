//! What the engine's work costs on this machine, and the loading client's: the real ones run, what they counted is held
//! against the CPU that they took, and the cost tables that fit it best are written as system profiles.
//!
//! Measurements are kept, so that the same prices can be found in them again.

pub mod design;
pub mod fit;
mod measure;
mod nnls;
mod pace;
mod system;

use std::collections::BTreeMap;

use hwprofiles::{CostTable, Profiles};

pub use fit::{Fit, FitError, Found, Price, Residual, fit};
pub use measure::{Measurements, Options, Rates, run};
pub use pace::{ControlPace, Pace};
pub use system::systems;

use crate::control::ControlError;
use crate::load::LoadError;
use crate::local::LocalError;
use crate::probe::ProbeError;

/// Told which mix is being run, and the part of the whole that is done.
pub type Progress<'a> = dyn Fn(&str, f64) + 'a;

#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    #[error(transparent)]
    Host(#[from] ProbeError),
    #[error(transparent)]
    Node(#[from] LocalError),
    #[error("the control: {0}")]
    Control(#[from] ControlError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Fit(#[from] FitError),
}

/// The prices of both sides, and the speed of the machine that they hold for; `None` where that was not seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibrated {
    pub pace: Option<Pace>,
    pub server: Fit,
    pub loader: Fit,
}

/// The profile whose costs are the priors, and whose settings are those of the engine.
pub const PRIOR: &str = "orrery";
pub const PRIOR_CLIENT: &str = "orrery-bench";

/// A cost table's prices, where it stands: the fit's own scale brings them to the machine.
fn priors(costs: &CostTable) -> BTreeMap<String, Price> {
    let price = |cost: &hwprofiles::Cost| Price { fixed_ns: cost.fixed.f64(), ns_per_byte: cost.per_byte.f64() };
    costs.work.iter().map(|(kind, cost)| (kind.clone(), price(cost))).collect()
}

/// Fits both sides' prices to what was measured.
pub fn prices(measured: &Measurements) -> Result<Calibrated, CalibrateError> {
    let profiles = Profiles::embedded();
    let of = |name: &str| priors(&profiles.systems.get(name).unwrap_or(&profiles.systems[PRIOR]).costs);
    // A client's table has its own kinds of work only, whatever table its prior follows.
    let mut client = of(PRIOR_CLIENT);
    client.retain(|kind, _| measured.loader.iter().any(|mix| mix.work.contains_key(kind)));
    let pace = Pace::of(measured);
    let [server, loader] = pace::mixes(measured, pace);
    Ok(Calibrated { pace, server: fit(&server, &of(PRIOR))?, loader: fit(&loader, &client)? })
}
