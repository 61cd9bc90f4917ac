//! Tokens to [`Statement`], by recursive descent over Cassandra's `Parser.g`.
//!
//! Errors are worded and placed as Cassandra's are: `line 1:9 no viable alternative at input 'FORM' (SELECT *
//! [FORM]...)`. Nesting is bounded, so that no text exhausts the stack. Nothing here knows a schema.

mod access;
mod definition;
mod derived;
mod function;
mod modification;
mod select;
mod term;
mod type_name;
mod user_type;

use std::borrow::Cow;

use crate::ast::{QualifiedName, Statement, Term};
use crate::lexer::{self, Token, TokenKind};

/// Collections, casts and types nested deeper than this are refused.
const DEPTH_MAX: u32 = 32;
/// Markers have 16-bit positions in the protocol.
const MARKERS_MAX: usize = u16::MAX as usize;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Code 0x2000.
    #[error("{0}")]
    Syntax(String),
    /// Code 0x2200: the text is CQL, but names a type or asks for a statement that does not exist here.
    #[error("{0}")]
    Invalid(String),
}

impl From<ParseError> for crate::response::Error {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::Syntax(message) => crate::response::Error::syntax(message),
            ParseError::Invalid(message) => crate::response::Error::invalid(message),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    pub statement: Statement,
    /// The bind markers in order, each with its name if it was `:name`.
    pub markers: Vec<Option<String>>,
}

/// One statement, with or without semicolons behind it. Each marker is a variable of its own, as in Cassandra.
pub fn parse(text: &str) -> Result<Parsed, ParseError> {
    parse_with(text, false)
}

/// [`parse`]; if `names_are_variables`, markers of one name are one variable, as in ScyllaDB.
pub fn parse_with(text: &str, names_are_variables: bool) -> Result<Parsed, ParseError> {
    let tokens = lexer::tokens(text)
        .map_err(|error| ParseError::Syntax(format!("line {} {}", position(text, error.at), error.message)))?;
    let mut parser = Parser { text, tokens, at: 0, markers: Vec::new(), depth: 0, names_are_variables };
    let statement = parser.statement()?;
    while parser.take_symbol(";") {}
    if parser.token().kind != TokenKind::End {
        return Err(parser.mismatch("EOF"));
    }
    Ok(Parsed { statement, markers: parser.markers })
}

/// A type as DDL writes it: `frozen<map<text, int>>`.
pub fn parse_type(text: &str) -> Result<types::CqlType, ParseError> {
    let tokens = lexer::tokens(text)
        .map_err(|error| ParseError::Syntax(format!("line {} {}", position(text, error.at), error.message)))?;
    let mut parser = Parser { text, tokens, at: 0, markers: Vec::new(), depth: 0, names_are_variables: false };
    let ty = parser.type_name()?;
    if parser.token().kind != TokenKind::End {
        return Err(parser.mismatch("EOF"));
    }
    Ok(ty)
}

/// `line:column`, lines from one and columns from zero, in characters.
fn position(text: &str, at: usize) -> String {
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    format!("{}:{}", 1 + before.matches('\n').count(), before[line_start..].chars().count())
}

/// Tokens shown before and after the offending one.
const SNIPPET_BEFORE: usize = 5;
const SNIPPET_AFTER: usize = 1;

struct Parser<'a> {
    text: &'a str,
    /// The last one is the end; `at` never passes it.
    tokens: Vec<Token>,
    at: usize,
    markers: Vec<Option<String>>,
    depth: u32,
    names_are_variables: bool,
}

/// Where to come back to when an alternative fails.
struct Mark {
    at: usize,
    markers: usize,
}

impl<'a> Parser<'a> {
    fn token(&self) -> Token {
        self.tokens[self.at]
    }

    fn ahead(&self, count: usize) -> Token {
        self.tokens[(self.at + count).min(self.tokens.len() - 1)]
    }

