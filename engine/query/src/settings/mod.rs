//! Settings by name: what a configuration file says, what `system.config` shows, and changes while the node runs.
//!
//! A value is kept as it was understood, so it is always valid. A shard has its own copy; [`crate::Node::set_setting`]
//! changes all of them. Names, kinds and the way values are written follow Scylla's configuration.

mod definitions;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use cql::Consistency;
use definitions::{DEFINITIONS, GUARDRAILS};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Flag,
    Number,
    Text,
    /// `true`, `false`, or `warn`.
    TriState,
    /// Words.
    List,
    /// Something with parts, as JSON.
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    pub name: &'static str,
    pub kind: Kind,
    /// As it is read: words of a list with commas between them.
    pub default: &'static str,
    /// Whether it may change while the node runs.
    pub live: bool,
    /// It is the default, whatever a file says.
    pub pinned: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Flag(bool),
    Number(f64),
    Text(String),
    List(Vec<String>),
    /// Null when nothing is given.
    Json(serde_json::Value),
}

/// Who gave a setting its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    /// The file or the command line.
    Start,
    Cql,
}

impl Origin {
    pub fn name(self) -> &'static str {
        match self {
            Origin::Default => "default",
            Origin::Start => "yaml",
            Origin::Cql => "cql",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    #[error("there is no setting {0}")]
    Unknown(String),
    #[error("option {0} cannot be changed while the node runs (it is not live-updateable)")]
    Fixed(String),
    #[error("the value {value:?} of {name} is not {expected}")]
    Value { name: String, value: String, expected: &'static str },
}

impl Kind {
    /// The name of the type in `system.config`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Flag => "bool",
            Kind::Number => "double",
            Kind::Text => "string",
            Kind::TriState => "tri_mode_restriction",
            Kind::List => "string list",
            Kind::Json => "string map",
        }
    }

    fn expected(self) -> &'static str {
        match self {
            Kind::Flag => "true or false",
            Kind::Number => "a number",
            Kind::Text => "a text",
            Kind::TriState => "true, false or warn",
            Kind::List => "a list of words",
            Kind::Json => "a mapping, or a list of mappings",
        }
    }

    fn read(self, text: &str) -> Option<Value> {
        let text = text.trim();
        let flag = |text: &str| match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" => Some(true),
            "false" | "0" | "no" => Some(false),
            _ => None,
        };
        match self {
            Kind::Flag => flag(unquoted(text)).map(Value::Flag),
            Kind::Number => unquoted(text).parse().ok().filter(|n: &f64| n.is_finite()).map(Value::Number),
            Kind::Text => Some(Value::Text(unquoted(text).replace("\\\"", "\"").replace("\\\\", "\\"))),
            Kind::TriState if unquoted(text).eq_ignore_ascii_case("warn") => Some(Value::Text("warn".into())),
            Kind::TriState => flag(unquoted(text)).map(|value| Value::Text(value.to_string())),
            Kind::List => {
                let inner = text.strip_prefix('[').map_or(Some(text), |rest| rest.strip_suffix(']'))?;
                let words = inner.split(',').map(|word| unquoted(word.trim()).to_string());
                Some(Value::List(words.filter(|word| !word.is_empty()).collect()))
            }
            Kind::Json if text.is_empty() => Some(Value::Json(serde_json::Value::Null)),
            Kind::Json => serde_json::from_str(text).ok().map(Value::Json),
        }
    }
}

impl Definition {
    /// What is read as the kind's may still be none of its values.
    fn admits(&self, value: &Value) -> bool {
        match value {
            Value::List(words) if self.is_of_consistency_levels() => {
                words.iter().all(|word| Consistency::from_name(word).is_some())
            }
            _ => true,
        }
    }

    fn is_of_consistency_levels(&self) -> bool {
        self.name.starts_with("write_consistency_levels_")
    }

    fn expected(&self) -> &'static str {
        if self.is_of_consistency_levels() { "a list of consistency levels" } else { self.kind.expected() }
    }
}

