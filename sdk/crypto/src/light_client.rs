//! Light client: trusts the genesis or a [`TrustPoint`], and believes only what committees signed since (validators.md, section 8).
//!
//! It holds the [`Committees`], and two more rules. A root serves for a limited time only, because members that have left lose nothing
//! by signing another chain (L5). Each end of an epoch that it verifies becomes the next root. And two certified blocks that exclude
//! each other stop it for good (L6): then more validators are faulty than any certificate allows for.

use crate::{CommitteeKeys, Committees, EpochChangeError, FinalBlock, FinalityError, GenesisKeyError, light::following_epoch};
use corniche_types::{
    B256, Certificate, Epoch, EpochChange, Genesis, LightMember, TimestampMs, TrustExpired, TrustPoint, TrustRoot, header_hash,
};
use std::collections::BTreeMap;

/// Certificates of the newest blocks that are kept to compare later ones with them, beside those of the ends of epochs.
const MAX_KEPT: usize = 256;

/// Two blocks of which a chain can have only one, each certified by a quorum. Anybody can verify the certificates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "certificates of two blocks that exclude each other: {} at height {} in epoch {}, and {} at height {} in epoch {}. Validators signed \
     both; trust no node of this chain, and publish both certificates",
    .certificates[0].header_hash, .certificates[0].height, .certificates[0].epoch,
    .certificates[1].header_hash, .certificates[1].height, .certificates[1].epoch
)]
pub struct Conflict {
    /// The certificates, in the order in which they were seen.
    pub certificates: [Certificate; 2],
}

