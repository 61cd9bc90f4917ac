//! Which role a client's certificate names: `auth_certificate_role_queries` of `scylla.yaml`, a list of a source
//! (`SUBJECT` or `ALTNAME`) and a query, a regular expression whose first group is the role.

use query::settings::{Settings, Value};
use regex_lite::Regex;

use super::certificate::CertificateNames;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Subject,
    AlternativeName,
}

/// The queries, asked in their order.
#[derive(Debug, Default)]
pub(crate) struct Identities(Vec<(Source, Regex)>);

const NAME: &str = "auth_certificate_role_queries";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueriesError {
    #[error("auth_certificate_role_queries is a list of {{source, query}}")]
    NoList,
    #[error("the source {0:?} of auth_certificate_role_queries is neither SUBJECT nor ALTNAME")]
    Source(String),
    #[error("the query {0:?} of auth_certificate_role_queries is no regular expression with one group, the role")]
    Query(String),
}

impl Identities {
    pub fn from_settings(settings: &Settings) -> Result<Self, QueriesError> {
        let list = match settings.get(NAME) {
            None | Some((Value::Json(serde_json::Value::Null), _)) => return Ok(Self::default()),
            Some((Value::Json(serde_json::Value::Array(list)), _)) => list,
            Some(_) => return Err(QueriesError::NoList),
        };
        let query = |entry: &serde_json::Value| {
            let text = |name: &str| entry[name].as_str().ok_or(QueriesError::NoList);
            let source = match text("source")?.to_ascii_uppercase().as_str() {
                "SUBJECT" => Source::Subject,
                "ALTNAME" => Source::AlternativeName,
                other => return Err(QueriesError::Source(other.to_string())),
            };
            let query = text("query")?;
            let regex = Regex::new(query).ok().filter(|regex| regex.captures_len() == 2);
            Ok((source, regex.ok_or_else(|| QueriesError::Query(query.to_string()))?))
        };
        list.iter().map(query).collect::<Result<_, _>>().map(Self)
    }

    /// The first role that a query finds.
    pub fn role_of(&self, names: &CertificateNames) -> Option<String> {
        let find = |regex: &Regex, name: &String| Some(regex.captures(name)?.get(1)?.as_str().to_string());
        self.0.iter().find_map(|(source, regex)| match source {
            Source::Subject => find(regex, &names.subject),
            Source::AlternativeName => names.alternative.iter().find_map(|name| find(regex, name)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Identities, QueriesError> {
        Identities::from_settings(&Settings::new(&[(NAME.into(), text.into())]).unwrap())
    }

    #[test]
    fn the_first_query_that_finds_a_role_counts() {
        let queries = r#"[{"source": "ALTNAME", "query": "URI=role:(.+)"},
                          {"source": "subject", "query": "CN=([^,\\s]+)"}]"#;
        let queries = read(queries).unwrap();
        let check = |subject: &str, alternative: &[&str], expected: Option<&str>| {
            let alternative = alternative.iter().map(|name| name.to_string()).collect();
            let names = CertificateNames { subject: subject.into(), alternative };
            assert_eq!(queries.role_of(&names).as_deref(), expected);
        };
        check("O=us,CN=bob", &["DNS=a", "URI=role:alice"], Some("alice"));
        check("CN=bob,O=us", &["DNS=a"], Some("bob"));
        check("O=us", &[], None);
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(read("{}").unwrap_err(), QueriesError::NoList);
        assert_eq!(read(r#"[{"query": "(x)"}]"#).unwrap_err(), QueriesError::NoList);
        let source = r#"[{"source": "ISSUER", "query": "(x)"}]"#;
        assert_eq!(read(source).unwrap_err(), QueriesError::Source("ISSUER".into()));
        for query in ["x", "(", "(a)(b)"] {
            let text = format!(r#"[{{"source": "SUBJECT", "query": "{query}"}}]"#);
            assert_eq!(read(&text).unwrap_err(), QueriesError::Query(query.into()));
        }
    }
}
