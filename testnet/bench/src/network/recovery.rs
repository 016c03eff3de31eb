//! The unit in which costs are reported: one recovery of a secp256k1 public key on this machine.

use corniche_console::processor::thread_cpu;
use corniche_crypto::{EthereumKey, recover};
use corniche_types::keccak256;
use std::{hint::black_box, time::Duration};

/// Number of recoveries per sample.
const SAMPLE: u32 = 500;
/// Number of samples.
const SAMPLES: usize = 9;

/// Processor time of one recovery: the median over [`SAMPLES`].
pub fn measure() -> anyhow::Result<Duration> {
    let key = EthereumKey::from_bytes(&[7; 32])?;
    let signed: Vec<_> = (0..SAMPLE)
        .map(|number| {
            let hash = keccak256(number.to_be_bytes());
            (hash, key.sign_hash(hash))
        })
        .collect();
    let mut samples: Vec<_> = (0..SAMPLES)
        .map(|_| {
            let before = thread_cpu();
            for (hash, signature) in &signed {
                black_box(recover(*hash, signature.r(), signature.s(), signature.v()));
            }
            thread_cpu().saturating_sub(before) / SAMPLE
        })
        .collect();
    samples.sort_unstable();
    Ok(samples[SAMPLES / 2])
}

#[cfg(test)]
mod tests {
    #[test]
    fn recovery_takes_time() {
        assert!(!super::measure().unwrap().is_zero());
    }
}
