//! Roots of light clients: which they accept, for how long, and which contradictions stop them.
#![allow(clippy::unwrap_used)] // also in helpers

mod common;

use common::{
    chain::{Chain, DAY_S, member},
    genesis, staked_genesis,
};
use corniche_crypto::{EpochChangeError, FinalityError, LightClient, LightError, TrustPointError};
use corniche_types::{B256, Certificate, Epoch, EpochChange, Header, LightMember, TimestampMs, TrustPoint, header_hash};

const SET: [(u8, u32); 4] = [(4, 1), (5, 1), (6, 1), (7, 1)];
const SIGNERS: &[u16] = &[0, 1, 2];

fn days(days: u64) -> TimestampMs {
    TimestampMs(1_000 * DAY_S * days)
}

/// Members of the committee after a change.
fn following(change: &EpochChange) -> Vec<LightMember> {
    change.members.clone().unwrap()
}

fn point(change: &EpochChange) -> TrustPoint {
    TrustPoint { chain_id: 77, epoch: change.certificate.epoch, hash: header_hash(&change.header) }
}

fn block(chain: &Chain, number: u64, gas_used: u64) -> Certificate {
    chain.sign(&Header { number, gas_used, ..Header::default() }, SIGNERS)
}

/// A chain in epoch 3 and its changes.
fn three_epochs() -> (Chain, Vec<EpochChange>) {
    let (mut chain, _) = Chain::new();
    let sets: [&[_]; 3] = [&SET, &SET, &[(4, 1), (5, 1), (6, 1), (8, 1)]];
    let changes = sets.map(|members| {
        let change = chain.change(members, SIGNERS);
        chain.enter(members);
        change
    });
    (chain, changes.into())
}

fn conflict(result: Result<impl std::fmt::Debug, LightError>) -> [Certificate; 2] {
    match result {
        Err(LightError::Conflict(conflict)) => conflict.certificates,
        other => panic!("{other:?}"),
    }
}

/// A trust point is as good as the genesis from its epoch on, and gives no proof of anything before.
#[test]
fn clients_begin_at_a_trust_point() {
    let (chain, changes) = three_epochs();
    let now = days(3);
    // The set stays in the second change, so the node has no members in it.
    let unchanged = EpochChange { members: None, ..changes[1].clone() };
    let mut client =
        LightClient::from_trust_point(&staked_genesis(4), point(&unchanged), &unchanged, &following(&changes[1])).unwrap();
    assert_eq!(client.trust_point(), Some(point(&unchanged)));
    assert!(matches!(client.advance(&changes[0], now), Ok(())), "it is of an earlier epoch, and ignored");
    client.advance(&changes[2], now).unwrap();
    assert_eq!(client.trust_point(), Some(point(&changes[2])));
    assert_eq!(client.certified(&block(&chain, 301, 0), now).unwrap().number(), 301);
    // The trusted block may be the head.
    assert_eq!(client.certified(&unchanged.certificate, now).unwrap().number(), 200);
    let (early, _) = Chain::new();
    let unknown = FinalityError::UnknownEpoch(0);
    assert_eq!(client.certified(&block(&early, 50, 0), now), Err(LightError::Finality(unknown)));

    let mut second = Chain { epoch: 1, ..Chain::new().0 };
    second.enter(&SET);
    let begun =
        LightClient::from_trust_point(&staked_genesis(4), point(&unchanged), &unchanged, &following(&changes[1])).unwrap();
    let below = FinalityError::OtherEpoch { height: 200, epoch: 2 };
    assert_eq!(begun.clone().certified(&block(&second, 200, 0), now), Err(LightError::Finality(below)));
    assert!(begun.clone().certified(&block(&second, 201, 0), now).is_ok());
}

