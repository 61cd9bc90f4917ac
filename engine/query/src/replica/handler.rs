//! Answers the requests of other nodes.

use std::pin::Pin;
use std::rc::Rc;

use cluster::{Handler, Incoming, Payload};
use reactor::Group;
use types::TableId;

use super::{codec, verb};
use crate::error;
use crate::membership::{admission, stream};
use crate::node::Node;
use crate::schema::agreement;

/// The messenger's handler on one shard. It is made before the node, which needs the messenger.
pub struct ReplicaHandler;

impl Handler for ReplicaHandler {
    fn handle(self: Rc<Self>, request: Incoming) {
        let Some(node) = reactor::local::<Node>() else {
            return request.reply.error(0, super::STARTING);
        };
        let group = match request.verb {
            verb::SCHEMA_PUSH | verb::SCHEMA_PULL | verb::TRUNCATE | verb::ADMIT | verb::ADVANCE => Group::Maintenance,
            verb::STREAM | verb::SHARDS => Group::Streaming,
            _ => Group::Statement,
        };
        // A name tells a stall's report what the task was for.
        let name = match request.verb {
            verb::MUTATE => "replica-write",
            verb::READ => "replica-read",
            verb::SCAN => "replica-scan",
            verb::PAXOS => "replica-paxos",
            verb::STREAM => "stream-read",
            _ => "replica-other",
        };
        reactor::run_or_spawn(group, name, async move {
            let Incoming { verb, payload, reply, .. } = request;
            match answer(&node, verb, &payload).await {
                Ok(answer) => reply.send(&answer),
                Err(cause) => reply.error(0, &cause),
            }
        });
    }

    fn answer_stranger(self: Rc<Self>, question: Payload) -> Pin<Box<dyn Future<Output = Result<Vec<u8>, String>>>> {
        Box::pin(async move {
            let node = reactor::local::<Node>().ok_or("the node is still starting: try again")?;
            admission::forward(&node, &question).await
        })
    }
}

async fn answer(node: &Rc<Node>, verb: cluster::Verb, payload: &[u8]) -> Result<Vec<u8>, String> {
    match verb {
        verb::MUTATE => {
            let (token, mutation) = codec::decode_token(payload)?;
            super::apply(node, token, mutation.to_vec()).await.map(|()| Vec::new())
        }
        verb::READ => {
            let (token, rest) = codec::decode_token(payload)?;
            let (version, command) = codec::decode_version(rest)?;
            let partition = super::read(node, token, version, codec::decode_read(command)?).await?;
            Ok(codec::encode_answer(partition.as_ref()))
        }
        // Boxed: with what these need, the future of every write and read would be several times larger.
        _ => Box::pin(answer_seldom(node, verb, payload)).await,
    }
}

/// Requests beside those of statements on single partitions.
async fn answer_seldom(node: &Rc<Node>, verb: cluster::Verb, payload: &[u8]) -> Result<Vec<u8>, String> {
    match verb {
        verb::SCAN => {
            let (version, command) = codec::decode_version(payload)?;
            let (partitions, more) = super::scan(node, version, codec::decode_scan(command)?).await?;
            Ok(codec::encode_scanned(&partitions, more))
        }
        verb::COUNT => {
            let (token, consistency, mutation) = codec::decode_count(payload)?;
            super::count(node, token, mutation.to_vec(), consistency).await.map(|()| Vec::new())
        }
        verb::PAXOS => {
            let (subject, step) = super::paxos::decode_step(payload)?;
            super::paxos::step(node, subject, step).await.map(|answer| super::paxos::encode_answer(&answer))
        }
        verb::TRUNCATE => {
            let id = payload.try_into().map_err(|_| codec::MALFORMED)?;
            super::truncate(node, TableId(u128::from_be_bytes(id))).await.map(|()| Vec::new())
        }
        verb::SCHEMA_PUSH => {
            let text = String::from_utf8_lossy(payload).into_owned();
            on_shard_0(node, move |node| async move { agreement::merge(&node, &text).await }).await.map(|()| Vec::new())
        }
        verb::STREAM => stream::answer(node, payload).await,
        verb::SHARDS => Ok((node.shards as u16).to_be_bytes().to_vec()),
        verb::ADMIT => {
            let question = payload.to_vec();
            on_shard_0(node, async move |node| admission::admit(&node, &question).await.map_err(error::server)).await
        }
        verb::ADVANCE => {
            let (id, state) = admission::decode_step(payload).ok_or(codec::MALFORMED)?;
            let advance = async move |node: Rc<Node>| admission::advance(&node, id, state).await.map_err(error::server);
            on_shard_0(node, advance).await.map(|()| Vec::new())
        }
        verb::SCHEMA_PULL => on_shard_0(node, |_| async { agreement::render() }).await.map(String::into_bytes),
        other => Err(format!("no such request: {}", other.0)),
    }
}

/// Schema work belongs to shard 0, whichever shard heard of it.
async fn on_shard_0<T, Fut>(node: &Rc<Node>, work: impl FnOnce(Rc<Node>) -> Fut + Send + 'static) -> Result<T, String>
where
    T: Send + 'static,
    Fut: Future<Output = Result<T, crate::QueryError>> + 'static,
{
    if node.shard == 0 {
        return work(node.clone()).await.map_err(|error| error.to_string());
    }
    reactor::submit_to_with(0, Group::Maintenance, "schema", move || async move {
        let node = reactor::local::<Node>().ok_or(super::STARTING)?;
        work(node).await.map_err(|error| error.to_string())
    })
    .await
}
