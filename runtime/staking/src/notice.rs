//! Notices: messages of validators to the contract, in batches (validators.md §2.7).
//!
//! A notice is an entry of a batch. It begins with a byte with which no transaction begins. It costs no fee and has no
//! receipt. Its effect depends on the state alone, so all validators agree on it (N3): a notice that is late, repeated or badly
//! signed has none. Its proposer need not be its author.

use crate::{
    Slots, Tag, ValidatorId,
    calendar::{self, Announcement},
    coin::NextCoin,
    evidence,
    record::{Attendance, Committee, Header, KeyOwner, PastCommittee, Phase, Validator},
};
use alloy_primitives::{B256, Bytes, U256, keccak256};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_crypto::{
    CoinKey, CoinOpening, ConsensusKey, ConsensusPublicKey, Dealing, Domain, Signed, Verified, evidence::Evidence,
};
use corniche_types::{Epoch, Height, SignerBitmap, StakingParameters, TimestampMs, evidence::tags};
use std::{fmt::Debug, sync::Arc};

/// First byte of a notice in a batch (N1).
const MARKER: u8 = 0x7e;

/// Maximum number of notices of one batch in a block: the largest limit of a kind.
pub const MAX_BATCH_NOTICES: usize = NoticeKind::Announce.max_per_block();

/// More than a dealing for the largest committee.
const MAX_NOTICE_BYTES: usize = 66_560;

/// A notice whose signature is not verified.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Notice {
    chain_id: u64,
    epoch: Epoch,
    signed: Signed<Statement>,
}

/// Payload that the author signs with its consensus key, for the running epoch and its committee.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Statement {
    /// Validator that makes the statement.
    pub author: ValidatorId,
    /// Content of the statement.
    pub body: NoticeBody,
}

/// Content of a notice. Those about a coin are for the one that is dealt in the epoch.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum NoticeBody {
    /// The author is ready for the next epoch (S12).
    Announce {
        /// Highest protocol version that its node knows.
        version: u32,
    },
    /// A member of the sitting committee deals a coin (§4.2).
    Deal(Dealing),
    /// A member of the next committee could read its values of these dealings (§4.3).
    Acknowledge(
        /// One bit for each member of the sitting committee.
        SignerBitmap,
    ),
    /// A dealer shows the values of members that have not acknowledged its dealing (§4.3).
    Open(CoinOpening),
    /// Evidence against any validator (O4).
    Evidence(Box<Evidence>),
}

/// Kind of a [`NoticeBody`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeKind {
    /// [`NoticeBody::Announce`]
    Announce,
    /// [`NoticeBody::Deal`]
    Deal,
    /// [`NoticeBody::Acknowledge`]
    Acknowledge,
    /// [`NoticeBody::Open`]
    Open,
    /// [`NoticeBody::Evidence`]
    Evidence,
}

impl NoticeKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Announce, Self::Deal, Self::Acknowledge, Self::Open, Self::Evidence];

    /// Name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Announce => "announce",
            Self::Deal => "deal",
            Self::Acknowledge => "acknowledge",
            Self::Open => "open",
            Self::Evidence => "evidence",
        }
    }

    /// Those that a validator makes from its keys and the state alone.
    const OWED: [Self; 4] = [Self::Announce, Self::Deal, Self::Acknowledge, Self::Open];

    /// Maximum number of notices of this kind that take effect in a block (N2).
    pub const fn max_per_block(self) -> usize {
        match self {
            Self::Announce => 128,
            // Checking one takes about 0.2 ms per vote.
            Self::Deal => 2,
            Self::Acknowledge => 64,
            Self::Open => 8,
            Self::Evidence => 4,
        }
    }
}

/// A notice that had an effect on the state with which it was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedNotice {
    chain_id: u64,
    epoch: Epoch,
    /// Its author may replace the key later.
    key: B256,
    signed: Verified<Statement>,
}

