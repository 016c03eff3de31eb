//! Makes a genesis: [`make_network`] if all keys are created in one place, [`make_genesis`] for validators with
//! their own keys.
//!
//! The creator of a genesis deals the shares of the threshold coin, and so knows the coin. Until there is a
//! distributed key generation, the dealer must be trusted not to predict leaders. With validators' own keys,
//! the dealer learns no other secret.

use crate::keys::ValidatorKeys;
use anyhow::ensure;
use corniche_console::dev_accounts::dev_accounts;
use corniche_crypto::{CoinSecretShare, GenesisKeyError};
use corniche_types::{
    Address, B256, Bytes, EngineConfig, FeeRules, Genesis, GenesisAccount, MulticastGroup, ProtocolRules, SignatureChecks,
    StakingParameters, TimestampMs, U256, ValidatorInfo, Votes,
};
use std::{
    collections::BTreeMap,
    ops::Deref,
    time::{SystemTime, UNIX_EPOCH},
};

/// Wei per unit of the native currency.
const ETHER: u128 = 1_000_000_000_000_000_000;

/// Parameters of a network. Equal parameters give the same network, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkSpec {
    /// 1 to 1000.
    pub validators: usize,
    /// Votes of each validator; empty: one each.
    pub votes: Vec<Votes>,
    /// `None` derives it from the seed, so that wallets do not confuse two development networks.
    pub chain_id: Option<u64>,
    pub currency: String,
    pub timestamp_ms: TimestampMs,
    pub block_ms: u64,
    pub block_gas_limit: u64,
    pub batch_bytes: u32,
    pub batch_gas: u64,
    pub epoch_blocks: u64,
    pub fees: FeeRules,
    pub engine: EngineConfig,
    pub accounts: BTreeMap<Address, GenesisAccount>,
    pub signatures: SignatureChecks,
    /// `None` for a chain without stake.
    pub staking: Option<StakingParameters>,
    /// Sequencers, for an engine that needs them.
    pub multicast: Option<MulticastGroup>,
    /// Every key is derived from it: secret, except in tests.
    pub seed: [u8; 32],
}

impl NetworkSpec {
    /// Four validators on this engine, a random seed, funded development accounts.
    pub fn new(engine: EngineConfig) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            validators: 4,
            votes: Vec::new(),
            chain_id: None,
            currency: "CRN".into(),
            timestamp_ms: TimestampMs(u64::try_from(now.as_millis()).unwrap_or(u64::MAX)),
            block_ms: 50,
            block_gas_limit: 30_000_000,
            batch_bytes: 1 << 20,
            batch_gas: 30_000_000,
            epoch_blocks: 1_000_000_000,
            fees: FeeRules { initial_base_fee: 1_000_000_000, target_gas_per_second: 50_000_000 },
            engine,
            accounts: dev_accounts().into_iter().map(|account| (account.address, funded(10_000))).collect(),
            signatures: SignatureChecks::Everyone,
            staking: None,
            multicast: None,
            seed: B256::random().0,
        }
    }
}

/// Genesis whose keys are verified: the validators' proofs of possession, and that the coin's keys belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedGenesis(Genesis);

impl VerifiedGenesis {
    /// # Errors
    ///
    /// A key is invalid.
    pub fn new(genesis: Genesis) -> Result<Self, GenesisKeyError> {
        corniche_crypto::verify_genesis(&genesis)?;
        Ok(Self(genesis))
    }
}

impl Deref for VerifiedGenesis {
    type Target = Genesis;

    fn deref(&self) -> &Genesis {
        &self.0
    }
}

impl From<VerifiedGenesis> for Genesis {
    fn from(verified: VerifiedGenesis) -> Self {
        verified.0
    }
}

/// Genesis and the secrets of all its validators, in the order of the genesis.
#[derive(Clone, Debug)]
pub struct Network {
    pub genesis: Genesis,
    pub validators: Vec<ValidatorKeys>,
}

/// Creates every validator's keys and the genesis with them.
pub fn make_network(spec: &NetworkSpec) -> anyhow::Result<Network> {
    let seed = |index: usize| derive(&spec.seed, "validator", index);
    let mut validators: Vec<_> = (0..spec.validators).map(|index| ValidatorKeys::from_seed(seed(index))).collect();
    let (genesis, shares) = make_genesis(spec, validators.iter().map(ValidatorKeys::public).collect())?;
    for (keys, share) in validators.iter_mut().zip(shares) {
        keys.coin = Some(share);
    }
    Ok(Network { genesis, validators })
}