fn unquoted(text: &str) -> &str {
    let between = |quote| text.strip_prefix(quote).and_then(|rest: &str| rest.strip_suffix(quote));
    between('"').or_else(|| between('\'')).unwrap_or(text)
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// As in JSON.
impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Flag(value) => write!(f, "{value}"),
            Value::Number(value) => write!(f, "{value}"),
            Value::Text(value) => f.write_str(&quoted(value)),
            Value::List(words) => {
                let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
                write!(f, "[{}]", words.join(", "))
            }
            Value::Json(value) => write!(f, "{value}"),
        }
    }
}

/// One shard's values.
pub struct Settings {
    values: RefCell<BTreeMap<&'static str, (Value, Origin)>>,
    /// Kept, for each SELECT asks.
    has_guardrails: Cell<bool>,
    /// Kept, for each write asks.
    guards_writes: Cell<bool>,
    /// Kept, for each read asks.
    tombstones: Cell<TombstoneLimits>,
    /// Kept, for each request asks.
    requests_max: Cell<usize>,
}

/// How many deletions one page of a read may go through. As in `cassandra.yaml`, and Scylla's page limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TombstoneLimits {
    /// More are warned of.
    pub warn: usize,
    /// More fail the read.
    pub fail: usize,
    /// So many end a page of a scan, be it empty.
    pub page: usize,
}

/// By name, as [`definition`] finds them.
pub fn definitions() -> &'static [Definition] {
    DEFINITIONS
}

pub fn definition(name: &str) -> Option<&'static Definition> {
    DEFINITIONS.iter().find(|definition| definition.name == name)
}

impl Settings {
    /// The defaults, with what the node was started with. Names and values are checked.
    pub fn new(given: &[(String, String)]) -> Result<Self, SettingError> {
        let read = |d: &Definition| Some((d.name, (d.kind.read(d.default)?, Origin::Default)));
        let values = RefCell::new(DEFINITIONS.iter().filter_map(read).collect());
        let settings = Self {
            values,
            has_guardrails: Cell::new(false),
            guards_writes: Cell::new(false),
            tombstones: Cell::default(),
            requests_max: Cell::default(),
        };
        for (name, value) in given {
            settings.set(name, value, Origin::Start)?;
        }
        settings.keep();
        Ok(settings)
    }

    /// Understands `value` and keeps it.
    pub fn set(&self, name: &str, value: &str, origin: Origin) -> Result<(), SettingError> {
        let definition = definition(name).ok_or_else(|| SettingError::Unknown(name.into()))?;
        if !definition.live && origin == Origin::Cql {
            return Err(SettingError::Fixed(name.into()));
        }
        let expected = definition.expected();
        let read = definition.kind.read(value);
        let read = read.filter(|read| definition.admits(read));
        let read = read.ok_or_else(|| SettingError::Value { name: name.into(), value: value.into(), expected })?;
        if definition.pinned {
            return Ok(());
        }
        self.values.borrow_mut().insert(definition.name, (read, origin));
        self.keep();
        Ok(())
    }

    /// Keeps what is asked for often.
    fn keep(&self) {
        self.has_guardrails.set(self.guards());
        let count = |name: &str| self.number(name) as usize;
        self.tombstones.set(TombstoneLimits {
            warn: count("tombstone_warn_threshold"),
            fail: count("tombstone_failure_threshold"),
            page: count("query_tombstone_page_limit").max(1),
        });
        self.requests_max.set(count("max_concurrent_requests_per_shard"));
        let lists = ["write_consistency_levels_disallowed", "write_consistency_levels_warned"];
        self.guards_writes.set(lists.iter().any(|list| !self.list(list).is_empty()));
    }

    fn guards(&self) -> bool {
        let is_set = |name: &str, kind| self.number(&format!("{name}_{kind}_threshold")) >= 0.0;
        GUARDRAILS.iter().any(|name| is_set(name, "warn") || is_set(name, "fail"))
    }

    /// Whether any threshold of a guardrail is set.
    pub fn has_guardrails(&self) -> bool {
        self.has_guardrails.get()
    }

    /// Whether any consistency level of writes is refused or warned of.
    #[inline]
    pub fn guards_writes(&self) -> bool {
        self.guards_writes.get()
    }

