//! Scenarios of one certifier: signatures, false shares, late messages.

mod common;

use common::*;
use corniche_certify::{Certifier, Keys, Output, SHARES_AHEAD, Signature, Signatures};
use corniche_engine::Committee;
use corniche_types::{B256, Bytes, Certificate, Epoch, FaultModel, Height, ValidatorIndex};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

const V1: ValidatorIndex = ValidatorIndex(1);
const V2: ValidatorIndex = ValidatorIndex(2);
const V3: ValidatorIndex = ValidatorIndex(3);
const OTHER: B256 = B256::repeat_byte(0xee);

/// Certificate by validators 1, 2 and 3 of four.
fn certificate(height: u64, header_hash: B256) -> Certificate {
    let mut others = full_node(4);
    others.executed(Height(height), header_hash);
    for (from, signer) in [(V1, 1), (V2, 2), (V3, 3)] {
        others.share(from, share(4, signer, height, header_hash));
    }
    certified(4, &drain(&mut others)).remove(0)
}

/// Height, our header and the certified one, if divergence is the only output.
fn diverged(outputs: &[Output]) -> Option<(Height, B256, B256)> {
    match outputs {
        [Output::Diverged { ours, certificate }] => Some((certificate.height, *ours, certificate.header_hash)),
        _ => None,
    }
}

#[test]
fn a_quorum_of_shares_becomes_a_certificate() {
    let mut certifier = validator(4, 0);
    certifier.executed(Height(1), header(1));
    assert_eq!(drain(&mut certifier), [Output::Broadcast(share(4, 0, 1, header(1)))]);
    certifier.share(V2, share(4, 2, 1, header(1)));
    assert_eq!(drain(&mut certifier), [], "two of four are no quorum");
    certifier.share(V3, share(4, 3, 1, header(1)));
    let certificates = certified(4, &drain(&mut certifier));
    assert_eq!(certificates.len(), 1);
    assert_eq!((certificates[0].height, certificates[0].header_hash), (Height(1), header(1)));
    assert_eq!(certifier.certified(), Height(1));
    certifier.share(V1, share(4, 1, 1, header(1)));
    assert_eq!(drain(&mut certifier), [], "a late share changes nothing");
}

#[test]
fn shares_that_come_before_the_block_is_executed_count() {
    let mut certifier = validator(4, 0);
    for (from, signer) in [(V1, 1), (V2, 2), (V3, 3)] {
        certifier.share(from, share(4, signer, 1, header(1)));
    }
    assert_eq!(drain(&mut certifier), [], "nothing is certified that we have not executed");
    certifier.executed(Height(1), header(1));
    assert_eq!(certified(4, &drain(&mut certifier)).len(), 1);
}

#[test]
fn a_single_validator_certifies_alone() {
    let mut certifier = validator(1, 0);
    certifier.executed(Height(1), header(1));
    assert_eq!(certified(1, &drain(&mut certifier)).len(), 1);
}

#[test]
fn a_later_certificate_covers_the_ones_before() {
    let mut certifier = validator(4, 0);
    for height in 1..=3 {
        certifier.executed(Height(height), header(height));
    }
    drain(&mut certifier);
    for (from, signer) in [(V1, 1), (V2, 2)] {
        certifier.share(from, share(4, signer, 3, header(3)));
    }
    assert_eq!(certified(4, &drain(&mut certifier))[0].height, Height(3));
    for (from, signer) in [(V1, 1), (V2, 2)] {
        certifier.share(from, share(4, signer, 2, header(2)));
    }
    assert_eq!(drain(&mut certifier), []);
    assert!(certifier.own_shares().is_empty());
}