#[test]
fn trust_points_cover_all_that_a_client_takes() {
    let (_, changes) = three_epochs();
    let (good, members) = (&changes[1], following(&changes[1]));
    let begin = |point, change: &EpochChange, members: &[LightMember]| {
        LightClient::from_trust_point(&staked_genesis(4), point, change, members).unwrap_err()
    };
    let other_chain = TrustPoint { chain_id: 78, ..point(good) };
    assert_eq!(begin(other_chain, good, &members), TrustPointError::Chain { expected: 77, found: 78 });
    let header = Header { gas_used: 1, ..good.header.clone() };
    let found = header_hash(&header);
    let forged = EpochChange { header, ..good.clone() };
    assert_eq!(begin(point(good), &forged, &members), TrustPointError::Block { expected: point(good).hash, found });
    let forged = EpochChange { head: changes[2].head.clone(), ..good.clone() };
    assert_eq!(begin(point(good), &forged, &members), EpochChangeError::Head.into());
    let other_epoch = TrustPoint { epoch: Epoch(7), ..point(good) };
    assert_eq!(begin(other_epoch, good, &members), EpochChangeError::Head.into());
    for forged in [vec![], vec![member(9, 1)], members[1..].to_vec(), [members[1..].to_vec(), vec![member(9, 1)]].concat()] {
        assert_eq!(begin(point(good), good, &forged), EpochChangeError::Members.into());
    }
}

/// Epochs of a day and stake that answers for 14 of them: a root serves for 9 days and 8 hours.
#[test]
fn old_roots_are_refused_unless_accepted() {
    let (chain, changes) = three_epochs();
    let late = TimestampMs(1_000 + days(9).0 + 8 * 3_600_000);
    let later = TimestampMs(late.0 + 1);
    let refused = |client: &LightClient, now, says: &str| {
        for result in
            [client.clone().advance(&changes[0], now), client.clone().certified(&block(&chain, 301, 0), now).map(drop)]
        {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("may have left with their stake"), "{error}");
        }
    };
    let mut client = LightClient::from_genesis(&staked_genesis(4)).unwrap();
    refused(&client, later, "the genesis is 806400 s old");
    // In time: its newest epoch is the root then, and gets old in turn.
    for change in &changes {
        client.advance(change, late).unwrap();
    }
    assert!(client.certified(&block(&chain, 301, 0), later).is_ok());
    let last = TimestampMs(days(12).0 + 8 * 3_600_000);
    assert_eq!(client.check(last), Ok(()));
    refused(&client, TimestampMs(last.0 + 1), &format!("the trust point {} is", point(&changes[2])));

    let mut accepting = LightClient::from_genesis(&staked_genesis(4)).unwrap().accept_expired_trust();
    accepting.advance(&changes[0], days(1_000)).unwrap();
    let old =
        LightClient::from_trust_point(&staked_genesis(4), point(&changes[0]), &changes[0], &following(&changes[0])).unwrap();
    refused(&old, days(1_000), "the trust point corniche-trust:1:77:0:0x");
    assert!(old.accept_expired_trust().advance(&changes[1], days(1_000)).is_ok());
    let mut without_epochs = LightClient::from_genesis(&genesis(4)).unwrap();
    assert!(without_epochs.certified(&block(&Chain::of(&genesis(4)), 7, 0), days(1_000)).is_ok());
}

/// A quorum certified two blocks of one height. The client says so from then on, and keeps both certificates.
#[test]
fn two_blocks_of_one_height_stop_a_client() {
    let (chain, _) = Chain::new();
    let mut client = LightClient::from_genesis(&staked_genesis(4)).unwrap();
    let now = days(1);
    let [first, other] = [0, 1].map(|gas_used| block(&chain, 7, gas_used));
    client.certified(&first, now).unwrap();
    // Another quorum over the same block is no conflict, and a forged certificate is only an invalid one.
    assert!(client.certified(&chain.sign(&Header { number: 7, ..Header::default() }, &[1, 2, 3]), now).is_ok());
    assert!(client.certified(&first, now).is_ok());
    let forged = Certificate { header_hash: B256::repeat_byte(1), ..first.clone() };
    assert!(matches!(client.certified(&forged, now), Err(LightError::Finality(_))));
    for number in 8..100 {
        client.certified(&block(&chain, number, 0), now).unwrap();
    }
    let [kept, newer] = conflict(client.certified(&other, now));
    assert_eq!((kept.header_hash, newer), (first.header_hash, other.clone()));
    assert_eq!(conflict(client.certified(&first, now))[1], other, "it stays stopped");
    assert_eq!(conflict(client.advance(&chain.change(&SET, SIGNERS), now))[1], other);
    assert!(client.check(now).unwrap_err().to_string().contains("publish both certificates"));
}

