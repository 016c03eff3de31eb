//! Scripts for the rules of one replica, and of one client: a test plays everybody else, so that each message is chosen.
#![allow(clippy::unwrap_used)] // the lint exempts test functions, but not their helpers

use corniche_basil::MAX_CONSTANTS;
use corniche_basil::attestation::Decision::{Abort, Commit};
use corniche_basil::attestation::{Attestation, Decision, Statement, View, attest};
use corniche_basil::certificate::{Certificate, Decided, Justification, Proposal};
use corniche_basil::config::Config;
use corniche_basil::message::{Committed, Conflict, Message, Peer, Versioned};
use corniche_basil::record::Record;
use corniche_basil::replica::{Input, MAX_DEPTH, Output, Replica, Setup, Ticket};
use corniche_basil::shards::{ClientId, Key, ReplicaId, ShardId, Shards};
use corniche_basil::shared::Shared;
use corniche_basil::transaction::{Read, SignedTransaction, Timestamp, Transaction, TransactionId, Version};
use corniche_basil::verify::{PeerFault, Verifier, leader};
use corniche_basil_testing::{CONSTANTS, Keys, Mixer, START, Secret, World, client_id, constant, exact, unwritten};
use corniche_types::{B256, Bytes, TimestampMs};
use std::sync::Arc;

const ALICE: u8 = 0;
const BOB: u8 = 1;
const SHARD: ShardId = ShardId(0);
/// Microseconds of the scripts' start.
const T: u64 = START * 1_000;

fn member(member: u16) -> ReplicaId {
    ReplicaId { shard: SHARD, member }
}

fn sign(shards: &Shards, replica: ReplicaId, statement: Statement) -> Attestation {
    attest(shards, replica, &Secret(*shards.key(replica).unwrap()), vec![statement]).remove(0)
}

/// The statement of each of these members.
fn signed_by(shards: &Shards, members: impl IntoIterator<Item = u16>, statement: &Statement) -> Vec<Attestation> {
    members.into_iter().map(|number| sign(shards, member(number), statement.clone())).collect()
}

/// One replica of a shard of six. The test has the keys of the other five, and of all clients.
struct Script {
    world: World,
    replica: Replica,
    verifier: Verifier,
    id: ReplicaId,
    now: TimestampMs,
    /// Records that are durable.
    disk: Vec<Record>,
    /// Appends that are not durable.
    appends: Vec<(Ticket, Vec<Record>)>,
    /// Appends become durable at once.
    is_disk_fast: bool,
    sent: Vec<(Peer, Arc<Message>)>,
}

impl Script {
    fn new() -> Self {
        Self::of_member(3)
    }

    fn of_member(number: u16) -> Self {
        let world = World::new(1, 2, exact(), 1);
        let (id, now) = (member(number), TimestampMs(START));
        let replica = Self::build(&world, id, now, Vec::new());
        let verifier = Verifier::new(Arc::clone(&world.shards), Arc::new(Keys));
        let (disk, appends, sent) = (Vec::new(), Vec::new(), Vec::new());
        Self { world, replica, verifier, id, now, disk, appends, is_disk_fast: true, sent }
    }

    fn build(world: &World, id: ReplicaId, now: TimestampMs, records: Vec<Record>) -> Replica {
        let signer = Arc::new(Secret(*world.shards.key(id).unwrap()));
        let (shards, program) = (Arc::clone(&world.shards), Arc::new(Mixer));
        let config = Config { protect_readers: false, ..exact() };
        Replica::new(now, Setup { config, shards, id, signer, program, genesis: Vec::new(), genesis_us: T, records })
    }

    /// The process dies, and starts from what is durable.
    fn restart(&mut self) {
        self.appends.clear();
        self.sent.clear();
        self.replica = Self::build(&self.world, self.id, self.now, self.disk.clone());
        // A snapshot is as good as the records that it replaces.
        self.replica = Self::build(&self.world, self.id, self.now, self.replica.snapshot());
        self.drain();
    }

    fn send(&mut self, from: Peer, message: Message) {
        self.try_send(from, message).unwrap();
    }

    fn try_send(&mut self, from: Peer, message: Message) -> Result<(), PeerFault> {
        let checked = self.verifier.check(from, message)?;
        self.replica.handle(self.now, Input::Message(Box::new(checked)));
        self.drain();
        Ok(())
    }

    fn drain(&mut self) {
        while let Some(output) = self.replica.poll() {
            match output {
                Output::Send { to, message } => self.sent.push((to, message)),
                Output::Persist(ticket, records) => {
                    self.appends.push((ticket, records));
                    if self.is_disk_fast {
                        self.sync();
                    }
                }
                Output::Behind => {}
                Output::Decided(_) => {}
            }
        }
    }

    /// Everything appended becomes durable.
    fn sync(&mut self) {
        for (ticket, records) in std::mem::take(&mut self.appends) {
            self.disk.extend(records);
            self.replica.handle(self.now, Input::Durable(ticket));
        }
        self.drain();
    }

    /// Time passes, and the replica's timers run.
    fn wait(&mut self, ms: u64) {
        let until = self.now.0 + ms;
        while let Some(deadline) = self.replica.deadline().filter(|deadline| deadline.0 <= until) {
            self.now = TimestampMs(self.now.0.max(deadline.0));
            self.replica.handle(self.now, Input::Deadline);
            self.drain();
        }
        self.now = TimestampMs(until);
    }

    fn keys(&self, count: usize) -> Vec<Key> {
        self.world.keys_on(SHARD, count)
    }

    fn forge(
        &self,
        client: u8,
        time_us: u64,
        reads: Vec<Read>,
        writes: &[Key],
        salt: u64,
    ) -> (TransactionId, Shared<SignedTransaction>) {
        self.world.forge(client_id(client), time_us, reads, writes, salt)
    }

