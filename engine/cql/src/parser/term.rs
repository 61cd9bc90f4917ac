//! Terms: constants, markers, collections, tuples, function calls and casts.

use super::{DEPTH_MAX, ParseError, Parser};
use crate::ast::{ConstantKind, QualifiedName, Term};
use crate::lexer::{self, TokenKind};

/// A single term in parentheses is that term.
pub(super) fn without_parentheses(term: Term) -> Term {
    match term {
        Term::Tuple(mut items) if items.len() == 1 => items.remove(0),
        term => term,
    }
}

impl Parser<'_> {
    pub(super) fn term(&mut self) -> Result<Term, ParseError> {
        self.nested(|parser| {
            let make = |symbol: &str, operands: Vec<Term>| Term::Function {
                name: QualifiedName { keyspace: None, name: symbol.to_string() },
                arguments: operands.into_iter().map(without_parentheses).collect(),
            };
            parser.operations(Self::term_here, Self::is_operand_of_term, &make)
        })
    }

    /// What an operand may be: a bare name is a column of UPDATE, as in `SET l = [1] + l`.
    fn is_operand_of_term(&self) -> bool {
        let next = self.ahead(1);
        !self.is_identifier_at(next) || ["(", "."].iter().any(|behind| self.is_symbol_at(self.ahead(2), behind))
    }

    /// Operands with `+` and `-` between them, or with `*`, `/` and `%`, which bind closer. `goes_on` tells whether
    /// what stands here is an operator.
    pub(super) fn operations<T>(
        &mut self,
        operand: fn(&mut Self) -> Result<T, ParseError>,
        goes_on: fn(&Self) -> bool,
        make: &dyn Fn(&str, Vec<T>) -> T,
    ) -> Result<T, ParseError> {
        let mut sum = self.product(operand, goes_on, make)?;
        for _ in 0..DEPTH_MAX {
            let Some(symbol) = self.take_operator(&["+", "-"], goes_on) else { return Ok(sum) };
            sum = make(symbol, vec![sum, self.product(operand, goes_on, make)?]);
        }
        Err(self.error("the nesting is too deep"))
    }

    fn product<T>(
        &mut self,
        operand: fn(&mut Self) -> Result<T, ParseError>,
        goes_on: fn(&Self) -> bool,
        make: &dyn Fn(&str, Vec<T>) -> T,
    ) -> Result<T, ParseError> {
        let mut product = self.signed(operand, make)?;
        for _ in 0..DEPTH_MAX {
            let Some(symbol) = self.take_operator(&["*", "/", "%"], goes_on) else { return Ok(product) };
            product = make(symbol, vec![product, self.signed(operand, make)?]);
        }
        Err(self.error("the nesting is too deep"))
    }

    fn signed<T>(
        &mut self,
        operand: fn(&mut Self) -> Result<T, ParseError>,
        make: &dyn Fn(&str, Vec<T>) -> T,
    ) -> Result<T, ParseError> {
        match self.take_symbol("-") {
            true => Ok(make("-", vec![operand(self)?])),
            false => operand(self),
        }
    }

    fn take_operator(&mut self, symbols: &[&'static str], goes_on: fn(&Self) -> bool) -> Option<&'static str> {
        let symbol = symbols.iter().find(|symbol| self.is_symbol(symbol)).filter(|_| goes_on(self))?;
        self.advance();
        Some(symbol)
    }

    pub(super) fn term_here(&mut self) -> Result<Term, ParseError> {
        if let Some(index) = self.take_marker()? {
            return Ok(Term::Marker(index));
        }
        let token = self.token();
        match token.kind {
            TokenKind::Symbol => match self.raw(token) {
                "[" => self.list(),
                "{" => self.set_or_map(),
                "(" => self.cast_or_tuple(),
                _ => Err(self.no_viable_alternative()),
            },
            TokenKind::Word if self.is_keyword("NULL") => {
                self.advance();
                Ok(Term::Null)
            }
            TokenKind::Word if self.is_keyword("NAN") || self.is_keyword("INFINITY") => self.constant(),
            TokenKind::Word | TokenKind::QuotedName => self.function(),
            TokenKind::End => Err(self.no_viable_alternative()),
            _ => self.constant(),
        }
    }

    pub(super) fn is_constant(&self) -> bool {
        !matches!(self.token().kind, TokenKind::Word | TokenKind::QuotedName | TokenKind::Symbol | TokenKind::End)
            || self.is_keyword("NAN")
            || self.is_keyword("INFINITY")
    }

    pub(super) fn constant(&mut self) -> Result<Term, ParseError> {
        if !self.is_constant() {
            return Err(self.no_viable_alternative());
        }
        let token = self.token();
        let raw = self.raw(token);
        self.advance();
        let (kind, text) = match token.kind {
            TokenKind::String => (ConstantKind::String, lexer::string_value(self.text, &token).into_owned()),
            TokenKind::Integer => (ConstantKind::Integer, raw.to_string()),
            TokenKind::Boolean => (ConstantKind::Boolean, raw.to_ascii_lowercase()),
            TokenKind::Duration => (ConstantKind::Duration, raw.to_string()),
            TokenKind::Hex => (ConstantKind::Hex, raw.to_string()),
            TokenKind::Uuid => (ConstantKind::Uuid, raw.to_string()),
            // Java's spelling of what is not finite, whatever the case written.
            _ if raw.to_ascii_lowercase().ends_with("nan") => (ConstantKind::Float, "NaN".to_string()),
            _ if raw.to_ascii_lowercase().ends_with("infinity") => {
                let sign = if raw.starts_with('-') { "-" } else { "" };
                (ConstantKind::Float, format!("{sign}Infinity"))
            }
            _ => (ConstantKind::Float, raw.to_string()),
        };
        Ok(Term::Constant { kind, text })
    }

    fn list(&mut self) -> Result<Term, ParseError> {
        self.advance();
        if self.take_symbol("]") {
            return Ok(Term::List(Vec::new()));
        }
        let items = self.comma_list(Self::term)?;
        self.expect_symbol("]")?;
        Ok(Term::List(items))
    }

    fn set_or_map(&mut self) -> Result<Term, ParseError> {
        self.advance();
        if self.take_symbol("}") {
            return Ok(Term::Set(Vec::new()));
        }
        if self.is_identifier_at(self.token()) && self.is_symbol_at(self.ahead(1), ":") {
            let fields = self.comma_list(|parser| {
                let field = parser.identifier()?;
                parser.expect_symbol(":")?;
                Ok((field, parser.term()?))
            })?;
            self.expect_symbol("}")?;
            return Ok(Term::Fields(fields));
        }
        let first = self.term()?;
        if self.take_symbol(":") {
            let mut entries = vec![(first, self.term()?)];
            while self.take_symbol(",") {
                let key = self.term()?;
                self.expect_symbol(":")?;
                entries.push((key, self.term()?));
            }
            self.expect_symbol("}")?;
            return Ok(Term::Map(entries));
        }
        let mut items = vec![first];
        while self.take_symbol(",") {
            items.push(self.term()?);
        }
        self.expect_symbol("}")?;
        Ok(Term::Set(items))
    }

    /// `(int) 1` or `(1, 2)`.
    fn cast_or_tuple(&mut self) -> Result<Term, ParseError> {
        let mark = self.mark();
        self.advance();
        if matches!(self.token().kind, TokenKind::Word | TokenKind::QuotedName)
            && let Ok(ty) = self.type_name()
            && self.take_symbol(")")
            && self.starts_term()
        {
            return Ok(Term::Cast { ty, term: Box::new(self.nested(Self::term_here)?) });
        }
        self.reset(mark);
        self.tuple()
    }

    fn starts_term(&self) -> bool {
        let opens = ["(", "[", "{", "?", ":"].iter().any(|symbol| self.is_symbol(symbol));
        let calls = self.is_symbol_at(self.ahead(1), "(") && matches!(self.token().kind, TokenKind::Word);
        opens || calls || self.is_constant() || self.is_keyword("NULL")
    }

    pub(super) fn tuple(&mut self) -> Result<Term, ParseError> {
        self.expect_symbol("(")?;
        let items = self.comma_list(Self::term)?;
        self.expect_symbol(")")?;
        Ok(Term::Tuple(items))
    }

    fn function(&mut self) -> Result<Term, ParseError> {
        let name = self.function_name()?;
        self.expect_symbol("(")?;
        if self.take_symbol(")") {
            return Ok(Term::Function { name, arguments: Vec::new() });
        }
        let arguments = self.comma_list(Self::term)?;
        self.expect_symbol(")")?;
        Ok(Term::Function { name, arguments })
    }

    /// `token` is reserved and a function all the same.
    pub(super) fn function_name(&mut self) -> Result<QualifiedName, ParseError> {
        if self.take_keyword("TOKEN") {
            return Ok(QualifiedName { keyspace: None, name: "token".to_string() });
        }
        self.table_name()
    }

    /// The right side of IN: `(a, b)`, `()` or a marker.
    pub(super) fn in_values(&mut self) -> Result<crate::ast::InValues, ParseError> {
        if let Some(index) = self.take_marker()? {
            return Ok(crate::ast::InValues::Marker(index));
        }
        self.expect_symbol("(")?;
        if self.take_symbol(")") {
            return Ok(crate::ast::InValues::Terms(Vec::new()));
        }
        let terms = self.comma_list(Self::term)?;
        self.expect_symbol(")")?;
        Ok(crate::ast::InValues::Terms(terms))
    }
}

#[cfg(test)]
mod tests {
    use crate::ast::{Statement, Term};
    use crate::parser::parse;

    fn term(text: &str) -> Term {
        match parse(&format!("INSERT INTO t (a) VALUES ({text})")).unwrap().statement {
            Statement::Insert(mut insert) => insert.values.remove(0),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn terms_show_as_they_were_written() {
        for text in [
            "1",
            "-1",
            "1.5",
            "-Infinity",
            "NaN",
            "'it''s'",
            "0xCAFE",
            "true",
            "NULL",
            "?",
            "[1, 2]",
            "[]",
            "{}",
            "{1, 2}",
            "{'a': 1, 'b': [2]}",
            "{street: 'x', \"No\": 1}",
            "(1, 'a', NULL)",
            "now()",
            "totimestamp(now())",
            "ks.f(?, 1)",
            "(int)1",
            "(list<int>)[1]",
            "(int)now()",
            "12h30m",
            "37f71aca-7dc2-383b-a706-72528af04d4f",
            "(now(), 1)",
            "token(1, 2)",
            "1 + 2 * 3 - 4",
            "(1 + 2) * -(3 - 4)",
            "1 - (2 - 3) % 5",
            "now() - 2h",
        ] {
            assert_eq!(term(text).to_string(), text);
        }
        assert_eq!(term("toTimestamp(NOW( ))").to_string(), "totimestamp(now())");
        assert_eq!(term("$$a'b$$"), Term::string("a'b"));
        assert_eq!(term("-nan").to_string(), "NaN");
        assert_eq!(term("TRUE").to_string(), "true");
        assert_eq!(term("(uuid())").to_string(), "(uuid())");
    }

    #[test]
    fn markers_are_counted_in_order() {
        let parsed = parse("INSERT INTO t (a, b, c) VALUES (?, [:Name, ?], (int)?)").unwrap();
        assert_eq!(parsed.markers, [None, Some("name".to_string()), None, None]);
        let Statement::Insert(insert) = parsed.statement else { panic!("not INSERT") };
        assert_eq!(insert.values[1], Term::List(vec![Term::Marker(1), Term::Marker(2)]));
        let mut seen = Vec::new();
        insert.values.iter().for_each(|value| value.for_each_marker(&mut |index| seen.push(index)));
        assert_eq!(seen, [0, 1, 2, 3]);
    }

    #[test]
    fn refusals() {
        for bad in [
            "a",
            "1 +",
            "1 + a",
            "* 1",
            "[1",
            "{1: 2, 3}",
            "{1, 2: 3}",
            "{a: 1, 2}",
            "()",
            "f(",
            "1 2",
            "select",
            "(int)",
        ] {
            assert!(parse(&format!("INSERT INTO t (a) VALUES ({bad})")).is_err(), "{bad}");
        }
    }
}
