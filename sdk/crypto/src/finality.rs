//! Finality: a certificate makes its block final and, header by header, all earlier blocks.

use crate::{CertificateError, CommitteeKeys};
use corniche_types::{B256, Certificate, Header, header_hash};

/// A final block, independent of the source of the data. It starts as the block in a certificate and moves to its
/// parent with each header that it checks. It performs no I/O, so any client can provide the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinalBlock {
    number: u64,
    hash: B256,
}

/// Why a header is not that of a final block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The header has another hash.
    #[error("expected block {expected}, got a header with hash {found}")]
    Hash {
        /// Hash of the final block.
        expected: B256,
        /// Hash of the header.
        found: B256,
    },
    /// The header has the right hash, but its number differs from the certificate's.
    #[error("expected block number {expected}, got {found}")]
    Number {
        /// Number from the certificate.
        expected: u64,
        /// Number in the header.
        found: u64,
    },
}

impl FinalBlock {
    /// Returns the block in a certificate, after verifying a quorum's signature.
    pub fn certified(committee: &CommitteeKeys, certificate: &Certificate) -> Result<Self, CertificateError> {
        committee.verify(certificate)?;
        Ok(Self::verified(certificate))
    }

    /// Returns the block in a certificate that was verified before.
    pub(crate) fn verified(certificate: &Certificate) -> Self {
        Self { number: certificate.height.0, hash: certificate.header_hash }
    }

    /// Returns its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns its hash.
    pub fn hash(&self) -> B256 {
        self.hash
    }

    /// Checks that this is the block's header. Computes the hash itself.
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

    /// Checks the header and returns the block's parent, which is final too. The parent of block 0 is block 0.
    pub fn parent(self, header: &Header) -> Result<Self, HeaderError> {
        self.check(header)?;
        Ok(match self.number.checked_sub(1) {
            Some(number) => Self { number, hash: header.parent_hash },
            None => self,
        })
    }
}
