//! Dealing of a coin on the chain: phases, authors, wrong messages, and shares.
#![allow(clippy::unwrap_used)] // also in helpers

mod support;

use NoticeKind::{Acknowledge, Deal, Open};
use alloy_primitives::U256;
use corniche_crypto::{CoinSecretShare, CoinShare};
use corniche_staking::{
    AuthorKeys, Notice, NoticeAuthor, NoticeKind, ValidatorId,
    calendar::{self, Announcement},
    coin::{DealingProgress, EpochCoin, Need},
    interface::Staking,
    record::{Attendance, CoinKeys, Committee, Phase},
};
use corniche_types::{Epoch, StakingParameters, TimestampMs, ValidatorIndex, Votes};
use std::collections::BTreeSet;
use support::{CHAIN_ID, Chain, Secrets, account, short_epochs, votes};

/// Ends of the phases after the freeze, in milliseconds: three, five and seven eighths of 250.
const DEALT: u64 = 93;
const ACKNOWLEDGED: u64 = 156;
const OPENED: u64 = 218;

const MESSAGE: &[u8] = b"round 7";

/// Seven votes, of which two may be faulty.
fn chain() -> Chain {
    Chain::new(short_epochs(), &[2, 2, 2, 1])
}

fn author(number: u64) -> NoticeAuthor {
    Secrets::new(number).author()
}

fn with_other_coin_key(number: u64) -> NoticeAuthor {
    let keys = AuthorKeys::new(Secrets::new(number).consensus, Some(Secrets::new(9).coin));
    NoticeAuthor { keys: vec![keys], ..author(number) }
}

fn announce(chain: &mut Chain, ids: impl IntoIterator<Item = u32>) {
    for id in ids {
        assert_eq!(chain.announce(ValidatorId(id)), Announcement::Taken);
    }
}

/// The freeze after an announcement of these validators.
fn frozen(chain: &mut Chain, announced: impl IntoIterator<Item = u32>) {
    announce(chain, announced);
    assert_eq!(chain.advance(0), Phase::Dealing);
}

fn dealing_chain() -> Chain {
    let mut chain = chain();
    frozen(&mut chain, 0..4);
    chain
}

/// Notice of a validator if it owes one of this kind.
fn made(chain: &mut Chain, author: &NoticeAuthor, kind: NoticeKind) -> Option<Notice> {
    let owed = author.owed(&mut chain.memory, &chain.parameters, TimestampMs(0)).unwrap();
    let notice = owed.contains(&kind).then(|| author.make(&mut chain.memory, kind).unwrap()).flatten()?;
    Some(Notice::decode(&notice.encode()).unwrap())
}

/// Applies a notice as a block does. Returns whether it had an effect.
fn apply(chain: &mut Chain, notice: Notice) -> bool {
    let parameters = chain.parameters.clone();
    let verified = notice.verify(&mut chain.memory, &parameters, CHAIN_ID).unwrap();
    verified.is_some_and(|notice| notice.apply(&mut chain.memory, &parameters, TimestampMs(0)).unwrap().is_some())
}

/// Sends the notices of this kind that validators owe. Returns their authors.
fn send(chain: &mut Chain, numbers: impl IntoIterator<Item = u64>, kind: NoticeKind) -> Vec<u64> {
    let mut sent = Vec::new();
    for number in numbers {
        if let Some(notice) = made(chain, &author(number), kind) {
            assert!(apply(chain, notice));
            sent.push(number);
        }
    }
    sent
}

/// Keys of the coin of an epoch.
fn keys(chain: &mut Chain, epoch: Epoch) -> CoinKeys {
    Committee::coin_of(&mut chain.memory, epoch).unwrap().keys(&mut chain.memory).unwrap().unwrap()
}

fn coin(chain: &mut Chain) -> Option<EpochCoin> {
    let epoch = chain.header().epoch;
    EpochCoin::load(&mut chain.memory, CHAIN_ID, epoch).unwrap()
}

