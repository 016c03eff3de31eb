//! Keys of a validator, and the messages that they sign.
//!
//! Signatures are byte for byte those that the engines, certification and the staking notices make with the same keys.

use crate::request::{PublicKeys, Scope, Statement};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_crypto::evidence::share_message;
use corniche_crypto::{BlsPublicKey, BlsSecretKey, BlsSignature, ConsensusKey, ConsensusPublicKey, Domain, Signed, bls_verify};
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
        match Message::new(scope, statement) {
            Message::Ed25519(domain, payload) => Bytes::copy_from_slice(&self.consensus.sign(&payload, &domain)),
            Message::Bls(message) => Bytes::copy_from_slice(&self.bls.sign(&message).to_bytes()),
        }
    }
}

/// Public keys of one key set, for verification.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VerifyingKeys {
    consensus: ConsensusPublicKey,
    bls: BlsPublicKey,
}

impl VerifyingKeys {
    /// Parses public keys: about 200 µs. Returns `None` if one is invalid.
    pub fn parse((consensus, bls): &PublicKeys) -> Option<Self> {
        Some(Self { consensus: ConsensusPublicKey::parse(consensus)?, bls: BlsPublicKey::from_bytes(bls)? })
    }

    /// Returns the public keys. The first one identifies the key set.
    pub fn public(&self) -> PublicKeys {
        (self.consensus(), self.bls.to_bytes())
    }

    /// Returns the key that identifies the key set.
    pub fn consensus(&self) -> B256 {
        self.consensus.to_bytes()
    }

    /// Returns whether the signature is one of the statement with these keys. Takes about 40 µs for ed25519, 1 ms for BLS.
    pub fn verify(&self, scope: &Scope, statement: &Statement, signature: &[u8]) -> bool {
        match Message::new(scope, statement) {
            Message::Ed25519(domain, payload) => <[u8; 64]>::try_from(signature)
                .is_ok_and(|signature| Signed { payload, signature }.verify(&self.consensus, &domain).is_ok()),
            Message::Bls(message) => {
                BlsSignature::from_bytes(signature).is_some_and(|signature| bls_verify(&self.bls, &message, &signature))
            }
        }
    }
}

/// Message that the signature of a statement covers.
enum Message {
    /// Signed with the consensus key.
    Ed25519(Domain, Encoded),
    /// Signed with the BLS key.
    Bls(Vec<u8>),
}

impl Message {
    fn new(scope: &Scope, statement: &Statement) -> Self {
        match *statement {
            Statement::Block(ref heading) => {
                Self::ed25519(scope.domain(tags::BLOCK), &scope.domain(tags::BLOCK).digest(heading))
            }
            Statement::Car { lane, position, parent, batch } => {
                let digest = scope.domain(tags::CAR).digest(&(lane, position, parent, batch));
                Self::ed25519(scope.domain(tags::AUTOBAHN), &digest)
            }
            Statement::Prepare { slot, view, cut } => {
                Self::ed25519(scope.domain(tags::AUTOBAHN), &scope.domain(tags::PREPARE).digest(&(slot, view, cut)))
            }
            Statement::DiskId { validator, disk } => {
                Self::ed25519(scope.domain(tags::AUTOBAHN), &scope.domain(tags::DISK_ID).digest(&(validator, disk)))
            }
            Statement::CarVote { lane, position, digest, bls } => {
                Self::share(scope, &scope.domain(tags::CAR_VOTE).digest(&(lane, position, digest)), bls)
            }
            Statement::Vote { kind, slot, view, cut, bls } => {
                Self::share(scope, &scope.domain(vote_tag(kind)).digest(&(slot, view, cut)), bls)
            }
            Statement::Timeout { slot, view, report, bls } => {
                Self::share(scope, &scope.domain(tags::TIMED_OUT).digest(&(slot, view, report)), bls)
            }
            Statement::Header { height, hash, fault_model } => {
                let Scope { chain_id, epoch, committee_hash } = *scope;
                Self::Bls(Certificate::signed_bytes(chain_id, epoch, committee_hash, height, hash, fault_model))
            }
            // The contract verifies the encoded statement, not its digest.
            Statement::Notice { ref payload } => Self::Ed25519(scope.domain(tags::NOTICE), Encoded(payload.clone())),
        }
    }

    /// A statement's digest under the domain of an engine's signatures.
    fn ed25519(domain: Domain, digest: &B256) -> Self {
        Self::Ed25519(domain, Encoded(Bytes::copy_from_slice(digest.as_slice())))
    }

