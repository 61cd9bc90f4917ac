//! The mergeable form of the schema: what is stored, sent and compared.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use types::{KeyspaceDef, TableDef};

use super::Schema;
use crate::access::{self, Access, Record};
use crate::ddl;
use crate::membership::Member;

/// What an entry is about. Keyspaces sort before types, and these before tables.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    Keyspace(String),
    Type(String, String),
    /// By signature.
    Function(String, String),
    Aggregate(String, String),
    /// Views too.
    Table(String, String),
    /// Keyspace, table, index.
    Index(String, String, String),
    /// A role, a grant or a service level, by the key of its record.
    Access(String),
    /// A node that joined, by its host id.
    Node(u128),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Created,
    Updated,
    Dropped,
}

/// One difference that a merge or a statement made; what clients are told as an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub kind: ChangeKind,
    pub target: Target,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    changed_us: i64,
    /// The `CREATE` statement; `None` once dropped.
    statement: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    entries: BTreeMap<Target, Entry>,
}

#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    #[error("schema document, line {line}: {text}")]
    Malformed { line: usize, text: String },
    #[error("schema document: the definition of {target:?} cannot be read: {cause}")]
    Definition { target: Target, cause: String },
}

impl Document {
    /// Records a definition, or with `None` a drop, as the newest.
    pub fn set(&mut self, target: Target, statement: Option<String>, now_us: i64) {
        let previous = self.entries.get(&target).map_or(i64::MIN, |entry| entry.changed_us);
        let changed_us = now_us.max(previous.saturating_add(1));
        self.entries.insert(target, Entry { changed_us, statement });
    }

    /// Whether nothing was ever recorded.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes over every entry of `other` that is newer than ours. Gives what changed, keyspaces first.
    pub fn merge(&mut self, other: Document) -> Vec<Change> {
        let mut changes = Vec::new();
        for (target, theirs) in other.entries {
            let ours = self.entries.get(&target);
            if ours.is_some_and(|ours| *ours >= theirs) {
                continue;
            }
            let had = ours.is_some_and(|ours| ours.statement.is_some());
            let kind = match (had, theirs.statement.is_some()) {
                (false, true) => Some(ChangeKind::Created),
                (true, true) => Some(ChangeKind::Updated),
                (true, false) => Some(ChangeKind::Dropped),
                (false, false) => None,
            };
            // Clients are told of definitions alone.
            if !matches!(target, Target::Access(_) | Target::Node(_)) {
                changes.extend(kind.map(|kind| Change { kind, target: target.clone() }));
            }
            self.entries.insert(target, theirs);
        }
        changes
    }

