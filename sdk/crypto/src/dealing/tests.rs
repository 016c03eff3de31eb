//! Coins that validators deal together, with faulty dealers and members.

use super::*;
use crate::CoinShare;
use corniche_types::FaultModel;

const MESSAGE: &[u8] = b"round 5";

/// A target, the seeds of its members, and the dealings for it. All members deal.
#[derive(Clone)]
struct Round {
    target: CoinTarget,
    seeds: Vec<CoinKey>,
    dealings: Dealings,
}

fn members(count: usize) -> impl Iterator<Item = ValidatorIndex> + Clone {
    (0u16..).map(ValidatorIndex).take(count)
}

fn target(generation: u64, votes: &[u32], seeds: &[CoinKey]) -> CoinTarget {
    let weights = Weights::new(votes.iter().copied().map(Votes), FaultModel::Byzantine);
    let keys: Vec<_> = seeds.iter().map(CoinKey::public).collect();
    CoinTarget::new(7, Epoch(generation), B256::repeat_byte(3), weights, keys.iter().map(|key| &key[..])).unwrap()
}

impl Round {
    /// All honest members deal and check what they get.
    fn new(votes: &[u32]) -> Self {
        let seeds: Vec<_> = (1u8..).take(votes.len()).map(|seed| CoinKey::from_seed([seed; 32])).collect();
        let mut round = Self { target: target(2, votes, &seeds), seeds, dealings: Dealings::default() };
        for dealer in members(votes.len()) {
            let dealing = round.seeds[dealer.as_usize()].deal(&round.target, dealer);
            round.publish(dealer, dealing);
        }
        round
    }

    fn publish(&mut self, dealer: ValidatorIndex, dealing: Dealing) {
        let dealt = dealing.verify(&self.target, dealer).expect("a valid dealing");
        let received = |member: &ValidatorIndex| self.seeds[member.as_usize()].receives(&self.target, *member, &dealt);
        let acknowledged = self.target.members().filter(received).collect();
        self.dealings.acknowledged.insert(dealer, acknowledged);
        self.dealings.dealt.insert(dealer, dealt);
    }

    /// A member says nothing about any dealing.
    fn silence(&mut self, member: u16) {
        self.dealings.acknowledged.values_mut().for_each(|members| _ = members.remove(&ValidatorIndex(member)));
    }

    /// The dealer shows what is missing. Returns false if it must not.
    fn open(&mut self, dealer: u16) -> bool {
        let dealer = ValidatorIndex(dealer);
        let missing: Vec<_> = self.dealings.missing(&self.target, dealer).collect();
        let Some(opening) = self.seeds[dealer.as_usize()].open(&self.target, dealer, missing) else { return false };
        assert!(opening.values.is_empty() || self.dealings.dealt[&dealer].admits(&opening));
        self.dealings.opened.insert(dealer, opening);
        true
    }

    fn settle(&self) -> Option<DealtCoin> {
        settle(&self.target, self.target.weights(), &self.dealings)
    }

    fn shares_of(
        &self,
        coin: &DealtCoin,
        members: impl Iterator<Item = ValidatorIndex>,
    ) -> Vec<(ValidatorIndex, Vec<CoinShare>)> {
        let share = |member: ValidatorIndex| {
            let seed = &self.seeds[member.as_usize()];
            seed.share(&self.target, member, &coin.keys, &coin.qualified, &self.dealings).expect("a share of the coin")
        };
        members.map(|member| (member, share(member).sign(MESSAGE))).collect()
    }

    /// Checks that every quorum of shares makes the coin, and that each share is valid.
    fn assert_works(&self, coin: &DealtCoin) {
        let shares = self.shares_of(coin, self.target.members());
        let quorum = self.target.weights.quorum();
        let coins: BTreeSet<_> = (0..shares.len())
            .map(|first| {
                let turned = [&shares[first..], &shares[..first]].concat();
                let signature = coin.keys.combine(quorum, &turned).expect("enough shares");
                assert!(coin.keys.verify(MESSAGE, &signature));
                signature.to_bytes()
            })
            .collect();
        assert_eq!(coins.len(), 1);
        assert!(shares.iter().all(|(member, shares)| coin.keys.verify_shares(*member, MESSAGE, shares)));
        assert!(coin.keys.is_consistent(quorum), "fewer shares make no coin");
    }
}

const COMMITTEES: [&[u32]; 7] = [&[1], &[1, 1], &[1; 4], &[3, 1, 1, 1, 1, 1, 1, 1], &[1; 7], &[1; 10], &[2, 2, 2, 1]];