    /// A statement's digest as a part of a certificate.
    fn share(scope: &Scope, digest: &B256, bls: bool) -> Self {
        let domain = scope.domain(tags::AUTOBAHN_SHARE);
        if bls { Self::Bls(share_message(&domain, digest)) } else { Self::ed25519(domain, digest) }
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
struct Encoded(Bytes);

impl BorshSerialize for Encoded {
    fn serialize<W: io::Write>(&self, writer: &mut W) -> io::Result<()> {
        writer.write_all(&self.0)
    }
}

/// [`Signed`] requires it.
impl BorshDeserialize for Encoded {
    fn deserialize_reader<R: io::Read>(reader: &mut R) -> io::Result<Self> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes)?;
        Ok(Self(bytes.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::evidence::{Heading, SlotReport};
    use corniche_types::{Epoch, FaultModel, Height, TimestampMs, ValidatorIndex};

    fn secrets(number: u8) -> SecretKeys {
        let bls = BlsSecretKey::from_seed([100 + number; 32]);
        SecretKeys { consensus: ConsensusKey::from_seed([number; 32]), bls }
    }

    fn scope() -> Scope {
        Scope { chain_id: 7, epoch: Epoch(3), committee_hash: B256::repeat_byte(8) }
    }

    fn statements() -> Vec<Statement> {
        let (lane, hash, slot, view) = (ValidatorIndex(1), B256::repeat_byte(5), 6, 1);
        let [parents, coin_shares, batch] = [hash; 3];
        let heading = Heading { author: lane, round: 2, timestamp: TimestampMs(3), parents, coin_shares, batch };
        let mut statements = vec![
            Statement::Block(heading),
            Statement::Car { lane, position: 4, parent: hash, batch },
            Statement::Prepare { slot, view, cut: hash },
            Statement::DiskId { validator: lane, disk: 9 },
            Statement::Header { height: Height(9), hash, fault_model: FaultModel::Byzantine },
            Statement::Notice { payload: Bytes::from_static(b"notice") },
        ];
        for bls in [false, true] {
            statements.push(Statement::CarVote { lane, position: 4, digest: hash, bls });
            statements.push(Statement::Timeout { slot, view, report: SlotReport::default(), bls });
            for kind in [VoteKind::Prepared, VoteKind::PreparedWeakly, VoteKind::Confirmed] {
                statements.push(Statement::Vote { kind, slot, view, cut: hash, bls });
            }
        }
        statements
    }

    #[test]
    fn only_signatures_of_the_statement_verify() {
        let keys = VerifyingKeys::parse(&secrets(1).public()).unwrap();
        assert_eq!(keys.public(), secrets(1).public());
        for statement in &statements() {
            let signature = secrets(1).sign(&scope(), statement);
            for other in &statements() {
                assert_eq!(keys.verify(&scope(), other, &signature), statement == other, "{statement:?} {other:?}");
            }
            let other_epoch = Scope { epoch: Epoch(4), ..scope() };
            assert!(!keys.verify(&other_epoch, statement, &signature), "{statement:?}");
            assert!(!keys.verify(&scope(), statement, &secrets(2).sign(&scope(), statement)), "{statement:?}");
        }
    }

    #[test]
    fn malformed_signatures_do_not_verify() {
        let keys = VerifyingKeys::parse(&secrets(1).public()).unwrap();
        for statement in &statements() {
            let signature = secrets(1).sign(&scope(), statement).to_vec();
            let longer = [&signature[..], &[0]].concat();
            let mut flipped = signature.clone();
            flipped[20] ^= 1;
            let malformed = [vec![], signature[1..].to_vec(), longer, flipped, vec![0; 48], vec![0; 64], vec![255; 48]];
            for bytes in malformed {
                assert!(!keys.verify(&scope(), statement, &bytes), "{statement:?} {bytes:?}");
            }
            // The point at infinity.
            let mut infinity = vec![0; 48];
            infinity[0] = 0xc0;
            assert!(!keys.verify(&scope(), statement, &infinity), "{statement:?}");
        }
    }

    #[test]
    fn invalid_public_keys_are_not_parsed() {
        let (consensus, bls) = secrets(1).public();
        assert!(VerifyingKeys::parse(&(B256::ZERO, bls)).is_none());
        assert!(VerifyingKeys::parse(&(consensus, [0; 96])).is_none());
    }
}
