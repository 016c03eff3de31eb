//! The genesis: everything that affects validity or results, agreed before the first block.

use crate::{
    Epoch, FaultModel, GenesisStake, Height, ProtocolRules, STAKING_ADDRESS, StakingError, StakingParameters, TimestampMs,
    Upgrade, Votes, Weights, certified,
};
use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use borsh::{
    BorshSerialize,
    io::{self, Write},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, ops::RangeInclusive, str::FromStr};

/// Content of a genesis file. The file is JSON; its hash covers the borsh encoding, so formatting has no effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, BorshSerialize)]
#[serde(deny_unknown_fields)]
pub struct Genesis {
    /// Version of the rules of block 1; see [`ProtocolRules`].
    pub protocol_version: u32,
    /// Later versions and their first heights, ascending. Not part of [`Self::hash`]: adding an entry upgrades a
    /// running chain, and blocks built under other rules have other headers. Empty where epochs end: there validators
    /// decide by their announcements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[borsh(skip)]
    pub upgrades: Vec<Upgrade>,
    /// EIP-155 chain id; part of transactions and of everything that validators sign.
    pub chain_id: u64,
    /// Ticker of the native currency, for wallets.
    pub currency: String,
    /// Start of the chain: time of block 0.
    pub timestamp_ms: TimestampMs,
    /// Minimum time between two blocks in ms; 0 closes a block at each non-empty commit. Blocks with few transactions close
    /// sooner ([`light_block_bytes`](ProtocolRules::light_block_bytes)).
    pub block_ms: u64,
    /// Maximum sum of the gas limits of one block's transactions: at least 1,000,000, and at most
    /// [`max_block_gas_limit`](ProtocolRules::max_block_gas_limit).
    pub block_gas_limit: u64,
    /// Maximum bytes of one proposer's batch.
    pub batch_bytes: u32,
    /// Maximum declared gas of one proposer's batch.
    pub batch_gas: u64,
    /// Blocks per epoch.
    pub epoch_blocks: u64,
    /// Initial base fee, and rules of its changes.
    pub fees: FeeRules,
    /// Ordering engine.
    pub engine: EngineConfig,
    /// The first committee, 1 to 1,000 members; a member's index is its position.
    pub validators: Vec<ValidatorInfo>,
    /// Public key shares of the engine's threshold coin, one per vote: first those of validator 0, then those of validator 1
    /// and so on. Dealt with the genesis.
    pub coin_shares: Vec<Bytes>,
    /// The combined key: compressed G2 point, 96 bytes.
    pub coin_public_key: Bytes,
    /// State before block 1.
    pub accounts: BTreeMap<Address, GenesisAccount>,
    /// Validators that check a transaction's signature. Results do not depend on it while at most f validators are faulty.
    #[serde(default, skip_serializing_if = "SignatureChecks::is_everyone")]
    #[borsh(serialize_with = "serialize_signatures")]
    pub signatures: SignatureChecks,
    /// Parameters of the staking contract, for chains that have one. The genesis hash covers them ([`Self::hash`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[borsh(skip)]
    pub staking: Option<StakingParameters>,
    /// Hash of the draft for which the validators dealt the coin together. `None`: the creator of the genesis dealt it, and could know
    /// its key. The genesis hash covers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[borsh(skip)]
    pub coin_draft: Option<B256>,
    /// Sequencers of the validators' multicast group, for an engine that needs them. The genesis hash covers them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[borsh(skip)]
    pub multicast: Option<MulticastGroup>,
}

/// The sequencers that may order requests of a group (authenticated ordered multicast, `aom/1`). Receiver i of the group is
/// validator i.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, BorshSerialize)]
#[serde(deny_unknown_fields)]
pub struct MulticastGroup {
    /// Number of the group; unique among the chains of a sequencer, because requests do not name their chain.
    pub group: u32,
    /// Suite: 1 or 2 (keyed hashes), 4 (ECDSA secp256k1) or 5 (ed25519).
    pub suite: u8,
    /// Public keys of the sequencers, 1 to 16: X25519 for suites 1 and 2, 32 bytes; else the key that verifies signatures, 33 bytes
    /// for suite 4 and 32 for suite 5. Sequencer e mod their number serves epoch e of the group.
    pub sequencers: Vec<Bytes>,
}

/// Maximum number of sequencers.
pub const MAX_SEQUENCERS: usize = 16;
/// Maximum number of validators where packets have a keyed hash for each of them.
pub const MAX_TAG_RECEIVERS: usize = 64;

impl MulticastGroup {
    /// Returns the index of the sequencer that serves an epoch of the group.
    pub fn sequencer(&self, epoch: u32) -> usize {
        epoch as usize % self.sequencers.len().max(1)
    }