#[test]
fn all_members_make_a_coin() {
    for votes in COMMITTEES {
        let mut round = Round::new(votes);
        assert!((0..votes.len() as u16).all(|dealer| round.open(dealer)), "nothing is missing");
        assert!(round.dealings.opened.values().all(|opening| opening.values.is_empty()));
        let coin = round.settle().unwrap();
        assert_eq!((coin.qualified.len(), coin.exposed.len()), (votes.len(), 0));
        round.assert_works(&coin);
        // Dealing again changes nothing.
        assert_eq!(Round::new(votes).settle(), Some(coin));
    }
}

#[test]
fn share_needs_all_qualified_dealings() {
    let round = Round::new(&[1; 4]);
    let coin = round.settle().unwrap();
    for dealer in members(4) {
        let fewer = members(4).filter(|other| *other != dealer).collect();
        let share = |dealers| round.seeds[0].share(&round.target, ValidatorIndex(0), &coin.keys, dealers, &round.dealings);
        assert!(share(&coin.qualified).is_some() && share(&fewer).is_none());
        assert_ne!(round.dealings.sum(&round.target, &fewer), Some(coin.keys.clone()));
    }
}

#[test]
fn silent_member_is_shown_its_values() {
    let mut round = Round::new(&[1; 4]);
    round.silence(2);
    assert_eq!(round.settle(), None, "no dealer is qualified before it has shown them");
    assert!(round.open(0) && round.open(1));
    assert_eq!(round.settle(), None, "two of four are no quorum");
    assert!(round.open(3));
    let coin = round.settle().unwrap();
    assert_eq!(coin.qualified, BTreeSet::from([0, 1, 3].map(ValidatorIndex)));
    assert_eq!(coin.exposed, BTreeSet::from([ValidatorIndex(2)]), "everybody knows its share");
    round.assert_works(&coin);
    // Its seed is lost, and it still has its share: from the openings. Its old values decrypt with nothing.
    let lost = CoinKey::from_seed([9; 32]);
    assert!(lost.share(&round.target, ValidatorIndex(2), &coin.keys, &coin.qualified, &round.dealings).is_some());
    // An acknowledgement that comes later makes nothing secret again.
    round.dealings.acknowledged.values_mut().for_each(|members| _ = members.insert(ValidatorIndex(2)));
    assert_eq!(round.settle().unwrap().exposed, BTreeSet::from([ValidatorIndex(2)]));
}

#[test]
fn dealer_shows_no_more_than_faulty_votes() {
    let mut round = Round::new(&[1; 7]);
    for member in [1, 4] {
        round.silence(member);
    }
    assert!(round.open(0));
    round.silence(5);
    assert!(!round.open(1), "three of seven");
    assert_eq!(round.settle(), None);
    // A faulty dealer shows them all the same, and is left out.
    let shown = |member| round.seeds[1].open(&round.target, ValidatorIndex(1), [ValidatorIndex(member)]).unwrap().values;
    let all = CoinOpening { values: [1, 4, 5].into_iter().flat_map(shown).collect() };
    assert!(round.dealings.dealt[&ValidatorIndex(1)].admits(&all));
    round.dealings.opened.insert(ValidatorIndex(1), all);
    assert!(!round.dealings.is_qualified(&round.target, ValidatorIndex(1)));
}

/// A dealing whose polynomial has one degree too many.
fn of_degree_t(round: &Round, dealer: ValidatorIndex) -> Dealing {
    let (seed, context) = (&round.seeds[dealer.as_usize()], round.target.context(dealer));
    let mut polynomial = seed.polynomial(&round.target, &context);
    polynomial.push(Scalar::from_u64(1));
    seed.deal_with(&round.target, &context, &polynomial)
}

