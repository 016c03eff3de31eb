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

    /// True if epochs end. Then a member of one epoch may be a guest in another.
    fn epochs_end(&self) -> bool;

    /// Verifies a message of an engine of this epoch. `None`: this node has no engine of that epoch.
    fn engine(&self, epoch: Epoch, from: ValidatorIndex, bytes: &Bytes) -> Option<Result<Verified, PeerFault>>;

    /// Verifies a certificate; `None` if it is invalid.
    fn certificate(&self, certificate: &Certificate) -> Option<VerifiedCertificate>;

    /// Highest height certified here.
    fn certified(&self) -> Height;

    /// Verifies a notice to the staking contract; `None` if it would have no effect on the newest state.
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
        let epoch = checks.epoch();
        // A guest may have sent it as a member of an epoch that has ended, or has not begun here.
        let from_member = || match validator {
            None if !checks.epochs_end() => Err(Fault("message type reserved for validators".into())),
            validator => Ok(validator),
        };
        Ok(match self {
            Self::Engine(bytes) => check_engine(Epoch(0), from_member()?, bytes, checks)?,
            Self::EpochEngine(epoch, bytes) => check_engine(*epoch, from_member()?, bytes, checks)?,
            Self::Epoch { epoch, wants_answer } => {
                vec![Input::PeerEpoch { peer: from, epoch: *epoch, wants_answer: *wants_answer }]
            }
            Self::CertificateShare(bytes) => {
                from_member()?.map(|from| Input::CertificateShare { from, epoch, bytes: bytes.clone() }).into_iter().collect()
            }
            // It has no effect, so its verification would only cost time.
            Self::Certificate(certificate) if certificate.height <= checks.certified() => Vec::new(),
            // Its committee is not known yet. The sender must be in that epoch to have it.
            Self::Certificate(certificate) if certificate.epoch != epoch => {
                vec![Input::PeerEpoch { peer: from, epoch: certificate.epoch, wants_answer: false }]
            }
            Self::Certificate(certificate) => {
                let certificate = checks.certificate(certificate).ok_or_else(|| Fault("invalid certificate".into()))?;
                vec![Input::Certificate { from, certificate }]
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
                if let Some(from) = from_member()? {
                    checks.record_attestations(from, attestations);
                }
                Vec::new()
            }
        })
    }
}

fn check_engine(epoch: Epoch, from: Option<ValidatorIndex>, bytes: &Bytes, checks: &impl Checks) -> Result<Vec<Input>, Fault> {
    let Some(from) = from else { return Ok(Vec::new()) };
    let Some(verdict) = checks.engine(epoch, from, bytes) else { return Ok(Vec::new()) };
    let message = verdict.map_err(|PeerFault(reason)| Fault(reason))?;
    Ok(vec![Input::Engine { from, epoch, message }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::{FaultModel, SignerBitmap};

    /// A node without an engine at height 5. Nothing is valid. Where epochs end, no member sends it anything.
    struct FullNode {
        epochs_end: bool,
    }

    impl Checks for FullNode {
        fn epoch(&self) -> Epoch {
            Epoch(0)
        }

        fn epochs_end(&self) -> bool {
            self.epochs_end
        }

        fn engine(&self, _: Epoch, _: ValidatorIndex, _: &Bytes) -> Option<Result<Verified, PeerFault>> {
            assert!(!self.epochs_end, "a guest has no index");
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

        fn record_attestations(&self, _: ValidatorIndex, _: &[(B256, Address)]) {
            assert!(!self.epochs_end, "a guest has no index");
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

    /// Where epochs end, a guest may have been a member when it sent a message.
    #[test]
    fn former_members_are_not_at_fault() {
        let messages = [
            PeerMessage::EpochEngine(Epoch(3), Bytes::new()),
            PeerMessage::Engine(Bytes::new()),
            PeerMessage::CertificateShare(Bytes::new()),
            PeerMessage::Attestations(vec![(B256::ZERO, Address::ZERO)]),
        ];
        assert!(
            messages.iter().all(|message| message
                .check([1; 32], None, &FullNode { epochs_end: true })
                .is_ok_and(|inputs| inputs.is_empty()))
        );
    }

    #[test]
    fn useless_messages_are_ignored_and_invalid_ones_are_faults() {
        let check = |message: PeerMessage, validator: Option<u16>| {
            let inputs = message.check([1; 32], validator.map(ValidatorIndex), &FullNode { epochs_end: false });
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
