//! CREATE and DROP of functions and aggregates.

use types::CqlType;

use super::{ParseError, Parser};
use crate::ast::{CreateAggregate, CreateFunction, Statement};
use crate::lexer::{self, TokenKind};

impl Parser<'_> {
    /// After `CREATE`: `[OR REPLACE] FUNCTION|AGGREGATE ..`, if it is that.
    pub(super) fn create_function_or_aggregate(&mut self) -> Result<Option<Statement>, ParseError> {
        let or_replace = self.take_keywords(&["OR", "REPLACE"])?;
        if self.take_keyword("FUNCTION") {
            return self.create_function(or_replace).map(Some);
        }
        if self.take_keyword("AGGREGATE") {
            return self.create_aggregate(or_replace).map(Some);
        }
        if or_replace { Err(self.no_viable_alternative()) } else { Ok(None) }
    }

    fn create_function(&mut self, or_replace: bool) -> Result<Statement, ParseError> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.table_name()?;
        self.expect_symbol("(")?;
        let mut arguments = Vec::new();
        if !self.take_symbol(")") {
            arguments = self.comma_list(|parser| Ok((parser.identifier()?, parser.type_name()?)))?;
            self.expect_symbol(")")?;
        }
        let called_on_null_input = if self.take_keyword("CALLED") {
            true
        } else {
            self.expect_keyword("RETURNS")?;
            self.expect_keyword("NULL")?;
            false
        };
        for keyword in ["ON", "NULL", "INPUT", "RETURNS"] {
            self.expect_keyword(keyword)?;
        }
        let returns = self.type_name()?;
        self.expect_keyword("LANGUAGE")?;
        let language = self.identifier()?;
        self.expect_keyword("AS")?;
        let token = self.token();
        if token.kind != TokenKind::String {
            return Err(self.no_viable_alternative());
        }
        let body = lexer::string_value(self.text, &token).into_owned();
        self.advance();
        Ok(Statement::CreateFunction(CreateFunction {
            name,
            or_replace,
            if_not_exists,
            arguments,
            called_on_null_input,
            returns,
            language,
            body,
        }))
    }

    fn create_aggregate(&mut self, or_replace: bool) -> Result<Statement, ParseError> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.table_name()?;
        let arguments = self.argument_types()?;
        self.expect_keyword("SFUNC")?;
        let state_function = self.table_name()?;
        self.expect_keyword("STYPE")?;
        let state_type = self.type_name()?;
        let reduce_function = if self.take_keyword("REDUCEFUNC") { Some(self.table_name()?) } else { None };
        let final_function = if self.take_keyword("FINALFUNC") { Some(self.table_name()?) } else { None };
        let initial = if self.take_keyword("INITCOND") { Some(self.term()?) } else { None };
        Ok(Statement::CreateAggregate(CreateAggregate {
            name,
            or_replace,
            if_not_exists,
            arguments,
            state_function,
            state_type,
            reduce_function,
            final_function,
            initial,
        }))
    }

    /// `(type, type)`
    fn argument_types(&mut self) -> Result<Vec<CqlType>, ParseError> {
        self.expect_symbol("(")?;
        if self.take_symbol(")") {
            return Ok(Vec::new());
        }
        let types = self.comma_list(Self::type_name)?;
        self.expect_symbol(")")?;
        Ok(types)
    }

    /// After `DROP`: `FUNCTION|AGGREGATE ..`, if it is that.
    pub(super) fn drop_function_or_aggregate(&mut self) -> Result<Option<Statement>, ParseError> {
        let is_function = self.take_keyword("FUNCTION");
        if !is_function && !self.take_keyword("AGGREGATE") {
            return Ok(None);
        }
        let if_exists = self.if_exists()?;
        let name = self.table_name()?;
        let arguments = if self.is_symbol("(") { Some(self.argument_types()?) } else { None };
        Ok(Some(match is_function {
            true => Statement::DropFunction { name, arguments, if_exists },
            false => Statement::DropAggregate { name, arguments, if_exists },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse;

    #[test]
    fn statements() {
        let text = "CREATE OR REPLACE FUNCTION ks.f (a int, b list<text>) RETURNS NULL ON NULL INPUT RETURNS int \
                    LANGUAGE Lua AS $$ return a $$";
        let Statement::CreateFunction(create) = parse(text).unwrap().statement else { panic!("not a function") };
        assert!(create.or_replace && !create.called_on_null_input);
        assert_eq!((create.arguments.len(), create.language.as_str(), create.body.as_str()), (2, "lua", " return a "));
        let text = "CREATE AGGREGATE a (int) SFUNC f STYPE tuple<int, int> FINALFUNC g INITCOND (0, 0)";
        let Statement::CreateAggregate(create) = parse(text).unwrap().statement else { panic!("not an aggregate") };
        assert_eq!(create.initial.map(|term| term.to_string()).as_deref(), Some("(0, 0)"));
        assert!(create.reduce_function.is_none() && create.final_function.is_some());
        let drop = parse("DROP FUNCTION IF EXISTS ks.f(int, text)").unwrap().statement;
        assert!(
            matches!(drop, Statement::DropFunction { arguments: Some(types), if_exists: true, .. } if types.len() == 2)
        );
        let drop = parse("DROP AGGREGATE a").unwrap().statement;
        assert!(matches!(drop, Statement::DropAggregate { arguments: None, .. }));
    }
}
