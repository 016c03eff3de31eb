//! The committee and its quorum sizes, by name.

use borsh::BorshSerialize;
use corniche_types::{B256, Epoch, FaultModel, Genesis, ValidatorIndex, ValidatorInfo, wire};

/// The validators of one epoch. Weights are 1 in protocol version 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committee {
    chain_id: u64,
    epoch: Epoch,
    hash: B256,
    fault_model: FaultModel,
    members: Vec<Member>,
}

/// Identifies one committee of one chain. Every digest that members sign contains it, so that a signature is valid in
/// no other context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize)]
pub struct Scope {
    chain_id: u64,
    epoch: Epoch,
    committee_hash: B256,
}

impl Scope {
    pub fn new(committee: &Committee) -> Self {
        Self { chain_id: committee.chain_id, epoch: committee.epoch, committee_hash: committee.hash }
    }

    /// Encodes `payload` with the engine's tag, ready for signing.
    pub fn encode<T: BorshSerialize>(&self, tag: &str, payload: &T) -> Vec<u8> {
        wire::encode(&(tag, self, payload))
    }

    /// BLAKE3 hash of [`Scope::encode`], computed without building the encoding.
    pub fn digest<T: BorshSerialize>(&self, tag: &str, payload: &T) -> B256 {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&[wire::VERSION]);
        (tag, self, payload).serialize(&mut hasher).expect("hashing cannot fail");
        B256::from(*hasher.finalize().as_bytes())
    }
}

/// Public data of one validator.
pub type Member = ValidatorInfo;

impl Committee {
    /// Committee of epoch 0.
    pub fn from_genesis(genesis: &Genesis) -> Self {
        Self {
            chain_id: genesis.chain_id,
            epoch: Epoch(0),
            hash: genesis.committee_hash(),
            fault_model: genesis.fault_model(),
            members: genesis.validators.clone(),
        }
    }

    pub fn chain_id(&self) -> u64 {
        self.chain_id
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Part of every digest that the members sign.
    pub fn hash(&self) -> B256 {
        self.hash
    }

    pub fn fault_model(&self) -> FaultModel {
        self.fault_model
    }

    /// n: number of validators.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// f: maximum number of faulty validators.
    pub fn max_faulty(&self) -> usize {
        self.fault_model.faulty(self.size())
    }

    /// n − f: largest number of validators that a validator can wait for. Two quorums share at least one honest
    /// validator.
    pub fn quorum(&self) -> usize {
        self.fault_model.quorum(self.size())
    }

    /// f + 1: smallest number of validators that includes an honest one.
    pub fn validity_threshold(&self) -> usize {
        self.max_faulty() + 1
    }

    /// n − 2f: minimum number of validators that two quorums share, and of honest validators in one quorum.
    pub fn quorum_overlap(&self) -> usize {
        self.size() - 2 * self.max_faulty()
    }

    pub fn member(&self, index: ValidatorIndex) -> Option<&Member> {
        self.members.get(index.as_usize())
    }

    pub fn members(&self) -> impl Iterator<Item = (ValidatorIndex, &Member)> {
        (0u16..).map(ValidatorIndex).zip(&self.members)
    }

    pub fn indices(&self) -> impl Iterator<Item = ValidatorIndex> + use<> {
        (0..u16::try_from(self.members.len()).expect("a genesis has at most 1000 validators")).map(ValidatorIndex)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn quorums_intersect_in_honest_validator() {
        for n in 1usize..=100 {
            let f = (n - 1) / 3;
            let quorum = n - f;
            assert!(2 * quorum - n > f, "n = {n}: two quorums share {} validators, f = {f}", 2 * quorum - n);
        }
    }
}