/// A validator that makes notices.
#[derive(Clone, Debug)]
pub struct NoticeAuthor {
    /// Its keys: more than one while it replaces them.
    pub keys: Vec<AuthorKeys>,
    /// The chain.
    pub chain_id: u64,
    /// Highest protocol version that the node knows.
    pub version: u32,
}

/// Keys that make notices.
#[derive(Clone, Debug)]
pub struct AuthorKeys {
    /// Signs them.
    pub signer: Arc<dyn NoticeSigner>,
    /// Deals coins, and decrypts the values of others' dealings. A validator without it does not take part in that.
    pub coin: Option<CoinKey>,
}

/// Signs notices, in this process or in another.
pub trait NoticeSigner: Debug + Send + Sync {
    /// Returns the public consensus key.
    fn public(&self) -> B256;
    /// Signs a statement under a domain, as [`Signed::sign`] does. `None` if the signer does not answer.
    fn sign(&self, statement: &Statement, domain: &Domain) -> Option<[u8; 64]>;
}

impl NoticeSigner for ConsensusKey {
    fn public(&self) -> B256 {
        Self::public(self)
    }

    fn sign(&self, statement: &Statement, domain: &Domain) -> Option<[u8; 64]> {
        Some(Self::sign(self, statement, domain))
    }
}

impl AuthorKeys {
    /// Keys in this process.
    pub fn new(consensus: ConsensusKey, coin: Option<CoinKey>) -> Self {
        Self { signer: Arc::new(consensus), coin }
    }
}

impl Notice {
    /// Decodes an entry of a batch; `None` if it is no notice. A notice has one encoding.
    pub fn decode(entry: &[u8]) -> Option<Self> {
        let (marker, rest) = entry.split_first().filter(|_| entry.len() <= MAX_NOTICE_BYTES)?;
        let notice: Self = (*marker == MARKER).then(|| borsh::from_slice(rest).ok()).flatten()?;
        (borsh::to_vec(&notice).ok()? == rest).then_some(notice)
    }

    /// Verifies a notice for the running epoch: what the contract lacks, signed with the author's key. `None` if it would have no
    /// effect.
    pub fn verify<S: Slots>(
        self,
        slots: &mut S,
        parameters: &StakingParameters,
        chain_id: u64,
    ) -> Result<Option<VerifiedNotice>, S::Error> {
        let Statement { author, ref body } = self.signed.payload;
        if !self.is_missing(slots, parameters, chain_id)? {
            return Ok(None);
        }
        let Some(committee) = PastCommittee::load(slots, self.epoch)? else { return Ok(None) };
        let key = signing_key(slots, self.epoch, author, body.kind())?;
        let Some((key, parsed)) = key.and_then(|key| Some((key, ConsensusPublicKey::parse(&key)?))) else { return Ok(None) };
        let Ok(signed) = self.signed.verify(&parsed, &domain(chain_id, &committee)) else { return Ok(None) };
        // Last, because it takes longest.
        if let NoticeBody::Evidence(evidence) = &signed.signed().payload.body
            && !evidence::convicts(slots, parameters, chain_id, evidence)?
        {
            return Ok(None);
        }
        Ok(Some(VerifiedNotice { chain_id, epoch: self.epoch, key, signed }))
    }

    /// Returns whether a notice is for this chain and this epoch.
    pub fn is_for(&self, chain_id: u64, epoch: Epoch) -> bool {
        (self.chain_id, self.epoch) == (chain_id, epoch)
    }

    /// Returns the kind.
    pub fn kind(&self) -> NoticeKind {
        self.signed.payload.body.kind()
    }

    /// Returns whether the author may have replaced the key with which it signed this notice in the running epoch. Then its proposer could
    /// not know that the signature would not match.
    pub fn may_be_outdated<S: Slots>(&self, slots: &mut S) -> Result<bool, S::Error> {
        if !matches!(self.kind(), NoticeKind::Announce | NoticeKind::Evidence) {
            return Ok(false);
        }
        let status = Validator::new(self.signed.payload.author).status(slots)?;
        let epoch = Header::load(slots)?.epoch;
        Ok(status.is_some_and(|status| status.rotated_in == Some(epoch)))
    }

