//! Scenarios of one certifier: signatures, false shares, late messages.

mod common;

use common::*;
use corniche_certify::{Certifier, Keys, MAX_SHARES_AHEAD, Output, Share, Signature, Signatures};
use corniche_crypto::evidence::{check, signing_hash};
use corniche_engine::Committee;
use corniche_types::{B256, Bytes, Certificate, Epoch, FaultModel, Height, ValidatorIndex, Votes};
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
fn quorum_of_shares_makes_certificate() {
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

/// W = 10, F = 3, Q = 7: votes count, however many members have them.
#[test]
fn signers_are_weighed() {
    let mut genesis = genesis(6);
    genesis.validators.iter_mut().zip([3, 2, 2, 1, 1, 1]).for_each(|(member, votes)| member.votes = Votes(votes));
    let committee = Committee::from_genesis(&genesis);
    let (epoch, height, header_hash) = (committee.epoch(), Height(1), header(1));
    let message = Certificate::signed_bytes(CHAIN_ID, epoch, committee.hash(), height, header_hash, committee.fault_model());
    let cases = [(&[0, 1, 2][..], true), (&[0, 1, 3], false), (&[2, 3, 4, 5], false), (&[1, 2, 3, 4, 5], true)];
    for (signers, is_quorum) in cases {
        let mut certifier = Certifier::new(committee.clone(), Keys::bls(&committee, None));
        certifier.executed(height, header_hash);
        for signer in signers {
            let signature = key(*signer).sign(&message).to_bytes();
            certifier.share(ValidatorIndex(*signer), Share { epoch, height, header_hash, signature }.encode());
        }
        let is_certified = drain(&mut certifier).iter().any(|output| matches!(output, Output::Certified(_)));
        assert_eq!(is_certified, is_quorum, "{signers:?}");
    }
}

#[test]
fn early_shares_count() {
    let mut certifier = validator(4, 0);
    for (from, signer) in [(V1, 1), (V2, 2), (V3, 3)] {
        certifier.share(from, share(4, signer, 1, header(1)));
    }
    assert_eq!(drain(&mut certifier), [], "nothing is certified that we have not executed");
    certifier.executed(Height(1), header(1));
    assert_eq!(certified(4, &drain(&mut certifier)).len(), 1);
}

#[test]
fn single_validator_certifies_alone() {
    let mut certifier = validator(1, 0);
    certifier.executed(Height(1), header(1));
    assert_eq!(certified(1, &drain(&mut certifier)).len(), 1);
}

#[test]
fn later_certificate_covers_ancestors() {
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
fn false_share_is_accused_and_excluded() {
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
fn sender_of_false_share_is_checked_on_arrival() {
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

/// Both shares of a validator for one height prove that it signed two headers. The first one counts as before.
#[test]
fn two_headers_of_one_height_are_proven() {
    let mut certifier = validator(4, 0);
    certifier.executed(Height(1), header(1));
    let [first, second] = [header(1), header(9)].map(|hash| share(4, 1, 1, hash));
    certifier.share(V1, first.clone());
    certifier.share(V1, first.clone());
    assert_eq!(drain(&mut certifier).len(), 1, "its own share; the same share again is nothing");
    certifier.share(V1, second.clone());
    certifier.share(V1, share(4, 1, 1, header(8)));
    assert_eq!(drain(&mut certifier), [], "which header is right is not certain yet");
    certifier.share(V2, share(4, 2, 1, header(1)));
    let [Output::Contradicted { validator: V1, shares, proof: Some(proof) }, Output::Certified(_)] = &drain(&mut certifier)[..]
    else {
        panic!("a contradiction, and a certificate by the first share");
    };
    assert_eq!(*shares, [first, second.clone()]);
    let keys = signing_hash(&proof.consensus_key, &proof.bls_key);
    assert_eq!(check(proof, Committee::from_genesis(&genesis(4)).hash(), keys), Ok(()));
    certifier.share(V1, second);
    assert_eq!(drain(&mut certifier), [], "once for each height");
}

/// Validators 1 and 2 missed an upgrade, repaired it and signed the right header. They are not punished, and their shares count.
#[test]
fn corrected_headers_count_and_are_not_punished() {
    for is_executed_first in [true, false] {
        let mut certifier = validator(4, 0);
        let execute = |certifier: &mut Certifier, is_due| {
            if is_due {
                certifier.executed(Height(1), header(1));
            }
        };
        execute(&mut certifier, is_executed_first);
        for hash in [header(9), header(1), header(9)] {
            certifier.share(V1, share(4, 1, 1, hash));
            certifier.share(V2, share(4, 2, 1, hash));
        }
        execute(&mut certifier, !is_executed_first);
        let outputs = drain(&mut certifier);
        assert_eq!(certified(4, &outputs).len(), 1, "{outputs:?}");
        assert!(!outputs.iter().any(|output| matches!(output, Output::Contradicted { .. } | Output::Accuse { .. })));
    }
}

/// Both headers are wrong, so a correction may follow.
#[test]
fn two_wrong_headers_convict_nobody() {
    let mut certifier = validator(4, 0);
    certifier.executed(Height(1), header(1));
    drain(&mut certifier);
    for hash in [header(9), header(8)] {
        certifier.share(V1, share(4, 1, 1, hash));
    }
    certifier.certificate(verified(certificate(1, header(1))));
    assert!(matches!(drain(&mut certifier)[..], [Output::Certified(_)]));
}

/// A node that missed the upgrade itself accuses nobody: it learns first that it diverged.
#[test]
fn diverged_validator_convicts_nobody() {
    let mut certifier = validator(4, 0);
    certifier.executed(Height(1), header(9));
    for hash in [header(9), header(1)] {
        certifier.share(V1, share(4, 1, 1, hash));
    }
    drain(&mut certifier);
    certifier.certificate(verified(certificate(1, header(1))));
    assert!(diverged(&drain(&mut certifier)).is_some());
}

/// A second share that is false proves nothing, and nothing is compared with a first one that is false.
#[test]
fn false_shares_prove_no_contradiction() {
    let lie = |hash| false_share(4, 1, 1, header(hash));
    let valid = |hash| share(4, 1, 1, header(hash));
    for shares in [[valid(1), lie(9), valid(9)], [lie(1), valid(9), valid(8)]] {
        let mut certifier = validator(4, 0);
        certifier.executed(Height(1), header(1));
        drain(&mut certifier);
        shares.into_iter().for_each(|share| certifier.share(V1, share));
        certifier.certificate(verified(certificate(1, header(1))));
        let outputs = drain(&mut certifier);
        assert!(matches!(outputs[..], [Output::Accuse { validator: V1, .. }, Output::Certified(_)]), "{outputs:?}");
    }
}

/// K4: no share leaves for a height that an earlier life may have signed, until the doubt is over.
#[test]
fn silent_validator_signs_later() {
    let mut certifier = validator(4, 0);
    certifier.keep_silent(Height(2));
    for height in 1..=3 {
        certifier.executed(Height(height), header(height));
    }
    let heights = |shares: Vec<Bytes>| shares.iter().map(|share| Share::decode(share).unwrap().height.0).collect::<Vec<_>>();
    let broadcast = |outputs: Vec<Output>| match &outputs[..] {
        [Output::Broadcast(share)] => Share::decode(share).unwrap().height,
        outputs => panic!("{outputs:?}"),
    };
    assert_eq!(broadcast(drain(&mut certifier)), Height(3));
    assert_eq!(heights(certifier.own_shares()), [3]);
    certifier.share(V1, share(4, 1, 2, header(2)));
    certifier.share(V2, share(4, 2, 2, header(2)));
    assert_eq!(drain(&mut certifier), []);
    certifier.keep_silent(Height(0));
    assert_eq!(heights(certifier.own_shares()), [3], "those below are certified with the own share");
    assert_eq!(certified(4, &drain(&mut certifier))[0].height, Height(2));
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
fn false_shares_cost_few_checks() {
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
fn reformed_validator_completes_quorum() {
    // Validator 3 is offline, so nothing is certified while validator 1 lies, and execution stops 64 blocks
    // later.
    for false_shares in [1, 3, 10, 60] {
        let mut certifier = validator(4, 0);
        for height in 1..=64 {
            certifier.executed(Height(height), header(height));
            certifier.share(V2, share(4, 2, height, header(height)));
            if height <= false_shares {
                certifier.share(V1, false_share(4, 1, height, header(height)));
            }
        }
        assert_eq!(certifier.certified(), Height(0));
        for height in false_shares + 1..=64 {
            certifier.share(V1, share(4, 1, height, header(height)));
        }
        assert_eq!(certifier.certified(), Height(64), "after {false_shares} lies");
    }
}

#[test]
fn waiting_share_is_used_on_lag() {
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
fn first_share_per_height_counts() {
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
fn validator_counts_once() {
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
fn minority_header_is_outvoted() {
    let mut certifier = validator(4, 0);
    certifier.executed(Height(1), header(1));
    certifier.share(V1, share(4, 1, 1, OTHER));
    certifier.share(V2, share(4, 2, 1, header(1)));
    certifier.share(V3, share(4, 3, 1, header(1)));
    let outputs = drain(&mut certifier);
    assert_eq!(certified(4, &outputs)[0].header_hash, header(1));
}

#[test]
fn quorum_for_other_header_diverges() {
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
fn received_certificate_is_compared() {
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
fn early_certificate_waits() {
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
fn altered_certificate_does_not_verify() {
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
fn garbage_share_is_accused() {
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
fn shares_out_of_range_are_dropped() {
    let mut certifier = validator(4, 0);
    certifier.executed(Height(1), header(1));
    drain(&mut certifier);
    let far = 1 + MAX_SHARES_AHEAD + 1;
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
fn uncertified_blocks_are_signed_after_restart() {
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
fn weak_certificate_certifies_nothing() {
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
fn split_shares_make_no_weak_certificate() {
    let mut certifier = lagging();
    certifier.share(V1, share(4, 1, 2, header(2)));
    certifier.share(V2, share(4, 2, 2, OTHER));
    assert_eq!(certifier.weak_certificate(Height(65)), None);
    // A third share decides for one of them, whatever the sender of the other signs.
    certifier.share(V3, share(4, 3, 2, header(2)));
    assert_eq!(certifier.weak_certificate(Height(65)).unwrap().header_hash(), header(2));
}

#[test]
fn quorum_without_execution_is_weak() {
    let mut certifier = lagging();
    for (from, signer) in [(V1, 1), (V2, 2), (V3, 3)] {
        certifier.share(from, share(4, signer, 2, header(2)));
    }
    assert_eq!(certifier.weak_certificate(Height(65)).unwrap().signers(4).len(), 3);
    assert_eq!((drain(&mut certifier), certifier.certified()), (vec![], Height(0)));
}

#[test]
fn false_shares_spoil_one_aggregate() {
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
fn full_node_signs_nothing() {
    let mut certifier = full_node(4);
    certifier.executed(Height(1), header(1));
    assert_eq!(drain(&mut certifier), []);
    assert!(certifier.own_shares().is_empty());
}

#[test]
fn repeated_height_is_signed_once() {
    let mut certifier = validator(4, 0);
    certifier.executed(Height(1), header(1));
    drain(&mut certifier);
    certifier.executed(Height(1), OTHER);
    assert_eq!(drain(&mut certifier), [], "two headers of one height never carry our signature");
}

/// Its sender has ended the epoch already, or not yet: that is no fault.
#[test]
fn share_of_another_epoch_is_ignored() {
    let mut certifier = validator(4, 0);
    certifier.executed(Height(1), header(1));
    drain(&mut certifier);
    for epoch in [1, 7] {
        let later = Share { epoch: Epoch(epoch), ..Share::decode(&share(4, 1, 1, header(1))).unwrap() };
        certifier.share(V1, later.encode());
    }
    assert_eq!(drain(&mut certifier), []);
    for (from, signer) in [(V1, 1), (V2, 2)] {
        certifier.share(from, share(4, signer, 1, header(1)));
    }
    assert_eq!(certified(4, &drain(&mut certifier)).len(), 1, "the right ones still count");
}
