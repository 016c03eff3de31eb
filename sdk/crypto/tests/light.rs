//! Epoch changes that a light client accepts and refuses.
#![allow(clippy::unwrap_used)] // also in helpers

mod common;

use common::chain::{Chain, head, member};
use corniche_crypto::{CertificateError, Committees, EpochChangeError, FinalityError};
use corniche_types::{Epoch, EpochChange, Header, LightMember, RecordHead, Votes, keccak256};

/// Over three epochs all validators are replaced, and votes are weighed.
#[test]
fn committee_is_followed() {
    let (mut chain, mut keys) = Chain::new();
    for members in
        [&[(0, 1), (1, 1), (2, 1), (4, 1)][..], &[(4, 2), (5, 2), (6, 2), (7, 1)], &[(8, 1), (9, 1), (10, 1), (11, 1)]]
    {
        let change = chain.change(members, &[0, 1, 2]);
        keys = keys.advance(&change).unwrap();
        chain.enter(members);
        assert_eq!((keys.epoch(), keys.hash()), (Epoch(chain.epoch), chain.committee));
        let header = Header { number: 7, ..Header::default() };
        assert_eq!(keys.verify(&chain.sign(&header, &[0, 1, 2])), Ok(()));
        assert!(keys.verify(&chain.sign(&header, &[2, 3])).is_err());
    }
    assert_eq!(keys.members().len(), 4);
}

/// If BLS keys and votes stay, the change names no members, and wrong ones do no harm.
#[test]
fn unchanged_committee_needs_no_members() {
    let (mut chain, keys) = Chain::new();
    let members = chain.members.clone();
    let change = EpochChange { members: None, ..chain.change(&members, &[1, 2, 3]) };
    let next = keys.advance(&change).unwrap();
    chain.enter(&members);
    assert_eq!(next.verify(&chain.sign(&Header::default(), &[0, 1, 2])), Ok(()));
    let other = EpochChange { members: Some(vec![member(9, 1)]), ..change };
    assert_eq!(keys.advance(&other).unwrap().members(), next.members());
}

/// Members that have left sign nothing, not even all together: anybody may have their keys.
#[test]
fn past_committees_sign_nothing_later() {
    let (mut chain, keys) = Chain::new();
    let members = [(4, 1), (5, 1), (6, 1), (7, 1)];
    let change = chain.change(&members, &[0, 1, 2]);
    let end = change.header.number;
    let signed = |chain: &Chain| [end, end + 1].map(|number| chain.sign(&Header { number, ..Header::default() }, &[0, 1, 2]));
    let refused = |height, epoch| Err(FinalityError::OtherEpoch { height, epoch });
    let old = signed(&chain);
    let mut committees = Committees::new(keys);
    assert!(committees.certified(&old[1]).is_ok(), "its end is not known");
    committees.advance(&change).unwrap();
    chain.enter(&members);
    let new = signed(&chain);
    assert!(committees.certified(&old[0]).is_ok());
    assert_eq!(committees.certified(&old[1]), refused(end + 1, 0));
    assert_eq!(committees.certified(&new[0]), refused(end, 1));
    assert!(committees.certified(&new[1]).is_ok());
    assert_eq!(committees.newest_after(), Some(end));
    // The last blocks of epochs have ascending heights.
    let next = chain.change(&members, &[0, 1, 2]);
    let header = Header { number: end, ..next.header.clone() };
    let early = EpochChange { certificate: chain.sign(&header, &[0, 1, 2]), header, ..next };
    assert_eq!(committees.advance(&early), Err(EpochChangeError::NotLast(end)));
    chain.enter(&members);
    assert_eq!(committees.certified(&signed(&chain)[1]), Err(FinalityError::UnknownEpoch(2)));
}

#[test]
fn forged_changes_are_refused() {
    let (chain, keys) = Chain::new();
    let members = [(0, 1), (1, 1), (2, 1), (4, 1)];
    let good = chain.change(&members, &[0, 1, 2]);
    assert!(keys.advance(&good).is_ok());
    let refused = |change: EpochChange| keys.advance(&change).unwrap_err();
    let no_quorum = CertificateError::NoQuorum { votes: Votes(2), quorum: Votes(3) };
    assert_eq!(refused(chain.change(&members, &[0, 1])), EpochChangeError::Certificate(no_quorum));
    // Another header, head or members than those that were signed.
    let header = Header { gas_used: 1, ..good.header.clone() };
    assert_eq!(refused(EpochChange { header, ..good.clone() }), EpochChangeError::Header);
    let others = chain.change(&[(5, 1), (6, 1), (7, 1), (8, 1)], &[0, 1, 2]);
    assert_eq!(refused(EpochChange { head: others.head.clone(), ..good.clone() }), EpochChangeError::Head);
    assert_eq!(refused(EpochChange { members: others.members.clone(), ..good.clone() }), EpochChangeError::Members);
    assert_eq!(refused(EpochChange { members: None, ..good.clone() }), EpochChangeError::Members);
    // Signed blocks that are not the last ones of this epoch.
    let signed = |head: Vec<u8>| {
        let header = Header { number: 9, extra_data: keccak256(&head).to_vec().into(), ..Header::default() };
        EpochChange { certificate: chain.sign(&header, &[0, 1, 2]), header, head: head.into(), members: None }
    };
    assert_eq!(refused(signed(head(0, None))), EpochChangeError::NotLast(9));
    let next = RecordHead::decode(&good.head).unwrap().next;
    assert_eq!(refused(signed(head(1, next.clone()))), EpochChangeError::Head, "of another epoch");
    let trailing = [head(0, next), vec![0]].concat();
    assert_eq!(refused(signed(trailing)), EpochChangeError::Head);
    // The change of the epoch before does not lead further.
    let next = keys.advance(&good).unwrap();
    let epoch = CertificateError::Epoch { expected: Epoch(1), found: Epoch(0) };
    assert_eq!(next.advance(&good).unwrap_err(), EpochChangeError::Certificate(epoch));
}

/// A quorum that signs an unusable committee is at fault. The client stops there.
#[test]
fn unusable_committees_are_refused() {
    let (chain, keys) = Chain::new();
    let no_point = LightMember { bls_key: [7; 96], votes: Votes(1) };
    for members in [vec![], vec![member(1, 1); 4], vec![member(1, 0), member(2, 1)], vec![no_point], vec![member(1, 1); 301]] {
        let change = chain.change_to(members, &[0, 1, 2]);
        assert_eq!(keys.advance(&change).unwrap_err(), EpochChangeError::Committee);
    }
}
