//! Calls of the staking contract by the owners of stake.

use crate::genesis::{CHAIN_ID, KeySet, Secrets};
use alloy_consensus::TxEip1559;
use alloy_sol_types::SolCall;
use corniche_crypto::{EthereumKey, VerifiedTransaction};
use corniche_staking::{
    SigningKeys, StateSlots, ValidatorId,
    interface::{Staking, SubmittedKeys},
    record::KeyOwner,
    sign_keys,
};
use corniche_state::State;
use corniche_types::{STAKING_ADDRESS, StakingParameters, Transaction, TxKind, U256, Votes, keccak256};

/// More than any of the calls needs.
const GAS: u64 = 3_000_000;

/// Stake for this many votes.
fn stake(votes: Votes) -> U256 {
    StakingParameters::default().vote_wei * U256::from(votes.0)
}

/// Registers a node with stake for these votes.
pub fn register(secrets: &Secrets, node: usize, votes: Votes, nonce: u64) -> VerifiedTransaction {
    let (owner, keys) = (secrets.owner(node), submitted_keys(secrets, node, KeySet::First));
    let call = Staking::registerCall { keys, fee: secrets.fee_address(node), operator: owner.address() };
    sign(&owner, nonce, stake(votes), call.abi_encode())
}

/// Withdraws the stake of a validator for these votes.
pub fn unbond(secrets: &Secrets, node: usize, id: ValidatorId, votes: Votes, nonce: u64) -> VerifiedTransaction {
    let call = Staking::unbondCall { id: id.0, amount: stake(votes) };
    sign(&secrets.owner(node), nonce, U256::ZERO, call.abi_encode())
}

/// Replaces the keys of a validator by its next ones.
pub fn rotate(secrets: &Secrets, node: usize, id: ValidatorId, nonce: u64) -> VerifiedTransaction {
    let call = Staking::rotateCall { id: id.0, keys: submitted_keys(secrets, node, KeySet::Next) };
    sign(&secrets.owner(node), nonce, U256::ZERO, call.abi_encode())
}

fn submitted_keys(secrets: &Secrets, node: usize, set: KeySet) -> SubmittedKeys {
    let (consensus, bls, network) = (secrets.consensus_key(node, set), secrets.bls_key(node, set), secrets.network_key(node));
    let coin = secrets.coin_key(node, set).public();
    let signing = SigningKeys { consensus: &consensus, bls: &bls, network: &network, coin };
    sign_keys(&signing, secrets.owner(node).address(), CHAIN_ID)
}

/// Number of a node in the contract; `None` if it is not registered.
pub fn id_of(secrets: &Secrets, node: usize, state: &State) -> Option<ValidatorId> {
    let key = keccak256(secrets.consensus_key(node, KeySet::First).public());
    let owner = KeyOwner::load(&mut StateSlots(&state.latest()), key).expect("invariant: the newest state is readable");
    owner.map(|owner| owner.id)
}

fn sign(owner: &EthereumKey, nonce: u64, value: U256, input: Vec<u8>) -> VerifiedTransaction {
    let raw = owner.sign(TxEip1559 {
        chain_id: CHAIN_ID,
        nonce,
        gas_limit: GAS,
        max_fee_per_gas: 10,
        max_priority_fee_per_gas: 1,
        to: TxKind::Call(STAKING_ADDRESS),
        value,
        input: input.into(),
        ..TxEip1559::default()
    });
    let transaction = Transaction::decode(raw).expect("signed here");
    VerifiedTransaction::verify(transaction, CHAIN_ID).expect("signed here")
}
