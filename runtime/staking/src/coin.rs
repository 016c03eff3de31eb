//! Coins without a dealer: the sitting committee deals one to the next committee, on the chain (validators.md §4).
//!
//! A next committee needs a coin of its own, unless it has the validators, votes and coin keys of the sitting one at the same indices
//! and that one's coin is young ([`Need`]). The coin is made from three kinds of notices: dealings, acknowledgements, and openings of
//! values that were not acknowledged. The first notice of a kind counts, right or wrong, so nodes check one dealing per dealer. Then
//! the coin is settled: the next committee has one, or the sitting committee stays.
//!
//! A member finds its share in the state ([`EpochCoin::load`]), so a lost disk costs no share.

use crate::{
    Slots, Tag, ValidatorId,
    record::{CoinKeys, CoinRef, Committee, Header, PastCommittee, Phase},
};
use alloy_primitives::{B256, keccak256};
use corniche_crypto::{
    CoinKey, CoinOpening, CoinPublicKeys, CoinSecretShare, CoinTarget, Dealing, Dealings, VerifiedDealing, settle,
};
use corniche_types::{Epoch, Genesis, SignerBitmap, StakingParameters, ValidatorIndex, Votes, Weights};
use std::collections::BTreeSet;

/// Need of a chain for coins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The engine has no coin.
    Never,
    /// A coin serves an unchanged committee for some epochs ([`StakingParameters::coin_max_age`]).
    Sometimes,
    /// Like `Sometimes`, but somebody may know the coin of the genesis: the first next committee gets another one.
    SoonAfterGenesis,
}

impl Need {
    /// Returns the need of a chain.
    pub fn of(genesis: &Genesis) -> Self {
        match (genesis.engine.has_coin(), genesis.has_known_coin()) {
            (false, _) => Self::Never,
            (true, false) => Self::Sometimes,
            (true, true) => Self::SoonAfterGenesis,
        }
    }

    /// Returns whether `next`, the committee of an epoch, cannot take over the coin of the sitting one.
    pub(crate) fn requires_dealing(
        self,
        parameters: &StakingParameters,
        sitting: &Committee,
        next: &Committee,
        epoch: Epoch,
    ) -> bool {
        let age = epoch.0.saturating_sub(sitting.coin.generation.0);
        let is_unfit = !next.can_share_coin_of(sitting) || age >= parameters.coin_max_age;
        match self {
            Self::Never => false,
            Self::Sometimes => is_unfit,
            Self::SoonAfterGenesis => is_unfit || sitting.coin == CoinRef::GENESIS,
        }
    }
}

/// The coin that is dealt now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextCoin {
    coin: CoinRef,
    /// Epoch of the dealers.
    epoch: Epoch,
    phase: Phase,
}

impl NextCoin {
    /// The coin that is dealt now; `None` if none is.
    pub fn load<S: Slots>(slots: &mut S) -> Result<Option<Self>, S::Error> {
        let Header { epoch, phase, .. } = Header::load(slots)?;
        if !matches!(phase, Phase::Dealing | Phase::Acknowledging | Phase::Opening) {
            return Ok(None);
        }
        Ok(Some(Self { coin: Committee::coin_of(slots, epoch.next())?, epoch, phase }))
    }

    /// Returns the index of a validator that may still deal.
    pub fn may_deal<S: Slots>(&self, slots: &mut S, id: ValidatorId) -> Result<Option<ValidatorIndex>, S::Error> {
        let Some((dealer, _)) = Committee::find(slots, self.epoch, id)? else { return Ok(None) };
        let is_open = self.phase == Phase::Dealing && !self.coin.has(slots, Tag::Dealing, dealer)?;
        Ok(is_open.then_some(dealer))
    }

    /// Returns the index of a validator that may still acknowledge.
    pub fn may_acknowledge<S: Slots>(&self, slots: &mut S, id: ValidatorId) -> Result<Option<ValidatorIndex>, S::Error> {
        let Some((member, _)) = Committee::find(slots, self.epoch.next(), id)? else { return Ok(None) };
        let is_open = self.phase != Phase::Opening && !self.coin.has(slots, Tag::Acknowledgement, member)?;
        Ok(is_open.then_some(member))
    }

    /// Returns the index of a dealer that may still open.
    pub fn may_open<S: Slots>(&self, slots: &mut S, id: ValidatorId) -> Result<Option<ValidatorIndex>, S::Error> {
        let Some((dealer, _)) = Committee::find(slots, self.epoch, id)? else { return Ok(None) };
        let is_open = self.phase == Phase::Opening
            && self.coin.has(slots, Tag::Dealing, dealer)?
            && !self.coin.has(slots, Tag::Opening, dealer)?;
        Ok(is_open.then_some(dealer))
    }