/// If the hash left out some commitments, a dealer could choose these so that they pass the test of the degree.
#[test]
fn degree_test_is_drawn_from_all_commitments() {
    let (round, dealer) = (Round::new(&[1; 4]), ValidatorIndex(1));
    let (target, seed) = (&round.target, &round.seeds[dealer.as_usize()]);
    let (context, threshold) = (target.context(dealer), target.weights.quorum().as_usize());
    let (honest, polynomial) = (seed.deal(target, dealer), seed.polynomial(target, &context));
    let last = honest.commitments.len() - 1;
    for covered in 0..last {
        let mut hasher = blake3::Hasher::new_derive_key("corniche 2026 coin dealing, degree");
        hasher.update(&context);
        honest.commitments[..covered].iter().for_each(|bytes| _ = hasher.update(bytes));
        // The test sums the commitments with these weights, which the dealer knows before it chooses the last two.
        let mut stream = hasher.finalize_xof();
        let factors: Vec<_> = (0..=last - threshold).map(|_| Scalar::from_stream(&mut stream)).collect();
        let weight = |x: usize| {
            let differences =
                (0..=last as u64).filter(|y| *y != x as u64).map(|y| Scalar::from_u64(x as u64).sub(Scalar::from_u64(y)));
            let product = differences.fold(Scalar::from_u64(1), Scalar::mul);
            evaluate(&factors, x as u64).mul(product.inverse())
        };
        let value = |x: usize| evaluate(&polynomial, x as u64);
        let mut forged = honest.clone();
        let moved = [(last - 1, value(last - 1).add(weight(last))), (last, value(last).sub(weight(last - 1)))];
        for (x, value) in moved {
            forged.commitments[x] = secret_key(value).unwrap().sk_to_pk().compress();
        }
        let keys: Vec<_> = forged.commitments.iter().map(|bytes| min_sig::PublicKey::key_validate(bytes).unwrap()).collect();
        assert!(degree_is_below(&keys, threshold, hasher.finalize_xof()), "it would pass");
        assert!(forged.verify(target, dealer).is_none(), "the hash covers {covered} commitments");
    }
}

#[test]
fn faulty_dealers_are_left_out_or_shown_up() {
    let mut round = Round::new(&[1; 7]);
    let [wrong_degree, wrong_value, silent] = [1, 2, 3].map(ValidatorIndex);
    assert!(of_degree_t(&round, wrong_degree).verify(&round.target, wrong_degree).is_none());
    round.dealings.dealt.remove(&wrong_degree);
    for dealer in [wrong_value, silent] {
        let mut dealing = round.seeds[dealer.as_usize()].deal(&round.target, dealer);
        dealing.ciphertexts[5][31] ^= 1;
        round.publish(dealer, dealing);
        assert_eq!(round.dealings.missing(&round.target, dealer).collect::<Vec<_>>(), [ValidatorIndex(5)]);
    }
    assert!(round.open(wrong_value.0));
    let coin = round.settle().unwrap();
    assert_eq!(coin.qualified, BTreeSet::from([0, 2, 4, 5, 6].map(ValidatorIndex)));
    assert_eq!(coin.exposed, BTreeSet::new(), "four dealers have shown nothing of it");
    round.assert_works(&coin);
    // Without one more, there is no quorum of dealers.
    round.dealings.opened.remove(&wrong_value);
    assert_eq!(round.settle(), None);
}

#[test]
fn wrong_openings_are_refused() {
    let mut round = Round::new(&[1; 7]);
    let dealer = ValidatorIndex(0);
    round.silence(3);
    round.silence(6);
    assert!(round.open(0));
    let (dealt, right) = (&round.dealings.dealt[&dealer], round.dealings.opened[&dealer].clone());
    type Values = BTreeMap<u32, [u8; 32]>;
    let changed = |change: &dyn Fn(&mut Values)| {
        let mut wrong = right.clone();
        change(&mut wrong.values);
        wrong
    };
    let other =
        |x: u16| round.seeds[1].open(&round.target, ValidatorIndex(1), [ValidatorIndex(x - 1)]).unwrap().values[&u32::from(x)];
    let wrong = [
        changed(&|values| values.get_mut(&4).unwrap()[31] ^= 1),
        changed(&|values| _ = values.insert(4, other(4))),
        changed(&|values| values.clear()),
        changed(&|values| _ = values.insert(0, [1; 32])),
        changed(&|values| _ = values.insert(u32::MAX, [1; 32])),
        changed(&|values| _ = values.insert(8, [1; 32])),
        changed(&|values| _ = values.insert(4, [0xff; 32])),
        // Errors that cancel each other in a plain sum.
        changed(&|values| {
            let (one, two) = (values[&4], values[&7]);
            values.extend([(4, two), (7, one)]);
        }),
    ];
    assert!(dealt.admits(&right));
    for (at, wrong) in wrong.iter().enumerate() {
        assert!(!dealt.admits(wrong), "number {at}");
    }
    // A half of what is missing qualifies nobody.
    let half = changed(&|values| _ = values.remove(&4));
    assert!(dealt.admits(&half));
    round.dealings.opened.insert(dealer, half);
    assert!(!round.dealings.is_qualified(&round.target, dealer));
}