#[test]
fn two_ends_of_one_epoch_stop_a_client() {
    let now = days(1);
    let (mut chain, _) = Chain::new();
    let change = chain.change(&SET, SIGNERS);
    let other = chain.change(&[(4, 1), (5, 1), (6, 1), (9, 1)], SIGNERS);
    let block_at_end = block(&chain, change.header.number, 3);
    let block_above = block(&chain, change.header.number + 1, 0);
    let unsigned = EpochChange {
        certificate: Certificate { signature: Default::default(), ..other.certificate.clone() },
        ..other.clone()
    };
    chain.enter(&SET);
    let followed = || {
        let mut client = LightClient::from_genesis(&staked_genesis(4)).unwrap();
        client.advance(&change, now).unwrap();
        client
    };
    let mut client = followed();
    assert_eq!(client.advance(&change, now), Ok(()), "the known one again");
    assert!(matches!(client.advance(&unsigned, now), Err(LightError::Change(_))));
    assert_eq!(conflict(client.advance(&other, now)), [change.certificate.clone(), other.certificate.clone()]);
    // Another block of the end's height, seen after the end or before it.
    assert_eq!(conflict(followed().certified(&block_at_end, now)), [change.certificate.clone(), block_at_end.clone()]);
    for earlier in [block_at_end, block_above] {
        let mut client = LightClient::from_genesis(&staked_genesis(4)).unwrap();
        client.certified(&earlier, now).unwrap();
        assert_eq!(conflict(client.advance(&change, now)), [earlier, change.certificate.clone()]);
    }
    // The end is remembered although hundreds of blocks came after it.
    let mut client = followed();
    for number in 101..400 {
        client.certified(&block(&chain, number, 0), now).unwrap();
    }
    assert_eq!(conflict(client.advance(&other, now))[0], change.certificate);
}

/// Members for whom no stake answers any more can sign what they like. That does not stop clients that are past their epoch.
#[test]
fn members_that_left_stop_no_client() {
    let liable = staked_genesis(4).staking.unwrap().unbonding_epochs;
    for (epochs, is_stopped) in [(liable, true), (liable + 1, false)] {
        let (mut chain, _) = Chain::new();
        let mut client = LightClient::from_genesis(&staked_genesis(4)).unwrap();
        let other = chain.change(&[(4, 1), (5, 1), (6, 1), (9, 1)], SIGNERS);
        for epoch in 0..epochs {
            let change = chain.change(&SET, SIGNERS);
            client.advance(&change, days(epoch + 1)).unwrap();
            chain.enter(&SET);
        }
        assert_eq!(client.advance(&other, days(epochs)).is_err(), is_stopped);
        assert_eq!(client.check(days(epochs)).is_err(), is_stopped);
    }
}

/// Follows 1,000 epochs in which one of four validators is replaced each time (validators.md, test 37).
#[test]
fn thousand_epochs_are_followed() {
    let (mut chain, _) = Chain::new();
    let mut client = LightClient::from_genesis(&staked_genesis(4)).unwrap();
    for epoch in 0..1_000u64 {
        let mut members = chain.members.clone();
        members[epoch as usize % 4] = ((4 + epoch % 140) as u8, 1 + (epoch % 2) as u32);
        let change = chain.change(&members, &[0, 1, 2, 3]);
        let forged = EpochChange { members: Some([&following(&change)[1..], &[member(150, 1)]].concat()), ..change.clone() };
        let thin = chain.change(&members, &[0]);
        let swapped = EpochChange { header: Header { gas_used: 1, ..change.header.clone() }, ..change.clone() };
        let now = days(epoch + 1);
        if epoch % 50 == 7 {
            for wrong in [&forged, &thin, &swapped] {
                assert!(matches!(client.advance(wrong, now), Err(LightError::Change(_))), "epoch {epoch}");
            }
            let expired = client.clone().advance(&change, days(epoch + 11));
            assert!(matches!(expired, Err(LightError::Expired(_))), "epoch {epoch}: {expired:?}");
        }
        client.advance(&change, now).unwrap();
        chain.enter(&members);
    }
    assert_eq!(client.committees().newest().epoch(), Epoch(1_000));
    assert!(
        client.certified(&chain.sign(&Header { number: 100_001, ..Header::default() }, &[0, 1, 2, 3]), days(1_000)).is_ok()
    );
}
