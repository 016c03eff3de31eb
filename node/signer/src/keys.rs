//! Secrets, and the bytes that they sign.
//!
//! Signatures are byte for byte those that the engines, certification and the staking notices make with the same keys.

use crate::request::{PublicKeys, Scope, Statement};
use borsh::BorshSerialize;
use corniche_crypto::evidence::share_message;
use corniche_crypto::{BlsSecretKey, ConsensusKey};
use corniche_types::evidence::{VoteKind, tags};
use corniche_types::{B256, Bytes, Certificate};
use std::io;

/// One key set of a validator.
#[derive(Clone, Debug)]
pub struct SecretKeys {
    /// Signs blocks, cars, proposals, notices and, without BLS, shares.
    pub consensus: ConsensusKey,
    /// Signs headers and, if the genesis selects it, shares.
    pub bls: BlsSecretKey,
}

impl SecretKeys {
    /// Returns the public keys. The first one identifies the key set.
    pub fn public(&self) -> PublicKeys {
        (self.consensus.public(), self.bls.public().to_bytes())
    }

    /// Signs a statement: 48 bytes if [`Statement::is_bls`], otherwise 64. Deterministic. Checks no marks.
    pub fn sign(&self, scope: &Scope, statement: &Statement) -> Bytes {
        match *statement {
            Statement::Block(ref heading) => self.ed25519(scope, tags::BLOCK, &scope.domain(tags::BLOCK).digest(heading)),
            Statement::Car { lane, position, parent, batch } => {
                self.ed25519(scope, tags::AUTOBAHN, &scope.domain(tags::CAR).digest(&(lane, position, parent, batch)))
            }
            Statement::Prepare { slot, view, cut } => {
                self.ed25519(scope, tags::AUTOBAHN, &scope.domain(tags::PREPARE).digest(&(slot, view, cut)))
            }
            Statement::DiskId { validator, disk } => {
                self.ed25519(scope, tags::AUTOBAHN, &scope.domain(tags::DISK_ID).digest(&(validator, disk)))
            }
            Statement::CarVote { lane, position, digest, bls } => {
                self.share(scope, &scope.domain(tags::CAR_VOTE).digest(&(lane, position, digest)), bls)
            }
            Statement::Vote { kind, slot, view, cut, bls } => {
                self.share(scope, &scope.domain(vote_tag(kind)).digest(&(slot, view, cut)), bls)
            }
            Statement::Timeout { slot, view, report, bls } => {
                self.share(scope, &scope.domain(tags::TIMED_OUT).digest(&(slot, view, report)), bls)
            }
            Statement::Header { height, hash, fault_model } => {
                let Scope { chain_id, epoch, committee_hash } = *scope;
                let message = Certificate::signed_bytes(chain_id, epoch, committee_hash, height, hash, fault_model);
                Bytes::copy_from_slice(&self.bls.sign(&message).to_bytes())
            }
            Statement::Notice { ref payload } => {
                // The contract verifies the encoded statement, not its digest.
                Bytes::copy_from_slice(&self.consensus.sign(&Encoded(payload), &scope.domain(tags::NOTICE)))
            }
        }
    }

    /// Signs a statement's digest under the domain of an engine's signatures.
    fn ed25519(&self, scope: &Scope, tag: &'static str, digest: &B256) -> Bytes {
        Bytes::copy_from_slice(&self.consensus.sign(digest, &scope.domain(tag)))
    }

    /// Signs a statement's digest as a part of a certificate.
    fn share(&self, scope: &Scope, digest: &B256, bls: bool) -> Bytes {
        if bls {
            let message = share_message(&scope.domain(tags::AUTOBAHN_SHARE), digest);
            Bytes::copy_from_slice(&self.bls.sign(&message).to_bytes())
        } else {
            self.ed25519(scope, tags::AUTOBAHN_SHARE, digest)
        }
    }
}

fn vote_tag(kind: VoteKind) -> &'static str {
    match kind {
        VoteKind::Prepared => tags::PREPARED,
        VoteKind::PreparedWeakly => tags::PREPARED_WEAKLY,
        VoteKind::Confirmed => tags::CONFIRMED,
    }
}

/// A value that is encoded already. Its encoding is its bytes, without a length.
struct Encoded<'a>(&'a [u8]);

impl BorshSerialize for Encoded<'_> {
    fn serialize<W: io::Write>(&self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.0)
    }
}
