//! Notices: messages of validators to the contract, in batches (validators.md §2.7).
//!
//! A notice is an entry of a batch. It begins with a byte with which no transaction begins. It costs no fee and has no
//! receipt. Its effect depends on the state alone, so all validators agree on it (N3): a notice that is late, repeated or badly
//! signed has none. Its proposer need not be its author.

use crate::{
    Slots, ValidatorId,
    calendar::{self, Announcement},
    coin::NextCoin,
    record::{Attendance, Committee, Header, KeyOwner, PastCommittee, Phase, Validator},
};
use alloy_primitives::{B256, Bytes, keccak256};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_crypto::{CoinKey, CoinOpening, ConsensusKey, ConsensusPublicKey, Dealing, Domain, Signed, Verified};
use corniche_types::{Epoch, SignerBitmap, StakingParameters, TimestampMs};

/// First byte of a notice in a batch (N1).
const MARKER: u8 = 0x7e;

/// Tag of what the author signs.
const TAG: &str = "corniche-notice";

/// Most notices of one kind that take effect in a block (N2).
pub const fn max_notices(kind: NoticeKind) -> usize {
    match kind {
        NoticeKind::Announce => 128,
        // Checking one takes about 0.2 ms per vote.
        NoticeKind::Deal => 2,
        NoticeKind::Acknowledge => 64,
        NoticeKind::Open => 8,
    }
}

/// Most notices of a batch that may be in a block.
pub const MAX_BATCH_NOTICES: usize = max_notices(NoticeKind::Announce);

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
}

impl NoticeKind {
    const ALL: [Self; 4] = [Self::Announce, Self::Deal, Self::Acknowledge, Self::Open];
}

/// A notice that had an effect on the state with which it was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedNotice {
    chain_id: u64,
    epoch: Epoch,
    signed: Verified<Statement>,
}

/// A validator that makes notices.
#[derive(Clone, Debug)]
pub struct NoticeAuthor {
    /// Signs them.
    pub consensus: ConsensusKey,
    /// Deals coins, and decrypts the values of others' dealings. A validator without it does not take part in that.
    pub coin: Option<CoinKey>,
    /// The chain.
    pub chain_id: u64,
    /// Highest protocol version that the node knows.
    pub version: u32,
}

impl Notice {
    /// Decodes an entry of a batch; `None` if it is no notice. A notice has one encoding.
    pub fn decode(entry: &[u8]) -> Option<Self> {
        let (marker, rest) = entry.split_first()?;
        let notice: Self = (*marker == MARKER).then(|| borsh::from_slice(rest).ok()).flatten()?;
        (borsh::object_length(&notice).ok() == Some(rest.len()) && borsh::to_vec(&notice).ok()? == rest).then_some(notice)
    }

    /// Verifies a notice for the running epoch: what the contract lacks, signed with the author's key. `None` if it would have no
    /// effect.
    pub fn verify<S: Slots>(self, slots: &mut S, chain_id: u64) -> Result<Option<VerifiedNotice>, S::Error> {
        let Statement { author, ref body } = self.signed.payload;
        if !self.is_missing(slots, chain_id)? {
            return Ok(None);
        }
        let Some(committee) = PastCommittee::load(slots, self.epoch)? else { return Ok(None) };
        let key = signing_key(slots, self.epoch, author, body.kind())?;
        let Some(key) = key.and_then(|key| ConsensusPublicKey::parse(&key)) else { return Ok(None) };
        let verified = self.signed.verify(&key, &domain(chain_id, &committee)).ok();
        Ok(verified.map(|signed| VerifiedNotice { chain_id, epoch: self.epoch, signed }))
    }

    /// Returns whether a notice is for this chain and this epoch.
    pub fn is_for(&self, chain_id: u64, epoch: Epoch) -> bool {
        (self.chain_id, self.epoch) == (chain_id, epoch)
    }

    /// Returns the kind.
    pub fn kind(&self) -> NoticeKind {
        self.signed.payload.body.kind()
    }

    /// Returns whether the contract lacks what the author states, and may still take it. Does not check the signature.
    pub fn is_missing<S: Slots>(&self, slots: &mut S, chain_id: u64) -> Result<bool, S::Error> {
        Ok(self.chain_id == chain_id && is_missing(slots, self.epoch, self.signed.payload.author, self.kind())?)
    }
}

impl NoticeBody {
    fn kind(&self) -> NoticeKind {
        match self {
            Self::Announce { .. } => NoticeKind::Announce,
            Self::Deal(_) => NoticeKind::Deal,
            Self::Acknowledge(_) => NoticeKind::Acknowledge,
            Self::Open(_) => NoticeKind::Open,
        }
    }
}

impl NoticeAuthor {
    /// Returns the kinds of notices that this validator owes. `now` is the time of a block.
    pub fn owed<S: Slots>(
        &self,
        slots: &mut S,
        parameters: &StakingParameters,
        now: TimestampMs,
    ) -> Result<Vec<NoticeKind>, S::Error> {
        let Header { epoch, start, .. } = Header::load(slots)?;
        let is_early = calendar::announcement_time(start, parameters).is_none_or(|from| now < from);
        let id = self.id(slots)?;
        let mut owed = Vec::new();
        for kind in NoticeKind::ALL {
            if kind == NoticeKind::Announce && is_early || kind != NoticeKind::Announce && self.coin.is_none() {
                continue;
            }
            if let Some(id) = id
                && signing_key(slots, epoch, id, kind)? == Some(self.consensus.public())
                && is_missing(slots, epoch, id, kind)?
            {
                owed.push(kind);
            }
        }
        Ok(owed)
    }

