//! State of the contract at genesis: the first validators, which are the first committee.

use crate::{
    ADDRESS, Keys, ParameterError, Parameters,
    record::{Committee, FreezeNumber, Header, Member, NewValidator, PastCommittee, Phase},
};
use alloy_primitives::{Address, B256, U256};
use corniche_types::{Epoch, FaultModel, Height, TimestampMs, Votes, Weights};
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
};

/// A validator of the first committee. Its number is its position in the genesis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenesisValidator {
    /// Owner of the stake, and operator.
    pub owner: Address,
    /// Recipient of fees and rewards.
    pub fee: Address,
    /// Its keys. The caller checks their proofs.
    pub keys: Keys,
    /// Its votes; each one has `vote_wei` of stake.
    pub votes: Votes,
}

/// Returns the contract's slots and its balance at genesis. `hash` returns the hash of the first committee. Refuses invalid
/// parameters, votes that they do not allow, keys that occur twice, and the contract as recipient of fees.
pub fn genesis_slots(
    parameters: &Parameters,
    start: TimestampMs,
    validators: &[GenesisValidator],
    hash: impl FnOnce(&Committee) -> B256,
) -> Result<(BTreeMap<B256, B256>, U256), ParameterError> {
    parameters.check()?;
    check_votes(parameters, validators)?;
    check_accounts_and_keys(validators)?;
    let mut slots = BTreeMap::new();
    match write(&mut slots, parameters, start, validators, hash) {
        Ok(balance) => Ok((slots, balance)),
        Err(never) => match never {},
    }
}

fn check_votes(parameters: &Parameters, validators: &[GenesisValidator]) -> Result<(), ParameterError> {
    let count = u32::try_from(validators.len()).unwrap_or(u32::MAX);
    if count == 0 && !parameters.never_ends() {
        return Err(ParameterError::new("validators", "at least 1 if epochs end", count));
    }
    if count > parameters.max_validators {
        return Err(ParameterError::new(
            "validators",
            format!("at most max_validators ({})", parameters.max_validators),
            count,
        ));
    }
    let most = parameters.most_votes;
    if let Some((index, votes)) = find_votes(validators, |votes| !(Votes(1)..=most).contains(&votes)) {
        return Err(ParameterError::new("votes", format!("1 to {most} for genesis validator {index}"), votes));
    }
    let weights = Weights::new(validators.iter().map(|validator| validator.votes), FaultModel::Byzantine);
    if weights.total() > parameters.max_votes {
        let expected = format!("at most max_votes ({}) for all genesis validators", parameters.max_votes);
        return Err(ParameterError::new("votes", expected, weights.total()));
    }
    // Fewer than four have no F that all of them keep; see S4.
    let faulty = weights.max_faulty();
    if let Some((index, votes)) = find_votes(validators, |votes| count >= 4 && votes > faulty) {
        return Err(ParameterError::new("votes", format!("at most F ({faulty}) for genesis validator {index}"), votes));
    }
    Ok(())
}

fn find_votes(validators: &[GenesisValidator], is_bad: impl Fn(Votes) -> bool) -> Option<(usize, Votes)> {
    validators.iter().map(|validator| validator.votes).enumerate().find(|(_, votes)| is_bad(*votes))
}

fn check_accounts_and_keys(validators: &[GenesisValidator]) -> Result<(), ParameterError> {
    let mut hashes = BTreeSet::new();
    for (index, validator) in validators.iter().enumerate() {
        if validator.fee == ADDRESS {
            let expected = format!("an account other than the staking contract for genesis validator {index}");
            return Err(ParameterError::new("fee", expected, ADDRESS));
        }
        if let Some(hash) = validator.keys.hashes().into_iter().find(|hash| !hashes.insert(*hash)) {
            let found = format!("a repeated one of genesis validator {index} with hash {hash}");
            return Err(ParameterError::new("keys", "distinct keys", found));
        }
    }
    Ok(())
}

fn write(
    slots: &mut BTreeMap<B256, B256>,
    parameters: &Parameters,
    start: TimestampMs,
    genesis: &[GenesisValidator],
    hash: impl FnOnce(&Committee) -> B256,
) -> Result<U256, Infallible> {
    let mut balance = U256::ZERO;
    let mut members = Vec::with_capacity(genesis.len());
    for GenesisValidator { owner, fee, keys, votes } in genesis {
        let stake = parameters.vote_wei.saturating_mul(U256::from(votes.0));
        let new = NewValidator { owner: *owner, operator: *owner, fee: *fee, keys: *keys, stake };
        let id = new.register(slots)?.expect("invariant: a committee has at most 300 members");
        balance = balance.saturating_add(stake);
        members.push(Member { id, keys: *keys, fee: *fee, votes: *votes });
    }
    let committee = Committee { unit: parameters.vote_wei, frozen_in: FreezeNumber::GENESIS, members };
    committee.store(slots, Epoch(0))?;
    PastCommittee::store(slots, Epoch(0), hash(&committee), &committee)?;
    let (epoch, start_height, phase) = (Epoch(0), Height(0), Phase::Open);
    Header { epoch, start, start_height, frozen_in: FreezeNumber::GENESIS, phase }.store(slots)?;
    Ok(balance)
}
