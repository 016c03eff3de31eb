//! Steps of an epoch: announcements, freeze, the dealing of a coin, and the end.
//!
//! The caller runs a step in the first block whose time has reached it ([`step_times`]), after the block's
//! transactions and notices. One block may reach several steps; then they run in order.

use crate::{
    Keys, Slots, ValidatorId,
    coin::{Need, NextCoin},
    record::{
        Attendance, CoinKeys, Committee, FreezeNumber, Header, KeyOwner, Member, PastCommittee, Phase, Registry, Role,
        Validator, is_convicted,
    },
    votes::{self, Candidate},
};
use alloy_primitives::{Address, B256, U256};
use corniche_types::{Epoch, Height, StakingParameters, TimestampMs, Votes};
use std::collections::BTreeMap;

/// Phases in which a coin is dealt, and when each one ends, in eighths of the time from the freeze to the end.
const COIN_STEPS: [(Phase, u64); 3] = [(Phase::Dealing, 3), (Phase::Acknowledging, 5), (Phase::Opening, 7)];

/// Result of an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// The validator may be a candidate in this epoch.
    Taken,
    /// No validator has this number.
    Unknown,
    /// The time is before the window, or the freeze is due.
    OutsideWindow,
    /// It has announced itself in this epoch already.
    Repeated,
}

/// Committee of the next epoch, as it follows from the freeze.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frozen {
    /// This one takes over, unless [`keep`] is called.
    Next(Committee),
    /// The sitting one stays.
    Kept,
}

/// Beginning of an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// The new epoch.
    pub epoch: Epoch,
    /// Its committee.
    pub committee: Committee,
    /// Hash of the committee.
    pub hash: B256,
    /// True if the committee is that of the epoch before.
    pub kept: bool,
    /// Amounts in wei that the members of the epoch before earn, by fee address. The caller mints them.
    pub rewards: Vec<(Address, U256)>,
}

/// Returns the time at which an epoch with this beginning ends; `None` if epochs never end.
pub fn end_time(start: TimestampMs, parameters: &StakingParameters) -> Option<TimestampMs> {
    (!parameters.never_ends()).then(|| TimestampMs(start.0.saturating_add(parameters.epoch_ms)))
}

/// Returns the time of the freeze.
pub fn freeze_time(start: TimestampMs, parameters: &StakingParameters) -> Option<TimestampMs> {
    before_end(start, parameters, parameters.closing_ms)
}

/// Returns the time from which validators announce themselves, until the freeze.
pub fn announcement_time(start: TimestampMs, parameters: &StakingParameters) -> Option<TimestampMs> {
    before_end(start, parameters, parameters.closing_ms.saturating_mul(2))
}

/// Returns the times of all steps of an epoch, ascending. The last one is its end; none if epochs never end.
pub fn step_times(start: TimestampMs, parameters: &StakingParameters, need: Need) -> Vec<TimestampMs> {
    let coin = if need == Need::Never { &[][..] } else { &COIN_STEPS };
    let between = coin.iter().map(|(_, eighths)| after_freeze(start, parameters, *eighths));
    [freeze_time(start, parameters)].into_iter().chain(between).chain([end_time(start, parameters)]).flatten().collect()
}

/// Time at which so many eighths of the time from the freeze to the end have passed.
fn after_freeze(start: TimestampMs, parameters: &StakingParameters, eighths: u64) -> Option<TimestampMs> {
    let passed = parameters.closing_ms.saturating_mul(eighths) / 8;
    freeze_time(start, parameters).map(|freeze| TimestampMs(freeze.0.saturating_add(passed)))
}

fn before_end(start: TimestampMs, parameters: &StakingParameters, ms: u64) -> Option<TimestampMs> {
    end_time(start, parameters).map(|end| TimestampMs(end.0.saturating_sub(ms)))
}

/// Returns whether a block at this time takes announcements.
pub fn takes_announcements<S: Slots>(
    slots: &mut S,
    parameters: &StakingParameters,
    now: TimestampMs,
) -> Result<bool, S::Error> {
    Ok(is_announcing(&Header::load(slots)?, parameters, now))
}

fn is_announcing(header: &Header, parameters: &StakingParameters, now: TimestampMs) -> bool {
    let window = announcement_time(header.start, parameters).zip(freeze_time(header.start, parameters));
    header.phase == Phase::Open && window.is_some_and(|(from, to)| (from..to).contains(&now))
}

