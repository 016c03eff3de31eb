//! The only place that turns peers' messages into [`Checked`] ones. It knows no state besides the roots that it checked, so each
//! thread may have its own.

use crate::attestation::{Attestation, CheckedRoots, Checker, Decision, Signatures, Statement, View};
use crate::certificate::{Decided, check_elections, check_transaction, check_views};
use crate::closed::{MAX_LISTED, list_hash};
use crate::message::{Committed, Conflict, MAX_FETCHED, MAX_STATE_TRANSACTIONS, Message, Peer};
use crate::shards::{ClientId, Key, MAX_ITEM_BYTES, ReplicaId, ShardId, Shards, number_of};
use crate::transaction::{MAX_VALUE_BYTES, TransactionId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A message with everything checked that needs no state. For InvokeFB, contains the members' views.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    pub(crate) from: Peer,
    pub(crate) message: Message,
    pub(crate) views: BTreeMap<ReplicaId, View>,
}

/// A peer sent something that is never valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PeerFault(pub String);

/// Checks messages.
pub struct Verifier {
    shards: Arc<Shards>,
    signatures: Arc<dyn Signatures>,
    roots: CheckedRoots,
}

impl Verifier {
    pub fn new(shards: Arc<Shards>, signatures: Arc<dyn Signatures>) -> Self {
        Self { shards, signatures, roots: CheckedRoots::default() }
    }

    /// Number of signatures of replicas that were checked.
    pub fn verifications(&self) -> u64 {
        self.roots.verifications
    }

    /// Checks a message from an authenticated channel.
    ///
    /// # Errors
    /// The rule that the peer broke.
    pub fn check(&mut self, from: Peer, message: Message) -> Result<Checked, PeerFault> {
        let mut checker = Checker::new(&self.shards, &*self.signatures, &mut self.roots);
        let views = check(from, &message, &mut checker).map_err(PeerFault)?;
        Ok(Checked { from, message, views })
    }
}