    fn prepare(&mut self, transaction: &Shared<SignedTransaction>) {
        let from = Peer::Client(transaction.timestamp.client);
        self.send(from, Message::Prepare(Shared::clone(transaction)));
    }

    /// Every vote that the replica sent for this transaction.
    fn votes(&self, transaction: TransactionId) -> Vec<Decision> {
        let vote = |message: &Message| match message {
            Message::Vote { vote, .. } => match vote.statement {
                Statement::Vote { id, vote } if id == transaction => Some(vote),
                _ => None,
            },
            _ => None,
        };
        self.sent.iter().filter_map(|(_, message)| vote(message)).collect()
    }

    /// Every logged decision that it reported, with its view and the current one.
    fn logged(&self, transaction: TransactionId) -> Vec<(Decision, View, View)> {
        let logged = |message: &Message| match message {
            Message::Logged(attestation) => match attestation.statement {
                Statement::Logged { id, decision, decision_view, current_view } if id == transaction => {
                    Some((decision, decision_view, current_view))
                }
                _ => None,
            },
            _ => None,
        };
        self.sent.iter().filter_map(|(_, message)| logged(message)).collect()
    }

    /// Every election that it took part in.
    fn elections(&self) -> Vec<(Peer, Decision, View)> {
        let election = |(to, message): &(Peer, Arc<Message>)| match &**message {
            Message::Elect(attestation) => match attestation.statement {
                Statement::Elect { decision, view, .. } => Some((*to, decision, view)),
                _ => None,
            },
            _ => None,
        };
        self.sent.iter().filter_map(election).collect()
    }

    fn decide(&mut self, transaction: &Shared<SignedTransaction>, decision: Decision) {
        let id = transaction.id(&self.world.shards);
        let logged = Statement::Logged { id, decision, decision_view: 0, current_view: 0 };
        let certificate = Certificate::Logged(decision, signed_by(&self.world.shards, 0..5, &logged));
        let decided = Decided { transaction: Shared::clone(transaction), certificate };
        self.send(Peer::Client(client_id(BOB)), Message::Writeback(Shared::new(decided)));
    }

    fn proposal(&self, transaction: &Shared<SignedTransaction>, decision: Decision) -> Shared<Proposal> {
        let vote = Statement::Vote { id: transaction.id(&self.world.shards), vote: decision };
        let count = if decision == Commit { 4 } else { 2 };
        let justification = Justification::Votes(signed_by(&self.world.shards, 0..count, &vote));
        Shared::new(Proposal { transaction: Shared::clone(transaction), decision, justification })
    }

    fn log(&mut self, transaction: &Shared<SignedTransaction>, decision: Decision) {
        let proposal = self.proposal(transaction, decision);
        self.send(Peer::Client(client_id(BOB)), Message::Log(proposal));
    }

    /// InvokeFB with the members' views, from Bob.
    fn invoke(&mut self, transaction: &Shared<SignedTransaction>, decision: Decision, views: &[(u16, View)]) {
        let id = transaction.id(&self.world.shards);
        let view =
            |(number, view): &(u16, View)| sign(&self.world.shards, member(*number), Statement::View { id, view: *view });
        let message =
            Message::InvokeFallback { proposal: self.proposal(transaction, decision), views: views.iter().map(view).collect() };
        self.send(Peer::Client(client_id(BOB)), message);
    }

    /// DecFb of the view's leader, with the elections of these members.
    fn decfb(
        &mut self,
        id: TransactionId,
        decision: Decision,
        view: View,
        commits: &[u16],
        aborts: &[u16],
    ) -> Result<(), PeerFault> {
        let leader = leader(id, view, SHARD, &self.world.shards);
        self.decfb_from(leader, id, decision, view, commits, aborts)
    }

    fn decfb_from(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        decision: Decision,
        view: View,
        commits: &[u16],
        aborts: &[u16],
    ) -> Result<(), PeerFault> {
        let elect = |decision, members: &[u16]| {
            signed_by(&self.world.shards, members.iter().copied(), &Statement::Elect { id, decision, view })
        };
        let elections = [elect(Commit, commits), elect(Abort, aborts)].concat();
        self.try_send(Peer::Replica(from), Message::Decide { id, decision, view, elections })
    }

    /// The transaction that wrote the newest committed version.
    fn committed(&mut self, key: &Key) -> Option<Shared<SignedTransaction>> {
        match self.newest(key).0 {
            Committed::Written(decided) => Some(Shared::clone(&decided.transaction)),
            Committed::Genesis(_) => None,
        }
    }

    /// The newest committed and prepared versions of a key, as the replica reports them to Bob.
    fn newest(&mut self, key: &Key) -> (Committed, Option<Versioned>) {
        let timestamp = Timestamp { time_us: T + 900_000, client: client_id(BOB) };
        self.send(Peer::Client(client_id(BOB)), Message::Read { timestamp, key: key.clone() });
        match &*self.sent.pop().unwrap().1 {
            Message::ReadReply { committed, prepared, .. } => (committed.clone(), prepared.clone()),
            other => panic!("expected a reply, got {other:?}"),
        }
    }
}

/// The read of a value that `writer` writes.
fn read_of(id: TransactionId, writer: &SignedTransaction, key: &Key) -> Read {
    let version = Version { timestamp: writer.timestamp, writer: id };
    Read { key: key.clone(), version, value: writer.written(key).unwrap().clone() }
}

fn invented(key: &Key) -> Read {
    let version = Version { timestamp: Timestamp { time_us: T, client: client_id(ALICE) }, writer: B256::with_last_byte(9) };
    Read { key: key.clone(), version, value: Some(Bytes::from_static(b"invented")) }
}

// Dependencies: K2, K7.

