//! Invalid keys in a genesis.

mod common;

use common::{bls_key, genesis};
use corniche_crypto::{GenesisKeyError, deal_coin, verify_genesis};
use corniche_types::{B256, Genesis, ValidatorIndex, Votes};

fn refused(change: impl FnOnce(&mut Genesis)) -> GenesisKeyError {
    let mut changed = genesis(4);
    change(&mut changed);
    verify_genesis(&changed).expect_err("must be refused")
}

fn of_validator(validator: u16, field: &'static str) -> impl Fn(&GenesisKeyError) -> bool {
    move |error| matches!(error, GenesisKeyError::Validator { validator: v, field: f, .. } if (*v, *f) == (ValidatorIndex(validator), field))
}

#[test]
fn valid_keys_pass_at_small_sizes() {
    for n in 1..=7 {
        assert_eq!(verify_genesis(&genesis(n)), Ok(()), "{n} validators");
    }
}

#[test]
fn invalid_or_duplicate_keys_are_rejected() {
    // The identity would verify signatures of any message.
    let identity = B256::with_last_byte(1);
    let identity = B256::new(std::array::from_fn(|i| identity[31 - i]));
    assert!(of_validator(1, "consensus_key")(&refused(|g| g.validators[1].consensus_key = identity)));
    assert!(of_validator(2, "consensus_key")(&refused(|g| g.validators[2].consensus_key = g.validators[0].consensus_key)));
    assert!(of_validator(2, "network_key")(&refused(|g| g.validators[2].network_key = g.validators[0].consensus_key)));
    assert!(of_validator(1, "bls_key")(&refused(|g| g.validators[1].bls_key = vec![1; 96].into())));
    let copied = refused(|g| {
        g.validators[3].bls_key = g.validators[1].bls_key.clone();
        g.validators[3].bls_proof = g.validators[1].bls_proof.clone();
    });
    assert!(of_validator(3, "bls_key")(&copied), "{copied}");
}

#[test]
fn bls_key_needs_possession_proof() {
    let stolen = refused(|g| g.validators[1].bls_proof = g.validators[2].bls_proof.clone());
    assert!(of_validator(1, "bls_proof")(&stolen), "{stolen}");
    let signature = bls_key(1).sign(&bls_key(1).public().to_bytes()).to_bytes();
    let not_a_proof = refused(|g| g.validators[1].bls_proof = signature.to_vec().into());
    assert!(of_validator(1, "bls_proof")(&not_a_proof), "{not_a_proof}");
}

#[test]
fn coin_keys_must_match_quorum() {
    assert_eq!(refused(|g| g.coin_public_key = vec![7; 96].into()), GenesisKeyError::CoinKey);
    assert_eq!(refused(|g| g.coin_shares.swap(0, 1)), GenesisKeyError::CoinInconsistent);
    assert_eq!(refused(|g| g.coin_shares[3] = g.coin_public_key.clone()), GenesisKeyError::CoinInconsistent);
    assert_eq!(refused(|g| g.coin_public_key = g.coin_shares[0].clone()), GenesisKeyError::CoinInconsistent);
    assert_eq!(refused(|g| drop(g.coin_shares.pop())), GenesisKeyError::CoinInconsistent);
    // A threshold above the quorum: no quorum could reveal the coin.
    let too_high =
        refused(|g| (g.coin_public_key, g.coin_shares) = deal_coin(&g.weights(), Votes(4), [9; 32]).public.to_genesis());
    assert_eq!(too_high, GenesisKeyError::CoinInconsistent);
}

#[test]
fn coin_with_low_threshold_is_rejected() {
    let too_low =
        |g: &mut Genesis| (g.coin_public_key, g.coin_shares) = deal_coin(&g.weights(), Votes(2), [9; 32]).public.to_genesis();
    assert_eq!(refused(too_low), GenesisKeyError::CoinInconsistent);
}
