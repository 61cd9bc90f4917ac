//! Scenario model, workloads and the loading client.