    #[inline]
    pub fn tombstone_limits(&self) -> TombstoneLimits {
        self.tombstones.get()
    }

    /// Requests that a shard serves at once.
    #[inline]
    pub fn requests_max(&self) -> usize {
        self.requests_max.get()
    }

    pub fn get(&self, name: &str) -> Option<(Value, Origin)> {
        self.values.borrow().get(name).cloned()
    }

    /// False for what is no flag.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.values.borrow().get(name), Some((Value::Flag(true), _)))
    }

    /// Zero for what is no number.
    pub fn number(&self, name: &str) -> f64 {
        match self.values.borrow().get(name) {
            Some((Value::Number(value), _)) => *value,
            _ => 0.0,
        }
    }

    /// A setting that names one of ours, with or without a package before it.
    pub fn class<T>(
        &self,
        name: &str,
        expected: &'static str,
        find: impl Fn(&str) -> Option<T>,
    ) -> Result<T, SettingError> {
        let value = self.text(name);
        find(&value).ok_or(SettingError::Value { name: name.to_string(), value, expected })
    }

    /// Of a text, or of what is `true`, `false` or `warn`; empty for other kinds.
    pub fn text(&self, name: &str) -> String {
        match self.values.borrow().get(name) {
            Some((Value::Text(value), _)) => value.clone(),
            _ => String::new(),
        }
    }

    /// Empty for what is no list.
    pub fn list(&self, name: &str) -> Vec<String> {
        match self.values.borrow().get(name) {
            Some((Value::List(words), _)) => words.clone(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_read_and_shown_as_it_is_read() {
        let settings = Settings::new(&[]).unwrap();
        for definition in DEFINITIONS {
            let (value, origin) = settings.get(definition.name).expect(definition.name);
            assert_eq!(origin, Origin::Default);
            assert_eq!(definition.kind.read(&value.to_string()), Some(value), "{}", definition.name);
        }
    }

    #[test]
    fn values_are_understood_as_they_are_written() {
        let settings = Settings::new(&[]).unwrap();
        let list = "replication_strategy_warn_list";
        assert_eq!(settings.get(list).unwrap().0.to_string(), "[\"SimpleStrategy\"]");
        for written in ["[A, \"B\"]", "A,B", "['A','B']"] {
            settings.set(list, written, Origin::Cql).unwrap();
            assert_eq!(settings.list(list), ["A", "B"]);
        }
        settings.set(list, "", Origin::Cql).unwrap();
        assert!(settings.list(list).is_empty());
        settings.set("restrict_dtcs", "warn", Origin::Cql).unwrap();
        assert_eq!(settings.get("restrict_dtcs").unwrap().0.to_string(), "\"warn\"");
        settings.set("slow_query_tracing", "1", Origin::Cql).unwrap();
        assert!(settings.flag("slow_query_tracing"));
    }

    #[test]
    fn caches_that_there_are_not_stay_so() {
        let given = [("permissions_validity_in_ms".to_string(), "10000".to_string())];
        let settings = Settings::new(&given).unwrap();
        assert_eq!(settings.get("permissions_validity_in_ms"), Some((Value::Number(0.0), Origin::Default)));
        assert!(Settings::new(&[("permissions_validity_in_ms".to_string(), "long".to_string())]).is_err());
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let settings = Settings::new(&[]).unwrap();
        let refused = |name: &str, value: &str| settings.set(name, value, Origin::Cql).unwrap_err();
        assert_eq!(refused("no_such", "1"), SettingError::Unknown("no_such".into()));
        assert_eq!(refused("num_tokens", "1"), SettingError::Fixed("num_tokens".into()));
        assert_eq!(refused("roles_validity_in_ms", "1"), SettingError::Fixed("roles_validity_in_ms".into()));
        assert!(matches!(refused("twcs_max_window_count", "many"), SettingError::Value { .. }));
        assert!(matches!(refused("auto_snapshot", "2"), SettingError::Value { .. }));
        assert!(matches!(refused("write_consistency_levels_warned", "ANY, SOME"), SettingError::Value { .. }));
    }
}