/// The shares of these members, by index and number.
fn shares(coin: &EpochCoin, members: &[(u16, u64)]) -> Vec<(ValidatorIndex, Vec<CoinShare>)> {
    let share = |(index, number): &(u16, u64)| -> CoinSecretShare {
        coin.share(ValidatorIndex(*index), &Secrets::new(*number).coin).expect("each honest member has its share")
    };
    members.iter().map(|member| (ValidatorIndex(member.0), share(member).sign(MESSAGE))).collect()
}

fn opens(coin: &EpochCoin, members: &[(u16, u64)], threshold: u32) -> bool {
    let signature = coin.keys().combine(Votes(threshold), &shares(coin, members));
    signature.is_some_and(|signature| coin.keys().verify(MESSAGE, &signature))
}

/// With all members present, each deals and acknowledges, and nothing is opened.
#[test]
fn members_deal_and_acknowledge() {
    let mut chain = dealing_chain();
    assert_eq!(send(&mut chain, 0..3, Deal), [0, 1, 2]);
    assert_eq!(send(&mut chain, 0..4, Acknowledge), [0u64; 0], "a dealing is still to come");
    assert_eq!(send(&mut chain, 0..4, Deal), [3], "each deals once");
    assert_eq!(send(&mut chain, 0..4, Acknowledge), [0, 1, 2, 3], "before their phase begins");
    assert_eq!(chain.advance(DEALT), Phase::Acknowledging);
    assert_eq!(send(&mut chain, 0..4, Acknowledge), [0u64; 0]);
    assert_eq!(chain.advance(ACKNOWLEDGED), Phase::Opening);
    assert_eq!(send(&mut chain, 0..4, Open), [0u64; 0]);
    assert_eq!(chain.advance(OPENED - 1), Phase::Opening);
    assert!(coin(&mut chain).is_none());
    assert_eq!(chain.advance(OPENED), Phase::Frozen);
    assert_eq!(chain.activate().epoch, Epoch(1));
    let coin = coin(&mut chain).unwrap();
    assert!(opens(&coin, &[(0, 0), (1, 1), (3, 3)], 5) && opens(&coin, &[(1, 1), (2, 2), (3, 3)], 5));
    assert!(!opens(&coin, &[(0, 0), (1, 1)], 4), "four votes are too few");
    assert!(coin.share(ValidatorIndex(0), &Secrets::new(1).coin).is_none());
    let keys = keys(&mut chain, Epoch(1));
    assert_eq!((keys.qualified.len(), keys.exposed), (4, Votes(0)));
}

/// The dealing that fewest members acknowledged decides whether the coin is in danger.
#[test]
fn progress_is_that_of_the_worst_dealing() {
    let mut chain = dealing_chain();
    let progress = |chain: &mut Chain| {
        let progress = DealingProgress::load(&mut chain.memory).unwrap();
        progress.map(|progress| (progress.dealings, progress.unacknowledged.0, progress.max_unacknowledged.0))
    };
    assert_eq!(progress(&mut chain), Some((0, 0, 2)));
    send(&mut chain, 0..3, Deal);
    assert_eq!(progress(&mut chain), Some((3, 7, 2)));
    chain.advance(DEALT);
    send(&mut chain, 0..3, Acknowledge);
    assert_eq!(progress(&mut chain), Some((3, 1, 2)));
    chain.advance(ACKNOWLEDGED);
    send(&mut chain, 0..4, Open);
    assert_eq!(progress(&mut chain), Some((3, 1, 2)), "openings do not change it");
    chain.advance(OPENED);
    assert_eq!(progress(&mut chain), None, "the coin is settled");
}

