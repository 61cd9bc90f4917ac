//! What one may be allowed to do, and sets of it.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Permission {
    Create,
    Alter,
    Drop,
    Select,
    Modify,
    Authorize,
    Describe,
    Execute,
    /// To see what is behind masks.
    Unmask,
    /// To choose rows by what is behind masks.
    SelectMasked,
}

impl Permission {
    /// In the order in which Cassandra lists them.
    pub const ALL: [Permission; 10] = [
        Permission::Create,
        Permission::Alter,
        Permission::Drop,
        Permission::Select,
        Permission::Modify,
        Permission::Authorize,
        Permission::Describe,
        Permission::Execute,
        Permission::Unmask,
        Permission::SelectMasked,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Permission::Create => "CREATE",
            Permission::Alter => "ALTER",
            Permission::Drop => "DROP",
            Permission::Select => "SELECT",
            Permission::Modify => "MODIFY",
            Permission::Authorize => "AUTHORIZE",
            Permission::Describe => "DESCRIBE",
            Permission::Execute => "EXECUTE",
            Permission::Unmask => "UNMASK",
            Permission::SelectMasked => "SELECT_MASKED",
        }
    }

    pub fn from_name(name: &str) -> Option<Permission> {
        Self::ALL.into_iter().find(|permission| permission.name() == name)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PermissionSet(u16);

impl PermissionSet {
    pub const ALL: PermissionSet = PermissionSet(u16::MAX);

    pub fn of(permissions: &[Permission]) -> Self {
        permissions.iter().fold(Self::default(), |set, &permission| set.with(permission))
    }

    #[must_use]
    pub fn with(self, permission: Permission) -> Self {
        Self(self.0 | 1 << permission as u8)
    }

    pub fn contains(self, permission: Permission) -> bool {
        self.0 & (1 << permission as u8) != 0
    }

    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = Permission> {
        Permission::ALL.into_iter().filter(move |&permission| self.contains(permission))
    }
}

/// Names with commas between.
impl fmt::Display for PermissionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, permission) in self.iter().enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { "," }, permission.name())?;
        }
        Ok(())
    }
}
