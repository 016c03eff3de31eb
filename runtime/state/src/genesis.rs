//! The state of a genesis, as changes to the empty state.

use crate::{ABI_VERSION, Account, Changes, KECCAK_EMPTY};
use corniche_types::{Genesis, GenesisAccount, Height, keccak256};

/// Returns the state at height 0. Code in the genesis counts as deployed under the rules of block 1.
pub fn genesis_changes(genesis: &Genesis) -> Changes {
    let mut changes = Changes::default();
    let gas_version = genesis.rules_at(Height(1)).gas_version;
    for (address, given) in &genesis.accounts {
        let account = genesis_account(given, gas_version);
        if account.has_code() {
            changes.code.insert(account.code_hash, given.code.clone());
        }
        if !account.is_empty() {
            changes.accounts.insert(*address, Some(account));
        }
        let slots = given.storage.iter().filter(|(_, value)| !value.is_zero());
        changes.storage.extend(slots.map(|(slot, value)| ((*address, *slot), *value)));
    }
    changes
}

fn genesis_account(given: &GenesisAccount, gas_version: u8) -> Account {
    let (code_hash, abi_version, gas_version) =
        if given.code.is_empty() { (KECCAK_EMPTY, 0, 0) } else { (keccak256(&given.code), ABI_VERSION, gas_version) };
    Account { nonce: given.nonce, balance: given.balance, code_hash, abi_version, gas_version }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, B256, U256, bytes};
    use corniche_types::{EngineConfig, FeeRules, SignatureChecks, TimestampMs};

    #[test]
    fn genesis_state() {
        let rich = GenesisAccount { balance: U256::from(7), ..Default::default() };
        let contract = GenesisAccount {
            code: bytes!("0061736d"),
            storage: [(B256::with_last_byte(1), B256::with_last_byte(9)), (B256::with_last_byte(2), B256::ZERO)].into(),
            ..Default::default()
        };
        let accounts = [
            (Address::with_last_byte(1), rich),
            (Address::with_last_byte(2), contract),
            (Address::with_last_byte(3), GenesisAccount::default()),
        ];
        let genesis = Genesis {
            protocol_version: 1,
            upgrades: Vec::new(),
            chain_id: 1,
            currency: "COR".into(),
            timestamp_ms: TimestampMs(0),
            block_ms: 0,
            block_gas_limit: 30_000_000,
            batch_bytes: 1 << 20,
            batch_gas: 1 << 20,
            epoch_blocks: 1,
            fees: FeeRules { initial_base_fee: 1, target_gas_per_second: 1 },
            engine: EngineConfig { name: "mahi-mahi".into(), parameters: Default::default() },
            validators: vec![],
            coin_shares: vec![],
            coin_public_key: Default::default(),
            accounts: accounts.into(),
            signatures: SignatureChecks::Everyone,
        };
        let changes = genesis_changes(&genesis);
        assert_eq!(changes.accounts.len(), 2, "an account with nothing in it does not exist");
        let contract = changes.accounts[&Address::with_last_byte(2)].as_ref().unwrap();
        assert_eq!((contract.abi_version, contract.gas_version), (ABI_VERSION, 1));
        assert_eq!(changes.code[&contract.code_hash], bytes!("0061736d"));
        assert_eq!(changes.storage.len(), 1, "a zero slot does not exist");
    }
}
