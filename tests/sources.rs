//! The project's own text, as `tidy.rs` reads it: every tracked-looking file below the root, and Rust code without its
//! comments, strings and tests.

use std::fs;
use std::path::{Path, PathBuf};

use crate::binary;

/// A file of the checkout.
pub struct Source {
    /// Relative to the root, with `/`.
    pub path: String,
    pub text: String,
}

impl Source {
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the file lies in or is one of these places.
    pub fn within(&self, places: &[&str]) -> bool {
        places.iter().any(|place| self.path == *place || self.path.starts_with(&format!("{place}/")))
    }

    /// The file's code: see [`code`].
    pub fn code(&self) -> String {
        code(&self.text)
    }

    /// Whether none of the file is in what is delivered: tests, benchmarks, examples, and modules that only tests
    /// include.
    pub fn is_test(&self) -> bool {
        self.path.split('/').any(|part| matches!(part, "tests" | "benches" | "examples")) || self.is_test_module()
    }

    /// Whether the file is the test module of the code beside it.
    pub fn is_test_module(&self) -> bool {
        self.path.ends_with("/tests.rs")
    }
}

/// Every file of the checkout that is text: not `target`, not what runs leave behind, nothing hidden but the project's
/// own settings.
pub fn all() -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![binary::checkout().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the checkout") {
            let path = entry.expect("a folder of the checkout").path();
            let name = relative(&path);
            // A benchmark that is a workspace of its own has its own `target`.
            if path.is_symlink()
                || path.ends_with("target")
                || ["out", "orrery-data", ".git", "Cargo.lock", "LICENSE"].contains(&name.as_str())
            {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                found.push(Source { path: name, text });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

/// The Rust files.
pub fn rust() -> Vec<Source> {
    all().into_iter().filter(Source::is_rust).collect()
}

fn relative(path: &Path) -> String {
    let inside: PathBuf = path.strip_prefix(binary::checkout()).expect("below the root").into();
    inside.to_string_lossy().replace('\\', "/")
}

/// Rust text with comments and the insides of literals blanked and with items under `#[cfg(test)]` removed; lines keep
/// their numbers.
pub fn code(text: &str) -> String {
    without_tests(&without_comments_and_literals(text))
}

fn without_comments_and_literals(text: &str) -> String {
    let bytes: Vec<char> = text.chars().collect();
    let mut kept = String::with_capacity(text.len());
    let mut at = 0;
    let starts = |at: usize, pattern: &str| pattern.chars().enumerate().all(|(n, c)| bytes.get(at + n) == Some(&c));
    while at < bytes.len() {
        if starts(at, "//") {
            while at < bytes.len() && bytes[at] != '\n' {
                at += 1;
            }
        } else if starts(at, "/*") {
            let mut depth = 0;
            loop {
                if starts(at, "/*") {
                    (depth, at) = (depth + 1, at + 2);
                } else if starts(at, "*/") {
                    (depth, at) = (depth - 1, at + 2);
                } else {
                    if bytes.get(at) == Some(&'\n') {
                        kept.push('\n');
                    }
                    at += 1;
                }
                if depth == 0 || at >= bytes.len() {
                    break;
                }
            }
        } else if let Some((hashes, open)) = raw_string(&bytes, at) {
            let close: String = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
            kept.push_str("\"\"");
            at += open;
            while at < bytes.len() && !starts(at, &close) {
                if bytes[at] == '\n' {
                    kept.push('\n');
                }
                at += 1;
            }
            at += close.len();
        } else if bytes[at] == '"' {
            kept.push_str("\"\"");
            at += 1;
            while at < bytes.len() && bytes[at] != '"' {
                if bytes[at] == '\n' {
                    kept.push('\n');
                }
                at += if bytes[at] == '\\' && bytes.get(at + 1) != Some(&'\n') { 2 } else { 1 };
            }
            at += 1;
        } else if bytes[at] == '\'' && (bytes.get(at + 1) == Some(&'\\') || bytes.get(at + 2) == Some(&'\'')) {
            kept.push_str("''");
            at += if bytes[at + 1] == '\\' { 3 } else { 2 };
            while at < bytes.len() && bytes[at] != '\'' {
                at += 1;
            }
            at += 1;
        } else {
            kept.push(bytes[at]);
            at += 1;
        }
    }
    kept
}

/// `r"`, `r#"`, `br##"`: the number of hashes and the length of the opening.
fn raw_string(bytes: &[char], at: usize) -> Option<(usize, usize)> {
    if at > 0 && (bytes[at - 1].is_alphanumeric() || bytes[at - 1] == '_') {
        return None;
    }
    let mut open = if bytes[at] == 'b' && bytes.get(at + 1) == Some(&'r') { 2 } else { usize::from(bytes[at] == 'r') };
    if open == 0 {
        return None;
    }
    let mut hashes = 0;
    while bytes.get(at + open) == Some(&'#') {
        (hashes, open) = (hashes + 1, open + 1);
    }
    (bytes.get(at + open) == Some(&'"')).then_some((hashes, open + 1))
}

/// Blanks the item after each `#[cfg(test)]`: up to its closing brace, or to its semicolon.
fn without_tests(code: &str) -> String {
    let mut kept = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find("#[cfg(test)]") {
        kept.push_str(&rest[..at]);
        let item = &rest[at..];
        let mut depth = 0;
        let mut end = item.len();
        for (n, c) in item.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 && (c == '}' || c == ';') {
                end = n + 1;
                break;
            }
        }
        kept.extend(item[..end].chars().filter(|c| *c == '\n'));
        rest = &item[end..];
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::code;

    #[test]
    fn comments_and_literals_are_blank() {
        assert_eq!(code("a // unsafe\nb /* x /* y */ \n */ c"), "a \nb \n c");
        assert_eq!(code(r##"f("un\"safe", r#"a"b"#, '"', '\'', b"x", 'a')"##), r#"f("", "", '', '', b"", '')"#);
        assert_eq!(code("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
    }

    #[test]
    fn test_items_are_blank() {
        assert_eq!(code("a\n#[cfg(test)]\nmod tests {\n fn f() { x }\n}\nb"), "a\n\n\n\n\nb".replacen('\n', "", 0));
        assert_eq!(code("#[cfg(test)]\nmod tests;\nb"), "\n\nb".replacen('\n', "", 0));
    }
}