#[test]
fn a_value_that_its_version_does_not_have_is_refused() {
    for state in ["prepared", "committed"] {
        let mut script = Script::new();
        let keys = script.keys(2);
        let (writer, written) = script.forge(ALICE, T + 1, vec![], &keys[..1], 1);
        script.prepare(&written);
        if state == "committed" {
            script.decide(&written, Commit);
        }
        let wrong = Read { value: Some(Bytes::from_static(b"other")), ..read_of(writer, &written, &keys[0]) };
        let (reader, reading) = script.forge(BOB, T + 2, vec![wrong], &keys[1..], 2);
        script.prepare(&reading);
        assert_eq!(script.votes(reader), [Abort], "of a {state} transaction");
        let (reader, reading) =
            script.forge(BOB, T + 3, vec![Read { value: Some(Bytes::new()), ..unwritten(&keys[1]) }], &keys[1..], 2);
        script.prepare(&reading);
        assert_eq!(script.votes(reader), [Abort], "of the genesis");
    }
}

#[test]
fn a_reader_of_a_prepared_value_follows_its_writer() {
    for decision in [Commit, Abort] {
        let mut script = Script::new();
        let keys = script.keys(2);
        let (writer, written) = script.forge(ALICE, T + 1, vec![], &keys[..1], 1);
        script.prepare(&written);
        let (reader, reading) = script.forge(BOB, T + 2, vec![read_of(writer, &written, &keys[0])], &keys[1..], 2);
        script.prepare(&reading);
        script.prepare(&reading);
        script.wait(10_000);
        assert_eq!((script.votes(writer), script.votes(reader)), (vec![Commit], vec![]), "it waits");
        assert!(script.newest(&keys[1]).1.is_some(), "its writes are visible meanwhile");
        script.decide(&written, decision);
        assert_eq!(script.votes(reader), [decision]);
        assert_eq!(script.newest(&keys[1]).1.is_some(), decision == Commit);
    }
}

/// The wait survives a restart, and so does its end.
#[test]
fn a_waiting_transaction_waits_after_a_restart() {
    for decision in [Commit, Abort] {
        let mut script = Script::new();
        let keys = script.keys(2);
        let (writer, written) = script.forge(ALICE, T + 1, vec![], &keys[..1], 1);
        script.prepare(&written);
        let (reader, reading) = script.forge(BOB, T + 2, vec![read_of(writer, &written, &keys[0])], &keys[1..], 2);
        script.prepare(&reading);
        script.restart();
        assert_eq!(script.votes(reader), []);
        script.prepare(&reading);
        assert_eq!(script.votes(reader), [], "it still waits");
        script.decide(&written, decision);
        assert_eq!(script.votes(reader), [decision]);
    }
}

/// Pitfall 4: liars vouch for a transaction that this replica never saw.
#[test]
fn an_unknown_writer_is_fetched() {
    let mut script = Script::new();
    let keys = script.keys(2);
    let (writer, written) = script.forge(ALICE, T + 1, vec![], &keys[..1], 1);
    let (reader, reading) = script.forge(BOB, T + 2, vec![read_of(writer, &written, &keys[0])], &keys[1..], 2);
    script.prepare(&reading);
    assert_eq!(script.votes(reader), []);
    assert!(script.sent.iter().any(|(_, message)| **message == Message::Fetch(vec![writer])));
    script.send(Peer::Replica(member(0)), Message::Known(Shared::clone(&written)));
    assert_eq!(script.votes(reader), [], "the writer is prepared now, and not decided");
    script.decide(&written, Commit);
    assert_eq!(script.votes(reader), [Commit]);
}

/// A replica that asked for the constant of a transaction, in a chain of two shards.
fn waits_for_a_constant() -> (Script, TransactionId, Key, Bytes) {
    let mut script = Script::new();
    script.world = World::new(2, 2, exact(), 1);
    script.verifier = Verifier::new(Arc::clone(&script.world.shards), Arc::new(Keys));
    script.restart();
    let is_other = |(key, _): &(Key, Bytes)| script.world.shards.shard_of(key) != SHARD;
    let (key, value) = (0..CONSTANTS).map(constant).find(is_other).unwrap();
    let (id, transaction) = script.forge(ALICE, T + 1, vec![], &[script.keys(1), vec![key.clone()]].concat(), 1);
    script.prepare(&transaction);
    assert_eq!(script.votes(id), []);
    let asked = |(to, message): &&(Peer, Arc<Message>)| {
        matches!(to, Peer::Replica(replica) if replica.shard == ShardId(1)) && **message == Message::AskConstant(key.clone())
    };
    assert_eq!(script.sent.iter().filter(asked).count(), 2);
    (script, id, key, value)
}

#[test]
fn a_vote_waits_for_constants() {
    let owner = Peer::Replica(ReplicaId { shard: ShardId(1), member: 2 });
    let (mut script, id, key, value) = waits_for_a_constant();
    script.send(owner, Message::Constant { key: key.clone(), value: Bytes::from_static(b"invented") });
    let (other, content) = constant(CONSTANTS);
    script.send(owner, Message::Constant { key: other, value: content });
    assert_eq!(script.votes(id), []);
    let from_client = Message::Constant { key: key.clone(), value: value.clone() };
    assert!(script.try_send(Peer::Client(client_id(ALICE)), from_client).is_err());
    let waiting = script.replica.footprint();
    // Another transaction that needs it asks nobody.
    script.sent.clear();
    let keys = script.keys(3);
    let (same, transaction) = script.forge(BOB, T + 3, vec![], &[keys[2..].to_vec(), vec![key.clone()]].concat(), 3);
    script.prepare(&transaction);
    assert_eq!(script.sent, []);
    script.send(owner, Message::Constant { key: key.clone(), value: value.clone() });
    assert_eq!((script.votes(id), script.votes(same)), (vec![Commit], vec![Commit]));
    // Another question needs no message, and nobody can fill the memory with constants that are not needed.
    let (second, transaction) = script.forge(BOB, T + 2, vec![], &[script.keys(2).split_off(1), vec![key.clone()]].concat(), 2);
    script.prepare(&transaction);
    assert_eq!(script.votes(second), [Commit]);
    script.sent.clear();
    let footprint = script.replica.footprint();
    assert!(footprint > waiting);
    let (other, content) = constant(CONSTANTS + 1);
    script.send(owner, Message::Constant { key: other, value: content });
    assert_eq!(script.replica.footprint(), footprint);
    script.send(Peer::Client(client_id(BOB)), Message::AskConstant(key.clone()));
    assert_eq!(*script.sent[0].1, Message::Constant { key, value });
}

