//! Steps of an epoch, at the end of the block that reaches them (validators.md §3.2).

use corniche_staking::{
    Slots, calendar,
    record::{Committee, Header},
};
use corniche_state::{Changes, Overlay, StateView};
use corniche_types::{Address, B256, Genesis, Height, NextEpoch, STAKING_ADDRESS, StakingParameters, TimestampMs, U256};
use std::convert::Infallible;

/// Runs the steps that the block at `height` reaches with its `time`. `changes` are those of the block so far. Returns the next
/// epoch if the block is the last one of its epoch.
pub(super) fn run(
    genesis: &Genesis,
    view: &dyn StateView,
    changes: &mut Changes,
    height: Height,
    time: TimestampMs,
) -> Option<NextEpoch> {
    let parameters = genesis.staking.as_ref().filter(|parameters| !parameters.never_ends())?;
    match run_steps(genesis, parameters, &mut BlockSlots { view, changes }, height, time) {
        Ok(next) => next,
        Err(never) => match never {},
    }
}

fn run_steps(
    genesis: &Genesis,
    parameters: &StakingParameters,
    slots: &mut BlockSlots<'_>,
    height: Height,
    time: TimestampMs,
) -> Result<Option<NextEpoch>, Infallible> {
    let header = Header::load(slots)?;
    if calendar::freeze_time(&header, parameters).is_some_and(|freeze| time >= freeze) {
        calendar::freeze(slots, parameters)?;
    }
    if calendar::end_time(&header, parameters).is_none_or(|end| time < end) {
        return Ok(None);
    }
    // A frozen committee needs keys of the coin, and connections of its members, before it may take over.
    calendar::keep(slots, &[])?;
    let protocol_version = genesis.rules_at(height.next()).version;
    let hash = |epoch, committee: &Committee| committee.hash(genesis, epoch, protocol_version);
    let started = calendar::activate(slots, parameters, height, time, hash)?;
    for (address, reward) in started.rewards {
        slots.mint(address, reward);
    }
    let light_root = started.committee.light_root(genesis.fault_model());
    Ok(Some(NextEpoch { committee_hash: started.hash, light_root, protocol_version }))
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
