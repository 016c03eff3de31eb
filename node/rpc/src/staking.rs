//! `corniche_getStaking` and `corniche_getOffences`: convert the contract's state to JSON types.

use crate::node::{Node, state_unavailable};
use alloy_eips::BlockId;
use corniche_api::{EpochPhase, MAX_OFFENCES, Offence, Offences, RpcError, StakedValidator, Staking};
use corniche_staking::{
    Overview, ReadError, StateSlots, ValidatorOverview,
    record::{Header, PastCommittee, Phase, ring_epochs},
};
use corniche_types::{Epoch, StakingParameters};

/// Stake after a block; `None` on a chain without staking.
pub(crate) fn at(node: &Node, block: BlockId) -> Result<Option<Staking>, RpcError> {
    let Some(parameters) = node.backend.vm().staking() else { return Ok(None) };
    let state = node.state(block)?.1;
    let overview = Overview::load(&mut StateSlots(&*state), parameters).map_err(|_| state_unavailable())?;
    Ok(Some(staking(overview, parameters)))
}

/// Convictions for what was signed in this epoch and later ones; `None` on a chain without staking.
pub(crate) fn offences(node: &Node, from: Epoch) -> Result<Option<Offences>, RpcError> {
    if node.backend.vm().staking().is_none() {
        return Ok(None);
    }
    let state = node.state(BlockId::latest())?.1;
    convictions(&mut StateSlots(&*state), from).map(Some).map_err(|_| state_unavailable())
}

/// Epochs are never divided between two responses.
fn convictions(slots: &mut StateSlots<'_>, from: Epoch) -> Result<Offences, ReadError> {
    let running = Header::load(slots)?.epoch;
    let mut found = Offences::default();
    for epoch in ring_epochs(running).filter(|epoch| *epoch >= from) {
        if found.offences.len() >= MAX_OFFENCES {
            found.next = Some(epoch.0);
            break;
        }
        let Some(committee) = PastCommittee::load(slots, epoch)? else { continue };
        found.offences.extend(committee.convicted(slots)?.into_iter().map(|(index, seat)| Offence {
            epoch: epoch.0,
            id: seat.id.0.into(),
            index,
            votes: seat.votes.0.into(),
        }));
    }
    Ok(found)
}

fn staking(overview: Overview, parameters: &StakingParameters) -> Staking {
    let Overview { header, announcements, freeze, end, unit, validators } = overview;
    Staking {
        epoch: header.epoch.0,
        start_ms: header.start.0,
        start_block: header.start_height.0,
        announcements_ms: announcements.map(|time| time.0),
        freeze_ms: freeze.map(|time| time.0),
        end_ms: end.map(|time| time.0),
        phase: match header.phase {
            Phase::Open => EpochPhase::Open,
            Phase::Frozen => EpochPhase::Frozen,
            Phase::Kept => EpochPhase::Kept,
            Phase::Dealing => EpochPhase::Dealing,
            Phase::Acknowledging => EpochPhase::Acknowledging,
            Phase::Opening => EpochPhase::Opening,
        },
        vote_price: unit,
        parameters: parameters.into(),
        validators: validators.into_iter().map(validator).collect(),
    }
}

fn validator(validator: ValidatorOverview) -> StakedValidator {
    StakedValidator {
        id: validator.id.0.into(),
        owner: validator.owner,
        next_owner: validator.next_owner,
        operator: validator.operator,
        fee: validator.fee,
        bonded: validator.bonded,
        queued: validator.queued,
        free: validator.free,
        jailed_until: validator.jailed_until.0,
        consensus_key: validator.keys.consensus,
        bls_key: validator.keys.bls.into(),
        network_key: validator.keys.network,
        coin_key: validator.keys.coin.into(),
        endpoints: validator.endpoints,
        votes: validator.votes.0.into(),
        next_votes: validator.next_votes.map(|votes| votes.0.into()),
        announced: validator.is_announced,
    }
}
