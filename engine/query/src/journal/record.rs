//! Rows written by the node itself, in the tables of [`system::stored`](crate::system).

use std::rc::Rc;

use cql::Consistency;
use cql::response::WriteType;
use storage::{Mutation, Stamp};
use types::Token;

use crate::error::{QueryError, server};
use crate::node::Node;
use crate::replica;
use crate::system::{self, Values};

pub(crate) const TRACES: &str = "system_traces";

impl Node {
    /// Writes one row, which expires after `ttl_s` seconds; 0: never.
    pub(crate) async fn record(
        self: &Rc<Self>,
        keyspace: &str,
        name: &str,
        values: Values,
        ttl_s: u32,
    ) -> Result<(), QueryError> {
        let table = self.table(keyspace, name)?;
        let now_s = reactor::wall_s();
        let stamp = Stamp { timestamp: self.next_timestamp(), ttl_s, now_s };
        for partition in system::stamped_partitions(&table, vec![values], &stamp) {
            let token = Token::of_key(&partition.key);
            let bytes = Mutation::bytes(&table, partition);
            if system::is_virtual(keyspace) {
                replica::apply_plain(self, token, bytes).await.map_err(server)?;
            } else {
                self.write(keyspace, token, bytes, Consistency::Any, WriteType::Simple, None).await?;
            }
        }
        Ok(())
    }
}
