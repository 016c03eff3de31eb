//! Frozen encodings on the wire and on disk. A change of any of these bytes changes the protocol version.
#![allow(clippy::unwrap_used)] // the lint exempts test functions, but not their helpers

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_basil::attestation::{Attestation, Decision, Statement, attest};
use corniche_basil::certificate::{Certificate, Decided, Justification, Proposal};
use corniche_basil::message::{Committed, Conflict, Message, Peer, Versioned};
use corniche_basil::record::Record;
use corniche_basil::shards::{Key, ReplicaId, ShardId, Shards};
use corniche_basil::shared::Shared;
use corniche_basil::transaction::{Read, SignedTransaction, Timestamp, Transaction, Version, Write};
use corniche_basil::verify::Verifier;
use corniche_basil_testing::{Keys, Random, Secret};
use corniche_types::{Address, B256, Bytes, wire};
use std::sync::Arc;

/// blake3 of each encoding, its first 16 hexadecimal digits.
const FROZEN: &str = "\
read 3ba035935ef1e127
read-reply-genesis 9b946b45f261ded3
read-reply-written 18756cd2222bd310
abandon 388516608913254d
prepare 10f58855dd506780
vote b9029610888cf431
vote-prepared-conflict df53fb2b19ca720b
vote-committed-conflict 0122f15016e750e0
log-votes e25d65a6be76e30b
log-logged 38eb9b6a26e4fd74
logged 4def061cd7ce50c2
view 99541d17129e7d5d
ask-closed e222cbd72fdd4617
closed 2602cf49b6bedda6
writeback-fast-commit cbbb2a54bd3bbe07
writeback-fast-abort 121c783477eea96f
writeback-conflict 68466705290b403f
writeback-logged def27fa79b028fae
recover 136c94b4c6c8834d
fetch 8ab901a0c0cbd1b2
known 1777090b8e2881c5
ask-constant 68c5f32e0a6016de
constant 3ca8f444554343ed
invoke-fallback 39548fd4d2f1ebc6
elect 31eb5877aa7f98c6
decide d72d4978fef421b1
pruned 105e24e7cc359eac
ask-state 80149f4951fe8c4c
state 7a0fa617a8c18225
record-prepared 25bb9b41536405f8
record-voted 27403192449e47b4
record-logged 2383dd23c216276e
record-closed ccd6652ee5e8c62e
record-complete 2c20f92598ffd773
record-pruned 4afc2364c1cb7b6e
record-decided 1bbd64895e1fc4d9
";

const CLIENT: B256 = B256::with_last_byte(0xc1);

fn shards() -> Shards {
    let keys = (0..6).map(|member| B256::left_padding_from(&[1, member])).collect();
    Shards::new(7, 0, 1, vec![keys]).unwrap()
}

fn timestamp(time_us: u64) -> Timestamp {
    Timestamp { time_us, client: CLIENT }
}

fn version(time_us: u64) -> Version {
    Version { timestamp: timestamp(time_us), writer: B256::with_last_byte(5) }
}

fn key(number: u8) -> Key {
    Key { account: Address::with_last_byte(number), item: Bytes::from_static(b"slot") }
}

fn transaction() -> Shared<SignedTransaction> {
    let value = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
    let reads = vec![
        Read { key: key(1), version: Version::GENESIS, value: None },
        Read { key: key(2), version: version(9), value: value("read") },
    ];
    let writes = vec![Write { key: key(1), value: value("written") }, Write { key: key(3), value: None }];
    let transaction =
        Transaction { timestamp: timestamp(1_700_000_000_000_000), reads, writes, call: Bytes::from_static(b"call") };
    Shared::new(SignedTransaction { transaction, signature: [3; 64] })
}

fn statements() -> Vec<Statement> {
    let id = B256::with_last_byte(5);
    vec![
        Statement::Vote { id, vote: Decision::Commit },
        Statement::Logged { id, decision: Decision::Abort, decision_view: 1, current_view: 2 },
        Statement::View { id, view: 3 },
        Statement::Elect { id, decision: Decision::Commit, view: 4 },
        Statement::Closed { from_us: 5, below_us: 6, list: B256::with_last_byte(7) },
    ]
}

/// One batch, so that paths are not empty.
fn attestations() -> Vec<Attestation> {
    let replica = ReplicaId { shard: ShardId(0), member: 2 };
    attest(&shards(), replica, &Secret(*shards().key(replica).unwrap()), statements())
}

fn decided(certificate: Certificate) -> Shared<Decided> {
    Shared::new(Decided { transaction: transaction(), certificate })
}

fn proposal(justification: Justification) -> Shared<Proposal> {
    Shared::new(Proposal { transaction: transaction(), decision: Decision::Abort, justification })
}