    /// Makes a notice of a kind that this validator owes; `None` while it has nothing to state.
    pub fn make<S: Slots>(&self, slots: &mut S, kind: NoticeKind) -> Result<Option<VerifiedNotice>, S::Error> {
        let (epoch, chain_id) = (Header::load(slots)?.epoch, self.chain_id);
        let Some((author, committee)) = self.id(slots)?.zip(PastCommittee::load(slots, epoch)?) else { return Ok(None) };
        let body = match kind {
            NoticeKind::Announce => Some(NoticeBody::Announce { version: self.version }),
            kind => self.make_for_coin(slots, author, kind)?,
        };
        Ok(body.map(|body| {
            let signed = Signed::sign_verified(Statement { author, body }, &self.consensus, &domain(chain_id, &committee));
            VerifiedNotice { chain_id, epoch, signed }
        }))
    }

    fn make_for_coin<S: Slots>(
        &self,
        slots: &mut S,
        author: ValidatorId,
        kind: NoticeKind,
    ) -> Result<Option<NoticeBody>, S::Error> {
        let Some((coin, key)) = NextCoin::load(slots)?.zip(self.coin.as_ref()) else { return Ok(None) };
        Ok(match kind {
            NoticeKind::Announce => None,
            NoticeKind::Deal => match coin.may_deal(slots, author)? {
                Some(dealer) => coin.make_dealing(slots, self.chain_id, dealer, key)?.map(NoticeBody::Deal),
                None => None,
            },
            NoticeKind::Acknowledge => match coin.may_acknowledge(slots, author)? {
                Some(member) => coin.make_acknowledgement(slots, self.chain_id, member, key)?.map(NoticeBody::Acknowledge),
                None => None,
            },
            NoticeKind::Open => match coin.may_open(slots, author)? {
                Some((dealer, missing)) => {
                    coin.make_opening(slots, self.chain_id, dealer, &missing, key)?.map(NoticeBody::Open)
                }
                None => None,
            },
        })
    }

    /// Number under which the key was registered. It may be replaced since.
    fn id<S: Slots>(&self, slots: &mut S) -> Result<Option<ValidatorId>, S::Error> {
        let public: B256 = self.consensus.public();
        Ok(KeyOwner::load(slots, keccak256(public))?.map(|owner| owner.id))
    }
}

impl VerifiedNotice {
    /// Applies a notice at the end of a block with this time. Returns whether it had an effect. A wrong message about a coin has one:
    /// its author may not send another one.
    pub fn apply<S: Slots>(&self, slots: &mut S, parameters: &StakingParameters, now: TimestampMs) -> Result<bool, S::Error> {
        let Statement { author, ref body } = *self.statement();
        if let NoticeBody::Announce { version } = body {
            return Ok(calendar::announce(slots, parameters, author, *version, now)? == Announcement::Taken);
        }
        let Some(coin) = NextCoin::load(slots)? else { return Ok(false) };
        match body {
            NoticeBody::Announce { .. } => Ok(false),
            NoticeBody::Deal(dealing) => match coin.may_deal(slots, author)? {
                Some(dealer) => coin.deal(slots, self.chain_id, dealer, dealing.clone()).map(|()| true),
                None => Ok(false),
            },
            NoticeBody::Acknowledge(good) => match coin.may_acknowledge(slots, author)? {
                Some(member) => coin.acknowledge(slots, member, good).map(|()| true),
                None => Ok(false),
            },
            NoticeBody::Open(opening) => match coin.may_open(slots, author)? {
                Some((dealer, missing)) => coin.open(slots, dealer, &missing, opening).map(|()| true),
                None => Ok(false),
            },
        }
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

    /// Returns whether a later state still lacks what the author stated.
    pub fn is_missing<S: Slots>(&self, slots: &mut S) -> Result<bool, S::Error> {
        is_missing(slots, self.epoch, self.statement().author, self.kind())
    }
}

/// Returns whether the contract lacks a statement, and may still take it.
fn is_missing<S: Slots>(slots: &mut S, epoch: Epoch, author: ValidatorId, kind: NoticeKind) -> Result<bool, S::Error> {
    let header = Header::load(slots)?;
    if header.epoch != epoch {
        return Ok(false);
    }
    if kind == NoticeKind::Announce {
        let is_registered = Validator::new(author).status(slots)?.is_some();
        let may_announce = header.phase == Phase::Open && is_registered;
        return Ok(may_announce && Attendance::load(slots, author)?.announced_in != Some(epoch));
    }
    let Some(coin) = NextCoin::load(slots)? else { return Ok(false) };
    Ok(match kind {
        NoticeKind::Announce => false,
        NoticeKind::Deal => coin.may_deal(slots, author)?.is_some(),
        NoticeKind::Acknowledge => coin.may_acknowledge(slots, author)?.is_some(),
        NoticeKind::Open => coin.may_open(slots, author)?.is_some(),
    })
}

/// Key with which a validator signs a notice of a kind (N1): that of the sitting committee as a dealer, that of the next one as a
/// receiver, its registered one for everything else. Later changes do not affect committees.
fn signing_key<S: Slots>(slots: &mut S, epoch: Epoch, author: ValidatorId, kind: NoticeKind) -> Result<Option<B256>, S::Error> {
    let committee = match kind {
        NoticeKind::Announce => return Ok(Some(Validator::new(author).keys(slots)?.consensus)),
        NoticeKind::Deal | NoticeKind::Open => epoch,
        NoticeKind::Acknowledge => epoch.next(),
    };
    Ok(Committee::find(slots, committee, author)?.map(|(_, member)| member.keys.consensus))
}

fn domain(chain_id: u64, committee: &PastCommittee) -> Domain {
    Domain { tag: TAG, chain_id, epoch: committee.epoch, committee_hash: committee.hash }
}