    /// One line an entry: time, kind, names, statement with `\n` and `\\` escaped; an empty statement is a drop.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for (target, entry) in &self.entries {
            let statement = entry.statement.as_deref().unwrap_or("").replace('\\', "\\\\").replace('\n', "\\n");
            let _ = match target {
                Target::Keyspace(name) => writeln!(text, "{} keyspace {name} {statement}", entry.changed_us),
                Target::Type(ks, name) => writeln!(text, "{} type {ks}.{} {statement}", entry.changed_us, word(name)),
                Target::Function(ks, name) => {
                    writeln!(text, "{} function {ks}.{} {statement}", entry.changed_us, word(name))
                }
                Target::Aggregate(ks, name) => {
                    writeln!(text, "{} aggregate {ks}.{} {statement}", entry.changed_us, word(name))
                }
                Target::Table(ks, name) => writeln!(text, "{} table {ks}.{name} {statement}", entry.changed_us),
                Target::Index(ks, table, name) => {
                    writeln!(text, "{} index {ks}.{table}.{name} {statement}", entry.changed_us)
                }
                Target::Access(key) => writeln!(text, "{} access {key} {statement}", entry.changed_us),
                Target::Node(id) => writeln!(text, "{} node {id:032x} {statement}", entry.changed_us),
            };
        }
        text
    }

    pub fn parse(text: &str) -> Result<Self, DocumentError> {
        let mut document = Self::default();
        for (index, line) in text.lines().enumerate() {
            let malformed = || DocumentError::Malformed { line: index + 1, text: line.chars().take(80).collect() };
            let mut parts = line.splitn(4, ' ');
            let (Some(time), Some(kind), Some(name), Some(statement)) =
                (parts.next(), parts.next(), parts.next(), parts.next())
            else {
                return Err(malformed());
            };
            let changed_us = time.parse().map_err(|_| malformed())?;
            let target = match (kind, name.split_once('.')) {
                ("keyspace", None) => Target::Keyspace(name.into()),
                ("type", Some((ks, name))) => Target::Type(ks.into(), unescape(name)),
                ("function", Some((ks, name))) => Target::Function(ks.into(), unescape(name)),
                ("aggregate", Some((ks, name))) => Target::Aggregate(ks.into(), unescape(name)),
                ("table", Some((ks, table))) => Target::Table(ks.into(), table.into()),
                ("index", Some((ks, rest))) => {
                    let (table, index) = rest.split_once('.').ok_or_else(malformed)?;
                    Target::Index(ks.into(), table.into(), index.into())
                }
                ("access", _) => Target::Access(name.into()),
                ("node", _) => Target::Node(u128::from_str_radix(name, 16).map_err(|_| malformed())?),
                _ => return Err(malformed()),
            };
            let statement = (!statement.is_empty()).then(|| unescape(statement));
            document.entries.insert(target, Entry { changed_us, statement });
        }
        Ok(document)
    }

    /// Names the content: equal on all nodes that know the same schema.
    pub fn version(&self) -> u128 {
        u128::from_be_bytes(types::uuid::from_name(self.render().as_bytes()))
    }

    /// The tables of a keyspace that exist now.
    pub fn tables_of(&self, keyspace: &str) -> Vec<String> {
        let live = |(target, entry): (&Target, &Entry)| match target {
            Target::Table(ks, name) if ks == keyspace && entry.statement.is_some() => Some(name.clone()),
            _ => None,
        };
        self.entries.iter().filter_map(live).collect()
    }

    /// The types of every keyspace, those first that others are made of.
    fn read_types(&self, keyspaces: &mut BTreeMap<String, KeyspaceDef>) -> Result<(), DocumentError> {
        let is_type = |(target, entry): (&Target, &Entry)| match (target, &entry.statement) {
            (Target::Type(ks, name), Some(statement)) => Some((ks.clone(), name.clone(), statement.clone())),
            _ => None,
        };
        let mut left: Vec<(String, String, String)> = self.entries.iter().filter_map(is_type).collect();
        while !left.is_empty() {
            let before = left.len();
            let mut failure = None;
            left.retain(|(ks, name, statement)| {
                let Some(keyspace) = keyspaces.get_mut(ks) else { return false };
                match ddl::read_type(statement, &keyspace.types) {
                    Ok(read) => {
                        keyspace.types.insert(name.clone(), Arc::new(read));
                        false
                    }
                    Err(error) => {
                        failure = Some((Target::Type(ks.clone(), name.clone()), error.to_string()));
                        true
                    }
                }
            });
            if let (Some((target, cause)), true) = (failure, left.len() == before) {
                return Err(DocumentError::Definition { target, cause });
            }
        }
        Ok(())
    }

    /// Reads every definition. A table whose keyspace is gone is gone too, and so is what is derived from a table.
    pub fn build(&self) -> Result<Schema, DocumentError> {
        let mut keyspaces: BTreeMap<String, KeyspaceDef> = BTreeMap::new();
        let mut derived = ddl::derived::Definitions::default();
        let live =
            || self.entries.iter().filter_map(|(target, entry)| Some((target, entry, entry.statement.as_ref()?)));
        for (target, _, statement) in live() {
            if let Target::Keyspace(name) = target {
                let def = ddl::read_keyspace(statement).map_err(|error| failed(target, error))?;
                keyspaces.insert(name.clone(), def);
            }
        }
        self.read_types(&mut keyspaces)?;
        for (target, entry, statement) in live() {
            let failed = |error| failed(target, error);
            match target {
                Target::Keyspace(_) | Target::Type(..) => {}
                Target::Function(ks, name) => {
                    let Some(keyspace) = keyspaces.get_mut(ks) else { continue };
                    let def = ddl::read_function(statement, &keyspace.types).map_err(failed)?;
                    keyspace.functions.insert(name.clone(), Arc::new(def));
                }
                Target::Aggregate(ks, name) => {
                    let Some(keyspace) = keyspaces.get_mut(ks) else { continue };
                    let def = ddl::read_aggregate(statement, &keyspace.types).map_err(failed)?;
                    keyspace.aggregates.insert(name.clone(), Arc::new(def));
                }
                Target::Table(ks, name) => {
                    let Some(keyspace) = keyspaces.get_mut(ks) else { continue };
                    if derived.is_view(statement) {
                        derived.views.push((ks, target, statement, entry.changed_us as u64));
                        continue;
                    }
                    let mut def: TableDef = ddl::read_table(statement, &keyspace.types).map_err(failed)?;
                    def.version = entry.changed_us as u64;
                    keyspace.tables.insert(name.clone(), Arc::new(def));
                }
                // All of them together, below.
                Target::Access(_) | Target::Node(_) => {}
                Target::Index(ks, table, _) => {
                    derived.indexes.push((ks, table, target, statement, entry.changed_us as u64));
                }
            }
        }
        derived.build(&mut keyspaces).map_err(|(target, error)| DocumentError::Definition { target, cause: error })?;
        let keyspaces = keyspaces.into_iter().map(|(name, def)| (name, Arc::new(def))).collect();
        let joined = self.members()?.into_values().map(|member| member.joined).collect();
        Ok(Schema::new(self.version(), keyspaces, self.access(), joined))
    }

    /// The nodes that joined, by their numbers.
    pub(crate) fn members(&self) -> Result<BTreeMap<u16, Member>, DocumentError> {
        let mut members = BTreeMap::new();
        for (target, entry) in &self.entries {
            let (Target::Node(_), Some(statement)) = (target, &entry.statement) else { continue };
            let definition = |cause| DocumentError::Definition { target: target.clone(), cause };
            let member = Member::decode(statement).map_err(definition)?;
            members.insert(member.number, member);
        }
        Ok(members)
    }

    fn access(&self) -> Access {
        let is_untouched = |key: String| !self.entries.contains_key(&Target::Access(key));
        let defaults = access::Defaults {
            superuser: is_untouched(access::role_key(access::DEFAULT_SUPERUSER)),
            driver_level: is_untouched(access::service_level_key(access::DRIVER_LEVEL)),
        };
        let record = |(target, entry): (&Target, &Entry)| match (target, &entry.statement) {
            (Target::Access(_), Some(statement)) => Record::decode(statement),
            _ => None,
        };
        Access::new(self.entries.iter().filter_map(record), defaults)
    }
}