fn messages() -> Vec<(&'static str, Message)> {
    let attestations = attestations();
    let vote = || attestations[0].clone();
    let logged = || attestations[1].clone();
    let commit = || decided(Certificate::FastCommit(vec![vote()]));
    let reply = |committed, prepared| Message::ReadReply { timestamp: timestamp(8), key: key(1), committed, prepared };
    let prepared = Some(Versioned { version: version(4), value: Some(Bytes::from_static(b"prepared")) });
    let with_conflict = |conflict| Message::Vote { vote: vote(), conflict };
    let view = 3;
    vec![
        ("read", Message::Read { timestamp: timestamp(8), key: key(1) }),
        ("read-reply-genesis", reply(Committed::Genesis(None), None)),
        ("read-reply-written", reply(Committed::Written(commit()), prepared)),
        ("abandon", Message::Abandon { timestamp: timestamp(8) }),
        ("prepare", Message::Prepare(transaction())),
        ("vote", with_conflict(None)),
        ("vote-prepared-conflict", with_conflict(Some(Conflict::Prepared(transaction())))),
        ("vote-committed-conflict", with_conflict(Some(Conflict::Committed(commit().committed().unwrap())))),
        ("log-votes", Message::Log(proposal(Justification::Votes(vec![vote()])))),
        ("log-logged", Message::Log(proposal(Justification::Logged(vec![logged()])))),
        ("logged", Message::Logged(logged())),
        ("view", Message::Logged(attestations[2].clone())),
        ("ask-closed", Message::AskClosed { from_us: 5, below_us: 6 }),
        ("closed", Message::Closed { closed: attestations[4].clone(), transactions: vec![B256::with_last_byte(5)] }),
        ("writeback-fast-commit", Message::Writeback(commit())),
        ("writeback-fast-abort", Message::Writeback(decided(Certificate::FastAbort(vec![vote(), logged()])))),
        ("writeback-conflict", Message::Writeback(decided(Certificate::Conflict(commit().committed().unwrap())))),
        ("writeback-logged", Message::Writeback(decided(Certificate::Logged(Decision::Abort, vec![logged()])))),
        ("recover", Message::Recover(transaction())),
        ("fetch", Message::Fetch(vec![B256::with_last_byte(5)])),
        ("known", Message::Known(transaction())),
        ("ask-constant", Message::AskConstant(key(1))),
        ("constant", Message::Constant { key: key(1), value: Bytes::from_static(b"content") }),
        (
            "invoke-fallback",
            Message::InvokeFallback {
                proposal: proposal(Justification::Votes(Vec::new())),
                views: vec![attestations[2].clone()],
            },
        ),
        ("elect", Message::Elect(attestations[3].clone())),
        (
            "decide",
            Message::Decide {
                id: B256::with_last_byte(5),
                decision: Decision::Abort,
                view,
                elections: vec![attestations[3].clone()],
            },
        ),
        ("pruned", Message::Pruned { below_us: 6 }),
        ("ask-state", Message::AskState { below_us: 6, after: Some(B256::with_last_byte(5)) }),
        ("state", Message::State { below_us: 6, after: None, transactions: vec![commit()], is_last: true }),
    ]
}

fn records() -> Vec<(&'static str, Record)> {
    let vote = attestations().remove(0);
    let (decision, decision_view, current_view) = (Decision::Commit, 1, 2);
    vec![
        ("record-prepared", Record::Prepared(transaction())),
        ("record-voted", Record::Voted { transaction: transaction(), vote: Decision::Abort }),
        ("record-logged", Record::Logged { transaction: transaction(), decision, decision_view, current_view }),
        ("record-closed", Record::Closed { below_us: 6 }),
        ("record-complete", Record::Complete { below_us: 6 }),
        ("record-pruned", Record::Pruned { below_us: 6 }),
        ("record-decided", Record::Decided(decided(Certificate::FastCommit(vec![vote])))),
    ]
}

/// Forces a fixture for every kind that is added later.
fn is_frozen(message: &Message, record: &Record, statement: &Statement, certificate: &Certificate) -> bool {
    match message {
        Message::Read { .. } | Message::ReadReply { .. } | Message::Abandon { .. } | Message::Prepare(_) => {}
        Message::Vote { .. } | Message::Log(_) | Message::Logged(_) | Message::Writeback(_) | Message::Recover(_) => {}
        Message::AskConstant(_) | Message::Constant { .. } => {}
        Message::Fetch(_) | Message::Known(_) | Message::InvokeFallback { .. } | Message::Elect(_) => {}
        Message::Decide { .. } | Message::AskClosed { .. } | Message::Closed { .. } => {}
        Message::Pruned { .. } | Message::AskState { .. } | Message::State { .. } => {}
    }
    match statement {
        Statement::Vote { .. } | Statement::Logged { .. } | Statement::View { .. } | Statement::Elect { .. } => {}
        Statement::Closed { .. } => {}
    }
    match certificate {
        Certificate::FastCommit(_) | Certificate::FastAbort(_) | Certificate::Conflict(_) | Certificate::Logged(..) => {}
    }
    match record {
        Record::Prepared(_)
        | Record::Voted { .. }
        | Record::Logged { .. }
        | Record::Decided(_)
        | Record::Closed { .. }
        | Record::Complete { .. }
        | Record::Pruned { .. } => true,
    }
}

