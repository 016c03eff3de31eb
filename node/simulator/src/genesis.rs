//! The genesis of a simulated network, and its validators' secrets. Both are functions of the scenario and the seed.

use crate::{
    crypto::Modelled,
    network::validator,
    notices::{Conduct, Conducted},
    scenario::{Crypto, EngineName, Scenario},
};
use corniche_crypto::{BlsSecretKey, CoinKey, CoinSecretShare, ConsensusKey, EthereumKey, deal_coin, digest};
use corniche_engine::Committee;
use corniche_pipeline::{AuthorKeys, CertificateKeys, NodeKey, NoticeAuthor};
use corniche_types::{
    Address, B256, Bytes, EngineConfig, FeeRules, Genesis, GenesisAccount, GenesisStake, MulticastGroup, ProtocolRules,
    SignatureChecks, StakingParameters, TimestampMs, U256, ValidatorIndex, ValidatorInfo, Votes,
};
use std::{collections::BTreeMap, sync::Arc};

/// A chain id that no other chain uses.
pub const CHAIN_ID: u64 = 0xC0_4E1C;
/// More than all transactions of a block can declare, so only bytes limit blocks.
const GAS_LIMIT: u64 = 1 << 40;

/// Network keys of all nodes. A node keeps its number and its key for the whole run. Its index in a committee follows from the
/// key, because members before it may come and go.
pub struct Names {
    keys: Vec<NodeKey>,
    numbers: BTreeMap<NodeKey, usize>,
}

impl Names {
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        // Only the staking contract needs keys that can sign.
        let key = |node: usize| match scenario.epoch_ms {
            Some(_) => network_key(seed, node).public().0,
            None => B256::left_padding_from(&(node as u64 + 1).to_be_bytes()).0,
        };
        let keys: Vec<NodeKey> = (0..scenario.nodes).map(key).collect();
        let numbers = keys.iter().enumerate().map(|(node, key)| (*key, node)).collect();
        Self { keys, numbers }
    }

    /// Number of nodes.
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    pub fn key(&self, node: usize) -> NodeKey {
        self.keys[node]
    }

    /// Number of the node with this key.
    pub fn number(&self, key: &NodeKey) -> usize {
        self.numbers[key]
    }

    /// Index of a node in a committee; `None` if it is no member.
    pub fn index(&self, committee: &Committee, node: usize) -> Option<ValidatorIndex> {
        committee.index_of(&B256::from(self.keys[node]))
    }

    /// Number of the member with this index.
    pub fn member(&self, committee: &Committee, index: ValidatorIndex) -> Option<usize> {
        Some(self.number(&committee.member(index)?.network_key.0))
    }

    /// Numbers of the members, by index.
    pub fn members(&self, committee: &Committee) -> Vec<usize> {
        committee.members().map(|(_, member)| self.number(&member.network_key.0)).collect()
    }
}

/// The keys of a node that the staking contract can replace: those of the start, and those after a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySet {
    First,
    Next,
}

/// Signing keys of the nodes.
#[derive(Clone)]
pub struct Secrets {
    seed: u64,
    pub names: Arc<Names>,
    /// Shares of the coin of the genesis, by number of the node. `None`: keys are modelled, and only notices and keys for the
    /// staking contract are real.
    pub shares: Option<Arc<Vec<CoinSecretShare>>>,
}

impl Secrets {
    /// The keys with which a node is in a committee.
    pub fn key_set(&self, committee: &Committee, node: usize) -> KeySet {
        let member = self.names.index(committee, node).and_then(|index| committee.member(index));
        let next = || self.consensus_key(node, KeySet::Next).public();
        if member.is_some_and(|member| member.consensus_key == next()) { KeySet::Next } else { KeySet::First }
    }

    /// Keys of a committee for certificates of a node, which may be no member.
    pub fn certificate_keys(&self, committee: &Committee, node: usize) -> CertificateKeys {
        let index = self.names.index(committee, node);
        if self.shares.is_none() {
            return Modelled::new(committee, index.unwrap_or(ValidatorIndex(0))).for_certificates(index.is_some());
        }
        let own = index.map(|index| (index, self.bls_key(node, self.key_set(committee, node))));
        CertificateKeys::bls(committee, own)
    }

