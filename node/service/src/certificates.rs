//! Certificates from peers, each verified once. Verification costs a pairing, about 1 ms, so it runs on the
//! verifying threads and only for unknown certificates.

use corniche_pipeline::{CertificateVerifier, VerifiedCertificate};
use corniche_types::{B256, Certificate, Height};
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

/// Maximum number of cached certificates. Peers announce the same few newest ones.
const MAX_CACHED: usize = 64;

/// Verifier with a cache.
pub struct CertificateCache {
    verifier: CertificateVerifier,
    /// By height and header hash: any valid certificate of a header is sufficient.
    known: Mutex<BTreeMap<(Height, B256), VerifiedCertificate>>,
}

impl CertificateCache {
    pub fn new(verifier: CertificateVerifier) -> Self {
        Self { verifier, known: Mutex::default() }
    }

    /// Verifies a peer's certificate; `None` if it is invalid.
    pub fn check(&self, certificate: &Certificate) -> Option<VerifiedCertificate> {
        let key = (certificate.height, certificate.header_hash);
        if let Some(known) = self.known().get(&key) {
            return Some(known.clone());
        }
        let verified = self.verifier.verify(certificate.clone())?;
        let mut known = self.known();
        known.insert(key, verified.clone());
        if known.len() > MAX_CACHED {
            known.pop_first();
        }
        Some(verified)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<(Height, B256), VerifiedCertificate>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_engine::Committee;
    use corniche_pipeline::{CertificateKeys, CertificateSignature, CertificateSignatures};
    use corniche_types::{Bytes, Epoch, FaultModel, SignerBitmap, ValidatorIndex};
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    /// Signatures of ones are valid; counts verifications.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl CertificateSignatures for Counting {
        fn verify_share(&self, _: ValidatorIndex, _: &[u8], _: &CertificateSignature) -> bool {
            unreachable!("no shares here")
        }

        fn combine(&self, _: &[u8], _: &[(ValidatorIndex, CertificateSignature)]) -> Option<CertificateSignature> {
            unreachable!("no shares here")
        }

        fn verify(&self, _: &[u8], _: &[ValidatorIndex], combined: &CertificateSignature) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed);
            *combined == [1; 48]
        }
    }

    fn certificates() -> (CertificateCache, Arc<Counting>, Committee) {
        let committee = Committee::from_genesis(&crate::testing::genesis());
        let counting = Arc::new(Counting::default());
        let keys = CertificateKeys { committee: counting.clone(), own: None };
        (CertificateCache::new(CertificateVerifier::new(committee.clone(), &keys)), counting, committee)
    }

    fn certificate(committee: &Committee, height: u64, header: u8, signature: u8) -> Certificate {
        Certificate {
            epoch: Epoch(0),
            committee_hash: committee.hash(),
            height: Height(height),
            header_hash: B256::repeat_byte(header),
            fault_model: FaultModel::Byzantine,
            signers: SignerBitmap::from_signers(
                committee.take_votes(committee.indices(), committee.quorum()),
                committee.size(),
            ),
            signature: Bytes::from(vec![signature; 48]),
        }
    }

    #[test]
    fn known_certificates_are_not_verified() {
        let (certificates, counting, committee) = certificates();
        let verifications = || counting.0.load(Ordering::Relaxed);
        let check = |height, header, signature| certificates.check(&certificate(&committee, height, header, signature));
        let first = check(6, 7, 1).unwrap();
        assert_eq!(verifications(), 1);
        // A bad signature for the same header returns the cached good certificate.
        assert_eq!([check(6, 7, 1), check(6, 7, 0)], [(); 2].map(|()| Some(first.clone())));
        assert_eq!(verifications(), 1);
        assert!(check(6, 8, 0).is_none() && check(6, 8, 0).is_none(), "another header, and it is not remembered");
        assert_eq!(verifications(), 3);
    }

    #[test]
    fn only_newest_are_kept() {
        let (certificates, counting, committee) = certificates();
        for height in 1..=200 {
            certificates.check(&certificate(&committee, height, 7, 1)).unwrap();
        }
        assert_eq!((certificates.known().len(), counting.0.load(Ordering::Relaxed)), (MAX_CACHED, 200));
        certificates.check(&certificate(&committee, 200, 7, 1)).unwrap();
        assert_eq!(counting.0.load(Ordering::Relaxed), 200);
    }
}