    /// Returns whether the contract lacks what the author states, and may still take it. Does not check the signature.
    pub fn is_missing<S: Slots>(&self, slots: &mut S, parameters: &StakingParameters, chain_id: u64) -> Result<bool, S::Error> {
        Ok(self.chain_id == chain_id && is_missing(slots, parameters, chain_id, self.epoch, &self.signed.payload)?)
    }
}

impl NoticeBody {
    fn kind(&self) -> NoticeKind {
        match self {
            Self::Announce { .. } => NoticeKind::Announce,
            Self::Deal(_) => NoticeKind::Deal,
            Self::Acknowledge(_) => NoticeKind::Acknowledge,
            Self::Open(_) => NoticeKind::Open,
            Self::Evidence(_) => NoticeKind::Evidence,
        }
    }
}

impl NoticeAuthor {
    /// Returns the kinds of notices that this validator owes at a time of its own clock.
    pub fn owed<S: Slots>(
        &self,
        slots: &mut S,
        parameters: &StakingParameters,
        now: TimestampMs,
    ) -> Result<Vec<NoticeKind>, S::Error> {
        let Some(id) = self.id(slots)? else { return Ok(Vec::new()) };
        let Header { epoch, start, .. } = Header::load(slots)?;
        let may_announce = calendar::announcement_time(start, parameters).is_some_and(|from| now >= from);
        let mut owed = Vec::new();
        for kind in NoticeKind::OWED {
            let is_able = |keys: &AuthorKeys| if kind == NoticeKind::Announce { may_announce } else { keys.coin.is_some() };
            if self.keys_for(slots, epoch, id, kind)?.is_some_and(is_able) && is_owed(slots, epoch, id, kind)? {
                owed.push(kind);
            }
        }
        Ok(owed)
    }

    /// Returns whether this validator should propose its dealing or opening now. A block takes few of them, so the turn moves over the
    /// dealers whose notice is missing: twice as many as a block takes have it at once.
    pub fn has_turn<S: Slots>(&self, slots: &mut S, kind: NoticeKind, height: Height) -> Result<bool, S::Error> {
        let tag = match kind {
            NoticeKind::Deal => Tag::Dealing,
            NoticeKind::Open => Tag::Opening,
            _ => return Ok(false),
        };
        let Some((id, coin)) = self.id(slots)?.zip(NextCoin::load(slots)?) else { return Ok(false) };
        let before = coin.missing_before(slots, tag, id, height.0.wrapping_mul(kind.max_per_block() as u64))?;
        Ok(before.is_some_and(|before| before < 2 * kind.max_per_block()))
    }

    /// Makes a notice of a kind that this validator owes; `None` while it has nothing to state.
    pub fn make<S: Slots>(&self, slots: &mut S, kind: NoticeKind) -> Result<Option<VerifiedNotice>, S::Error> {
        let Some(author) = self.id(slots)? else { return Ok(None) };
        let (chain_id, epoch) = (self.chain_id, Header::load(slots)?.epoch);
        let Some(keys) = self.keys_for(slots, epoch, author, kind)? else { return Ok(None) };
        let body = match (kind, NextCoin::load(slots)?.zip(keys.coin.as_ref())) {
            (NoticeKind::Announce, _) => Some(NoticeBody::Announce { version: self.version }),
            (NoticeKind::Evidence, _) | (_, None) => None,
            (NoticeKind::Deal, Some((coin, key))) => coin.make_dealing(slots, chain_id, author, key)?.map(NoticeBody::Deal),
            (NoticeKind::Acknowledge, Some((coin, key))) => {
                coin.make_acknowledgement(slots, chain_id, author, key)?.map(NoticeBody::Acknowledge)
            }
            (NoticeKind::Open, Some((coin, key))) => coin.make_opening(slots, chain_id, author, key)?.map(NoticeBody::Open),
        };
        body.map_or(Ok(None), |body| self.sign(slots, author, keys, body))
    }

