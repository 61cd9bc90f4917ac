//! CREATE, ALTER and DROP of keyspaces and tables.

use std::collections::BTreeMap;

use super::{ParseError, Parser};
use crate::ast::{
    AlterKeyspace, AlterTable, ColumnDefinition, ConstantKind, CreateKeyspace, CreateTable, Direction, Properties,
    PropertyValue, Statement, TableChange, Term,
};
use crate::lexer::{TokenKind, quote_identifier};

impl Parser<'_> {
    fn take_keyspace_keyword(&mut self) -> bool {
        self.take_keyword("KEYSPACE") || self.take_keyword("SCHEMA")
    }

    fn take_table_keyword(&mut self) -> bool {
        self.take_keyword("TABLE") || self.take_keyword("COLUMNFAMILY")
    }

    /// After CREATE, ALTER or DROP, what is neither keyspace nor table.
    fn other_object(&self, verb: &str) -> ParseError {
        let object = self.shown().to_ascii_uppercase();
        let known = ["TRIGGER", "USER", "ROLE"];
        if self.token().kind == TokenKind::Word && known.contains(&object.as_str()) {
            return ParseError::Invalid(format!("{verb} {object} statements are not supported"));
        }
        self.no_viable_alternative()
    }

    pub(super) fn create(&mut self) -> Result<Statement, ParseError> {
        self.expect_keyword("CREATE")?;
        if self.take_keyspace_keyword() {
            let if_not_exists = self.if_not_exists()?;
            let name = self.keyspace_name()?;
            let properties = if self.take_keyword("WITH") { self.properties()? } else { Properties::new() };
            return Ok(Statement::CreateKeyspace(CreateKeyspace { name, if_not_exists, properties }));
        }
        if self.take_table_keyword() {
            return self.create_table().map(Statement::CreateTable);
        }
        if let Some(statement) = self.create_access()? {
            return Ok(statement);
        }
        if self.take_keyword("TYPE") {
            return self.create_type();
        }
        if let Some(statement) = self.create_derived()? {
            return Ok(statement);
        }
        if let Some(created) = self.create_function_or_aggregate()? {
            return Ok(created);
        }
        Err(self.other_object("CREATE"))
    }

    pub(super) fn drop(&mut self) -> Result<Statement, ParseError> {
        self.expect_keyword("DROP")?;
        if self.take_keyspace_keyword() {
            let if_exists = self.if_exists()?;
            return Ok(Statement::DropKeyspace { name: self.keyspace_name()?, if_exists });
        }
        if self.take_table_keyword() {
            let if_exists = self.if_exists()?;
            return Ok(Statement::DropTable { name: self.table_name()?, if_exists });
        }
        if let Some(statement) = self.drop_access()? {
            return Ok(statement);
        }
        if self.take_keyword("TYPE") {
            let if_exists = self.if_exists()?;
            return Ok(Statement::DropType { name: self.table_name()?, if_exists });
        }
        if let Some(statement) = self.drop_derived()? {
            return Ok(statement);
        }
        if let Some(dropped) = self.drop_function_or_aggregate()? {
            return Ok(dropped);
        }
        Err(self.other_object("DROP"))
    }

    pub(super) fn alter(&mut self) -> Result<Statement, ParseError> {
        self.expect_keyword("ALTER")?;
        if self.take_keyspace_keyword() {
            let if_exists = self.if_exists()?;
            let name = self.keyspace_name()?;
            self.expect_keyword("WITH")?;
            let properties = self.properties()?;
            return Ok(Statement::AlterKeyspace(AlterKeyspace { name, if_exists, properties }));
        }
        if self.take_table_keyword() {
            let if_exists = self.if_exists()?;
            let name = self.table_name()?;
            let change = self.table_change()?;
            return Ok(Statement::AlterTable(AlterTable { name, if_exists, change }));
        }
        if let Some(statement) = self.alter_access()? {
            return Ok(statement);
        }
        if self.take_keyword("TYPE") {
            return self.alter_type();
        }
        if let Some(statement) = self.alter_derived()? {
            return Ok(statement);
        }
        Err(self.other_object("ALTER"))
    }

    fn table_change(&mut self) -> Result<TableChange, ParseError> {
        if self.take_keyword("ADD") {
            let if_not_exists = self.if_not_exists()?;
            let columns = self.one_or_parenthesised(Self::column_definition)?;
            return Ok(TableChange::Add { columns, if_not_exists });
        }
        if self.take_keyword("DROP") {
            if self.is_keyword("COMPACT") && self.is_keyword_at(self.ahead(1), "STORAGE") {
                let message = "Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE";
                return Err(ParseError::Invalid(message.to_string()));
            }
            let if_exists = self.if_exists()?;
            let columns = self.one_or_parenthesised(Self::identifier)?;
            let timestamp = match self.using_only(&["TIMESTAMP"])?.timestamp {
                None => None,
                Some(Term::Constant { text, .. }) => {
                    Some(text.parse().map_err(|_| self.error(&format!("Invalid timestamp {text}")))?)
                }
                Some(_) => return Err(self.error("Bind variables are not supported in DDL queries")),
            };
            return Ok(TableChange::Drop { columns, if_exists, timestamp });
        }
        if self.take_keyword("RENAME") {
            let if_exists = self.if_exists()?;
            let mut columns = Vec::new();
            loop {
                let from = self.identifier()?;
                self.expect_keyword("TO")?;
                columns.push((from, self.identifier()?));
                if !self.take_keyword("AND") {
                    return Ok(TableChange::Rename { columns, if_exists });
                }
            }
        }
        if self.take_keyword("ALTER") {
            let if_exists = self.if_exists()?;
            let column = self.identifier()?;
            if self.take_keywords(&["DROP", "MASKED"])? {
                return Ok(TableChange::Mask { column, mask: None, if_exists });
            }
            if self.is_keyword("MASKED") {
                return Ok(TableChange::Mask { column, mask: self.column_mask()?, if_exists });
            }
            self.expect_keyword("TYPE")?;
            return Ok(TableChange::AlterType { column, ty: self.type_name()? });
        }
        if self.take_keyword("TTL") {
            let column = if self.take_keyword("NULL") { None } else { Some(self.identifier()?) };
            return Ok(TableChange::Ttl(column));
        }
        if self.take_keyword("WITH") {
            return self.properties().map(TableChange::Properties);
        }
        Err(self.no_viable_alternative())
    }

    pub(super) fn one_or_parenthesised<T>(
        &mut self,
        item: impl FnMut(&mut Self) -> Result<T, ParseError>,
    ) -> Result<Vec<T>, ParseError> {
        let mut item = item;
        if !self.take_symbol("(") {
            return Ok(vec![item(self)?]);
        }
        let list = self.comma_list(item)?;
        self.expect_symbol(")")?;
        Ok(list)
    }

    fn column_definition(&mut self) -> Result<ColumnDefinition, ParseError> {
        let name = self.identifier()?;
        let ty = self.type_name()?;
        let (mut is_static, mut is_ttl, mut mask) = (false, false, None);
        loop {
            if !is_static && self.take_keyword("STATIC") {
                is_static = true;
            } else if !is_ttl && self.take_keyword("TTL") {
                is_ttl = true;
            } else if mask.is_none() && self.is_keyword("MASKED") {
                mask = self.column_mask()?;
            } else {
                return Ok(ColumnDefinition { name, ty, is_static, is_ttl, mask });
            }
        }
    }

    /// `MASKED WITH DEFAULT`, or with a function and what it takes beside the column.
    fn column_mask(&mut self) -> Result<Option<String>, ParseError> {
        self.expect_keyword("MASKED")?;
        self.expect_keyword("WITH")?;
        if self.take_keyword("DEFAULT") {
            return Ok(Some("system.mask_default()".to_string()));
        }
        let markers = self.markers.len();
        let name = self.function_name()?;
        self.expect_symbol("(")?;
        let arguments = if self.is_symbol(")") { Vec::new() } else { self.comma_list(Self::term)? };
        self.expect_symbol(")")?;
        if self.markers.len() > markers {
            return Err(self.error("Bind variables are not supported in DDL queries"));
        }
        let keyspace = name.keyspace.as_deref().unwrap_or("system");
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let (keyspace, function) = (quote_identifier(keyspace), quote_identifier(&name.name));
        Ok(Some(format!("{keyspace}.{function}({})", arguments.join(", "))))
    }

    fn create_table(&mut self) -> Result<CreateTable, ParseError> {
        let if_not_exists = self.if_not_exists()?;
        let mut table = CreateTable::without_columns(self.table_name()?, if_not_exists);
        self.expect_symbol("(")?;
        self.table_column(&mut table)?;
        while self.take_symbol(",") {
            // A comma may stand before the closing parenthesis.
            if !self.is_symbol(")") && !self.is_symbol(",") {
                self.table_column(&mut table)?;
            }
        }
        self.expect_symbol(")")?;
        if self.take_keyword("WITH") {
            self.table_property(&mut table)?;
            while self.take_keyword("AND") {
                self.table_property(&mut table)?;
            }
        }
        Ok(table)
    }

    fn table_column(&mut self, table: &mut CreateTable) -> Result<(), ParseError> {
        if self.take_keywords(&["PRIMARY", "KEY"])? {
            table.has_several_keys |= !table.partition_key.is_empty();
            self.expect_symbol("(")?;
            table.partition_key = self.one_or_parenthesised(Self::identifier)?;
            while self.take_symbol(",") {
                table.clustering.push(self.identifier()?);
            }
            return self.expect_symbol(")");
        }
        let column = self.column_definition()?;
        if self.take_keywords(&["PRIMARY", "KEY"])? {
            table.has_several_keys |= !table.partition_key.is_empty();
            table.partition_key = vec![column.name.clone()];
        }
        table.columns.push(column);
        Ok(())
    }

    pub(super) fn table_property(&mut self, table: &mut CreateTable) -> Result<(), ParseError> {
        if self.is_keyword_at(self.ahead(1), "STORAGE") && self.take_keyword("COMPACT") {
            self.advance();
            table.compact_storage = true;
            return Ok(());
        }
        if self.is_keyword_at(self.ahead(1), "ORDER") && self.take_keyword("CLUSTERING") {
            self.advance();
            self.expect_keyword("BY")?;
            self.expect_symbol("(")?;
            let order = self.comma_list(|parser| {
                let column = parser.identifier()?;
                let direction = if parser.take_keyword("DESC") {
                    Direction::Descending
                } else {
                    parser.expect_keyword("ASC")?;
                    Direction::Ascending
                };
                Ok((column, direction))
            })?;
            table.clustering_order.extend(order);
            return self.expect_symbol(")");
        }
        self.property(&mut table.properties)
    }

    pub(super) fn properties(&mut self) -> Result<Properties, ParseError> {
        let mut properties = Properties::new();
        self.property(&mut properties)?;
        while self.take_keyword("AND") {
            self.property(&mut properties)?;
        }
        Ok(properties)
    }

    fn property(&mut self, properties: &mut Properties) -> Result<(), ParseError> {
        let name = self.identifier()?;
        self.expect_symbol("=")?;
        let value = if self.is_symbol("{") {
            let literal = self.term()?;
            PropertyValue::Map(self.property_map(literal)?)
        } else if self.is_constant() {
            match self.constant()? {
                Term::Constant { text, .. } => PropertyValue::Text(text),
                _ => return Err(self.no_viable_alternative()),
            }
        } else {
            PropertyValue::Text(self.identifier()?)
        };
        if properties.insert(name.clone(), value).is_some() {
            return Err(self.error(&format!("Multiple definition for property '{name}'")));
        }
        Ok(())
    }

    pub(super) fn property_map(&self, literal: Term) -> Result<BTreeMap<String, String>, ParseError> {
        let entries = match literal {
            Term::Map(entries) => entries,
            Term::Set(items) if items.is_empty() => Vec::new(),
            other => return Err(self.error(&format!("Invalid property value: {other}"))),
        };
        let constant =
            |term: Term, what: &str| match term {
                Term::Constant { text, .. } => Ok(text),
                Term::Marker(_) => Err(self
                    .error(&format!("Invalid property {what}: ? (bind variables are not supported in DDL queries)"))),
                other => Err(self.error(&format!("Invalid property {what}: {other}"))),
            };
        let mut map = BTreeMap::new();
        for (key, value) in entries {
            let key = constant(key, "name")?;
            let value = constant(value, "value")?;
            if map.insert(key.clone(), value).is_some() {
                return Err(self.error(&format!("Multiple definition for property {key}")));
            }
        }
        Ok(map)
    }
}

