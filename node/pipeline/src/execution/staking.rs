//! The staking contract at the end of a block: notices, then the steps of an epoch that the block reaches (validators.md §2.7, §3.2).

use super::Candidate;
use corniche_staking::{
    Notice, NoticeKind, Slots, calendar,
    coin::Need,
    record::{CoinKeys, Committee, Header},
    upgrade,
};
use corniche_state::{Changes, Overlay, StateView};
use corniche_types::{
    Address, B256, Genesis, Height, NextEpoch, STAKING_ADDRESS, SkipReason, Skipped, StakingParameters, TimestampMs, U256,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

/// Dealings that this process checked in blocks, and the time for them.
static DEALING_CHECKS: AtomicU64 = AtomicU64::new(0);
static DEALING_CHECK_US: AtomicU64 = AtomicU64::new(0);

/// Number of dealings that this process checked in blocks, and the microseconds for them. For metrics.
pub fn dealing_checks() -> (u64, u64) {
    (DEALING_CHECKS.load(Ordering::Relaxed), DEALING_CHECK_US.load(Ordering::Relaxed))
}

/// End of a block.
pub(super) struct BlockEnd<'a> {
    pub genesis: &'a Genesis,
    pub height: Height,
    /// Version of the block's rules.
    pub protocol_version: u32,
    pub time: TimestampMs,
    pub candidates: &'a [Candidate],
    /// Those candidates that were not executed.
    pub skipped: &'a mut [Skipped],
    /// State before the block, and its changes so far.
    pub view: &'a dyn StateView,
    pub changes: &'a mut Changes,
}

/// Result of the last block of an epoch.
pub(super) struct EpochEnd {
    pub next: NextEpoch,
    /// Recipients of fees in the next epoch, by index of the members.
    pub fee_addresses: Vec<Address>,
}

impl BlockEnd<'_> {
    /// Applies the block's notices, and runs the steps of the epoch that it reaches. `None` unless the block is the last one of
    /// its epoch.
    pub fn run(self) -> Option<EpochEnd> {
        let parameters = self.genesis.epochs()?;
        let Self { genesis, height, protocol_version, time, candidates, skipped, view, changes } = self;
        let mut slots = BlockSlots { view, changes };
        let applied = apply_notices(genesis, parameters, &mut slots, time, candidates, skipped);
        match applied.and_then(|()| run_steps(genesis, parameters, &mut slots, (height, protocol_version), time)) {
            Ok(next) => next,
            Err(never) => match never {},
        }
    }
}

/// Applies notices in order, up to the limit of their kind (N2, N3). They are among the skipped (N4). After one bad signature a
/// proposer's other notices are refused, so that one proposer cannot make others check many signatures.
fn apply_notices(
    genesis: &Genesis,
    parameters: &StakingParameters,
    slots: &mut BlockSlots<'_>,
    time: TimestampMs,
    candidates: &[Candidate],
    skipped: &mut [Skipped],
) -> Result<(), Infallible> {
    let (mut applied, mut distrusted) = (BTreeMap::<NoticeKind, usize>::new(), BTreeSet::new());
    for skipped in skipped.iter_mut().filter(|skipped| skipped.reason == SkipReason::Undecodable) {
        let Some(Candidate { author, raw, .. }) = candidates.get(skipped.position as usize) else { continue };
        let Some(notice) = Notice::decode(raw) else { continue };
        skipped.reason = SkipReason::NoticeRefused;
        let applied = applied.entry(notice.kind()).or_default();
        let is_full = *applied >= notice.kind().max_per_block();
        let takes_kind = notice.kind() != NoticeKind::Announce || calendar::takes_announcements(slots, parameters, time)?;
        if is_full || !takes_kind || distrusted.contains(author) || !notice.is_missing(slots, parameters, genesis.chain_id)? {
            continue;
        }
        let may_be_outdated = notice.may_be_outdated(slots)?;
        let Some(notice) = notice.verify(slots, parameters, genesis.chain_id)? else {
            distrusted.extend((!may_be_outdated).then_some(*author));
            continue;
        };
        // For metrics only: no result depends on the time.
        let (started, kind) = (Instant::now(), notice.kind());
        let burnt = notice.apply(slots, parameters, time)?;
        if kind == NoticeKind::Deal {
            DEALING_CHECKS.fetch_add(1, Ordering::Relaxed);
            DEALING_CHECK_US.fetch_add(u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        if let Some(burnt) = burnt {
            slots.burn(burnt);
            *applied += 1;
            skipped.reason = SkipReason::Notice;
        }
    }
    Ok(())
}

fn run_steps(
    genesis: &Genesis,
    parameters: &StakingParameters,
    slots: &mut BlockSlots<'_>,
    (height, running_version): (Height, u32),
    time: TimestampMs,
) -> Result<Option<EpochEnd>, Infallible> {
    let header = Header::load(slots)?;
    calendar::advance(slots, parameters, Need::of(genesis), genesis.chain_id, time)?;
    if calendar::end_time(header.start, parameters).is_none_or(|end| time < end) {
        return Ok(None);
    }
    // After the other steps, which decide about the next committee, and before the next epoch begins.
    let protocol_version = upgrade::next_version(slots, running_version)?;
    let hash = |epoch, committee: &Committee, coin: Option<&CoinKeys>| committee.hash(genesis, epoch, protocol_version, coin);
    let started = calendar::activate(slots, parameters, height, time, hash)?;
    for (address, reward) in started.rewards {
        slots.mint(address, reward);
    }
    let light_root = started.committee.light_root(genesis.fault_model());
    let next = NextEpoch { committee_hash: started.hash, light_root, protocol_version };
    let fee_addresses = started.committee.members.iter().map(|member| member.fee).collect();
    Ok(Some(EpochEnd { next, fee_addresses }))
}

/// The contract's slots after a block's transactions. Everything that is written becomes part of the block's changes.
struct BlockSlots<'a> {
    view: &'a dyn StateView,
    changes: &'a mut Changes,
}

impl BlockSlots<'_> {
    fn overlay(&self) -> Overlay<'_> {
        Overlay { base: self.view, changes: self.changes }
    }

    /// Takes wei from the contract's balance.
    fn burn(&mut self, amount: U256) {
        if !amount.is_zero()
            && let Some(mut account) = self.overlay().account(&STAKING_ADDRESS)
        {
            account.balance = account.balance.saturating_sub(amount);
            self.changes.accounts.insert(STAKING_ADDRESS, Some(account));
        }
    }

    fn mint(&mut self, address: Address, amount: U256) {
        let mut account = self.overlay().account(&address).unwrap_or_default();
        account.balance = account.balance.saturating_add(amount);
        self.changes.accounts.insert(address, Some(account));
    }
}

impl Slots for BlockSlots<'_> {
    type Error = Infallible;

    fn load(&mut self, slot: B256) -> Result<B256, Infallible> {
        Ok(self.overlay().storage(&STAKING_ADDRESS, &slot))
    }

    fn store(&mut self, slot: B256, value: B256) -> Result<(), Infallible> {
        self.changes.storage.insert((STAKING_ADDRESS, slot), value);
        Ok(())
    }

    fn has_code(&mut self, account: Address) -> Result<bool, Infallible> {
        Ok(self.overlay().account_code(&account).is_contract())
    }
}
