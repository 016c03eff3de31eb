//! Checks of peers' messages, before the pipeline gets them. They need no state of the pipeline, so a node runs them on
//! other threads.

use crate::execution::VerifiedTransaction;
use crate::io::{Fault, Input, NodeKey};
use crate::message::PeerMessage;
use corniche_admission::Refusal;
use corniche_certify::VerifiedCertificate;
use corniche_engine::{PeerFault, Verified};
use corniche_staking::{Notice, VerifiedNotice};
use corniche_types::{Address, B256, Bytes, Certificate, Epoch, Height, ValidatorIndex};

/// Verifiers of the parts of a message.
pub trait Checks {
    /// Epoch of the committee that is verified now.
    fn epoch(&self) -> Epoch;

    /// True for a validator.
    fn has_engine(&self) -> bool;

    /// Verifies a message of an engine of this epoch. `None`: this node has no engine of that epoch.
    fn engine(&self, epoch: Epoch, from: ValidatorIndex, bytes: &Bytes) -> Option<Result<Verified, PeerFault>>;

    /// Verifies a certificate; `None` if it is invalid.
    fn certificate(&self, certificate: &Certificate) -> Option<VerifiedCertificate>;

    /// Highest height certified here.
    fn certified(&self) -> Height;

    /// Verifies a notice to the staking contract; `None` if the newest state does not lack it.
    fn notice(&self, bytes: &Bytes) -> Option<VerifiedNotice>;

    fn transaction(&self, raw: Bytes) -> Result<VerifiedTransaction, Refusal>;

    /// Records senders that a validator attested. Nothing to do where every validator checks every signature.
    fn record_attestations(&self, _from: ValidatorIndex, _attestations: &[(B256, Address)]) {}
}

impl PeerMessage {
    /// Checks a message of the peer `from`, which is `validator` or a guest. Returns the inputs for the pipeline.
    ///
    /// # Errors
    ///
    /// The peer violated the protocol: the message is never valid.
    pub fn check(&self, from: NodeKey, validator: Option<ValidatorIndex>, checks: &impl Checks) -> Result<Vec<Input>, Fault> {
        let from_validator = || validator.ok_or_else(|| Fault("message type reserved for validators".into()));
        Ok(match self {
            Self::Engine(bytes) => check_engine(Epoch(0), from_validator()?, bytes, checks)?,
            Self::EpochEngine(epoch, bytes) => check_engine(*epoch, from_validator()?, bytes, checks)?,
            Self::Epoch { epoch, wants_answer } => epoch_input(from, validator, *epoch, *wants_answer, checks),
            Self::CertificateShare(bytes) => vec![Input::CertificateShare { from: from_validator()?, bytes: bytes.clone() }],
            // It has no effect, so its verification would only cost time.
            Self::Certificate(certificate) if certificate.height <= checks.certified() => Vec::new(),
            // Its committee is not known yet. The sender must be in that epoch to have it.
            Self::Certificate(certificate) if certificate.epoch != checks.epoch() => {
                epoch_input(from, validator, certificate.epoch, false, checks)
            }
            Self::Certificate(certificate) => {
                match checks.certificate(certificate) {
                    Some(certificate) => vec![Input::Certificate { from, certificate }],
                    // Another epoch has started meanwhile.
                    None if certificate.epoch != checks.epoch() => Vec::new(),
                    None => return Err(Fault("invalid certificate".into())),
                }
            }
            Self::Transactions(raw) => {
                let check = |raw: &Bytes| {
                    let transaction = checks.transaction(raw.clone()).map_err(|refusal| Fault(refusal.to_string()))?;
                    Ok(Input::Submit { transaction, from: Some(from), reply: None })
                };
                raw.iter().map(check).collect::<Result<_, Fault>>()?
            }
            Self::Notice(bytes) if Notice::decode(bytes).is_none() => return Err(Fault("malformed notice".into())),
            // It may be valid in the sender's state, so it is no fault.
            Self::Notice(bytes) => checks.notice(bytes).map(Input::Notice).into_iter().collect(),
            Self::Attestations(attestations) => {
                checks.record_attestations(from_validator()?, attestations);
                Vec::new()
            }
        })
    }
}

