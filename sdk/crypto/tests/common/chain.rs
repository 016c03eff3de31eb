//! A chain whose epochs are days, for light clients.

use super::{bls_key, staked_genesis};
use corniche_crypto::{CommitteeKeys, bls_combine};
use corniche_types::{
    B256, Certificate, CommitIndex, Epoch, EpochChange, FaultModel, Genesis, Header, Height, LightMember, NextEpoch,
    RecordHead, SignerBitmap, TimestampMs, ValidatorIndex, Votes, header_hash, keccak256, light_root, wire,
};

/// Seconds of an epoch. The genesis is of second 1.
pub const DAY_S: u64 = 86_400;

/// A member with this key.
pub fn member(key: u8, votes: u32) -> LightMember {
    LightMember { bls_key: bls_key(key).public().to_bytes(), votes: Votes(votes) }
}

/// A chain whose committees a test chooses.
pub struct Chain {
    pub epoch: u64,
    pub committee: B256,
    /// Numbers of the members' keys, and their votes.
    pub members: Vec<(u8, u32)>,
}

impl Chain {
    pub fn new() -> (Self, CommitteeKeys) {
        let genesis = staked_genesis(4);
        (Self::of(&genesis), CommitteeKeys::from_genesis(&genesis).unwrap())
    }

    pub fn of(genesis: &Genesis) -> Self {
        let members = (0..genesis.validators.len() as u8).map(|key| (key, 1)).collect();
        Self { epoch: 0, committee: genesis.committee_hash(), members }
    }

    pub fn sign(&self, header: &Header, signers: &[u16]) -> Certificate {
        let (height, header_hash) = (Height(header.number), header_hash(header));
        let (epoch, model) = (Epoch(self.epoch), FaultModel::Byzantine);
        let message = Certificate::signed_bytes(77, epoch, self.committee, height, header_hash, model);
        let shares: Vec<_> =
            signers.iter().map(|at| bls_key(self.members[usize::from(*at)].0).sign(&message).to_bytes()).collect();
        let signature = bls_combine(&shares).unwrap().to_bytes().to_vec().into();
        let signers = SignerBitmap::from_signers(signers.iter().map(|at| ValidatorIndex(*at)), self.members.len());
        Certificate { epoch, committee_hash: self.committee, height, header_hash, fault_model: model, signers, signature }
    }

    /// The change to a committee with these members, signed by members of the running one.
    pub fn change(&self, members: &[(u8, u32)], signers: &[u16]) -> EpochChange {
        let members: Vec<_> = members.iter().map(|(key, votes)| member(*key, *votes)).collect();
        self.change_to(members, signers)
    }

    pub fn change_to(&self, members: Vec<LightMember>, signers: &[u16]) -> EpochChange {
        let root = light_root(FaultModel::Byzantine, &members);
        let next = NextEpoch { committee_hash: self.next_hash(), light_root: root, protocol_version: 5 };
        let head = head(self.epoch, Some(next));
        let (number, timestamp) = (100 * (self.epoch + 1), DAY_S * (self.epoch + 1));
        let header = Header { number, timestamp, extra_data: keccak256(&head).to_vec().into(), ..Header::default() };
        EpochChange { certificate: self.sign(&header, signers), header, head: head.into(), members: Some(members) }
    }

    fn next_hash(&self) -> B256 {
        B256::left_padding_from(&(self.epoch + 1).to_be_bytes())
    }

    pub fn enter(&mut self, members: &[(u8, u32)]) {
        (self.committee, self.epoch, self.members) = (self.next_hash(), self.epoch + 1, members.to_vec());
    }
}

/// Head of a block's ordering record.
pub fn head(epoch: u64, next: Option<NextEpoch>) -> Vec<u8> {
    wire::encode(&RecordHead {
        engine: "mahi-mahi".into(),
        protocol_version: 5,
        epoch: Epoch(epoch),
        committee_hash: B256::ZERO,
        next,
        commits: (CommitIndex(1), CommitIndex(2), 0),
        agreed: (ValidatorIndex(0), TimestampMs(5), B256::ZERO),
        hashes: (B256::ZERO, B256::ZERO, B256::ZERO),
    })
}
