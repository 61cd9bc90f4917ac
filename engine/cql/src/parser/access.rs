//! Roles, permissions and service levels: CREATE, ALTER, DROP, GRANT, REVOKE, LIST, ATTACH, DETACH.
//!
//! Source: Apache Cassandra's `Parser.g`; for service levels ScyllaDB's `Cql.g`.

use std::collections::BTreeMap;

use super::{ParseError, Parser};
use crate::ast::access::{AccessStatement, Password, Permissions, ResourceName, RoleOptions, ServiceLevelOptions};
use crate::ast::{ConstantKind, Statement, Term};
use crate::lexer::{self, TokenKind};

const PERMISSIONS: [&str; 10] =
    ["CREATE", "ALTER", "DROP", "SELECT", "MODIFY", "AUTHORIZE", "DESCRIBE", "EXECUTE", "UNMASK", "SELECT_MASKED"];

impl Parser<'_> {
    /// After CREATE; `None` when it is something else.
    pub(super) fn create_access(&mut self) -> Result<Option<Statement>, ParseError> {
        let statement = if self.take_keyword("ROLE") {
            let if_not_exists = self.if_not_exists()?;
            let name = self.role_name()?;
            AccessStatement::CreateRole { name, options: self.role_options()?, if_not_exists }
        } else if self.take_keyword("USER") {
            let if_not_exists = self.if_not_exists()?;
            let name = self.role_name()?;
            let mut options = self.user_options()?;
            // A user is a role that may log in.
            options.login = Some(true);
            options.superuser.get_or_insert(false);
            AccessStatement::CreateRole { name, options, if_not_exists }
        } else if self.take_service_level()? {
            let if_not_exists = self.if_not_exists()?;
            let name = self.service_level_name()?;
            let options = self.service_level_options()?;
            AccessStatement::CreateServiceLevel { name, options, if_not_exists }
        } else {
            return Ok(None);
        };
        Ok(Some(Statement::Access(statement)))
    }

    /// After ALTER.
    pub(super) fn alter_access(&mut self) -> Result<Option<Statement>, ParseError> {
        let statement = if self.take_keyword("ROLE") {
            let if_exists = self.if_exists()?;
            let name = self.role_name()?;
            AccessStatement::AlterRole { name, options: self.role_options()?, if_exists }
        } else if self.take_keyword("USER") {
            let if_exists = self.if_exists()?;
            let name = self.role_name()?;
            AccessStatement::AlterRole { name, options: self.user_options()?, if_exists }
        } else if self.take_service_level()? {
            let name = self.service_level_name()?;
            AccessStatement::AlterServiceLevel { name, options: self.service_level_options()? }
        } else {
            return Ok(None);
        };
        Ok(Some(Statement::Access(statement)))
    }

    /// After DROP.
    pub(super) fn drop_access(&mut self) -> Result<Option<Statement>, ParseError> {
        let statement = if self.take_keyword("ROLE") || self.take_keyword("USER") {
            let if_exists = self.if_exists()?;
            AccessStatement::DropRole { name: self.role_name()?, if_exists }
        } else if self.take_service_level()? {
            let if_exists = self.if_exists()?;
            AccessStatement::DropServiceLevel { name: self.service_level_name()?, if_exists }
        } else {
            return Ok(None);
        };
        Ok(Some(Statement::Access(statement)))
    }

    pub(super) fn grant(&mut self) -> Result<Statement, ParseError> {
        self.expect_keyword("GRANT")?;
        let statement = match self.permissions()? {
            Some(permissions) => {
                self.expect_keyword("ON")?;
                let on = self.resource()?;
                self.expect_keyword("TO")?;
                AccessStatement::Grant { permissions, on, to: self.role_name()? }
            }
            None => {
                let role = self.role_name()?;
                self.expect_keyword("TO")?;
                AccessStatement::GrantRole { role, to: self.role_name()? }
            }
        };
        Ok(Statement::Access(statement))
    }

    pub(super) fn revoke(&mut self) -> Result<Statement, ParseError> {
        self.expect_keyword("REVOKE")?;
        let statement = match self.permissions()? {
            Some(permissions) => {
                self.expect_keyword("ON")?;
                let on = self.resource()?;
                self.expect_keyword("FROM")?;
                AccessStatement::Revoke { permissions, on, from: self.role_name()? }
            }
            None => {
                let role = self.role_name()?;
                self.expect_keyword("FROM")?;
                AccessStatement::RevokeRole { role, from: self.role_name()? }
            }
        };
        Ok(Statement::Access(statement))
    }

    pub(super) fn attach(&mut self) -> Result<Statement, ParseError> {
        self.expect_keyword("ATTACH")?;
        self.expect_service_level()?;
        let name = self.service_level_name()?;
        self.expect_keyword("TO")?;
        Ok(Statement::Access(AccessStatement::AttachServiceLevel { name, to: self.role_name()? }))
    }

    pub(super) fn detach(&mut self) -> Result<Statement, ParseError> {
        self.expect_keyword("DETACH")?;
        self.expect_service_level()?;
        self.expect_keyword("FROM")?;
        Ok(Statement::Access(AccessStatement::DetachServiceLevel { from: self.role_name()? }))
    }

    pub(super) fn list_access(&mut self) -> Result<Statement, ParseError> {
        self.expect_keyword("LIST")?;
        let statement = if self.take_keyword("ROLES") {
            let of = if self.take_keyword("OF") { Some(self.role_name()?) } else { None };
            AccessStatement::ListRoles { of, recursive: !self.take_keyword("NORECURSIVE"), users: false }
        } else if self.take_keyword("USERS") {
            AccessStatement::ListRoles { of: None, recursive: true, users: true }
        } else if self.take_keyword("EFFECTIVE") {
            self.expect_service_level()?;
            self.expect_keyword("OF")?;
            AccessStatement::ListEffectiveServiceLevel { of: self.role_name()? }
        } else if self.take_keyword("ATTACHED") {
            self.expect_service_level()?;
            self.expect_keyword("OF")?;
            AccessStatement::ListAttachedServiceLevels { of: Some(self.role_name()?) }
        } else if self.take_service_level()? {
            AccessStatement::ListServiceLevels { name: Some(self.service_level_name()?) }
        } else if self.is_keyword_at(self.ahead(1), "ATTACHED") && self.take_keyword("ALL") {
            self.advance();
            self.expect_service_level()?;
            AccessStatement::ListAttachedServiceLevels { of: None }
        } else if self.is_keyword("ALL") && self.is_service_level_at(1) {
            self.advance();
            self.expect_service_level()?;
            AccessStatement::ListServiceLevels { name: None }
        } else {
            let permissions = self.permissions()?.ok_or_else(|| self.no_viable_alternative())?;
            let on = if self.take_keyword("ON") { Some(self.resource()?) } else { None };
            let of = if self.take_keyword("OF") { Some(self.role_name()?) } else { None };
            AccessStatement::ListPermissions { permissions, on, of, recursive: !self.take_keyword("NORECURSIVE") }
        };
        Ok(Statement::Access(statement))
    }

    /// A role's name is a string, or an identifier.
    fn role_name(&mut self) -> Result<String, ParseError> {
        let token = self.token();
        if token.kind == TokenKind::String {
            self.advance();
            return Ok(lexer::string_value(self.text, &token).into_owned());
        }
        self.identifier()
    }

    /// A service level's name keeps its case when it is quoted, either way.
    pub(super) fn service_level_name(&mut self) -> Result<String, ParseError> {
        self.role_name()
    }

    fn permissions(&mut self) -> Result<Option<Permissions>, ParseError> {
        if self.take_keyword("ALL") {
            self.take_keyword("PERMISSIONS");
            return Ok(Some(Permissions::All));
        }
        let mut named = Vec::new();
        loop {
            let token = self.token();
            let word = self.raw(token).to_ascii_uppercase();
            let behind = self.ahead(1);
            let is_permission = token.kind == TokenKind::Word && PERMISSIONS.contains(&word.as_str());
            // A role may be called as a permission is.
            if !is_permission || self.is_keyword_at(behind, "TO") || self.is_keyword_at(behind, "FROM") {
                return if named.is_empty() { Ok(None) } else { Err(self.no_viable_alternative()) };
            }
            self.advance();
            named.push(word);
            let _ = self.take_keyword("PERMISSION") || self.take_keyword("PERMISSIONS");
            if !self.take_symbol(",") {
                return Ok(Some(Permissions::Named(named)));
            }
        }
    }

    fn resource(&mut self) -> Result<ResourceName, ParseError> {
        if self.is_keyword("ALL") {
            let behind = self.ahead(1);
            let is = |word| self.is_keyword_at(behind, word);
            let (keyspaces, tables, roles, functions) = (is("KEYSPACES"), is("TABLES"), is("ROLES"), is("FUNCTIONS"));
            if keyspaces || tables || roles || functions {
                self.advance();
                self.advance();
            }
            if keyspaces {
                return Ok(ResourceName::AllKeyspaces);
            }
            if roles {
                return Ok(ResourceName::AllRoles);
            }
            if tables {
                self.expect_keyword("IN")?;
                self.expect_keyword("KEYSPACE")?;
                return Ok(ResourceName::Keyspace(self.keyspace_name()?));
            }
            if functions {
                if !self.take_keyword("IN") {
                    return Ok(ResourceName::AllFunctions);
                }
                self.expect_keyword("KEYSPACE")?;
                return Ok(ResourceName::FunctionsIn(self.keyspace_name()?));
            }
        }
        // Each of these words is also a name that a table may have.
        let named = !self.is_symbol_at(self.ahead(1), ".") && self.ahead(1).kind != TokenKind::End;
        if named && self.take_keyword("KEYSPACE") {
            return Ok(ResourceName::Keyspace(self.keyspace_name()?));
        }
        if named && self.is_keyword("ROLE") && !self.is_keyword_at(self.ahead(1), "TO") {
            self.advance();
            return Ok(ResourceName::Role(self.role_name()?));
        }
        if named && self.take_keyword("FUNCTION") {
            let name = self.table_name()?;
            self.expect_symbol("(")?;
            let mut arguments = Vec::new();
            if !self.take_symbol(")") {
                arguments = self.comma_list(Self::type_text)?;
                self.expect_symbol(")")?;
            }
            return Ok(ResourceName::Function { name, arguments });
        }
        let _ = named && self.take_keyword("TABLE");
        self.table_name().map(ResourceName::Table)
    }

    /// A type as it is written, up to the comma or parenthesis behind it.
    fn type_text(&mut self) -> Result<String, ParseError> {
        let start = self.token().start;
        let mut end = start;
        let mut depth = 0u32;
        loop {
            match self.token().kind {
                TokenKind::End => return Err(self.mismatch("')'")),
                TokenKind::Symbol if self.is_symbol("<") => depth += 1,
                TokenKind::Symbol if self.is_symbol(">") => depth = depth.saturating_sub(1),
                TokenKind::Symbol if depth == 0 && (self.is_symbol(",") || self.is_symbol(")")) => break,
                _ => {}
            }
            end = self.token().end;
            self.advance();
        }
        if end == start {
            return Err(self.no_viable_alternative());
        }
        Ok(self.text[start..end].to_string())
    }

    fn role_options(&mut self) -> Result<RoleOptions, ParseError> {
        let mut options = RoleOptions::default();
        if !self.take_keyword("WITH") {
            return Ok(options);
        }
        loop {
            self.role_option(&mut options)?;
            if !self.take_keyword("AND") {
                return Ok(options);
            }
        }
    }

    fn role_option(&mut self, options: &mut RoleOptions) -> Result<(), ParseError> {
        if self.take_keyword("PASSWORD") {
            self.expect_symbol("=")?;
            return self.password(options, Password::Plain);
        }
        if self.take_keyword("HASHED") {
            self.expect_keyword("PASSWORD")?;
            self.expect_symbol("=")?;
            return self.password(options, Password::Hashed);
        }
        if self.take_keyword("SALTED") {
            self.expect_keyword("HASH")?;
            self.expect_symbol("=")?;
            return self.password(options, Password::Hashed);
        }
        if self.take_keyword("LOGIN") {
            self.expect_symbol("=")?;
            options.login = Some(self.boolean()?);
            return Ok(());
        }
        if self.take_keyword("SUPERUSER") {
            self.expect_symbol("=")?;
            options.superuser = Some(self.boolean()?);
            return Ok(());
        }
        if self.take_keyword("OPTIONS") {
            self.expect_symbol("=")?;
            let literal = self.term()?;
            options.options = Some(self.property_map(literal)?);
            return Ok(());
        }
        Err(self.no_viable_alternative())
    }

    fn user_options(&mut self) -> Result<RoleOptions, ParseError> {
        let mut options = RoleOptions::default();
        if self.take_keyword("WITH") {
            let hashed = self.take_keyword("HASHED");
            self.expect_keyword("PASSWORD")?;
            self.password(&mut options, if hashed { Password::Hashed } else { Password::Plain })?;
        }
        if self.take_keyword("SUPERUSER") {
            options.superuser = Some(true);
        } else if self.take_keyword("NOSUPERUSER") {
            options.superuser = Some(false);
        }
        Ok(options)
    }

    fn password(&mut self, options: &mut RoleOptions, kind: fn(String) -> Password) -> Result<(), ParseError> {
        let token = self.token();
        if token.kind != TokenKind::String {
            return Err(self.mismatch("STRING_LITERAL"));
        }
        self.advance();
        options.password = Some(kind(lexer::string_value(self.text, &token).into_owned()));
        Ok(())
    }

    fn boolean(&mut self) -> Result<bool, ParseError> {
        let token = self.token();
        if token.kind != TokenKind::Boolean {
            return Err(self.no_viable_alternative());
        }
        self.advance();
        Ok(self.raw(token).eq_ignore_ascii_case("true"))
    }

    pub(super) fn is_service_level_at(&self, ahead: usize) -> bool {
        let (first, second) = (self.ahead(ahead), self.ahead(ahead + 1));
        let two = self.is_keyword_at(first, "SERVICE")
            && (self.is_keyword_at(second, "LEVEL") || self.is_keyword_at(second, "LEVELS"));
        two || self.is_keyword_at(first, "SERVICE_LEVEL") || self.is_keyword_at(first, "SERVICE_LEVELS")
    }

    fn take_service_level(&mut self) -> Result<bool, ParseError> {
        let found = self.is_service_level_at(0);
        if found {
            self.expect_service_level()?;
        }
        Ok(found)
    }

    pub(super) fn expect_service_level(&mut self) -> Result<(), ParseError> {
        if self.take_keyword("SERVICE_LEVEL") || self.take_keyword("SERVICE_LEVELS") {
            return Ok(());
        }
        self.expect_keyword("SERVICE")?;
        if self.take_keyword("LEVELS") { Ok(()) } else { self.expect_keyword("LEVEL") }
    }

    fn service_level_options(&mut self) -> Result<ServiceLevelOptions, ParseError> {
        let mut options = ServiceLevelOptions::default();
        if !self.take_keyword("WITH") {
            return Ok(options);
        }
        let mut seen = BTreeMap::new();
        loop {
            let at = self.mark();
            let name = self.identifier()?;
            self.expect_symbol("=")?;
            let value = self.service_level_value()?;
            if seen.insert(name.clone(), ()).is_some() {
                self.reset(at);
                return Err(self.error(&format!("Multiple definition for property '{name}'")));
            }
            match name.as_str() {
                "timeout" => options.timeout = Some(value),
                "workload_type" => options.workload_type = Some(value),
                "shares" => options.shares = Some(value),
                _ => {
                    self.reset(at);
                    return Err(self.error(&format!("Unknown property '{name}'")));
                }
            }
            if !self.take_keyword("AND") {
                return Ok(options);
            }
        }
    }

    fn service_level_value(&mut self) -> Result<Term, ParseError> {
        if self.take_keyword("NULL") {
            return Ok(Term::Null);
        }
        if self.is_constant() { self.constant() } else { Err(self.no_viable_alternative()) }
    }
}

