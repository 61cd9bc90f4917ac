//! Networks: what lies between two hosts' NICs.

use serde::{Deserialize, Serialize};

use crate::figure::Figure;
use crate::quantiles::Quantiles;
use crate::quantity::{Bandwidth, Ratio};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    pub name: String,
    pub about: String,
    /// There and back, without the hosts' own time.
    pub rtt: Quantiles,
    /// What one connection can carry, each direction.
    pub per_flow: Figure<Bandwidth>,
    /// Packets lost; TCP turns one into a delay.
    pub loss: Figure<Ratio>,
}