    /// Makes a notice with evidence; `None` if the validator is not registered with this key, or if the evidence convicts nobody.
    pub fn report<S: Slots>(
        &self,
        slots: &mut S,
        parameters: &StakingParameters,
        evidence: &Evidence,
    ) -> Result<Option<VerifiedNotice>, S::Error> {
        let Some(author) = self.id(slots)? else { return Ok(None) };
        let epoch = Header::load(slots)?.epoch;
        let Some(keys) = self.keys_for(slots, epoch, author, NoticeKind::Evidence)? else { return Ok(None) };
        if !evidence::convicts(slots, parameters, self.chain_id, evidence)? {
            return Ok(None);
        }
        self.sign(slots, author, keys, NoticeBody::Evidence(Box::new(evidence.clone())))
    }

    /// Returns the coin key beside a consensus key.
    pub fn coin_key(&self, consensus: &B256) -> Option<&CoinKey> {
        self.keys.iter().find(|keys| keys.signer.public() == *consensus)?.coin.as_ref()
    }

    fn sign<S: Slots>(
        &self,
        slots: &mut S,
        author: ValidatorId,
        keys: &AuthorKeys,
        body: NoticeBody,
    ) -> Result<Option<VerifiedNotice>, S::Error> {
        let (epoch, chain_id) = (Header::load(slots)?.epoch, self.chain_id);
        let Some(committee) = PastCommittee::load(slots, epoch)? else { return Ok(None) };
        let (payload, domain, key) = (Statement { author, body }, domain(chain_id, &committee), keys.signer.public());
        let signature = keys.signer.sign(&payload, &domain);
        let signed = signature.zip(ConsensusPublicKey::parse(&key)).and_then(|(signature, parsed)| {
            // Another process may have signed.
            Signed { payload, signature }.verify(&parsed, &domain).ok()
        });
        Ok(signed.map(|signed| VerifiedNotice { chain_id, epoch, key, signed }))
    }

    /// Keys with which a notice of a kind is signed now, if this validator has them.
    fn keys_for<S: Slots>(
        &self,
        slots: &mut S,
        epoch: Epoch,
        author: ValidatorId,
        kind: NoticeKind,
    ) -> Result<Option<&AuthorKeys>, S::Error> {
        let key = signing_key(slots, epoch, author, kind)?;
        Ok(self.keys.iter().find(|keys| Some(keys.signer.public()) == key))
    }

    /// Number under which the keys were registered. They may be replaced since.
    fn id<S: Slots>(&self, slots: &mut S) -> Result<Option<ValidatorId>, S::Error> {
        for keys in &self.keys {
            if let Some(owner) = KeyOwner::load(slots, keccak256(keys.signer.public()))? {
                return Ok(Some(owner.id));
            }
        }
        Ok(None)
    }
}

impl VerifiedNotice {
    /// Applies a notice at the end of a block with this time. Returns the amount in wei that leaves the contract's balance; `None` if the
    /// notice has no effect. A wrong message about a coin takes effect, too: its author may not send another one.
    pub fn apply<S: Slots>(
        &self,
        slots: &mut S,
        parameters: &StakingParameters,
        now: TimestampMs,
    ) -> Result<Option<U256>, S::Error> {
        let (chain_id, Statement { author, body }) = (self.chain_id, self.statement());
        let is_applied = match (body, NextCoin::load(slots)?) {
            (NoticeBody::Announce { version }, _) => {
                calendar::announce(slots, parameters, *author, *version, now)? == Announcement::Taken
            }
            (NoticeBody::Evidence(evidence), _) => {
                let convicted = evidence::convict(slots, parameters, chain_id, evidence)?;
                return Ok(convicted.ok().map(|conviction| conviction.burnt));
            }
            (_, None) => false,
            (NoticeBody::Deal(dealing), Some(coin)) => coin.deal(slots, chain_id, *author, dealing.clone())?,
            (NoticeBody::Acknowledge(good), Some(coin)) => coin.acknowledge(slots, *author, good)?,
            (NoticeBody::Open(opening), Some(coin)) => coin.open(slots, *author, opening)?,
        };
        Ok(is_applied.then_some(U256::ZERO))
    }

