//! The one way from a YAML file to a typed value, for profiles and scenarios alike.
//!
//! Every failure knows its file, line and column and shows the line it happened on; an unknown key or variant comes
//! with the nearest known one. Enums are externally tagged and written as maps with one key.

use std::fmt;
use std::ops::Range;

use miette::{Diagnostic, NamedSource, SourceSpan};
use serde::de::DeserializeOwned;

use crate::nearest::nearest;

/// A mistake in a YAML file, with its place. Rendered by `miette`.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{message}")]
pub struct DocumentError {
    pub message: String,
    pub file: String,
    /// Counted from 1; 0 when the mistake has no place, such as a missing file.
    pub line: usize,
    pub column: usize,
    #[source_code]
    source_code: NamedSource<String>,
    #[label("{label}")]
    span: Option<SourceSpan>,
    label: String,
    #[help]
    pub help: Option<String>,
}

/// A YAML text with its file name; what positions refer to.
#[derive(Clone, Debug)]
pub struct Document {
    pub file: String,
    pub text: String,
}

impl Document {
    pub fn new(file: impl Into<String>, text: impl Into<String>) -> Self {
        Self { file: file.into(), text: text.into() }
    }

    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Box<DocumentError>> {
        serde_yaml::with::singleton_map_recursive::deserialize(serde_yaml::Deserializer::from_str(&self.text))
            .map_err(|error| self.located(&error))
    }

    fn located(&self, error: &serde_yaml::Error) -> Box<DocumentError> {
        let place = error.location().map(|l| self.offset(l.line(), l.column()));
        let text = strip_position(&error.to_string());
        let (message, help) = explain(&text);
        match place {
            Some(offset) => self.error_at(self.snap(offset, &text), message, "here", help),
            None => self.error_nowhere(message, help),
        }
    }

    /// A mistake that only the meaning shows, at the value (or, failing that, the key) of `path`, such as
    /// `["phases", "1", "stress"]`; the deepest part of the path that the text has is marked.
    pub fn error_in(
        &self,
        path: &[&str],
        message: impl Into<String>,
        label: &str,
        help: Option<String>,
    ) -> Box<DocumentError> {
        match locate(&self.text, path) {
            Some(offset) => self.error_at(offset, message.into(), label, help),
            None => self.error_nowhere(message.into(), help),
        }
    }

    /// As [`Self::error_in`], marking only the bytes `within` of a scalar whose text is `value`; the whole scalar where
    /// the file writes it differently (folded, escaped).
    pub fn error_within(
        &self,
        path: &[&str],
        value: &str,
        within: Range<usize>,
        message: impl Into<String>,
        label: &str,
        help: Option<String>,
    ) -> Box<DocumentError> {
        let message = message.into();
        let Some(offset) = locate(&self.text, path) else { return self.error_nowhere(message, help) };
        let begin = offset + usize::from(self.text[offset..].starts_with(['"', '\'']));
        if !self.text[begin..].starts_with(value) {
            return self.error_at(offset, message, label, help);
        }
        let mut error = self.error_at(begin + within.start, message, label, help);
        error.span = Some((begin + within.start, within.len().max(1)).into());
        error
    }

    fn error_at(&self, offset: usize, message: String, label: &str, help: Option<String>) -> Box<DocumentError> {
        let before = &self.text[..offset];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        Box::new(DocumentError {
            message,
            file: self.file.clone(),
            line: before.matches('\n').count() + 1,
            column: self.text[line_start..offset].chars().count() + 1,
            source_code: NamedSource::new(&self.file, self.text.clone()).with_language("yaml"),
            span: Some((offset, token_len(&self.text[offset..])).into()),
            label: label.to_string(),
            help,
        })
    }

    pub fn error_nowhere(&self, message: String, help: Option<String>) -> Box<DocumentError> {
        Box::new(DocumentError {
            message,
            file: self.file.clone(),
            line: 0,
            column: 0,
            source_code: NamedSource::new(&self.file, self.text.clone()).with_language("yaml"),
            span: None,
            label: String::new(),
            help,
        })
    }

    fn offset(&self, line: usize, column: usize) -> usize {
        let start = self.text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum::<usize>();
        let rest = &self.text[start..];
        start + rest.char_indices().nth(column.saturating_sub(1)).map_or(rest.trim_end().len(), |(i, _)| i)
    }

    /// The parser reports an unknown key at the map that holds it; move to the key itself.
    fn snap(&self, offset: usize, message: &str) -> usize {
        let Some(name) = backticked(message).filter(|_| message.contains("unknown field")) else { return offset };
        let mut from = offset;
        while let Some(found) = self.text[from..].find(name) {
            let at = from + found;
            let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
            let alone = !self.text[..at].ends_with(word) && self.text[at + name.len()..].trim_start().starts_with(':');
            if alone {
                return at;
            }
            from = at + name.len();
        }
        offset
    }
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)
    }
}