/// Why a light client does not believe a claim.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LightError {
    /// The newest root is too old.
    #[error("{0}. Or accept the old one explicitly")]
    Expired(#[from] TrustExpired),
    /// The chain has split. The client returns this error from now on.
    #[error(transparent)]
    Conflict(#[from] Box<Conflict>),
    /// An epoch change is invalid.
    #[error(transparent)]
    Change(#[from] EpochChangeError),
    /// A certificate is invalid.
    #[error(transparent)]
    Finality(#[from] FinalityError),
}

/// Why a light client cannot begin from a trust point.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustPointError {
    /// It is of another chain than the genesis.
    #[error("trust point: expected one of chain {expected}, got one of chain {found}")]
    Chain {
        /// Chain id of the genesis.
        expected: u64,
        /// Chain id in the point.
        found: u64,
    },
    /// The header is not that of the block in the point.
    #[error("trust point: expected block {expected}, got a header with hash {found}")]
    Block {
        /// Hash in the point.
        expected: B256,
        /// Hash of the header.
        found: B256,
    },
    /// The block does not end the epoch, or the members are not those that it names.
    #[error("trust point: {0}")]
    Change(#[from] EpochChangeError),
}

/// A client of one chain that verifies certificates. Performs no I/O, and takes the time as an argument.
#[derive(Clone, Debug)]
pub struct LightClient {
    committees: Committees,
    /// The newest end of an epoch that was verified, or the block at which the client began.
    root: TrustRoot,
    accepts_expired: bool,
    /// U: number of epochs for which stake answers. What members of earlier ones sign proves nothing against the chain.
    liable_epochs: u64,
    /// Height and hash of the block in the trust point at which the client began.
    first_block: Option<(u64, B256)>,
    /// Certificates of the ends of epochs that were followed and whose members are liable.
    ends: BTreeMap<Epoch, Certificate>,
    /// Verified certificates of the highest blocks, by height.
    kept: BTreeMap<u64, Certificate>,
    conflict: Option<Box<Conflict>>,
}

impl LightClient {
    /// Begins with the committee of the genesis.
    ///
    /// # Errors
    ///
    /// A key of the genesis is invalid.
    pub fn from_genesis(genesis: &Genesis) -> Result<Self, GenesisKeyError> {
        let committees = Committees::new(CommitteeKeys::from_genesis(genesis)?);
        Ok(Self::new(genesis, committees, TrustRoot::genesis(genesis)))
    }

    /// Begins with the end of an epoch. `change` is that of the epoch in the point; its certificate is not used. `members` are those of
    /// the next committee, even if the set stayed.
    ///
    /// # Errors
    ///
    /// The hash in the point does not cover these data.
    pub fn from_trust_point(
        genesis: &Genesis,
        point: TrustPoint,
        change: &EpochChange,
        members: &[LightMember],
    ) -> Result<Self, TrustPointError> {
        let EpochChange { header, head, .. } = change;
        if point.chain_id != genesis.chain_id {
            return Err(TrustPointError::Chain { expected: genesis.chain_id, found: point.chain_id });
        }
        let found = header_hash(header);
        if found != point.hash {
            return Err(TrustPointError::Block { expected: point.hash, found });
        }
        let next = following_epoch(header, head, point.epoch)?;
        let (chain_id, epoch) = (point.chain_id, point.epoch.next());
        let committee = CommitteeKeys::of_members(chain_id, genesis.fault_model(), epoch, &next, members)?;
        let client =
            Self::new(genesis, Committees::after(header.number, committee), TrustRoot::genesis(genesis).at(point, header));
        Ok(Self { first_block: Some((header.number, point.hash)), ..client })
    }

    fn new(genesis: &Genesis, committees: Committees, root: TrustRoot) -> Self {
        let (ends, kept) = (BTreeMap::new(), BTreeMap::new());
        let liable_epochs = genesis.epochs().map_or(u64::MAX, |parameters| parameters.unbonding_epochs);
        Self { committees, root, accepts_expired: false, liable_epochs, first_block: None, ends, kept, conflict: None }
    }

    /// Accepts roots of any age. Holders of enough old keys can then show it another chain.
    pub fn accept_expired_trust(self) -> Self {
        Self { accepts_expired: true, ..self }
    }

    /// Returns the known committees.
    pub fn committees(&self) -> &Committees {
        &self.committees
    }

    /// Returns the newest root, for a client that begins later. `None` for the genesis.
    pub fn trust_point(&self) -> Option<TrustPoint> {
        self.root.point
    }

    /// Checks that the client may go on: its newest root is recent enough, and the chain has not split.
    ///
    /// # Errors
    ///
    /// [`LightError::Expired`] and [`LightError::Conflict`].
    pub fn check(&self, now: TimestampMs) -> Result<(), LightError> {
        if let Some(conflict) = &self.conflict {
            return Err(conflict.clone().into());
        }
        if !self.accepts_expired {
            self.root.check_age(now)?;
        }
        Ok(())
    }

    /// Adds the next committee, if the newest one signed it. A change of a known epoch is only compared with the known one.
    ///
    /// # Errors
    ///
    /// See [`LightError`]. Without a conflict, the client can go on with another change.
    pub fn advance(&mut self, change: &EpochChange, now: TimestampMs) -> Result<(), LightError> {
        self.check(now)?;
        let (epoch, certificate) = (change.certificate.epoch, &change.certificate);
        if epoch < self.committees.newest().epoch() {
            return self.compare_end(epoch, change);
        }
        self.committees.advance(change)?;
        // Before the end was known, a block above it may have been verified.
        let above = self.kept.range(certificate.height.0 + 1..).find(|(_, kept)| kept.epoch == epoch);
        if let Some(kept) = above.map(|(_, kept)| kept.clone()) {
            return self.stop([kept, certificate.clone()]);
        }
        self.ends.insert(epoch, certificate.clone());
        self.ends.retain(|epoch, _| is_liable(*epoch, &self.committees, self.liable_epochs));
        self.kept.retain(|_, kept| is_liable(kept.epoch, &self.committees, self.liable_epochs));
        let point = TrustPoint { chain_id: self.committees.newest().chain_id, epoch, hash: certificate.header_hash };
        self.root = self.root.at(point, &change.header);
        self.keep(certificate)
    }

    /// Returns the block in a certificate, after verifying a quorum's signature.
    ///
    /// # Errors
    ///
    /// See [`LightError`].
    pub fn certified(&mut self, certificate: &Certificate, now: TimestampMs) -> Result<FinalBlock, LightError> {
        self.check(now)?;
        // The block in the trust point is trusted, and its committee is not known. Consecutive requests are often about one block.
        let is_first = self.first_block == Some((certificate.height.0, certificate.header_hash));
        if is_first || self.kept.get(&certificate.height.0) == Some(certificate) {
            return Ok(FinalBlock::verified(certificate));
        }
        let block = self.committees.certified(certificate)?;
        self.keep(certificate)?;
        Ok(block)
    }

    /// An epoch has one end.
    fn compare_end(&mut self, epoch: Epoch, change: &EpochChange) -> Result<(), LightError> {
        // An epoch before the first root cannot be verified. What members signed who may have left would stop the client without a reason.
        let (Some(committee), Some(end)) = (self.committees.of(epoch), self.ends.get(&epoch)) else { return Ok(()) };
        if end.header_hash == change.certificate.header_hash {
            return Ok(());
        }
        committee.advance(change)?;
        self.stop([end.clone(), change.certificate.clone()])
    }

    /// Keeps a verified certificate. A height has one block.
    fn keep(&mut self, certificate: &Certificate) -> Result<(), LightError> {
        if !is_liable(certificate.epoch, &self.committees, self.liable_epochs) {
            return Ok(());
        }
        let height = certificate.height;
        let known = self.ends.get(&certificate.epoch).into_iter().chain(self.kept.get(&height.0));
        let other = known.filter(|known| known.height == height).find(|known| known.header_hash != certificate.header_hash);
        if let Some(other) = other.cloned() {
            return self.stop([other, certificate.clone()]);
        }
        self.kept.insert(height.0, certificate.clone());
        if self.kept.len() > MAX_KEPT {
            self.kept.pop_first();
        }
        Ok(())
    }

    fn stop<T>(&mut self, certificates: [Certificate; 2]) -> Result<T, LightError> {
        let conflict = Box::new(Conflict { certificates });
        self.conflict = Some(conflict.clone());
        Err(conflict.into())
    }
}

/// Returns whether stake still answers for what the members of this epoch signed.
fn is_liable(epoch: Epoch, committees: &Committees, liable_epochs: u64) -> bool {
    committees.newest().epoch().0.saturating_sub(epoch.0) <= liable_epochs
}
