//! How a node's shards, and the nodes, come to know the same schema.
//!
//! Shard 0 keeps the document. A change is decided there, one at a time: written to `schema.cql`, given to the other
//! shards, then pushed to every live node, which merges it and does the same. A node that was away sees another
//! version in the heartbeats and pulls. Because documents merge by time, no order of these steps can make two nodes
//! differ for good.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use cluster::NodeIndex;
use reactor::sync::Semaphore;
use reactor::{Group, fs};

use super::document::{Change, Document, DocumentError};
use super::{ChangeKind, Schema, Target};
use crate::access::{self, Command, Resource};
use crate::ddl::{self, Ddl};
use crate::error::{self, QueryError};
use crate::membership::{self, Member};
use crate::node::Node;
use crate::replica::verb;
use crate::shards::Starting;

pub(crate) const FILE: &str = "schema.cql";

/// The keeper of the document, a local of shard 0.
pub struct Agreement {
    document: RefCell<Document>,
    one_at_a_time: Rc<Semaphore>,
}

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{path} cannot be read: {cause}")]
    Read { path: String, cause: std::io::Error },
    #[error("{path}: {cause}")]
    Content { path: String, cause: DocumentError },
}

/// Reads the node's document; an absent file is an empty schema.
pub async fn load(data_dir: &str) -> Result<(Document, Arc<Schema>), LoadError> {
    let path = format!("{data_dir}/{FILE}");
    let text = match fs::read(&path).await {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(cause) => return Err(LoadError::Read { path, cause }),
    };
    let content = |cause| LoadError::Content { path: path.clone(), cause };
    let document = Document::parse(&text).map_err(content)?;
    let schema = Arc::new(document.build().map_err(content)?);
    Ok((document, schema))
}

impl Agreement {
    /// Registers the keeper on the current shard, which must be shard 0.
    pub fn install(document: Document) {
        reactor::set_local(Rc::new(Self { document: RefCell::new(document), one_at_a_time: Semaphore::new(1) }));
    }

    fn of_shard() -> Result<Rc<Self>, QueryError> {
        reactor::local::<Self>().ok_or_else(|| error::server("the schema is kept by shard 0"))
    }
}

/// Executes a schema statement from any shard, on behalf of the role `creator`. `None`: nothing to change (`IF NOT
/// EXISTS`).
pub(crate) async fn change(node: &Rc<Node>, ddl: Ddl, creator: Option<String>) -> Result<Option<Change>, QueryError> {
    if node.shard == 0 {
        return change_here(node, ddl, creator).await;
    }
    reactor::submit_to_with(0, Group::Maintenance, "schema-change", move || async move {
        let node = reactor::local::<Node>().ok_or_else(|| error::server(Starting))?;
        change_here(&node, ddl, creator).await
    })
    .await
}

/// Executes a statement about roles, grants or service levels from any shard.
pub(crate) async fn change_access(node: &Rc<Node>, command: Command) -> Result<(), QueryError> {
    if node.shard == 0 {
        return change_access_here(node, command).await;
    }
    reactor::submit_to_with(0, Group::Maintenance, "access-change", move || async move {
        let node = reactor::local::<Node>().ok_or_else(|| error::server(Starting))?;
        change_access_here(&node, command).await
    })
    .await
}

async fn change_access_here(node: &Rc<Node>, command: Command) -> Result<(), QueryError> {
    let keeper = Agreement::of_shard()?;
    let _turn = keeper.one_at_a_time.acquire(1).await;
    let entries = node.schema().access.decide(&command)?;
    if entries.is_empty() {
        return Ok(());
    }
    let now_us = reactor::wall_us() as i64;
    let mut document = keeper.document.borrow().clone();
    for (target, record) in entries {
        document.set(target, record, now_us);
    }
    take_over(node, &keeper, document, &[]).await?;
    push(node, &keeper).await;
    Ok(())
}