/// `message at line 3 column 5` without its end: the place is shown by the snippet.
fn strip_position(message: &str) -> String {
    match message.rfind(" at line ") {
        Some(i) if message[i..].contains(" column ") => message[..i].to_string(),
        _ => message.to_string(),
    }
}

fn backticked(text: &str) -> Option<&str> {
    let begin = text.find('`')? + 1;
    let end = begin + text[begin..].find('`')?;
    Some(&text[begin..end])
}

/// Our words for serde's message, and the nearest known key.
fn explain(message: &str) -> (String, Option<String>) {
    for (kind, ours) in [("unknown field", "unknown key"), ("unknown variant", "unknown name")] {
        let Some(at) = message.find(kind) else { continue };
        let rest = &message[at..];
        let Some(name) = backticked(rest) else { continue };
        let known: Vec<&str> = rest.split('`').skip(3).step_by(2).collect();
        let path = message[..at].trim_end_matches([':', ' ']);
        let place = if path.is_empty() { String::new() } else { format!(" in `{path}`") };
        let help = match (nearest(name, known.iter().copied()), known.as_slice()) {
            (Some(near), _) => Some(format!("did you mean `{near}`?")),
            (None, []) => None,
            (None, known) => Some(format!("known here: {}", known.join(", "))),
        };
        return (format!("{ours} `{name}`{place}"), help);
    }
    (message.replace("missing field", "missing key"), None)
}

fn token_len(rest: &str) -> usize {
    let end = rest.find(['\n', ',', '}', ']', '#']).unwrap_or(rest.len());
    let quoted = rest.strip_prefix('"').and_then(|inner| inner.find('"')).map(|i| i + 2);
    let key = rest[..end].find(": ").unwrap_or(end);
    quoted.unwrap_or(rest[..key].trim_end().trim_end_matches(':').len()).max(1)
}

/// Byte offset of the value at `path`. A light scan, not a parser: block and flow maps and sequences, quoted scalars
/// and comments as scenario files use them. A number in the path is an index into a sequence.
fn locate(text: &str, path: &[&str]) -> Option<usize> {
    let events = scan(text);
    let mut best = None;
    let mut begin = 0;
    for (depth, part) in path.iter().enumerate() {
        let mut index = 0usize;
        let found = events.iter().enumerate().skip(begin).take_while(|(_, e)| e.depth >= depth).find(|(_, e)| {
            if e.depth != depth {
                return false;
            }
            match part.parse::<usize>() {
                Ok(wanted) if e.kind == Kind::Item => {
                    index += 1;
                    index - 1 == wanted
                }
                _ => e.kind == Kind::Key && e.name == *part,
            }
        });
        let Some((i, event)) = found else { break };
        best = Some(event.value);
        begin = i + 1;
    }
    best
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Key,
    Item,
}

#[derive(Debug)]
struct Event<'a> {
    depth: usize,
    kind: Kind,
    name: &'a str,
    /// Offset of the value behind the key or dash.
    value: usize,
}

/// An open map or sequence: by its indentation (block) or bracket (flow).
#[derive(Clone, Copy, PartialEq)]
enum Open {
    Block { indent: usize, items: bool },
    FlowMap,
    FlowSequence,
}

fn scan(text: &str) -> Vec<Event<'_>> {
    let bytes = text.as_bytes();
    let mut events = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    let mut at = 0;
    let mut line_start = 0;
    // Whether a flow sequence expects its next item.
    let mut item_due = false;
    let skip_blank = |mut i: usize| {
        while i < bytes.len() && matches!(bytes[i], b' ' | b'\t' | b'\r') {
            i += 1;
        }
        i
    };
    while at < bytes.len() {
        let in_flow = open.iter().any(|o| !matches!(o, Open::Block { .. }));
        match bytes[at] {
            b'\n' => {
                at += 1;
                line_start = at;
                continue;
            }
            b' ' | b'\t' | b'\r' => {
                at += 1;
                continue;
            }
            b'#' => {
                at += text[at..].find('\n').unwrap_or(text.len() - at);
                continue;
            }
            b',' if in_flow => {
                item_due = open.last() == Some(&Open::FlowSequence);
                at += 1;
                continue;
            }
            b']' | b'}' if in_flow => {
                open.pop();
                item_due = false;
                at += 1;
                continue;
            }
            _ => {}
        }
        if in_flow && item_due {
            events.push(Event { depth: open.len() - 1, kind: Kind::Item, name: "", value: at });
            item_due = false;
            // A map or sequence inside takes its own depth below.
        }
        if matches!(bytes[at], b'{' | b'[') {
            let sequence = bytes[at] == b'[';
            open.push(if sequence { Open::FlowSequence } else { Open::FlowMap });
            item_due = sequence && bytes.get(skip_blank(at + 1)) != Some(&b']');
            at += 1;
            continue;
        }
        let column = at - line_start;
        if !in_flow && bytes[at] == b'-' && matches!(bytes.get(at + 1), Some(b' ' | b'\n') | None) {
            close_blocks(&mut open, column, true);
            if open.last() != Some(&Open::Block { indent: column, items: true }) {
                open.push(Open::Block { indent: column, items: true });
            }
            at = skip_blank(at + 1);
            events.push(Event { depth: open.len() - 1, kind: Kind::Item, name: "", value: at });
            continue;
        }
        // A scalar: a key if a colon follows it.
        let (begin, end, after) = scalar(text, at, in_flow);
        let colon = skip_blank(after);
        let is_key =
            bytes.get(colon) == Some(&b':') && matches!(bytes.get(colon + 1), Some(b' ' | b'\n' | b'\r') | None);
        if is_key {
            if !in_flow {
                close_blocks(&mut open, column, false);
                if open.last() != Some(&Open::Block { indent: column, items: false }) {
                    open.push(Open::Block { indent: column, items: false });
                }
            }
            let value = skip_blank(colon + 1);
            let here = if matches!(bytes.get(value), Some(b'\n' | b'#') | None) { at } else { value };
            events.push(Event { depth: open.len() - 1, kind: Kind::Key, name: &text[begin..end], value: here });
            at = colon + 1;
        } else {
            at = after.max(at + 1);
        }
    }
    events
}

