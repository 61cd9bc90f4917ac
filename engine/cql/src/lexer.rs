//! Text to tokens, by the rules of Cassandra's `Lexer.g`: a minus sign directly before digits belongs to the number,
//! durations and UUIDs are tokens of their own, keywords are identifiers that the parser knows.

use std::borrow::Cow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A bare word; its case does not matter.
    Word,
    /// `"Name"`
    QuotedName,
    String,
    Integer,
    Float,
    Boolean,
    Duration,
    Hex,
    Uuid,
    /// Punctuation of one or two characters.
    Symbol,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    /// Byte range in the text.
    pub start: usize,
    pub end: usize,
}

/// Where the text stops making sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LexError {
    pub at: usize,
    pub message: String,
}

/// Cassandra's `reserved_keywords.txt`, sorted: they are no identifiers unless quoted.
const RESERVED: [&str; 57] = [
    "ADD",
    "ALLOW",
    "ALTER",
    "AND",
    "APPLY",
    "ASC",
    "AUTHORIZE",
    "BATCH",
    "BEGIN",
    "BY",
    "COLUMNFAMILY",
    "CREATE",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DROP",
    "ENTRIES",
    "EXECUTE",
    "FROM",
    "FULL",
    "GRANT",
    "IF",
    "IN",
    "INDEX",
    "INFINITY",
    "INSERT",
    "INTO",
    "IS",
    "KEYSPACE",
    "LIMIT",
    "MATERIALIZED",
    "MODIFY",
    "NAN",
    "NORECURSIVE",
    "NOT",
    "NULL",
    "OF",
    "ON",
    "OR",
    "ORDER",
    "PRIMARY",
    "RENAME",
    "REVOKE",
    "SCHEMA",
    "SELECT",
    "SET",
    "TABLE",
    "TO",
    "TOKEN",
    "TRUNCATE",
    "UNLOGGED",
    "UPDATE",
    "USE",
    "USING",
    "VIEW",
    "WHERE",
    "WITH",
];

/// Longest reserved word, `MATERIALIZED` or `COLUMNFAMILY`.
const RESERVED_LEN_MAX: usize = 12;

pub fn is_reserved(word: &str) -> bool {
    word.len() <= RESERVED_LEN_MAX && RESERVED.binary_search(&word.to_ascii_uppercase().as_str()).is_ok()
}

/// A name as it must be written to be read back: in quotes if its case, characters or meaning ask for them.
pub fn quote_identifier(name: &str) -> String {
    let quoted = types::quote_identifier(name);
    if quoted == name && (is_reserved(name) || matches!(name, "true" | "false")) {
        return format!("\"{name}\"");
    }
    quoted
}

/// All tokens, [`TokenKind::End`] last.
pub fn tokens(text: &str) -> Result<Vec<Token>, LexError> {
    let mut lexer = Lexer { text, bytes: text.as_bytes(), at: 0 };
    let mut list = Vec::with_capacity(text.len() / 4 + 1);
    loop {
        lexer.skip_blanks()?;
        let start = lexer.at;
        let kind = lexer.token()?;
        list.push(Token { kind, start, end: lexer.at });
        if kind == TokenKind::End {
            return Ok(list);
        }
    }
}

/// What a string token says, without its quotes.
pub fn string_value<'a>(text: &'a str, token: &Token) -> Cow<'a, str> {
    let raw = &text[token.start..token.end];
    match raw.strip_prefix("$$") {
        Some(rest) => Cow::Borrowed(rest.strip_suffix("$$").unwrap_or(rest)),
        None => unquoted(raw, "'", "''"),
    }
}

/// What a quoted name says, without its quotes.
pub fn quoted_name_value<'a>(text: &'a str, token: &Token) -> Cow<'a, str> {
    unquoted(&text[token.start..token.end], "\"", "\"\"")
}

