//! Keys of a validator, in memory.

use anyhow::{Context, bail, ensure};
use corniche_crypto::{BlsSecretKey, CoinKey, CoinPublicKeys, CoinSecretShare, ConsensusKey, EthereumKey};
use corniche_engine::{Committee, Member};
use corniche_pipeline::{AuthorKeys, NoticeAuthor};
use corniche_store::DataDirectory;
use corniche_types::{Address, B256, Bytes, Genesis, GenesisStake, ProtocolRules, ValidatorIndex, ValidatorInfo};
use std::{fs, path::Path};

/// Secret of a libp2p identity: an ed25519 seed.
#[derive(Clone)]
pub struct NetworkKey([u8; 32]);

impl NetworkKey {
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(seed)
    }

    /// Seed from which the network layer creates its identity.
    pub fn seed(&self) -> [u8; 32] {
        self.0
    }

    /// Public key in the genesis, 32 bytes.
    pub fn public(&self) -> B256 {
        ConsensusKey::from_seed(self.0).public()
    }
}

impl std::fmt::Debug for NetworkKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NetworkKey(public {})", self.public())
    }
}

/// Secret for staking, and the owner of the stake.
#[derive(Clone, Debug)]
pub struct StakeKeys {
    /// Decrypts the shares of the coin that other validators deal.
    pub coin: CoinKey,
    /// Account that will own the stake; nothing here has its secret.
    pub owner: Address,
}

/// All secrets of one validator.
#[derive(Clone, Debug)]
pub struct ValidatorKeys {
    pub consensus: ConsensusKey,
    pub bls: BlsSecretKey,
    pub network: NetworkKey,
    /// `None` until it is dealt with a genesis.
    pub coin: Option<CoinSecretShare>,
    /// `None` in directories from before staking.
    pub stake: Option<StakeKeys>,
    pub fee_address: Address,
    /// Present if the fee address was created together with the other keys.
    pub fee_key: Option<EthereumKey>,
}

/// Keys of one validator: in each epoch, those that the committee lists are used (K1).
#[derive(Clone, Debug)]
pub struct Keyring {
    pub current: ValidatorKeys,
    /// Those that will replace them.
    pub next: Option<ValidatorKeys>,
}

impl Keyring {
    /// Both sets of keys.
    pub fn sets(&self) -> impl Iterator<Item = &ValidatorKeys> {
        [&self.current].into_iter().chain(&self.next)
    }

    /// Keys that a committee lists, and the validator's index in it.
    pub fn listed_in(&self, committee: &Committee) -> Option<(ValidatorIndex, &ValidatorKeys)> {
        committee.members().find_map(|(index, member)| Some((index, self.sets().find(|keys| keys.is(member))?)))
    }

    /// Makes the notices of this validator on a chain.
    pub fn notice_author(&self, chain_id: u64) -> NoticeAuthor {
        let keys = self.sets().map(ValidatorKeys::author).collect();
        NoticeAuthor { keys, chain_id, version: ProtocolRules::LATEST.version }
    }
}

impl From<ValidatorKeys> for Keyring {
    fn from(current: ValidatorKeys) -> Self {
        Self { current, next: None }
    }
}

impl StakeKeys {
    fn public(&self) -> GenesisStake {
        GenesisStake { owner: self.owner, coin_key: Bytes::copy_from_slice(&self.coin.public()) }
    }
}

impl ValidatorKeys {
    /// Derives all keys from one seed, each with its own label.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        let derive = |label: &str| corniche_crypto::digest(&[b"corniche-keys/", label.as_bytes(), &seed].concat()).0;
        let fee_key = (0u8..)
            .find_map(|attempt| EthereumKey::from_bytes(&derive(&format!("fee/{attempt}"))).ok())
            .expect("256 digests are not all outside the curve's order");
        Self {
            consensus: ConsensusKey::from_seed(derive("consensus")),
            bls: BlsSecretKey::from_seed(derive("bls")),
            network: NetworkKey::from_seed(derive("network")),
            coin: None,
            stake: Some(StakeKeys { coin: CoinKey::from_seed(derive("coin")), owner: fee_key.address() }),
            fee_address: fee_key.address(),
            fee_key: Some(fee_key),
        }
    }

    fn author(&self) -> AuthorKeys {
        AuthorKeys { consensus: self.consensus.clone(), coin: self.stake.as_ref().map(|stake| stake.coin.clone()) }
    }

    fn is(&self, member: &Member) -> bool {
        member.consensus_key == self.consensus.public() && member.bls_key[..] == self.bls.public().to_bytes()[..]
    }

    /// Public part, as listed in a genesis, with one vote.
    pub fn public(&self) -> ValidatorInfo {
        ValidatorInfo {
            consensus_key: self.consensus.public(),
            bls_key: Bytes::copy_from_slice(&self.bls.public().to_bytes()),
            bls_proof: Bytes::copy_from_slice(&self.bls.prove_possession().to_bytes()),
            network_key: self.network.public(),
            fee_address: self.fee_address,
            votes: corniche_types::Votes(1),
            stake: self.stake.as_ref().map(StakeKeys::public),
        }
    }

    /// Index of the validator with these keys; `None` if the genesis does not list the consensus key.
    ///
    /// # Errors
    ///
    /// The genesis lists the consensus key with other keys than these: such a node must not start.
    pub fn index_in(&self, genesis: &Genesis) -> anyhow::Result<Option<ValidatorIndex>> {
        let Some((index, is_own)) = self.listed_in(genesis) else { return Ok(None) };
        ensure!(is_own, "the genesis lists other keys beside the consensus key of validator {index}");
        let Some(coin) = &self.coin else {
            bail!(
                "there is no coin.key of validator {index}; `corniche genesis finish` writes it, or the dealer of the genesis has it"
            )
        };
        let dealt = CoinPublicKeys::from_genesis(genesis).context("the genesis' coin keys are damaged")?;
        let fits = coin.index() == index && dealt.include(coin);
        ensure!(fits, "coin.key is not the key of validator {index} in this genesis");
        Ok(Some(index))
    }

    /// Index of the validator with this consensus key in a genesis, and whether all else that the genesis lists of it is of these keys.
    pub fn listed_in(&self, genesis: &Genesis) -> Option<(ValidatorIndex, bool)> {
        let own = self.public();
        let mut validators = (0u16..).map(ValidatorIndex).zip(&genesis.validators);
        let (index, listed) = validators.find(|(_, validator)| validator.consensus_key == own.consensus_key)?;
        // The genesis decides about the votes, and about staking.
        let stake = own.stake.clone().filter(|_| genesis.staking.is_some());
        Some((index, *listed == ValidatorInfo { votes: listed.votes, stake, ..own }))
    }

    /// Records in a validator's data directory that these keys have signed nothing. Only for keys just created.
    pub fn declare_unsigned(&self, data: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(data).with_context(|| format!("cannot create {}", data.display()))?;
        let path = DataDirectory::new(data).unsigned();
        fs::write(&path, format!("{}\n", self.consensus.public())).with_context(|| format!("cannot write {}", path.display()))
    }
}
