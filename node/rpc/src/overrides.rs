//! State overrides and block overrides of calls.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_rpc_types_eth::BlockOverrides;
use alloy_rpc_types_eth::state::{AccountOverride, StateOverride};
use corniche_api::{Reason, RpcError};
use corniche_state::{ABI_VERSION, Account, KECCAK_EMPTY, StateView};
use corniche_types::{ProtocolRules, STAKING_ADDRESS};
use corniche_vm::wasm::CompileError;
use corniche_vm::{BlockEnv, Vm, is_precompile};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Applies block overrides. Difficulty, blob price and block hashes are ignored: contracts here cannot read
/// them.
pub(crate) fn override_block(env: &mut BlockEnv, overrides: &BlockOverrides) -> Result<(), RpcError> {
    if overrides.beacon_root.is_some() {
        return Err(RpcError::invalid_params("block override \"beaconRoot\" is not supported for this RPC method"));
    }
    let number = |name: &str, value: U256| {
        u64::try_from(value).map_err(|_| RpcError::invalid_params(format!("block override \"{name}\" is above 2^64 - 1")))
    };
    if let Some(value) = overrides.number {
        env.number = number("number", value)?;
    }
    if let Some(value) = overrides.base_fee {
        env.base_fee = number("baseFeePerGas", value)?;
    }
    env.timestamp = overrides.time.unwrap_or(env.timestamp);
    env.gas_limit = overrides.gas_limit.unwrap_or(env.gas_limit);
    env.coinbase = overrides.coinbase.unwrap_or(env.coinbase);
    env.randomness = overrides.random.unwrap_or(env.randomness);
    Ok(())
}

/// State with some accounts replaced by the client's overrides.
pub(crate) struct OverriddenState {
    base: Arc<dyn StateView>,
    accounts: BTreeMap<Address, OverriddenAccount>,
    code: BTreeMap<B256, Bytes>,
    rules: &'static ProtocolRules,
}

struct OverriddenAccount {
    account: Account,
    /// True if slots without an override read as zero.
    replaces_storage: bool,
    storage: BTreeMap<B256, B256>,
}

impl OverriddenState {
    /// Adds the overridden code to `vm`. Preparing the code costs gas, which is taken from `gas`, the
    /// request's remaining gas.
    pub fn new(
        base: Arc<dyn StateView>,
        rules: &'static ProtocolRules,
        overrides: StateOverride,
        vm: &mut Vm,
        gas: &mut u64,
    ) -> Result<Self, RpcError> {
        let mut overridden = Self { base, accounts: BTreeMap::new(), code: BTreeMap::new(), rules };
        for (address, account_override) in overrides {
            if let Some(code) = account_override.code.as_ref().filter(|code| !code.is_empty()) {
                overridden.prepare_code(&address, code, vm, gas)?;
            }
            overridden.override_account(address, account_override)?;
        }
        Ok(overridden)
    }

    /// Prepares one override's code. Code used at several addresses is charged once.
    fn prepare_code(&mut self, address: &Address, code: &Bytes, vm: &mut Vm, gas: &mut u64) -> Result<(), RpcError> {
        let is_staking = *address == STAKING_ADDRESS && vm.staking().is_some();
        if is_precompile(address) || is_staking {
            let what = if is_staking { "the staking contract" } else { "a precompile" };
            return Err(RpcError::invalid_params(format!("state override: {address} is {what} and cannot have other code")));
        }
        if self.code.contains_key(&keccak256(code)) {
            return Ok(());
        }
        *gas -= vm.add_override(self.rules.gas_version, code, *gas).map_err(|error| match error {
            CompileError::OutOfGas { needed } => Reason::OutOfGas.with(format!(
                "checking and compiling the code supposed at {address} takes {needed} gas, {gas} are left of this node's cap"
            )),
            CompileError::Fault(fault) | CompileError::Start(fault) => {
                tracing::error!(%fault, "cannot compile the code of a state override");
                RpcError::internal("internal error")
            }
            CompileError::Invalid(_) | CompileError::Unpack(_) => {
                RpcError::invalid_params(format!("state override: the code supposed at {address} cannot run here: {error}"))
            }
        })?;
        Ok(())
    }

    fn override_account(&mut self, address: Address, account_override: AccountOverride) -> Result<(), RpcError> {
        if account_override.move_precompile_to.is_some() {
            return Err(RpcError::invalid_params("state override: movePrecompileToAddress is not supported"));
        }
        if account_override.state.is_some() && account_override.state_diff.is_some() {
            return Err(RpcError::invalid_params(format!("account {address} has both 'state' and 'stateDiff'")));
        }
        let mut account = self.base.account(&address).unwrap_or_default();
        account.nonce = account_override.nonce.unwrap_or(account.nonce);
        account.balance = account_override.balance.unwrap_or(account.balance);
        if let Some(code) = account_override.code {
            account.code_hash = if code.is_empty() { KECCAK_EMPTY } else { keccak256(&code) };
            (account.abi_version, account.gas_version) =
                if code.is_empty() { (0, 0) } else { (ABI_VERSION, self.rules.gas_version) };
            self.code.insert(account.code_hash, code);
        }
        let replaces_storage = account_override.state.is_some();
        let storage = account_override.state.or(account_override.state_diff).unwrap_or_default().into_iter().collect();
        self.accounts.insert(address, OverriddenAccount { account, replaces_storage, storage });
        Ok(())
    }
}

