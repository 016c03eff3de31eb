//! Random contracts and a block that calls them, generated from a fuzzer's bytes or from a seed.
//!
//! The contracts come first and take most of the bytes. The rest determines the transactions: sender, contract, input
//! and gas. Missing bytes are zeros. Words of a call's input are numbers and the addresses of the contracts, which is
//! how contracts find each other.

use super::generate;
use crate::support::test_chain::{KEYS, contracts};
use crate::support::{BASE_FEE, draft, key};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256};
use arbitrary::{Result, Unstructured};

/// Number of bytes generated from a seed.
const BYTES: usize = 10_000;
/// More than compiling any of the modules costs.
const DEPLOYMENT_GAS: u64 = 20_000_000;
const CALL_GAS: u64 = 400_000;

pub struct Case {
    /// Deploys the contracts from the last key, so their addresses are known.
    pub deployments: Vec<Bytes>,
    /// Calls them, and deploys some of them again.
    pub calls: Vec<Bytes>,
    /// Parameters of the parallel run.
    pub workers: usize,
    pub schedule: u64,
    pub threads: usize,
}

/// Returns the bytes of a seed.
pub fn bytes(seed: u64) -> Vec<u8> {
    generate::stretch(seed, BYTES)
}

impl Case {
    /// Returns `None` if the bytes contain no deployable contract.
    pub fn new(bytes: &[u8]) -> Result<Option<Self>> {
        let entropy = &mut Unstructured::new(bytes);
        let mut modules: Vec<Bytes> = Vec::new();
        for _ in 0..entropy.int_in_range(2..=4)? {
            let length = entropy.int_in_range(300..=2_500)?.min(entropy.len());
            modules.extend(generate::from_bytes(entropy.bytes(length)?).map(Bytes::from));
        }
        if modules.is_empty() {
            return Ok(None);
        }
        let deploy = |(nonce, module): (usize, &Bytes)| key(KEYS).sign(deployment(nonce as u64, module));
        let deployments: Vec<Bytes> = modules.iter().enumerate().map(deploy).collect();
        let mut callers = Callers { nonces: [0; KEYS as usize], targets: Vec::new(), modules };
        callers.targets.extend((0..deployments.len()).map(|nonce| key(KEYS).address().create(nonce as u64)));
        let count = entropy.int_in_range(4..=14)?;
        let calls = (0..count).map(|_| callers.transaction(entropy)).collect::<Result<_>>()?;
        Ok(Some(Self {
            deployments,
            calls,
            workers: entropy.int_in_range(2..=8)?,
            schedule: entropy.arbitrary()?,
            threads: *entropy.choose(&[2, 4, 8])?,
        }))
    }
}

fn deployment(nonce: u64, module: &Bytes) -> TxEip1559 {
    TxEip1559 { input: module.clone(), gas_limit: DEPLOYMENT_GAS, ..draft(nonce, TxKind::Create) }
}

/// Senders' nonces, and the contracts to call.
struct Callers {
    nonces: [u64; KEYS as usize],
    /// Includes contracts that an earlier transaction of the block deploys.
    targets: Vec<Address>,
    modules: Vec<Bytes>,
}

impl Callers {
    fn transaction(&mut self, entropy: &mut Unstructured<'_>) -> Result<Bytes> {
        let who = entropy.int_in_range(0..=KEYS - 1)?;
        let nonce = &mut self.nonces[who as usize];
        let mut transaction = match entropy.int_in_range(0..=15)? {
            0 => {
                self.targets.push(key(who).address().create(*nonce));
                deployment(*nonce, entropy.choose(&self.modules)?)
            }
            1 => draft(*nonce, *entropy.choose(&[key(1).address(), contracts()[0], Address::ZERO])?),
            2 => draft(*nonce, *entropy.choose(&self.targets)?),
            _ => {
                let to = *entropy.choose(&self.targets)?;
                let words = (0..entropy.int_in_range(4..=8)?).map(|_| word(entropy, &self.targets));
                let mut input = words.collect::<Result<Vec<B256>>>()?.concat();
                // Selects the functions to run, and adds numbers.
                input.extend(entropy.arbitrary::<[[u8; 32]; 5]>()?.concat());
                TxEip1559 { input: input.into(), gas_limit: CALL_GAS, ..draft(*nonce, to) }
            }
        };
        if transaction.to.is_call() {
            transaction.value = U256::from(entropy.int_in_range(0..=3)?);
            if entropy.ratio(1, 6)? {
                transaction.gas_limit = entropy.int_in_range(21_000..=120_000)?;
            }
        }
        match entropy.int_in_range(0..=19)? {
            // The sender's next transaction has this nonce again, or a nonce with a gap.
            0 => {}
            1 => *nonce += 2,
            2 => transaction.max_fee_per_gas = u128::from(BASE_FEE) - 1,
            _ => *nonce += 1,
        }
        transaction.max_priority_fee_per_gas = entropy.int_in_range(0..=3)?;
        Ok(key(who).sign(transaction))
    }
}

/// Returns the address of a contract, a small number in storage format, or random bytes.
fn word(entropy: &mut Unstructured<'_>, targets: &[Address]) -> Result<B256> {
    Ok(match entropy.int_in_range(0..=3)? {
        0 | 1 => {
            let mut word = B256::ZERO;
            word[..20].copy_from_slice(entropy.choose(targets)?.as_slice());
            word
        }
        2 => B256::with_last_byte(entropy.int_in_range(0..=3)?),
        _ => B256::from(entropy.arbitrary::<[u8; 32]>()?),
    })
}
