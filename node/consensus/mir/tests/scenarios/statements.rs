//! Everything that a signature covers.

use crate::cluster::index;
use corniche_mir::message::{Context, EpochChange, EpochConfig, EpochNumber, PreparedCertificate, Proposal, Sn, Statement};
use corniche_mir_testing::committee;
use corniche_types::{B256, TimestampMs};
use std::collections::BTreeSet;

const HASHES: [B256; 2] = [B256::ZERO, B256::with_last_byte(1)];

fn statements() -> Vec<Statement> {
    let mut all: Vec<_> = HASHES.map(Statement::EpochChange).to_vec();
    for (number, hash) in (1..3).flat_map(|number| HASHES.map(|hash| (number, hash))) {
        all.push(Statement::Checkpoint { sn: Sn(number), hash });
        all.push(Statement::Echo { epoch: EpochNumber(number), config: hash });
        all.extend((1..3).map(|sn| Statement::Prepare { epoch: EpochNumber(number), sn: Sn(sn), digest: hash }));
    }
    all
}

#[test]
fn no_two_statements_have_one_digest() {
    let mut digests = BTreeSet::new();
    for size in [4, 5] {
        let context = Context::new(&committee(size));
        for statement in statements() {
            assert!(digests.insert(context.digest(&statement)), "{size} members: {statement:?}");
        }
    }
}

#[test]
fn digests_cover_all_fields() {
    let context = Context::new(&committee(4));
    let proposal = Proposal { sn: Sn(1), author: index(0), time: TimestampMs(1), batch: b"x".to_vec().into() };
    let proposals = [
        proposal.clone(),
        Proposal { sn: Sn(2), ..proposal.clone() },
        Proposal { author: index(1), ..proposal.clone() },
        Proposal { time: TimestampMs(2), ..proposal.clone() },
        Proposal { batch: b"y".to_vec().into(), ..proposal },
    ];
    let config = EpochConfig {
        epoch: EpochNumber(1),
        leaders: vec![index(1)],
        start: Sn(0),
        listed: Vec::new(),
        first: Sn(1),
        last: Some(Sn(9)),
    };
    let configs = [
        config.clone(),
        EpochConfig { epoch: EpochNumber(2), ..config.clone() },
        EpochConfig { leaders: vec![index(2)], ..config.clone() },
        EpochConfig { start: Sn(1), ..config.clone() },
        EpochConfig { listed: vec![HASHES[0]], ..config.clone() },
        EpochConfig { first: Sn(2), ..config.clone() },
        EpochConfig { last: None, ..config },
    ];
    let prepared = PreparedCertificate { epoch: EpochNumber(0), sn: Sn(1), digest: HASHES[1], votes: Vec::new() };
    let change = EpochChange {
        sender: index(0),
        target: EpochNumber(1),
        certificate: None,
        checkpoint: None,
        prepared: Vec::new(),
        signature: [0; 64],
    };
    let changes = [
        change.clone(),
        EpochChange { sender: index(1), ..change.clone() },
        EpochChange { target: EpochNumber(2), ..change.clone() },
        EpochChange { prepared: vec![prepared], ..change },
    ];
    let digests: Vec<_> = proposals
        .iter()
        .map(|it| context.proposal(it))
        .chain(configs.iter().map(|it| context.config(it)))
        .chain(changes.iter().map(|it| context.change(it)))
        .chain([context.log_hash(HASHES[0], Sn(1), HASHES[0]), context.log_hash(HASHES[1], Sn(1), HASHES[0])])
        .chain([context.log_hash(HASHES[0], Sn(2), HASHES[0]), context.log_hash(HASHES[0], Sn(1), HASHES[1])])
        .collect();
    assert_eq!(digests.iter().collect::<BTreeSet<_>>().len(), digests.len());
}