impl PropertyValue {
    /// The text of a simple value.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            PropertyValue::Text(text) => Some(text),
            PropertyValue::Map(_) => None,
        }
    }

    pub fn as_map(&self) -> Option<&BTreeMap<String, String>> {
        match self {
            PropertyValue::Text(_) => None,
            PropertyValue::Map(map) => Some(map),
        }
    }
}

impl Term {
    /// The text of a constant of this kind.
    pub fn as_constant(&self, wanted: ConstantKind) -> Option<&str> {
        match self {
            Term::Constant { kind, text } if *kind == wanted => Some(text),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse;
    use types::CqlType;

    fn statement(text: &str) -> Statement {
        parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).statement
    }

    fn create_table(text: &str) -> CreateTable {
        match statement(text) {
            Statement::CreateTable(table) => table,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn keyspaces() {
        let Statement::CreateKeyspace(create) = statement(
            "CREATE KEYSPACE IF NOT EXISTS \"Ks\" WITH replication = {'class': 'SimpleStrategy', \
             'replication_factor': 3} AND DURABLE_WRITES = false;",
        ) else {
            panic!("not CREATE KEYSPACE")
        };
        assert!(create.if_not_exists);
        assert_eq!(create.name, "Ks");
        let replication = create.properties["replication"].as_map().unwrap();
        assert_eq!(replication["class"], "SimpleStrategy");
        assert_eq!(replication["replication_factor"], "3");
        assert_eq!(create.properties["durable_writes"].as_text(), Some("false"));
        assert!(matches!(statement("ALTER SCHEMA k WITH durable_writes = true"), Statement::AlterKeyspace(_)));
        assert_eq!(
            statement("DROP KEYSPACE IF EXISTS k"),
            Statement::DropKeyspace { name: "k".to_string(), if_exists: true }
        );
    }

    #[test]
    fn tables() {
        let table = create_table(
            "CREATE TABLE ks.events (key text, type int, at timeuuid, s text STATIC, m map<text, frozen<list<int>>>, \
             PRIMARY KEY ((key, type), at)) WITH CLUSTERING ORDER BY (at DESC) AND gc_grace_seconds = 0 \
             AND compaction = {'class': 'LeveledCompactionStrategy'} AND bloom_filter_fp_chance = 0.1 AND compression = {};",
        );
        assert_eq!(table.partition_key, ["key", "type"]);
        assert_eq!(table.clustering, ["at"]);
        assert_eq!(table.clustering_order, [("at".to_string(), Direction::Descending)]);
        assert_eq!(table.columns.len(), 5);
        assert!(table.columns[3].is_static);
        let ttl = "CREATE TABLE t (p int PRIMARY KEY, e timestamp TTL, s int TTL STATIC)";
        let Statement::CreateTable(ttl) = parse(ttl).expect(ttl).statement else { panic!("{ttl}") };
        let masked =
            "CREATE TABLE t (p int MASKED WITH DEFAULT PRIMARY KEY, a text STATIC MASKED WITH mask_inner(1, null))";
        let Statement::CreateTable(masked) = parse(masked).expect(masked).statement else { panic!("{masked}") };
        let masks: Vec<_> = masked.columns.iter().map(|column| column.mask.as_deref()).collect();
        assert_eq!(masks, [Some("system.mask_default()"), Some("system.mask_inner(1, NULL)")]);
        assert!(parse("ALTER TABLE t ALTER a MASKED WITH mask_inner(?, 1)").is_err());
        let marks: Vec<_> = ttl.columns.iter().map(|column| (column.is_ttl, column.is_static)).collect();
        assert_eq!(marks, [(false, false), (true, false), (true, true)]);
        assert_eq!(table.columns[4].ty, CqlType::parse("map<text, frozen<list<int>>>").unwrap());
        assert_eq!(table.properties["bloom_filter_fp_chance"].as_text(), Some("0.1"));
        assert!(table.properties["compression"].as_map().unwrap().is_empty());

        // As cassandra-stress writes it.
        let stress = create_table(
            "CREATE TABLE IF NOT EXISTS \"standard1\" (key blob PRIMARY KEY, \"C0\" blob, \"C1\" blob,) \
             WITH COMPACT STORAGE AND compression = {}",
        );
        assert_eq!((stress.partition_key, stress.compact_storage), (vec!["key".to_string()], true));
        assert_eq!(stress.columns[1].name, "C0");
    }

    #[test]
    fn changes() {
        let change = |text: &str| match statement(&format!("ALTER TABLE t {text}")) {
            Statement::AlterTable(alter) => alter.change,
            other => panic!("{other:?}"),
        };
        assert!(matches!(change("ADD a int"), TableChange::Add { columns, .. } if columns.len() == 1));
        assert!(
            matches!(change("ADD (a int, b text static)"), TableChange::Add { columns, .. } if columns[1].is_static)
        );
        assert!(matches!(change("DROP a"), TableChange::Drop { columns, .. } if columns == ["a"]));
        assert!(
            matches!(change("RENAME a TO b AND c TO d"), TableChange::Rename { columns, .. } if columns.len() == 2)
        );
        assert!(matches!(change("ALTER a TYPE blob"), TableChange::AlterType { .. }));
        assert!(matches!(change("WITH comment = 'x'"), TableChange::Properties(_)));
        assert_eq!(
            statement("DROP TABLE IF EXISTS ks.t"),
            Statement::DropTable {
                name: crate::ast::QualifiedName { keyspace: Some("ks".to_string()), name: "t".to_string() },
                if_exists: true
            }
        );
    }

    #[test]
    fn refusals() {
        for bad in [
            "CREATE KEYSPACE k WITH replication",
            "CREATE KEYSPACE k WITH replication = {'class': ?}",
            "CREATE KEYSPACE k WITH a = 1 AND a = 2",
            "CREATE TABLE t",
            "CREATE TABLE t ()",
            "CREATE TABLE t (a int, PRIMARY KEY ())",
            "CREATE TABLE t (a int PRIMARY KEY) WITH CLUSTERING ORDER BY (a)",
            "CREATE TABLE select (a int PRIMARY KEY)",
            "ALTER TABLE t",
            "DROP t",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(
            parse("CREATE TRIGGER x ON t"),
            Err(ParseError::Invalid("CREATE TRIGGER statements are not supported".to_string()))
        );
    }
}