    /// Counts the dealers from index `first` (modulo their number) up to this one that have not sent a message of this kind. `None` if the
    /// validator is no dealer.
    pub fn missing_before<S: Slots>(
        &self,
        slots: &mut S,
        tag: Tag,
        id: ValidatorId,
        first: u64,
    ) -> Result<Option<usize>, S::Error> {
        let Some((own, _)) = Committee::find(slots, self.epoch, id)? else { return Ok(None) };
        let dealers = Committee::size(slots, self.epoch)?;
        let skipped = usize::try_from(first.checked_rem(dealers as u64).unwrap_or(0)).unwrap_or(0);
        let indices = (0u16..).map(ValidatorIndex).take(dealers);
        let mut missing = 0;
        for dealer in indices.clone().chain(indices).skip(skipped).take_while(|dealer| *dealer != own) {
            missing += usize::from(!self.coin.has(slots, tag, dealer)?);
        }
        Ok(Some(missing))
    }

    /// Members that have not acknowledged a dealing, and their points.
    fn missing<S: Slots>(
        &self,
        slots: &mut S,
        dealer: ValidatorIndex,
    ) -> Result<(BTreeSet<ValidatorIndex>, Weights), S::Error> {
        let weights = Committee::weights_of(slots, self.epoch.next())?;
        let mut missing = BTreeSet::new();
        for member in weights.indices() {
            if !self.coin.acknowledged(slots, member)?.contains(&dealer) {
                missing.insert(member);
            }
        }
        Ok((missing, weights))
    }

    /// Checks and stores a dealing. Returns false if the validator may not deal now. Takes about 0.2 ms per vote.
    pub fn deal<S: Slots>(&self, slots: &mut S, chain_id: u64, id: ValidatorId, dealing: Dealing) -> Result<bool, S::Error> {
        let Some(dealer) = self.may_deal(slots, id)? else { return Ok(false) };
        let verified = self.target(slots, chain_id)?.and_then(|target| dealing.verify(&target, dealer));
        self.coin.store(slots, Tag::Dealing, dealer, verified.as_ref().map(VerifiedDealing::dealing))?;
        Ok(true)
    }

    /// Stores which dealings a member acknowledges. Dealings that are not on the chain do not count. Returns false if the
    /// validator may not acknowledge now.
    pub fn acknowledge<S: Slots>(&self, slots: &mut S, id: ValidatorId, good: &SignerBitmap) -> Result<bool, S::Error> {
        let Some(member) = self.may_acknowledge(slots, id)? else { return Ok(false) };
        let dealers = Committee::size(slots, self.epoch)?;
        let mut dealt = BTreeSet::new();
        for dealer in good.signers(dealers).unwrap_or_default() {
            if self.coin.has(slots, Tag::Dealing, dealer)? {
                dealt.insert(dealer);
            }
        }
        self.coin.store(slots, Tag::Acknowledgement, member, Some(&dealt))?;
        Ok(true)
    }

    /// Checks and stores the values that a dealer shows: exactly those of the members that have not acknowledged, with at most F votes.
    /// Returns false if the validator may not open now.
    pub fn open<S: Slots>(&self, slots: &mut S, id: ValidatorId, opening: &CoinOpening) -> Result<bool, S::Error> {
        let Some(dealer) = self.may_open(slots, id)? else { return Ok(false) };
        let (missing, weights) = self.missing(slots, dealer)?;
        let points = missing.iter().flat_map(|member| weights.points(*member));
        let is_exact = points.eq(opening.values.keys().copied());
        let is_allowed = weights.weigh(missing.iter().copied()) <= weights.max_faulty();
        let is_right = is_exact && is_allowed && self.coin.dealing(slots, dealer)?.is_some_and(|dealt| dealt.admits(opening));
        self.coin.store(slots, Tag::Opening, dealer, is_right.then_some(opening))?;
        Ok(true)
    }

    /// Stores the coin's keys. Returns `Err` if there is no coin, with the newcomers that kept it from being made (S13).
    pub fn settle<S: Slots>(&self, slots: &mut S, chain_id: u64) -> Result<Result<(), Vec<ValidatorId>>, S::Error> {
        let dealers = Committee::weights_of(slots, self.epoch)?;
        let next = Committee::load(slots, self.epoch.next())?;
        let (weights, members_hash) = (next.weights(), self.members_hash(slots, &next)?);
        let dealings = self.coin.dealings(slots, dealers.indices(), &weights)?;
        let target = self.coin.target(&next, chain_id, members_hash);
        let Some(coin) = target.and_then(|target| settle(&target, &dealers, &dealings)) else {
            return Ok(Err(self.silent_newcomers(slots, &dealers, &next, &dealings)?));
        };
        let (combined, shares) = coin.keys.to_genesis();
        let exposed = weights.weigh(coin.exposed);
        self.coin.set_keys(slots, &CoinKeys { members_hash, qualified: coin.qualified, exposed, combined, shares })?;
        Ok(Ok(()))
    }