/// Records that a validator is ready for the next epoch (S12). `version` is the highest protocol version that its node knows,
/// `now` the time of the block.
pub fn announce<S: Slots>(
    slots: &mut S,
    parameters: &StakingParameters,
    id: ValidatorId,
    version: u32,
    now: TimestampMs,
) -> Result<Announcement, S::Error> {
    let header = Header::load(slots)?;
    if !is_announcing(&header, parameters, now) {
        return Ok(Announcement::OutsideWindow);
    }
    if Validator::new(id).status(slots)?.is_none() {
        return Ok(Announcement::Unknown);
    }
    let before = Attendance::load(slots, id)?;
    if before.announced_in == Some(header.epoch) {
        return Ok(Announcement::Repeated);
    }
    Attendance { announced_in: Some(header.epoch), version, ..before }.store(slots, id)?;
    Ok(Announcement::Taken)
}

/// Runs all steps that are due at the time of a block, except the end.
pub fn advance<S: Slots>(
    slots: &mut S,
    parameters: &StakingParameters,
    need: Need,
    chain_id: u64,
    now: TimestampMs,
) -> Result<(), S::Error> {
    let mut header = Header::load(slots)?;
    if header.phase == Phase::Open && freeze_time(header.start, parameters).is_some_and(|freeze| now >= freeze) {
        freeze(slots, parameters, need)?;
        header = Header::load(slots)?;
    }
    for (phase, eighths) in COIN_STEPS {
        if header.phase != phase || after_freeze(header.start, parameters, eighths).is_none_or(|time| now < time) {
            continue;
        }
        match phase {
            Phase::Dealing => Header { phase: Phase::Acknowledging, ..header }.store(slots)?,
            Phase::Acknowledging => Header { phase: Phase::Opening, ..header }.store(slots)?,
            _ => settle(slots, chain_id)?,
        }
        header = Header::load(slots)?;
    }
    Ok(())
}

/// Ends the dealing of a coin: the next committee gets it, or the sitting one is kept.
fn settle<S: Slots>(slots: &mut S, chain_id: u64) -> Result<(), S::Error> {
    let Some(coin) = NextCoin::load(slots)? else { return Ok(()) };
    match coin.settle(slots, chain_id)? {
        Ok(()) => Header { phase: Phase::Frozen, ..Header::load(slots)? }.store(slots),
        Err(silent) => keep(slots, &silent),
    }
}

/// Computes the next committee from the stake of those who announced themselves, and stores it with its keys (S1 to S6).
/// Later changes of stake and keys do not affect it. A second freeze in an epoch repeats the result of the first one.
pub fn freeze<S: Slots>(slots: &mut S, parameters: &StakingParameters, need: Need) -> Result<Frozen, S::Error> {
    let mut header = Header::load(slots)?;
    let next = header.epoch.next();
    if header.phase.has_next() {
        return Ok(Frozen::Next(Committee::load(slots, next)?));
    }
    if header.phase == Phase::Kept {
        return Ok(Frozen::Kept);
    }
    let eligible = eligible(slots, parameters, header.epoch)?;
    let candidates: Vec<Candidate> = eligible.iter().map(|(candidate, _)| *candidate).collect();
    let keys: BTreeMap<ValidatorId, Keys> = eligible.into_iter().map(|(candidate, keys)| (candidate.id, keys)).collect();
    let allocation = votes::allocate_votes(&candidates, parameters);
    let sitting = Committee::load(slots, header.epoch)?;
    let announced = announced_votes(slots, &sitting, header.epoch)?;
    if votes::must_keep(&allocation, &sitting.weights(), announced, parameters) {
        header.phase = Phase::Kept;
        header.store(slots)?;
        return Ok(Frozen::Kept);
    }
    let mut members = Vec::with_capacity(allocation.members.len());
    for (id, votes) in allocation.members {
        let keys = keys.get(&id).copied().expect("invariant: members are candidates");
        members.push(Member { id, keys, fee: Validator::new(id).account(slots, Role::Fee)?, votes });
    }
    let frozen_in = FreezeNumber::in_epoch(header.epoch);
    let mut committee = Committee { unit: allocation.unit, frozen_in, coin: sitting.coin, members };
    header.phase = Phase::Frozen;
    if need.requires_dealing(parameters, &sitting, &committee, next) {
        committee.coin = sitting.coin.following(next);
        header.phase = Phase::Dealing;
    }
    committee.store(slots, next)?;
    header.store(slots)?;
    Ok(Frozen::Next(committee))
}

/// Keeps the sitting committee, because the next one has no coin. Newcomers that kept it from having one
/// (`silent`) are no candidates at the next freeze (S13). No effect unless a next committee is frozen.
pub fn keep<S: Slots>(slots: &mut S, silent: &[ValidatorId]) -> Result<(), S::Error> {
    let mut header = Header::load(slots)?;
    if !header.phase.has_next() {
        return Ok(());
    }
    for id in silent {
        let before = Attendance::load(slots, *id)?;
        Attendance { excluded_in: Some(header.epoch.next()), ..before }.store(slots, *id)?;
    }
    header.phase = Phase::Kept;
    header.store(slots)
}