#[test]
fn a_constant_that_nobody_has_aborts_its_transaction_at_last() {
    let (mut script, id, ..) = waits_for_a_constant();
    let waiting = script.replica.footprint();
    script.wait(1_000);
    assert!(script.sent.len() > 6, "it asks again, and everybody");
    assert_eq!(script.votes(id), []);
    script.wait(60_000);
    assert_eq!(script.votes(id), [Abort]);
    assert_eq!(script.replica.footprint(), waiting - 1, "it does not wait for the constant any more");
}

/// One peer cannot make a replica ask for any number of constants.
#[test]
fn questions_for_constants_are_bounded() {
    let (mut script, ..) = waits_for_a_constant();
    let is_other = |key: &Key| script.world.shards.shard_of(key) != SHARD;
    let mut unknown = (CONSTANTS..).map(|number| constant(number).0).filter(is_other).take(6 * MAX_CONSTANTS);
    let mut needing = |count: usize| unknown.by_ref().take(count).collect::<Vec<_>>();
    let (most, too_many) = (needing(MAX_CONSTANTS), needing(MAX_CONSTANTS + 1));
    let others: Vec<_> = (0..4).map(|_| needing(MAX_CONSTANTS)).collect();
    let mut prepare = |client, time_us, keys: Vec<Key>| {
        let (id, transaction) = script.forge(client, time_us, vec![], &[script.keys(1), keys].concat(), time_us);
        script.prepare(&transaction);
        script.votes(id)
    };
    assert_eq!(prepare(BOB, T + 2, too_many), [Abort]);
    assert_eq!(prepare(BOB, T + 3, most.clone()), []);
    for (number, keys) in (4..).zip(&others[..3]) {
        assert_eq!(prepare(BOB, T + number, keys.clone()), []);
    }
    // It has asked for 256.
    assert_eq!(prepare(BOB, T + 7, others[3].clone()), [Abort]);
    assert_eq!(prepare(BOB, T + 8, most), [], "it asked for these already");
    assert_eq!(prepare(ALICE, T + 9, others[3].clone()), []);
}

#[test]
fn a_writer_that_nobody_has_aborts_its_reader_at_last() {
    let mut script = Script::new();
    let keys = script.keys(2);
    let (reader, reading) = script.forge(BOB, T + 2, vec![invented(&keys[0])], &keys[1..], 2);
    script.prepare(&reading);
    let before = script.replica.footprint();
    assert_eq!(script.votes(reader), []);
    script.wait(60_000);
    assert_eq!(script.votes(reader), [Abort]);
    assert_eq!(script.replica.footprint(), before - 1, "nothing is kept about the invented writer");
}

/// A client prepares a chain without its first transaction. Everything waits until that one arrives, and then the chain may have
/// its greatest length.
#[test]
fn a_long_chain_of_parked_transactions_is_cut() {
    let mut script = Script::new();
    let keys = script.keys(4_000);
    let mut chain = vec![script.forge(ALICE, T + 1, vec![], &keys[..1], 0)];
    for (time_us, keys) in (T + 2..).zip(keys.windows(2)) {
        let (id, written) = chain.last().unwrap();
        let read = read_of(*id, written, &keys[0]);
        chain.push(script.forge(ALICE, time_us, vec![read], &keys[1..], 0));
    }
    for (_, transaction) in &chain[1..] {
        script.prepare(transaction);
    }
    assert_eq!(script.newest(&keys[1]).1, None);
    let first = chain[0].clone();
    script.prepare(&first.1);
    assert_eq!(script.votes(first.0), [Commit]);
    let last = usize::from(MAX_DEPTH) - 1;
    assert!(script.newest(&keys[last]).1.is_some(), "it is prepared, and waits");
    assert_eq!((script.votes(chain[last].0), script.votes(chain[last + 1].0)), (vec![], vec![Abort]));
}

// Votes: K0, K1, A1, pitfalls 5 and 14.

#[test]
fn an_abort_stays_after_its_reason_is_gone() {
    let mut script = Script::new();
    let keys = script.keys(1);
    let (_, obstacle) = script.forge(ALICE, T + 1, vec![], &keys, 1);
    script.prepare(&obstacle);
    let (id, transaction) = script.forge(BOB, T + 2, vec![unwritten(&keys[0])], &keys, 2);
    script.prepare(&transaction);
    script.decide(&obstacle, Abort);
    script.prepare(&transaction);
    script.send(Peer::Client(client_id(ALICE)), Message::Recover(Shared::clone(&transaction)));
    assert_eq!(script.votes(id), [Abort; 3]);
    script.restart();
    script.prepare(&transaction);
    assert_eq!(script.votes(id), [Abort]);
    assert!(script.newest(&keys[0]).1.is_none(), "nothing of it is visible");
}

