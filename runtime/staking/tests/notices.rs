//! Notices: what takes effect, and what does not.
#![allow(clippy::unwrap_used)] // also in helpers

mod support;

use alloy_primitives::{B256, Bytes, U256};
use corniche_staking::{
    Notice, NoticeAuthor, NoticeKind, ValidatorId, VerifiedNotice,
    record::{Attendance, PastCommittee},
};
use corniche_types::{Epoch, TimestampMs};
use support::{CHAIN_ID, Chain, Secrets, account, committee_hash, short_epochs};

/// In the window of epoch 0.
const READY: TimestampMs = TimestampMs(1_000_600);

fn chain() -> Chain {
    Chain::new(short_epochs(), &[2, 2, 2, 2])
}

fn announce(chain: &mut Chain, number: u64, now: TimestampMs) -> Option<VerifiedNotice> {
    announce_with(chain, &Secrets::new(number).author(), now)
}

fn announce_with(chain: &mut Chain, author: &NoticeAuthor, now: TimestampMs) -> Option<VerifiedNotice> {
    let owed = author.owed(&mut chain.memory, &chain.parameters, now).unwrap();
    owed.contains(&NoticeKind::Announce).then(|| author.make(&mut chain.memory, NoticeKind::Announce).unwrap().unwrap())
}

fn verify(chain: &mut Chain, entry: &[u8]) -> Option<VerifiedNotice> {
    Notice::decode(entry).unwrap().verify(&mut chain.memory, &chain.parameters, CHAIN_ID).unwrap()
}

fn apply(chain: &mut Chain, entry: &[u8], now: TimestampMs) -> bool {
    let parameters = chain.parameters.clone();
    let verified = Notice::decode(entry).unwrap().verify(&mut chain.memory, &chain.parameters, CHAIN_ID).unwrap();
    verified.is_some_and(|notice| notice.apply(&mut chain.memory, &parameters, now).unwrap().is_some())
}

#[test]
fn announcement_takes_effect_once() {
    let mut chain = chain();
    assert_eq!(announce(&mut chain, 1, TimestampMs(1_000_499)), None, "too early");
    let notice = announce(&mut chain, 1, READY).unwrap();
    let entry = notice.encode();
    assert_eq!(verify(&mut chain, &entry), Some(notice.clone()));
    // The time of the block decides, not that of the author.
    assert!(!apply(&mut chain, &entry, TimestampMs(1_000_499)) && !apply(&mut chain, &entry, TimestampMs(1_000_750)));
    assert!(notice.is_missing(&mut chain.memory, &chain.parameters).unwrap());
    assert!(apply(&mut chain, &entry, READY));
    let attendance = Attendance::load(&mut chain.memory, ValidatorId(1)).unwrap();
    assert_eq!((attendance.announced_in, attendance.version), (Some(Epoch(0)), 7));
    assert!(!apply(&mut chain, &entry, READY) && !notice.is_missing(&mut chain.memory, &chain.parameters).unwrap());
    assert_eq!((verify(&mut chain, &entry), announce(&mut chain, 1, READY)), (None, None));
    // In the next epoch the same bytes have no effect, and a new announcement is due.
    chain.freeze();
    assert_eq!(announce(&mut chain, 2, READY), None, "late");
    chain.activate();
    let later = TimestampMs(READY.0 + 1_000);
    assert!(!apply(&mut chain, &entry, later));
    let next = announce(&mut chain, 1, later).unwrap().encode();
    assert!(apply(&mut chain, &next, later));
}

#[test]
fn only_the_registered_key_signs() {
    let mut chain = chain();
    let entry = announce(&mut chain, 1, READY).unwrap().encode();
    for at in 0..entry.len() {
        let mut changed = entry.to_vec();
        changed[at] ^= 1;
        let taken = Notice::decode(&changed).is_some_and(|_| apply(&mut chain, &changed, READY));
        assert!(!taken, "byte {at}");
    }
    assert_eq!(announce(&mut chain, 9, READY), None, "not registered");
    // A rotated key announces no longer, and its older notice neither.
    let next = Secrets::mixed([21, 22, 23, 24]);
    let rotated = next.rotate(1, account(1));
    chain.send(account(1), U256::ZERO, &rotated).unwrap();
    assert_eq!(announce(&mut chain, 1, READY), None);
    assert!(!apply(&mut chain, &entry, READY));
    let entry = announce_with(&mut chain, &next.author(), READY).unwrap().encode();
    assert!(apply(&mut chain, &entry, READY));
}

#[test]
fn signature_is_for_one_chain_and_one_committee() {
    let mut chain = chain();
    let entry = announce(&mut chain, 1, READY).unwrap().encode();
    let notice = || Notice::decode(&entry).unwrap();
    assert_eq!(notice().verify(&mut chain.memory, &chain.parameters, CHAIN_ID + 1), Ok(None));
    // Chain id and epoch are equal, and the committee is another one: the chains differ in their genesis only.
    let mut other = chain.memory.clone();
    let committee = PastCommittee::load(&mut other, Epoch(0)).unwrap().unwrap();
    assert_eq!(committee.hash, committee_hash(Epoch(0)));
    let place = other.slots.iter().find(|(_, value)| **value == committee.hash).map(|(slot, _)| *slot).unwrap();
    other.slots.insert(place, B256::repeat_byte(9));
    assert_eq!(notice().verify(&mut other, &chain.parameters, CHAIN_ID), Ok(None));
    assert!(notice().verify(&mut chain.memory, &chain.parameters, CHAIN_ID).unwrap().is_some());
}

#[test]
fn notice_has_one_encoding() {
    let mut chain = chain();
    let entry = announce(&mut chain, 0, READY).unwrap().encode();
    assert_eq!(entry.len(), 90);
    assert_eq!(entry[..22], [&[0x7e, CHAIN_ID as u8][..], &[0; 20]].concat(), "chain id, epoch, author and kind");
    let longer: Bytes = [&entry[..], &[0]].concat().into();
    let other_marker = [&[0x7f], &entry[1..]].concat();
    for junk in [&entry[..entry.len() - 1], &longer[..], &other_marker[..], &[][..], &[0x7e][..]] {
        assert_eq!(Notice::decode(junk), None);
    }
}