/// Creates the genesis for validators with their own keys; also returns their coin shares, in the same order.
pub fn make_genesis(spec: &NetworkSpec, validators: Vec<ValidatorInfo>) -> anyhow::Result<(Genesis, Vec<CoinSecretShare>)> {
    ensure!(
        !validators.is_empty() && validators.len() <= 1_000,
        "a network has 1 to 1000 validators, not {}",
        validators.len()
    );
    ensure!(
        spec.votes.is_empty() || spec.votes.len() == validators.len(),
        "{} validators need as many votes, got {}",
        validators.len(),
        spec.votes.len()
    );
    // Ignores `votes` in a validator's own file.
    let votes = spec.votes.iter().copied().chain(std::iter::repeat(Votes(1)));
    let entry = |(validator, votes): (ValidatorInfo, Votes)| {
        let stake = validator.stake.clone().filter(|_| spec.staking.is_some());
        ValidatorInfo { votes, stake, ..validator }
    };
    let validators = validators.into_iter().zip(votes).map(entry).collect();
    let mut genesis = Genesis {
        protocol_version: ProtocolRules::LATEST.version,
        upgrades: Vec::new(),
        chain_id: spec.chain_id.unwrap_or_else(|| derived_chain_id(&spec.seed)),
        currency: spec.currency.clone(),
        timestamp_ms: spec.timestamp_ms,
        block_ms: spec.block_ms,
        block_gas_limit: spec.block_gas_limit,
        batch_bytes: spec.batch_bytes,
        batch_gas: spec.batch_gas,
        epoch_blocks: spec.epoch_blocks,
        fees: spec.fees.clone(),
        engine: spec.engine.clone(),
        validators,
        coin_shares: Vec::new(),
        coin_public_key: Bytes::new(),
        accounts: spec.accounts.clone(),
        signatures: spec.signatures,
        staking: spec.staking.clone(),
        coin_draft: None,
        multicast: spec.multicast.clone(),
    };
    genesis.check_votes()?;
    let weights = genesis.weights();
    let deal = corniche_crypto::deal_coin(&weights, weights.quorum(), derive(&spec.seed, "coin", 0));
    (genesis.coin_public_key, genesis.coin_shares) = deal.public.to_genesis();
    Genesis::from_json(&genesis.to_json())?;
    corniche_crypto::verify_genesis(&genesis)?;
    Ok((genesis, deal.shares))
}

/// Account with this number of whole units.
pub fn funded(units: u64) -> GenesisAccount {
    GenesisAccount { balance: U256::from(units) * U256::from(ETHER), ..GenesisAccount::default() }
}

fn derive(seed: &[u8; 32], label: &str, index: usize) -> [u8; 32] {
    let index = (index as u64).to_le_bytes();
    corniche_crypto::digest(&[b"corniche-network/".as_slice(), label.as_bytes(), &index, seed].concat()).0
}