#[test]
fn a_false_share_is_found_its_sender_named_and_the_rest_still_counts() {
    let no_point = [0xab; 48];
    // On the curve, but not in the signature group: shares are summed up before the sum is verified.
    let mut outside = [0; 48];
    (outside[0], outside[47]) = (0x80, 4);
    let identity = std::array::from_fn(|byte| if byte == 0 { 0xc0 } else { 0 });
    let with = |signature| forged_share(4, 1, 1, header(1), signature);
    for lie in [false_share(4, 1, 1, header(1)), with(no_point), with(outside), with(identity)] {
        let mut certifier = validator(4, 0);
        certifier.executed(Height(1), header(1));
        certifier.share(V1, lie.clone());
        drain(&mut certifier);
        certifier.share(V2, share(4, 2, 1, header(1)));
        assert_eq!(
            drain(&mut certifier),
            [Output::Accuse { validator: V1, evidence: lie }],
            "the aggregate failed, so each was looked at"
        );
        certifier.share(V3, share(4, 3, 1, header(1)));
        let certificates = certified(4, &drain(&mut certifier));
        assert_eq!(certificates[0].signers.signers(4).unwrap(), [ValidatorIndex(0), V2, V3]);
    }
}

#[test]
fn who_lied_once_is_checked_on_arrival() {
    let mut certifier = validator(4, 0);
    for height in 1..=3 {
        certifier.executed(Height(height), header(height));
    }
    certifier.share(V1, false_share(4, 1, 1, header(1)));
    certifier.share(V2, share(4, 2, 1, header(1)));
    drain(&mut certifier);
    let lie = false_share(4, 1, 2, header(2));
    certifier.share(V1, lie.clone());
    let accused = Output::Accuse { validator: V1, evidence: lie.clone() };
    assert_eq!(drain(&mut certifier), [accused], "before it can spoil an aggregate");
    // Further shares for that height are ignored, without a second check. For the next height a valid share
    // counts.
    certifier.share(V1, lie);
    certifier.share(V1, share(4, 1, 2, header(2)));
    certifier.share(V2, share(4, 2, 2, header(2)));
    assert_eq!(drain(&mut certifier), []);
    certifier.share(V1, share(4, 1, 3, header(3)));
    certifier.share(V2, share(4, 2, 3, header(3)));
    assert_eq!(certified(4, &drain(&mut certifier))[0].height, Height(3));
}

/// Counts verifications of single shares.
struct Counting(Arc<dyn Signatures>, AtomicUsize);

impl Signatures for Counting {
    fn verify_share(&self, signer: ValidatorIndex, message: &[u8], share: &Signature) -> bool {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.verify_share(signer, message, share)
    }

    fn combine(&self, message: &[u8], shares: &[(ValidatorIndex, Signature)]) -> Option<Signature> {
        self.0.combine(message, shares)
    }

    fn verify(&self, message: &[u8], signers: &[ValidatorIndex], combined: &Signature) -> bool {
        self.0.verify(message, signers, combined)
    }
}

#[test]
fn lies_at_every_height_cost_few_checks() {
    let committee = Committee::from_genesis(&genesis(4));
    let keys = Keys::bls(&committee, Some((ValidatorIndex(0), key(0))));
    let counting = Arc::new(Counting(keys.committee.clone(), AtomicUsize::new(0)));
    let mut certifier = Certifier::new(committee, Keys { committee: counting.clone(), ..keys });
    for height in 1..=200 {
        certifier.executed(Height(height), header(height));
        certifier.share(V1, false_share(4, 1, height, header(height)));
        certifier.share(V2, share(4, 2, height, header(height)));
        certifier.share(V3, share(4, 3, height, header(height)));
        assert_eq!(certifier.certified(), Height(height));
    }
    let checks = counting.1.load(Ordering::Relaxed);
    assert!(checks < 20, "{checks} checks in 200 heights");
}

#[test]
fn one_that_stopped_lying_makes_a_quorum_again() {
    // Validator 3 is offline, so nothing is certified while validator 1 lies, and execution stops 64 blocks
    // later.
    for lies in [1, 3, 10, 60] {
        let mut certifier = validator(4, 0);
        for height in 1..=64 {
            certifier.executed(Height(height), header(height));
            certifier.share(V2, share(4, 2, height, header(height)));
            if height <= lies {
                certifier.share(V1, false_share(4, 1, height, header(height)));
            }
        }
        assert_eq!(certifier.certified(), Height(0));
        for height in lies + 1..=64 {
            certifier.share(V1, share(4, 1, height, header(height)));
        }
        assert_eq!(certifier.certified(), Height(64), "after {lies} lies");
    }
}