impl StateView for OverriddenState {
    fn account(&self, address: &Address) -> Option<Account> {
        match self.accounts.get(address) {
            Some(account_override) => {
                (account_override.account != Account::default()).then(|| account_override.account.clone())
            }
            None => self.base.account(address),
        }
    }

    fn storage(&self, address: &Address, slot: &B256) -> B256 {
        let Some(account_override) = self.accounts.get(address) else { return self.base.storage(address, slot) };
        match account_override.storage.get(slot) {
            Some(value) => *value,
            None if account_override.replaces_storage => B256::ZERO,
            None => self.base.storage(address, slot),
        }
    }

    fn code(&self, hash: &B256) -> Option<Bytes> {
        self.code.get(hash).cloned().or_else(|| self.base.code(hash))
    }

    fn interrupted(&self) -> bool {
        self.base.interrupted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_state::{Changes, State};
    use corniche_types::Height;
    use corniche_vm::VmConfig;
    use corniche_vm::wasm::NoCache;

    #[test]
    fn overrides_replace_named_values_only() {
        let address = Address::repeat_byte(1);
        let slot = |byte| B256::repeat_byte(byte);
        let state = State::default();
        let mut changes = Changes::default();
        changes.storage.insert((address, slot(1)), slot(7));
        changes.storage.insert((address, slot(2)), slot(8));
        state.apply(Height(0), &changes);
        let mut vm = Vm::new(&VmConfig { executors: 1, callers: 1, ..VmConfig::default() }, Arc::new(NoCache)).unwrap();
        let mut with_override = |account_override| {
            let overrides = [(address, account_override)].into_iter().collect();
            OverriddenState::new(Arc::new(state.latest()), ProtocolRules::LATEST, overrides, &mut vm, &mut 1_000_000).unwrap()
        };
        let module =
            r#"(module (memory (export "memory") 1) (func (export "user_entrypoint") (param i32) (result i32) i32.const 0))"#;
        let code = Bytes::from(wat::parse_str(module).unwrap());
        let account_override = AccountOverride::default().with_balance(U256::from(5)).with_code(code.clone());
        let view = with_override(account_override.clone());
        let account = view.account(&address).unwrap();
        assert_eq!((account.nonce, account.balance), (0, U256::from(5)));
        assert_eq!(view.code(&account.code_hash).unwrap(), code);
        assert_eq!(account.code_hash, keccak256(&code));
        assert_eq!(view.account(&Address::repeat_byte(2)), None);
        let slots = |view: &OverriddenState| [1, 2].map(|byte| view.storage(&address, &slot(byte)));
        assert_eq!(slots(&view), [slot(7), slot(8)]);
        assert_eq!(slots(&with_override(account_override.clone().with_state([(slot(1), slot(9))]))), [slot(9), B256::ZERO]);
        assert_eq!(slots(&with_override(account_override.with_state_diff([(slot(1), slot(9))]))), [slot(9), slot(8)]);
    }

    #[test]
    fn block_overrides_replace_named_fields() {
        let env = BlockEnv {
            rules: corniche_types::ProtocolRules::LATEST,
            chain_id: 1,
            number: 2,
            timestamp: 3,
            base_fee: 4,
            coinbase: Address::repeat_byte(5),
            gas_limit: 6,
            randomness: B256::repeat_byte(7),
        };
        let apply = |json: &str| {
            let mut overridden = env.clone();
            override_block(&mut overridden, &serde_json::from_str(json).unwrap()).map(|()| overridden)
        };
        assert_eq!(apply("{}").unwrap(), env);
        assert_eq!(apply(r#"{"number": "0x14"}"#).unwrap(), BlockEnv { number: 20, ..env.clone() });
        assert_eq!(
            apply(r#"{"time": "0x1e", "gasLimit": "0x3c"}"#).unwrap(),
            BlockEnv { timestamp: 30, gas_limit: 60, ..env.clone() }
        );
        assert_eq!(apply(r#"{"baseFeePerGas": "0x0"}"#).unwrap(), BlockEnv { base_fee: 0, ..env.clone() });
        let address = Address::repeat_byte(9);
        let overridden = apply(&format!(r#"{{"feeRecipient": "{address}", "prevRandao": "{}"}}"#, B256::ZERO)).unwrap();
        assert_eq!(overridden, BlockEnv { coinbase: address, randomness: B256::ZERO, ..env.clone() });
        let large = format!(r#"{{"number": "{:#x}"}}"#, U256::MAX);
        for bad in [large, large_fee(), format!(r#"{{"beaconRoot": "{}"}}"#, B256::ZERO)] {
            assert_eq!(apply(&bad).unwrap_err().code, -32602, "{bad}");
        }
    }

    fn large_fee() -> String {
        format!(r#"{{"baseFeePerGas": "{:#x}"}}"#, U256::MAX)
    }
}
