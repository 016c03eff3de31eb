//! The committee and its quorum sizes, by name.

use borsh::BorshSerialize;
use corniche_types::evidence::{Contradiction, Evidence};
use corniche_types::{
    B256, Epoch, FaultModel, Genesis, Height, ProtocolRules, ValidatorIndex, ValidatorInfo, Votes, Weights, wire,
};

/// The validators of one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committee {
    chain_id: u64,
    epoch: Epoch,
    hash: B256,
    fault_model: FaultModel,
    members: Vec<Member>,
    weights: Weights,
    rules: &'static ProtocolRules,
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
            weights: genesis.weights(),
            rules: genesis.rules_at(Height(1)),
        }
    }

    /// Committee of a later epoch, with that one's hash. Nothing that members signed in one epoch is valid in another.
    pub fn of_epoch(genesis: &Genesis, epoch: Epoch, hash: B256, members: Vec<Member>) -> Self {
        let weights = Weights::new(members.iter().map(|member| member.votes), genesis.fault_model());
        Self { epoch, hash, members, weights, ..Self::from_genesis(genesis) }
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

    /// Rules of block 1, which decide for the whole chain what the members sign.
    pub fn rules(&self) -> &'static ProtocolRules {
        self.rules
    }

    pub fn fault_model(&self) -> FaultModel {
        self.fault_model
    }

    /// Makes evidence that a member signed a contradiction in this epoch. `None` if its BLS key has a wrong length, as in modelled
    /// networks.
    pub fn evidence(&self, offender: ValidatorIndex, contradiction: Contradiction) -> Option<Box<Evidence>> {
        let Member { consensus_key, bls_key, .. } = self.members.get(offender.as_usize())?;
        let (chain_id, epoch, consensus_key) = (self.chain_id, self.epoch, *consensus_key);
        let bls_key = bls_key.as_ref().try_into().ok()?;
        Some(Box::new(Evidence { chain_id, epoch, offender, consensus_key, bls_key, contradiction }))
    }

    /// n: number of validators.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// The members' votes.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Votes of one member.
    pub fn votes(&self, index: ValidatorIndex) -> Votes {
        self.weights.of(index)
    }

    /// Votes of distinct members together. A threshold applies to votes, never to a number of validators.
    pub fn weigh(&self, members: impl IntoIterator<Item = ValidatorIndex>) -> Votes {
        self.weights.weigh(members)
    }

    /// W: votes of all members.
    pub fn total(&self) -> Votes {
        self.weights.total()
    }

    /// F: most votes of faulty members.
    pub fn max_faulty(&self) -> Votes {
        self.weights.max_faulty()
    }

    /// Q = W − F: most votes that a validator can wait for. Two quorums share an honest validator.
    pub fn quorum(&self) -> Votes {
        self.weights.quorum()
    }

    /// F + 1: fewest votes of which some are honest.
    pub fn validity(&self) -> Votes {
        self.weights.validity()
    }

    /// 2F + 1: fewest votes with an honest vote in common with every quorum.
    pub fn beyond_doubt(&self) -> Votes {
        self.max_faulty() + self.validity()
    }

    /// T − F: fewest votes of honest members among members with T votes.
    pub fn overlap(&self, voters: Votes) -> Votes {
        self.weights.overlap(voters)
    }

    /// Takes members, of which the first come first, until they have `needed` votes; all if they have fewer.
    pub fn take_votes(&self, members: impl IntoIterator<Item = ValidatorIndex>, needed: Votes) -> Vec<ValidatorIndex> {
        self.weights.take_votes(members, needed)
    }

    pub fn member(&self, index: ValidatorIndex) -> Option<&Member> {
        self.members.get(index.as_usize())
    }

    pub fn members(&self) -> impl Iterator<Item = (ValidatorIndex, &Member)> {
        (0u16..).map(ValidatorIndex).zip(&self.members)
    }

    /// Index of the member with this network key.
    pub fn index_of(&self, network_key: &B256) -> Option<ValidatorIndex> {
        self.members().find(|(_, member)| member.network_key == *network_key).map(|(index, _)| index)
    }

    pub fn indices(&self) -> impl Iterator<Item = ValidatorIndex> + Clone + use<> {
        (0..u16::try_from(self.members.len()).expect("a committee has at most 1,000 members")).map(ValidatorIndex)
    }
}