    fn check(&self, validators: usize) -> Result<(), String> {
        let bytes = match self.suite {
            1 | 2 | 5 => 32,
            4 => 33,
            other => return Err(format!("has suite {other}, expected 1, 2, 4 or 5")),
        };
        if matches!(self.suite, 1 | 2) && validators > MAX_TAG_RECEIVERS {
            let most = MAX_TAG_RECEIVERS;
            return Err(format!("has suite {} for {validators} validators, possible are {most}; use suite 5", self.suite));
        }
        let count = self.sequencers.len();
        if !(1..=MAX_SEQUENCERS).contains(&count) {
            return Err(format!("has {count} sequencers, needed are 1 to {MAX_SEQUENCERS}"));
        }
        if let Some((index, key)) = self.sequencers.iter().enumerate().find(|(_, key)| key.len() != bytes) {
            let (suite, got) = (self.suite, key.len());
            return Err(format!("has a key of {got} bytes for sequencer {index}, expected {bytes} for suite {suite}"));
        }
        Ok(())
    }
}

/// Validators that check the signature of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SignatureChecks {
    /// Every validator.
    #[default]
    Everyone,
    /// At least f + 1 validators, which attest the sender to the others (Mir-BFT §5.6, signature verification sharding).
    Sharded,
}

/// Maximum number of validators.
pub const MAX_VALIDATORS: usize = 1_000;

/// Number of validators with [`SignatureChecks::Sharded`]. With fewer, f is zero, so a single validator's word would count.
/// With more, each transaction would have thousands of attestations.
pub const SHARDED_VALIDATORS: RangeInclusive<usize> = 4..=64;

impl fmt::Display for SignatureChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Everyone => "everyone",
            Self::Sharded => "sharded",
        })
    }
}

impl FromStr for SignatureChecks {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "everyone" => Ok(Self::Everyone),
            "sharded" => Ok(Self::Sharded),
            _ => Err("expected everyone or sharded"),
        }
    }
}

impl SignatureChecks {
    fn is_everyone(&self) -> bool {
        *self == Self::Everyone
    }
}

/// The default has no bytes, so that chains from before this field keep their hashes.
fn serialize_signatures<W: Write>(signatures: &SignatureChecks, writer: &mut W) -> io::Result<()> {
    match signatures {
        SignatureChecks::Everyone => Ok(()),
        SignatureChecks::Sharded => writer.write_all(&[SHARDED]),
    }
}

/// Begins the encoding of an optional part at the end of a genesis: who checks signatures, votes, staking, the coin's origin, and the
/// sequencers.
const SHARDED: u8 = 1;
const VOTES: u8 = 2;
const STAKING: u8 = 3;
const COIN_DRAFT: u8 = 4;
const MULTICAST: u8 = 5;

/// Rules of the base fee: EIP-1559 per second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, BorshSerialize)]
#[serde(deny_unknown_fields)]
pub struct FeeRules {
    /// Wei per gas in the genesis block. It changes every second from the genesis' timestamp on, so an idle start
    /// lowers it.
    pub initial_base_fee: u64,
    /// Gas per second at which the base fee does not change.
    pub target_gas_per_second: u64,
}

/// Name in [`EngineConfig`] of the mode without an ordering engine: the state is split over shards, and gateways propose transactions.
pub const SHARDED_ENGINE: &str = "basil";

/// The ordering engine and its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, BorshSerialize)]
#[serde(deny_unknown_fields)]
pub struct EngineConfig {
    /// Name of the engine: `mahi-mahi`, `autobahn`, `neobft`, `mir`, `quepaxa`, `sadl-racs` or `baxos`; or [`SHARDED_ENGINE`].
    pub name: String,
    /// The engine's own parameters by name. An engine refuses unknown names.
    pub parameters: BTreeMap<String, u64>,
}

impl EngineConfig {
    /// Returns whether the validators open a coin together. Then a committee needs keys of the coin.
    pub fn has_coin(&self) -> bool {
        self.name == "mahi-mahi"
    }
}

