//! Names and passwords of clients that connect.
//!
//! The refusal is the same, and takes as long, for a role that does not exist, one without a password and a wrong
//! password.

use std::rc::Rc;

use cql::response::ErrorKind;

use super::password;
use crate::error::QueryError;
use crate::node::Node;

fn refused(message: &str) -> QueryError {
    QueryError::new(ErrorKind::BadCredentials, message)
}

impl Node {
    /// The role that a client's certificate names, if it may log in. The refusal does not tell why not.
    pub fn identify(&self, certified: Option<&str>) -> Result<String, QueryError> {
        let schema = self.schema();
        let role = certified.and_then(|name| schema.access.roles.get_key_value(name)).filter(|(_, role)| role.login);
        let (name, _) = role.ok_or_else(|| refused("The client's certificate names no role that may log in"))?;
        Ok(name.clone())
    }

    /// The role of a SASL PLAIN token, `authorisation NUL name NUL password`, whose client it proves to be.
    pub async fn authenticate(self: &Rc<Self>, token: &[u8]) -> Result<String, QueryError> {
        let mut parts = token.split(|&byte| byte == 0);
        let (Some(_), Some(name), Some(password), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(refused("The token is not of the form of SASL PLAIN"));
        };
        let (Ok(name), Ok(password)) = (std::str::from_utf8(name), std::str::from_utf8(password)) else {
            return Err(refused("Name and password must be UTF-8"));
        };
        let schema = self.schema();
        let role = schema.access.roles.get(name);
        let hash = role.and_then(|role| role.hash.as_deref());
        let is_right = self.hasher.verify(password, hash.unwrap_or(password::NOBODY)).await;
        match role {
            Some(role) if is_right && hash.is_some() => {
                if !role.login {
                    return Err(refused(&format!("{name} is not permitted to log in")));
                }
                Ok(name.to_string())
            }
            _ => Err(refused("Username and/or password are incorrect")),
        }
    }
}