    /// Newcomers that acknowledged fewer dealings than honest dealers made, while others acknowledged some. Empty if less than
    /// a quorum dealt: then it is not the receivers' fault. Sitting members are never among them, because less than a quorum of
    /// them may not hand over the chain.
    fn silent_newcomers<S: Slots>(
        &self,
        slots: &mut S,
        dealers: &Weights,
        next: &Committee,
        dealings: &Dealings,
    ) -> Result<Vec<ValidatorId>, S::Error> {
        let dealt = dealers.weigh(dealings.dealt.keys().copied());
        let mut silent = Vec::new();
        if dealt < dealers.quorum() || dealings.acknowledged.is_empty() {
            return Ok(silent);
        }
        for (index, member) in next.weights().indices().zip(&next.members) {
            let acknowledged = dealings.acknowledged.iter().filter(|(_, members)| members.contains(&index));
            let votes = dealers.weigh(acknowledged.map(|(dealer, _)| *dealer));
            if votes < dealers.overlap(dealt) && Committee::find(slots, self.epoch, member.id)?.is_none() {
                silent.push(member.id);
            }
        }
        Ok(silent)
    }

    /// Makes the dealing of a validator; `None` if it may not deal now, or if a coin key of the next committee is no key.
    pub fn make_dealing<S: Slots>(
        &self,
        slots: &mut S,
        chain_id: u64,
        id: ValidatorId,
        key: &CoinKey,
    ) -> Result<Option<Dealing>, S::Error> {
        let Some(dealer) = self.may_deal(slots, id)? else { return Ok(None) };
        Ok(self.target(slots, chain_id)?.map(|target| key.deal(&target, dealer)))
    }

    /// Dealings that a validator with this key can acknowledge; `None` if it may not, or while some are still to come.
    pub fn make_acknowledgement<S: Slots>(
        &self,
        slots: &mut S,
        chain_id: u64,
        id: ValidatorId,
        key: &CoinKey,
    ) -> Result<Option<SignerBitmap>, S::Error> {
        let Some(member) = self.may_acknowledge(slots, id)? else { return Ok(None) };
        let dealers = Committee::weights_of(slots, self.epoch)?;
        for dealer in dealers.indices() {
            if self.phase == Phase::Dealing && !self.coin.has(slots, Tag::Dealing, dealer)? {
                return Ok(None);
            }
        }
        let Some(target) = self.target(slots, chain_id)? else { return Ok(None) };
        let mut good = BTreeSet::new();
        for dealer in dealers.indices() {
            if self.coin.dealing(slots, dealer)?.is_some_and(|dealt| key.receives(&target, member, &dealt)) {
                good.insert(dealer);
            }
        }
        Ok(Some(SignerBitmap::from_signers(good, dealers.members())))
    }

    /// Makes the opening of a validator; `None` if it need not, or may not, open now.
    pub fn make_opening<S: Slots>(
        &self,
        slots: &mut S,
        chain_id: u64,
        id: ValidatorId,
        key: &CoinKey,
    ) -> Result<Option<CoinOpening>, S::Error> {
        let Some(dealer) = self.may_open(slots, id)? else { return Ok(None) };
        let (missing, _) = self.missing(slots, dealer)?;
        let target = if missing.is_empty() { None } else { self.target(slots, chain_id)? };
        Ok(target.and_then(|target| key.open(&target, dealer, missing)))
    }

    fn target<S: Slots>(&self, slots: &mut S, chain_id: u64) -> Result<Option<CoinTarget>, S::Error> {
        let next = Committee::load(slots, self.epoch.next())?;
        let members_hash = self.members_hash(slots, &next)?;
        Ok(self.coin.target(&next, chain_id, members_hash))
    }

    /// Hash of the dealers and the members, to which dealings are bound. The hash of the dealers covers the genesis: a chain that begins
    /// again gets other polynomials.
    fn members_hash<S: Slots>(&self, slots: &mut S, next: &Committee) -> Result<B256, S::Error> {
        let dealers = PastCommittee::load(slots, self.epoch)?.map(|committee| committee.hash).unwrap_or_default();
        Ok(keccak256([dealers, next.members_hash()].concat()))
    }
}

/// How far the committee is with the coin that is dealt now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DealingProgress {
    /// Right dealings.
    pub dealings: usize,
    /// Most votes of members that have not acknowledged one of these dealings.
    pub unacknowledged: Votes,
    /// F of the members: a dealing with more votes that are not acknowledged does not count.
    pub max_unacknowledged: Votes,
}

