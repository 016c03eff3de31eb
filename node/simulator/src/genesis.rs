//! The genesis of a simulated network, and its validators' secrets. Both are functions of the scenario and the seed.

use crate::{
    crypto::Modelled,
    network::validator,
    scenario::{Crypto, Scenario},
};
use corniche_crypto::{BlsSecretKey, CoinKey, CoinSecretShare, ConsensusKey, deal_coin, digest};
use corniche_engine::Committee;
use corniche_pipeline::{AuthorKeys, CertificateKeys, NoticeAuthor};
use corniche_types::{
    Address, B256, Bytes, EngineConfig, FeeRules, Genesis, GenesisAccount, GenesisStake, ProtocolRules, SignatureChecks,
    StakingParameters, TimestampMs, U256, ValidatorIndex, ValidatorInfo, Votes,
};
use std::collections::BTreeMap;

/// A chain id that no other chain uses.
pub const CHAIN_ID: u64 = 0xC0_4E1C;
/// More than all transactions of a block can declare, so only bytes limit blocks.
const GAS_LIMIT: u64 = 1 << 40;

/// Signing keys of the validators.
#[derive(Clone)]
pub enum Secrets {
    /// Only notices are signed. Their keys come from the seed.
    Modelled {
        seed: u64,
    },
    Real {
        validators: Vec<ValidatorSecrets>,
    },
}

impl Secrets {
    /// Keys of a committee for certificates of a validator. Its index is the same in each committee.
    pub fn certificate_keys(&self, committee: &Committee, me: ValidatorIndex) -> CertificateKeys {
        match self {
            Self::Modelled { .. } => Modelled::new(committee, me).for_certificates(),
            Self::Real { validators } => CertificateKeys::bls(committee, Some((me, validators[me.as_usize()].bls.clone()))),
        }
    }

    /// Makes a validator's notices to the staking contract. Notices have real signatures, also with modelled keys.
    pub fn notice_author(&self, index: usize) -> NoticeAuthor {
        let (consensus, coin) = match self {
            Self::Modelled { seed } => (consensus_key(*seed, index), coin_key(*seed, index)),
            Self::Real { validators } => (validators[index].consensus.clone(), validators[index].coin.clone()),
        };
        let keys = vec![AuthorKeys::new(consensus, Some(coin))];
        NoticeAuthor { keys, chain_id: CHAIN_ID, version: ProtocolRules::LATEST.version }
    }
}

#[derive(Clone)]
pub struct ValidatorSecrets {
    pub consensus: ConsensusKey,
    pub bls: BlsSecretKey,
    /// Deals coins, and decrypts shares of dealt ones.
    pub coin: CoinKey,
    /// Share of the coin of the genesis.
    pub share: CoinSecretShare,
}

/// Creates the genesis with these accounts, and with funds for the accounts of `senders`.
pub fn make(
    scenario: &Scenario,
    seed: u64,
    senders: impl IntoIterator<Item = Address>,
    accounts: BTreeMap<Address, GenesisAccount>,
) -> (Genesis, Secrets) {
    let rich = GenesisAccount { balance: U256::from(1u128 << 100), ..GenesisAccount::default() };
    let funded = senders.into_iter().map(|sender| (sender, rich.clone()));
    let mut parameters = scenario.engine_config.clone();
    let batch_bytes = parameters.remove("batch_bytes").and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(512 << 10);
    let weights = scenario.weights();
    let mut genesis = Genesis {
        protocol_version: ProtocolRules::LATEST.version,
        upgrades: Vec::new(),
        chain_id: CHAIN_ID,
        currency: "SIM".into(),
        timestamp_ms: TimestampMs(0),
        // One block per commit with transactions, so that block times equal commit times.
        block_ms: 0,
        block_gas_limit: GAS_LIMIT,
        batch_bytes,
        batch_gas: GAS_LIMIT,
        epoch_blocks: 1_000_000_000,
        // Usage never exceeds the target, so the fee stays at its minimum.
        fees: FeeRules { initial_base_fee: 1, target_gas_per_second: GAS_LIMIT },
        engine: EngineConfig { name: scenario.engine.clone(), parameters },
        validators: (0..scenario.nodes).map(|index| placeholder(seed, index, weights.of(validator(index)))).collect(),
        coin_shares: Vec::new(),
        coin_public_key: Bytes::new(),
        accounts: funded.chain(accounts).collect(),
        signatures: SignatureChecks::Everyone,
        staking: None,
        coin_draft: None,
    };
    if let Some(epoch_ms) = scenario.epoch_ms {
        add_staking(&mut genesis, seed, epoch_ms);
    }
    let secrets = match scenario.crypto {
        Crypto::Modelled => Secrets::Modelled { seed },
        Crypto::Real => real_keys(&mut genesis, seed),
    };
    (genesis, secrets)
}