#[test]
fn a_commit_vote_stays_after_a_conflicting_commit() {
    let mut script = Script::new();
    let keys = script.keys(1);
    let (id, transaction) = script.forge(BOB, T + 2, vec![unwritten(&keys[0])], &keys, 2);
    script.prepare(&transaction);
    // The others let this write pass, so it is committed here as well.
    let (_, missed) = script.forge(ALICE, T + 1, vec![], &keys, 1);
    script.decide(&missed, Commit);
    script.prepare(&transaction);
    script.restart();
    script.prepare(&transaction);
    assert_eq!(script.votes(id), [Commit]);
    // It keeps its promise to the transaction that it voted for, too.
    let (other, late) = script.forge(ALICE, T + 3, vec![unwritten(&keys[0])], &[], 3);
    script.prepare(&late);
    assert_eq!(script.votes(other), [Abort]);
}

#[test]
fn a_timestamp_beyond_delta_is_refused() {
    let mut script = Script::new();
    let keys = script.keys(1);
    for (ahead_us, expected) in [(2_000_000, vec![Commit]), (2_000_001, vec![])] {
        let (id, transaction) = script.forge(ALICE, T + ahead_us, vec![], &keys, 1);
        script.prepare(&transaction);
        assert_eq!(script.votes(id), expected);
    }
}

/// Rule A1: the writes are those of the call.
#[test]
fn writes_of_no_program_are_refused() {
    let mut script = Script::new();
    let keys = script.keys(2);
    let client = client_id(ALICE);
    let (_, honest) = script.forge(ALICE, T + 1, vec![unwritten(&keys[0])], &keys, 1);
    let wrong: [fn(&mut Transaction); 3] = [
        |wrong| wrong.writes[0].value = Some(Bytes::from_static(b"stolen")),
        |wrong| _ = wrong.writes.pop(),
        |wrong| wrong.call = Bytes::from_static(b"nothing"),
    ];
    for change in wrong {
        let mut transaction = honest.transaction.clone();
        transaction.timestamp.time_us += 1 + script.sent.len() as u64;
        change(&mut transaction);
        let id = transaction.id(&script.world.shards);
        let signature = corniche_basil::attestation::Signer::sign(&Secret(client), &id);
        script.prepare(&Shared::new(SignedTransaction { transaction, signature }));
        assert_eq!(script.votes(id), [Abort]);
        assert!(script.newest(&keys[0]).1.is_none(), "nothing of it is visible");
    }
}

#[test]
fn one_transaction_of_a_timestamp_gets_a_commit_vote() {
    for is_restarted in [false, true] {
        let mut script = Script::new();
        let keys = script.keys(2);
        let (first, one) = script.forge(ALICE, T + 1, vec![], &keys[..1], 1);
        let (second, other) = script.forge(ALICE, T + 1, vec![], &keys[1..], 2);
        script.prepare(&one);
        assert_eq!(script.votes(first), [Commit]);
        if is_restarted {
            script.restart();
        }
        script.prepare(&other);
        assert_eq!(script.votes(second), [Abort], "restarted: {is_restarted}");
    }
}

/// The replica missed ST1 of a transaction that the others committed. Its client then shows another one of that timestamp.
#[test]
fn a_timestamp_of_a_committed_transaction_is_taken() {
    for is_restarted in [false, true] {
        let mut script = Script::new();
        let keys = script.keys(1);
        let (_, one) = script.forge(ALICE, T + 1, vec![], &keys, 1);
        let (second, other) = script.forge(ALICE, T + 1, vec![], &keys, 2);
        script.decide(&one, Commit);
        if is_restarted {
            script.restart();
        }
        script.prepare(&other);
        script.decide(&other, Abort);
        assert_eq!(script.committed(&keys[0]), Some(one), "restarted: {is_restarted}");
        assert!(!script.votes(second).contains(&Commit));
    }
}

/// The other transaction is prepared already when the certificate arrives, and it gets its vote afterwards.
#[test]
fn a_committed_version_outlives_a_prepared_one_of_its_timestamp() {
    let mut script = Script::new();
    let keys = script.keys(2);
    let (source, written) = script.forge(BOB, T + 1, vec![], &keys[1..], 1);
    script.prepare(&written);
    let (_, waiting) = script.forge(ALICE, T + 2, vec![read_of(source, &written, &keys[1])], &keys[..1], 2);
    script.prepare(&waiting);
    let (_, one) = script.forge(ALICE, T + 2, vec![], &keys[..1], 3);
    script.decide(&one, Commit);
    assert_eq!(script.committed(&keys[0]), Some(Shared::clone(&one)));
    script.decide(&written, Commit);
    script.restart();
    assert_eq!(script.committed(&keys[0]), Some(Shared::clone(&one)), "after a restart");
    script.decide(&waiting, Abort);
    assert_eq!(script.committed(&keys[0]), Some(one), "after the abort of the other one");
}

// Durable before visible: A7.

#[test]
fn no_signed_reply_leaves_before_its_records_are_durable() {
    let mut script = Script::new();
    script.is_disk_fast = false;
    let keys = script.keys(2);
    let (id, transaction) = script.forge(ALICE, T + 1, vec![], &keys[..1], 1);
    script.prepare(&transaction);
    script.wait(100);
    assert_eq!(script.sent, [], "the vote is not durable");
    // A second question about it does not overtake the first one.
    script.prepare(&transaction);
    script.send(Peer::Client(client_id(BOB)), Message::Recover(Shared::clone(&transaction)));
    script.wait(100);
    assert_eq!(script.sent, []);
    script.sync();
    assert!(script.votes(id).len() >= 3 && script.votes(id).iter().all(|vote| *vote == Commit));

    script.sent.clear();
    script.log(&transaction, Commit);
    script.log(&transaction, Commit);
    assert_eq!(script.sent, [], "the decision is not durable");
    script.sync();
    assert_eq!(script.logged(id), [(Commit, 0, 0); 2]);

    script.sent.clear();
    script.invoke(&transaction, Commit, &[]);
    script.invoke(&transaction, Commit, &[]);
    assert_eq!(script.sent, [], "the view is not durable");
    script.sync();
    assert!(script.logged(id).iter().all(|logged| *logged == (Commit, 0, 1)) && !script.logged(id).is_empty());

    script.sent.clear();
    script.decfb(id, Abort, 1, &[0, 1], &[2, 4, 5]).unwrap();
    assert_eq!(script.sent, [], "the decision of the fallback is not durable");
    script.sync();
    assert!(script.logged(id).contains(&(Abort, 1, 1)));
}