    /// Makes a node's notices to the staking contract. Notices have real signatures, also with modelled keys.
    pub fn notice_author(&self, node: usize, conduct: &Arc<Conduct>) -> NoticeAuthor {
        let keys = |set| {
            let signer = Arc::new(Conducted { key: self.consensus_key(node, set), conduct: conduct.clone() });
            AuthorKeys { signer, coin: Some(self.coin_key(node, set)) }
        };
        let keys = [KeySet::First, KeySet::Next].map(keys).into();
        NoticeAuthor { keys, chain_id: CHAIN_ID, version: ProtocolRules::LATEST.version }
    }

    pub fn consensus_key(&self, node: usize, set: KeySet) -> ConsensusKey {
        ConsensusKey::from_seed(self.derive(set, "consensus", node))
    }

    pub fn bls_key(&self, node: usize, set: KeySet) -> BlsSecretKey {
        BlsSecretKey::from_seed(self.derive(set, "bls", node))
    }

    pub fn coin_key(&self, node: usize, set: KeySet) -> CoinKey {
        CoinKey::from_seed(self.derive(set, "coin key", node))
    }

    pub fn network_key(&self, node: usize) -> ConsensusKey {
        network_key(self.seed, node)
    }

    /// Account that owns a node's stake.
    pub fn owner(&self, node: usize) -> EthereumKey {
        EthereumKey::from_bytes(&derive(self.seed, "owner", node)).expect("all but one in 2^128 hashes are keys")
    }

    /// Address that receives a node's fees.
    pub fn fee_address(&self, node: usize) -> Address {
        fee_address(self.seed, node)
    }

    fn derive(&self, set: KeySet, purpose: &str, node: usize) -> [u8; 32] {
        match set {
            KeySet::First => derive(self.seed, purpose, node),
            KeySet::Next => derive(self.seed, &format!("next {purpose}"), node),
        }
    }
}

/// Creates the genesis with these accounts, and with funds for the accounts of `senders`.
pub fn make(
    scenario: &Scenario,
    seed: u64,
    senders: impl IntoIterator<Item = Address>,
    accounts: BTreeMap<Address, GenesisAccount>,
) -> (Genesis, Secrets) {
    let rich = GenesisAccount { balance: U256::from(1u128 << 100), ..GenesisAccount::default() };
    let mut parameters = scenario.engine_config.clone();
    let batch_bytes = parameters.remove("batch_bytes").and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(512 << 10);
    let (weights, members) = (scenario.weights(), scenario.members());
    let names = Arc::new(Names::new(scenario, seed));
    let mut secrets = Secrets { seed, names, shares: None };
    let owners = scenario.epoch_ms.map(|_| (0..scenario.nodes).map(|node| secrets.owner(node).address()));
    let mut genesis = Genesis {
        protocol_version: ProtocolRules::LATEST.version,
        upgrades: Vec::new(),
        chain_id: CHAIN_ID,
        currency: "SIM".into(),
        timestamp_ms: TimestampMs(0),
        // 0: one block per commit with transactions, so that block times equal commit times.
        block_ms: scenario.block_ms,
        block_gas_limit: GAS_LIMIT,
        batch_bytes,
        batch_gas: GAS_LIMIT,
        epoch_blocks: 1_000_000_000,
        // Usage never exceeds the target, so the fee stays at its minimum.
        fees: FeeRules { initial_base_fee: 1, target_gas_per_second: GAS_LIMIT },
        engine: EngineConfig { name: scenario.engine.clone(), parameters },
        validators: (0..members).map(|index| placeholder(&secrets, index, weights.of(validator(index)))).collect(),
        coin_shares: Vec::new(),
        coin_public_key: Bytes::new(),
        accounts: senders
            .into_iter()
            .chain(owners.into_iter().flatten())
            .map(|it| (it, rich.clone()))
            .chain(accounts)
            .collect(),
        signatures: SignatureChecks::Everyone,
        staking: None,
        coin_draft: None,
        multicast: (scenario.engine == EngineName::Neobft.id()).then(|| group(&secrets, scenario.sequencer.suite)),
    };
    if let Some(epoch_ms) = scenario.epoch_ms {
        add_staking(&mut genesis, scenario, &secrets, epoch_ms);
    }
    if scenario.crypto == Crypto::Real {
        secrets.shares = Some(Arc::new(add_real_keys(&mut genesis, &secrets)));
    }
    (genesis, secrets)
}

