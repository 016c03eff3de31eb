//! The threshold coin: sets of shares that can reveal it, and that all of them reveal the same value.

#[path = "common/points.rs"]
mod points;

use corniche_crypto::{BlsSignature, CoinDeal, CoinSecretShare, CoinShare, deal_coin};
use corniche_types::{FaultModel, ValidatorIndex, Votes, Weights};
use points::{off_group, plus, torsion};
use proptest::{prelude::*, sample::subsequence};

type Shares = Vec<(ValidatorIndex, Vec<CoinShare>)>;

/// Deals to validators with one vote each.
fn deal(validators: usize, threshold: u32, seed: [u8; 32]) -> CoinDeal {
    deal_coin(&Weights::one_each(validators, FaultModel::Byzantine), Votes(threshold), seed)
}

fn shares_of(deal: &CoinDeal, signers: &[usize], message: &[u8]) -> Shares {
    signers.iter().map(|&i| (deal.shares[i].index(), deal.shares[i].sign(message))).collect()
}

fn combine(deal: &CoinDeal, threshold: u32, shares: &Shares) -> Option<BlsSignature> {
    deal.public.combine(Votes(threshold), shares)
}

#[test]
fn threshold_subsets_give_same_coin() {
    let deal = self::deal(4, 3, [1; 32]);
    let subsets: [&[usize]; 5] = [&[0, 1, 2], &[0, 1, 3], &[0, 2, 3], &[3, 2, 1], &[3, 0, 1, 2]];
    let coins: Vec<_> =
        subsets.map(|subset| combine(&deal, 3, &shares_of(&deal, subset, b"round 5")).expect("enough shares")).to_vec();
    assert!(deal.public.verify(b"round 5", &coins[0]));
    assert!(!deal.public.verify(b"round 6", &coins[0]));
    assert!(coins.iter().all(|coin| coin == &coins[0]), "{coins:?}");
}

#[test]
fn too_few_shares_give_no_coin() {
    let deal = self::deal(4, 3, [1; 32]);
    let two = shares_of(&deal, &[1, 2], b"round");
    assert_eq!(combine(&deal, 3, &two), None);
    // Combining fewer shares gives a point, but not the coin.
    let lower = combine(&deal, 2, &two).unwrap();
    assert!(!deal.public.verify(b"round", &lower));
    // One share counts once, even under different indexes.
    let twice = [two.clone(), two[..1].to_vec()].concat();
    assert_eq!(combine(&deal, 3, &twice), None);
    let renamed = [two.clone(), vec![(ValidatorIndex(3), two[0].1.clone())]].concat();
    assert!(!deal.public.verify(b"round", &combine(&deal, 3, &renamed).unwrap()));
    let outsider = [two, vec![(ValidatorIndex(4), vec![CoinShare([0; 48])])]].concat();
    assert_eq!(combine(&deal, 3, &outsider), None);
}

#[test]
fn forged_share_is_detected() {
    let deal = self::deal(4, 3, [1; 32]);
    let message = b"round";
    let other_deal = self::deal(4, 3, [2; 32]);
    let forgeries = [
        ("of another round", deal.shares[2].sign(b"another")),
        ("of another validator", deal.shares[1].sign(message)),
        ("of another deal", other_deal.shares[2].sign(message)),
    ];
    for (what, forged) in forgeries {
        let mut shares = shares_of(&deal, &[0, 1], message);
        shares.push((ValidatorIndex(2), forged));
        let coin = combine(&deal, 3, &shares).expect("points they are");
        assert!(!deal.public.verify(message, &coin), "{what}");
        let false_ones: Vec<_> =
            shares.iter().filter(|(index, share)| !deal.public.verify_shares(*index, message, share)).collect();
        assert_eq!(false_ones.len(), 1, "{what}");
        assert_eq!(false_ones[0].0, ValidatorIndex(2), "{what}");
    }
}

#[test]
fn invalid_points_are_ignored() {
    let deal = self::deal(4, 3, [1; 32]);
    let mut shares = vec![(ValidatorIndex(0), vec![CoinShare([0xab; 48])])];
    shares.extend(shares_of(&deal, &[1, 2, 3], b"round"));
    assert!(deal.public.verify(b"round", &combine(&deal, 3, &shares).unwrap()));
    assert!(!deal.public.verify_shares(ValidatorIndex(0), b"round", &shares[0].1));
    assert!(!deal.public.verify_shares(ValidatorIndex(9), b"round", &shares[1].1), "nobody's index");
}

#[test]
fn shares_outside_subgroup_give_no_coin() {
    let deal = self::deal(4, 3, [1; 32]);
    // The last coefficient is one, so no added error disappears. A pairing does not detect `torsion`.
    let true_share = deal.shares[2].sign(b"round")[0].0;
    for bad in [off_group(), plus(&true_share, &off_group()), plus(&true_share, &torsion())] {
        let mut shares = shares_of(&deal, &[0, 1], b"round");
        shares.push((ValidatorIndex(2), vec![CoinShare(bad)]));
        assert!(combine(&deal, 3, &shares).is_none_or(|coin| !deal.public.verify(b"round", &coin)));
        assert!(!deal.public.verify_shares(ValidatorIndex(2), b"round", &shares[2].1));
    }
}