/// Each phase takes its own notices only.
#[test]
fn phases_are_strict() {
    let mut chain = dealing_chain();
    let late = made(&mut chain, &author(3), Deal).unwrap();
    send(&mut chain, 0..3, Deal);
    chain.advance(DEALT);
    assert!(!apply(&mut chain, late), "dealings are over");
    let late = made(&mut chain, &author(3), Acknowledge).unwrap();
    send(&mut chain, 0..3, Acknowledge);
    assert_eq!(send(&mut chain, 0..4, Open), [0u64; 0], "a member may still acknowledge");
    chain.advance(ACKNOWLEDGED);
    assert!(!apply(&mut chain, late), "acknowledgements are over");
    let late = made(&mut chain, &author(2), Open).unwrap();
    assert_eq!(send(&mut chain, 0..2, Open), [0, 1]);
    assert_eq!(send(&mut chain, 0..2, Open), [0u64; 0], "once");
    chain.advance(OPENED);
    assert!(!apply(&mut chain, late), "the coin is settled");
}

/// One block after a long halt runs all steps. Without dealings there is no coin, and nobody is to blame.
#[test]
fn all_steps_in_one_block() {
    let mut chain = chain();
    announce(&mut chain, 0..4);
    assert_eq!(chain.advance(10_000), Phase::Kept);
    chain.activate();
    assert!(coin(&mut chain).is_none(), "the coin of the genesis");
    frozen(&mut chain, 0..4);
    // Dealings of too few, and nobody that could acknowledge before a halt.
    for dealers in [0..2, 0..4] {
        send(&mut chain, dealers, Deal);
        assert_eq!(chain.advance(10_000), Phase::Kept);
        chain.activate();
        frozen(&mut chain, 0..4);
    }
}

/// A member that is away after the freeze neither deals nor acknowledges. Others open its values, so its share is public, and it has the
/// share when it returns.
#[test]
fn silent_member_has_its_share() {
    let mut chain = dealing_chain();
    send(&mut chain, 0..3, Deal);
    chain.advance(DEALT);
    assert_eq!(send(&mut chain, 0..3, Acknowledge), [0, 1, 2]);
    chain.advance(ACKNOWLEDGED);
    assert_eq!(send(&mut chain, 0..4, Open), [0, 1, 2]);
    assert_eq!(chain.advance(OPENED), Phase::Frozen);
    chain.activate();
    let coin = coin(&mut chain).unwrap();
    assert!(opens(&coin, &[(0, 0), (1, 1), (3, 3)], 5));
    let keys = keys(&mut chain, Epoch(1));
    assert_eq!((keys.exposed, keys.qualified.len()), (Votes(1), 3));
}

/// Three of seven votes are silent receivers: no dealing can be shown, so the old committee stays. Sitting members stay candidates, or
/// others could take over without them.
#[test]
fn too_many_silent_members_keep_the_committee() {
    let mut chain = dealing_chain();
    send(&mut chain, 0..4, Deal);
    chain.advance(DEALT);
    send(&mut chain, [0, 1], Acknowledge);
    chain.advance(ACKNOWLEDGED);
    assert_eq!(send(&mut chain, 0..4, Open), [0u64; 0], "that would show a polynomial");
    assert_eq!(chain.advance(OPENED), Phase::Kept);
    chain.activate();
    assert!(coin(&mut chain).is_none());
    // Everything of the first attempt is there, at the same places. It does not count for the second one.
    frozen(&mut chain, 0..4);
    assert_eq!(send(&mut chain, 0..4, Deal), [0, 1, 2, 3]);
    assert_eq!(send(&mut chain, 0..4, Acknowledge), [0, 1, 2, 3]);
    assert_eq!(chain.advance(OPENED), Phase::Frozen);
    assert_eq!(chain.activate().epoch, Epoch(2));
    assert!(opens(&coin(&mut chain).unwrap(), &[(0, 0), (2, 2), (3, 3)], 5));
}

