//! Convictions: what evidence costs (validators.md §6).
//!
//! A validator loses a part of what voted in the epoch of the offence, wherever that stake is now: in the queue, or bonded. If
//! convicted validators had more votes than may be faulty, each of them loses all that voted: agreement was in danger. Slashed stake is
//! burnt, and nobody is rewarded for evidence. The validator is jailed, and a committee in which its keys are seated keeps them until
//! its end.

use crate::{
    Slots, ValidatorId,
    record::{FreezeNumber, Header, KeyOwner, PastCommittee, Queue, Seat, Status, Validator, is_convicted, set_convicted},
};
use alloy_primitives::{U256, keccak256};
use corniche_crypto::evidence::{Evidence, EvidenceError, check};
use corniche_types::{Epoch, FaultModel, StakingParameters, Votes};

/// Conviction of a validator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conviction {
    /// The validator.
    pub id: ValidatorId,
    /// Stake that it lost, in wei.
    pub slashed: U256,
    /// Stake that it and validators convicted before it lost, in wei. The caller takes it from the contract's balance.
    pub burnt: U256,
}

/// Why evidence convicts nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoConviction {
    /// It is of another chain.
    #[error("the evidence is for another chain")]
    Chain,
    /// The stake may be free since.
    #[error("the evidence is for an epoch that is too old")]
    TooOld,
    /// The epoch has not begun in this state.
    #[error("the evidence is for an epoch that has not begun")]
    NotBegun,
    /// An honest validator of a committee without faulty ones may contradict itself after a loss of its disk.
    #[error("the committee of this epoch tolerates no faulty validator, so nobody is punished")]
    TooSmall,
    /// The committee had no such index.
    #[error("the committee of this epoch had no member with this index")]
    Offender,
    /// The validator is convicted for this epoch.
    #[error("the validator is convicted for this epoch already")]
    Already,
    /// It proves nothing.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
}

/// A committee in which somebody is accused.
struct Case {
    committee: PastCommittee,
    seat: Seat,
}

/// Checks evidence, and convicts the validator.
pub fn convict<S: Slots>(
    slots: &mut S,
    parameters: &StakingParameters,
    chain_id: u64,
    evidence: &Evidence,
) -> Result<Result<Conviction, NoConviction>, S::Error> {
    let case = match proven(slots, parameters, chain_id, evidence)? {
        Ok(case) => case,
        Err(refused) => return Ok(Err(refused)),
    };
    let (slashed, burnt) = case.slash(slots, parameters)?;
    set_convicted(slots, case.committee.epoch, case.seat.id)?;
    jail(slots, parameters, case.seat.id)?;
    for key in [keccak256(evidence.consensus_key), keccak256(evidence.bls_key)] {
        if let Some(owner) = KeyOwner::load(slots, key)? {
            KeyOwner { is_banned: true, ..owner }.store(slots, key)?;
        }
    }
    Ok(Ok(Conviction { id: case.seat.id, slashed, burnt }))
}

/// Returns whether evidence may convict somebody who is not convicted yet. Does not check signatures.
pub(crate) fn is_open<S: Slots>(
    slots: &mut S,
    parameters: &StakingParameters,
    chain_id: u64,
    evidence: &Evidence,
) -> Result<bool, S::Error> {
    Ok(case(slots, parameters, chain_id, evidence)?.is_ok())
}

/// Returns whether evidence may convict somebody now or in a later epoch: a state that is rebuilt begins with the first one. Does not
/// check signatures.
pub fn is_useful<S: Slots>(
    slots: &mut S,
    parameters: &StakingParameters,
    chain_id: u64,
    evidence: &Evidence,
) -> Result<bool, S::Error> {
    let case = case(slots, parameters, chain_id, evidence)?;
    Ok(matches!(case, Ok(_) | Err(NoConviction::NotBegun)))
}

/// Returns whether evidence convicts a validator that is not convicted yet.
pub fn convicts<S: Slots>(
    slots: &mut S,
    parameters: &StakingParameters,
    chain_id: u64,
    evidence: &Evidence,
) -> Result<bool, S::Error> {
    Ok(proven(slots, parameters, chain_id, evidence)?.is_ok())
}

/// The case of evidence whose signatures hold.
fn proven<S: Slots>(
    slots: &mut S,
    parameters: &StakingParameters,
    chain_id: u64,
    evidence: &Evidence,
) -> Result<Result<Case, NoConviction>, S::Error> {
    let case = case(slots, parameters, chain_id, evidence)?;
    Ok(case.and_then(|case| {
        check(evidence, case.committee.hash, case.seat.signing_hash)?;
        Ok(case)
    }))
}

