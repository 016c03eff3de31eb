//! Content of a block's signature, before protocol version 5 and from then on.

use crate::cluster::index;
use corniche_crypto::digest;
use corniche_engine::{Committee, Scope};
use corniche_mahi_mahi::message::{Content, Context, Round};
use corniche_types::{B256, Bytes, Genesis, TimestampMs, ValidatorIndex, evidence::tags, wire};

fn committee(protocol_version: u32) -> Committee {
    let old = corniche_testkit::committee("mahi-mahi", 4);
    let validators = old.members().map(|(_, member)| member.clone()).collect();
    Committee::from_genesis(&Genesis { protocol_version, ..corniche_testkit::genesis("mahi-mahi", validators) })
}

fn content(committee: &Committee) -> Content {
    let context = Context::new(committee);
    Content {
        author: ValidatorIndex(1),
        round: Round(2),
        timestamp: TimestampMs(1_700_000_000_000),
        parents: [1, 0, 2].map(|author| context.genesis(index(author))).to_vec(),
        coin_shares: vec![[5; 48], [6; 48]],
        batch: Bytes::from_static(b"batch"),
    }
}

#[test]
fn every_field_is_signed() {
    let changes: [fn(&mut Content); 11] = [
        |content| content.author = ValidatorIndex(2),
        |content| content.round = Round(3),
        |content| content.timestamp.0 += 1,
        |content| content.parents.swap(1, 2),
        |content| content.parents[2].digest = B256::ZERO,
        |content| content.parents.truncate(2),
        |content| content.parents.push(content.parents[0]),
        |content| content.coin_shares[1] = [7; 48],
        |content| content.coin_shares.truncate(1),
        |content| content.batch = Bytes::from_static(b"another"),
        |content| content.batch = Bytes::new(),
    ];
    for version in [1, 5] {
        let committee = committee(version);
        let (context, good) = (Context::new(&committee), content(&committee));
        for (number, change) in changes.iter().enumerate() {
            let mut other = good.clone();
            change(&mut other);
            assert_ne!(context.digest(&other), context.digest(&good), "version {version}, change {number}");
        }
    }
}

#[test]
fn signature_covers_the_heading_from_version_5_on() {
    for version in 1..=5 {
        let committee = committee(version);
        let content = content(&committee);
        let Content { author, round, timestamp, ref parents, ref coin_shares, ref batch } = content;
        let hashes = (digest(&wire::encode(parents)), digest(&wire::encode(coin_shares)), digest(batch));
        let heading = (author, round, timestamp, hashes);
        let (scope, signed) = (Scope::new(&committee), Context::new(&committee).digest(&content));
        assert_eq!(signed == scope.digest(tags::BLOCK, &heading), version >= 5, "version {version}");
        assert_eq!(signed == scope.digest(tags::BLOCK, &content), version < 5, "version {version}");
        // Two headings and two signatures are evidence that fits a transaction (validators.md §6.2).
        assert!(2 * (wire::encode(&heading).len() + 64) < 400);
    }
}

#[test]
fn heading_digest_is_frozen() {
    let committee = committee(5);
    let digest = Context::new(&committee).digest(&content(&committee));
    assert_eq!(format!("{digest:x}"), "971ba2cbe5ddd663fc5f98805289eb8d0ee0571c743726aaecaafa194531ac14");
}