/// Ends block collections that are indented deeper than `column`, and a map where a dash stands in its own column.
fn close_blocks(open: &mut Vec<Open>, column: usize, dash: bool) {
    while let Some(Open::Block { indent, items }) = open.last() {
        let deeper = *indent > column || (*indent == column && *items && !dash);
        if !deeper {
            break;
        }
        open.pop();
    }
}

/// Begin and end of a scalar's text, and where it is over (behind the closing quote).
fn scalar(text: &str, at: usize, in_flow: bool) -> (usize, usize, usize) {
    let bytes = text.as_bytes();
    if let quote @ (b'"' | b'\'') = bytes[at] {
        let mut i = at + 1;
        while i < bytes.len() && bytes[i] != quote {
            i += if bytes[i] == b'\\' && quote == b'"' { 2 } else { 1 };
        }
        let end = i.min(bytes.len());
        return (at + 1, end, (end + 1).min(bytes.len()));
    }
    let mut i = at;
    while i < bytes.len() {
        let next = bytes.get(i + 1);
        let over = match bytes[i] {
            b'\n' => true,
            b':' => matches!(next, Some(b' ' | b'\n' | b'\r') | None),
            b'#' => i > at && bytes[i - 1] == b' ',
            b',' | b']' | b'}' => in_flow,
            _ => false,
        };
        if over {
            break;
        }
        i += 1;
    }
    (at, at + text[at..i].trim_end().len(), i)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
name: a # comment, with: colon
cluster: {system: x, nodes: 3, list: [one, {deep: 1}]}
phases:
  - {name: populate, stress: \"write n=1, cl: ONE\"}
  - name: read
    stress: \"read\"
checks:
  slo:
  - phase: read
faults: []
";

    fn at(path: &[&str]) -> String {
        let offset = locate(TEXT, path).unwrap();
        TEXT[offset..offset + token_len(&TEXT[offset..])].to_string()
    }

    #[test]
    fn paths_are_found_in_block_and_flow() {
        assert_eq!(at(&["name"]), "a");
        assert_eq!(at(&["cluster", "nodes"]), "3");
        assert_eq!(at(&["cluster", "list", "0"]), "one");
        assert_eq!(at(&["cluster", "list", "1", "deep"]), "1");
        assert_eq!(at(&["phases", "0", "name"]), "populate");
        assert_eq!(at(&["phases", "0", "stress"]), "\"write n=1, cl: ONE\"");
        assert_eq!(at(&["phases", "1", "stress"]), "\"read\"");
        assert_eq!(at(&["checks", "slo", "0", "phase"]), "read");
        assert_eq!(at(&["faults"]), "[");
    }

    #[test]
    fn a_missing_part_marks_its_parent() {
        assert_eq!(at(&["phases", "1", "nothing"]), "name");
        assert_eq!(locate(TEXT, &["nothing"]), None);
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[allow(dead_code)]
        name: String,
        #[allow(dead_code)]
        nodes: u32,
    }

    #[test]
    fn an_unknown_key_is_marked_where_it_stands() {
        let error = Document::new("s.yaml", "name: a\nnodse: 3\n").parse::<Sample>().unwrap_err();
        assert_eq!((error.line, error.column), (2, 1));
        assert_eq!(error.message, "unknown key `nodse`");
        assert_eq!(error.help.as_deref(), Some("did you mean `nodes`?"));
    }
}