impl DealingProgress {
    /// Reads it; `None` if no coin is dealt.
    pub fn load<S: Slots>(slots: &mut S) -> Result<Option<Self>, S::Error> {
        let Some(next) = NextCoin::load(slots)? else { return Ok(None) };
        let weights = Committee::weights_of(slots, next.epoch.next())?;
        let dealers = Committee::weights_of(slots, next.epoch)?;
        let dealings = next.coin.dealings(slots, dealers.indices(), &weights)?;
        let unacknowledged = |dealer| {
            let acknowledged = dealings.acknowledged.get(dealer).into_iter().flatten().copied();
            weights.total() - weights.weigh(acknowledged)
        };
        Ok(Some(Self {
            dealings: dealings.dealt.len(),
            unacknowledged: dealings.dealt.keys().map(unacknowledged).max().unwrap_or_default(),
            max_unacknowledged: weights.max_faulty(),
        }))
    }
}

/// Coin of an epoch that members dealt, with all that a member needs for its share.
pub struct EpochCoin {
    keys: CoinPublicKeys,
    target: CoinTarget,
    qualified: BTreeSet<ValidatorIndex>,
    dealings: Dealings,
}

/// Nothing else is settled.
const SETTLED: &str = "invariant: a settled coin has valid keys";

impl EpochCoin {
    /// Reads the coin of the running epoch, or of the one before until the freeze. `None` for the coin of the genesis.
    ///
    /// # Panics
    /// If the slots are not those of a chain that reached this epoch.
    pub fn load<S: Slots>(slots: &mut S, chain_id: u64, epoch: Epoch) -> Result<Option<Self>, S::Error> {
        let coin = Committee::coin_of(slots, epoch)?;
        if coin == CoinRef::GENESIS {
            return Ok(None);
        }
        let settled = coin.keys(slots)?;
        let CoinKeys { members_hash, qualified, combined, shares, .. } =
            settled.expect("invariant: a committee sits with its coin");
        let committee = Committee::load(slots, epoch)?;
        let dealings = coin.dealings(slots, qualified.iter().copied(), &committee.weights())?;
        let keys = CoinPublicKeys::from_dealt(&combined, &shares, committee.weights()).expect(SETTLED);
        let target = coin.target(&committee, chain_id, members_hash).expect(SETTLED);
        Ok(Some(Self { keys, target, qualified, dealings }))
    }

    /// Returns the public keys.
    pub fn keys(&self) -> &CoinPublicKeys {
        &self.keys
    }

    /// Returns the share of a member with this key; `None` if it has none ([`CoinKey::share`]).
    pub fn share(&self, member: ValidatorIndex, key: &CoinKey) -> Option<CoinSecretShare> {
        key.share(&self.target, member, &self.keys, &self.qualified, &self.dealings)
    }
}

impl CoinRef {
    /// Members that get the coin. `None` if one of their coin keys is invalid.
    fn target(self, members: &Committee, chain_id: u64, members_hash: B256) -> Option<CoinTarget> {
        let keys = members.members.iter().map(|member| member.keys.coin.as_slice());
        CoinTarget::new(chain_id, self.generation, members_hash, members.weights(), keys)
    }

    fn dealing<S: Slots>(self, slots: &mut S, dealer: ValidatorIndex) -> Result<Option<VerifiedDealing>, S::Error> {
        let dealing = self.load(slots, Tag::Dealing, dealer)?;
        Ok(dealing.map(|dealing| VerifiedDealing::from_storage(dealer, dealing)))
    }

    /// Dealers whose dealings a member acknowledged.
    fn acknowledged<S: Slots>(self, slots: &mut S, member: ValidatorIndex) -> Result<BTreeSet<ValidatorIndex>, S::Error> {
        Ok(self.load(slots, Tag::Acknowledgement, member)?.unwrap_or_default())
    }

    /// All messages about the dealings of these dealers.
    fn dealings<S: Slots>(
        self,
        slots: &mut S,
        dealers: impl IntoIterator<Item = ValidatorIndex>,
        members: &Weights,
    ) -> Result<Dealings, S::Error> {
        let mut dealings = Dealings::default();
        for dealer in dealers {
            let Some(dealing) = self.dealing(slots, dealer)? else { continue };
            dealings.dealt.insert(dealer, dealing);
            if let Some(opening) = self.load(slots, Tag::Opening, dealer)? {
                dealings.opened.insert(dealer, opening);
            }
        }
        for member in members.indices() {
            let acknowledged = self.acknowledged(slots, member)?;
            for dealer in acknowledged.into_iter().filter(|dealer| dealings.dealt.contains_key(dealer)) {
                dealings.acknowledged.entry(dealer).or_default().insert(member);
            }
        }
        Ok(dealings)
    }
}