/// Somebody else's dealing, or one for another target, is refused by all honest members: they decrypt it under another context.
#[test]
fn copied_dealings_are_not_acknowledged() {
    let round = Round::new(&[1; 4]);
    let copied = round.seeds[0].deal(&round.target, ValidatorIndex(0));
    let next = target(3, &[1; 4], &round.seeds);
    for (target, dealer) in [(&round.target, 1), (&next, 0)] {
        let dealt = copied.clone().verify(target, ValidatorIndex(dealer)).expect("its polynomial is right");
        assert!(target.members().all(|member| !round.seeds[member.as_usize()].receives(target, member, &dealt)));
    }
    // A member reads its own values only.
    let dealt = copied.verify(&round.target, ValidatorIndex(0)).unwrap();
    let reads = |reader: usize, member: u16| round.seeds[reader].receives(&round.target, ValidatorIndex(member), &dealt);
    assert!(reads(2, 2) && !reads(2, 1) && !reads(2, 4));
}

#[test]
fn malformed_dealings_are_refused() {
    let round = Round::new(&[2, 2, 2, 1]);
    let dealer = ValidatorIndex(3);
    let right = round.seeds[3].deal(&round.target, dealer);
    let refused = |change: &dyn Fn(&mut Dealing)| {
        let mut wrong = right.clone();
        change(&mut wrong);
        wrong.verify(&round.target, dealer).is_none()
    };
    let identity = |bytes: &mut [u8]| {
        bytes.fill(0);
        bytes[0] = 0xc0;
    };
    assert!(refused(&|dealing| _ = dealing.commitments.pop()));
    assert!(refused(&|dealing| dealing.commitments.push(right.commitments[0])));
    assert!(refused(&|dealing| _ = dealing.ciphertexts.pop()));
    assert!(refused(&|dealing| dealing.ciphertexts.push([0; 32])));
    assert!(refused(&|dealing| dealing.commitments.swap(1, 2)));
    assert!(refused(&|dealing| identity(&mut dealing.commitments[0])));
    assert!(refused(&|dealing| identity(&mut dealing.ephemeral)));
    assert!(refused(&|dealing| dealing.ephemeral = [0xff; 48]));
    assert!(refused(&|dealing| dealing.commitments[7] = [0x9f; 96]));
    // All values zero, as if nobody had dealt.
    assert!(refused(&|dealing| dealing.commitments.iter_mut().for_each(|bytes| identity(bytes))));
    assert!(!refused(&|_| ()));
}

/// Each changed byte is refused by everybody, or by the member whose value it concerns.
#[test]
fn changed_bytes_are_noticed() {
    let round = Round::new(&[1; 4]);
    let dealer = ValidatorIndex(1);
    let right = wire::encode(&round.dealings.dealt[&dealer].dealing);
    let mut decoded = 0;
    for at in 0..right.len() {
        let mut wrong = right.clone();
        wrong[at] ^= 1 << (at % 8);
        let Ok(dealing) = wire::decode::<Dealing>(&wrong) else { continue };
        decoded += 1;
        let dealt = dealing.verify(&round.target, dealer);
        let is_right = |dealt: &VerifiedDealing| {
            let receives = |member: ValidatorIndex| round.seeds[member.as_usize()].receives(&round.target, member, dealt);
            round.target.members().all(receives)
        };
        assert!(!dealt.is_some_and(|dealt| is_right(&dealt)), "byte {at}");
    }
    assert!(decoded >= 5 * 96 + 48 + 4 * 32, "{decoded}");
}

/// Dealings of faulty members. They also acknowledge no honest dealing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    NoDealing,
    WrongValue,
    WrongValueOpened,
}