/// Ten decimal digits starting with 7: below 2^53, so that wallets accept it, and outside the range of public
/// chains.
fn derived_chain_id(seed: &[u8; 32]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = derive(seed, "chain-id", 0);
    7_000_000_000 + u64::from_le_bytes([a, b, c, d, e, f, g, h]) % 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::StakeKeys;
    use corniche_crypto::CoinKey;

    fn spec() -> NetworkSpec {
        let engine = EngineConfig { name: "any".into(), parameters: BTreeMap::new() };
        NetworkSpec { seed: [3; 32], timestamp_ms: TimestampMs(1_800_000_000_000), ..NetworkSpec::new(engine) }
    }

    #[test]
    fn genesis_is_deterministic() {
        let [one, two] = [spec(), spec()].map(|spec| make_network(&spec).unwrap());
        assert_eq!(one.genesis.hash(), two.genesis.hash());
        let other = make_network(&NetworkSpec { seed: [4; 32], ..spec() }).unwrap();
        assert_ne!(one.genesis.chain_id, other.genesis.chain_id);
        assert_ne!(one.genesis.committee_hash(), other.genesis.committee_hash());
    }

    #[test]
    fn keys_match_genesis() {
        let network = make_network(&spec()).unwrap();
        for (index, keys) in network.validators.iter().enumerate() {
            assert_eq!(keys.index_in(&network.genesis).unwrap().unwrap().as_usize(), index);
            assert_eq!(network.genesis.validators[index], ValidatorInfo { stake: None, ..keys.public() });
        }
        let stranger = ValidatorKeys::from_seed([1; 32]);
        assert_eq!(stranger.index_in(&network.genesis).unwrap(), None);
    }

    #[test]
    fn keys_match_genesis_with_stake() {
        let staking = Some(StakingParameters::default());
        let network = make_network(&NetworkSpec { staking, ..spec() }).unwrap();
        for (index, keys) in network.validators.iter().enumerate() {
            assert_eq!(keys.index_in(&network.genesis).unwrap().unwrap().as_usize(), index);
            assert_eq!(keys.public(), network.genesis.validators[index]);
        }
        let other = |change: fn(&mut StakeKeys)| {
            let mut keys = network.validators[1].clone();
            keys.stake.as_mut().map(change);
            keys.index_in(&network.genesis).unwrap_err().to_string()
        };
        let expected = "the genesis lists other keys beside the consensus key of validator 1";
        assert_eq!(other(|stake| stake.owner = Address::ZERO), expected);
        assert_eq!(other(|stake| stake.coin = CoinKey::from_seed([1; 32])), expected);
        let keys = ValidatorKeys { stake: None, ..network.validators[1].clone() };
        assert_eq!(keys.index_in(&network.genesis).unwrap_err().to_string(), expected);
    }

    #[test]
    fn stake_needs_a_valid_coin_key() {
        let validators = |coin_key: Bytes| {
            let mut validators: Vec<_> = (0..4u8).map(|index| ValidatorKeys::from_seed([index; 32]).public()).collect();
            validators[2].stake.as_mut().unwrap().coin_key = coin_key;
            make_genesis(&NetworkSpec { staking: Some(StakingParameters::default()), ..spec() }, validators)
        };
        let error = validators(Bytes::from([1; 48])).unwrap_err().to_string();
        assert_eq!(error, "genesis: coin_key of validator 2 is not a compressed point of the group");
    }

    #[test]
    fn votes_are_those_of_the_spec() {
        let network = make_network(&NetworkSpec { votes: [2, 2, 2, 1].map(Votes).to_vec(), ..spec() }).unwrap();
        assert_eq!((network.genesis.coin_shares.len(), network.genesis.weights().quorum()), (7, Votes(5)));
        for (index, keys) in network.validators.iter().enumerate() {
            assert_eq!(keys.index_in(&network.genesis).unwrap().unwrap().as_usize(), index);
        }
        let greedy = ValidatorInfo { votes: Votes(9), ..network.validators[0].public() };
        let others = network.validators[1..].iter().map(ValidatorKeys::public);
        let (genesis, _) = make_genesis(&spec(), std::iter::once(greedy).chain(others).collect()).unwrap();
        assert!(genesis.weights().are_one_each());
        let error = make_network(&NetworkSpec { votes: vec![Votes(1)], ..spec() }).unwrap_err().to_string();
        assert_eq!(error, "4 validators need as many votes, got 1");
        let error = make_network(&NetworkSpec { votes: [3, 1, 1, 1].map(Votes).to_vec(), ..spec() }).unwrap_err().to_string();
        assert!(error.contains("could stop the chain alone"), "{error}");
        for votes in [0, u32::MAX] {
            let error = make_network(&NetworkSpec { votes: vec![Votes(votes); 4], ..spec() }).unwrap_err().to_string();
            assert!(error.contains("must be 1 to 64"), "{error}");
        }
    }

    #[test]
    fn foreign_coin_share_is_refused() {
        let network = make_network(&spec()).unwrap();
        let mut keys = network.validators[0].clone();
        keys.coin = network.validators[1].coin.clone();
        assert!(keys.index_in(&network.genesis).is_err());
        keys.coin = make_network(&NetworkSpec { seed: [4; 32], ..spec() }).unwrap().validators[0].coin.clone();
        assert!(keys.index_in(&network.genesis).is_err(), "dealt for another genesis");
        keys.coin = None;
        assert!(keys.index_in(&network.genesis).is_err());
    }

    #[test]
    fn genesis_round_trips() {
        let network = make_network(&spec()).unwrap();
        let read = Genesis::from_json(&network.genesis.to_json()).unwrap();
        assert_eq!(read.hash(), network.genesis.hash());
        corniche_crypto::verify_genesis(&read).unwrap();
    }

    #[test]
    fn empty_committee_is_refused() {
        assert!(make_network(&NetworkSpec { validators: 0, ..spec() }).is_err());
    }

    #[test]
    fn stolen_public_key_is_refused() {
        let mut validators: Vec<_> = (0..4u8).map(|index| ValidatorKeys::from_seed([index; 32]).public()).collect();
        make_genesis(&spec(), validators.clone()).unwrap();
        validators[0].bls_key = validators[1].bls_key.clone();
        assert!(make_genesis(&spec(), validators).is_err(), "the proof of possession is another key's");
    }
}