impl ServiceLevelOptions {
    /// A constant of one of `kinds`, or null.
    pub fn is_constant(term: &Term, kinds: &[ConstantKind]) -> bool {
        match term {
            Term::Null => true,
            Term::Constant { kind, .. } => kinds.contains(kind),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::QualifiedName;
    use crate::parser::parse;

    fn access(text: &str) -> AccessStatement {
        match parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).statement {
            Statement::Access(statement) => statement,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn roles() {
        let statement =
            access("CREATE ROLE IF NOT EXISTS Ann WITH PASSWORD = 'p''w' AND LOGIN = true AND superuser=FALSE");
        let options = RoleOptions {
            password: Some(Password::Plain("p'w".into())),
            login: Some(true),
            superuser: Some(false),
            options: None,
        };
        let AccessStatement::CreateRole { name, options: got, if_not_exists: true } = &statement else {
            panic!("{statement:?}");
        };
        assert_eq!((name.as_str(), got == &options), ("ann", true));
        assert!(!format!("{statement:?}").contains("p'w"), "a password is shown");
        assert_eq!(access("DROP USER 'Ann'"), AccessStatement::DropRole { name: "Ann".into(), if_exists: false });
        assert_eq!(access("GRANT a TO b"), AccessStatement::GrantRole { role: "a".into(), to: "b".into() });
        assert_eq!(
            access("LIST ROLES OF a NORECURSIVE"),
            AccessStatement::ListRoles { of: Some("a".into()), recursive: false, users: false }
        );
    }

    #[test]
    fn permissions() {
        let named = |names: &[&str]| Permissions::Named(names.iter().map(|name| name.to_string()).collect());
        let name = |name: &str| QualifiedName { keyspace: Some("ks".into()), name: name.into() };
        let check = |on: &str, expect: ResourceName| {
            let statement = access(&format!("GRANT alter, Select ON {on} TO r"));
            assert_eq!(
                statement,
                AccessStatement::Grant { permissions: named(&["ALTER", "SELECT"]), on: expect, to: "r".into() }
            );
        };
        check("all keyspaces", ResourceName::AllKeyspaces);
        check("KEYSPACE ks", ResourceName::Keyspace("ks".into()));
        check("ALL TABLES IN KEYSPACE ks", ResourceName::Keyspace("ks".into()));
        check("ks.t", ResourceName::Table(name("t")));
        check("table ks.t", ResourceName::Table(name("t")));
        check("role x", ResourceName::Role("x".into()));
        check("ALL ROLES", ResourceName::AllRoles);
        check("ALL FUNCTIONS", ResourceName::AllFunctions);
        check("ALL FUNCTIONS IN KEYSPACE ks", ResourceName::FunctionsIn("ks".into()));
        let arguments = vec!["int".to_string(), "map<text, frozen<\"A^\">>".to_string()];
        check("FUNCTION ks.f(int, map<text, frozen<\"A^\">>)", ResourceName::Function { name: name("f"), arguments });
        check("function ks.f()", ResourceName::Function { name: name("f"), arguments: vec![] });
        assert_eq!(
            access("LIST ALL PERMISSIONS OF r"),
            AccessStatement::ListPermissions {
                permissions: Permissions::All,
                on: None,
                of: Some("r".into()),
                recursive: true
            }
        );
    }

    #[test]
    fn service_levels() {
        let AccessStatement::CreateServiceLevel { name, options, .. } =
            access("CREATE SERVICE LEVEL sl WITH timeout = 10ms AND workload_type = 'batch' AND shares = 500")
        else {
            panic!("not CREATE SERVICE LEVEL");
        };
        assert_eq!(name, "sl");
        assert_eq!(options.timeout.unwrap().as_constant(ConstantKind::Duration), Some("10ms"));
        assert_eq!(options.shares.unwrap().as_constant(ConstantKind::Integer), Some("500"));
        assert_eq!(access("LIST ALL SERVICE LEVELS"), AccessStatement::ListServiceLevels { name: None });
        assert_eq!(access("LIST ALL ATTACHED SERVICE LEVELS"), AccessStatement::ListAttachedServiceLevels { of: None });
        assert_eq!(
            access("ATTACH SERVICE_LEVEL sl TO r"),
            AccessStatement::AttachServiceLevel { name: "sl".into(), to: "r".into() }
        );
        assert!(parse("CREATE SERVICE LEVEL sl WITH nonsense = 1").is_err());
        assert!(parse("ALTER SERVICE LEVEL sl WITH timeout = 1second").is_err());
    }
}
