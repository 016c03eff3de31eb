//! State at genesis: the accounts of the genesis, and the contract with the first validators, which are the first committee.

use crate::{
    Keys,
    record::{CoinRef, Committee, FreezeNumber, Header, Member, NewValidator, PastCommittee, Phase},
};
use alloy_primitives::{Address, B256, FixedBytes, U256};
use corniche_state::{ABI_VERSION, Account, Changes, KECCAK_EMPTY};
use corniche_types::{
    Epoch, Genesis, GenesisAccount, Height, STAKING_ADDRESS, StakingParameters, TimestampMs, ValidatorInfo, Votes, keccak256,
};
use std::{collections::BTreeMap, convert::Infallible};

/// A validator of the first committee. Its number is its position in the genesis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenesisValidator {
    /// Owner of the stake, and operator.
    pub owner: Address,
    /// Recipient of fees and rewards.
    pub fee: Address,
    /// Its keys. The caller checks them and their proofs.
    pub keys: Keys,
    /// Its votes; each one has `vote_wei` of stake.
    pub votes: Votes,
}

impl GenesisValidator {
    /// Returns `None` for a validator without stake, and for keys of another length.
    pub fn new(info: &ValidatorInfo) -> Option<Self> {
        let stake = info.stake.as_ref()?;
        let keys = Keys {
            consensus: info.consensus_key,
            bls: fixed(&info.bls_key)?,
            network: info.network_key,
            coin: fixed(&stake.coin_key)?,
        };
        Some(Self { owner: stake.owner, fee: info.fee_address, keys, votes: info.votes })
    }
}

fn fixed<const N: usize>(bytes: &[u8]) -> Option<FixedBytes<N>> {
    bytes.try_into().ok()
}

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
    if let Some(parameters) = &genesis.staking {
        let validators: Vec<_> = genesis.validators.iter().filter_map(GenesisValidator::new).collect();
        add_staking(&mut changes, parameters, genesis.timestamp_ms, &validators, |_| genesis.committee_hash());
    }
    changes
}

fn genesis_account(given: &GenesisAccount, gas_version: u8) -> Account {
    let (code_hash, abi_version, gas_version) =
        if given.code.is_empty() { (KECCAK_EMPTY, 0, 0) } else { (keccak256(&given.code), ABI_VERSION, gas_version) };
    Account { nonce: given.nonce, balance: given.balance, code_hash, abi_version, gas_version }
}

/// Adds the contract with the first validators to the state at height 0. `hash` returns the hash of the first committee.
pub fn add_staking(
    changes: &mut Changes,
    parameters: &StakingParameters,
    start: TimestampMs,
    validators: &[GenesisValidator],
    hash: impl FnOnce(&Committee) -> B256,
) {
    let (slots, balance) = genesis_slots(parameters, start, validators, hash);
    // The nonce is that of a contract, so the account exists without a balance, too.
    let account = Account { nonce: 1, balance, ..Account::default() };
    changes.accounts.insert(STAKING_ADDRESS, Some(account));
    changes.storage.extend(slots.into_iter().map(|(slot, value)| ((STAKING_ADDRESS, slot), value)));
}

/// Returns the contract's slots and its balance at genesis. `hash` returns the hash of the first committee.
pub fn genesis_slots(
    parameters: &StakingParameters,
    start: TimestampMs,
    validators: &[GenesisValidator],
    hash: impl FnOnce(&Committee) -> B256,
) -> (BTreeMap<B256, B256>, U256) {
    let mut slots = BTreeMap::new();
    match write(&mut slots, parameters, start, validators, hash) {
        Ok(balance) => (slots, balance),
        Err(never) => match never {},
    }
}

fn write(
    slots: &mut BTreeMap<B256, B256>,
    parameters: &StakingParameters,
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
    let committee = Committee { unit: parameters.vote_wei, frozen_in: FreezeNumber::GENESIS, coin: CoinRef::GENESIS, members };
    committee.store(slots, Epoch(0))?;
    PastCommittee::store(slots, Epoch(0), hash(&committee), &committee)?;
    let (epoch, start_height, phase) = (Epoch(0), Height(0), Phase::Open);
    Header { epoch, start, start_height, frozen_in: FreezeNumber::GENESIS, phase }.store(slots)?;
    Ok(balance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::bytes;
    use corniche_types::{EngineConfig, FeeRules, SignatureChecks};

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
            staking: None,
            coin_draft: None,
            multicast: None,
        };
        let changes = genesis_changes(&genesis);
        assert_eq!(changes.accounts.len(), 2, "an account with nothing in it does not exist");
        let contract = changes.accounts[&Address::with_last_byte(2)].as_ref().unwrap();
        assert_eq!((contract.abi_version, contract.gas_version), (ABI_VERSION, 1));
        assert_eq!(changes.code[&contract.code_hash], bytes!("0061736d"));
        assert_eq!(changes.storage.len(), 1, "a zero slot does not exist");
    }
}
