//! `client_encryption_options`, with the names of `scylla.yaml`.

use query::settings::{Settings, Value};

/// How clients' connections are encrypted. Files are PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientEncryption {
    pub certificate: String,
    pub keyfile: String,
    /// Certificates of those who sign clients' certificates.
    pub truststore: Option<String>,
    /// Whether a client without a certificate is refused.
    pub require_client_auth: bool,
}

const NAME: &str = "client_encryption_options";
const KNOWN: [&str; 5] = ["enabled", "certificate", "keyfile", "truststore", "require_client_auth"];

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    #[error("client_encryption_options is no mapping of names to values")]
    NoMapping,
    #[error(
        "client_encryption_options has no {0}; it has enabled, certificate, keyfile, truststore and \
             require_client_auth, and its files are PEM"
    )]
    Unknown(String),
    #[error("{0} of client_encryption_options is true or false")]
    NoFlag(&'static str),
    #[error("client_encryption_options are enabled and need a {0}")]
    Missing(&'static str),
    #[error("require_client_auth of client_encryption_options needs a truststore, to judge certificates by")]
    NoTruststore,
}

impl ClientEncryption {
    /// `None` when it is not enabled.
    pub fn from_settings(settings: &Settings) -> Result<Option<Self>, OptionsError> {
        let options = match settings.get(NAME) {
            None | Some((Value::Json(serde_json::Value::Null), _)) => return Ok(None),
            Some((Value::Json(serde_json::Value::Object(options)), _)) => options,
            Some(_) => return Err(OptionsError::NoMapping),
        };
        if let Some(unknown) = options.keys().find(|key| !KNOWN.contains(&key.as_str())) {
            return Err(OptionsError::Unknown(unknown.clone()));
        }
        let flag = |name: &'static str| match options.get(name) {
            None | Some(serde_json::Value::Null) => Ok(false),
            Some(serde_json::Value::Bool(flag)) => Ok(*flag),
            Some(serde_json::Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(serde_json::Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(_) => Err(OptionsError::NoFlag(name)),
        };
        let text = |name: &str| options.get(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_string);
        if !flag("enabled")? {
            return Ok(None);
        }
        let encryption = Self {
            certificate: text("certificate").ok_or(OptionsError::Missing("certificate"))?,
            keyfile: text("keyfile").ok_or(OptionsError::Missing("keyfile"))?,
            truststore: text("truststore"),
            require_client_auth: flag("require_client_auth")?,
        };
        match encryption.require_client_auth && encryption.truststore.is_none() {
            true => Err(OptionsError::NoTruststore),
            false => Ok(Some(encryption)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<ClientEncryption>, OptionsError> {
        ClientEncryption::from_settings(&Settings::new(&[(NAME.into(), text.into())]).unwrap())
    }

    #[test]
    fn names_are_those_of_scylla_yaml() {
        assert_eq!(read(""), Ok(None));
        assert_eq!(read(r#"{"enabled": false, "certificate": "c"}"#), Ok(None));
        let all = r#"{"enabled": "true", "certificate": "c", "keyfile": "k", "truststore": "t",
                      "require_client_auth": true}"#;
        let expected = ClientEncryption {
            certificate: "c".into(),
            keyfile: "k".into(),
            truststore: Some("t".into()),
            require_client_auth: true,
        };
        assert_eq!(read(all), Ok(Some(expected)));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = |text: &str| read(text).unwrap_err();
        assert_eq!(refused("[]"), OptionsError::NoMapping);
        assert_eq!(refused(r#"{"keystore": "x"}"#), OptionsError::Unknown("keystore".into()));
        assert_eq!(refused(r#"{"enabled": 3}"#), OptionsError::NoFlag("enabled"));
        assert_eq!(refused(r#"{"enabled": true, "certificate": "c"}"#), OptionsError::Missing("keyfile"));
        let strict = r#"{"enabled": true, "certificate": "c", "keyfile": "k", "require_client_auth": true}"#;
        assert_eq!(refused(strict), OptionsError::NoTruststore);
    }
}
