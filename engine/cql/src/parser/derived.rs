//! CREATE, ALTER and DROP of materialized views and indexes.

use std::collections::BTreeMap;

use super::{ParseError, Parser};
use crate::ast::{
    CreateIndex, CreateTable, CreateView, IndexPart, IndexTarget, PropertyValue, PruneView, QualifiedName, Selection,
    Statement,
};
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// After CREATE; `None` when it is something else.
    pub(super) fn create_derived(&mut self) -> Result<Option<Statement>, ParseError> {
        if self.take_keywords(&["MATERIALIZED", "VIEW"])? {
            return self.create_view().map(|view| Some(Statement::CreateView(view)));
        }
        let is_custom = self.is_keyword_at(self.ahead(1), "INDEX") && self.take_keyword("CUSTOM");
        if self.take_keyword("INDEX") {
            return self.create_index(is_custom).map(|index| Some(Statement::CreateIndex(index)));
        }
        Ok(None)
    }

    /// After ALTER.
    pub(super) fn alter_derived(&mut self) -> Result<Option<Statement>, ParseError> {
        if !self.take_keywords(&["MATERIALIZED", "VIEW"])? {
            return Ok(None);
        }
        let if_exists = self.if_exists()?;
        let name = self.table_name()?;
        self.expect_keyword("WITH")?;
        Ok(Some(Statement::AlterView { name, if_exists, properties: self.properties()? }))
    }

    /// After DROP.
    pub(super) fn drop_derived(&mut self) -> Result<Option<Statement>, ParseError> {
        if self.take_keywords(&["MATERIALIZED", "VIEW"])? {
            let if_exists = self.if_exists()?;
            return Ok(Some(Statement::DropView { name: self.table_name()?, if_exists }));
        }
        if self.take_keyword("INDEX") {
            let if_exists = self.if_exists()?;
            return Ok(Some(Statement::DropIndex { name: self.table_name()?, if_exists }));
        }
        Ok(None)
    }

    /// `PRUNE MATERIALIZED VIEW v WHERE ..`
    pub(super) fn prune(&mut self) -> Result<Statement, ParseError> {
        self.advance();
        self.expect_keyword("MATERIALIZED")?;
        self.expect_keyword("VIEW")?;
        let name = self.table_name()?;
        let filter = if self.is_keyword("WHERE") { self.where_clause()? } else { Vec::new() };
        let (mut timeout, mut concurrency) = (None, None);
        if self.take_keyword("USING") {
            loop {
                let (what, place) = match () {
                    () if self.take_keyword("TIMEOUT") => ("timeout", &mut timeout),
                    () if self.take_keyword("CONCURRENCY") => ("concurrency", &mut concurrency),
                    () => return Err(self.no_viable_alternative()),
                };
                if place.replace(self.term()?).is_some() {
                    return Err(self.error(&format!("the {what} is there twice")));
                }
                if !self.take_keyword("AND") {
                    break;
                }
            }
        }
        Ok(Statement::PruneView(PruneView { name, filter, timeout, concurrency }))
    }

    fn create_view(&mut self) -> Result<CreateView, ParseError> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.table_name()?;
        self.expect_keyword("AS")?;
        self.expect_keyword("SELECT")?;
        let selection =
            if self.take_symbol("*") { Selection::All } else { Selection::Items(self.comma_list(Self::select_item)?) };
        self.expect_keyword("FROM")?;
        let base = self.table_name()?;
        let start = self.ahead(1).start;
        let filter = if self.is_keyword("WHERE") { self.where_clause()? } else { Vec::new() };
        let filter_text = match filter.is_empty() {
            true => String::new(),
            false => self.text[start..self.token().start].trim().to_string(),
        };
        self.expect_keyword("PRIMARY")?;
        self.expect_keyword("KEY")?;
        self.expect_symbol("(")?;
        let partition_key = self.one_or_parenthesised(Self::identifier)?;
        let mut clustering = Vec::new();
        while self.take_symbol(",") {
            clustering.push(self.identifier()?);
        }
        self.expect_symbol(")")?;
        let table = self.properties_of_table(&name)?;
        if !self.markers.is_empty() {
            return Err(ParseError::Invalid(
                "Cannot use query parameters in CREATE MATERIALIZED VIEW statements".to_string(),
            ));
        }
        Ok(CreateView {
            name,
            if_not_exists,
            selection,
            base,
            filter,
            filter_text,
            partition_key,
            clustering,
            clustering_order: table.clustering_order,
            compact_storage: table.compact_storage,
            properties: table.properties,
        })
    }

    /// `WITH ..` as a table has it, if it is there.
    fn properties_of_table(&mut self, name: &QualifiedName) -> Result<CreateTable, ParseError> {
        let mut table = CreateTable::without_columns(name.clone(), false);
        if self.take_keyword("WITH") {
            self.table_property(&mut table)?;
            while self.take_keyword("AND") {
                self.table_property(&mut table)?;
            }
        }
        Ok(table)
    }

    fn create_index(&mut self, is_custom: bool) -> Result<CreateIndex, ParseError> {
        let if_not_exists = self.if_not_exists()?;
        let name = if self.is_keyword("ON") { None } else { Some(self.table_name()?) };
        self.expect_keyword("ON")?;
        let table = self.table_name()?;
        self.expect_symbol("(")?;
        let mut local_key = Vec::new();
        let mut targets = Vec::new();
        if self.take_symbol("(") {
            local_key = self.comma_list(Self::identifier)?;
            self.expect_symbol(")")?;
            if self.take_symbol(",") {
                targets = self.comma_list(Self::index_target)?;
            }
        } else if !self.is_symbol(")") {
            targets = self.comma_list(Self::index_target)?;
        }
        self.expect_symbol(")")?;
        let mut class = None;
        if self.take_keyword("USING") {
            if self.token().kind != TokenKind::String {
                return Err(self.mismatch("STRING_LITERAL"));
            }
            class = Some(self.shown().into_owned());
            self.advance();
        }
        let mut with = self.properties_of_table(&table)?;
        let options = match with.properties.remove("options") {
            Some(PropertyValue::Map(options)) => options,
            Some(PropertyValue::Text(_)) => {
                return Err(ParseError::Syntax("Invalid value for property 'options': it is a map".to_string()));
            }
            None => BTreeMap::new(),
        };
        Ok(CreateIndex {
            name,
            if_not_exists,
            table,
            local_key,
            targets,
            is_custom,
            class,
            options,
            clustering_order: with.clustering_order,
            compact_storage: with.compact_storage,
            properties: with.properties,
        })
    }

    fn index_target(&mut self) -> Result<IndexTarget, ParseError> {
        let part = match self.is_symbol_at(self.ahead(1), "(") {
            false => IndexPart::Plain,
            true => {
                let part = match self.shown().to_ascii_lowercase().as_str() {
                    "keys" => IndexPart::Keys,
                    "values" => IndexPart::Values,
                    "entries" => IndexPart::Entries,
                    "full" => IndexPart::Full,
                    _ => return Err(self.no_viable_alternative()),
                };
                self.advance();
                self.advance();
                part
            }
        };
        let column = self.identifier()?;
        if part != IndexPart::Plain {
            self.expect_symbol(")")?;
        }
        Ok(IndexTarget { column, part })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse;

    fn statement(text: &str) -> Statement {
        parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).statement
    }

    #[test]
    fn views() {
        let text = "CREATE MATERIALIZED VIEW IF NOT EXISTS ks.v AS SELECT a, b FROM t WHERE a IS NOT NULL AND \"B\" >= 3 \
                    PRIMARY KEY ((a, \"B\"), c) WITH CLUSTERING ORDER BY (c DESC) AND comment = 'x'";
        let Statement::CreateView(view) = statement(text) else { panic!("{text}") };
        assert_eq!(view.filter_text, "a IS NOT NULL AND \"B\" >= 3");
        assert_eq!((view.partition_key.as_slice(), view.clustering.len()), (["a".into(), "B".into()].as_slice(), 1));
        assert_eq!((view.clustering_order.len(), view.properties.len()), (1, 1));
        assert!(matches!(statement("DROP MATERIALIZED VIEW IF EXISTS v"), Statement::DropView { if_exists: true, .. }));
        assert!(matches!(statement("ALTER MATERIALIZED VIEW v WITH comment = ''"), Statement::AlterView { .. }));
        let marker = parse("CREATE MATERIALIZED VIEW v AS SELECT * FROM t WHERE p = ? PRIMARY KEY (p)");
        assert!(marker.unwrap_err().to_string().contains("CREATE MATERIALIZED VIEW"));
    }

    #[test]
    fn indexes() {
        let index = |text: &str| match statement(text) {
            Statement::CreateIndex(index) => index,
            other => panic!("{other:?}"),
        };
        let plain = index("CREATE INDEX ON ks.t (v)");
        assert_eq!((plain.name, plain.targets[0].part), (None, IndexPart::Plain));
        let entries = index("CREATE CUSTOM INDEX IF NOT EXISTS i ON t (entries(m)) USING 'x' WITH OPTIONS = {'a': 1}");
        assert_eq!((entries.targets[0].part, entries.class.as_deref()), (IndexPart::Entries, Some("x")));
        assert_eq!(entries.options["a"], "1");
        let local = index("CREATE INDEX i ON t ((p, q), v)");
        assert_eq!((local.local_key.len(), local.targets[0].column.as_str()), (2, "v"));
        assert!(matches!(statement("DROP INDEX ks.i"), Statement::DropIndex { if_exists: false, .. }));
        assert!(parse("CREATE INDEX ON t (some(v))").is_err());
    }
}