    /// Returns the entry for a batch.
    pub fn encode(&self) -> Bytes {
        let notice = Notice { chain_id: self.chain_id, epoch: self.epoch, signed: self.signed.signed().clone() };
        let mut entry = vec![MARKER];
        notice.serialize(&mut entry).expect("a vector accepts all bytes");
        entry.into()
    }

    /// Returns what the author stated.
    pub fn statement(&self) -> &Statement {
        &self.signed.signed().payload
    }

    /// Returns the kind.
    pub fn kind(&self) -> NoticeKind {
        self.statement().body.kind()
    }

    /// Returns whether a later state still lacks what the author stated, and would take the notice.
    pub fn is_missing<S: Slots>(&self, slots: &mut S, parameters: &StakingParameters) -> Result<bool, S::Error> {
        let has_key = signing_key(slots, self.epoch, self.statement().author, self.kind())? == Some(self.key);
        Ok(has_key && is_missing(slots, parameters, self.chain_id, self.epoch, self.statement())?)
    }
}

/// Returns whether the contract lacks a statement, and may still take it.
fn is_missing<S: Slots>(
    slots: &mut S,
    parameters: &StakingParameters,
    chain_id: u64,
    epoch: Epoch,
    statement: &Statement,
) -> Result<bool, S::Error> {
    let Statement { author, body } = statement;
    match body {
        NoticeBody::Evidence(evidence) => {
            let may_report = Header::load(slots)?.epoch == epoch && Validator::new(*author).status(slots)?.is_some();
            Ok(may_report && evidence::is_open(slots, parameters, chain_id, evidence)?)
        }
        body => is_owed(slots, epoch, *author, body.kind()),
    }
}

/// Returns whether the contract lacks a validator's notice of this kind.
fn is_owed<S: Slots>(slots: &mut S, epoch: Epoch, author: ValidatorId, kind: NoticeKind) -> Result<bool, S::Error> {
    let header = Header::load(slots)?;
    if header.epoch != epoch {
        return Ok(false);
    }
    Ok(match (kind, NextCoin::load(slots)?) {
        (NoticeKind::Announce, _) => {
            let may_announce = header.phase == Phase::Open && Validator::new(author).status(slots)?.is_some();
            may_announce && Attendance::load(slots, author)?.announced_in != Some(epoch)
        }
        (NoticeKind::Evidence, _) | (_, None) => false,
        (NoticeKind::Deal, Some(coin)) => coin.may_deal(slots, author)?.is_some(),
        (NoticeKind::Acknowledge, Some(coin)) => coin.may_acknowledge(slots, author)?.is_some(),
        (NoticeKind::Open, Some(coin)) => coin.may_open(slots, author)?.is_some(),
    })
}

/// Key with which a validator signs a notice of a kind (N1): that of the sitting committee as a dealer, that of the next one as a
/// receiver, its registered one for everything else. Later changes do not affect committees.
fn signing_key<S: Slots>(slots: &mut S, epoch: Epoch, author: ValidatorId, kind: NoticeKind) -> Result<Option<B256>, S::Error> {
    let committee = match kind {
        NoticeKind::Announce | NoticeKind::Evidence => return Ok(Some(Validator::new(author).keys(slots)?.consensus)),
        NoticeKind::Deal | NoticeKind::Open => epoch,
        NoticeKind::Acknowledge => epoch.next(),
    };
    Ok(Committee::find(slots, committee, author)?.map(|(_, member)| member.keys.consensus))
}

fn domain(chain_id: u64, committee: &PastCommittee) -> Domain {
    Domain { tag: tags::NOTICE, chain_id, epoch: committee.epoch, committee_hash: committee.hash }
}