#[test]
fn a_vote_that_left_survives_a_crash() {
    let mut script = Script::new();
    script.is_disk_fast = false;
    let keys = script.keys(1);
    let (id, transaction) = script.forge(ALICE, T + 2, vec![unwritten(&keys[0])], &keys, 1);
    script.prepare(&transaction);
    script.restart();
    assert_eq!(script.votes(id), [], "nobody saw the vote");
    // So another transaction may be in the way now.
    let (_, obstacle) = script.forge(BOB, T + 1, vec![], &keys, 2);
    script.prepare(&obstacle);
    script.prepare(&transaction);
    script.sync();
    assert_eq!(script.votes(id), [Abort]);
    script.restart();
    script.decide(&obstacle, Abort);
    script.prepare(&transaction);
    script.sync();
    assert_eq!(script.votes(id), [Abort], "somebody saw this one");
}

// Logged decisions and the fallback: W1, F4 to F7, pitfalls 6 and 7.

#[test]
fn the_first_logged_decision_stays() {
    let mut script = Script::new();
    let keys = script.keys(1);
    let (id, transaction) = script.forge(ALICE, T + 1, vec![], &keys, 1);
    script.log(&transaction, Commit);
    script.log(&transaction, Abort);
    assert_eq!(script.logged(id), [(Commit, 0, 0); 2]);
    script.restart();
    script.log(&transaction, Abort);
    assert_eq!(script.logged(id), [(Commit, 0, 0)]);
}

#[test]
fn a_late_st2_changes_nothing_after_an_election() {
    let mut script = Script::new();
    let keys = script.keys(1);
    let (id, transaction) = script.forge(ALICE, T + 1, vec![], &keys, 1);
    script.log(&transaction, Commit);
    script.invoke(&transaction, Abort, &[]);
    let leader = Peer::Replica(leader(id, 1, SHARD, &script.world.shards));
    assert_eq!(script.elections(), [(leader, Commit, 1)]);
    for is_restarted in [false, true] {
        if is_restarted {
            script.restart();
        }
        script.sent.clear();
        script.log(&transaction, Abort);
        assert_eq!(script.logged(id), [(Commit, 0, 1)], "restarted: {is_restarted}");
        script.invoke(&transaction, Abort, &[]);
        assert!(script.elections().iter().all(|(_, decision, _)| *decision == Commit), "restarted: {is_restarted}");
    }
}

/// Pitfall 7: a replica without a decision adopts that of InvokeFB, or elects nothing.
#[test]
fn an_election_is_of_a_logged_decision() {
    for decision in [Commit, Abort] {
        let mut script = Script::new();
        let keys = script.keys(1);
        let (id, transaction) = script.forge(ALICE, T + 1, vec![], &keys, 1);
        script.prepare(&transaction);
        script.invoke(&transaction, decision, &[]);
        let leader = Peer::Replica(leader(id, 1, SHARD, &script.world.shards));
        assert_eq!(script.elections(), [(leader, decision, 1)]);
        let is_logged = |record: &Record| matches!(record, Record::Logged { decision: logged, .. } if *logged == decision);
        assert!(script.disk.iter().any(is_logged));
    }
}

#[test]
fn views_move_with_proof_and_after_their_timer() {
    let mut script = Script::new();
    let keys = script.keys(1);
    let (id, transaction) = script.forge(ALICE, T + 1, vec![], &keys, 1);
    let view = |script: &mut Script| script.logged(id).last().unwrap().2;
    script.invoke(&transaction, Commit, &[]);
    assert_eq!(view(&mut script), 1, "the first view needs no proof");
    let in_view_1 = [(0, 1), (1, 1), (2, 1), (4, 1)];
    script.invoke(&transaction, Commit, &in_view_1);
    assert_eq!(view(&mut script), 1, "its time is not over");
    script.wait(exact().view_ms);
    script.invoke(&transaction, Commit, &in_view_1[..3]);
    assert_eq!(view(&mut script), 1, "three are too few");
    script.invoke(&transaction, Commit, &in_view_1);
    assert_eq!(view(&mut script), 2);
    script.wait(2 * exact().view_ms - 1);
    script.invoke(&transaction, Commit, &[(0, 2), (1, 2), (2, 2), (4, 2)]);
    assert_eq!(view(&mut script), 2, "the second timer is twice as long");
    script.wait(1);
    script.invoke(&transaction, Commit, &[(0, 2), (1, 2), (2, 2), (4, 2)]);
    assert_eq!(view(&mut script), 3);
}

#[test]
fn a_decision_of_the_fallback_needs_4f_plus_1_elections_and_their_majority() {
    let mut script = Script::new();
    let keys = script.keys(1);
    let (id, transaction) = script.forge(ALICE, T + 1, vec![], &keys, 1);
    script.log(&transaction, Commit);
    assert!(script.decfb(id, Abort, 1, &[], &[0, 1, 2, 4]).is_err(), "3f + 1");
    assert!(script.decfb(id, Abort, 1, &[], &[0, 1, 2]).is_err(), "2f + 1");
    assert!(script.decfb(id, Abort, 1, &[], &[0, 1, 2, 4, 4]).is_err(), "one of them twice");
    assert!(script.decfb(id, Abort, 1, &[0, 1, 2], &[4, 5]).is_err(), "the minority");
    let leader = leader(id, 1, SHARD, &script.world.shards);
    let stranger = member((leader.member + 1) % 6);
    assert!(script.decfb_from(stranger, id, Abort, 1, &[0, 1], &[2, 4, 5]).is_err(), "not the leader");
    script.log(&transaction, Commit);
    assert_eq!(script.logged(id).last(), Some(&(Commit, 0, 0)));
    script.decfb(id, Abort, 1, &[0, 1], &[2, 4, 5]).unwrap();
    script.log(&transaction, Commit);
    assert_eq!(script.logged(id).last(), Some(&(Abort, 1, 1)), "a view-0 decision does not come back");
}

