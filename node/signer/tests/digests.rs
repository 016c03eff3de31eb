//! The signer's signatures are, byte for byte, those of the engines, of certification and of the staking notices.
#![allow(clippy::unwrap_used)] // also in helpers

use corniche_autobahn::{crypto::ValidatorKeys as AutobahnKeys, message as autobahn};
use corniche_crypto::{BlsSecretKey, ConsensusKey, Domain, Signed};
use corniche_engine::{Committee, batch_digest};
use corniche_mahi_mahi::{Signer as MahiSigner, crypto::ValidatorKeys as MahiKeys, message as mahi};
use corniche_signer::{Scope, SecretKeys, Statement};
use corniche_staking::{
    AuthorKeys, GenesisValidator, Keys, NoticeAuthor, NoticeBody, NoticeKind, Statement as NoticeStatement, ValidatorId,
    genesis_slots,
};
use corniche_types::evidence::{Heading, SlotReport, VoteKind};
use corniche_types::{
    Address, B256, Bytes, Certificate, Epoch, FaultModel, Height, StakingParameters, TimestampMs, ValidatorIndex,
    ValidatorInfo, Votes, wire,
};

const CHAIN: u64 = 7;
const EPOCH: Epoch = Epoch(3);

fn secrets(validator: u8) -> SecretKeys {
    let consensus = ConsensusKey::from_seed([validator; 32]);
    SecretKeys { consensus, bls: BlsSecretKey::from_seed([100 + validator; 32]) }
}

fn committee_of(epoch: Epoch) -> Committee {
    let infos = (0..4).map(|number| {
        let SecretKeys { consensus, bls } = secrets(number);
        ValidatorInfo {
            consensus_key: consensus.public(),
            bls_key: bls.public().to_bytes().to_vec().into(),
            bls_proof: bls.prove_possession().to_bytes().to_vec().into(),
            network_key: ConsensusKey::from_seed([50 + number; 32]).public(),
            fee_address: Address::repeat_byte(number),
            votes: Votes(1),
            stake: None,
        }
    });
    let members: Vec<_> = infos.collect();
    let mut genesis = corniche_testkit::genesis("mahi-mahi", members.clone());
    // The first version with headings.
    genesis.protocol_version = 5;
    Committee::of_epoch(&genesis, epoch, B256::repeat_byte(8), members)
}

fn committee() -> Committee {
    committee_of(EPOCH)
}

fn scope() -> Scope {
    Scope { chain_id: CHAIN, epoch: EPOCH, committee_hash: B256::repeat_byte(8) }
}

fn signed(statement: &Statement) -> Bytes {
    let signature = secrets(2).sign(&scope(), statement);
    assert_eq!(signature.len(), if statement.is_bls() { 48 } else { 64 });
    signature
}

fn value(number: u8) -> B256 {
    B256::repeat_byte(number)
}

#[test]
fn blocks_of_mahi_mahi() {
    let committee = committee();
    let keys = MahiKeys::new(&committee, secrets(2).consensus, None).unwrap();
    for (round, batch) in [(1, &b""[..]), (900, b"batch")] {
        let parent =
            |author| mahi::BlockRef { round: mahi::Round(round - 1), author: ValidatorIndex(author), digest: value(1) };
        let content = mahi::Content {
            author: ValidatorIndex(2),
            round: mahi::Round(round),
            timestamp: TimestampMs(1_234),
            parents: vec![parent(2), parent(0)],
            coin_shares: keys.coin_shares(b"coin"),
            batch: Bytes::copy_from_slice(batch),
        };
        let hash = |bytes: Vec<u8>| corniche_crypto::digest(&bytes);
        let heading = Heading {
            author: ValidatorIndex(2),
            round,
            timestamp: content.timestamp,
            parents: hash(wire::encode(&content.parents)),
            coin_shares: hash(wire::encode(&content.coin_shares)),
            batch: batch_digest(batch),
        };
        let expected = keys.sign_digest(&mahi::Context::new(&committee).digest(&content));
        assert_eq!(signed(&Statement::Block(heading))[..], expected);
    }
}

#[test]
fn signatures_of_autobahn() {
    let committee = committee();
    let (keys, context) =
        (AutobahnKeys::new(&committee, secrets(2).consensus, None).unwrap(), autobahn::Context::new(&committee));
    let (lane, batch) = (ValidatorIndex(2), Bytes::from_static(b"batch"));
    let car = autobahn::Car { lane, position: autobahn::Position(5), parent: value(1), batch: batch.clone() };
    let statement = Statement::Car { lane, position: 5, parent: value(1), batch: batch_digest(&batch) };
    assert_eq!(signed(&statement)[..], keys.sign_digest(&context.car(&car)));

    let prepare = context.prepare(autobahn::Slot(6), autobahn::View(1), value(2));
    assert_eq!(signed(&Statement::Prepare { slot: 6, view: 1, cut: value(2) })[..], keys.sign_digest(&prepare));

    let statement = Statement::DiskId { validator: lane, disk: 77 };
    assert_eq!(signed(&statement)[..], keys.sign_digest(&context.disk_id(lane, 77)));
}