/// One validator of the first committee.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, BorshSerialize)]
#[serde(deny_unknown_fields)]
pub struct ValidatorInfo {
    /// ed25519 public key, 32 bytes; verifies the engine's messages.
    pub consensus_key: B256,
    /// BLS public key, compressed G2 point, 96 bytes; verifies signatures of headers.
    pub bls_key: Bytes,
    /// Proof of possession of the BLS key, compressed G1 point, 48 bytes.
    pub bls_proof: Bytes,
    /// ed25519 public key of the libp2p identity, 32 bytes.
    pub network_key: B256,
    /// Recipient of tips and fees.
    pub fee_address: Address,
    /// Votes of the validator in every quorum, at most [`MAX_VOTES`](crate::MAX_VOTES). The genesis hash covers them ([`Genesis::hash`]).
    #[serde(default = "one_vote", skip_serializing_if = "is_one_vote")]
    #[borsh(skip)]
    pub votes: Votes,
    /// Present if the chain has staking. The genesis hash covers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[borsh(skip)]
    pub stake: Option<GenesisStake>,
}

fn one_vote() -> Votes {
    Votes(1)
}

fn is_one_vote(votes: &Votes) -> bool {
    *votes == one_vote()
}

/// An account in the initial state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, BorshSerialize)]
#[serde(deny_unknown_fields)]
pub struct GenesisAccount {
    /// Balance in wei.
    #[serde(default)]
    pub balance: U256,
    /// Nonce of its first transaction on this chain.
    #[serde(default)]
    pub nonce: u64,
    /// Contract code, exactly as for a deployment.
    #[serde(default)]
    pub code: Bytes,
    /// Non-zero slots with their values.
    #[serde(default)]
    pub storage: BTreeMap<B256, B256>,
}

/// Why a genesis is refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum GenesisError {
    /// Not JSON, or of another structure; the parser's message.
    #[error("genesis: {0}")]
    Json(String),
    /// An invalid value.
    #[error("genesis: {field} {problem}")]
    Field {
        /// Name of the field in the file.
        field: &'static str,
        /// The value, and what it must be.
        problem: String,
    },
    /// An invalid parameter of staking.
    #[error("genesis: {0}")]
    Staking(StakingError),
}

// Without `#[from]`, which would make the cause a source: reports that print all sources would repeat it.
impl From<StakingError> for GenesisError {
    fn from(error: StakingError) -> Self {
        Self::Staking(error)
    }
}

impl Genesis {
    /// Reads and checks a genesis file. `corniche_crypto` checks the signatures in it (proofs of possession).
    pub fn from_json(text: &str) -> Result<Self, GenesisError> {
        let genesis: Self = serde_json::from_str(text).map_err(|error| GenesisError::Json(error.to_string()))?;
        genesis.check()?;
        Ok(genesis)
    }