/// Pitfall 6: a leader that lies proves both decisions with different elections.
#[test]
fn a_second_decision_of_one_view_changes_nothing() {
    let mut script = Script::new();
    let keys = script.keys(1);
    let (id, transaction) = script.forge(ALICE, T + 1, vec![], &keys, 1);
    script.log(&transaction, Commit);
    script.decfb(id, Abort, 1, &[0, 1], &[2, 4, 5]).unwrap();
    script.decfb(id, Commit, 1, &[0, 1, 3], &[2, 4]).unwrap();
    script.restart();
    script.decfb(id, Commit, 1, &[0, 1, 3], &[2, 4]).unwrap();
    script.log(&transaction, Commit);
    assert_eq!(script.logged(id), [(Abort, 1, 1)]);
}

#[test]
fn a_decision_of_a_lower_view_changes_nothing() {
    let mut script = Script::new();
    let keys = script.keys(1);
    let (id, transaction) = script.forge(ALICE, T + 1, vec![], &keys, 1);
    script.log(&transaction, Commit);
    // Two members are in view 3, so this replica goes there.
    script.invoke(&transaction, Commit, &[(0, 3), (1, 3)]);
    assert_eq!(script.logged(id).last(), Some(&(Commit, 0, 3)));
    for is_restarted in [false, true] {
        if is_restarted {
            script.restart();
        }
        script.decfb(id, Abort, 2, &[0, 1], &[2, 4, 5]).unwrap();
        script.log(&transaction, Commit);
        assert_eq!(script.logged(id).last(), Some(&(Commit, 0, 3)), "restarted: {is_restarted}");
    }
    script.decfb(id, Abort, 3, &[0, 1], &[2, 4, 5]).unwrap();
    script.log(&transaction, Commit);
    assert_eq!(script.logged(id).last(), Some(&(Abort, 3, 3)));
}

#[test]
fn a_leader_waits_for_4f_plus_1_elections() {
    let world = World::new(1, 1, exact(), 1);
    let keys = world.keys_on(SHARD, 1);
    let (id, transaction) = world.forge(client_id(ALICE), T + 1, vec![], &keys, 1);
    let leader = leader(id, 1, SHARD, &world.shards);
    for commits in 0..=5 {
        let mut script = Script::of_member(leader.member);
        script.log(&transaction, Commit);
        let others: Vec<_> = (0..6).filter(|number| *number != leader.member).collect();
        for (count, number) in (0..).zip(&others) {
            let decision = if count < commits { Commit } else { Abort };
            let decided = |sent: &(Peer, Arc<Message>)| matches!(&*sent.1, Message::Decide { .. });
            assert!(!script.sent.iter().any(decided), "{count} elections are too few");
            let election = sign(&script.world.shards, member(*number), Statement::Elect { id, decision, view: 1 });
            // A repeated one counts once.
            script.send(Peer::Replica(member(*number)), Message::Elect(election.clone()));
            if count < 4 {
                script.send(Peer::Replica(member(*number)), Message::Elect(election));
            }
        }
        let expected = if commits >= 3 { Commit } else { Abort };
        let decisions: Vec<_> = script
            .sent
            .iter()
            .filter_map(|(_, message)| match &**message {
                Message::Decide { decision, view, elections, .. } => Some((*decision, *view, elections.len())),
                _ => None,
            })
            .collect();
        assert_eq!(decisions, [(expected, 1, 5); 5], "{commits} of 5 commit");
    }
}

#[test]
fn another_shard_logs_nothing() {
    let world = World::new(2, 2, exact(), 1);
    let keys = world.keys_on_each_shard();
    let (id, transaction) = world.forge(client_id(ALICE), T + 1, vec![], &keys, 1);
    let shard = ShardId(1 - transaction.logging_shard(&id, &world.shards).0);
    let replica = ReplicaId { shard, member: 0 };
    let mut script = Script { replica: Script::build(&world, replica, TimestampMs(START), Vec::new()), ..Script::new() };
    (script.verifier, script.id) = (Verifier::new(Arc::clone(&world.shards), Arc::new(Keys)), replica);
    let vote =
        |shard: ShardId, number| sign(&world.shards, ReplicaId { shard, member: number }, Statement::Vote { id, vote: Commit });
    let votes = world.shards.ids().flat_map(|shard| (0..4).map(move |number| (shard, number)));
    let justification = Justification::Votes(votes.map(|(shard, number)| vote(shard, number)).collect());
    let proposal = Shared::new(Proposal { transaction, decision: Commit, justification });
    script.send(Peer::Client(client_id(BOB)), Message::Log(Shared::clone(&proposal)));
    script.send(Peer::Client(client_id(BOB)), Message::InvokeFallback { proposal, views: Vec::new() });
    assert_eq!(script.sent, []);
}

// Certificates: W2.