fn unquoted<'a>(raw: &'a str, quote: &str, doubled: &str) -> Cow<'a, str> {
    let inner = &raw[1..raw.len() - 1];
    if inner.contains(doubled) { Cow::Owned(inner.replace(doubled, quote)) } else { Cow::Borrowed(inner) }
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn error(&self, message: String) -> LexError {
        LexError { at: self.at, message }
    }

    fn skip_blanks(&mut self) -> Result<(), LexError> {
        loop {
            match self.rest() {
                [b' ' | b'\t' | b'\n' | b'\r', ..] => self.at += 1,
                [b'-', b'-', ..] | [b'/', b'/', ..] => {
                    let len = self.rest().iter().position(|&b| b == b'\n' || b == b'\r');
                    self.at += len.unwrap_or(self.rest().len());
                }
                [b'/', b'*', ..] => match self.text[self.at + 2..].find("*/") {
                    Some(len) => self.at += len + 4,
                    None => return Err(self.error("mismatched character '<EOF>' expecting '*'".to_string())),
                },
                _ => return Ok(()),
            }
        }
    }

    fn token(&mut self) -> Result<TokenKind, LexError> {
        let Some(&first) = self.rest().first() else {
            return Ok(TokenKind::End);
        };
        if first.is_ascii_hexdigit() && self.take_uuid() {
            return Ok(TokenKind::Uuid);
        }
        let second = self.peek(1);
        match first {
            b'0'..=b'9' => Ok(self.number()),
            b'-' if second.is_ascii_digit() => Ok(self.number()),
            b'-' if self.take_iso_duration(1) => Ok(TokenKind::Duration),
            b'-' if second.is_ascii_alphabetic() => {
                let len = self.word_len(1);
                let word = &self.text[self.at + 1..self.at + 1 + len];
                if word.eq_ignore_ascii_case("nan") || word.eq_ignore_ascii_case("infinity") {
                    self.at += len + 1;
                    return Ok(TokenKind::Float);
                }
                self.at += 1;
                Ok(TokenKind::Symbol)
            }
            b'P' if self.take_iso_duration(0) => Ok(TokenKind::Duration),
            b'a'..=b'z' | b'A'..=b'Z' => {
                let len = self.word_len(0);
                let word = &self.text[self.at..self.at + len];
                let boolean = word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false");
                self.at += len;
                Ok(if boolean { TokenKind::Boolean } else { TokenKind::Word })
            }
            b'\'' => self.quoted(b'\'').map(|()| TokenKind::String),
            b'"' => {
                let start = self.at;
                self.quoted(b'"')?;
                if self.at - start == 2 {
                    self.at = start;
                    return Err(self.error("no viable alternative at input '\"\"'".to_string()));
                }
                Ok(TokenKind::QuotedName)
            }
            b'$' if second == b'$' => match self.text[self.at + 2..].find("$$") {
                Some(len) => {
                    self.at += len + 4;
                    Ok(TokenKind::String)
                }
                None => Err(self.error("mismatched character '<EOF>' expecting '$'".to_string())),
            },
            _ => self.symbol(),
        }
    }

    fn symbol(&mut self) -> Result<TokenKind, LexError> {
        let len = match self.rest() {
            [b'<' | b'>' | b'!' | b'+' | b'-', b'=', ..] | [b'.', b'.', ..] => 2,
            [b'(' | b')' | b'[' | b']' | b'{' | b'}' | b',' | b';' | b':' | b'.' | b'=' | b'<', ..] => 1,
            [b'>' | b'?' | b'*' | b'+' | b'-' | b'/' | b'%', ..] => 1,
            _ => {
                let found = self.text[self.at..].chars().next().unwrap_or('\0');
                return Err(self.error(format!("no viable alternative at character '{found}'")));
            }
        };
        self.at += len;
        Ok(TokenKind::Symbol)
    }

    /// To the closing quote; a doubled quote stands for one.
    fn quoted(&mut self, quote: u8) -> Result<(), LexError> {
        let mut at = self.at + 1;
        while let Some(&byte) = self.bytes.get(at) {
            at += 1;
            if byte == quote {
                if self.bytes.get(at) != Some(&quote) {
                    self.at = at;
                    return Ok(());
                }
                at += 1;
            }
        }
        Err(self.error(format!("mismatched character '<EOF>' expecting '{}'", quote as char)))
    }

    fn word_len(&self, ahead: usize) -> usize {
        self.rest()[ahead..].iter().take_while(|&&b| is_word_byte(b)).count()
    }

    fn take_uuid(&mut self) -> bool {
        let Some(candidate) = self.rest().get(..36) else {
            return false;
        };
        let shaped = candidate.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
        if shaped && !is_word_byte(self.peek(36)) {
            self.at += 36;
            return true;
        }
        false
    }

    /// Integer, float, hexadecimal or duration; at a digit or at a minus before one.
    fn number(&mut self) -> TokenKind {
        if self.peek(0) == b'0' && matches!(self.peek(1), b'x' | b'X') {
            self.at += 2;
            self.at += self.rest().iter().take_while(|b| b.is_ascii_hexdigit()).count();
            return TokenKind::Hex;
        }
        if let Some(len) = self.unit_duration_len() {
            self.at += len;
            return TokenKind::Duration;
        }
        self.at += usize::from(self.peek(0) == b'-');
        self.skip_digits();
        let mut kind = TokenKind::Integer;
        // `1..2` is a range, not `1.` and `.2`.
        if self.peek(0) == b'.' && self.peek(1) != b'.' {
            self.at += 1;
            self.skip_digits();
            kind = TokenKind::Float;
        }
        if matches!(self.peek(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if self.peek(1 + sign).is_ascii_digit() {
                self.at += 1 + sign;
                self.skip_digits();
                kind = TokenKind::Float;
            }
        }
        kind
    }

    fn skip_digits(&mut self) {
        self.at += self.rest().iter().take_while(|b| b.is_ascii_digit()).count();
    }

    /// Length of `-? (digits unit)+`, if it ends where a word could end.
    fn unit_duration_len(&self) -> Option<usize> {
        let rest = self.rest();
        let mut at = usize::from(rest.first() == Some(&b'-'));
        let mut parts = 0;
        loop {
            let digits = rest[at..].iter().take_while(|b| b.is_ascii_digit()).count();
            if digits == 0 {
                break;
            }
            let unit = unit_len(&rest[at + digits..])?;
            at += digits + unit;
            parts += 1;
        }
        let ends = rest.get(at).is_none_or(|&b| !is_word_byte(b));
        (parts > 0 && ends).then_some(at)
    }

    /// `P..` of ISO 8601 after `skip` bytes, if the whole word has its shape.
    fn take_iso_duration(&mut self, skip: usize) -> bool {
        let rest = &self.rest()[skip..];
        if rest.first() != Some(&b'P') {
            return false;
        }
        let alternative = b"P0000-00-00T00:00:00";
        let shape = |b: &u8| if b.is_ascii_digit() { b'0' } else { *b };
        let mut len = 1 + rest[1..].iter().take_while(|b| is_word_byte(**b)).count();
        if rest.get(..alternative.len()).is_some_and(|head| head.iter().map(shape).eq(alternative.iter().copied())) {
            len = alternative.len();
        }
        let candidate = &self.text[self.at + skip..self.at + skip + len];
        // The word must hold a digit right after P or T: `P` alone and words such as `Price` are names.
        let digit_follows = matches!(rest.get(1), Some(b'0'..=b'9' | b'T'));
        if digit_follows && types::duration::CqlDuration::parse(candidate).is_ok() {
            self.at += skip + len;
            return true;
        }
        false
    }
}

