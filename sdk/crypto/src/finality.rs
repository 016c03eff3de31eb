//! What a certificate makes final: its block and, header by header, every block before it.

use crate::{CertificateError, CommitteeKeys};
use corniche_types::{B256, Certificate, Header, header_hash};

/// A block that is final, whoever told of it. It begins as the one that a certificate names and goes down to its parent by each header
/// that is shown; nothing is asked for here, so that a client of any kind can bring the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinalBlock {
    number: u64,
    hash: B256,
}

/// Why a header is not the one of a final block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// It hashes to something else.
    #[error("asked for block {expected}, the answer hashes to {found}")]
    Hash {
        /// The final block.
        expected: B256,
        /// What the header hashes to.
        found: B256,
    },
    /// It is the final block's, and that block says another number of itself than the certificate does.
    #[error("block {expected} calls itself block {found}")]
    Number {
        /// By the certificate.
        expected: u64,
        /// By the header.
        found: u64,
    },
}

impl FinalBlock {
    /// The block that a certificate names, once a quorum's signature of it has verified.
    pub fn certified(committee: &CommitteeKeys, certificate: &Certificate) -> Result<Self, CertificateError> {
        committee.verify(certificate)?;
        Ok(Self { number: certificate.height.0, hash: certificate.header_hash })
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Its hash.
    pub fn hash(&self) -> B256 {
        self.hash
    }

    /// Whether this is the block's header. It is hashed here, whatever was claimed of it.
    pub fn check(&self, header: &Header) -> Result<(), HeaderError> {
        let found = header_hash(header);
        if found != self.hash {
            return Err(HeaderError::Hash { expected: self.hash, found });
        }
        if header.number != self.number {
            return Err(HeaderError::Number { expected: self.number, found: header.number });
        }
        Ok(())
    }

    /// The block's parent, which is as final as the block whose header this is. Block 0 is its own.
    pub fn parent(self, header: &Header) -> Result<Self, HeaderError> {
        self.check(header)?;
        Ok(match self.number.checked_sub(1) {
            Some(number) => Self { number, hash: header.parent_hash },
            None => self,
        })
    }
}
