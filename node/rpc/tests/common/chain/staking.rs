//! The chain's staking contract.

use super::{ChainBlock, FUNDED, GENESIS_SECONDS, TestChain, vm};
use alloy_primitives::{Address, B256, FixedBytes, U256};
use corniche_staking::{GenesisValidator, Keys};
use corniche_state::Changes;
use corniche_types::{STAKING_ADDRESS, StakingParameters, TimestampMs, Votes};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Epochs of a minute, with announcements from second 40 and the freeze at second 50.
pub fn staking_parameters() -> StakingParameters {
    StakingParameters { epoch_ms: 60_000, closing_ms: 10_000, unbonding_epochs: 2, ..StakingParameters::default() }
}

/// Adds the contract with this number of validators, with two votes each, to a genesis.
pub fn add_staking(genesis: &mut Changes, validators: u32) {
    let validators: Vec<_> = (0..validators).map(validator).collect();
    let start = TimestampMs(GENESIS_SECONDS * 1000);
    corniche_staking::add_staking(genesis, &staking_parameters(), start, &validators, |_| B256::repeat_byte(0xc0));
}

fn validator(number: u32) -> GenesisValidator {
    let word = B256::from(U256::from(number + 1));
    let keys = Keys {
        consensus: word,
        bls: FixedBytes::left_padding_from(word.as_slice()),
        network: word,
        coin: FixedBytes::left_padding_from(word.as_slice()),
    };
    GenesisValidator { owner: FUNDED, fee: Address::from_word(word), keys, votes: Votes(2) }
}

impl TestChain {
    /// Chain whose genesis has no staking.
    pub fn without_staking() -> Self {
        Self { vm: vm(None), ..Self::new() }
    }

    /// Adds a block after which the contract's slots are changed like this.
    pub fn stake(&self, change: impl FnOnce(&mut BTreeMap<B256, B256>)) -> Arc<ChainBlock> {
        let mut all = Changes::default();
        self.changes.read().unwrap().iter().for_each(|block| all.merge(block.clone()));
        let own = all.storage.into_iter().filter(|((address, _), value)| *address == STAKING_ADDRESS && !value.is_zero());
        let before: BTreeMap<B256, B256> = own.map(|((_, slot), value)| (slot, value)).collect();
        let mut after = before.clone();
        change(&mut after);
        let mut changes = Changes::default();
        for slot in before.keys().chain(after.keys()) {
            changes.storage.insert((STAKING_ADDRESS, *slot), after.get(slot).copied().unwrap_or_default());
        }
        self.push(&[], Vec::new(), changes)
    }
}