#[test]
fn a_share_that_waited_is_used_once_certification_lags() {
    let mut certifier = validator(4, 0);
    for height in 1..=100 {
        certifier.executed(Height(height), header(height));
        certifier.share(V1, false_share(4, 1, height, header(height)));
        certifier.share(V2, share(4, 2, height, header(height)));
        certifier.share(V3, share(4, 3, height, header(height)));
    }
    // Now validator 3 is offline, and validator 1 does not lie any more.
    let lag = (101..=164).find(|height| {
        certifier.executed(Height(*height), header(*height));
        certifier.share(V1, share(4, 1, *height, header(*height)));
        certifier.share(V2, share(4, 2, *height, header(*height)));
        certifier.certified() == Height(*height)
    });
    assert!(lag.is_some_and(|height| height <= 100 + 17), "{lag:?}");
}

#[test]
fn the_first_share_of_a_height_is_the_one_that_counts() {
    let mut certifier = validator(4, 0);
    certifier.executed(Height(1), header(1));
    drain(&mut certifier);
    certifier.share(V1, share(4, 1, 1, header(1)));
    certifier.share(V1, false_share(4, 1, 1, header(1)));
    certifier.share(V1, share(4, 1, 1, OTHER));
    certifier.share(V2, share(4, 2, 1, header(1)));
    assert_eq!(certified(4, &drain(&mut certifier)).len(), 1);
}

#[test]
fn one_validator_cannot_count_twice() {
    let mut certifier = validator(4, 0);
    certifier.executed(Height(1), header(1));
    drain(&mut certifier);
    certifier.share(V1, share(4, 1, 1, header(1)));
    certifier.share(V1, share(4, 1, 1, header(1)));
    // With another sender it is invalid.
    let borrowed = share(4, 1, 1, header(1));
    certifier.share(V2, borrowed.clone());
    assert_eq!(drain(&mut certifier), [Output::Accuse { validator: V2, evidence: borrowed }]);
    // Our own share from the network is ignored.
    certifier.share(ValidatorIndex(0), share(4, 0, 1, header(1)));
    certifier.share(ValidatorIndex(4), share(4, 3, 1, header(1)));
    assert_eq!(drain(&mut certifier), []);
}

#[test]
fn a_minority_that_signs_another_header_is_outvoted() {
    let mut certifier = validator(4, 0);
    certifier.executed(Height(1), header(1));
    certifier.share(V1, share(4, 1, 1, OTHER));
    certifier.share(V2, share(4, 2, 1, header(1)));
    certifier.share(V3, share(4, 3, 1, header(1)));
    let outputs = drain(&mut certifier);
    assert_eq!(certified(4, &outputs)[0].header_hash, header(1));
}

#[test]
fn a_quorum_for_another_header_stops_us() {
    let mut certifier = validator(4, 0);
    certifier.executed(Height(1), header(1));
    drain(&mut certifier);
    for (from, signer) in [(V1, 1), (V2, 2), (V3, 3)] {
        certifier.share(from, share(4, signer, 1, OTHER));
    }
    assert_eq!(diverged(&drain(&mut certifier)), Some((Height(1), header(1), OTHER)));
    // The stop is permanent.
    certifier.certificate(verified(certificate(1, header(1))));
    certifier.executed(Height(2), header(2));
    certifier.share(V1, share(4, 1, 2, header(2)));
    assert_eq!(drain(&mut certifier), []);
    assert_eq!(certifier.certified(), Height(0));
}