/// What the grants are about that a change of `target` entails.
fn resources(target: &Target, schema: &Schema) -> Vec<Resource> {
    match target {
        Target::Function(keyspace, signature) | Target::Aggregate(keyspace, signature) => {
            access::function_of(schema, keyspace, signature).into_iter().collect()
        }
        Target::Keyspace(keyspace) => vec![Resource::keyspace(keyspace), Resource::FunctionsIn(keyspace.clone())],
        Target::Table(keyspace, table) => vec![Resource::table(keyspace, table)],
        Target::Type(..) | Target::Index(..) | Target::Access(_) | Target::Node(_) => Vec::new(),
    }
}

async fn change_here(node: &Rc<Node>, ddl: Ddl, creator: Option<String>) -> Result<Option<Change>, QueryError> {
    let keeper = Agreement::of_shard()?;
    let _turn = keeper.one_at_a_time.acquire(1).await;
    let now_us = reactor::wall_us() as i64;
    let topology = node.topology();
    if let Some(joining) = topology.joining() {
        // What it has to fetch, and for which columns, is decided.
        return Err(error::server(format!(
            "{} is joining the cluster: the schema can be changed when it has joined",
            joining.address
        )));
    }
    let data_centres = topology.data_centers();
    let Some(decision) = ddl::decide(&ddl, &node.schema(), data_centres, now_us)? else { return Ok(None) };
    let dropped = decision.entries.iter().filter(|(_, statement)| statement.is_none());
    let dropped: Vec<Resource> = dropped.flat_map(|(target, _)| resources(target, &node.schema())).collect();
    let created = match decision.change.kind {
        // Who makes a function is not given it, as in ScyllaDB.
        ChangeKind::Created if matches!(ddl, Ddl::Function(_)) => Vec::new(),
        ChangeKind::Created => resources(&decision.change.target, &node.schema()),
        _ => Vec::new(),
    };
    let grants = node.schema().access.follow(&created, creator.as_deref(), &dropped);
    let mut document = keeper.document.borrow().clone();
    for (target, statement) in decision.entries.into_iter().chain(grants) {
        document.set(target, statement, now_us);
    }
    take_over(node, &keeper, document, std::slice::from_ref(&decision.change)).await?;
    push(node, &keeper).await;
    Ok(Some(decision.change))
}

/// Merges another node's document, on shard 0.
pub(crate) async fn merge(node: &Rc<Node>, text: &str) -> Result<(), QueryError> {
    let keeper = Agreement::of_shard()?;
    let _turn = keeper.one_at_a_time.acquire(1).await;
    let theirs = Document::parse(text).map_err(error::server)?;
    let mut document = keeper.document.borrow().clone();
    let changes = document.merge(theirs);
    membership::check_reachable(node, &document.members().map_err(error::server)?)?;
    if document != *keeper.document.borrow() {
        take_over(node, &keeper, document, &changes).await?;
    }
    Ok(())
}

/// The nodes that joined, by their numbers, on shard 0.
pub(crate) fn members() -> Result<BTreeMap<u16, Member>, QueryError> {
    Agreement::of_shard()?.document.borrow().members().map_err(error::server)
}

/// Records a node that joins, on shard 0, and takes that over; telling others is for the caller.
pub(crate) async fn record_member(node: &Rc<Node>, member: &Member) -> Result<(), QueryError> {
    let keeper = Agreement::of_shard()?;
    let _turn = keeper.one_at_a_time.acquire(1).await;
    let mut document = keeper.document.borrow().clone();
    document.set(Target::Node(member.host_id()), Some(member.encode()), reactor::wall_us() as i64);
    take_over(node, &keeper, document, &[]).await
}

/// Our document as text, on shard 0.
pub(crate) fn render() -> Result<String, QueryError> {
    Ok(Agreement::of_shard()?.document.borrow().render())
}