fn check(from: Peer, message: &Message, checker: &mut Checker) -> Result<BTreeMap<ReplicaId, View>, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    match message {
        Message::Read { timestamp, key } => {
            check_key(key)?;
            check_owner(from, timestamp.client)?;
        }
        Message::Abandon { timestamp } => check_owner(from, timestamp.client)?,
        Message::ReadReply { timestamp, key, committed, prepared } => {
            from_replica(from)?;
            check_key(key)?;
            if let Committed::Written(decided) = committed {
                check_commit(decided, checker)?;
                let fits = decided.transaction.written(key).is_some() && decided.transaction.timestamp < *timestamp;
                ensure(fits, || "read reply: expected a transaction that wrote the key before the timestamp".into())?;
            }
            let is_below = prepared.as_ref().is_none_or(|prepared| prepared.version.timestamp < *timestamp);
            ensure(is_below, || "read reply: expected a version before the timestamp".into())?;
        }
        Message::Prepare(signed) => {
            check_transaction(signed, checker).map_err(|error| text(&error))?;
            check_owner(from, signed.timestamp.client)?;
        }
        Message::Recover(signed) | Message::Known(signed) => {
            check_transaction(signed, checker).map_err(|error| text(&error))?;
        }
        Message::Vote { vote, conflict } => {
            check_own(from, vote, |statement| matches!(statement, Statement::Vote { .. }), checker)?;
            match conflict {
                Some(Conflict::Prepared(other)) => {
                    check_transaction(other, checker).map_err(|error| text(&error))?;
                }
                Some(Conflict::Committed(other)) => check_commit(&other.clone().into(), checker)?,
                None => {}
            }
        }
        Message::Logged(attestation) => {
            let fits = |statement: &Statement| matches!(statement, Statement::Logged { .. } | Statement::View { .. });
            check_own(from, attestation, fits, checker)?;
        }
        Message::Elect(attestation) => {
            check_own(from, attestation, |statement| matches!(statement, Statement::Elect { .. }), checker)?;
        }
        Message::Log(proposal) => proposal.check(checker).map_err(|error| text(&error))?,
        Message::Writeback(decided) => decided.check(checker).map_err(|error| text(&error))?,
        Message::InvokeFallback { proposal, views } => {
            proposal.check(checker).map_err(|error| text(&error))?;
            let id = proposal.transaction.id(checker.shards);
            let shard = proposal.transaction.logging_shard(&id, checker.shards);
            return check_views(id, shard, views, checker).map_err(|error| text(&error));
        }
        Message::Decide { id, decision, view, elections } => {
            let leader = from_replica(from)?;
            ensure(leader == self::leader(*id, *view, leader.shard, checker.shards), || {
                format!("decision of view {view}: expected it from that view's leader")
            })?;
            let proven = check_elections(*id, leader.shard, *view, elections, checker).map_err(|error| text(&error))?;
            ensure(proven == *decision, || "decision: expected the majority of its elections".into())?;
        }
        Message::Closed { closed, transactions } => {
            check_own(from, closed, |statement| matches!(statement, Statement::Closed { .. }), checker)?;
            let Statement::Closed { list, .. } = closed.statement else { return Err("closed: expected a watermark".into()) };
            let is_short = transactions.len() <= MAX_LISTED;
            ensure(is_short && list == list_hash(checker.shards, transactions), || {
                format!("closed: expected the signed list, at most {MAX_LISTED} transactions")
            })?;
        }
        Message::Fetch(ids) => {
            ensure(ids.len() <= MAX_FETCHED, || format!("fetch: expected at most {MAX_FETCHED} transactions"))?
        }
        Message::AskConstant(key) => check_key(key)?,
        Message::Constant { key, value } => {
            from_replica(from)?;
            check_key(key)?;
            ensure(value.len() <= MAX_VALUE_BYTES, || format!("constant: expected at most {MAX_VALUE_BYTES} bytes"))?;
        }
        Message::State { below_us, after, transactions, .. } => {
            from_replica(from)?;
            let is_short = transactions.len() <= MAX_STATE_TRANSACTIONS;
            ensure(is_short, || format!("state: expected at most {MAX_STATE_TRANSACTIONS} transactions"))?;
            let mut before = *after;
            for decided in transactions {
                check_commit(decided, checker)?;
                let id = decided.transaction.id(checker.shards);
                ensure(before < Some(id) && decided.transaction.timestamp.time_us < *below_us, || {
                    "state: expected transactions below its time, in the order of their ids".into()
                })?;
                before = Some(id);
            }
        }
        Message::Pruned { .. } => _ = from_replica(from)?,
        Message::AskClosed { .. } | Message::AskState { .. } => {}
    }
    Ok(BTreeMap::new())
}

/// Leader of a view: (view + id) mod n, with the id's first 8 bytes as a little-endian number (pitfall 1).
pub fn leader(id: TransactionId, view: View, shard: ShardId, shards: &Shards) -> ReplicaId {
    let number = u128::from(number_of(&id)) + u128::from(view);
    ReplicaId { shard, member: u16::try_from(number % shards.all() as u128).expect("fewer than n") }
}

fn ensure(holds: bool, error: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(error()) }
}

fn check_key(key: &Key) -> Result<(), String> {
    ensure(key.item.len() <= MAX_ITEM_BYTES, || format!("key: expected an item of at most {MAX_ITEM_BYTES} bytes"))
}

fn check_owner(from: Peer, client: ClientId) -> Result<(), String> {
    ensure(from == Peer::Client(client), || "timestamp: expected the sender's own".into())
}

fn from_replica(from: Peer) -> Result<ReplicaId, String> {
    match from {
        Peer::Replica(replica) => Ok(replica),
        Peer::Client(_) => Err("reply: expected it from a replica".into()),
    }
}

fn check_commit(decided: &Decided, checker: &mut Checker) -> Result<(), String> {
    ensure(decided.decision() == Decision::Commit, || "certificate: expected one of a commit".into())?;
    decided.check(checker).map_err(|error| error.to_string())
}

/// A statement of the sender itself.
fn check_own(
    from: Peer,
    attestation: &Attestation,
    fits: impl Fn(&Statement) -> bool,
    checker: &mut Checker,
) -> Result<(), String> {
    let is_own = from_replica(from)? == attestation.replica && fits(&attestation.statement);
    ensure(is_own && checker.is_signed(attestation), || "statement: expected one that the sender signed".into())
}
