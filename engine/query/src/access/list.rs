//! Answers to LIST ROLES, LIST PERMISSIONS and LIST SERVICE LEVELS: bodies of RESULT Rows.

use cql::response::{ColumnSpec, EncodedMetadata, RowsWriter};
use types::duration::CqlDuration;
use types::{CqlType, collection};

use super::permission::PermissionSet;
use super::resource::Resource;
use super::service_level::{SHARES_DEFAULT, ServiceLevel};
use super::snapshot::Access;
use crate::error::{QueryError, invalid};

type Row = Vec<Option<Vec<u8>>>;

fn body(table: &str, columns: &[(&str, CqlType)], rows: Vec<Row>) -> Vec<u8> {
    let specs: Vec<ColumnSpec> =
        columns.iter().map(|(name, ty)| ColumnSpec::new("system_auth", table, name, ty.clone())).collect();
    let mut out = Vec::new();
    let mut writer = RowsWriter::begin(&mut out, &EncodedMetadata::new(&specs), false, None);
    for row in rows {
        for cell in &row {
            writer.cell(&mut out, cell.as_deref());
        }
        writer.end_row();
    }
    writer.finish(&mut out);
    out
}

fn text(value: &str) -> Option<Vec<u8>> {
    Some(value.as_bytes().to_vec())
}

fn boolean(value: bool) -> Option<Vec<u8>> {
    Some(vec![u8::from(value)])
}

/// Of the roles in `shown`.
pub(super) fn roles<'a>(access: &Access, shown: impl IntoIterator<Item = &'a String>) -> Vec<u8> {
    let map = CqlType::map(CqlType::Text, CqlType::Text).frozen();
    let columns = [("role", CqlType::Text), ("super", CqlType::Boolean), ("login", CqlType::Boolean), ("options", map)];
    let row = |name: &String| -> Option<Row> {
        let role = access.roles.get(name)?;
        let options = role.options.iter().flat_map(|(key, value)| [key.as_bytes(), value.as_bytes()]);
        let options = collection::write_collection(role.options.len(), options);
        Some(vec![text(name), boolean(role.superuser), boolean(role.login), Some(options)])
    };
    body("roles", &columns, shown.into_iter().filter_map(row).collect())
}

/// The roles that may log in.
pub(super) fn users<'a>(access: &Access, shown: impl IntoIterator<Item = &'a String>) -> Vec<u8> {
    let columns = [("name", CqlType::Text), ("super", CqlType::Boolean)];
    let row = |name: &String| -> Option<Row> {
        access.roles.get(name).filter(|role| role.login)?;
        Some(vec![text(name), boolean(access.is_superuser(name))])
    };
    body("users", &columns, shown.into_iter().filter_map(row).collect())
}

/// Which of `wanted` was granted to whom: to `of` (and, if `recursive`, to the roles granted to it) or to anybody, on
/// `on` (and, if `recursive`, on what is above it) or on anything.
pub(super) fn permissions(
    access: &Access,
    wanted: PermissionSet,
    on: Option<&Resource>,
    of: Option<&str>,
    recursive: bool,
) -> Vec<u8> {
    let columns = [
        ("role", CqlType::Text),
        ("username", CqlType::Text),
        ("resource", CqlType::Text),
        ("permission", CqlType::Text),
    ];
    let roles = of.map(|of| if recursive { access.closure(of) } else { [of.to_string()].into() });
    let chain = on.map(|on| if recursive { on.chain() } else { vec![on.clone()] });
    let mut rows = Vec::new();
    for (role, grants) in &access.grants {
        if roles.as_ref().is_some_and(|roles| !roles.contains(role)) {
            continue;
        }
        for (resource, permissions) in grants {
            if chain.as_ref().is_some_and(|chain| !chain.contains(resource)) {
                continue;
            }
            let shown = permissions.intersection(wanted);
            let row = |name: &str| vec![text(role), text(role), text(&resource.to_string()), text(name)];
            rows.extend(shown.iter().map(|permission| row(permission.name())));
        }
    }
    body("role_permissions", &columns, rows)
}

fn timeout(timeout_ns: Option<u64>) -> Option<Vec<u8>> {
    timeout_ns.map(|ns| CqlDuration { months: 0, days: 0, nanos: ns as i64 }.to_bytes())
}

fn level_row(name: &str, level: &ServiceLevel, percentage: Option<String>) -> Row {
    let shares = (level.shares_or_default() as i32).to_be_bytes().to_vec();
    let mut row = vec![text(name), timeout(level.timeout_ns), level.workload.as_deref().and_then(text), Some(shares)];
    row.extend(percentage.map(|percentage| text(&percentage)));
    row
}

fn level_columns() -> Vec<(&'static str, CqlType)> {
    vec![
        ("service_level", CqlType::Text),
        ("timeout", CqlType::Duration),
        ("workload_type", CqlType::Text),
        ("shares", CqlType::Int),
    ]
}

pub(super) fn service_level(access: &Access, name: &str) -> Result<Vec<u8>, QueryError> {
    let level = access.service_levels.get(name);
    let level = level.ok_or_else(|| invalid!("Service Level {name} doesn't exists."))?;
    Ok(body("service_levels", &level_columns(), vec![level_row(name, level, None)]))
}

/// All, with what part each has of the shares, of which the default level has some too.
pub(super) fn service_levels(access: &Access) -> Vec<u8> {
    let sum: u32 = access.service_levels.values().map(ServiceLevel::shares_or_default).sum::<u32>() + SHARES_DEFAULT;
    let part = |shares: u32| format!("{:.2}%", f64::from(shares) * 100.0 / f64::from(sum));
    let levels = access.service_levels.iter();
    let rows = levels.map(|(name, level)| level_row(name, level, Some(part(level.shares_or_default())))).collect();
    let mut columns = level_columns();
    columns.push(("percentage of all service level shares", CqlType::Text));
    body("service_levels", &columns, rows)
}

pub(super) fn attached(access: &Access, of: Option<&str>) -> Vec<u8> {
    let columns = [("role", CqlType::Text), ("service_level", CqlType::Text)];
    let shown = access.attached.iter().filter(|(role, _)| of.is_none_or(|of| of == role.as_str()));
    body("role_attributes", &columns, shown.map(|(role, level)| vec![text(role), text(level)]).collect())
}

pub(super) fn effective(access: &Access, of: &str) -> Result<Vec<u8>, QueryError> {
    access.role(of)?;
    let level = access.effective_level(of);
    let level = level.ok_or_else(|| invalid!("Role {of} doesn't have assigned any service level"))?;
    let columns =
        [("service_level_option", CqlType::Text), ("effective_service_level", CqlType::Text), ("value", CqlType::Text)];
    let row = |option: &str, from: &str, value: Option<String>| {
        vec![text(option), text(from), value.and_then(|value| text(&value))]
    };
    let rows = vec![
        row("workload_type", &level.workload.0, level.workload.1.clone()),
        row("timeout", &level.timeout.0, level.timeout.1.map(shown_timeout)),
        row("shares", &level.shares.0, Some(level.shares.1.to_string())),
    ];
    Ok(body("service_levels", &columns, rows))
}

/// In the largest units that say it exactly.
fn shown_timeout(ns: u64) -> String {
    CqlDuration { months: 0, days: 0, nanos: ns as i64 }.to_string()
}