/// Encodes, and checks that no cut and no additional byte is accepted.
fn encode<T>((name, instance): (&'static str, T)) -> (&'static str, Vec<u8>)
where
    T: BorshSerialize + BorshDeserialize + PartialEq + std::fmt::Debug,
{
    let bytes = wire::encode(&instance);
    assert_eq!(wire::decode::<T>(&bytes).as_ref(), Ok(&instance), "{name}");
    let is_refused = |bytes: &[u8]| wire::decode::<T>(bytes).is_err();
    assert!((0..bytes.len()).all(|length| is_refused(&bytes[..length])), "{name}: a cut is accepted");
    assert!(is_refused(&[bytes.as_slice(), &[0]].concat()), "{name}: an additional byte is accepted");
    (name, bytes)
}

fn encodings() -> Vec<(&'static str, Vec<u8>)> {
    messages().into_iter().map(encode).chain(records().into_iter().map(encode)).collect()
}

fn hashes(encodings: &[(&'static str, Vec<u8>)]) -> String {
    let line = |(name, bytes): &(&str, Vec<u8>)| format!("{name} {}\n", &blake3::hash(bytes).to_hex()[..16]);
    encodings.iter().map(line).collect()
}

#[test]
fn wire_formats_are_frozen() {
    let statement = Statement::View { id: B256::ZERO, view: 0 };
    let certificate = Certificate::FastCommit(Vec::new());
    assert!(is_frozen(&messages()[0].1, &records()[0].1, &statement, &certificate));
    let found = hashes(&encodings());
    assert!(found == FROZEN, "encoding: expected the frozen bytes, got\n{found}");
}

/// Everything that is signed, and the choices that follow from hashes.
#[test]
fn digests_are_frozen() {
    let (shards, transaction) = (shards(), transaction());
    let id = transaction.id(&shards);
    let leader = corniche_basil::verify::leader(id, 3, ShardId(0), &shards);
    let digests = [
        ("shards", shards.hash().to_vec()),
        ("transaction", id.to_vec()),
        ("leader", vec![leader.member as u8]),
        ("signature", attestations()[0].proof.signature.to_vec()),
    ];
    let found = hashes(&digests);
    assert!(found == FROZEN_DIGESTS, "digests: expected the frozen bytes, got\n{found}");
}

const FROZEN_DIGESTS: &str = "\
shards bd8b3e225e5520a3
transaction f926dc64f7416f0f
leader 48fc721fbbc172e0
signature 4c8029287195c3ad
";

/// Bytes of peers are refused or decoded to a message with exactly these bytes. A verifier refuses or accepts it. Nothing panics.
#[test]
fn damaged_bytes_do_no_harm() {
    let encodings = encodings();
    let mut random = Random::new(1);
    let mut verifier = Verifier::new(Arc::new(shards()), Arc::new(Keys));
    let mut decoded = 0;
    for number in 0..6_000 {
        let (_, original) = &encodings[number % encodings.len()];
        let bytes = damage(original, &mut random);
        let record = wire::decode::<Record>(&bytes);
        assert!(record.is_err() || wire::encode(&record.unwrap()) == bytes, "case {number}");
        let Ok(message) = wire::decode::<Message>(&bytes) else { continue };
        assert_eq!(wire::encode(&message), bytes, "case {number}: two encodings of one message");
        decoded += 1;
        for from in [Peer::Client(CLIENT), Peer::Replica(ReplicaId { shard: ShardId(0), member: 2 })] {
            _ = verifier.check(from, message.clone());
        }
    }
    assert!((500..5_500).contains(&decoded), "{decoded} of 6000 damaged messages have the right structure");
}

fn damage(original: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for _ in 0..1 + random.below(3) {
        let position = random.below(bytes.len() as u64) as usize;
        match random.below(6) {
            0 => bytes[position] ^= 1 << random.below(8),
            1 => bytes[position] = random.below(256) as u8,
            2 => bytes[position] = [0, 1, 0x7f, 0x80, 0xff][random.below(5) as usize],
            3 => bytes.truncate(position + 1),
            4 => bytes.insert(position, random.below(256) as u8),
            _ => {
                let end = (position + random.below(40) as usize).min(bytes.len());
                bytes.splice(position..end, original[..random.below(original.len() as u64) as usize].iter().copied().take(40));
                bytes.push(0);
            }
        }
    }
    bytes
}

/// A proof of a conflict contains a certificate of a commit, which contains no other. Otherwise a message of a few megabytes would
/// exhaust the stack of its decoder.
#[test]
fn proofs_of_conflicts_do_not_nest() {
    let transaction = wire::encode(&transaction())[1..].to_vec();
    for (depth, is_accepted) in [(1, true), (2, false), (100_000, false)] {
        let mut bytes = vec![wire::VERSION, 7];
        for _ in 0..depth {
            bytes.extend_from_slice(&transaction);
            // The tag of a conflict.
            bytes.push(2);
        }
        // A commit without votes.
        bytes.extend_from_slice(&transaction);
        bytes.extend_from_slice(&[0; 5]);
        assert_eq!(wire::decode::<Message>(&bytes).is_ok(), is_accepted, "{depth} conflicts");
    }
}
