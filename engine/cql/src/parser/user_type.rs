//! CREATE TYPE and ALTER TYPE.

use super::{ParseError, Parser};
use crate::ast::{AlterType, CreateType, Statement, TypeChange};

impl Parser<'_> {
    /// After `CREATE TYPE`.
    pub(super) fn create_type(&mut self) -> Result<Statement, ParseError> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.table_name()?;
        self.expect_symbol("(")?;
        let fields = self.comma_list(|parser| Ok((parser.identifier()?, parser.type_name()?)))?;
        self.expect_symbol(")")?;
        Ok(Statement::CreateType(CreateType { name, if_not_exists, fields }))
    }

    /// After `ALTER TYPE`.
    pub(super) fn alter_type(&mut self) -> Result<Statement, ParseError> {
        let if_exists = self.if_exists()?;
        let name = self.table_name()?;
        let change = if self.take_keyword("ADD") {
            let if_not_exists = self.if_not_exists()?;
            TypeChange::Add { field: self.identifier()?, ty: self.type_name()?, if_not_exists }
        } else if self.take_keyword("RENAME") {
            let if_exists = self.if_exists()?;
            let mut fields = Vec::new();
            loop {
                let from = self.identifier()?;
                self.expect_keyword("TO")?;
                fields.push((from, self.identifier()?));
                if !self.take_keyword("AND") {
                    break TypeChange::Rename { fields, if_exists };
                }
            }
        } else if self.take_keyword("ALTER") {
            let field = self.identifier()?;
            self.expect_keyword("TYPE")?;
            TypeChange::Alter { field, ty: self.type_name()? }
        } else {
            return Err(self.no_viable_alternative());
        };
        Ok(Statement::AlterType(AlterType { name, if_exists, change }))
    }
}

#[cfg(test)]
mod tests {
    use types::CqlType;

    use super::*;
    use crate::parser::parse;

    #[test]
    fn statements() {
        let Statement::CreateType(create) = parse("CREATE TYPE ks.u (a int, \"B\" frozen<v>)").unwrap().statement
        else {
            panic!("not CREATE TYPE")
        };
        let v = CqlType::named(None, "v").frozen();
        assert_eq!(create.fields, [("a".to_string(), CqlType::Int), ("B".to_string(), v)]);
        let change = |text: &str| match parse(text).unwrap().statement {
            Statement::AlterType(alter) => alter.change,
            other => panic!("{other:?}"),
        };
        let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
        assert_eq!(
            change("ALTER TYPE u RENAME a TO b AND c TO d"),
            TypeChange::Rename { fields: vec![pair("a", "b"), pair("c", "d")], if_exists: false }
        );
        assert_eq!(
            change("ALTER TYPE u ADD x text"),
            TypeChange::Add { field: "x".to_string(), ty: CqlType::Text, if_not_exists: false }
        );
        assert!(matches!(
            parse("DROP TYPE IF EXISTS u").unwrap().statement,
            Statement::DropType { if_exists: true, .. }
        ));
    }
}