#[test]
fn a_learned_certificate_is_compared_with_what_we_executed() {
    for (hash, agrees) in [(header(1), true), (OTHER, false)] {
        let mut certifier = full_node(4);
        certifier.executed(Height(1), header(1));
        certifier.certificate(verified(certificate(1, hash)));
        let outputs = drain(&mut certifier);
        match agrees {
            true => assert_eq!(certified(4, &outputs).len(), 1),
            false => assert_eq!(diverged(&outputs), Some((Height(1), header(1), OTHER))),
        }
    }
}

#[test]
fn a_certificate_for_a_block_to_come_waits_for_it() {
    for (hash, agrees) in [(header(2), true), (OTHER, false)] {
        let mut certifier = full_node(4);
        certifier.executed(Height(1), header(1));
        certifier.certificate(verified(certificate(2, hash)));
        assert_eq!(drain(&mut certifier), []);
        assert_eq!(certifier.certified(), Height(0));
        certifier.executed(Height(2), header(2));
        let outputs = drain(&mut certifier);
        assert_eq!(certified(4, &outputs).len(), usize::from(agrees));
        assert_eq!(matches!(outputs[..], [Output::Diverged { .. }]), !agrees);
    }
}

#[test]
fn a_certificate_is_verified_only_as_it_was_signed() {
    let good = certificate(1, header(1));
    for bad in [
        Certificate { header_hash: OTHER, ..good.clone() },
        Certificate { fault_model: FaultModel::Crash, ..good.clone() },
        Certificate { committee_hash: OTHER, ..good.clone() },
        Certificate { signature: Bytes::new(), ..good.clone() },
        Certificate { epoch: Epoch(1), ..good.clone() },
    ] {
        assert_eq!(verifier(4).verify(bad), None);
    }
    assert_eq!(verified(good.clone()).into_inner(), good);
}

#[test]
fn garbage_is_accused() {
    let mut certifier = validator(4, 0);
    certifier.executed(Height(1), header(1));
    drain(&mut certifier);
    let no_point = {
        let mut share = corniche_certify::Share::decode(&share(4, 1, 1, header(1))).unwrap();
        share.signature = [0xab; 48];
        share.encode()
    };
    for bytes in [Bytes::new(), Bytes::from_static(b"garbage"), no_point.clone()] {
        certifier.share(V1, bytes.clone());
        assert_eq!(drain(&mut certifier), [Output::Accuse { validator: V1, evidence: bytes }]);
    }
    certifier.share(V1, no_point);
    assert_eq!(drain(&mut certifier), [], "the same again costs nothing");
}

#[test]
fn shares_far_ahead_and_long_past_are_dropped_unread() {
    let mut certifier = validator(4, 0);
    certifier.executed(Height(1), header(1));
    drain(&mut certifier);
    let far = 1 + SHARES_AHEAD + 1;
    for (from, signer) in [(V1, 1), (V2, 2), (V3, 3)] {
        certifier.share(from, share(4, signer, far, header(far)));
        certifier.share(from, share(4, signer, far - 1, header(far - 1)));
        certifier.share(from, share(4, signer, u64::MAX, header(far)));
    }
    assert_eq!(drain(&mut certifier), []);
    for height in 2..=far {
        certifier.executed(Height(height), header(height));
    }
    let heights: Vec<_> = certified(4, &drain(&mut certifier)).iter().map(|certificate| certificate.height).collect();
    assert_eq!(heights, [Height(far - 1)], "the nearer ones were kept, the farther ones were not");
}

#[test]
fn after_a_restart_the_uncertified_blocks_are_signed_again() {
    let mut certifier = validator(4, 0);
    certifier.certificate(verified(certificate(5, header(5))));
    assert_eq!(drain(&mut certifier), [], "the store's own certificate is not news");
    assert_eq!(certifier.certified(), Height(5));
    certifier.executed(Height(6), header(6));
    certifier.executed(Height(7), header(7));
    let shares = [share(4, 0, 6, header(6)), share(4, 0, 7, header(7))];
    assert_eq!(drain(&mut certifier), shares.clone().map(Output::Broadcast));
    assert_eq!(certifier.own_shares(), shares, "for a validator that connects later");
}