fn failed(target: &Target, cause: crate::QueryError) -> DocumentError {
    DocumentError::Definition { target: target.clone(), cause: cause.to_string() }
}

/// A name of any characters as one word.
pub(crate) fn word(name: &str) -> String {
    name.replace('\\', "\\\\").replace(' ', "\\s").replace('\n', "\\n")
}

pub(crate) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => out.push(match chars.next() {
                Some('n') => '\n',
                Some('s') => ' ',
                other => other.unwrap_or('\\'),
            }),
            (c, _) => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doc(entries: &[(&str, i64, Option<&str>)]) -> Document {
        let mut document = Document::default();
        for (name, at, statement) in entries {
            document.set(Target::Keyspace(name.to_string()), statement.map(str::to_string), *at);
        }
        document
    }

    #[test]
    fn merging_in_any_order_agrees() {
        let a = doc(&[("x", 1, Some("one")), ("y", 5, None)]);
        let b = doc(&[("x", 2, Some("two\nlines \\ here")), ("z", 1, Some("z"))]);
        let c = doc(&[("y", 4, Some("old")), ("z", 1, Some("zz"))]);
        let mut first = a.clone();
        first.merge(b.clone());
        first.merge(c.clone());
        let mut second = c;
        second.merge(a);
        second.merge(b);
        assert_eq!(first, second);
        assert_eq!(first.version(), second.version());
        assert_eq!(Document::parse(&first.render()).unwrap(), first);
    }

    #[test]
    fn a_merge_tells_what_changed() {
        let mut ours = doc(&[("x", 1, Some("one")), ("y", 1, Some("y"))]);
        let changes = ours.merge(doc(&[("x", 2, None), ("y", 2, Some("y2")), ("z", 1, Some("z")), ("q", 1, None)]));
        let kinds: Vec<_> = changes.iter().map(|change| change.kind).collect();
        assert_eq!(kinds, [ChangeKind::Dropped, ChangeKind::Updated, ChangeKind::Created]);
    }

    #[test]
    fn a_change_is_always_newer_than_the_last() {
        let mut ours = doc(&[("x", 10, Some("one"))]);
        let old = ours.clone();
        ours.set(Target::Keyspace("x".into()), Some("two".into()), 3);
        let mut merged = old;
        assert_eq!(merged.merge(ours).len(), 1);
    }

    #[test]
    fn a_malformed_line_is_named() {
        let error = Document::parse("1 keyspace ks CREATE\nnonsense").unwrap_err().to_string();
        assert!(error.contains("line 2: nonsense"), "{error}");
    }
}
