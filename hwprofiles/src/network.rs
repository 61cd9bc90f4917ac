//! Networks: what lies between two hosts' NICs.

use serde::{Deserialize, Serialize};

use crate::figure::Figure;
use crate::quantiles::Quantiles;
use crate::quantity::{Bandwidth, Count, Ratio};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    pub name: String,
    pub about: String,
    /// There and back, without the hosts' own time; inside of a zone, where there are several.
    pub rtt: Quantiles,
    /// Several availability zones: hosts are dealt out to them in turn, servers first.
    pub zones: Option<Zones>,
    /// What one connection can carry, each direction.
    pub per_flow: Figure<Bandwidth>,
    /// Packets lost; TCP turns one into a delay.
    pub loss: Figure<Ratio>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zones {
    pub count: Figure<Count>,
    /// There and back between hosts of different zones.
    pub rtt: Quantiles,
}