/// Newcomers with more votes than may be silent keep the next committee from its coin once. Then they are no candidates. Empty
/// acknowledgements do not help them.
#[test]
fn silent_newcomers_are_excluded() {
    let mut chain = chain();
    for number in [4, 5] {
        chain.send(account(number), votes(2), &Secrets::new(number).register(account(number))).unwrap();
    }
    frozen(&mut chain, 0..6);
    send(&mut chain, 0..4, Deal);
    let reads_nothing = with_other_coin_key(4);
    let empty = made(&mut chain, &reads_nothing, Acknowledge).unwrap();
    assert!(apply(&mut chain, empty));
    send(&mut chain, 0..4, Acknowledge);
    assert_eq!(chain.advance(OPENED), Phase::Kept);
    chain.activate();
    frozen(&mut chain, 0..6);
    let next = Committee::load(&mut chain.memory, Epoch(2)).unwrap();
    assert_eq!(next.members.iter().map(|member| member.id.0).collect::<Vec<_>>(), [0, 1, 2, 3]);
    send(&mut chain, 0..4, Deal);
    send(&mut chain, 0..4, Acknowledge);
    assert_eq!(chain.advance(OPENED), Phase::Frozen);
    chain.activate();
    frozen(&mut chain, 0..6);
    assert_eq!(Committee::load(&mut chain.memory, Epoch(3)).unwrap().members.len(), 6, "once");
}

/// Members that are no candidates do not count as announced: with them others would choose the next committee among themselves.
#[test]
fn excluded_members_keep_the_committee() {
    let mut chain = chain();
    for number in 4..8 {
        chain.send(account(number), votes(2), &Secrets::new(number).register(account(number))).unwrap();
    }
    announce(&mut chain, 0..8);
    for id in [0, 1] {
        let before = Attendance::load(&mut chain.memory, ValidatorId(id)).unwrap();
        let excluded = Attendance { excluded_in: Some(Epoch(0)), ..before };
        excluded.store(&mut chain.memory, ValidatorId(id)).unwrap();
    }
    assert_eq!(chain.advance(0), Phase::Kept);
}

/// A wrong dealing uses up its author's chance, and the coin is made without it.
#[test]
fn wrong_dealing_disqualifies_its_author() {
    let mut chain = dealing_chain();
    let mut other = Chain::new(short_epochs(), &[1, 1, 1, 1]);
    frozen(&mut other, 0..4);
    // For four votes: it has too few values.
    let short = made(&mut other, &author(3), Deal).unwrap();
    assert!(apply(&mut chain, short));
    assert_eq!(send(&mut chain, 0..4, Deal), [0, 1, 2]);
    assert_eq!(send(&mut chain, 0..4, Acknowledge), [0, 1, 2, 3]);
    assert_eq!(chain.advance(OPENED), Phase::Frozen);
    assert_eq!(keys(&mut chain, Epoch(1)).qualified, BTreeSet::from([0, 1, 2].map(ValidatorIndex)));
    chain.activate();
    assert!(opens(&coin(&mut chain).unwrap(), &[(0, 0), (1, 1), (3, 3)], 5));
}

/// An opening with wrong values, or for wrong members, disqualifies its dealer.
#[test]
fn wrong_opening_disqualifies_its_author() {
    let opening = |acknowledged: &[u64]| {
        let mut chain = Chain::new(short_epochs(), &[2, 2, 1, 1, 1]);
        frozen(&mut chain, 0..5);
        send(&mut chain, 0..5, Deal);
        chain.advance(DEALT);
        send(&mut chain, acknowledged.iter().copied(), Acknowledge);
        chain.advance(ACKNOWLEDGED);
        chain
    };
    let other_seed = with_other_coin_key(2);
    let wrong_values = made(&mut opening(&[0, 1, 2, 4]), &other_seed, Open).unwrap();
    // Also values of a member that has acknowledged. They are right, and would become public for nothing.
    let too_many = made(&mut opening(&[0, 1, 2]), &author(2), Open).unwrap();
    for wrong in [wrong_values, too_many] {
        let mut chain = opening(&[0, 1, 2, 4]);
        assert!(apply(&mut chain, wrong));
        assert_eq!(send(&mut chain, 0..5, Open), [0, 1, 3, 4]);
        assert_eq!(chain.advance(OPENED), Phase::Frozen);
        assert_eq!(keys(&mut chain, Epoch(1)).qualified, BTreeSet::from([0, 1, 3, 4].map(ValidatorIndex)));
    }
}

