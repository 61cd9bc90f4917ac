//! What rooms ask of a table's definition, and a builder that keeps its invariants: positions in key order, statics
//! and regulars sorted by name.

use std::collections::BTreeMap;
use std::fmt;

use crate::{ColumnDef, ColumnKind, CqlType, Error, KeyspaceDef, Replication, TableDef, TableId, TableOptions, uuid};

impl TableId {
    /// The id that every node derives alone for a table of this name: a name-based UUID of keyspace and table run
    /// together, as Cassandra's fixed ids of its own tables are made.
    pub fn from_name(keyspace: &str, table: &str) -> TableId {
        TableId(u128::from_be_bytes(uuid::from_name(&[keyspace.as_bytes(), table.as_bytes()].concat())))
    }

    /// As [`TableId::from_name`] for users' tables: the point keeps `a.bc` and `ab.c` apart, and the schema version
    /// at which the table was created keeps it apart from a dropped one of the same name.
    pub fn from_creation(keyspace: &str, table: &str, schema_version: u64) -> TableId {
        TableId(u128::from_be_bytes(uuid::from_name(format!("{keyspace}.{table}@{schema_version}").as_bytes())))
    }

    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&uuid::to_text(&self.to_bytes()))
    }
}

impl ColumnDef {
    pub fn is_primary_key(&self) -> bool {
        matches!(self.kind, ColumnKind::PartitionKey(_) | ColumnKind::Clustering(_))
    }
}

impl TableDef {
    pub fn builder(keyspace: &str, name: &str) -> TableBuilder {
        TableBuilder::new(keyspace, name)
    }

    /// Partition key, clustering key, statics, regulars: the order of `SELECT *`. A view's hidden ones are left out.
    pub fn columns(&self) -> impl Iterator<Item = &ColumnDef> {
        let keys = self.partition_key.iter().chain(&self.clustering).chain(&self.statics);
        let hidden: &[String] = self.view.as_ref().map_or(&[], |view| &view.hidden);
        keys.chain(self.regulars.iter().filter(move |column| !hidden.contains(&column.name)))
    }

    /// Whether rows exist by their markers alone, as those of some views.
    pub fn is_strict(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.is_strict)
    }

    pub fn column(&self, name: &str) -> Option<&ColumnDef> {
        self.columns().find(|column| column.name == name)
    }

    /// Position among the regular columns, which are sorted by name.
    pub fn regular_index(&self, name: &str) -> Option<usize> {
        self.regulars.binary_search_by(|column| column.name.as_str().cmp(name)).ok()
    }

    pub fn static_index(&self, name: &str) -> Option<usize> {
        self.statics.binary_search_by(|column| column.name.as_str().cmp(name)).ok()
    }

    pub fn has_statics(&self) -> bool {
        !self.statics.is_empty()
    }

    pub fn is_counter(&self) -> bool {
        self.regulars.iter().chain(&self.statics).any(|column| column.ty.is_counter())
    }

    /// Order of two values of the clustering column at `position`, its direction included.
    pub fn compare_clustering(&self, position: usize, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        let column = &self.clustering[position];
        let order = column.ty.compare(a, b);
        if column.descending { order.reverse() } else { order }
    }
}

/// Makes a [`TableDef`]; key components are taken in the order given.
#[derive(Clone, Debug)]
pub struct TableBuilder(TableDef);

impl TableBuilder {
    fn new(keyspace: &str, name: &str) -> TableBuilder {
        TableBuilder(TableDef {
            id: TableId::from_name(keyspace, name),
            keyspace: keyspace.to_string(),
            name: name.to_string(),
            version: 0,
            partition_key: Vec::new(),
            clustering: Vec::new(),
            statics: Vec::new(),
            regulars: Vec::new(),
            options: TableOptions::default(),
            dropped: Default::default(),
            masks: Default::default(),
            view: None,
            indexes: Vec::new(),
        })
    }

    /// Instead of the name-based id.
    pub fn id(mut self, id: TableId) -> Self {
        self.0.id = id;
        self
    }

    pub fn version(mut self, version: u64) -> Self {
        self.0.version = version;
        self
    }

    pub fn partition_key(mut self, name: &str, ty: CqlType) -> Self {
        let kind = ColumnKind::PartitionKey(self.0.partition_key.len() as u16);
        self.0.partition_key.push(ColumnDef { name: name.to_string(), ty, kind, descending: false });
        self
    }

    pub fn clustering(self, name: &str, ty: CqlType) -> Self {
        self.clustering_ordered(name, ty, false)
    }

    pub fn clustering_ordered(mut self, name: &str, ty: CqlType, descending: bool) -> Self {
        let kind = ColumnKind::Clustering(self.0.clustering.len() as u16);
        self.0.clustering.push(ColumnDef { name: name.to_string(), ty, kind, descending });
        self
    }

    pub fn static_column(mut self, name: &str, ty: CqlType) -> Self {
        let column = ColumnDef { name: name.to_string(), ty, kind: ColumnKind::Static, descending: false };
        self.0.statics.push(column);
        self
    }

    pub fn regular(mut self, name: &str, ty: CqlType) -> Self {
        let column = ColumnDef { name: name.to_string(), ty, kind: ColumnKind::Regular, descending: false };
        self.0.regulars.push(column);
        self
    }

    pub fn options(mut self, options: TableOptions) -> Self {
        self.0.options = options;
        self
    }

    pub fn build(mut self) -> TableDef {
        self.0.statics.sort_by(|a, b| a.name.cmp(&b.name));
        self.0.regulars.sort_by(|a, b| a.name.cmp(&b.name));
        self.0
    }
}