/// Makes `document` durable, then the schema of every shard of the node.
async fn take_over(
    node: &Rc<Node>,
    keeper: &Agreement,
    document: Document,
    changes: &[Change],
) -> Result<(), QueryError> {
    let schema = Arc::new(document.build().map_err(error::server)?);
    node.topology_of(&schema).map_err(error::server)?;
    let prepared = async {
        on_every_shard(node, &schema, async |node, schema| node.prepare_schema(&schema).await).await?;
        fs::replace(&node.config.data_dir, FILE, document.render().as_bytes())
            .await
            .map_err(|error| error::server(format!("{}/{FILE}: {error}", node.config.data_dir)))
    };
    if let Err(error) = prepared.await {
        on_every_shard(node, &schema, async |node, schema| {
            node.forget_schema(&schema);
            Ok(())
        })
        .await?;
        return Err(error);
    }
    let has_other_nodes = node.schema().joined != schema.joined;
    *keeper.document.borrow_mut() = document;
    let changes: Arc<[Change]> = changes.into();
    if has_other_nodes {
        // Shard 0 last: it lets a new node in.
        on_every_shard(node, &schema, async |node, schema| {
            if node.shard == 0 { Ok(()) } else { node.take_topology(&schema).map_err(error::server) }
        })
        .await?;
        node.take_topology(&schema).map_err(error::server)?;
    }
    on_every_shard(node, &schema, async move |node, schema| node.install_schema(schema, &changes).await).await?;
    if has_other_nodes {
        // Who hears that this is done relies on all requests going by the new ring.
        on_every_shard(node, &schema, async |node, _| {
            node.rings_left().await;
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// Runs `work` with the schema to come on all shards.
async fn on_every_shard(
    node: &Rc<Node>,
    schema: &Arc<Schema>,
    work: impl AsyncFn(Rc<Node>, Arc<Schema>) -> Result<(), QueryError> + Clone + Send + 'static,
) -> Result<(), QueryError> {
    let schema = schema.clone();
    let on_shard = move |node| {
        let (schema, work) = (schema.clone(), work.clone());
        async move { work(node, schema).await }
    };
    let results = node.on_every_shard("schema-install", on_shard).await.map_err(error::server)?;
    results.into_iter().collect()
}

/// Sends our document to every live node and waits for their answers. One that does not answer pulls it later.
async fn push(node: &Rc<Node>, keeper: &Agreement) {
    let Some(messenger) = node.messenger() else { return };
    let text = keeper.document.borrow().render();
    let alive: Vec<NodeIndex> =
        node.topology().peers().map(|peer| peer.index).filter(|&peer| messenger.is_alive(peer)).collect();
    let timeout = node.config.timeouts.schema;
    let calls: Vec<_> =
        alive.iter().map(|&peer| messenger.call(peer, verb::SCHEMA_PUSH, text.as_bytes(), timeout)).collect();
    for (peer, call) in alive.iter().zip(calls) {
        if let Err(error) = call.await {
            tracing::warn!(peer = peer.0, %error, "a node has not taken over the schema change yet");
        }
    }
}

/// Asks `peer` for its document: it has been heard of with another version than ours.
pub(crate) async fn pull(node: &Rc<Node>, peer: NodeIndex) {
    let Some(messenger) = node.messenger() else { return };
    match messenger.call(peer, verb::SCHEMA_PULL, &[], node.config.timeouts.schema).await {
        Ok(answer) => {
            if let Err(error) = merge(node, &String::from_utf8_lossy(&answer)).await {
                tracing::warn!(peer = peer.0, %error, "the schema of a node could not be merged");
            }
        }
        Err(error) => tracing::debug!(peer = peer.0, %error, "no schema from this node"),
    }
}

impl Change {
    /// The protocol's word for it.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            ChangeKind::Created => "CREATED",
            ChangeKind::Updated => "UPDATED",
            ChangeKind::Dropped => "DROPPED",
        }
    }
}
