//! Keys of a validator, in memory.

use anyhow::{Context, bail, ensure};
use corniche_crypto::{BlsSecretKey, CoinKey, CoinPublicKeys, CoinSecretShare, ConsensusKey, Domain, EthereumKey};
use corniche_engine::{Committee, Member, Unsigned};
use corniche_pipeline::{
    AuthorKeys, CertificateKeys, CertificateSignature, HeaderSigner, NoticeAuthor, NoticeSigner, NoticeStatement,
};
use corniche_signer::{RemoteSigner, Scope, Statement};
use corniche_store::DataDirectory;
use corniche_types::{
    Address, B256, Bytes, FaultModel, Genesis, GenesisStake, Height, ProtocolRules, ValidatorIndex, ValidatorInfo,
};
use std::{fs, path::Path, sync::Arc};

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

/// Keys with which a node takes part: its own secrets, and those with which it or another process signs.
#[derive(Clone, Debug)]
pub struct MemberKeys {
    /// As listed in a genesis, with one vote.
    pub public: ValidatorInfo,
    pub network: NetworkKey,
    /// Share of the genesis' coin.
    pub coin: Option<CoinSecretShare>,
    /// Deals coins, and decrypts shares of them. `None` in directories from before staking.
    pub coin_key: Option<CoinKey>,
    pub signing: Signing,
}

/// Where a validator's consensus key and BLS key are.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a process has one or two")]
pub enum Signing {
    /// In this process.
    Own { consensus: ConsensusKey, bls: BlsSecretKey },
    /// In another process, which also refuses to sign twice.
    Remote(Arc<RemoteSigner>),
}

/// Keys of one validator: in each epoch, those that the committee lists are used (K1).
#[derive(Clone, Debug)]
pub struct Keyring {
    pub current: MemberKeys,
    /// Those that will replace them.
    pub next: Option<MemberKeys>,
}

impl From<ValidatorKeys> for MemberKeys {
    fn from(keys: ValidatorKeys) -> Self {
        let public = keys.public();
        let ValidatorKeys { consensus, bls, network, coin, stake, .. } = keys;
        let coin_key = stake.map(|stake| stake.coin);
        Self { public, network, coin, coin_key, signing: Signing::Own { consensus, bls } }
    }
}

impl MemberKeys {
    /// Public consensus key.
    pub fn consensus_key(&self) -> B256 {
        self.public.consensus_key
    }

    /// Signs headers of a committee as the member with this index.
    pub fn certificate_signer(&self, committee: &Committee, index: ValidatorIndex) -> Arc<dyn HeaderSigner> {
        match &self.signing {
            Signing::Own { bls, .. } => CertificateKeys::signer(index, bls.clone()),
            Signing::Remote(signer) => Arc::new(RemoteKeys::new(self, signer, committee, index)),
        }
    }

    fn author(&self, chain_id: u64) -> AuthorKeys {
        let coin = self.coin_key.clone();
        match &self.signing {
            Signing::Own { consensus, .. } => AuthorKeys::new(consensus.clone(), coin),
            Signing::Remote(signer) => {
                let signer = RemoteNotices { key: self.consensus_key(), chain_id, signer: signer.clone() };
                AuthorKeys { signer: Arc::new(signer), coin }
            }
        }
    }

    fn is(&self, member: &Member) -> bool {
        member.consensus_key == self.public.consensus_key && member.bls_key == self.public.bls_key
    }

    /// Index of the validator with these keys; `None` if the genesis does not list the consensus key.
    ///
    /// # Errors
    ///
    /// The genesis lists the consensus key with other keys than these: such a node must not start.
    pub fn index_in(&self, genesis: &Genesis) -> anyhow::Result<Option<ValidatorIndex>> {
        let Some((index, is_own)) = listed_in(genesis, &self.public) else { return Ok(None) };
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
}

impl Keyring {
    /// Both sets of keys.
    pub fn sets(&self) -> impl Iterator<Item = &MemberKeys> {
        [&self.current].into_iter().chain(&self.next)
    }

    /// Keys that a committee lists, and the validator's index in it.
    pub fn member_of(&self, committee: &Committee) -> Option<(ValidatorIndex, &MemberKeys)> {
        committee.members().find_map(|(index, member)| Some((index, self.sets().find(|keys| keys.is(member))?)))
    }

