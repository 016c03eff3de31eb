//! Coins without a dealer: the sitting committee deals one to the next committee, on the chain (validators.md §4).
//!
//! A next committee needs a coin unless it is the sitting one, at the same indices with the same votes and coin keys, and its coin
//! is young ([`Need`]). Three kinds of notices make it, one after the other: dealings, acknowledgements, and openings of what was
//! not acknowledged. Of each validator the first one of a kind counts, and a wrong one cannot be replaced: so each validator makes
//! the others check one of its dealings. Then the coin is settled: it has a key, or the sitting committee stays.
//!
//! A member finds its share in the state ([`EpochCoin::load`]), so a lost disk costs no share.

use crate::{
    Slots, Tag, ValidatorId,
    record::{CoinKeys, CoinRef, Committee, Header, Phase},
};
use alloy_primitives::B256;
use corniche_crypto::{
    CoinKey, CoinOpening, CoinPublicKeys, CoinSecretShare, CoinTarget, Dealing, Dealings, VerifiedDealing, settle,
};
use corniche_types::{Epoch, Genesis, SignerBitmap, StakingParameters, ValidatorIndex};
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

    /// Returns whether `next`, the committee of an epoch, needs another coin than that of the sitting one.
    pub(crate) fn is_dealt(self, parameters: &StakingParameters, sitting: &Committee, next: &Committee, epoch: Epoch) -> bool {
        let age = epoch.0.saturating_sub(sitting.coin.generation.0);
        match self {
            Self::Never => false,
            _ if !next.can_share_coin_of(sitting) || age >= parameters.coin_max_age => true,
            Self::Sometimes => false,
            Self::SoonAfterGenesis => sitting.coin == CoinRef::GENESIS,
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

    /// Returns the dealer with this number that may still deal.
    pub fn may_deal<S: Slots>(&self, slots: &mut S, id: ValidatorId) -> Result<Option<ValidatorIndex>, S::Error> {
        let Some((dealer, _)) = Committee::find(slots, self.epoch, id)? else { return Ok(None) };
        let is_open = self.phase == Phase::Dealing && !self.coin.has(slots, Tag::Dealing, dealer)?;
        Ok(is_open.then_some(dealer))
    }

    /// Returns the member with this number that may still acknowledge.
    pub fn may_acknowledge<S: Slots>(&self, slots: &mut S, id: ValidatorId) -> Result<Option<ValidatorIndex>, S::Error> {
        let Some((member, _)) = Committee::find(slots, self.epoch.next(), id)? else { return Ok(None) };
        let is_open = self.phase != Phase::Opening && !self.coin.has(slots, Tag::Acknowledgement, member)?;
        Ok(is_open.then_some(member))
    }

    /// Returns the dealer with this number that may still open, and must, because members with at most F votes have not acknowledged
    /// its dealing. With them.
    pub fn may_open<S: Slots>(
        &self,
        slots: &mut S,
        id: ValidatorId,
    ) -> Result<Option<(ValidatorIndex, BTreeSet<ValidatorIndex>)>, S::Error> {
        let Some((dealer, _)) = Committee::find(slots, self.epoch, id)? else { return Ok(None) };
        if self.phase != Phase::Opening || self.coin.has(slots, Tag::Opening, dealer)? {
            return Ok(None);
        }
        let weights = Committee::load(slots, self.epoch.next())?.weights();
        let mut missing = BTreeSet::new();
        for member in weights.indices() {
            if !self.acknowledged(slots, member)?.contains(&dealer) {
                missing.insert(member);
            }
        }
        let is_due = !missing.is_empty() && weights.weigh(missing.iter().copied()) <= weights.max_faulty();
        Ok((is_due && self.dealing(slots, dealer)?.is_some()).then_some((dealer, missing)))
    }

    /// Checks and stores a dealing. Takes about 0.2 ms per vote.
    pub fn deal<S: Slots>(
        &self,
        slots: &mut S,
        chain_id: u64,
        dealer: ValidatorIndex,
        dealing: Dealing,
    ) -> Result<(), S::Error> {
        let target = self.target(slots, chain_id)?;
        let verified = target.and_then(|target| dealing.verify(&target, dealer));
        self.coin.store(slots, Tag::Dealing, dealer, verified.as_ref().map(VerifiedDealing::dealing))
    }

    /// Stores which dealings a member acknowledges. Others than those on the chain do not count.
    pub fn acknowledge<S: Slots>(&self, slots: &mut S, member: ValidatorIndex, good: &SignerBitmap) -> Result<(), S::Error> {
        let dealers = Committee::load(slots, self.epoch)?.members.len();
        let mut dealt = good.signers(dealers);
        for dealer in dealt.iter().flatten() {
            if !self.coin.has(slots, Tag::Dealing, *dealer)? {
                dealt = None;
                break;
            }
        }
        self.coin.store(slots, Tag::Acknowledgement, member, dealt.map(BTreeSet::from_iter).as_ref())
    }

    /// Checks and stores the values that a dealer shows: all those of the members that have not acknowledged, and no others.
    pub fn open<S: Slots>(
        &self,
        slots: &mut S,
        dealer: ValidatorIndex,
        missing: &BTreeSet<ValidatorIndex>,
        opening: &CoinOpening,
    ) -> Result<(), S::Error> {
        let weights = Committee::load(slots, self.epoch.next())?.weights();
        let points = missing.iter().flat_map(|member| weights.points(*member));
        let is_exact = points.eq(opening.values.keys().copied());
        let dealt = self.dealing(slots, dealer)?;
        let is_right = is_exact && dealt.is_some_and(|dealt| dealt.admits(opening));
        self.coin.store(slots, Tag::Opening, dealer, is_right.then_some(opening))
    }

    /// Settles the coin. Returns `Err` with the members that acknowledged nothing if it has no key.
    pub fn settle<S: Slots>(&self, slots: &mut S, chain_id: u64) -> Result<Result<(), Vec<ValidatorId>>, S::Error> {
        let dealers = Committee::load(slots, self.epoch)?.weights();
        let next = Committee::load(slots, self.epoch.next())?;
        let dealings = self.coin.dealings(slots, dealers.indices(), &next)?;
        let target = self.coin.target(&next, chain_id, next.members_hash());
        let coin = target.and_then(|target| settle(&target, &dealers, &dealings));
        let Some(coin) = coin else {
            let has_acknowledged = |member| dealings.acknowledged.values().any(|members| members.contains(&member));
            let silent = next.weights().indices().zip(&next.members).filter(|(member, _)| !has_acknowledged(*member));
            return Ok(Err(silent.map(|(_, member)| member.id).collect()));
        };
        let (combined, shares) = coin.keys.to_genesis();
        let exposed = next.weights().weigh(coin.exposed);
        let keys = CoinKeys { members_hash: next.members_hash(), qualified: coin.qualified, exposed, combined, shares };
        self.coin.set_keys(slots, &keys)?;
        Ok(Ok(()))
    }

    /// Makes the dealing of this dealer; `None` if a coin key of the next committee is no key.
    pub fn make_dealing<S: Slots>(
        &self,
        slots: &mut S,
        chain_id: u64,
        dealer: ValidatorIndex,
        key: &CoinKey,
    ) -> Result<Option<Dealing>, S::Error> {
        Ok(self.target(slots, chain_id)?.map(|target| key.deal(&target, dealer)))
    }

    /// Dealings that a member with this key can acknowledge; `None` while some are still to come.
    pub fn make_acknowledgement<S: Slots>(
        &self,
        slots: &mut S,
        chain_id: u64,
        member: ValidatorIndex,
        key: &CoinKey,
    ) -> Result<Option<SignerBitmap>, S::Error> {
        let dealers = Committee::load(slots, self.epoch)?.weights();
        for dealer in dealers.indices() {
            if self.phase == Phase::Dealing && !self.coin.has(slots, Tag::Dealing, dealer)? {
                return Ok(None);
            }
        }
        let Some(target) = self.target(slots, chain_id)? else { return Ok(None) };
        let mut good = BTreeSet::new();
        for dealer in dealers.indices() {
            if self.dealing(slots, dealer)?.is_some_and(|dealt| key.receives(&target, member, &dealt)) {
                good.insert(dealer);
            }
        }
        Ok(Some(SignerBitmap::from_signers(good, dealers.members())))
    }

    /// Shows the values of these members.
    pub fn make_opening<S: Slots>(
        &self,
        slots: &mut S,
        chain_id: u64,
        dealer: ValidatorIndex,
        missing: &BTreeSet<ValidatorIndex>,
        key: &CoinKey,
    ) -> Result<Option<CoinOpening>, S::Error> {
        let target = self.target(slots, chain_id)?;
        Ok(target.and_then(|target| key.open(&target, dealer, missing.iter().copied())))
    }

    fn target<S: Slots>(&self, slots: &mut S, chain_id: u64) -> Result<Option<CoinTarget>, S::Error> {
        let next = Committee::load(slots, self.epoch.next())?;
        Ok(self.coin.target(&next, chain_id, next.members_hash()))
    }

    fn acknowledged<S: Slots>(&self, slots: &mut S, member: ValidatorIndex) -> Result<BTreeSet<ValidatorIndex>, S::Error> {
        self.coin.acknowledged(slots, member)
    }

    fn dealing<S: Slots>(&self, slots: &mut S, dealer: ValidatorIndex) -> Result<Option<VerifiedDealing>, S::Error> {
        self.coin.dealing(slots, dealer)
    }
}

/// Coin of an epoch that members dealt, with all that a member needs for its share.
pub struct EpochCoin {
    keys: CoinPublicKeys,
    target: CoinTarget,
    qualified: BTreeSet<ValidatorIndex>,
    dealings: Dealings,
}

impl EpochCoin {
    /// Reads the coin of the running epoch, or of the one before until the freeze. `None` for the coin of the genesis.
    pub fn load<S: Slots>(slots: &mut S, chain_id: u64, epoch: Epoch) -> Result<Option<Self>, S::Error> {
        let committee = Committee::load(slots, epoch)?;
        let coin = committee.coin;
        let Some(keys) = coin.keys(slots)? else { return Ok(None) };
        let (public, CoinKeys { members_hash, qualified, .. }) = (keys.public(committee.weights()), keys);
        let dealings = coin.dealings(slots, qualified.iter().copied(), &committee)?;
        let target = coin.target(&committee, chain_id, members_hash);
        Ok(public.zip(target).map(|(keys, target)| Self { keys, target, qualified, dealings }))
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
        members: &Committee,
    ) -> Result<Dealings, S::Error> {
        let mut dealings = Dealings::default();
        for dealer in dealers {
            let Some(dealing) = self.dealing(slots, dealer)? else { continue };
            dealings.dealt.insert(dealer, dealing);
            if let Some(opening) = self.load(slots, Tag::Opening, dealer)? {
                dealings.opened.insert(dealer, opening);
            }
        }
        for member in members.weights().indices() {
            let acknowledged = self.acknowledged(slots, member)?;
            for dealer in acknowledged.into_iter().filter(|dealer| dealings.dealt.contains_key(dealer)) {
                dealings.acknowledged.entry(dealer).or_default().insert(member);
            }
        }
        Ok(dealings)
    }
}