/// Ends the running epoch and begins the next one, with the frozen committee or the sitting one. `height` and `now` are those
/// of the block that ends the epoch. `hash` returns the hash of the committee in the new epoch. Members earn rewards for the
/// epoch that ends, except those who are convicted for it.
///
/// # Panics
/// If [`advance`] did not run in this epoch at the time of its last step.
pub fn activate<S: Slots>(
    slots: &mut S,
    parameters: &StakingParameters,
    height: Height,
    now: TimestampMs,
    hash: impl FnOnce(Epoch, &Committee, Option<&CoinKeys>) -> B256,
) -> Result<Started, S::Error> {
    let header = Header::load(slots)?;
    let is_decided = matches!(header.phase, Phase::Frozen | Phase::Kept);
    assert!(is_decided || parameters.never_ends(), "invariant: an epoch ends after its other steps");
    let rewards = rewards(slots, parameters, header.epoch)?;
    let epoch = header.epoch.next();
    let kept = header.phase != Phase::Frozen;
    let committee = Committee::load(slots, if kept { header.epoch } else { epoch })?;
    if kept {
        committee.store(slots, epoch)?;
    }
    let coin = committee.coin.keys(slots)?;
    let hash = hash(epoch, &committee, coin.as_ref());
    PastCommittee::store(slots, epoch, hash, &committee)?;
    let frozen_in = committee.frozen_in;
    Header { epoch, start: now, start_height: height, frozen_in, phase: Phase::Open }.store(slots)?;
    Ok(Started { epoch, committee, hash, kept, rewards })
}

/// Rewards of the sitting committee for its epoch.
fn rewards<S: Slots>(slots: &mut S, parameters: &StakingParameters, epoch: Epoch) -> Result<Vec<(Address, U256)>, S::Error> {
    let mut rewards = Vec::new();
    if parameters.reward_wei.is_zero() {
        return Ok(rewards);
    }
    for member in Committee::load(slots, epoch)?.members {
        if !is_convicted(slots, epoch, member.id)? {
            rewards.push((member.fee, parameters.reward_wei.saturating_mul(U256::from(member.votes.0))));
        }
    }
    Ok(rewards)
}

/// Validators that may be members of the next committee (S1): the first ones by rank, and their keys. Keys have the most
/// slots, so only those of the first ones are read.
fn eligible<S: Slots>(slots: &mut S, parameters: &StakingParameters, epoch: Epoch) -> Result<Vec<(Candidate, Keys)>, S::Error> {
    let mut ranked = Vec::new();
    for id in Registry::load(slots)?.ids(slots)? {
        let bonded = Validator::new(id).bonded(slots)?;
        if bonded >= parameters.vote_wei && is_ready(slots, id, epoch)? {
            ranked.push(Candidate { id, bonded });
        }
    }
    ranked.sort_unstable_by_key(Candidate::rank);
    let mut eligible = Vec::new();
    for candidate in ranked {
        if eligible.len() >= votes::max_candidates(parameters) {
            break;
        }
        let keys = Validator::new(candidate.id).keys(slots)?;
        if !has_banned_key(slots, &keys)? {
            eligible.push((candidate, keys));
        }
    }
    Ok(eligible)
}

/// Returns whether a validator announced itself, is not excluded and not jailed.
fn is_ready<S: Slots>(slots: &mut S, id: ValidatorId, epoch: Epoch) -> Result<bool, S::Error> {
    let attendance = Attendance::load(slots, id)?;
    if attendance.announced_in != Some(epoch) || attendance.excluded_in == Some(epoch) {
        return Ok(false);
    }
    Ok(Validator::new(id).status(slots)?.is_some_and(|status| status.jailed_until <= epoch))
}

fn has_banned_key<S: Slots>(slots: &mut S, keys: &Keys) -> Result<bool, S::Error> {
    for hash in keys.hashes() {
        if KeyOwner::load(slots, hash)?.is_some_and(|owner| owner.is_banned) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn announced_votes<S: Slots>(slots: &mut S, committee: &Committee, epoch: Epoch) -> Result<Votes, S::Error> {
    let mut announced = Votes(0);
    for member in &committee.members {
        let attendance = Attendance::load(slots, member.id)?;
        // Excluded members leave others the choice of the next committee, so they do not count for it.
        if attendance.announced_in == Some(epoch) && attendance.excluded_in != Some(epoch) {
            announced += member.votes;
        }
    }
    Ok(announced)
}
