//! Signatures of the engines by a remote signer (`corniche signer`).

use corniche_autobahn::{
    Authored, Share,
    message::{Report, Statement as AutobahnStatement},
};
use corniche_crypto::CoinSecretShare;
use corniche_engine::Unsigned;
use corniche_mahi_mahi::{CoinShares, crypto};
use corniche_service::{RemoteKeys, SignedStatement as Statement};
use corniche_types::{
    B256, ValidatorIndex, Votes,
    evidence::{Heading, SlotReport, VoteKind},
};

type Signature = [u8; 64];

/// A member under Mahi-Mahi. Its share of the coin is in this process: nothing that it signs is an offence.
pub struct MahiMahiSigner {
    pub keys: RemoteKeys,
    pub coin: Option<CoinSecretShare>,
    pub votes: Votes,
}

impl corniche_mahi_mahi::Signer for MahiMahiSigner {
    fn index(&self) -> ValidatorIndex {
        self.keys.index
    }

    fn sign(&self, heading: &Heading, _: &B256) -> Result<Signature, Unsigned> {
        let signature = self.keys.sign(Statement::Block(*heading))?;
        signature.as_ref().try_into().map_err(|_| Unsigned::Unavailable)
    }

    fn coin_shares(&self, message: &[u8]) -> CoinShares {
        crypto::coin_shares(self.coin.as_ref(), self.votes, message)
    }
}

/// A member under Autobahn.
pub struct AutobahnSigner {
    pub keys: RemoteKeys,
    /// Certificates are sums.
    pub bls: bool,
}

impl corniche_autobahn::Signer for AutobahnSigner {
    fn index(&self) -> ValidatorIndex {
        self.keys.index
    }

    fn sign(&self, authored: &Authored, _: &B256) -> Option<Signature> {
        let own = self.keys.index;
        let statement = match *authored {
            Authored::Car { position, parent, batch } => Statement::Car { lane: own, position: position.0, parent, batch },
            Authored::Prepare { slot, view, cut } => Statement::Prepare { slot: slot.0, view: view.0, cut },
            Authored::Disk(disk) => Statement::DiskId { validator: own, disk },
        };
        self.keys.sign(statement).ok()?.as_ref().try_into().ok()
    }

    fn share(&self, statement: &AutobahnStatement, _: &B256) -> Result<Share, Unsigned> {
        use AutobahnStatement::*;
        let bls = self.bls;
        let vote = |kind, slot: u64, view: u32, cut| Statement::Vote { kind, slot, view, cut, bls };
        self.keys.sign(match *statement {
            CarVote(tip) => Statement::CarVote { lane: tip.lane, position: tip.position.0, digest: tip.digest, bls },
            PrepareVote { slot, view, cut } => vote(VoteKind::Prepared, slot.0, view.0, cut),
            WeakPrepareVote { slot, view, cut } => vote(VoteKind::PreparedWeakly, slot.0, view.0, cut),
            ConfirmAck { slot, view, cut } => vote(VoteKind::Confirmed, slot.0, view.0, cut),
            Timeout { slot, view, report: Report { confirmed, voted } } => {
                let [confirmed, voted] = [confirmed, voted].map(|vote| vote.map(|(view, cut)| (view.0, cut)));
                Statement::Timeout { slot: slot.0, view: view.0, report: SlotReport { confirmed, voted }, bls }
            }
        })
    }
}
