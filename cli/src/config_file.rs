//! The configuration file of `orrery serve`, in the manner of `scylla.yaml` and `cassandra.yaml`: one mapping of names
//! to values, with their names where they mean the same.
//!
//! Everything in it is checked before the node starts: a name that there is not, a name that comes twice and a value of
//! another kind are refused with line and column.

use std::path::Path;

use miette::{Diagnostic, NamedSource, SourceSpan};
use query::settings::{self, Definition, Kind, SettingError, Settings};
use serde_yaml::Value;

use crate::exit::{Code, Failure};

/// Values by name, as text that a setting understands.
#[derive(Debug, Default)]
pub struct ConfigFile {
    values: Vec<(String, String)>,
}

#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{place}: {message}")]
struct Mistake {
    place: String,
    message: String,
    #[help]
    help: Option<String>,
    #[source_code]
    source_code: NamedSource<String>,
    #[label("here")]
    span: SourceSpan,
}

/// What is wrong, and at which byte.
#[derive(Debug, PartialEq, Eq)]
struct Wrong {
    at: usize,
    message: String,
    help: Option<String>,
}

impl ConfigFile {
    pub fn load(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let text = format!("--config {}: {error}", path.display());
            Failure::with_help(Code::Usage, text, "give a YAML file of names and values, as scylla.yaml")
        })?;
        parse(&text).map_err(|wrong| {
            let before = &text[..wrong.at.min(text.len())];
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
            Failure::new(
                Code::Invalid,
                Mistake {
                    place: format!("{}:{line}:{column}", path.display()),
                    message: wrong.message,
                    help: wrong.help,
                    source_code: NamedSource::new(path.display().to_string(), text.clone()),
                    span: (wrong.at.min(text.len()), 0).into(),
                },
            )
        })
    }

    /// What the file says of a setting.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A number; the file was checked, so what is there is one.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.parse().ok()
    }

    /// The first word of a list.
    pub fn first(&self, name: &str) -> Option<&str> {
        let inner = self.get(name)?.trim_start_matches('[').trim_end_matches(']');
        inner.split(',').next().map(str::trim).filter(|word| !word.is_empty())
    }

    pub fn values(&self) -> &[(String, String)] {
        &self.values
    }
}

/// Where the value of a top-level key begins, or the key itself.
fn place_of(text: &str, key: &str, of_value: bool) -> usize {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix(key)
            && let Some(value) = rest.trim_start().strip_prefix(':')
        {
            let value = value.trim_start_matches(' ');
            return if of_value { at + line.len() - value.len() } else { at };
        }
        at += line.len();
    }
    0
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Sequence(items) => {
            let items: Option<Vec<String>> = items.iter().map(text_of).collect();
            Some(format!("[{}]", items?.join(", ")))
        }
        _ => None,
    }
}

fn parse(text: &str) -> Result<ConfigFile, Wrong> {
    let document: Value = serde_yaml::from_str(text).map_err(|error| {
        let at = error.location().map_or(0, |location| location.index());
        Wrong { at, message: error.to_string(), help: None }
    })?;
    let mapping = match document {
        Value::Null => return Ok(ConfigFile::default()),
        Value::Mapping(mapping) => mapping,
        _ => return Err(Wrong { at: 0, message: "this is no mapping of names to values".into(), help: None }),
    };
    let mut values = Vec::new();
    for (key, value) in mapping {
        let Value::String(name) = &key else {
            return Err(Wrong { at: 0, message: "a name must be a text".into(), help: None });
        };
        let Some(definition) = settings::definition(name) else {
            let near = hwprofiles::nearest(name, settings::definitions().iter().map(|definition| definition.name));
            return Err(Wrong {
                at: place_of(text, name, false),
                message: format!("there is no setting `{name}`"),
                help: near.map(|near| format!("did you mean `{near}`?")),
            });
        };
        values.push((
            name.clone(),
            read(definition, &value).map_err(|message| Wrong {
                at: place_of(text, name, true),
                message,
                help: None,
            })?,
        ));
    }
    Ok(ConfigFile { values })
}

/// The value as text, if a setting understands it.
fn read(definition: &Definition, value: &Value) -> Result<String, String> {
    if definition.kind == Kind::Json {
        let value = serde_json::to_value(value);
        return value.map(|value| value.to_string()).map_err(|error| format!("{}: {error}", definition.name));
    }
    let no_list = || format!("the value of {} is neither a text, a number, true or false, nor a list", definition.name);
    let text = text_of(value).ok_or_else(no_list)?;
    match Settings::new(&[(definition.name.to_string(), text.clone())]) {
        Ok(_) => Ok(text),
        Err(error @ SettingError::Value { .. }) => Err(error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_read() {
        let text = "# ours\ncluster_name: 'Test Cluster'\nnative_transport_port: 9043\nauto_snapshot: true\n\
                    data_file_directories:\n    - /var/lib/x\nslow_query_threshold_in_us: 1000\n";
        let file = parse(text).unwrap();
        assert_eq!(file.get("cluster_name"), Some("Test Cluster"));
        assert_eq!(file.number("native_transport_port"), Some(9043.0));
        assert_eq!(file.first("data_file_directories"), Some("/var/lib/x"));
        assert_eq!(file.get("listen_address"), None);
        assert!(parse("").unwrap().values().is_empty());
        let file = parse("client_encryption_options:\n    enabled: true\n    keyfile: k\n").unwrap();
        assert_eq!(file.get("client_encryption_options"), Some(r#"{"enabled":true,"keyfile":"k"}"#));
    }

    #[test]
    fn mistakes_have_a_place() {
        let check = |text: &str, at: usize, message: &str, help: Option<&str>| {
            let wrong = parse(text).unwrap_err();
            assert!(wrong.message.contains(message), "{}", wrong.message);
            assert_eq!((wrong.at, wrong.help.as_deref()), (at, help));
        };
        check("api_port: 1\nclustr_name: x\n", 12, "`clustr_name`", Some("did you mean `cluster_name`?"));
        check("api_port: many\n", 10, "is not a number", None);
        check("- a\n", 0, "no mapping", None);
        check("auto_snapshot: {a: b}\n", 15, "auto_snapshot", None);
    }
}