/// The case of evidence whose signatures are not checked.
fn case<S: Slots>(
    slots: &mut S,
    parameters: &StakingParameters,
    chain_id: u64,
    evidence: &Evidence,
) -> Result<Result<Case, NoConviction>, S::Error> {
    if evidence.chain_id != chain_id {
        return Ok(Err(NoConviction::Chain));
    }
    let epoch = evidence.epoch;
    let Some(age) = Header::load(slots)?.epoch.0.checked_sub(epoch.0) else { return Ok(Err(NoConviction::NotBegun)) };
    let committee = if age <= parameters.unbonding_epochs { PastCommittee::load(slots, epoch)? } else { None };
    let Some(committee) = committee else { return Ok(Err(NoConviction::TooOld)) };
    if FaultModel::Byzantine.faulty(committee.total) == Votes(0) {
        return Ok(Err(NoConviction::TooSmall));
    }
    let Some(seat) = committee.seat(slots, evidence.offender.0.into())? else { return Ok(Err(NoConviction::Offender)) };
    if is_convicted(slots, epoch, seat.id)? {
        return Ok(Err(NoConviction::Already));
    }
    Ok(Ok(Case { committee, seat }))
}

impl Case {
    /// Takes what the conviction costs (O1, O2). Returns what the validator loses, and what it and others lose.
    fn slash<S: Slots>(&self, slots: &mut S, parameters: &StakingParameters) -> Result<(U256, U256), S::Error> {
        let Self { committee, seat } = self;
        let mut convicted = Vec::new();
        for index in 0..committee.members {
            if let Some(other) = committee.seat(slots, index)?
                && is_convicted(slots, committee.epoch, other.id)?
            {
                convicted.push(other);
            }
        }
        let before: Votes = convicted.iter().map(|other| other.votes).sum();
        let tolerated = FaultModel::Byzantine.faulty(committee.total);
        let part = |seat: &Seat| part_of(self.stake(seat), parameters);
        if before + seat.votes <= tolerated {
            let slashed = take(slots, seat.id, committee.frozen_in, part(seat))?;
            return Ok((slashed, slashed));
        }
        let slashed = take(slots, seat.id, committee.frozen_in, self.stake(seat))?;
        let mut burnt = slashed;
        // The first conviction above the limit takes the rest of those before it. Later ones find nothing left.
        if before <= tolerated {
            for other in &convicted {
                let rest = self.stake(other).saturating_sub(part(other));
                burnt = burnt.saturating_add(take(slots, other.id, committee.frozen_in, rest)?);
            }
        }
        Ok((slashed, burnt))
    }

    /// Stake of a seat that voted.
    fn stake(&self, seat: &Seat) -> U256 {
        self.committee.unit.saturating_mul(U256::from(seat.votes.0))
    }
}

/// The part of a stake that a conviction costs, rounded up.
fn part_of(stake: U256, parameters: &StakingParameters) -> U256 {
    stake.saturating_mul(U256::from(parameters.slash_bps)).div_ceil(U256::from(10_000))
}

/// Takes stake of a validator that a committee voted with: first from the queue, the oldest entries first, then from the bonded one.
/// Returns the amount, which is less if there is less.
fn take<S: Slots>(slots: &mut S, id: ValidatorId, committee: FreezeNumber, amount: U256) -> Result<U256, S::Error> {
    let queued = Queue::load(slots, id)?.slash(slots, committee, amount)?;
    let rest = amount.saturating_sub(queued);
    let validator = Validator::new(id);
    let bonded = validator.bonded(slots)?;
    let taken = rest.min(bonded);
    validator.set_bonded(slots, bonded.saturating_sub(taken))?;
    Ok(queued.saturating_add(taken))
}

/// Keeps a validator from being a candidate until `jail_epochs` epochs have passed after the running one (O3).
fn jail<S: Slots>(slots: &mut S, parameters: &StakingParameters, id: ValidatorId) -> Result<(), S::Error> {
    let epoch = Header::load(slots)?.epoch;
    let Some(status) = Validator::new(id).status(slots)? else { return Ok(()) };
    let until = Epoch(epoch.next().0.saturating_add(parameters.jail_epochs));
    let jailed_until = status.jailed_until.max(until);
    Validator::new(id).set_status(slots, Status { jailed_until, ..status })
}