const STRATEGY_PACKAGE: &str = "org.apache.cassandra.locator.";

impl Replication {
    /// From the map of `WITH replication = {...}`. For `NetworkTopologyStrategy` the key `replication_factor`, which
    /// stands for "every data centre", is kept as if it were a data centre's name: only the caller knows them all.
    pub fn from_options(options: &BTreeMap<String, String>) -> Result<Replication, Error> {
        let refuse = |message: String| Err(Error::Configuration(message));
        let Some(class) = options.get("class") else {
            return refuse("Missing replication strategy class".to_string());
        };
        let factor = |text: &str| match text.parse::<u32>() {
            Ok(factor) => Ok(factor),
            Err(_) => {
                Err(Error::Configuration(format!("Replication factor must be numeric and not negative; found {text}")))
            }
        };
        let rest = || options.iter().filter(|(key, _)| *key != "class");
        match class.strip_prefix(STRATEGY_PACKAGE).unwrap_or(class) {
            "LocalStrategy" => Ok(Replication::Local),
            "SimpleStrategy" => {
                if let Some((key, _)) = rest().find(|(key, _)| *key != "replication_factor") {
                    return refuse(format!(
                        "Unrecognized strategy option {{{key}}} passed to SimpleStrategy for keyspace"
                    ));
                }
                match options.get("replication_factor") {
                    Some(text) => Ok(Replication::Simple { replication_factor: factor(text)? }),
                    None => refuse("SimpleStrategy requires a replication_factor strategy option.".to_string()),
                }
            }
            "NetworkTopologyStrategy" => {
                let factors: Result<BTreeMap<_, _>, _> =
                    rest().map(|(dc, text)| Ok((dc.clone(), factor(text)?))).collect();
                match factors? {
                    factors if factors.is_empty() => {
                        refuse("Configuration for at least one datacenter must be present".to_string())
                    }
                    factors => Ok(Replication::NetworkTopology(factors)),
                }
            }
            other => refuse(format!("Unable to find replication strategy class '{STRATEGY_PACKAGE}{other}'")),
        }
    }

    /// The map that `system_schema.keyspaces` shows.
    pub fn to_options(&self) -> BTreeMap<String, String> {
        let class = |name: &str| ("class".to_string(), format!("{STRATEGY_PACKAGE}{name}"));
        match self {
            Replication::Local => BTreeMap::from([class("LocalStrategy")]),
            Replication::Simple { replication_factor } => BTreeMap::from([
                class("SimpleStrategy"),
                ("replication_factor".to_string(), replication_factor.to_string()),
            ]),
            Replication::NetworkTopology(factors) => {
                let factors = factors.iter().map(|(dc, factor)| (dc.clone(), factor.to_string()));
                factors.chain([class("NetworkTopologyStrategy")]).collect()
            }
        }
    }
}

impl KeyspaceDef {
    pub fn new(name: &str, replication: Replication) -> KeyspaceDef {
        KeyspaceDef {
            name: name.to_string(),
            replication,
            durable_writes: true,
            types: BTreeMap::new(),
            functions: BTreeMap::new(),
            aggregates: BTreeMap::new(),
            tables: BTreeMap::new(),
        }
    }

    pub fn table(&self, name: &str) -> Option<&std::sync::Arc<TableDef>> {
        self.tables.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids() {
        assert_eq!(TableId::from_name("system", "local").to_string(), "7ad54392-bcdd-35a6-8417-4e047860b377");
        assert_ne!(TableId::from_creation("a", "bc", 1), TableId::from_creation("ab", "c", 1));
        assert_ne!(TableId::from_creation("a", "b", 1), TableId::from_creation("a", "b", 2));
    }

    #[test]
    fn built_tables_are_in_order() {
        let table = TableDef::builder("ks", "t")
            .regular("v2", CqlType::Int)
            .regular("v1", CqlType::Text)
            .clustering_ordered("c", CqlType::Int, true)
            .partition_key("p", CqlType::Int)
            .partition_key("q", CqlType::Text)
            .static_column("s", CqlType::Int)
            .build();
        let names: Vec<_> = table.columns().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["p", "q", "c", "s", "v1", "v2"]);
        assert_eq!(
            (table.regular_index("v2"), table.static_index("s"), table.regular_index("p")),
            (Some(1), Some(0), None)
        );
        assert_eq!(table.column("q").unwrap().kind, ColumnKind::PartitionKey(1));
        let (one, two) = (1i32.to_be_bytes(), 2i32.to_be_bytes());
        assert_eq!(table.compare_clustering(0, &one, &two), std::cmp::Ordering::Greater);
    }

    #[test]
    fn replication_round_trips() {
        let options = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect::<BTreeMap<_, _>>()
        };
        let simple = Replication::from_options(&options(&[("class", "SimpleStrategy"), ("replication_factor", "3")]));
        assert_eq!(simple, Ok(Replication::Simple { replication_factor: 3 }));
        let network = Replication::from_options(&options(&[("class", "NetworkTopologyStrategy"), ("dc1", "2")]));
        for replication in [simple.unwrap(), network.unwrap(), Replication::Local] {
            assert_eq!(Replication::from_options(&replication.to_options()), Ok(replication));
        }
        for bad in [
            &[][..],
            &[("class", "SimpleStrategy")],
            &[("class", "SimpleStrategy"), ("replication_factor", "-1")],
            &[("class", "SimpleStrategy"), ("replication_factor", "1"), ("dc1", "1")],
            &[("class", "NetworkTopologyStrategy")],
            &[("class", "Wat")],
        ] {
            assert!(Replication::from_options(&options(bad)).is_err(), "{bad:?}");
        }
    }
}
