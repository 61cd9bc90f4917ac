//! Consistency levels, with the codes of the protocol's section 3 and Cassandra's names.

use crate::wire::DecodeError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum Consistency {
    Any = 0x0,
    One = 0x1,
    Two = 0x2,
    Three = 0x3,
    Quorum = 0x4,
    All = 0x5,
    LocalQuorum = 0x6,
    EachQuorum = 0x7,
    Serial = 0x8,
    LocalSerial = 0x9,
    LocalOne = 0xA,
}

/// The level of the Paxos phase of a conditional statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum SerialConsistency {
    #[default]
    Serial,
    LocalSerial,
}

impl Consistency {
    pub const ALL: [Consistency; 11] = [
        Consistency::Any,
        Consistency::One,
        Consistency::Two,
        Consistency::Three,
        Consistency::Quorum,
        Consistency::All,
        Consistency::LocalQuorum,
        Consistency::EachQuorum,
        Consistency::Serial,
        Consistency::LocalSerial,
        Consistency::LocalOne,
    ];

    pub fn code(self) -> u16 {
        self as u16
    }

    pub fn from_code(code: u16) -> Result<Consistency, DecodeError> {
        Self::ALL
            .get(code as usize)
            .copied()
            .ok_or(DecodeError::Unknown { what: "The consistency level", value: code as i64 })
    }

    pub fn name(self) -> &'static str {
        match self {
            Consistency::Any => "ANY",
            Consistency::One => "ONE",
            Consistency::Two => "TWO",
            Consistency::Three => "THREE",
            Consistency::Quorum => "QUORUM",
            Consistency::All => "ALL",
            Consistency::LocalQuorum => "LOCAL_QUORUM",
            Consistency::EachQuorum => "EACH_QUORUM",
            Consistency::Serial => "SERIAL",
            Consistency::LocalSerial => "LOCAL_SERIAL",
            Consistency::LocalOne => "LOCAL_ONE",
        }
    }

    /// By name, in any case.
    pub fn from_name(name: &str) -> Option<Consistency> {
        Self::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(name))
    }

    /// Levels that count replicas in the coordinator's data centre alone.
    pub fn is_local(self) -> bool {
        matches!(self, Consistency::LocalOne | Consistency::LocalQuorum | Consistency::LocalSerial)
    }

    pub fn is_serial(self) -> bool {
        matches!(self, Consistency::Serial | Consistency::LocalSerial)
    }
}

impl std::fmt::Display for Consistency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Consistency {
    /// The serial level that it is, if it is one.
    pub fn as_serial(self) -> Option<SerialConsistency> {
        match self {
            Consistency::Serial => Some(SerialConsistency::Serial),
            Consistency::LocalSerial => Some(SerialConsistency::LocalSerial),
            _ => None,
        }
    }
}

impl SerialConsistency {
    pub fn from_code(code: u16) -> Result<SerialConsistency, DecodeError> {
        match Consistency::from_code(code)? {
            Consistency::Serial => Ok(SerialConsistency::Serial),
            Consistency::LocalSerial => Ok(SerialConsistency::LocalSerial),
            other => Err(DecodeError::Invalid(format!(
                "Invalid consistency for serial consistency: {other}. Must be SERIAL or LOCAL_SERIAL"
            ))),
        }
    }

    pub fn level(self) -> Consistency {
        match self {
            SerialConsistency::Serial => Consistency::Serial,
            SerialConsistency::LocalSerial => Consistency::LocalSerial,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_round_trip() {
        for (at, level) in Consistency::ALL.into_iter().enumerate() {
            assert_eq!(level.code() as usize, at);
            assert_eq!(Consistency::from_code(at as u16), Ok(level));
            assert_eq!(Consistency::from_name(&level.name().to_lowercase()), Some(level));
        }
        assert!(Consistency::from_code(11).is_err());
        assert!(SerialConsistency::from_code(4).is_err());
    }
}