    /// Makes the notices of this validator on a chain.
    pub fn notice_author(&self, chain_id: u64) -> NoticeAuthor {
        let keys = self.sets().map(|keys| keys.author(chain_id)).collect();
        NoticeAuthor { keys, chain_id, version: ProtocolRules::LATEST.version }
    }
}

impl<K: Into<MemberKeys>> From<K> for Keyring {
    fn from(current: K) -> Self {
        Self { current: current.into(), next: None }
    }
}

// ---- remote signer -----------------------------------------------------------------------------------------------------

/// Keys of a member of one committee, in a remote signer.
#[derive(Clone, Debug)]
pub struct RemoteKeys {
    pub index: ValidatorIndex,
    key: B256,
    scope: Scope,
    fault_model: FaultModel,
    signer: Arc<RemoteSigner>,
}

impl RemoteKeys {
    pub fn new(keys: &MemberKeys, signer: &Arc<RemoteSigner>, committee: &Committee, index: ValidatorIndex) -> Self {
        let (chain_id, epoch, committee_hash) = (committee.chain_id(), committee.epoch(), committee.hash());
        let (key, scope) = (keys.consensus_key(), Scope { chain_id, epoch, committee_hash });
        Self { index, key, scope, fault_model: committee.fault_model(), signer: signer.clone() }
    }

    /// Signs a statement for the committee.
    ///
    /// # Errors
    ///
    /// The signer refuses, or does not respond.
    pub fn sign(&self, statement: Statement) -> Result<Bytes, Unsigned> {
        self.signer.sign(self.key, self.scope, statement).map_err(|unsigned| match unsigned {
            corniche_signer::Unsigned::Refused => Unsigned::Refused,
            corniche_signer::Unsigned::Unavailable => Unsigned::Unavailable,
        })
    }
}

impl HeaderSigner for RemoteKeys {
    fn index(&self) -> ValidatorIndex {
        self.index
    }

    fn sign(&self, height: Height, hash: B256, _: &[u8]) -> Option<CertificateSignature> {
        let signature = self.sign(Statement::Header { height, hash, fault_model: self.fault_model }).ok()?;
        signature.as_ref().try_into().ok()
    }
}

/// Signs notices with a remote signer.
#[derive(Debug)]
struct RemoteNotices {
    key: B256,
    chain_id: u64,
    signer: Arc<RemoteSigner>,
}

impl NoticeSigner for RemoteNotices {
    fn public(&self) -> B256 {
        self.key
    }

    fn sign(&self, statement: &NoticeStatement, domain: &Domain) -> Option<[u8; 64]> {
        let scope = Scope { chain_id: self.chain_id, epoch: domain.epoch, committee_hash: domain.committee_hash };
        let payload = borsh::to_vec(statement).ok()?.into();
        self.signer.sign(self.key, scope, Statement::Notice { payload }).ok()?.as_ref().try_into().ok()
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

    /// See [`MemberKeys::index_in`].
    ///
    /// # Errors
    ///
    /// See there.
    pub fn index_in(&self, genesis: &Genesis) -> anyhow::Result<Option<ValidatorIndex>> {
        MemberKeys::from(self.clone()).index_in(genesis)
    }

    /// Index of the validator with this consensus key in a genesis, and whether all else that the genesis lists of it is of these keys.
    pub fn listed_in(&self, genesis: &Genesis) -> Option<(ValidatorIndex, bool)> {
        listed_in(genesis, &self.public())
    }

    /// Records in a validator's data directory that these keys have signed nothing. Only for keys just created.
    pub fn declare_unsigned(&self, data: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(data).with_context(|| format!("cannot create {}", data.display()))?;
        let path = DataDirectory::new(data).unsigned();
        fs::write(&path, format!("{}\n", self.consensus.public())).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Index of a validator in a genesis by its consensus key, and whether all else that the genesis lists of it is equal.
fn listed_in(genesis: &Genesis, own: &ValidatorInfo) -> Option<(ValidatorIndex, bool)> {
    let mut validators = (0u16..).map(ValidatorIndex).zip(&genesis.validators);
    let (index, listed) = validators.find(|(_, validator)| validator.consensus_key == own.consensus_key)?;
    // The genesis decides about the votes, and about staking.
    let stake = own.stake.clone().filter(|_| genesis.staking.is_some());
    Some((index, *listed == ValidatorInfo { votes: listed.votes, stake, ..own.clone() }))
}
