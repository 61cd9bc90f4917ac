//! Statements without the passwords in them.

use std::borrow::Cow;

/// What stands in a password's place.
const MASK: &str = "'***'";

/// The statement's text with every literal masked that follows the word `PASSWORD`, also in a statement that is wrong.
pub(super) fn masked(text: &str) -> Cow<'_, str> {
    const WORD: &[u8] = b"password";
    let bytes = text.as_bytes();
    let mut out = String::new();
    let mut written = 0;
    let mut at = 0;
    while let Some(found) = (at..bytes.len().saturating_sub(WORD.len() - 1))
        .find(|&at| bytes[at..at + WORD.len()].eq_ignore_ascii_case(WORD))
    {
        at = found + WORD.len();
        // Up to the next literal, and not beyond the statement.
        let rest = &text[at..];
        let Some(begin) = rest.find(['\'', '$', ';']).map(|begin| at + begin) else { break };
        let end = match bytes[begin] {
            b'\'' => end_of_quoted(bytes, begin),
            b'$' => text[begin..].get(2..).and_then(|rest| rest.find("$$")).map_or(text.len(), |end| begin + end + 4),
            _ => continue,
        };
        out.push_str(&text[written..begin]);
        out.push_str(MASK);
        written = end;
        at = end;
    }
    if written == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[written..]);
    Cow::Owned(out)
}

/// Behind the quote that ends a literal, in which two quotes are one.
fn end_of_quoted(bytes: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'\'', Some(b'\'')) => at += 2,
            (b'\'', _) => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(masked(text), expected);
    }

    #[test]
    fn passwords_are_masked() {
        check("SELECT 'x' FROM t", "SELECT 'x' FROM t");
        check(
            "CREATE ROLE r WITH PASSWORD = 'se''cret' AND LOGIN = true",
            "CREATE ROLE r WITH PASSWORD = '***' AND LOGIN = true",
        );
        check("alter user u with password 'a'; x 'y'", "alter user u with password '***'; x 'y'");
        check(
            "CREATE ROLE r WITH HASHED PASSWORD = $$ab$$ AND x = 'é'",
            "CREATE ROLE r WITH HASHED PASSWORD = '***' AND x = 'é'",
        );
    }

    #[test]
    fn wrong_statements_keep_theirs_too() {
        check("CREATE ROLE r WITH PASSWORD = 'never ended", "CREATE ROLE r WITH PASSWORD = '***'");
        check("PASSWORD $$never", "PASSWORD '***'");
        check("PASSWORD é'x' PASSWORD 'y'", "PASSWORD é'***' PASSWORD '***'");
        check("PASSWORD $", "PASSWORD '***'");
        check("pass", "pass");
    }
}