/// An acknowledgement does not count for a dealing that comes later.
#[test]
fn only_dealings_on_the_chain_are_acknowledged() {
    let [mut chain, mut other] = [dealing_chain(), dealing_chain()];
    send(&mut chain, 0..3, Deal);
    send(&mut other, 0..4, Deal);
    let early = made(&mut other, &author(0), Acknowledge).unwrap();
    assert!(apply(&mut chain, early));
    send(&mut chain, [3], Deal);
    assert_eq!(send(&mut chain, 0..4, Acknowledge), [1, 2, 3]);
    chain.advance(ACKNOWLEDGED);
    assert_eq!(send(&mut chain, 0..4, Open), [3]);
}

/// Keys count as at the freeze. A dealer that rotates its keys afterwards signs with the old key, and others encrypt to its old key.
#[test]
fn committee_is_frozen() {
    let mut chain = dealing_chain();
    let next = Secrets::mixed([21, 22, 23, 24]);
    chain.send(account(1), U256::ZERO, &next.rotate(1, account(1))).unwrap();
    assert!(made(&mut chain, &next.author(), Deal).is_none());
    assert_eq!(send(&mut chain, 0..4, Deal), [0, 1, 2, 3]);
    assert_eq!(send(&mut chain, 0..4, Acknowledge), [0, 1, 2, 3]);
    assert_eq!(chain.advance(OPENED), Phase::Frozen);
    chain.activate();
    assert!(opens(&coin(&mut chain).unwrap(), &[(0, 0), (1, 1), (2, 2)], 5));
}

/// A node with both keys of a rotation uses each for what its committee lists it for (K1).
#[test]
fn author_uses_the_keys_of_each_committee() {
    let mut chain = chain();
    let next = Secrets::mixed([21, 22, 23, 24]);
    chain.send(account(1), U256::ZERO, &next.rotate(1, account(1))).unwrap();
    let both = NoticeAuthor { keys: [author(1).keys, next.author().keys].concat(), ..author(1) };
    let announced = |chain: &mut Chain, author: &NoticeAuthor| {
        author.owed(&mut chain.memory, &short_epochs(), TimestampMs(u64::MAX)).unwrap()
    };
    assert!(announced(&mut chain, &author(1)).is_empty(), "the old key is not registered");
    assert_eq!(announced(&mut chain, &both), [NoticeKind::Announce]);
    frozen(&mut chain, 0..4);
    let refused = [next.author(), author(1)].map(|author| made(&mut chain, &author, Deal).is_none());
    assert_eq!(refused, [true, false], "the sitting committee has the old key");
    let dealing = made(&mut chain, &both, Deal).unwrap();
    assert!(apply(&mut chain, dealing));
    assert_eq!(send(&mut chain, [0, 2, 3], Deal), [0, 2, 3]);
    assert!(made(&mut chain, &author(1), Acknowledge).is_none(), "the next committee has the new key");
    let acknowledgement = made(&mut chain, &both, Acknowledge).unwrap();
    assert!(apply(&mut chain, acknowledgement));
    assert_eq!(send(&mut chain, [0, 2, 3], Acknowledge), [0, 2, 3]);
    assert_eq!(chain.advance(OPENED), Phase::Frozen);
    chain.activate();
    let coin = coin(&mut chain).unwrap();
    let key = |consensus: &Secrets| both.coin_key(&consensus.keys.consensus).unwrap().clone();
    assert!(coin.share(ValidatorIndex(1), &key(&Secrets::new(1))).is_none());
    assert!(coin.share(ValidatorIndex(1), &key(&next)).is_some());
}