/// Whatever faulty members do, there is a coin, and all honest members have a share of it.
#[test]
fn faulty_members_prevent_no_coin() {
    for (count, faulty) in [(4, 1), (7, 2)] {
        let honest = Round::new(&vec![1; count]);
        for set in (0u32..1 << count).filter(|set| set.count_ones() == faulty) {
            let (faulty, honest_members): (Vec<_>, Vec<_>) = members(count).partition(|member| set >> member.0 & 1 == 1);
            for fault in [Fault::NoDealing, Fault::WrongValue, Fault::WrongValueOpened] {
                let mut round = honest.clone();
                for member in &faulty {
                    let mut wrong = round.dealings.dealt.remove(member).unwrap().dealing;
                    if fault != Fault::NoDealing {
                        wrong.ciphertexts[honest_members[0].as_usize()] = [0; 32];
                        round.publish(*member, wrong);
                    }
                }
                faulty.iter().for_each(|member| round.silence(member.0));
                for dealer in honest_members.iter() {
                    assert!(round.open(dealer.0), "only values of faulty members are missing");
                }
                for dealer in faulty.iter().filter(|_| fault == Fault::WrongValueOpened) {
                    // Among themselves they agree, so only one honest value is missing.
                    round.dealings.acknowledged.get_mut(dealer).unwrap().extend(&faulty);
                    assert!(round.open(dealer.0));
                }
                let coin = round.settle().expect("honest dealers are a quorum");
                let dealers = if fault == Fault::WrongValueOpened { count } else { honest_members.len() };
                assert_eq!(coin.qualified.len(), dealers);
                let shares = round.shares_of(&coin, honest_members.iter().copied());
                let signature = coin.keys.combine(round.target.weights.quorum(), &shares).unwrap();
                assert!(coin.keys.verify(MESSAGE, &signature), "{count}: {set:b} {fault:?}");
            }
        }
    }
}

/// A member that lists another one's key gets values under another pad, so its opening shows nothing of the other's.
#[test]
fn copied_keys_have_other_pads() {
    let seeds = [1, 2, 2, 3].map(|seed| CoinKey::from_seed([seed; 32]));
    let target = target(2, &[1; 4], &seeds);
    let dealer = ValidatorIndex(0);
    let dealing = seeds[0].deal(&target, dealer);
    let shown = seeds[0].open(&target, dealer, [ValidatorIndex(2)]).unwrap().values[&3];
    let dealt = dealing.clone().verify(&target, dealer).unwrap();
    let pad: [u8; 32] = std::array::from_fn(|byte| dealing.ciphertexts[2][byte] ^ shown[byte]);
    let guessed: [u8; 32] = std::array::from_fn(|byte| dealing.ciphertexts[1][byte] ^ pad[byte]);
    let right = seeds[1].decrypt(&target, ValidatorIndex(1), &dealt).unwrap()[0];
    assert_ne!(guessed, right.to_be_bytes());
}

/// Dealers are members of another committee: a quorum of them has votes, whatever their number.
#[test]
fn dealers_are_weighed() {
    let target = Round::new(&[1; 4]).target;
    let dealers = Weights::new([3, 1, 1, 1, 1, 1, 1, 1].map(Votes), FaultModel::Byzantine);
    let seeds: Vec<_> = (10u8..18).map(|seed| CoinKey::from_seed([seed; 32])).collect();
    let settle_with = |dealing: std::ops::Range<u16>| {
        let mut dealings = Dealings::default();
        for dealer in dealing.map(ValidatorIndex) {
            let dealt = seeds[dealer.as_usize()].deal(&target, dealer).verify(&target, dealer).unwrap();
            dealings.acknowledged.insert(dealer, target.members().collect());
            dealings.dealt.insert(dealer, dealt);
        }
        settle(&target, &dealers, &dealings)
    };
    assert_eq!(dealers.quorum(), Votes(7));
    assert!(settle_with(1..7).is_none(), "six of eight have six of ten votes");
    assert_eq!(settle_with(1..8).unwrap().qualified.len(), 7);
    assert_eq!(settle_with(0..5).unwrap().qualified.len(), 5);
}

#[test]
fn targets_need_valid_keys() {
    let (weights, key) = (Weights::one_each(2, FaultModel::Byzantine), CoinKey::from_seed([1; 32]).public());
    let new = |keys: &[&[u8]]| CoinTarget::new(7, Epoch(0), B256::ZERO, weights.clone(), keys.iter().copied());
    assert!(new(&[&key, &key]).is_some());
    assert!(new(&[&key]).is_none() && new(&[&key, &key, &key]).is_none());
    let nobody = Weights::one_each(0, FaultModel::Byzantine);
    assert!(CoinTarget::new(7, Epoch(0), B256::ZERO, nobody.clone(), []).is_none());
    let target = new(&[&key, &key]).unwrap();
    assert!(settle(&target, &nobody, &Dealings::default()).is_none(), "no dealing is no coin");
    assert!(new(&[&key, &[0xff; 48]]).is_none() && new(&[&key, &key[..47]]).is_none());
}
