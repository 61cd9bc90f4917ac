//! INSERT, UPDATE, DELETE and BATCH.

use super::{ParseError, Parser};
use crate::ast::{
    Assignment, Batch, ColumnCondition, Condition, ConditionTest, Delete, DeleteTarget, Insert, InsertJson, Operation,
    Statement, Term, Update, Using,
};
use crate::lexer::TokenKind;
use crate::request::BatchKind;

impl Parser<'_> {
    pub(super) fn insert(&mut self) -> Result<Statement, ParseError> {
        self.expect_keyword("INSERT")?;
        self.expect_keyword("INTO")?;
        let table = self.table_name()?;
        if self.take_keyword("JSON") {
            let json = match self.take_marker()? {
                Some(index) => Term::Marker(index),
                None if self.token().kind == TokenKind::String => self.constant()?,
                None => return Err(self.no_viable_alternative()),
            };
            let mut default_unset = false;
            if self.take_keyword("DEFAULT") {
                default_unset = self.take_keyword("UNSET");
                if !default_unset {
                    self.expect_keyword("NULL")?;
                }
            }
            let if_not_exists = self.if_not_exists()?;
            let using = self.using()?;
            return Ok(Statement::InsertJson(InsertJson { table, json, default_unset, if_not_exists, using }));
        }
        self.expect_symbol("(")?;
        let columns = self.comma_list(Self::identifier)?;
        self.expect_symbol(")")?;
        self.expect_keyword("VALUES")?;
        self.expect_symbol("(")?;
        let values = self.comma_list(Self::term)?;
        self.expect_symbol(")")?;
        let if_not_exists = self.if_not_exists()?;
        let using = self.using()?;
        Ok(Statement::Insert(Insert { table, columns, values, if_not_exists, using }))
    }

    /// `USING TIMESTAMP .. AND TTL .. AND TIMEOUT ..`, if it is here.
    fn using(&mut self) -> Result<Using, ParseError> {
        self.using_only(&["TIMESTAMP", "TTL", "TIMEOUT"])
    }

    /// USING with no other attributes than these.
    pub(super) fn using_only(&mut self, allowed: &[&str]) -> Result<Using, ParseError> {
        let mut using = Using::default();
        if !self.take_keyword("USING") {
            return Ok(using);
        }
        loop {
            let Some(&name) = allowed.iter().find(|name| self.is_keyword(name)) else {
                return Err(self.no_viable_alternative());
            };
            self.advance();
            match name {
                "TIMESTAMP" => using.timestamp = Some(self.integer_value()?),
                "TTL" => using.ttl = Some(self.integer_value()?),
                _ => using.timeout = Some(self.duration_value()?),
            }
            if !self.take_keyword("AND") {
                return Ok(using);
            }
        }
    }

    /// A duration or a marker.
    fn duration_value(&mut self) -> Result<Term, ParseError> {
        if let Some(index) = self.take_marker()? {
            return Ok(Term::Marker(index));
        }
        if !self.is_constant() {
            return Err(self.no_viable_alternative());
        }
        self.constant()
    }

    pub(super) fn update(&mut self) -> Result<Update, ParseError> {
        self.expect_keyword("UPDATE")?;
        let table = self.table_name()?;
        let using = self.using()?;
        self.expect_keyword("SET")?;
        let assignments = self.comma_list(Self::assignment)?;
        let filter = self.where_clause()?;
        let condition = self.condition()?;
        Ok(Update { table, using, assignments, filter, condition })
    }

    fn assignment(&mut self) -> Result<Assignment, ParseError> {
        let column = self.identifier()?;
        let operation = if self.take_symbol("[") {
            let key = self.term()?;
            self.expect_symbol("]")?;
            self.expect_symbol("=")?;
            Operation::SetElement { key, value: self.term()? }
        } else if self.take_symbol(".") {
            let field = self.identifier()?;
            self.expect_symbol("=")?;
            Operation::SetField { field, value: self.term()? }
        } else if self.take_symbol("+=") {
            Operation::Add(self.term()?)
        } else if self.take_symbol("-=") {
            Operation::Subtract(self.term()?)
        } else {
            self.expect_symbol("=")?;
            self.assigned(&column)?
        };
        Ok(Assignment { column, operation })
    }

    /// The right side of `column =`.
    fn assigned(&mut self, column: &str) -> Result<Operation, ParseError> {
        let next = self.ahead(1);
        let sum = self.is_symbol_at(next, "+") || self.is_symbol_at(next, "-") || next.kind == TokenKind::Integer;
        if self.is_identifier_at(self.token()) && sum {
            let operand = self.identifier()?;
            // `c = c - 3` has a minus before a blank, `c = c -3` a negative integer.
            let sign = if next.kind == TokenKind::Integer {
                if self.raw(next).starts_with('-') { "-" } else { "+" }
            } else {
                self.advance();
                self.raw(next)
            };
            if operand != column {
                return Err(ParseError::Syntax(format!(
                    "Only expressions of the form X = X {sign}<value> are supported."
                )));
            }
            let value = self.term()?;
            // A negative integer is added as it is.
            return Ok(if sign == "-" && next.kind != TokenKind::Integer {
                Operation::Subtract(value)
            } else {
                Operation::Add(value)
            });
        }
        let value = self.term()?;
        if self.take_symbol("+") {
            if self.identifier()? != column {
                return Err(ParseError::Syntax(
                    "Only expressions of the form X = <value> + X are supported.".to_string(),
                ));
            }
            return Ok(Operation::Prepend(value));
        }
        Ok(Operation::Set(value))
    }

    pub(super) fn delete(&mut self) -> Result<Delete, ParseError> {
        self.expect_keyword("DELETE")?;
        let targets = if self.is_keyword("FROM") { Vec::new() } else { self.comma_list(Self::delete_target)? };
        self.expect_keyword("FROM")?;
        let table = self.table_name()?;
        let Using { timestamp, timeout, .. } = self.using_only(&["TIMESTAMP", "TIMEOUT"])?;
        let filter = self.where_clause()?;
        let condition = self.condition()?;
        // ScyllaDB's: what deletes is never held against these limits here.
        self.take_keywords(&["BYPASS", "LARGE_DATA_GUARDRAILS"])?;
        Ok(Delete { table, targets, timestamp, timeout, filter, condition })
    }

    fn delete_target(&mut self) -> Result<DeleteTarget, ParseError> {
        let column = self.identifier()?;
        if self.take_symbol("[") {
            let key = self.term()?;
            self.expect_symbol("]")?;
            return Ok(DeleteTarget::Element { column, key });
        }
        if self.take_symbol(".") {
            return Ok(DeleteTarget::Field { column, field: self.identifier()? });
        }
        Ok(DeleteTarget::Column(column))
    }

    /// `IF ..`, if it is here.
    fn condition(&mut self) -> Result<Condition, ParseError> {
        if !self.take_keyword("IF") {
            return Ok(Condition::None);
        }
        // `exists` is a name too.
        let alone =
            self.is_symbol_at(self.ahead(1), ";") || matches!(self.ahead(1).kind, TokenKind::End | TokenKind::Word);
        if self.is_keyword("EXISTS") && alone {
            self.advance();
            return Ok(Condition::Exists);
        }
        let mut conditions = vec![self.column_condition()?];
        while self.take_keyword("AND") {
            conditions.push(self.column_condition()?);
        }
        Ok(Condition::Columns(conditions))
    }

    fn column_condition(&mut self) -> Result<ColumnCondition, ParseError> {
        let column = self.identifier()?;
        let mut element = None;
        if self.take_symbol("[") {
            element = Some(self.term()?);
            self.expect_symbol("]")?;
        }
        let test = if self.take_keyword("IN") {
            ConditionTest::In { values: self.in_values()?, negated: false }
        } else if self.take_keywords(&["NOT", "IN"])? {
            ConditionTest::In { values: self.in_values()?, negated: true }
        } else if self.take_keyword("LIKE") {
            ConditionTest::Like(self.term()?)
        } else if self.take_keyword("CONTAINS") {
            let key = self.take_keyword("KEY");
            ConditionTest::Contains { key, value: self.term()? }
        } else {
            ConditionTest::Compare(self.operator()?, self.term()?)
        };
        Ok(ColumnCondition { column, element, test })
    }

    pub(super) fn batch(&mut self) -> Result<Batch, ParseError> {
        self.expect_keyword("BEGIN")?;
        let kind = if self.take_keyword("UNLOGGED") {
            BatchKind::Unlogged
        } else if self.take_keyword("COUNTER") {
            BatchKind::Counter
        } else {
            BatchKind::Logged
        };
        self.expect_keyword("BATCH")?;
        let using = self.using()?;
        let mut statements = Vec::new();
        while !self.take_keyword("APPLY") {
            statements.push(if self.is_keyword("INSERT") {
                self.insert()?
            } else if self.is_keyword("UPDATE") {
                Statement::Update(self.update()?)
            } else if self.is_keyword("DELETE") {
                Statement::Delete(self.delete()?)
            } else {
                return Err(self.mismatch("K_APPLY"));
            });
            self.take_symbol(";");
        }
        self.expect_keyword("BATCH")?;
        Ok(Batch { kind, using, statements })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::{InValues, Operator};
    use crate::parser::parse;

    fn statement(text: &str) -> Statement {
        parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).statement
    }

    fn update(text: &str) -> Update {
        match statement(text) {
            Statement::Update(update) => update,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn inserts() {
        let Statement::Insert(insert) = statement(
            "INSERT INTO ks.t (Key, \"C0\", type) VALUES (0x01, ?, now()) IF NOT EXISTS USING TTL 10 AND TIMESTAMP ?",
        ) else {
            panic!("not INSERT")
        };
        assert_eq!(insert.columns, ["key", "C0", "type"]);
        assert_eq!(insert.values.len(), 3);
        assert!(insert.if_not_exists);
        assert_eq!(
            insert.using,
            Using { timestamp: Some(Term::Marker(1)), ttl: Some(Term::integer(10)), timeout: None }
        );
        let Statement::InsertJson(json) = statement("INSERT INTO t JSON '{\"a\": 1}' DEFAULT UNSET") else {
            panic!("not INSERT JSON")
        };
        assert!(json.default_unset);
        assert_eq!(json.json, Term::string("{\"a\": 1}"));
    }

    #[test]
    fn updates() {
        let update = update(
            "UPDATE t USING TTL 5 SET a = 1, b = null, c['k'] = ?, d += [1] WHERE k = 1 IF a = 1 AND m[1] IN (2)",
        );
        assert_eq!(update.using.ttl, Some(Term::integer(5)));
        let operations: Vec<_> = update.assignments.iter().map(|a| (a.column.as_str(), &a.operation)).collect();
        assert_eq!(
            operations,
            [
                ("a", &Operation::Set(Term::integer(1))),
                ("b", &Operation::Set(Term::Null)),
                ("c", &Operation::SetElement { key: Term::string("k"), value: Term::Marker(0) }),
                ("d", &Operation::Add(Term::List(vec![Term::integer(1)]))),
            ]
        );
        let Condition::Columns(conditions) = update.condition else { panic!("no conditions") };
        assert_eq!(conditions[0].test, ConditionTest::Compare(Operator::Equal, Term::integer(1)));
        assert_eq!(conditions[1].element, Some(Term::integer(1)));
        assert_eq!(
            conditions[1].test,
            ConditionTest::In { values: InValues::Terms(vec![Term::integer(2)]), negated: false }
        );
    }

    #[test]
    fn sums() {
        let operation =
            |text: &str| update(&format!("UPDATE t SET {text} WHERE k = 1")).assignments.remove(0).operation;
        assert_eq!(operation("c = c + 1"), Operation::Add(Term::integer(1)));
        assert_eq!(operation("c = c - 1"), Operation::Subtract(Term::integer(1)));
        assert_eq!(operation("c = c -1"), Operation::Add(Term::integer(-1)));
        assert_eq!(operation("c = c + ?"), Operation::Add(Term::Marker(0)));
        assert_eq!(operation("c -= 1"), Operation::Subtract(Term::integer(1)));
        assert_eq!(operation("c = [1] + c"), Operation::Prepend(Term::List(vec![Term::integer(1)])));
        assert_eq!(operation("c = now()"), Operation::Set(operation_now()));
        assert!(parse("UPDATE t SET c = d + 1 WHERE k = 1").is_err());
        assert!(parse("UPDATE t SET c = 1 + d WHERE k = 1").is_err());
    }

    fn operation_now() -> Term {
        Term::Function {
            name: crate::ast::QualifiedName { keyspace: None, name: "now".to_string() },
            arguments: Vec::new(),
        }
    }

    #[test]
    fn deletes() {
        let Statement::Delete(delete) =
            statement("DELETE a, b['k'] FROM t USING TIMESTAMP 7 WHERE k = 1 AND c > 2 IF EXISTS")
        else {
            panic!("not DELETE")
        };
        assert_eq!(
            delete.targets,
            [
                DeleteTarget::Column("a".to_string()),
                DeleteTarget::Element { column: "b".to_string(), key: Term::string("k") }
            ]
        );
        assert_eq!(delete.timestamp, Some(Term::integer(7)));
        assert_eq!((delete.filter.len(), delete.condition), (2, Condition::Exists));
        assert!(matches!(statement("DELETE FROM t WHERE k = 1"), Statement::Delete(d) if d.targets.is_empty()));
        let bypass = "DELETE FROM t WHERE k = 1 IF EXISTS BYPASS LARGE_DATA_GUARDRAILS";
        assert!(matches!(statement(bypass), Statement::Delete(d) if d.condition == Condition::Exists));
        assert!(parse("UPDATE t SET v = 1 WHERE k = 1 BYPASS LARGE_DATA_GUARDRAILS").is_err());
    }

    #[test]
    fn batches() {
        let parsed = parse(
            "BEGIN UNLOGGED BATCH USING TIMESTAMP 1 INSERT INTO t (a) VALUES (?); UPDATE t SET b = ? WHERE a = ?
             DELETE FROM t WHERE a = 1 IF EXISTS; DELETE FROM t WHERE a = ? APPLY BATCH;",
        )
        .unwrap();
        let Statement::Batch(batch) = parsed.statement else { panic!("not BATCH") };
        assert_eq!((batch.kind, batch.statements.len(), parsed.markers.len()), (BatchKind::Unlogged, 4, 4));
        assert_eq!(batch.using.timestamp, Some(Term::integer(1)));
        assert!(matches!(statement("BEGIN BATCH APPLY BATCH"), Statement::Batch(b) if b.kind == BatchKind::Logged));
        assert!(parse("BEGIN BATCH SELECT * FROM t; APPLY BATCH").is_err());
    }

    #[test]
    fn refusals() {
        for bad in [
            "INSERT INTO t VALUES (1)",
            "INSERT INTO t () VALUES ()",
            "INSERT INTO t (a) VALUES (1) USING TTL",
            "INSERT INTO t (a) VALUES (1) USING TTL 'x'",
            "INSERT INTO t (a) VALUES (1) IF EXISTS",
            "UPDATE t SET a = 1",
            "UPDATE t SET WHERE k = 1",
            "DELETE FROM t",
            "DELETE * FROM t WHERE k = 1",
            "DELETE FROM t USING TTL 1 WHERE k = 1",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
