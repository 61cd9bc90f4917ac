//! The busiest partitions, printed as Cassandra's nodetool prints them.

use serde_json::Value;

use super::api::{Api, encoded};
use crate::exit::Failure;

pub fn print(
    api: &Api,
    table: Option<(&str, &str)>,
    duration_ms: u64,
    count: usize,
    capacity: usize,
) -> Result<(), Failure> {
    let path = match table {
        Some((keyspace, table)) => format!("/column_family/toppartitions/{}", encoded(&format!("{keyspace}:{table}"))),
        None => "/storage_service/toppartitions".to_string(),
    };
    let number = |number: u64| number.to_string();
    let parameters =
        [("duration", number(duration_ms)), ("list_size", number(count as u64)), ("capacity", number(capacity as u64))];
    let parameters: Vec<(&str, &str)> = parameters.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let sampled = api.get_with(&path, &parameters)?;
    for (title, of) in [("WRITES", "write"), ("READS", "read")] {
        println!("{title} Sampler:");
        println!("  Cardinality: ~{} ({capacity} capacity)", sampled[format!("{of}_cardinality")]);
        println!("  Top {count} partitions:");
        let rows: Vec<&Value> = sampled[of].as_array().into_iter().flatten().collect();
        if rows.is_empty() {
            println!("\tNothing recorded during sampling period...\n");
            continue;
        }
        let name = |row: &Value| row["partition"].as_str().unwrap_or_default().to_string();
        let width = rows.iter().map(|row| name(row).chars().count()).max().unwrap_or(0).max("Partition".len());
        println!("\t{:<width$}{:>10}{:>10}", "Partition", "Count", "+/-");
        for row in rows {
            println!("\t{:<width$}{:>10}{:>10}", name(row), row["count"].to_string(), row["error"].to_string());
        }
        println!();
    }
    Ok(())
}