fn unit_len(rest: &[u8]) -> Option<usize> {
    let lower = |at: usize| rest.get(at).map(u8::to_ascii_lowercase);
    match (lower(0)?, lower(1)) {
        (b'm', Some(b'o' | b's')) | (b'u' | b'n', Some(b's')) => Some(2),
        (b'y' | b'w' | b'd' | b'h' | b'm' | b's', _) => Some(1),
        // µs, in UTF-8.
        (0xC2, Some(0xB5)) if lower(2) == Some(b's') => Some(3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expect: &[(TokenKind, &str)]) {
        let got: Vec<_> = tokens(text).unwrap().iter().map(|t| (t.kind, &text[t.start..t.end])).collect();
        assert_eq!(got[..got.len() - 1], *expect, "{text}");
    }

    #[test]
    fn kinds() {
        use TokenKind::*;
        check("SELECT a", &[(Word, "SELECT"), (Word, "a")]);
        check("-1 - 1", &[(Integer, "-1"), (Symbol, "-"), (Integer, "1")]);
        check("c=c-3", &[(Word, "c"), (Symbol, "="), (Word, "c"), (Integer, "-3")]);
        check("1.5 1. 1e5 -1.5E-3", &[(Float, "1.5"), (Float, "1."), (Float, "1e5"), (Float, "-1.5E-3")]);
        check("1..2", &[(Integer, "1"), (Symbol, ".."), (Integer, "2")]);
        check("0x 0xCAFE", &[(Hex, "0x"), (Hex, "0xCAFE")]);
        check(
            "1h30m 2MO -3d5ns 4µs",
            &[(Duration, "1h30m"), (Duration, "2MO"), (Duration, "-3d5ns"), (Duration, "4µs")],
        );
        check(
            "P1Y2M P4W -PT5M P0001-02-03T04:05:06",
            &[(Duration, "P1Y2M"), (Duration, "P4W"), (Duration, "-PT5M"), (Duration, "P0001-02-03T04:05:06")],
        );
        check("Price P pt", &[(Word, "Price"), (Word, "P"), (Word, "pt")]);
        check("true FALSE truth", &[(Boolean, "true"), (Boolean, "FALSE"), (Word, "truth")]);
        check("-NaN -Infinity nan", &[(Float, "-NaN"), (Float, "-Infinity"), (Word, "nan")]);
        check("'it''s' \"A\"\"b\" $$x'$y$$", &[(String, "'it''s'"), (QuotedName, "\"A\"\"b\""), (String, "$$x'$y$$")]);
        check("37f71aca-7dc2-383b-a706-72528af04d4f", &[(Uuid, "37f71aca-7dc2-383b-a706-72528af04d4f")]);
        check("cafebabe-1", &[(Word, "cafebabe"), (Integer, "-1")]);
        check(
            "a<=b!=?:x",
            &[(Word, "a"), (Symbol, "<="), (Word, "b"), (Symbol, "!="), (Symbol, "?"), (Symbol, ":"), (Word, "x")],
        );
    }

    #[test]
    fn blanks_and_comments() {
        use TokenKind::*;
        check("a -- one\n b // two\r c /* three\n */ d --end", &[(Word, "a"), (Word, "b"), (Word, "c"), (Word, "d")]);
        assert!(tokens("/* open").is_err());
    }

    #[test]
    fn values_lose_their_quotes() {
        let value = |text: &str| string_value(text, &tokens(text).unwrap()[0]).into_owned();
        assert_eq!(value("'it''s'"), "it's");
        assert_eq!(value("''"), "");
        assert_eq!(value("''''"), "'");
        assert_eq!(value("$$a''b$$"), "a''b");
        let name = "\"A\"\"b\"";
        assert_eq!(quoted_name_value(name, &tokens(name).unwrap()[0]), "A\"b");
    }

    #[test]
    fn refusals() {
        for bad in ["'open", "\"open", "\"\"", "$$open", "#", "é", "a \\ b", "!"] {
            assert!(tokens(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn reserved_words() {
        assert!(RESERVED.is_sorted());
        assert!(is_reserved("select") && is_reserved("MATERIALIZED") && is_reserved("Token"));
        for free in ["key", "type", "keyspace_name", "ttl", "count", "json", "values", "timestamp", "list", "user"] {
            assert!(!is_reserved(free), "{free}");
        }
        assert_eq!(quote_identifier("order"), "\"order\"");
        assert_eq!(quote_identifier("key"), "key");
        assert_eq!(quote_identifier("Key"), "\"Key\"");
    }

    proptest! {
        #[test]
        fn never_panics(text in ".*") {
            if let Ok(list) = tokens(&text) {
                for token in list {
                    prop_assert!(text.get(token.start..token.end).is_some());
                }
            }
        }
    }
}