/// Adds epochs of this length.
fn add_staking(genesis: &mut Genesis, seed: u64, epoch_ms: u64) {
    // Indices do not change here: with less than all validators the committee is kept.
    let min_validators = genesis.validators.len() as u32;
    let staking = StakingParameters { epoch_ms, closing_ms: epoch_ms / 4, min_validators, ..StakingParameters::default() };
    genesis.staking = Some(staking);
    for (index, validator) in genesis.validators.iter_mut().enumerate() {
        let name = digest(format!("{seed} bls {index}").as_bytes());
        validator.consensus_key = consensus_key(seed, index).public();
        // Keys of other lengths would not be in the contract.
        validator.bls_key = name.repeat(3).into();
        let coin_key = coin_key(seed, index).public().to_vec().into();
        validator.stake = Some(GenesisStake { owner: validator.fee_address, coin_key });
    }
}

/// A validator without real keys. Its names contain the seed, and so do the hash of the committee and everything
/// derived from it, such as the modelled coins.
fn placeholder(seed: u64, index: usize, votes: Votes) -> ValidatorInfo {
    let name = |purpose: &str| digest(format!("{seed} {purpose} {index}").as_bytes());
    ValidatorInfo {
        consensus_key: name("consensus"),
        bls_key: Bytes::new(),
        bls_proof: Bytes::new(),
        network_key: B256::from(node_key(index)),
        fee_address: Address::from_slice(&name("fees")[..20]),
        votes,
        stake: None,
    }
}

/// Network key of a node.
pub fn node_key(index: usize) -> [u8; 32] {
    B256::left_padding_from(&(index as u64 + 1).to_be_bytes()).0
}

fn consensus_key(seed: u64, index: usize) -> ConsensusKey {
    ConsensusKey::from_seed(digest(format!("{seed} consensus {index}").as_bytes()).0)
}

fn coin_key(seed: u64, index: usize) -> CoinKey {
    CoinKey::from_seed(digest(format!("{seed} coin key {index}").as_bytes()).0)
}

fn real_keys(genesis: &mut Genesis, seed: u64) -> Secrets {
    let derive = |purpose: &str, index: usize| digest(format!("{seed} {purpose} {index}").as_bytes()).0;
    let weights = genesis.weights();
    let deal = deal_coin(&weights, weights.quorum(), derive("coin", 0));
    (genesis.coin_public_key, genesis.coin_shares) = deal.public.to_genesis();
    let members = genesis.validators.iter_mut().zip(deal.shares).enumerate();
    let validators = members.map(|(index, (member, share))| {
        let (consensus, coin) = (consensus_key(seed, index), coin_key(seed, index));
        let bls = BlsSecretKey::from_seed(derive("bls", index));
        member.consensus_key = consensus.public();
        member.bls_key = Bytes::copy_from_slice(&bls.public().to_bytes());
        member.bls_proof = Bytes::copy_from_slice(&bls.prove_possession().to_bytes());
        ValidatorSecrets { consensus, bls, coin, share }
    });
    Secrets::Real { validators: validators.collect() }
}