/// Validator 0 of four has executed block 1 and lags.
fn lagging() -> Certifier {
    let mut certifier = validator(4, 0);
    certifier.executed(Height(1), header(1));
    drain(&mut certifier);
    certifier
}

#[test]
fn shares_of_one_more_than_may_be_faulty_vouch_for_a_block_and_certify_nothing() {
    let mut certifier = lagging();
    certifier.share(V1, share(4, 1, 3, header(3)));
    certifier.share(V2, share(4, 2, 4, header(4)));
    assert_eq!(certifier.weak_certificate(Height(65)), None, "one may be faulty");
    certifier.share(V2, share(4, 2, 3, header(3)));
    certifier.share(V1, share(4, 1, 5, header(5)));
    certifier.share(V3, share(4, 3, 5, header(5)));
    let weak = certifier.weak_certificate(Height(65)).unwrap();
    assert_eq!((weak.height(), weak.header_hash(), weak.signers(4)), (Height(5), header(5), vec![V1, V3]), "the highest");
    assert_eq!(certifier.weak_certificate(Height(4)).unwrap().height(), Height(3), "the highest that is allowed");
    assert_eq!((drain(&mut certifier), certifier.certified()), (vec![], Height(0)));
    assert_eq!(verifier(4).verify(weak.into_evidence()), None, "nobody takes it for a certificate");
    // An executed block needs no weak certificate.
    (2..=5).for_each(|height| certifier.executed(Height(height), header(height)));
    assert_eq!(certifier.weak_certificate(Height(65)), None);
}

#[test]
fn shares_on_different_headers_vouch_for_nothing() {
    let mut certifier = lagging();
    certifier.share(V1, share(4, 1, 2, header(2)));
    certifier.share(V2, share(4, 2, 2, OTHER));
    assert_eq!(certifier.weak_certificate(Height(65)), None);
    // A third share decides for one of them, whatever the sender of the other signs.
    certifier.share(V3, share(4, 3, 2, header(2)));
    assert_eq!(certifier.weak_certificate(Height(65)).unwrap().header_hash(), header(2));
}

#[test]
fn a_quorum_on_a_block_that_was_not_executed_is_no_more_than_a_weak_certificate() {
    let mut certifier = lagging();
    for (from, signer) in [(V1, 1), (V2, 2), (V3, 3)] {
        certifier.share(from, share(4, signer, 2, header(2)));
    }
    assert_eq!(certifier.weak_certificate(Height(65)).unwrap().signers(4).len(), 3);
    assert_eq!((drain(&mut certifier), certifier.certified()), (vec![], Height(0)));
}

#[test]
fn false_shares_vouch_for_nothing_and_spoil_one_aggregate() {
    let mut certifier = lagging();
    let lie = |height| false_share(4, 1, height, header(height));
    (2..=60).for_each(|height| certifier.share(V1, lie(height)));
    (2..=60).for_each(|height| certifier.share(V2, share(4, 2, height, header(height))));
    assert_eq!(certifier.weak_certificate(Height(65)), None);
    let accused = Output::Accuse { validator: V1, evidence: lie(60) };
    assert_eq!(drain(&mut certifier), [accused], "the others of its shares are not looked at");
    // Its later valid shares count.
    certifier.share(V1, share(4, 1, 61, header(61)));
    certifier.share(V2, share(4, 2, 61, header(61)));
    assert_eq!(certifier.weak_certificate(Height(65)).unwrap().height(), Height(61));
}

#[test]
fn a_full_node_signs_nothing() {
    let mut certifier = full_node(4);
    certifier.executed(Height(1), header(1));
    assert_eq!(drain(&mut certifier), []);
    assert!(certifier.own_shares().is_empty());
}

#[test]
fn a_height_executed_twice_is_signed_once() {
    let mut certifier = validator(4, 0);
    certifier.executed(Height(1), header(1));
    drain(&mut certifier);
    certifier.executed(Height(1), OTHER);
    assert_eq!(drain(&mut certifier), [], "two headers of one height never carry our signature");
}
