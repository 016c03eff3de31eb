//! Figures of the running committee: connected votes, and signers of the newest certificates.

use corniche_engine::Committee;
use corniche_network::PeerKey;
use corniche_store::Reader;
use corniche_types::{Certificate, Height, ValidatorIndex, Votes};
use std::{collections::BTreeSet, sync::Arc};

/// Number of newest certificates in which signers are looked for.
const CERTIFICATES: usize = 10;
/// Blocks in which these certificates are looked for. Usually each block has one.
const BLOCKS: u64 = 32;

/// Votes of the members with these network keys.
pub fn votes_of(committee: &Committee, keys: impl IntoIterator<Item = PeerKey>) -> Votes {
    let members: BTreeSet<_> = keys.into_iter().filter_map(|key| committee.index_of(&key.0)).collect();
    committee.weigh(members)
}

/// Newest certificates of the committee, at most ten.
pub fn newest_certificates(reader: &Reader, committee: &Committee) -> Vec<Arc<Certificate>> {
    let last = reader.last_certificate().map_or(0, |certificate| certificate.height.0);
    let heights = (last.saturating_sub(BLOCKS) + 1..=last).rev().map(Height);
    let certificates = heights.filter_map(|height| reader.certificate(height).filter(|found| found.height == height));
    certificates.take_while(|certificate| certificate.committee_hash == committee.hash()).take(CERTIFICATES).collect()
}

/// Each member, and the number of these certificates without its signature. A certificate is made as soon as there is a quorum, so
/// it lacks members that are slower than the others.
pub fn missing(committee: &Committee, certificates: &[Arc<Certificate>]) -> Vec<(ValidatorIndex, u64)> {
    let signers: Vec<BTreeSet<_>> = certificates
        .iter()
        .filter_map(|certificate| certificate.signers.signers(committee.size()))
        .map(BTreeSet::from_iter)
        .collect();
    let missing = |index| signers.iter().filter(|signers| !signers.contains(&index)).count() as u64;
    committee.indices().map(|index| (index, missing(index))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NetworkSpec, make_network, testing::spec};
    use corniche_types::{B256, Bytes, SignerBitmap};

    fn committee() -> Committee {
        Committee::from_genesis(&make_network(&NetworkSpec { validators: 4, ..spec() }).unwrap().genesis)
    }

    #[test]
    fn connected_members_count_once() {
        let committee = committee();
        let key = |index| PeerKey(committee.member(ValidatorIndex(index)).unwrap().network_key);
        assert_eq!(votes_of(&committee, []), Votes(0));
        let guest = PeerKey(B256::repeat_byte(7));
        assert_eq!(votes_of(&committee, [key(0), guest, key(2), key(0)]), Votes(2));
    }

    #[test]
    fn missing_signers_are_counted() {
        let committee = committee();
        let certificate = |signers: [u16; 3]| {
            Arc::new(Certificate {
                epoch: committee.epoch(),
                committee_hash: committee.hash(),
                height: Height(1),
                header_hash: B256::ZERO,
                fault_model: committee.fault_model(),
                signers: SignerBitmap::from_signers(signers.map(ValidatorIndex), 4),
                signature: Bytes::new(),
            })
        };
        let certificates = [certificate([0, 1, 2]), certificate([0, 1, 3]), certificate([0, 1, 2])];
        let counts: Vec<_> = missing(&committee, &certificates).into_iter().map(|(index, count)| (index.0, count)).collect();
        assert_eq!(counts, [(0, 0), (1, 0), (2, 1), (3, 2)]);
    }
}
