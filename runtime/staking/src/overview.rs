//! Overview of the contract for readers outside of the chain: the running epoch, and all validators.

use crate::{
    Keys, Slots, ValidatorId, calendar,
    record::{Attendance, Committee, FreezeNumber, Header, Queue, Registry, Role, Unbonding, Validator, reached_freeze},
};
use alloy_primitives::{Address, U256};
use corniche_types::{Epoch, StakingParameters, TimestampMs, Votes};

/// State of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// The running epoch.
    pub header: Header,
    /// Time from which validators announce themselves; `None` if epochs never end.
    pub announcements: Option<TimestampMs>,
    /// Time of the freeze.
    pub freeze: Option<TimestampMs>,
    /// Time of the end.
    pub end: Option<TimestampMs>,
    /// Price of a vote in the sitting committee, in wei.
    pub unit: U256,
    /// Registered validators by ascending number.
    pub validators: Vec<ValidatorOverview>,
}

/// A registered validator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatorOverview {
    /// Its number.
    pub id: ValidatorId,
    /// Owner of the stake.
    pub owner: Address,
    /// Account that becomes the owner when it accepts.
    pub next_owner: Option<Address>,
    /// Account that may change keys and endpoints.
    pub operator: Address,
    /// Recipient of fees and rewards.
    pub fee: Address,
    /// Stake that counts for votes, in wei.
    pub bonded: U256,
    /// Stake in the unbonding queue, in wei, including `free`.
    pub queued: U256,
    /// Stake that can be withdrawn, in wei.
    pub free: U256,
    /// First epoch in which it may be a candidate after a conviction; 0 if there was none.
    pub jailed_until: Epoch,
    /// Keys from the next freeze on.
    pub keys: Keys,
    /// Where it can be dialled: lines of printable ASCII. Other bytes are escaped as in Rust.
    pub endpoints: Vec<String>,
    /// Votes in the sitting committee; 0 if it is no member.
    pub votes: Votes,
    /// Votes in the next committee; `None` unless one is frozen.
    pub next_votes: Option<Votes>,
    /// True if it announced itself in this epoch.
    pub is_announced: bool,
}

/// Records of the contract that describe all validators.
struct Committees {
    epoch: Epoch,
    reached: FreezeNumber,
    sitting: Committee,
    next: Option<Committee>,
}

impl Overview {
    /// Reads the overview: at most about 100 slots for each registered validator.
    pub fn load<S: Slots>(slots: &mut S, parameters: &StakingParameters) -> Result<Self, S::Error> {
        let header = Header::load(slots)?;
        let next = header.phase.has_next().then(|| Committee::load(slots, header.epoch.next())).transpose()?;
        let committees = Committees {
            epoch: header.epoch,
            reached: reached_freeze(slots, header.epoch, parameters)?,
            sitting: Committee::load(slots, header.epoch)?,
            next,
        };
        let mut ids = Registry::load(slots)?.ids(slots)?;
        ids.sort_unstable();
        let validators = ids.into_iter().map(|id| ValidatorOverview::load(slots, id, &committees)).collect::<Result<_, _>>()?;
        Ok(Self {
            announcements: calendar::announcement_time(header.start, parameters),
            freeze: calendar::freeze_time(header.start, parameters),
            end: calendar::end_time(header.start, parameters),
            unit: committees.sitting.unit,
            header,
            validators,
        })
    }
}

impl ValidatorOverview {
    fn load<S: Slots>(slots: &mut S, id: ValidatorId, committees: &Committees) -> Result<Self, S::Error> {
        let validator = Validator::new(id);
        let entries = Queue::load(slots, id)?.entries(slots)?;
        let next_owner = validator.account(slots, Role::NextOwner)?;
        Ok(Self {
            id,
            owner: validator.account(slots, Role::Owner)?,
            next_owner: (!next_owner.is_zero()).then_some(next_owner),
            operator: validator.account(slots, Role::Operator)?,
            fee: validator.account(slots, Role::Fee)?,
            bonded: validator.bonded(slots)?,
            queued: sum(entries.iter()),
            free: sum(entries.iter().take_while(|entry| entry.is_free(committees.reached))),
            jailed_until: validator.status(slots)?.map_or(Epoch(0), |status| status.jailed_until),
            keys: validator.keys(slots)?,
            endpoints: validator.endpoint_lines(slots)?,
            votes: committees.sitting.votes_of(id),
            next_votes: committees.next.as_ref().map(|next| next.votes_of(id)),
            is_announced: Attendance::load(slots, id)?.announced_in == Some(committees.epoch),
        })
    }
}

fn sum<'e>(entries: impl Iterator<Item = &'e Unbonding>) -> U256 {
    entries.fold(U256::ZERO, |sum, entry| sum.saturating_add(entry.amount))
}
