//! Values of the system tables' rows, encoded.

use std::collections::BTreeMap;
use std::net::IpAddr;

use types::collection;

/// Values by column name; a column that is absent is null.
pub(crate) type Values = BTreeMap<&'static str, Vec<u8>>;

pub(crate) fn text(value: impl AsRef<str>) -> Vec<u8> {
    value.as_ref().as_bytes().to_vec()
}

pub(crate) fn int(value: i32) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

pub(crate) fn double(value: f64) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

pub(crate) fn boolean(value: bool) -> Vec<u8> {
    vec![u8::from(value)]
}

pub(crate) fn uuid(value: u128) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

pub(crate) fn inet(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

pub(crate) fn bigint(value: i64) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

pub(crate) fn set(items: &[String]) -> Vec<u8> {
    collection::write_collection(items.len(), items.iter().map(String::as_bytes))
}

pub(crate) fn map(items: &BTreeMap<String, String>) -> Vec<u8> {
    collection::write_collection(items.len(), items.iter().flat_map(|(k, v)| [k.as_bytes(), v.as_bytes()]))
}