/// A group with one sequencer. Its key is a placeholder, as those of the validators.
fn group(secrets: &Secrets, suite: u8) -> MulticastGroup {
    let mut key = derive(secrets.seed, "sequencer", 0).to_vec();
    // ECDSA keys are compressed points of 33 bytes.
    if suite == 4 {
        key.push(2);
    }
    MulticastGroup { group: 1, suite, sequencers: vec![key.into()] }
}

/// Fewest members of a committee, if it changes.
const MIN_MEMBERS: u32 = 4;

/// Adds epochs of this length.
fn add_staking(genesis: &mut Genesis, scenario: &Scenario, secrets: &Secrets, epoch_ms: u64) {
    // With less than all validators the committee is kept, unless the scenario changes it.
    let members = genesis.validators.len() as u32;
    let min_validators = if scenario.changes_committee() { members.min(MIN_MEMBERS) } else { members };
    let closing_ms = scenario.closing_ms.unwrap_or(epoch_ms / 4);
    let staking = StakingParameters { epoch_ms, closing_ms, min_validators, ..StakingParameters::default() };
    genesis.staking = Some(staking);
    for (index, validator) in genesis.validators.iter_mut().enumerate() {
        validator.consensus_key = secrets.consensus_key(index, KeySet::First).public();
        // Also with modelled keys, because the contract and its evidence know nothing of models.
        validator.bls_key = secrets.bls_key(index, KeySet::First).public().to_bytes().to_vec().into();
        let coin_key = secrets.coin_key(index, KeySet::First).public().to_vec().into();
        validator.stake = Some(GenesisStake { owner: secrets.owner(index).address(), coin_key });
    }
}

/// A validator without real keys. Its names contain the seed, and so do the hash of the committee and everything
/// derived from it, such as the modelled coins.
fn placeholder(secrets: &Secrets, index: usize, votes: Votes) -> ValidatorInfo {
    ValidatorInfo {
        consensus_key: B256::from(derive(secrets.seed, "consensus", index)),
        bls_key: Bytes::new(),
        bls_proof: Bytes::new(),
        network_key: B256::from(secrets.names.key(index)),
        fee_address: secrets.fee_address(index),
        votes,
        stake: None,
    }
}

fn derive(seed: u64, purpose: &str, index: usize) -> [u8; 32] {
    digest(format!("{seed} {purpose} {index}").as_bytes()).0
}

fn fee_address(seed: u64, index: usize) -> Address {
    Address::from_slice(&derive(seed, "fees", index)[..20])
}

fn network_key(seed: u64, index: usize) -> ConsensusKey {
    ConsensusKey::from_seed(derive(seed, "network", index))
}

/// Replaces the modelled keys of the genesis by real ones. Returns the shares of its coin.
fn add_real_keys(genesis: &mut Genesis, secrets: &Secrets) -> Vec<CoinSecretShare> {
    let weights = genesis.weights();
    let deal = deal_coin(&weights, weights.quorum(), derive(secrets.seed, "coin", 0));
    (genesis.coin_public_key, genesis.coin_shares) = deal.public.to_genesis();
    for (node, member) in genesis.validators.iter_mut().enumerate() {
        let bls = secrets.bls_key(node, KeySet::First);
        member.consensus_key = secrets.consensus_key(node, KeySet::First).public();
        member.bls_key = Bytes::copy_from_slice(&bls.public().to_bytes());
        member.bls_proof = Bytes::copy_from_slice(&bls.prove_possession().to_bytes());
    }
    deal.shares
}