#[test]
fn single_validator_coin() {
    let deal = self::deal(1, 1, [1; 32]);
    let coin = combine(&deal, 1, &shares_of(&deal, &[0], b"round")).unwrap();
    assert!(deal.public.verify(b"round", &coin));
}

#[test]
fn share_is_not_header_signature() {
    let deal = self::deal(1, 1, [1; 32]);
    let text = deal.shares[0].to_hex();
    let same_scalar = corniche_crypto::BlsSecretKey::from_hex(&text[4..]).unwrap();
    assert_ne!(same_scalar.sign(b"round").to_bytes(), deal.shares[0].sign(b"round")[0].0);
}

#[test]
fn shares_round_trip_and_are_redacted() {
    let share = &deal(4, 3, [1; 32]).shares[2];
    let text = share.to_hex();
    let read = CoinSecretShare::from_hex(&text).unwrap();
    assert_eq!((read.index(), read.sign(b"x")), (share.index(), share.sign(b"x")));
    assert_eq!(format!("{share:?}"), "CoinSecretShare(2)");
    assert!(CoinSecretShare::from_hex(&text[2..]).is_err());
}

#[test]
fn different_seeds_give_different_keys() {
    let (one, two) = (deal(4, 3, [1; 32]), deal(4, 3, [2; 32]));
    assert_ne!(one.public.to_genesis().0, two.public.to_genesis().0);
    assert_eq!(one.public, deal(4, 3, [1; 32]).public, "and the same seed deals the same");
}

#[test]
fn coin_opens_for_a_quorum_of_votes_and_no_fewer() {
    // W = 12, F = 3, Q = 9: every subset of the validators.
    let votes = [4, 3, 2, 2, 1];
    let weights = Weights::new(votes.map(Votes), FaultModel::Byzantine);
    let quorum = weights.quorum();
    let deal = deal_coin(&weights, quorum, [5; 32]);
    let coin = combine(&deal, quorum.0, &shares_of(&deal, &[0, 1, 2, 3, 4], b"round")).unwrap();
    assert!(deal.public.verify(b"round", &coin));
    for subset in 0u8..32 {
        let signers: Vec<usize> = (0..5).filter(|signer| subset & (1 << signer) != 0).collect();
        let weight: u32 = signers.iter().map(|signer| votes[*signer]).sum();
        let opened = combine(&deal, quorum.0, &shares_of(&deal, &signers, b"round"));
        assert_eq!(opened, (weight >= quorum.0).then_some(coin), "{signers:?} with {weight} votes");
        if (1..quorum.0).contains(&weight) {
            let pretended = combine(&deal, weight, &shares_of(&deal, &signers, b"round")).unwrap();
            assert!(!deal.public.verify(b"round", &pretended), "{signers:?}");
        }
    }
}

#[test]
fn all_shares_of_a_validator_are_checked() {
    let deal = deal_coin(&Weights::new([2, 2, 2, 1].map(Votes), FaultModel::Byzantine), Votes(5), [5; 32]);
    let good = deal.shares[1].sign(b"round");
    let checks = |shares: &[CoinShare]| deal.public.verify_shares(ValidatorIndex(1), b"round", shares);
    assert!(checks(&good));
    assert!(!checks(&good[..1]) && !checks(&[good[1], good[0]]) && !checks(&[good[0], good[0]]) && !checks(&[]));
    assert!(!checks(&[good[0], good[1], good[1]]));
    let text = deal.shares[1].to_hex();
    let read = CoinSecretShare::from_hex(&text).unwrap();
    assert_eq!((read.votes(), read.sign(b"round")), (Votes(2), good));
    assert!(CoinSecretShare::from_hex(&text[..text.len() - 2]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_threshold_and_committee_agree(
        (n, threshold, first, second) in (1usize..=13).prop_flat_map(|n| {
            let all: Vec<usize> = (0..n).collect();
            (1..=n).prop_flat_map(move |threshold| {
                (Just(n), Just(threshold), subsequence(all.clone(), threshold).prop_shuffle(), subsequence(all.clone(), threshold))
            })
        }),
        seed: [u8; 32],
        message: Vec<u8>,
    ) {
        let deal = self::deal(n, threshold as u32, seed);
        let first = combine(&deal, threshold as u32, &shares_of(&deal, &first, &message)).unwrap();
        let second = combine(&deal, threshold as u32, &shares_of(&deal, &second, &message)).unwrap();
        prop_assert_eq!(first, second);
        prop_assert!(deal.public.verify(&message, &first));
        if threshold > 1 {
            let fewer: Vec<usize> = (0..threshold - 1).collect();
            let shares = shares_of(&deal, &fewer, &message);
            prop_assert_eq!(combine(&deal, threshold as u32, &shares), None);
            let pretended = combine(&deal, threshold as u32 - 1, &shares).unwrap();
            prop_assert!(!deal.public.verify(&message, &pretended), "{} of {} shares were enough", threshold - 1, threshold);
        }
    }
}
