//! SELECT, and the WHERE clause that UPDATE and DELETE share with it.

use super::term::without_parentheses;
use super::{ParseError, Parser};
use crate::ast::{Direction, Operator, QualifiedName, Relation, Select, SelectItem, Selection, Selector, Term};
use crate::lexer::TokenKind;

/// The system's table of one row, which a SELECT without FROM reads, as in ScyllaDB.
pub const ONE_ROW: &str = "one_row";

impl Parser<'_> {
    pub(super) fn select(&mut self) -> Result<Select, ParseError> {
        self.expect_keyword("SELECT")?;
        let json = self.take_modifier("JSON");
        let distinct = self.take_modifier("DISTINCT");
        let selection =
            if self.take_symbol("*") { Selection::All } else { Selection::Items(self.comma_list(Self::select_item)?) };
        let table = if !distinct && self.ends_selection() {
            if selection == Selection::All {
                return Err(ParseError::Invalid("SELECT * needs a FROM clause".to_string()));
            }
            QualifiedName { keyspace: Some("system".to_string()), name: ONE_ROW.to_string() }
        } else {
            self.expect_keyword("FROM")?;
            self.table_name()?
        };
        let mut select = Select {
            table,
            selection,
            distinct,
            json,
            filter: Vec::new(),
            group_by: Vec::new(),
            order_by: Vec::new(),
            per_partition_limit: None,
            limit: None,
            allow_filtering: false,
            bypass_cache: false,
            timeout: None,
            service_level: None,
        };
        if self.is_keyword("WHERE") {
            select.filter = self.where_clause()?;
        }
        if self.take_keywords(&["GROUP", "BY"])? {
            select.group_by = self.comma_list(Self::identifier)?;
        }
        if self.take_keywords(&["ORDER", "BY"])? {
            select.order_by = self.comma_list(|parser| {
                let column = parser.identifier()?;
                let descending = parser.take_keyword("DESC");
                if !descending {
                    parser.take_keyword("ASC");
                }
                Ok((column, if descending { Direction::Descending } else { Direction::Ascending }))
            })?;
        }
        if self.take_keywords(&["PER", "PARTITION", "LIMIT"])? {
            select.per_partition_limit = Some(self.integer_value()?);
        }
        if self.take_keyword("LIMIT") {
            select.limit = Some(self.integer_value()?);
        }
        select.allow_filtering = self.take_keywords(&["ALLOW", "FILTERING"])?;
        select.bypass_cache = self.take_keywords(&["BYPASS", "CACHE"])?;
        if self.is_service_level_at(1) && self.take_keyword("USING") {
            self.expect_service_level()?;
            select.service_level = Some(self.service_level_name()?);
        }
        select.timeout = self.using_only(&["TIMEOUT"])?.timeout;
        Ok(select)
    }

    /// Whether there is no FROM, but what may stand behind it, or nothing.
    fn ends_selection(&self) -> bool {
        const BEHIND: [&str; 8] = ["WHERE", "GROUP", "ORDER", "PER", "LIMIT", "ALLOW", "BYPASS", "USING"];
        let token = self.token();
        token.kind == TokenKind::End
            || self.is_symbol(";")
            || BEHIND.iter().any(|keyword| self.is_keyword_at(token, keyword))
    }

    /// JSON and DISTINCT are names too: they are meant as such when no selector follows.
    fn take_modifier(&mut self, keyword: &str) -> bool {
        let next = self.ahead(1);
        let selector_follows = match next.kind {
            TokenKind::Word => !self.is_keyword_at(next, "FROM") && !self.is_keyword_at(next, "AS"),
            TokenKind::Symbol => self.is_symbol_at(next, "*"),
            TokenKind::End => false,
            _ => true,
        };
        selector_follows && self.take_keyword(keyword)
    }

    pub(super) fn select_item(&mut self) -> Result<SelectItem, ParseError> {
        let selector = self.selector()?;
        let alias = if self.take_keyword("AS") { Some(self.identifier()?) } else { None };
        Ok(SelectItem { selector, alias })
    }

    fn selector(&mut self) -> Result<Selector, ParseError> {
        self.nested(|parser| {
            let make = |symbol: &str, operands: Vec<Selector>| Selector::Function {
                name: QualifiedName { keyspace: None, name: symbol.to_string() },
                arguments: operands,
            };
            parser.operations(Self::selector_operand, |_| true, &make)
        })
    }

    fn selector_operand(&mut self) -> Result<Selector, ParseError> {
        let selector = self.selector_here()?;
        self.parts_of(selector)
    }

    fn selector_here(&mut self) -> Result<Selector, ParseError> {
        let token = self.token();
        if !matches!(token.kind, TokenKind::Word | TokenKind::QuotedName)
            || ["NULL", "NAN", "INFINITY"].iter().any(|word| self.is_keyword(word))
        {
            let mark = self.mark();
            let term = self.nested(Self::term_here);
            if term.is_err() && self.tokens[mark.at].kind == TokenKind::Symbol && self.raw(self.tokens[mark.at]) == "("
            {
                self.reset(mark);
                self.advance();
                let selector = self.selector()?;
                self.expect_symbol(")")?;
                return Ok(selector);
            }
            return term.map(|term| Selector::Term(without_parentheses(term)));
        }
        let called = self.is_symbol_at(self.ahead(1), "(");
        if called && token.kind == TokenKind::Word {
            match self.raw(token).to_ascii_lowercase().as_str() {
                "count" if self.is_count_rows() => {
                    self.at += 4;
                    return Ok(Selector::CountRows);
                }
                "writetime" => return self.column_call().map(Selector::WriteTime),
                "maxwritetime" => return self.column_call().map(Selector::MaxWriteTime),
                "ttl" => return self.column_call().map(Selector::Ttl),
                "cast" => {
                    self.at += 2;
                    let selector = Box::new(self.selector()?);
                    self.expect_keyword("AS")?;
                    let ty = self.type_name()?;
                    self.expect_symbol(")")?;
                    return Ok(Selector::Cast { selector, ty });
                }
                _ => {}
            }
        }
        let qualified = self.is_symbol_at(self.ahead(1), ".") && self.is_symbol_at(self.ahead(3), "(");
        if called || qualified {
            let name = self.function_name()?;
            return self.call(name);
        }
        self.identifier().map(Selector::Column)
    }

    /// `count(*)` or `count(1)` here, whatever the integer.
    fn is_count_rows(&self) -> bool {
        let argument = self.ahead(2);
        (self.is_symbol_at(argument, "*") || argument.kind == TokenKind::Integer)
            && self.is_symbol_at(self.ahead(3), ")")
    }

    /// `name(column)`, `name(column['k'])`, `name(column.field)`
    fn column_call(&mut self) -> Result<Box<Selector>, ParseError> {
        self.at += 2;
        let column = self.identifier()?;
        let selector = self.parts_of(Selector::Column(column))?;
        self.expect_symbol(")")?;
        Ok(Box::new(selector))
    }

    /// `[key]`, `[from..to]` and `.field` behind a selector, any number of them.
    fn parts_of(&mut self, mut selector: Selector) -> Result<Selector, ParseError> {
        let mut parts = 0;
        loop {
            let of = Box::new(selector);
            selector = if self.take_symbol("[") {
                let from = if self.is_symbol("..") { None } else { Some(self.term()?) };
                let is_slice = self.take_symbol("..");
                let to = match is_slice && (from.is_none() || !self.is_symbol("]")) {
                    true => Some(self.term()?),
                    false => None,
                };
                self.expect_symbol("]")?;
                match from {
                    Some(key) if !is_slice => Selector::Element { of, key },
                    from => Selector::Slice { of, from, to },
                }
            } else if self.take_symbol(".") {
                Selector::Field { of, field: self.identifier()? }
            } else {
                return Ok(*of);
            };
            parts += 1;
            if parts > super::DEPTH_MAX {
                return Err(self.error("the nesting is too deep"));
            }
        }
    }

    fn call(&mut self, name: QualifiedName) -> Result<Selector, ParseError> {
        self.expect_symbol("(")?;
        if self.take_symbol(")") {
            return Ok(Selector::Function { name, arguments: Vec::new() });
        }
        let arguments = self.comma_list(Self::selector)?;
        self.expect_symbol(")")?;
        Ok(Selector::Function { name, arguments })
    }

    /// From the keyword on.
    pub(super) fn where_clause(&mut self) -> Result<Vec<Relation>, ParseError> {
        self.expect_keyword("WHERE")?;
        let mut relations = Vec::new();
        self.relation(&mut relations)?;
        while self.take_keyword("AND") {
            self.relation(&mut relations)?;
        }
        Ok(relations)
    }

    pub(super) fn operator(&mut self) -> Result<Operator, ParseError> {
        let token = self.token();
        let operator = match self.raw(token) {
            _ if token.kind != TokenKind::Symbol => return Err(self.no_viable_alternative()),
            "=" => Operator::Equal,
            "!=" => Operator::NotEqual,
            "<" => Operator::Less,
            "<=" => Operator::LessOrEqual,
            ">" => Operator::Greater,
            ">=" => Operator::GreaterOrEqual,
            _ => return Err(self.no_viable_alternative()),
        };
        self.advance();
        Ok(operator)
    }

    /// Appends one relation, or the two that a BETWEEN stands for.
    fn relation(&mut self, into: &mut Vec<Relation>) -> Result<(), ParseError> {
        if self.is_symbol("(") {
            return self.nested(|parser| parser.parenthesised(into));
        }
        if self.take_keyword("TOKEN") {
            let columns = self.column_tuple()?;
            return self.compared(into, Self::term, |operator, value| Relation::Token {
                columns: columns.clone(),
                operator,
                value,
            });
        }
        let column = self.identifier()?;
        if self.take_keyword("IN") {
            into.push(Relation::In { column, values: self.in_values()?, negated: false });
        } else if self.take_keywords(&["NOT", "IN"])? {
            into.push(Relation::In { column, values: self.in_values()?, negated: true });
        } else if self.take_keyword("CONTAINS") {
            let key = self.take_keyword("KEY");
            into.push(Relation::Contains { column, key, value: self.term()? });
        } else if self.take_keyword("LIKE") {
            into.push(Relation::Like { column, pattern: self.term()? });
        } else if self.take_keywords(&["IS", "NOT", "NULL"])? {
            into.push(Relation::IsNotNull { column });
        } else if self.take_symbol("[") {
            let key = self.term()?;
            self.expect_symbol("]")?;
            into.push(Relation::Element { column, key, operator: self.operator()?, value: self.term()? });
        } else {
            return self.compared(into, Self::term, |operator, value| Relation::Column {
                column: column.clone(),
                operator,
                value,
            });
        }
        Ok(())
    }

    /// `operator value` or `BETWEEN value AND value`.
    fn compared(
        &mut self,
        into: &mut Vec<Relation>,
        value: impl Fn(&mut Self) -> Result<Term, ParseError>,
        make: impl Fn(Operator, Term) -> Relation,
    ) -> Result<(), ParseError> {
        if self.take_keyword("BETWEEN") {
            into.push(make(Operator::GreaterOrEqual, value(self)?));
            self.expect_keyword("AND")?;
            into.push(make(Operator::LessOrEqual, value(self)?));
        } else {
            let operator = self.operator()?;
            into.push(make(operator, value(self)?));
        }
        Ok(())
    }

    fn column_tuple(&mut self) -> Result<Vec<String>, ParseError> {
        self.expect_symbol("(")?;
        let columns = self.comma_list(Self::identifier)?;
        self.expect_symbol(")")?;
        Ok(columns)
    }

    /// `(a, b) > (1, 2)`, `(a, b) IN (..)` or a relation in parentheses.
    fn parenthesised(&mut self, into: &mut Vec<Relation>) -> Result<(), ParseError> {
        let mark = self.mark();
        let Ok(columns) = self.column_tuple() else {
            self.reset(mark);
            self.expect_symbol("(")?;
            self.relation(into)?;
            return self.expect_symbol(")");
        };
        if self.take_keyword("IN") {
            into.push(Relation::TupleIn { columns, values: self.in_values()? });
            return Ok(());
        }
        let value = |parser: &mut Self| match parser.take_marker()? {
            Some(index) => Ok(Term::Marker(index)),
            None => parser.tuple(),
        };
        self.compared(into, value, |operator, value| Relation::Tuple { columns: columns.clone(), operator, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::{InValues, Statement};
    use crate::parser::parse;

    fn select(text: &str) -> Select {
        match parse(text) {
            Ok(parsed) => match parsed.statement {
                Statement::Select(select) => select,
                other => panic!("{other:?}"),
            },
            Err(error) => panic!("{text}: {error}"),
        }
    }

    fn selectors(text: &str) -> Vec<String> {
        match select(text).selection {
            Selection::Items(items) => items
                .iter()
                .map(|item| match &item.alias {
                    Some(alias) => format!("{} as {alias}", item.selector),
                    None => item.selector.to_string(),
                })
                .collect(),
            Selection::All => vec!["*".to_string()],
        }
    }

    #[test]
    fn selections() {
        assert_eq!(selectors("SELECT * FROM t"), ["*"]);
        assert_eq!(
            selectors("SELECT a, \"B\", count(*), COUNT(1) AS n, ttl(a), writetime(a) AS w, token(a, b) FROM t"),
            ["a", "B", "count", "count as n", "ttl(a)", "writetime(a) as w", "token(a, b)"]
        );
        assert_eq!(
            selectors("SELECT count(a), cast(a AS text), min(max(a)), ks.f(a, 1), 'x', ? FROM t"),
            ["count(a)", "cast(a as text)", "min(max(a))", "ks.f(a, 1)", "'x'", "?"]
        );
        assert_eq!(
            selectors("SELECT m['a'], m['a'..'c'], s[1..], s[..2], m[? .. ?]['x'] FROM t"),
            ["m['a']", "m['a'..'c']", "s[1..]", "s[..2]", "m[?..?]['x']"]
        );
        // Words that mean something elsewhere are columns here.
        assert_eq!(
            selectors("SELECT key, type, count, ttl, json, distinct, values, keyspace_name, timestamp, as FROM t"),
            ["key", "type", "count", "ttl", "json", "distinct", "values", "keyspace_name", "timestamp", "as"]
        );
        assert!(select("SELECT JSON * FROM t").json);
        assert!(select("SELECT DISTINCT a FROM t").distinct);
        assert!(select("SELECT JSON DISTINCT a, b FROM t").json);
        assert!(!select("SELECT json, a FROM t").json);
        assert!(!select("SELECT json AS j FROM t").json);
        assert_eq!(selectors("SELECT now() FROM system.local"), ["now()"]);
    }

    #[test]
    fn relations() {
        let filter = |text: &str| select(&format!("SELECT * FROM t WHERE {text}")).filter;
        let name = |text: &str| text.to_string();
        let column = |column: &str, operator, value| Relation::Column { column: name(column), operator, value };
        let one = || Term::integer(1);
        assert_eq!(
            filter("a = 1 AND b <= 1 AND (c > 1) AND d != 1"),
            [
                column("a", Operator::Equal, one()),
                column("b", Operator::LessOrEqual, one()),
                column("c", Operator::Greater, one()),
                column("d", Operator::NotEqual, one()),
            ]
        );
        assert_eq!(
            filter("a IN (1, ?) AND b IN ? AND c IN () AND \"D\" >= :x"),
            [
                Relation::In {
                    column: name("a"),
                    values: InValues::Terms(vec![one(), Term::Marker(0)]),
                    negated: false
                },
                Relation::In { column: name("b"), values: InValues::Marker(1), negated: false },
                Relation::In { column: name("c"), values: InValues::Terms(vec![]), negated: false },
                column("D", Operator::GreaterOrEqual, Term::Marker(2)),
            ]
        );
        let columns = || vec![name("a"), name("b")];
        let pair = || Term::Tuple(vec![one(), Term::integer(2)]);
        assert_eq!(
            filter("(a, b) > (1, 2) AND (a, b) < ? AND (a, b) IN ((1, 2), ?) AND (a, b) IN ?"),
            [
                Relation::Tuple { columns: columns(), operator: Operator::Greater, value: pair() },
                Relation::Tuple { columns: columns(), operator: Operator::Less, value: Term::Marker(0) },
                Relation::TupleIn { columns: columns(), values: InValues::Terms(vec![pair(), Term::Marker(1)]) },
                Relation::TupleIn { columns: columns(), values: InValues::Marker(2) },
            ]
        );
        assert_eq!(
            filter("token(a, b) > -5 AND token(a, b) <= token(1, 2)")[0],
            Relation::Token { columns: columns(), operator: Operator::Greater, value: Term::integer(-5) }
        );
        assert_eq!(
            filter("a BETWEEN 1 AND ? AND b CONTAINS KEY 1 AND m[1] = 1 AND k IS NOT NULL AND l LIKE 'x%'"),
            [
                column("a", Operator::GreaterOrEqual, one()),
                column("a", Operator::LessOrEqual, Term::Marker(0)),
                Relation::Contains { column: name("b"), key: true, value: one() },
                Relation::Element { column: name("m"), key: one(), operator: Operator::Equal, value: one() },
                Relation::IsNotNull { column: name("k") },
                Relation::Like { column: name("l"), pattern: Term::string("x%") },
            ]
        );
    }

    #[test]
    fn clauses() {
        let select = select(
            "SELECT a FROM ks.t WHERE a = 1 GROUP BY a, b ORDER BY b DESC, c ASC, d PER PARTITION LIMIT 2 LIMIT ? \
             ALLOW FILTERING;",
        );
        assert_eq!(select.table.to_string(), "ks.t");
        assert_eq!(select.group_by, ["a", "b"]);
        let order: Vec<_> = select.order_by.iter().map(|(c, d)| (c.as_str(), *d == Direction::Descending)).collect();
        assert_eq!(order, [("b", true), ("c", false), ("d", false)]);
        assert_eq!(select.per_partition_limit, Some(Term::integer(2)));
        assert_eq!(select.limit, Some(Term::Marker(0)));
        assert!(select.allow_filtering);
    }

    #[test]
    fn refusals() {
        for bad in [
            "SELECT FROM t",
            "SELECT a FROM",
            "SELECT DISTINCT 1",
            "SELECT *",
            "SELECT a b FROM t",
            "SELECT a FROM t WHERE",
            "SELECT a FROM t WHERE a",
            "SELECT a FROM t WHERE a = ",
            "SELECT a FROM t WHERE a = 1 b = 2",
            "SELECT a FROM t LIMIT x",
            "SELECT a FROM t LIMIT 1 WHERE a = 1",
            "SELECT a FROM t ORDER a",
            "SELECT select FROM t",
            "SELECT a FROM t WHERE (a, b) > 1",
            "SELECT m[..] FROM t",
            "SELECT m[1...2] FROM t",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