    fn raw(&self, token: Token) -> &'a str {
        &self.text[token.start..token.end]
    }

    fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    fn mark(&self) -> Mark {
        Mark { at: self.at, markers: self.markers.len() }
    }

    fn reset(&mut self, mark: Mark) {
        self.at = mark.at;
        self.markers.truncate(mark.markers);
    }

    /// Runs `inner` one level deeper.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, ParseError>) -> Result<T, ParseError> {
        if self.depth == DEPTH_MAX {
            return Err(self.error("the nesting is too deep"));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    // --- Errors ---

    fn error(&self, message: &str) -> ParseError {
        let place = position(self.text, self.token().start);
        ParseError::Syntax(format!("line {place} {message}{}", self.snippet()))
    }

    fn no_viable_alternative(&self) -> ParseError {
        self.error(&format!("no viable alternative at input '{}'", self.shown()))
    }

    fn mismatch(&self, expected: &str) -> ParseError {
        self.error(&format!("mismatched input '{}' expecting {expected}", self.shown()))
    }

    fn shown(&self) -> Cow<'a, str> {
        let token = self.token();
        match token.kind {
            TokenKind::End => Cow::Borrowed("<EOF>"),
            TokenKind::String => lexer::string_value(self.text, &token),
            TokenKind::QuotedName => lexer::quoted_name_value(self.text, &token),
            _ => Cow::Borrowed(self.raw(token)),
        }
    }

    /// ` (..before [offending] after..)`, empty when nothing was written.
    fn snippet(&self) -> String {
        let last = self.tokens.len() - 1;
        if last == 0 {
            return String::new();
        }
        let from = self.at.saturating_sub(SNIPPET_BEFORE);
        let to = (self.at + SNIPPET_AFTER).min(last);
        let offending = self.token();
        let text = |start: usize, end: usize| self.text[start..end].replace(['\n', '\r'], " ");
        let begin = self.tokens[from].start;
        let end = self.tokens[to].end;
        let leading = if begin == 0 { "" } else { "..." };
        let trailing = if to + 1 >= last { "" } else { "..." };
        format!(
            " ({leading}{}[{}]{}{trailing})",
            text(begin, offending.start),
            text(offending.start, offending.end),
            text(offending.end, end.max(offending.end)),
        )
    }

    // --- Words and symbols ---

    fn is_keyword_at(&self, token: Token, keyword: &str) -> bool {
        token.kind == TokenKind::Word && self.raw(token).eq_ignore_ascii_case(keyword)
    }

    fn is_keyword(&self, keyword: &str) -> bool {
        self.is_keyword_at(self.token(), keyword)
    }

    fn take_keyword(&mut self, keyword: &str) -> bool {
        let found = self.is_keyword(keyword);
        if found {
            self.advance();
        }
        found
    }

    fn expect_keyword(&mut self, keyword: &str) -> Result<(), ParseError> {
        if self.take_keyword(keyword) { Ok(()) } else { Err(self.mismatch(&format!("K_{keyword}"))) }
    }

    /// Several in a row or an error; nothing is taken when the first is another.
    fn take_keywords(&mut self, keywords: &[&str]) -> Result<bool, ParseError> {
        if !self.take_keyword(keywords[0]) {
            return Ok(false);
        }
        for keyword in &keywords[1..] {
            self.expect_keyword(keyword)?;
        }
        Ok(true)
    }

    fn is_symbol_at(&self, token: Token, symbol: &str) -> bool {
        token.kind == TokenKind::Symbol && self.raw(token) == symbol
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        self.is_symbol_at(self.token(), symbol)
    }

    fn take_symbol(&mut self, symbol: &str) -> bool {
        let found = self.is_symbol(symbol);
        if found {
            self.advance();
        }
        found
    }

    fn expect_symbol(&mut self, symbol: &str) -> Result<(), ParseError> {
        if self.take_symbol(symbol) { Ok(()) } else { Err(self.mismatch(&format!("'{symbol}'"))) }
    }

    /// `item (',' item)*`
    fn comma_list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, ParseError>,
    ) -> Result<Vec<T>, ParseError> {
        let mut list = vec![item(self)?];
        while self.take_symbol(",") {
            list.push(item(self)?);
        }
        Ok(list)
    }

    // --- Names ---

    fn is_identifier_at(&self, token: Token) -> bool {
        match token.kind {
            TokenKind::Word => !lexer::is_reserved(self.raw(token)),
            TokenKind::QuotedName => true,
            _ => false,
        }
    }

    fn identifier(&mut self) -> Result<String, ParseError> {
        let token = self.token();
        if !self.is_identifier_at(token) {
            return Err(self.no_viable_alternative());
        }
        self.advance();
        Ok(match token.kind {
            TokenKind::QuotedName => lexer::quoted_name_value(self.text, &token).into_owned(),
            _ => self.raw(token).to_ascii_lowercase(),
        })
    }

    fn keyspace_name(&mut self) -> Result<String, ParseError> {
        if self.is_symbol("?") {
            return Err(self.error("Bind variables cannot be used for keyspace names"));
        }
        self.identifier()
    }

    fn table_name(&mut self) -> Result<QualifiedName, ParseError> {
        if self.is_symbol("?") {
            return Err(self.error("Bind variables cannot be used for table names"));
        }
        let first = self.identifier()?;
        if self.take_symbol(".") {
            return Ok(QualifiedName { keyspace: Some(first), name: self.identifier()? });
        }
        Ok(QualifiedName { keyspace: None, name: first })
    }

    // --- Clauses that several statements have ---

    fn if_not_exists(&mut self) -> Result<bool, ParseError> {
        self.take_keywords(&["IF", "NOT", "EXISTS"])
    }

    fn if_exists(&mut self) -> Result<bool, ParseError> {
        self.take_keywords(&["IF", "EXISTS"])
    }

    /// `?` or `:name`, if one is here.
    fn take_marker(&mut self) -> Result<Option<u16>, ParseError> {
        let name = if self.take_symbol("?") {
            None
        } else if self.take_symbol(":") {
            Some(self.identifier()?)
        } else {
            return Ok(None);
        };
        if self.names_are_variables
            && name.is_some()
            && let Some(known) = self.markers.iter().position(|known| *known == name)
        {
            return Ok(Some(known as u16));
        }
        if self.markers.len() == MARKERS_MAX {
            return Err(self.error("too many bind markers"));
        }
        self.markers.push(name);
        Ok(Some((self.markers.len() - 1) as u16))
    }

    /// An integer or a marker, of LIMIT and USING.
    fn integer_value(&mut self) -> Result<Term, ParseError> {
        if let Some(index) = self.take_marker()? {
            return Ok(Term::Marker(index));
        }
        if self.token().kind != TokenKind::Integer {
            return Err(self.no_viable_alternative());
        }
        self.constant()
    }

    fn statement(&mut self) -> Result<Statement, ParseError> {
        let token = self.token();
        if token.kind != TokenKind::Word {
            return Err(self.no_viable_alternative());
        }
        match self.raw(token).to_ascii_uppercase().as_str() {
            "SELECT" => self.select().map(Statement::Select),
            "INSERT" => self.insert(),
            "UPDATE" => self.update().map(Statement::Update),
            "DELETE" => self.delete().map(Statement::Delete),
            "BEGIN" => self.batch().map(Statement::Batch),
            "USE" => {
                self.advance();
                self.keyspace_name().map(Statement::Use)
            }
            "TRUNCATE" => {
                self.advance();
                let _ = self.take_keyword("TABLE") || self.take_keyword("COLUMNFAMILY");
                let table = self.table_name()?;
                let timeout = self.using_only(&["TIMEOUT"])?.timeout;
                Ok(Statement::Truncate { table, timeout })
            }
            "CREATE" => self.create(),
            "ALTER" => self.alter(),
            "DROP" => self.drop(),
            "GRANT" => self.grant(),
            "REVOKE" => self.revoke(),
            "LIST" => self.list_access(),
            "ATTACH" => self.attach(),
            "DETACH" => self.detach(),
            "PRUNE" => self.prune(),
            verb @ ("DESCRIBE" | "DESC") => Err(ParseError::Invalid(format!("{verb} statements are not supported"))),
            _ => Err(self.no_viable_alternative()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn syntax(text: &str) -> String {
        match parse(text) {
            Err(ParseError::Syntax(message)) => message,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn errors_say_where() {
        assert_eq!(syntax("SELECT * FORM t"), "line 1:9 mismatched input 'FORM' expecting K_FROM (SELECT * [FORM] t)");
        assert_eq!(syntax(""), "line 1:0 no viable alternative at input '<EOF>'");
        assert_eq!(syntax("SELEC"), "line 1:0 no viable alternative at input 'SELEC' ([SELEC])");
        assert_eq!(
            syntax("SELECT a\nFROM t WHERE"),
            "line 2:12 no viable alternative at input '<EOF>' (...a FROM t WHERE[])".replace("...a", "SELECT a")
        );
        assert_eq!(
            syntax("SELECT a, b, c, d, e FROM order WHERE k = 1"),
            "line 1:26 no viable alternative at input 'order' (...c, d, e FROM [order] WHERE...)"
                .replace("...c, d, e", "..., d, e")
        );
        assert_eq!(syntax("USE 'x'"), "line 1:4 no viable alternative at input 'x' (USE ['x'])");
        assert_eq!(syntax("USE 'x"), "line 1:4 mismatched character '<EOF>' expecting '''");
        assert_eq!(syntax("USE a b"), "line 1:6 mismatched input 'b' expecting EOF (USE a [b])");
        assert!(syntax(&format!("INSERT INTO t (a) VALUES ({}1", "[".repeat(100_000))).contains("nesting"));
        assert!(syntax(&format!("CREATE TABLE t (a {}", "frozen<".repeat(100_000))).contains("nesting"));
        assert!(syntax(&format!("SELECT {}", "f(".repeat(100_000))).contains("nesting"));
        assert!(syntax(&format!("SELECT a FROM t WHERE {}", "(".repeat(100_000))).contains("nesting"));
        assert_eq!(parse("DESCRIBE t"), Err(ParseError::Invalid("DESCRIBE statements are not supported".to_string())));
    }

    #[test]
    fn small_statements() {
        let statement = |text: &str| parse(text).unwrap().statement;
        let table = |keyspace: Option<&str>, name: &str| QualifiedName {
            keyspace: keyspace.map(str::to_string),
            name: name.to_string(),
        };
        assert_eq!(statement("USE Ks;"), Statement::Use("ks".to_string()));
        assert_eq!(statement("use \"Ks\" ; ;"), Statement::Use("Ks".to_string()));
        let truncate = |table| Statement::Truncate { table, timeout: None };
        assert_eq!(statement("TRUNCATE a.b"), truncate(table(Some("a"), "b")));
        assert_eq!(statement("-- c\nTRUNCATE TABLE type /* x */"), truncate(table(None, "type")));
    }

    proptest! {
        #[test]
        fn never_panics(text in ".*") {
            let _ = parse(&text);
        }

        #[test]
        fn shuffled_cql_never_panics(words in proptest::collection::vec(prop_oneof![
            Just("SELECT"), Just("FROM"), Just("WHERE"), Just("INSERT INTO"), Just("VALUES"), Just("UPDATE"), Just("SET"),
            Just("("), Just(")"), Just(","), Just("?"), Just("="), Just("'x'"), Just("1"), Just("t"), Just("IF"), Just("IN"),
            Just("{"), Just("}"), Just("["), Just("]"), Just(":"), Just("CREATE TABLE"), Just("int"), Just("<"), Just(">"),
            Just("PRIMARY KEY"), Just("AND"), Just("token"), Just("."), Just("*"), Just("null"), Just("DELETE"), Just("ORDER BY"),
            Just("BEGIN BATCH"), Just("APPLY BATCH"), Just("é"), Just(";"), Just("USING TTL"), Just("WITH"), Just("frozen"),
        ], 0..25)) {
            let _ = parse(&words.join(" "));
        }
    }
}
