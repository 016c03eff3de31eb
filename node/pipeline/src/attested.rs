//! Senders of transactions that other validators attested, where the genesis has signatures checked by f + 1 validators
//! instead of by everyone (Mir-BFT §5.6; decision 0025).
//!
//! A validator that has accepted a transaction sends its hash and sender to those that do not get it before it is ordered. A
//! sender that f + 1 validators attest is right, since one of them is honest. A validator without f + 1 attestations of one
//! sender checks the signature itself. So attestations change only what a transaction costs, never its result.

use corniche_engine::Committee;
use corniche_types::{Address, B256, ValidatorIndex};
use std::collections::{HashMap, VecDeque, hash_map::Entry};

/// Number of attestations kept in all, evenly divided among the validators.
const MAX_KEPT: usize = 131_072;

/// Attestations of the other validators.
pub struct AttestedSenders {
    /// f + 1.
    needed: usize,
    /// Number of attestations kept of each validator. Newer ones replace the oldest, so that nobody can displace another's.
    capacity: usize,
    validators: Vec<Attestations>,
}

/// Attestations of one validator.
#[derive(Default)]
struct Attestations {
    senders: HashMap<B256, Address>,
    oldest_first: VecDeque<B256>,
}

impl AttestedSenders {
    pub fn new(committee: &Committee) -> Self {
        let size = committee.size();
        let validators = (0..size).map(|_| Attestations::default()).collect();
        Self { needed: committee.validity_threshold(), capacity: MAX_KEPT / size, validators }
    }

    /// Records attestations of one validator. Only its first one of a transaction counts.
    pub fn record(&mut self, from: ValidatorIndex, attestations: impl IntoIterator<Item = (B256, Address)>) {
        let Some(Attestations { senders, oldest_first }) = self.validators.get_mut(from.as_usize()) else { return };
        for (hash, sender) in attestations {
            let Entry::Vacant(vacant) = senders.entry(hash) else { continue };
            vacant.insert(sender);
            oldest_first.push_back(hash);
            if oldest_first.len() > self.capacity
                && let Some(oldest) = oldest_first.pop_front()
            {
                senders.remove(&oldest);
            }
        }
    }

    /// Returns the sender that f + 1 validators attest.
    pub fn sender(&self, hash: &B256) -> Option<Address> {
        let attested = || self.validators.iter().filter_map(|validator| validator.senders.get(hash));
        attested().find(|sender| attested().filter(|other| other == sender).count() >= self.needed).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HONEST: Address = Address::repeat_byte(1);
    const FORGED: Address = Address::repeat_byte(2);

    fn senders(validators: usize, needed: usize) -> AttestedSenders {
        let kept = (0..validators).map(|_| Attestations::default()).collect();
        AttestedSenders { needed, capacity: 100, validators: kept }
    }

    fn hash(number: usize) -> B256 {
        B256::left_padding_from(&number.to_be_bytes())
    }

    #[test]
    fn sender_needs_more_validators_than_may_be_faulty() {
        let mut senders = senders(7, 3);
        let mut attest = |from: u16, sender| {
            senders.record(ValidatorIndex(from), [(hash(1), sender)]);
            senders.sender(&hash(1))
        };
        // Two are faulty. They repeat and contradict themselves.
        let faulty = [(0, FORGED), (1, FORGED), (0, FORGED), (1, FORGED), (0, HONEST), (1, HONEST)];
        assert!(faulty.map(|(from, sender)| attest(from, sender)).iter().all(Option::is_none));
        assert_eq!([2, 3, 4].map(|from| attest(from, HONEST)), [None, None, Some(HONEST)]);
        // Not a validator.
        attest(7, FORGED);
        assert_eq!((senders.sender(&hash(1)), senders.sender(&hash(2))), (Some(HONEST), None));
    }

    #[test]
    fn flooding_validator_displaces_only_its_own_attestations() {
        let mut senders = senders(4, 2);
        for from in [1, 2].map(ValidatorIndex) {
            senders.record(from, (0..100).map(|number| (hash(number), HONEST)));
        }
        senders.record(ValidatorIndex(0), (0..1_000).map(|number| (hash(number), FORGED)));
        assert!((0..100).all(|number| senders.sender(&hash(number)) == Some(HONEST)));
        senders.record(ValidatorIndex(1), [(hash(100), HONEST)]);
        assert_eq!(senders.sender(&hash(0)), None, "the oldest is displaced");
        for Attestations { senders, oldest_first } in &senders.validators {
            assert!(senders.len() <= 100 && oldest_first.len() == senders.len());
        }
    }
}