#[test]
fn a_certificate_is_applied_whatever_the_vote_was() {
    let mut script = Script::new();
    let keys = script.keys(1);
    let (_, obstacle) = script.forge(BOB, T + 1, vec![], &keys, 1);
    script.prepare(&obstacle);
    let (id, transaction) = script.forge(ALICE, T + 2, vec![unwritten(&keys[0])], &keys, 2);
    script.prepare(&transaction);
    assert_eq!(script.votes(id), [Abort]);
    for is_restarted in [false, true] {
        script.decide(&transaction, Commit);
        if is_restarted {
            script.restart();
        }
        assert_eq!(script.committed(&keys[0]).as_ref(), Some(&transaction), "restarted: {is_restarted}");
    }
}

// Clients.

/// A client whose replicas are played by the test: world replicas are unreachable.
fn lonely_client() -> (World, ClientId) {
    let mut world = World::new(1, 1, exact(), 1);
    world.delay = Box::new(|_, from, _, _| matches!(from, Peer::Client(_)).then_some(1_000_000));
    (world, client_id(ALICE))
}

fn reply(world: &mut World, to: ClientId, from: u16, message: Message) {
    let checks = Verifier::new(Arc::clone(&world.shards), Arc::new(Keys)).check(Peer::Replica(member(from)), message);
    world.with_client(to, |client, now| client.handle(now, checks.unwrap()));
}

fn finished(world: &World, client: ClientId) -> Option<Decision> {
    world.clients[&client].finished.first().map(|(_, decided)| decided.decision())
}

#[test]
fn a_client_does_not_believe_in_an_unrelated_conflict() {
    let (mut world, alice) = lonely_client();
    let keys = world.keys_on(SHARD, 2);
    let timestamp = world.execute(alice, &[]);
    let id = world.commit(alice, timestamp, &keys[..1], 1);
    let conflict = |from: u16, key: &Key, reads: bool, world: &mut World| {
        let reads = if reads { vec![unwritten(key)] } else { vec![] };
        let (other, transaction) = world.forge(client_id(BOB), T + 5_000, reads, std::slice::from_ref(key), 2);
        let votes = signed_by(&world.shards, 0..6, &Statement::Vote { id: other, vote: Commit });
        let decided = Shared::new(Decided { transaction, certificate: Certificate::FastCommit(votes) });
        let vote = sign(&world.shards, member(from), Statement::Vote { id, vote: Abort });
        reply(world, alice, from, Message::Vote { vote, conflict: decided.committed().map(Conflict::Committed) });
        finished(world, alice)
    };
    assert_eq!(conflict(0, &keys[1], true, &mut world), None, "another key");
    assert_eq!(conflict(1, &keys[0], false, &mut world), None, "a write does not forbid a write");
    assert_eq!(conflict(2, &keys[0], true, &mut world), Some(Abort), "a later read forbids the write");
}

#[test]
fn a_client_needs_all_commits_to_skip_the_log() {
    let (mut world, alice) = lonely_client();
    let keys = world.keys_on(SHARD, 1);
    let timestamp = world.execute(alice, &[]);
    let id = world.commit(alice, timestamp, &keys, 1);
    for number in 0..6 {
        assert_eq!(finished(&world, alice), None, "{number} votes");
        let vote = sign(&world.shards, member(number), Statement::Vote { id, vote: Commit });
        reply(&mut world, alice, number, Message::Vote { vote: vote.clone(), conflict: None });
        // A repeated one counts once.
        reply(&mut world, alice, number, Message::Vote { vote, conflict: None });
    }
    assert_eq!(finished(&world, alice), Some(Commit));
}

#[test]
fn a_client_needs_equal_decisions_of_equal_views() {
    let (mut world, alice) = lonely_client();
    let keys = world.keys_on(SHARD, 1);
    let timestamp = world.execute(alice, &[]);
    let id = world.commit(alice, timestamp, &keys, 1);
    let logged = |world: &mut World, number, decision_view, current_view| {
        let statement = Statement::Logged { id, decision: Commit, decision_view, current_view };
        let attestation = sign(&world.shards, member(number), statement);
        reply(world, alice, number, Message::Logged(attestation));
        finished(world, alice)
    };
    for number in 0..4 {
        assert_eq!(logged(&mut world, number, 0, 0), None);
    }
    assert_eq!(logged(&mut world, 4, 1, 1), None, "the fifth logged it in another view");
    assert_eq!(logged(&mut world, 5, 0, 1), Some(Commit));
    let (_, decided) = &world.clients[&alice].finished[0];
    corniche_basil_testing::checker::check(&world.shards, &[Shared::clone(decided)]).unwrap();
}

/// A prepared version and a value of the genesis need f + 1 identical replies.
#[test]
fn a_client_reads_nothing_that_one_replica_says() {
    let (mut world, alice) = lonely_client();
    let keys = world.keys_on(SHARD, 1);
    let timestamp = world.with_client(alice, |client, now| client.begin(now));
    world.with_client(alice, |client, now| client.read(now, timestamp, keys[0].clone()));
    let version = Version { timestamp: Timestamp { time_us: T - 1, client: client_id(BOB) }, writer: B256::with_last_byte(3) };
    let versioned = |value: &'static str| Some(Versioned { version, value: Some(Bytes::from_static(value.as_bytes())) });
    let mut say = |number, genesis: Option<&'static str>, prepared| {
        let committed = Committed::Genesis(genesis.map(|text| Bytes::from_static(text.as_bytes())));
        reply(&mut world, alice, number, Message::ReadReply { timestamp, key: keys[0].clone(), committed, prepared });
        world.clients[&alice].client.reads(timestamp).first().map(|read| read.value.clone())
    };
    assert_eq!(say(0, Some("invented"), versioned("first")), None);
    assert_eq!(say(0, Some("invented"), versioned("first")), None, "one replica twice");
    assert_eq!(say(1, Some("other"), versioned("second")), None, "two that disagree");
    assert_eq!(say(2, None, versioned("second")), Some(Some(Bytes::from_static(b"second"))));
}
