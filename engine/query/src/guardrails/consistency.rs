//! Consistency levels of writes that are refused or warned of: Scylla's `write_consistency_levels_disallowed` and
//! `write_consistency_levels_warned`. They hold for superusers too, as Scylla's do.

use cql::Consistency;

use crate::error::{QueryError, invalid};
use crate::node::Node;

impl Node {
    /// What the client is warned of that writes with this level.
    #[inline]
    pub(crate) fn guard_write(&self, consistency: Consistency) -> Result<Option<String>, QueryError> {
        self.counts.write(consistency);
        if self.settings.guards_writes() { self.guard_level(consistency) } else { Ok(None) }
    }

    #[cold]
    fn guard_level(&self, consistency: Consistency) -> Result<Option<String>, QueryError> {
        let is_in =
            |list: &str| self.settings.list(list).iter().any(|name| Consistency::from_name(name) == Some(consistency));
        if is_in("write_consistency_levels_disallowed") {
            self.counts.note("cql_write_consistency_levels_disallowed_violations");
            return Err(invalid!(
                "Consistency level {consistency} is forbidden for writes: see write_consistency_levels_disallowed"
            ));
        }
        Ok(is_in("write_consistency_levels_warned").then(|| {
            self.counts.note("cql_write_consistency_levels_warned_violations");
            format!(
                "Consistency level {consistency} is listed in write_consistency_levels_warned: it is not recommended \
                 for writes"
            )
        }))
    }
}
