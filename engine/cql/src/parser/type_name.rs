//! Types in DDL and casts.

use types::CqlType;

use super::{ParseError, Parser};
use crate::lexer::{self, TokenKind};

impl Parser<'_> {
    pub(super) fn type_name(&mut self) -> Result<CqlType, ParseError> {
        self.nested(|parser| parser.type_name_here())
    }

    fn type_name_here(&mut self) -> Result<CqlType, ParseError> {
        let token = self.token();
        if token.kind == TokenKind::String {
            // A custom type, by its marshal class.
            self.advance();
            let class = lexer::string_value(self.text, &token);
            let (ty, _) = CqlType::from_marshal_name(&class).map_err(|error| ParseError::Invalid(error.to_string()))?;
            return Ok(ty);
        }
        let with_parameters = self.is_symbol_at(self.ahead(1), "<");
        if token.kind == TokenKind::Word && with_parameters {
            let word = self.raw(token).to_ascii_lowercase();
            if matches!(word.as_str(), "list" | "set" | "map" | "tuple" | "frozen" | "vector") {
                self.advance();
                self.advance();
                return self.parameterized(&word);
            }
        }
        if token.kind == TokenKind::Word
            && let Some(scalar) = CqlType::scalar_from_name(self.raw(token))
            && !self.is_symbol_at(self.ahead(1), ".")
        {
            self.advance();
            return Ok(scalar);
        }
        let name = self.table_name()?;
        Ok(CqlType::named(name.keyspace.as_deref(), &name.name))
    }

    /// After the `<`.
    fn parameterized(&mut self, name: &str) -> Result<CqlType, ParseError> {
        let ty = match name {
            "list" => CqlType::list(self.type_name()?),
            "set" => CqlType::set(self.type_name()?),
            "frozen" => self.type_name()?.frozen(),
            "map" => {
                let key = self.type_name()?;
                self.expect_symbol(",")?;
                CqlType::map(key, self.type_name()?)
            }
            "vector" => {
                let element = self.type_name()?;
                self.expect_symbol(",")?;
                CqlType::vector(element, self.dimension()?)
            }
            _ => CqlType::Tuple(self.comma_list(Self::type_name)?),
        };
        self.expect_symbol(">")?;
        Ok(ty)
    }

    /// Of a vector. `VECTOR_DIMENSION_MAX` is Scylla's; a larger vector would not fit the protocol's short lengths.
    fn dimension(&mut self) -> Result<u32, ParseError> {
        const VECTOR_DIMENSION_MAX: u32 = 16_000;
        let token = self.token();
        if token.kind != TokenKind::Integer {
            return Err(self.no_viable_alternative());
        }
        self.advance();
        let written = self.raw(token);
        match written.parse() {
            Ok(dimension) if (1..=VECTOR_DIMENSION_MAX).contains(&dimension) => Ok(dimension),
            Ok(0) => Err(ParseError::Invalid("Vectors must have a dimension greater than 0".to_string())),
            _ if written.starts_with('-') => {
                Err(ParseError::Invalid("Vectors must have a dimension greater than 0".to_string()))
            }
            _ => Err(ParseError::Invalid(format!(
                "Vectors must have a dimension less than or equal to {VECTOR_DIMENSION_MAX}, got {written}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use types::CqlType;

    use crate::parser::{ParseError, parse_type};

    #[test]
    fn types() {
        for (text, shown) in [
            ("VARCHAR", "text"),
            ("frozen<map<text, list<int>>>", "frozen<map<text, list<int>>>"),
            ("Set < tuple<int,blob> >", "set<frozen<tuple<int, blob>>>"),
            ("'org.apache.cassandra.db.marshal.Int32Type'", "int"),
        ] {
            assert_eq!(parse_type(text).unwrap().to_string(), shown);
        }
        assert_eq!(parse_type("vector<float, 3>").unwrap().to_string(), "vector<float, 3>");
        assert_eq!(parse_type("Address"), Ok(CqlType::named(None, "address")));
        assert_eq!(parse_type("ks.\"Address\""), Ok(CqlType::named(Some("ks"), "Address")));
        assert!(matches!(parse_type("vector<float, 0>"), Err(ParseError::Invalid(_))));
        assert!(matches!(parse_type("map<int>"), Err(ParseError::Syntax(_))));
    }
}
