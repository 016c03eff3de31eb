//! The engine's cryptography for production: ed25519 and the BLS threshold coin of `corniche_crypto`.

use crate::keys::{Coin, CoinShare, CoinShares, CoinValue, Signature, Signatures, Signer};
use corniche_crypto::{
    BLS_SIGNATURE_BYTES, BlsSignature, CoinPublicKeys, CoinSecretShare, ConsensusKey, ConsensusPublicKey, Domain, Signed,
};
use corniche_engine::{Committee, Unsigned};
use corniche_types::{
    B256, ValidatorIndex, Votes,
    evidence::{Heading, tags},
};

/// Signature domain of this engine.
fn domain(committee: &Committee) -> Domain {
    Domain { tag: tags::BLOCK, chain_id: committee.chain_id(), epoch: committee.epoch(), committee_hash: committee.hash() }
}

/// One validator's secrets.
pub struct ValidatorKeys {
    index: ValidatorIndex,
    consensus: ConsensusKey,
    coin: Option<CoinSecretShare>,
    votes: Votes,
    domain: Domain,
}

impl ValidatorKeys {
    /// Takes the index under which the committee lists the consensus key. Without a coin share, it sends shares with which nobody can
    /// open the coin. Returns `None` if the key is not listed, or if the coin share belongs to another validator.
    pub fn new(committee: &Committee, consensus: ConsensusKey, coin: Option<CoinSecretShare>) -> Option<Self> {
        let public = consensus.public();
        let (index, _) = committee.members().find(|(_, member)| member.consensus_key == public)?;
        let votes = committee.votes(index);
        let fits = coin.as_ref().is_none_or(|coin| coin.index() == index && coin.votes() == votes);
        fits.then(|| Self { index, consensus, coin, votes, domain: domain(committee) })
    }
}

impl ValidatorKeys {
    /// Signs the digest of a block.
    pub fn sign_digest(&self, digest: &B256) -> Signature {
        self.consensus.sign(digest, &self.domain)
    }
}

impl Signer for ValidatorKeys {
    fn index(&self) -> ValidatorIndex {
        self.index
    }

    fn sign(&self, _: &Heading, digest: &B256) -> Result<Signature, Unsigned> {
        Ok(self.sign_digest(digest))
    }

    fn coin_shares(&self, message: &[u8]) -> CoinShares {
        coin_shares(self.coin.as_ref(), self.votes, message)
    }
}

/// Shares of the coin of a member with these votes. Without its secret, they open nothing.
pub fn coin_shares(coin: Option<&CoinSecretShare>, votes: Votes, message: &[u8]) -> CoinShares {
    match coin {
        Some(coin) => coin.sign(message).into_iter().map(|share| share.0).collect(),
        None => vec![[0; BLS_SIGNATURE_BYTES]; votes.as_usize()],
    }
}

/// The committee's ed25519 keys, parsed once.
pub struct CommitteeSignatures {
    keys: Vec<ConsensusPublicKey>,
    domain: Domain,
}

impl CommitteeSignatures {
    /// Returns `None` if a key is invalid.
    pub fn new(committee: &Committee) -> Option<Self> {
        let keys = committee.members().map(|(_, member)| ConsensusPublicKey::parse(&member.consensus_key));
        Some(Self { keys: keys.collect::<Option<_>>()?, domain: domain(committee) })
    }
}

impl Signatures for CommitteeSignatures {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        let signed = Signed { payload: *digest, signature: *signature };
        self.keys.get(author.as_usize()).is_some_and(|key| signed.verify(key, &self.domain).is_ok())
    }
}

/// BLS coin of a committee, opened by a quorum.
pub struct ThresholdCoin {
    keys: CoinPublicKeys,
    threshold: Votes,
}

impl ThresholdCoin {
    pub fn new(committee: &Committee, keys: CoinPublicKeys) -> Self {
        Self { keys, threshold: committee.quorum() }
    }
}

impl Coin for ThresholdCoin {
    fn combine(&self, message: &[u8], shares: &[(ValidatorIndex, CoinShares)]) -> Option<CoinValue> {
        let shares: Vec<_> = shares.iter().map(|(author, shares)| (*author, wrapped(shares))).collect();
        let value = self.keys.combine(self.threshold, &shares)?;
        // A lone validator's share is the coin, and it made the share itself.
        let is_lone = self.threshold == Votes(1);
        (is_lone || self.keys.verify(message, &value)).then(|| value.to_bytes())
    }

    fn verify(&self, message: &[u8], value: &CoinValue) -> bool {
        BlsSignature::from_bytes(value).is_some_and(|value| self.keys.verify(message, &value))
    }

    fn verify_shares(&self, author: ValidatorIndex, message: &[u8], shares: &[CoinShare]) -> bool {
        self.keys.verify_shares(author, message, &wrapped(shares))
    }
}

fn wrapped(shares: &[CoinShare]) -> Vec<corniche_crypto::CoinShare> {
    shares.iter().copied().map(corniche_crypto::CoinShare).collect()
}
