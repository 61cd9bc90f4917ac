//! The log, on stderr.

use tracing_subscriber::EnvFilter;

use crate::args::LogFormat;

/// The audit log is written whenever it is asked for, whatever else is.
const AUDIT: &str = "audit=info";

/// Logs from now on what `filter` lets pass; the environment's RUST_LOG takes precedence.
pub fn init(filter: &str, format: LogFormat) {
    let filter = std::env::var("RUST_LOG").unwrap_or_else(|_| format!("{filter},{AUDIT}"));
    let log = tracing_subscriber::fmt().with_env_filter(EnvFilter::new(filter)).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}
