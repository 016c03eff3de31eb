//! Coins that members deal on the chain: who may say what and when, and what follows.
#![allow(clippy::unwrap_used)] // also in helpers

mod support;

use NoticeKind::{Acknowledge, Deal, Open};
use alloy_primitives::U256;
use corniche_crypto::{CoinSecretShare, CoinShare};
use corniche_staking::{
    Notice, NoticeAuthor, NoticeKind, ValidatorId,
    calendar::Announcement,
    coin::{EpochCoin, Need},
    record::{Attendance, CoinRef, Committee, Phase},
};
use corniche_types::{Epoch, StakingParameters, TimestampMs, ValidatorIndex, Votes};
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

/// The freeze after an announcement of these validators.
fn frozen(chain: &mut Chain, announced: impl IntoIterator<Item = u32>) {
    for id in announced {
        assert_eq!(chain.announce(ValidatorId(id)), Announcement::Taken);
    }
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
    let verified = notice.verify(&mut chain.memory, CHAIN_ID).unwrap();
    let parameters = chain.parameters.clone();
    verified.is_some_and(|notice| notice.apply(&mut chain.memory, &parameters, TimestampMs(0)).unwrap())
}

/// Lets validators do what they owe. Returns those that had something to say.
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

/// Ends the epoch, and returns the number of the next one.
fn activate(chain: &mut Chain) -> Epoch {
    chain.activate().epoch
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

/// All are there: each deals and acknowledges, and nobody shows anything.
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
    assert_eq!(activate(&mut chain), Epoch(1));
    let coin = coin(&mut chain).unwrap();
    assert!(opens(&coin, &[(0, 0), (1, 1), (3, 3)], 5) && opens(&coin, &[(1, 1), (2, 2), (3, 3)], 5));
    assert!(!opens(&coin, &[(0, 0), (1, 1)], 4), "four votes are too few");
    assert!(coin.share(ValidatorIndex(0), &Secrets::new(1).coin).is_none());
    let committee = Committee::load(&mut chain.memory, Epoch(1)).unwrap();
    let keys = committee.coin.keys(&mut chain.memory).unwrap().unwrap();
    assert_eq!((keys.qualified.len(), keys.exposed, committee.coin.generation), (4, Votes(0), Epoch(1)));
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

/// One block after a long halt runs all steps. Without dealings there is no coin.
#[test]
fn all_steps_in_one_block() {
    let mut chain = chain();
    for id in 0..4 {
        chain.announce(ValidatorId(id));
    }
    assert_eq!(chain.advance(10_000), Phase::Kept);
    activate(&mut chain);
    assert!(coin(&mut chain).is_none(), "the coin of the genesis");
}

/// A member that is away from the freeze on deals nothing and acknowledges nothing. Others show its values, and so its shares are public.
/// It has them all the same when it comes back.
#[test]
fn silent_member_has_its_share() {
    let mut chain = dealing_chain();
    send(&mut chain, 0..3, Deal);
    chain.advance(DEALT);
    assert_eq!(send(&mut chain, 0..3, Acknowledge), [0, 1, 2]);
    chain.advance(ACKNOWLEDGED);
    assert_eq!(send(&mut chain, 0..4, Open), [0, 1, 2]);
    assert_eq!(chain.advance(OPENED), Phase::Frozen);
    activate(&mut chain);
    let coin = coin(&mut chain).unwrap();
    assert!(opens(&coin, &[(0, 0), (1, 1), (3, 3)], 5));
    let keys = CoinRef::of_epoch(&mut chain, Epoch(1));
    assert_eq!(keys, (Votes(1), 3));
}

/// Reads the exposed votes and the number of qualified dealers.
trait OfEpoch {
    fn of_epoch(chain: &mut Chain, epoch: Epoch) -> (Votes, usize);
}

impl OfEpoch for CoinRef {
    fn of_epoch(chain: &mut Chain, epoch: Epoch) -> (Votes, usize) {
        let coin = Committee::coin_of(&mut chain.memory, epoch).unwrap();
        let keys = coin.keys(&mut chain.memory).unwrap().unwrap();
        (keys.exposed, keys.qualified.len())
    }
}

/// Three of seven votes are silent receivers: no dealing can be shown, so the old committee stays. Next time they are no candidates.
#[test]
fn too_many_silent_members_keep_the_committee() {
    let mut chain = dealing_chain();
    send(&mut chain, 0..4, Deal);
    chain.advance(DEALT);
    send(&mut chain, [0, 1], Acknowledge);
    chain.advance(ACKNOWLEDGED);
    assert_eq!(send(&mut chain, 0..4, Open), [0u64; 0], "that would show a polynomial");
    assert_eq!(chain.advance(OPENED), Phase::Kept);
    activate(&mut chain);
    assert!(coin(&mut chain).is_none());
    let excluded = |chain: &mut Chain, id| Attendance::load(&mut chain.memory, ValidatorId(id)).unwrap().excluded_in;
    assert_eq!([0, 1, 2, 3].map(|id| excluded(&mut chain, id)), [None, None, Some(Epoch(1)), Some(Epoch(1))]);
    for id in 0..4 {
        chain.announce(ValidatorId(id));
    }
    assert_eq!(chain.advance(0), Phase::Kept, "two candidates are too few");
    activate(&mut chain);
    // Everything of the first attempt is there, at the same places. It does not count for the second one.
    frozen(&mut chain, 0..4);
    assert_eq!(send(&mut chain, 0..4, Deal), [0, 1, 2, 3]);
    assert_eq!(send(&mut chain, 0..4, Acknowledge), [0, 1, 2, 3]);
    assert_eq!(chain.advance(OPENED), Phase::Frozen);
    assert_eq!(activate(&mut chain), Epoch(3));
    assert!(opens(&coin(&mut chain).unwrap(), &[(0, 0), (2, 2), (3, 3)], 5));
}

/// A wrong dealing, or a wrong opening, has used up its author's chance, and the coin is made without it.
#[test]
fn wrong_messages_disqualify_their_author() {
    let mut chain = dealing_chain();
    // Dealt to others: its polynomial has another degree.
    let mut other = Chain::new(short_epochs(), &[1, 1, 1, 1]);
    frozen(&mut other, 0..4);
    let foreign = made(&mut other, &author(3), Deal).unwrap();
    assert!(apply(&mut chain, foreign));
    assert_eq!(send(&mut chain, 0..4, Deal), [0, 1, 2]);
    chain.advance(DEALT);
    send(&mut chain, 0..3, Acknowledge);
    chain.advance(ACKNOWLEDGED);
    // Validator 2 shows values of its dealing to another chain. They are no values of the dealing here.
    send(&mut other, 0..4, Deal);
    other.advance(DEALT);
    send(&mut other, 0..3, Acknowledge);
    other.advance(ACKNOWLEDGED);
    let foreign = made(&mut other, &author(2), Open).unwrap();
    assert!(apply(&mut chain, foreign));
    assert_eq!(send(&mut chain, 0..4, Open), [0, 1]);
    // Four of seven votes are qualified.
    assert_eq!(chain.advance(OPENED), Phase::Kept);
}

/// Stake, votes and keys count as they were at the freeze: a dealing by an author who rotated its keys since is signed with the old
/// one, and encrypted to old ones.
#[test]
fn committee_is_frozen() {
    let mut chain = dealing_chain();
    let next = Secrets::mixed([21, 22, 23, 24]);
    chain.send(account(1), U256::ZERO, &next.rotate(1, account(1))).unwrap();
    assert!(made(&mut chain, &next.author(), Deal).is_none());
    assert_eq!(send(&mut chain, 0..4, Deal), [0, 1, 2, 3]);
    assert_eq!(send(&mut chain, 0..4, Acknowledge), [0, 1, 2, 3]);
    assert_eq!(chain.advance(OPENED), Phase::Frozen);
    activate(&mut chain);
    assert!(opens(&coin(&mut chain).unwrap(), &[(0, 0), (1, 1), (2, 2)], 5));
}

/// A newcomer acknowledges, and does not deal: it is no member yet. Who leaves deals, and gets nothing.
#[test]
fn old_members_deal_to_new_ones() {
    let mut chain = chain();
    chain.send(account(4), votes(2), &Secrets::new(4).register(account(4))).unwrap();
    frozen(&mut chain, [0, 1, 2, 4]);
    assert_eq!(send(&mut chain, 0..5, Deal), [0, 1, 2, 3]);
    assert_eq!(send(&mut chain, 0..5, Acknowledge), [0, 1, 2, 4]);
    assert_eq!(chain.advance(OPENED), Phase::Frozen);
    activate(&mut chain);
    assert!(opens(&coin(&mut chain).unwrap(), &[(0, 0), (2, 2), (3, 4)], 6));
}

/// An unchanged committee keeps its coin for a while. Another vote, or another coin key, needs a new one at once.
#[test]
fn coin_serves_an_unchanged_committee() {
    let parameters = StakingParameters { coin_max_age: 3, ..short_epochs() };
    let mut chain = Chain::new(parameters, &[2, 2, 2, 1]);
    let mut generations = Vec::new();
    let epoch = |chain: &mut Chain, generations: &mut Vec<u64>| {
        for id in 0..4 {
            chain.announce(ValidatorId(id));
        }
        if chain.advance(0) == Phase::Dealing {
            send(chain, 0..5, Deal);
            send(chain, 0..5, Acknowledge);
        }
        assert_eq!(chain.advance(OPENED), Phase::Frozen);
        let epoch = activate(chain);
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
    chain.send(account(3), votes(1), &corniche_staking::interface::Staking::addCall { id: 3 }).unwrap();
    epoch(&mut chain, &mut generations);
    assert_eq!(generations[6..], [7, 8]);
}

/// While a new coin is dealt, and in the first blocks of its epoch, members can read the one before: its slots are others.
#[test]
fn running_coin_stays_readable() {
    let mut chain = dealing_chain();
    send(&mut chain, 0..4, Deal);
    send(&mut chain, 0..4, Acknowledge);
    chain.advance(OPENED);
    activate(&mut chain);
    let first = coin(&mut chain).unwrap().keys().clone();
    let add = corniche_staking::interface::Staking::addCall { id: 3 };
    chain.send(account(3), votes(1), &add).unwrap();
    frozen(&mut chain, 0..4);
    send(&mut chain, 0..4, Deal);
    assert!(opens(&coin(&mut chain).unwrap(), &[(0, 0), (1, 1), (3, 3)], 5));
    send(&mut chain, 0..4, Acknowledge);
    chain.advance(OPENED);
    activate(&mut chain);
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
        (0..4).for_each(|id| _ = chain.announce(ValidatorId(id)));
        corniche_staking::calendar::freeze(&mut chain.memory, &chain.parameters, need).unwrap();
        assert_eq!(chain.header().phase, phase);
    }
}