/// A newcomer acknowledges, but does not deal: it is no member yet. A leaving member deals, but gets no share.
#[test]
fn old_members_deal_to_new_ones() {
    let mut chain = chain();
    chain.send(account(4), votes(2), &Secrets::new(4).register(account(4))).unwrap();
    frozen(&mut chain, [0, 1, 2, 4]);
    assert_eq!(send(&mut chain, 0..5, Deal), [0, 1, 2, 3]);
    assert_eq!(send(&mut chain, 0..5, Acknowledge), [0, 1, 2, 4]);
    assert_eq!(chain.advance(OPENED), Phase::Frozen);
    chain.activate();
    assert!(opens(&coin(&mut chain).unwrap(), &[(0, 0), (2, 2), (3, 4)], 6));
}

/// An unchanged committee keeps its coin for a while. Another vote, or another coin key, needs a new one at once.
#[test]
fn coin_serves_an_unchanged_committee() {
    let parameters = StakingParameters { coin_max_age: 3, ..short_epochs() };
    let mut chain = Chain::new(parameters, &[2, 2, 2, 1]);
    let mut generations = Vec::new();
    let epoch = |chain: &mut Chain, generations: &mut Vec<u64>| {
        announce(chain, 0..4);
        if chain.advance(0) == Phase::Dealing {
            send(chain, 0..5, Deal);
            send(chain, 0..5, Acknowledge);
        }
        assert_eq!(chain.advance(OPENED), Phase::Frozen);
        let epoch = chain.activate().epoch;
        let committee = Committee::load(&mut chain.memory, epoch).unwrap();
        generations.push(committee.coin.generation.0);
        assert!(opens(&coin(chain).unwrap(), &[(0, 0), (1, 1), (2, 2)], committee.weights().quorum().0), "{epoch}");
    };
    (0..5).for_each(|_| epoch(&mut chain, &mut generations));
    // Network keys are no part of it.
    let rotated = Secrets::mixed([3, 3, 33, 3]).rotate(3, account(3));
    chain.send(account(3), U256::ZERO, &rotated).unwrap();
    epoch(&mut chain, &mut generations);
    assert_eq!(generations, [1, 1, 1, 4, 4, 4]);
    epoch(&mut chain, &mut generations);
    chain.send(account(3), votes(1), &Staking::addCall { id: 3 }).unwrap();
    epoch(&mut chain, &mut generations);
    assert_eq!(generations[6..], [7, 8]);
}

/// The running coin stays readable while the next one is dealt, and until the next freeze: each coin has its own slots.
#[test]
fn running_coin_stays_readable() {
    let mut chain = dealing_chain();
    send(&mut chain, 0..4, Deal);
    send(&mut chain, 0..4, Acknowledge);
    chain.advance(OPENED);
    chain.activate();
    let first = coin(&mut chain).unwrap().keys().clone();
    let add = Staking::addCall { id: 3 };
    chain.send(account(3), votes(1), &add).unwrap();
    frozen(&mut chain, 0..4);
    send(&mut chain, 0..4, Deal);
    assert!(opens(&coin(&mut chain).unwrap(), &[(0, 0), (1, 1), (3, 3)], 5));
    send(&mut chain, 0..4, Acknowledge);
    chain.advance(OPENED);
    chain.activate();
    let before = EpochCoin::load(&mut chain.memory, CHAIN_ID, Epoch(1)).unwrap().unwrap();
    assert_eq!(before.keys(), &first);
    assert!(opens(&before, &[(0, 0), (1, 1), (3, 3)], 5));
    assert_ne!(coin(&mut chain).unwrap().keys(), &first);
}

/// A coin that nobody knows stays after the genesis. Engines without a coin never deal one.
#[test]
fn need_decides() {
    for (need, phase) in
        [(Need::Never, Phase::Frozen), (Need::Sometimes, Phase::Frozen), (Need::SoonAfterGenesis, Phase::Dealing)]
    {
        let mut chain = chain();
        announce(&mut chain, 0..4);
        calendar::freeze(&mut chain.memory, &chain.parameters, need).unwrap();
        assert_eq!(chain.header().phase, phase);
    }
}
