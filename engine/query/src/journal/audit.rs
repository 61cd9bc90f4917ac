//! Who did what: `audit.audit_log`, or the node's log, with the settings of Scylla's audit.
//!
//! A statement is recorded when its category is audited and it is about an audited keyspace or table, or about no table
//! at all. It is recorded before its client gets the answer, whether or not it was permitted.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;

use types::uuid;

use super::watched::{Category, Executed, Watched};
use crate::execute::Client;
use crate::node::Node;
use crate::settings::Settings;
use crate::system::values::{bigint, boolean, inet, text};

const KEYSPACE: &str = "audit";
const TABLE: &str = "audit_log";
/// A partition holds a node's records of a day.
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Audit {
    to_table: bool,
    to_log: bool,
    categories: BTreeSet<Category>,
    keyspaces: BTreeSet<String>,
    /// With their keyspaces: `keyspace.table`.
    tables: BTreeSet<String>,
}

impl Category {
    const ALL: [(&'static str, Category); 6] = [
        ("QUERY", Category::Query),
        ("DML", Category::Dml),
        ("DDL", Category::Ddl),
        ("DCL", Category::Dcl),
        ("AUTH", Category::Auth),
        ("ADMIN", Category::Admin),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, category)| *category == self).map_or("", |(name, _)| name)
    }
}

/// What is recorded of a statement or a login.
struct Entry<'a> {
    what: &'a Executed,
    consistency: &'a str,
    user: &'a str,
    source: Option<IpAddr>,
    failed: bool,
}

impl Audit {
    /// `None` when nothing is audited.
    pub fn from_settings(settings: &Settings) -> Option<Audit> {
        let words = |name: &str| settings.list(name).into_iter();
        let to: Vec<String> = words("audit").collect();
        let is_to = |place: &str| to.iter().any(|word| word.eq_ignore_ascii_case(place));
        let category = |word: String| {
            let found = Category::ALL.iter().find(|(name, _)| name.eq_ignore_ascii_case(&word));
            found.map(|(_, category)| *category)
        };
        let audit = Audit {
            to_table: is_to("table"),
            to_log: is_to("syslog"),
            categories: words("audit_categories").filter_map(category).collect(),
            keyspaces: words("audit_keyspaces").collect(),
            tables: words("audit_tables").collect(),
        };
        ((audit.to_table || audit.to_log) && !audit.categories.is_empty()).then_some(audit)
    }

    fn covers(&self, what: &Executed) -> bool {
        let about = || {
            self.keyspaces.contains(&what.keyspace)
                || self.tables.contains(&format!("{}.{}", what.keyspace, what.table))
        };
        let of_nobodys = matches!(what.category, Category::Auth | Category::Admin | Category::Dcl);
        self.categories.contains(&what.category) && (of_nobodys || about())
    }

    pub async fn record(&self, node: &Rc<Node>, watched: &Watched, client: &Client, failed: bool) {
        let executed: Vec<Executed> =
            watched.executed.borrow().iter().filter(|one| self.covers(one)).cloned().collect();
        let consistency = watched.consistency.get().to_string();
        let user = client.role();
        let user = user.as_deref().unwrap_or("anonymous");
        for what in &executed {
            let entry = Entry { what, consistency: &consistency, user, source: watched.client, failed };
            self.write(node, entry).await;
        }
    }

    async fn write(&self, node: &Rc<Node>, entry: Entry<'_>) {
        let here = node.topology().local().address;
        let Entry { what, consistency, user, source, failed } = entry;
        let (category, keyspace, table, operation) = (what.category.name(), &what.keyspace, &what.table, &what.text);
        if self.to_log {
            let source = source.map(|source| source.to_string()).unwrap_or_default();
            tracing::info!(
                target: "audit", node = %here, category, consistency, table, keyspace, operation, source,
                username = user, error = failed, "audit"
            );
        }
        if !self.to_table {
            return;
        }
        let now_us = reactor::wall_us() as i64;
        let now_ms = now_us / 1000;
        let mut values = BTreeMap::from([
            ("date", bigint(now_ms - now_ms % DAY_MS)),
            ("node", inet(here)),
            ("event_time", uuid::from_time(now_us, 0, reactor::random()).to_vec()),
            ("category", text(category)),
            ("consistency", text(consistency)),
            ("table_name", text(table)),
            ("keyspace_name", text(keyspace)),
            ("operation", text(operation)),
            ("username", text(user)),
            ("error", boolean(failed)),
        ]);
        if let Some(source) = source {
            values.insert("source", inet(source));
        }
        if let Err(error) = node.record(KEYSPACE, TABLE, values, 0).await {
            tracing::error!(error = error.message, category, "the audit log could not be written");
        }
    }
}

impl Node {
    /// Records that somebody has logged in as `name`, or was refused.
    pub async fn audit_login(self: &Rc<Self>, client: &Client, name: &str, failed: bool) {
        let audit = self.journal.audit.borrow().clone();
        let Some(audit) = audit.filter(|audit| audit.categories.contains(&Category::Auth)) else { return };
        let what =
            Executed { category: Category::Auth, keyspace: String::new(), table: String::new(), text: "LOGIN".into() };
        let source = client.address().map(|address| address.ip());
        audit.write(self, Entry { what: &what, consistency: "", user: name, source, failed }).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audit(settings: &[(&str, &str)]) -> Option<Audit> {
        let given: Vec<_> = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Audit::from_settings(&Settings::new(&given).unwrap())
    }

    #[test]
    fn what_is_audited_is_set() {
        assert_eq!(audit(&[]), None);
        assert_eq!(audit(&[("audit", "table"), ("audit_categories", "")]), None);
        let settings = [
            ("audit", "table"),
            ("audit_categories", "DML, query,DCL"),
            ("audit_keyspaces", "ks"),
            ("audit_tables", "other.t"),
        ];
        let audit = audit(&settings).unwrap();
        let covers = |category, keyspace: &str, table: &str| {
            let (keyspace, table) = (keyspace.to_string(), table.to_string());
            audit.covers(&Executed { category, keyspace, table, text: String::new() })
        };
        assert!(covers(Category::Dml, "ks", "x") && covers(Category::Query, "other", "t"));
        assert!(!covers(Category::Dml, "other", "x") && !covers(Category::Ddl, "ks", "x"));
        assert!(covers(Category::Dcl, "", "") && !covers(Category::Auth, "", ""));
    }
}
