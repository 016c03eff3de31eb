//! Functions that read.

use super::{CallError, empty_revert, revert};
use crate::{
    Slots, ValidatorId, calendar,
    interface::{
        self,
        Staking::{self, StakingCalls},
    },
    record::{Header, KeyOwner, PastCommittee, Queue, Role, Validator, reached_freeze},
};
use alloy_primitives::{B256, Bytes, U256};
use alloy_sol_types::SolCall;
use corniche_types::{Epoch, StakingParameters};

/// Runs a function that reads, and returns its encoded results.
pub(super) fn view<S: Slots>(
    slots: &mut S,
    call: &StakingCalls,
    parameters: &StakingParameters,
) -> Result<Vec<u8>, CallError<S::Error>> {
    use Staking::*;
    Ok(match call {
        StakingCalls::validator(call) => validatorCall::abi_encode_returns(&validator(slots, call.id)?),
        StakingCalls::idOf(call) => {
            let owner = KeyOwner::load(slots, call.keyHash)?;
            idOfCall::abi_encode_returns(&idOfReturn { found: owner.is_some(), id: owner.map_or(0, |owner| owner.id.0) })
        }
        StakingCalls::committee(call) => committeeCall::abi_encode_returns(&committee(slots, Epoch(call.epoch))?),
        StakingCalls::epoch(_) => epochCall::abi_encode_returns(&epoch(slots, parameters)?),
        StakingCalls::parameters(_) => parametersCall::abi_encode_returns(&describe(parameters)),
        StakingCalls::minimumStake(_) => minimumStakeCall::abi_encode_returns(&minimum_stake(slots, parameters)?),
        StakingCalls::free(call) => freeCall::abi_encode_returns(&free(slots, call.id, parameters)?),
        _ => return Err(empty_revert()),
    })
}

fn validator<S: Slots>(slots: &mut S, id: u32) -> Result<interface::Validator, CallError<S::Error>> {
    let validator = Validator::new(ValidatorId(id));
    let Some(status) = validator.status(slots)? else { return Err(revert(Staking::Unknown { id })) };
    let keys = validator.keys(slots)?;
    let entries = Queue::load(slots, ValidatorId(id))?.entries(slots)?;
    Ok(interface::Validator {
        owner: validator.account(slots, Role::Owner)?,
        nextOwner: validator.account(slots, Role::NextOwner)?,
        operator: validator.account(slots, Role::Operator)?,
        fee: validator.account(slots, Role::Fee)?,
        bonded: validator.bonded(slots)?,
        queued: entries.iter().fold(U256::ZERO, |sum, entry| sum.saturating_add(entry.amount)),
        jailedUntil: status.jailed_until.0,
        consensusKey: keys.consensus,
        blsKey: Bytes::copy_from_slice(keys.bls.as_slice()),
        networkKey: keys.network,
        coinKey: Bytes::copy_from_slice(keys.coin.as_slice()),
        endpoints: validator.endpoints(slots)?,
    })
}

fn committee<S: Slots>(slots: &mut S, epoch: Epoch) -> Result<interface::Committee, S::Error> {
    let Some(committee) = PastCommittee::load(slots, epoch)? else {
        return Ok(interface::Committee { hash: B256::ZERO, unit: U256::ZERO, frozenIn: 0, seats: Vec::new() });
    };
    let mut seats = Vec::new();
    for index in 0..committee.members {
        if let Some(seat) = committee.seat(slots, index)? {
            seats.push(interface::Seat { id: seat.id.0, votes: seat.votes.0, signingHash: seat.signing_hash });
        }
    }
    Ok(interface::Committee { hash: committee.hash, unit: committee.unit, frozenIn: committee.frozen_in.0, seats })
}

fn epoch<S: Slots>(slots: &mut S, parameters: &StakingParameters) -> Result<Staking::epochReturn, S::Error> {
    let header = Header::load(slots)?;
    Ok(Staking::epochReturn {
        epoch: header.epoch.0,
        start: header.start.0,
        startHeight: header.start_height.0,
        end: calendar::end_time(header.start, parameters).map_or(0, |end| end.0),
        frozenIn: header.frozen_in.0,
        phase: header.phase as u8,
    })
}

fn minimum_stake<S: Slots>(slots: &mut S, parameters: &StakingParameters) -> Result<U256, S::Error> {
    let epoch = Header::load(slots)?.epoch;
    Ok(PastCommittee::load(slots, epoch)?.map_or(parameters.vote_wei, |committee| committee.unit))
}

fn free<S: Slots>(slots: &mut S, id: u32, parameters: &StakingParameters) -> Result<U256, CallError<S::Error>> {
    if Validator::new(ValidatorId(id)).status(slots)?.is_none() {
        return Err(revert(Staking::Unknown { id }));
    }
    let epoch = Header::load(slots)?.epoch;
    let reached = reached_freeze(slots, epoch, parameters)?;
    Ok(Queue::load(slots, ValidatorId(id))?.free(slots, reached)?.1)
}

fn describe(parameters: &StakingParameters) -> interface::Parameters {
    interface::Parameters {
        epochMs: parameters.epoch_ms,
        closingMs: parameters.closing_ms,
        voteWei: parameters.vote_wei,
        mostVotes: parameters.most_votes.0,
        maxVotes: parameters.max_votes.0,
        maxValidators: parameters.max_validators,
        minValidators: parameters.min_validators,
        unbondingEpochs: parameters.unbonding_epochs,
        coinMaxAge: parameters.coin_max_age,
        slashBps: parameters.slash_bps,
        jailEpochs: parameters.jail_epochs,
        rewardWei: parameters.reward_wei,
        snapshotMs: parameters.snapshot_ms,
    }
}