/// A peer's statement about its epoch. A node with an engine listens to validators only.
fn epoch_input(
    peer: NodeKey,
    validator: Option<ValidatorIndex>,
    epoch: Epoch,
    wants_answer: bool,
    checks: &impl Checks,
) -> Vec<Input> {
    let heeds = validator.is_some() || !checks.has_engine();
    heeds.then_some(Input::PeerEpoch { peer, epoch, wants_answer }).into_iter().collect()
}

fn check_engine(epoch: Epoch, from: ValidatorIndex, bytes: &Bytes, checks: &impl Checks) -> Result<Vec<Input>, Fault> {
    let Some(verdict) = checks.engine(epoch, from, bytes) else { return Ok(Vec::new()) };
    let message = verdict.map_err(|PeerFault(reason)| Fault(reason))?;
    Ok(vec![Input::Engine { from, epoch, message }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::{FaultModel, SignerBitmap};

    /// A node without an engine at height 5. Nothing is valid.
    struct FullNode;

    impl Checks for FullNode {
        fn epoch(&self) -> Epoch {
            Epoch(0)
        }

        fn has_engine(&self) -> bool {
            false
        }

        fn engine(&self, _: Epoch, _: ValidatorIndex, _: &Bytes) -> Option<Result<Verified, PeerFault>> {
            None
        }

        fn certificate(&self, certificate: &Certificate) -> Option<VerifiedCertificate> {
            assert!(certificate.height > self.certified(), "an old one is not verified");
            None
        }

        fn certified(&self) -> Height {
            Height(5)
        }

        fn notice(&self, _: &Bytes) -> Option<VerifiedNotice> {
            None
        }

        fn transaction(&self, raw: Bytes) -> Result<VerifiedTransaction, Refusal> {
            corniche_admission::check(raw, 7)
        }
    }

    fn certificate(height: u64) -> PeerMessage {
        PeerMessage::Certificate(Certificate {
            epoch: Epoch(0),
            committee_hash: B256::ZERO,
            height: Height(height),
            header_hash: B256::ZERO,
            fault_model: FaultModel::Byzantine,
            signers: SignerBitmap::from_signers([], 4),
            signature: Bytes::new(),
        })
    }

    #[test]
    fn useless_messages_are_ignored_and_invalid_ones_are_faults() {
        let check = |message: PeerMessage, validator: Option<u16>| {
            let inputs = message.check([1; 32], validator.map(ValidatorIndex), &FullNode);
            inputs.map(|inputs| inputs.len()).map_err(|Fault(reason)| reason)
        };
        let [engine, share] = [PeerMessage::Engine, PeerMessage::CertificateShare].map(|kind| kind(Bytes::new()));
        let attestations = PeerMessage::Attestations(vec![(B256::ZERO, Address::ZERO)]);
        assert_eq!([check(certificate(4), None), check(certificate(5), Some(0))], [Ok(0), Ok(0)]);
        assert_eq!(check(certificate(6), None), Err("invalid certificate".into()));
        assert_eq!([check(engine.clone(), Some(0)), check(share.clone(), Some(0))], [Ok(0), Ok(1)]);
        let reserved = Err("message type reserved for validators".to_owned());
        assert_eq!(check(attestations.clone(), Some(0)), Ok(0));
        assert_eq!([engine, share, attestations].map(|message| check(message, None)), [(); 3].map(|()| reserved.clone()));
        assert!(check(PeerMessage::Transactions(vec![Bytes::from_static(b"junk")]), Some(0)).is_err());
        assert_eq!(check(PeerMessage::Notice(Bytes::from_static(b"\x7ejunk")), None), Err("malformed notice".into()));
    }
}
