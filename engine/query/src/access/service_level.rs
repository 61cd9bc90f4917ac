//! Service levels: what the requests of a role are given, as in ScyllaDB's workload prioritisation.
//!
//! Of several levels that a role comes by, through the roles granted to it, each option is the most cautious one: the
//! shortest timeout, the fewest shares, `interactive` before `batch`.

use std::time::Duration;

use cql::ast::Term;
use cql::ast::access::ServiceLevelOptions;
use types::duration::CqlDuration;

use crate::error::{QueryError, invalid};

/// What applies to a role without a level. Its name cannot be given to another.
pub const DEFAULT: &str = "default";
pub const SHARES_DEFAULT: u32 = 1000;
/// Of drivers' control connections, and of those that have not logged in yet. It exists until it is altered or dropped.
pub const DRIVER: &str = "driver";
/// As many as ScyllaDB has scheduling groups for, [`DRIVER`] among them.
pub const LEVELS_MAX: usize = 9;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceLevel {
    pub timeout_ns: Option<u64>,
    /// `interactive` or `batch`.
    pub workload: Option<String>,
    pub shares: Option<u32>,
}

impl ServiceLevel {
    /// [`DRIVER`] as ScyllaDB makes it.
    pub fn driver() -> Self {
        Self { timeout_ns: None, workload: Some("batch".to_string()), shares: Some(200) }
    }

    /// Changes what `options` names.
    pub fn set(&mut self, options: &ServiceLevelOptions) -> Result<(), QueryError> {
        if let Some(timeout) = &options.timeout {
            self.timeout_ns = timeout_of(timeout)?;
        }
        if let Some(workload) = &options.workload_type {
            self.workload = workload_of(workload)?;
        }
        if let Some(shares) = &options.shares {
            self.shares = shares_of(shares)?;
        }
        Ok(())
    }

    pub fn timeout(&self) -> Option<Duration> {
        self.timeout_ns.map(Duration::from_nanos)
    }

    pub fn shares_or_default(&self) -> u32 {
        self.shares.unwrap_or(SHARES_DEFAULT)
    }
}

fn timeout_of(term: &Term) -> Result<Option<u64>, QueryError> {
    let text = match term {
        Term::Null => return Ok(None),
        Term::Constant { kind: cql::ast::ConstantKind::Duration, text } => text,
        other => return Err(invalid!("timeout must be a duration, not {other}")),
    };
    let duration = CqlDuration::parse(text).map_err(|error| invalid!("{error}"))?;
    if duration.months != 0 || duration.days != 0 {
        return Err(invalid!("Timeout values cannot be expressed in days/months"));
    }
    if duration.nanos % 1_000_000 != 0 {
        return Err(invalid!("Timeout values cannot have granularity finer than milliseconds"));
    }
    u64::try_from(duration.nanos).map(Some).map_err(|_| invalid!("Timeout values must be non-negative"))
}

fn workload_of(term: &Term) -> Result<Option<String>, QueryError> {
    match term {
        Term::Null => Ok(None),
        Term::Constant { kind: cql::ast::ConstantKind::String, text }
            if ["interactive", "batch", "unspecified"].contains(&text.as_str()) =>
        {
            Ok((text != "unspecified").then(|| text.clone()))
        }
        other => Err(invalid!("Invalid workload type: {other}; it is 'interactive', 'batch' or 'unspecified'")),
    }
}

fn shares_of(term: &Term) -> Result<Option<u32>, QueryError> {
    let Term::Constant { kind: cql::ast::ConstantKind::Integer, text } = term else {
        return Err(invalid!("shares must be an integer, not {term}"));
    };
    match text.parse() {
        Ok(shares @ 1..=1000) => Ok(Some(shares)),
        _ => Err(invalid!("'SHARES' can only take values of 1-1000 (given {text})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(options: &str) -> Result<ServiceLevel, String> {
        let parsed =
            cql::parse(&format!("CREATE SERVICE LEVEL s WITH {options}")).map_err(|error| error.to_string())?;
        let cql::ast::Statement::Access(cql::ast::access::AccessStatement::CreateServiceLevel { options, .. }) =
            parsed.statement
        else {
            panic!("not CREATE SERVICE LEVEL");
        };
        let mut level = ServiceLevel::default();
        level.set(&options).map(|()| level).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_checked() {
        assert_eq!(level("timeout = 2h").unwrap().timeout_ns, Some(7_200_000_000_000));
        assert_eq!(level("timeout = null").unwrap(), ServiceLevel::default());
        assert_eq!(level("workload_type = 'batch' AND shares = 3").unwrap().shares, Some(3));
        for refused in ["timeout = 1ns", "timeout = -5s", "timeout = 10d", "timeout = 5y", "timeout = 7", "shares = 0"]
        {
            assert!(level(refused).is_err(), "{refused}");
        }
        assert!(level("workload_type = 'x'").is_err());
    }
}