#[test]
fn shares_of_autobahn() {
    let committee = committee();
    let context = autobahn::Context::new(&committee);
    for bls in [false, true] {
        let SecretKeys { consensus, bls: bls_key } = secrets(2);
        let keys = AutobahnKeys::new(&committee, consensus, bls.then_some(bls_key)).unwrap();
        let share = |statement: &autobahn::Statement| keys.share_digest(&context.statement(statement));

        let (lane, digest) = (ValidatorIndex(1), value(3));
        let tip = autobahn::Tip { lane, position: autobahn::Position(5), digest };
        let vote = Statement::CarVote { lane, position: 5, digest, bls };
        assert_eq!(signed(&vote), share(&autobahn::Statement::CarVote(tip)));

        let (slot, view, cut) = (autobahn::Slot(6), autobahn::View(2), value(4));
        for (kind, expected) in [
            (VoteKind::Prepared, autobahn::Statement::PrepareVote { slot, view, cut }),
            (VoteKind::PreparedWeakly, autobahn::Statement::WeakPrepareVote { slot, view, cut }),
            (VoteKind::Confirmed, autobahn::Statement::ConfirmAck { slot, view, cut }),
        ] {
            assert_eq!(signed(&Statement::Vote { kind, slot: 6, view: 2, cut, bls }), share(&expected), "{kind:?}");
        }

        for (confirmed, voted) in
            [(None, None), (Some((0, value(5))), None), (None, Some((1, cut))), (Some((2, cut)), Some((1, cut)))]
        {
            let named = |named: Option<(u32, B256)>| named.map(|(view, cut)| (autobahn::View(view), cut));
            let report = autobahn::Report { confirmed: named(confirmed), voted: named(voted) };
            let expected = share(&autobahn::Statement::Timeout { slot, view, report });
            assert_eq!(
                signed(&Statement::Timeout { slot: 6, view: 2, report: SlotReport { confirmed, voted }, bls }),
                expected
            );
        }
    }
}

#[test]
fn headers() {
    let committee = committee();
    let own = corniche_certify::Keys::bls(&committee, Some((ValidatorIndex(2), secrets(2).bls))).own.unwrap();
    for fault_model in [FaultModel::Byzantine, FaultModel::Crash] {
        let (height, hash) = (Height(12), value(6));
        let message = Certificate::signed_bytes(CHAIN, EPOCH, committee.hash(), height, hash, fault_model);
        assert_eq!(signed(&Statement::Header { height, hash, fault_model })[..], own.sign(height, hash, &message).unwrap());
    }
}

#[test]
fn notices_of_the_staking_contract() {
    let SecretKeys { consensus, bls } = secrets(2);
    let coin = corniche_crypto::CoinKey::from_seed([9; 32]);
    let keys = Keys {
        consensus: consensus.public(),
        bls: bls.public().to_bytes().into(),
        network: ConsensusKey::from_seed([52; 32]).public(),
        coin: coin.public().into(),
    };
    let validator = GenesisValidator { owner: Address::repeat_byte(1), fee: Address::repeat_byte(2), keys, votes: Votes(1) };
    let (mut slots, _) = genesis_slots(&StakingParameters::default(), TimestampMs(0), &[validator], |_| scope().committee_hash);
    let author = NoticeAuthor { keys: vec![AuthorKeys::new(consensus, None)], chain_id: CHAIN, version: 7 };
    let notice = author.make(&mut slots, NoticeKind::Announce).unwrap().unwrap();

    let payload = borsh::to_vec(notice.statement()).unwrap().into();
    let signature = secrets(2).sign(&Scope { epoch: Epoch(0), ..scope() }, &Statement::Notice { payload });
    // An entry ends with its signature.
    assert!(notice.encode().ends_with(&signature));
    assert_eq!(signature.len(), 64);
}

#[test]
fn notice_of_any_body() {
    let statement = NoticeStatement { author: ValidatorId(4), body: NoticeBody::Announce { version: 9 } };
    let payload: Bytes = borsh::to_vec(&statement).unwrap().into();
    let Scope { chain_id, epoch, committee_hash } = scope();
    let domain = Domain { tag: "corniche-notice", chain_id, epoch, committee_hash };
    let expected = Signed::sign(statement, &secrets(2).consensus, &domain).signature;
    assert_eq!(signed(&Statement::Notice { payload })[..], expected);
}