    /// Formats the genesis over several lines, for [`Self::from_json`].
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("all map keys of a genesis are strings")
    }

    fn check(&self) -> Result<(), GenesisError> {
        let refuse = |field, problem: String| Err(GenesisError::Field { field, problem });
        let known = ProtocolRules::LATEST.version;
        let Some(first) = ProtocolRules::of(self.protocol_version) else {
            return refuse("protocol_version", format!("is {}, this build knows 1 to {known}", self.protocol_version));
        };
        let mut before = Upgrade { height: 1, protocol_version: self.protocol_version };
        for upgrade in &self.upgrades {
            if upgrade.height <= before.height || upgrade.protocol_version <= before.protocol_version {
                return refuse("upgrades", format!("must ascend in height and version, got {upgrade:?} after {before:?}"));
            }
            if ProtocolRules::of(upgrade.protocol_version).is_none() {
                let (height, version) = (upgrade.height, upgrade.protocol_version);
                return refuse(
                    "upgrades",
                    format!("name version {version} at height {height}, this build knows 1 to {known}; install a newer build"),
                );
            }
            before = *upgrade;
        }
        // Two sources of versions could contradict each other.
        if !self.upgrades.is_empty() && self.epochs().is_some() {
            let count = self.upgrades.len();
            return refuse(
                "upgrades",
                format!("must be empty where epochs end, got {count}; remove them, and upgrade the validators' builds instead"),
            );
        }
        if self.validators.is_empty() || self.validators.len() > MAX_VALIDATORS {
            return refuse("validators", format!("are {}, must be 1 to {MAX_VALIDATORS}", self.validators.len()));
        }
        if self.signatures == SignatureChecks::Sharded && !SHARDED_VALIDATORS.contains(&self.validators.len()) {
            let (first, last) = SHARDED_VALIDATORS.into_inner();
            return refuse(
                "signatures",
                format!("are sharded over {} validators, needed are {first} to {last}; use everyone", self.validators.len()),
            );
        }
        self.check_votes()?;
        let (shares, votes) = (self.coin_shares.len(), self.weights().total());
        if shares != votes.as_usize() {
            return refuse("coin_shares", format!("are {shares}, one per vote needed, which are {votes}"));
        }
        if self.block_gas_limit < 1_000_000 {
            return refuse("block_gas_limit", format!("is {}, below 1000000", self.block_gas_limit));
        }
        let highest = first.max_block_gas_limit;
        if self.block_gas_limit > highest {
            let (limit, seconds) = (self.block_gas_limit, self.block_gas_limit / 1_000_000_000 * 16);
            return refuse(
                "block_gas_limit",
                format!(
                    "is {limit}, above {highest}: contracts take up to 16 ns a gas, so a block could take {seconds} s; lower it"
                ),
            );
        }
        if self.batch_gas > self.block_gas_limit {
            return refuse("batch_gas", format!("is {}, above block_gas_limit", self.batch_gas));
        }
        if !(131_072 + 64..=16 << 20).contains(&self.batch_bytes) {
            return refuse("batch_bytes", format!("is {}, must hold one transaction and be at most 16 MiB", self.batch_bytes));
        }
        if self.fees.initial_base_fee == 0 || self.fees.target_gas_per_second == 0 {
            return refuse("fees", "must be at least 1".into());
        }
        if self.epoch_blocks == 0 {
            return refuse("epoch_blocks", "must be at least 1".into());
        }
        let has_code = |address| self.accounts.get(address).is_some_and(|account| !account.code.is_empty());
        if let Some(index) = self.validators.iter().position(|validator| has_code(&validator.fee_address)) {
            let address = self.validators[index].fee_address;
            return refuse(
                "validators",
                format!(
                    "have a contract as a fee address ({address}, of validator {index}): blocks would run serially whenever it sends a payment; choose a plain account"
                ),
            );
        }
        // Code there could forge certified hashes.
        if self.accounts.get(&certified::ADDRESS).is_some_and(|account| !account.code.is_empty() || !account.storage.is_empty())
        {
            let address = certified::ADDRESS;
            return refuse(
                "accounts",
                format!("have code or storage at {address}, where hashes of certified headers are stored"),
            );
        }
        if let Some(multicast) = &self.multicast {
            multicast.check(self.validators.len()).or_else(|problem| refuse("multicast", problem))?;
            // The group's receivers are the first committee.
            if self.epochs().is_some() {
                return refuse("multicast", "needs a fixed committee, but epochs end; set staking.epoch_ms to 0".into());
            }
        }
        self.check_staking()
    }

    /// Returns the parameters of epochs; `None` if epoch 0 never ends.
    pub fn epochs(&self) -> Option<&StakingParameters> {
        self.staking.as_ref().filter(|parameters| !parameters.never_ends())
    }

    /// Returns the maximum size of a committee: that of the first one, or more where the committee changes.
    pub fn max_validators(&self) -> usize {
        self.epochs().map_or(0, |staking| staking.max_validators as usize).max(self.validators.len())
    }

    /// Checks that staking is complete or absent, and that the first committee keeps its limits.
    fn check_staking(&self) -> Result<(), GenesisError> {
        let refuse = |field, problem: String| Err(GenesisError::Field { field, problem });
        let without_stake = |validator: &ValidatorInfo| validator.stake.is_none();
        let Some(parameters) = &self.staking else {
            return match self.validators.iter().position(|validator| !without_stake(validator)) {
                Some(index) => refuse("validators", format!("have a stake at index {index}, which needs `staking`")),
                None => Ok(()),
            };
        };
        // Evidence against a validator consists of headings.
        if !self.rules_at(Height(1)).signs_headings {
            return refuse("staking", format!("needs protocol_version 5, got {}", self.protocol_version));
        }
        if let Some(index) = self.validators.iter().position(without_stake) {
            return refuse("validators", format!("have no stake at index {index}, which `staking` needs: owner and coin_key"));
        }
        let is_contract = |validator: &ValidatorInfo| validator.fee_address == STAKING_ADDRESS;
        if let Some(index) = self.validators.iter().position(is_contract) {
            return refuse("validators", format!("have the staking contract as fee_address at index {index}"));
        }
        if self.accounts.contains_key(&STAKING_ADDRESS) {
            return refuse("accounts", format!("have an entry for {STAKING_ADDRESS}, where the staking contract is"));
        }
        parameters.check()?;
        let sizes = [parameters.min_validators, parameters.max_validators].map(|size| size as usize);
        let is_sharded = self.signatures == SignatureChecks::Sharded && self.epochs().is_some();
        if is_sharded && !sizes.iter().all(|size| SHARDED_VALIDATORS.contains(size)) {
            let ([min, max], (first, last)) = (sizes, SHARDED_VALIDATORS.into_inner());
            return refuse(
                "signatures",
                format!("are sharded over {min} to {max} validators, needed are {first} to {last}: set staking.max_validators"),
            );
        }
        Ok(parameters.check_committee(&self.weights())?)
    }

    /// Returns the version of the rules under which the block at `height` is built and executed. `epoch_version` is the
    /// version of the block's epoch. It decides where epochs end; elsewhere the heights of the upgrades do.
    pub fn version_at(&self, height: Height, epoch_version: u32) -> u32 {
        match self.epochs() {
            Some(_) => epoch_version,
            None => self.scheduled_version(height),
        }
    }

    /// Returns the rules of the block at `height`, as far as the genesis defines them: where epochs end, those of epoch 0.
    pub fn rules_at(&self, height: Height) -> &'static ProtocolRules {
        let version = self.scheduled_version(height);
        ProtocolRules::of(version).expect("invariant: a checked genesis names known versions only")
    }

    fn scheduled_version(&self, height: Height) -> u32 {
        let upgrade = self.upgrades.iter().rev().find(|upgrade| upgrade.height <= height.0);
        upgrade.map_or(self.protocol_version, |upgrade| upgrade.protocol_version)
    }

    /// Checks the votes alone, before a coin is dealt to them.
    pub fn check_votes(&self) -> Result<(), GenesisError> {
        let refuse = |problem: String| Err(GenesisError::Field { field: "validators", problem });
        let weights = self.weights();
        weights.check().or_else(refuse)?;
        // Committee hashes cover the genesis, and so the votes, from version 2 on.
        if !weights.are_one_each() && !self.rules_at(Height(1)).committee_covers_genesis {
            return refuse(format!("have several votes, which needs protocol_version 2, got {}", self.protocol_version));
        }
        Ok(())
    }

    /// Returns the votes of the first committee.
    pub fn weights(&self) -> Weights {
        Weights::new(self.validators.iter().map(|validator| validator.votes), self.fault_model())
    }

    /// Returns keccak-256 of the canonical encoding; peers compare it in the handshake. Votes have no bytes if each validator has
    /// one, and staking, the draft of the coin and sequencers have none if they are absent, so that older chains keep their hashes.
    pub fn hash(&self) -> B256 {
        let mut bytes = crate::wire::encode(self);
        if !self.weights().are_one_each() {
            bytes.push(VOTES);
            self.validators.iter().for_each(|validator| bytes.extend(validator.votes.0.to_le_bytes()));
        }
        if let Some(parameters) = &self.staking {
            let stakes: Vec<_> = self.validators.iter().map(|validator| &validator.stake).collect();
            bytes.push(STAKING);
            bytes.extend(crate::wire::encode(&(parameters, stakes)));
        }
        if let Some(draft) = &self.coin_draft {
            bytes.push(COIN_DRAFT);
            bytes.extend(draft);
        }
        if let Some(multicast) = &self.multicast {
            bytes.push(MULTICAST);
            bytes.extend(crate::wire::encode(multicast));
        }
        keccak256(bytes)
    }

    /// Returns the hash that identifies the first committee, and from version 2 on the genesis, in everything that its
    /// members sign.
    pub fn committee_hash(&self) -> B256 {
        let body = (&self.validators, &self.coin_shares, &self.coin_public_key);
        if self.rules_at(Height(1)).committee_covers_genesis {
            return keccak256(crate::wire::encode(&("corniche-committee", self.hash(), self.chain_id, Epoch(0), body)));
        }
        keccak256(crate::wire::encode(&("corniche-committee", self.chain_id, Epoch(0), body)))
    }

    /// Returns whether this is a development chain, on which contracts may use the console. Such a chain has a single
    /// validator, which decides everything alone anyway.
    pub fn is_development(&self) -> bool {
        self.validators.len() == 1
    }

    /// Returns whether one party dealt the coin of the genesis and could know it, and so who will lead.
    pub fn has_known_coin(&self) -> bool {
        self.engine.has_coin() && self.coin_draft.is_none() && !self.is_development()
    }

    /// Returns the engine's fault model.
    pub fn fault_model(&self) -> FaultModel {
        FaultModel::of_engine(&self.engine.name)
    }

    /// Returns the header of block 0 with this state root; its `extraData` is the genesis hash.
    pub fn header(&self, state_root: B256) -> Header {
        Header {
            state_root,
            transactions_root: alloy_consensus::EMPTY_ROOT_HASH,
            receipts_root: alloy_consensus::EMPTY_ROOT_HASH,
            gas_limit: self.block_gas_limit,
            timestamp: self.timestamp_ms.0 / 1000,
            extra_data: Bytes::copy_from_slice(self.hash().as_slice()),
            base_fee_per_gas: Some(self.fees.initial_base_fee),
            ..Header::default()
        }
    }
}
