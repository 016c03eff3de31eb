//! Source of the `[cost]` defaults: measures the time of each operation of the real cryptography on one core of this
//! machine. `cargo run --release -p corniche-simulator --example crypto_cost`

use corniche_crypto::{ConsensusKey, Domain, EthereumKey, Signed, deal_coin, recover};
use corniche_types::{B256, Epoch, FaultModel, Weights};
use std::{
    hint::black_box,
    time::{Duration, Instant},
};

fn main() {
    let key = ConsensusKey::from_seed([1; 32]);
    let domain = Domain { tag: "crypto-cost", chain_id: 1, epoch: Epoch(0), committee_hash: B256::ZERO };
    let signed = Signed::sign([7u8; 32], &key, &domain);
    show("sign_us", || Signed::sign([7u8; 32], &key, &domain));
    show("verify_us", || signed.clone().verify(&key.public_key(), &domain).is_ok());

    let sender = EthereumKey::from_bytes(&[3; 32]).expect("a small number is a key");
    let signature = sender.sign_hash(B256::ZERO);
    show("recover_us", || recover(B256::ZERO, signature.r(), signature.s(), signature.v()));

    for size in [4, 10, 50] {
        let weights = Weights::one_each(size, FaultModel::Byzantine);
        let deal = deal_coin(&weights, weights.quorum(), [2; 32]);
        let shares: Vec<_> = deal.shares.iter().map(|share| (share.index(), share.sign(b"round"))).collect();
        show(&format!("share_us, n = {size}"), || deal.shares[0].sign(b"round"));
        show(&format!("combine_us, n = {size}"), || {
            let coin = deal.public.combine(weights.quorum(), &shares).expect("all shares are honest");
            assert!(deal.public.verify(b"round", &coin));
        });
    }
}

/// Prints the minimum of many runs, which is the undisturbed time.
#[expect(clippy::print_stdout, reason = "it is the result")]
fn show<T>(name: &str, mut operation: impl FnMut() -> T) {
    let mut best = Duration::MAX;
    for _ in 0..200 {
        let start = Instant::now();
        black_box(operation());
        best = best.min(start.elapsed());
    }
    println!("{name:<20} {:>6.1}", best.as_secs_f64() * 1e6);
}
