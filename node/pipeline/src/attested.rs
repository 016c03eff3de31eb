//! Senders of transactions that other validators attested, where the genesis has signatures checked by f + 1 validators
//! instead of by everyone (Mir-BFT §5.6; decision 0025). With unequal votes, validators with F + 1 votes count as f + 1.
//!
//! A validator that has accepted a transaction sends its hash and sender to those that do not get it before it is ordered. A
//! sender that f + 1 validators attest is right, since one of them is honest. A validator without f + 1 attestations of one
//! sender checks the signature itself. So attestations change only what a transaction costs, never its result.

use corniche_engine::Committee;
use corniche_types::{Address, B256, Epoch, ValidatorIndex, Weights};
use std::collections::{HashMap, VecDeque, hash_map::Entry};

/// Number of attestations kept in all, evenly divided among the validators.
const MAX_KEPT: usize = 131_072;

/// Attestations of the other validators.
pub struct AttestedSenders {
    /// Epoch in which the indices of validators are meant.
    epoch: Epoch,
    weights: Weights,
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
        Self { epoch: committee.epoch(), weights: committee.weights().clone(), capacity: MAX_KEPT / size, validators }
    }

    /// Records attestations of the validator that has this index in an epoch. Only its first one of a transaction counts. In another
    /// epoch the index means somebody else, whose votes may not count for them.
    pub fn record(&mut self, epoch: Epoch, from: ValidatorIndex, attestations: impl IntoIterator<Item = (B256, Address)>) {
        if epoch != self.epoch {
            return;
        }
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

    /// Returns the sender that validators with F + 1 votes attest.
    pub fn sender(&self, hash: &B256) -> Option<Address> {
        let attested = || {
            let validators = (0u16..).map(ValidatorIndex).zip(&self.validators);
            validators.filter_map(|(index, validator)| Some((index, *validator.senders.get(hash)?)))
        };
        let votes_for = |sender: &Address| {
            let supporters = attested().filter(|(_, attested)| attested == sender);
            self.weights.weigh(supporters.map(|(index, _)| index))
        };
        attested().map(|(_, sender)| sender).find(|sender| votes_for(sender) >= self.weights.validity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::{FaultModel, Votes};

    const HONEST: Address = Address::repeat_byte(1);
    const FORGED: Address = Address::repeat_byte(2);

    fn senders(votes: &[u32]) -> AttestedSenders {
        let kept = votes.iter().map(|_| Attestations::default()).collect();
        let weights = Weights::new(votes.iter().copied().map(Votes), FaultModel::Byzantine);
        AttestedSenders { epoch: Epoch(0), weights, capacity: 100, validators: kept }
    }

    fn hash(number: usize) -> B256 {
        B256::left_padding_from(&number.to_be_bytes())
    }

    #[test]
    fn sender_needs_more_validators_than_may_be_faulty() {
        let mut senders = senders(&[1; 7]);
        let mut attest = |from: u16, sender| {
            senders.record(Epoch(0), ValidatorIndex(from), [(hash(1), sender)]);
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

    /// A faulty validator that has index 1 in one epoch and index 0 in the next one is still one validator.
    #[test]
    fn attestations_of_another_epoch_do_not_count() {
        let mut senders = senders(&[1; 4]);
        senders.record(Epoch(0), ValidatorIndex(0), [(hash(1), FORGED)]);
        senders.record(Epoch(1), ValidatorIndex(1), [(hash(1), FORGED)]);
        assert_eq!(senders.sender(&hash(1)), None);
    }

    #[test]
    fn attestations_have_the_votes_of_their_validators() {
        // F = 3.
        let mut senders = senders(&[3, 2, 2, 1, 1, 1]);
        senders.record(Epoch(0), ValidatorIndex(0), [(hash(1), FORGED)]);
        for from in [3, 4, 5] {
            senders.record(Epoch(0), ValidatorIndex(from), [(hash(1), HONEST)]);
        }
        assert_eq!(senders.sender(&hash(1)), None, "three votes each");
        senders.record(Epoch(0), ValidatorIndex(1), [(hash(1), HONEST)]);
        assert_eq!(senders.sender(&hash(1)), Some(HONEST));
    }

    #[test]
    fn flooding_validator_displaces_only_its_own_attestations() {
        let mut senders = senders(&[1; 4]);
        for from in [1, 2].map(ValidatorIndex) {
            senders.record(Epoch(0), from, (0..100).map(|number| (hash(number), HONEST)));
        }
        senders.record(Epoch(0), ValidatorIndex(0), (0..1_000).map(|number| (hash(number), FORGED)));
        assert!((0..100).all(|number| senders.sender(&hash(number)) == Some(HONEST)));
        senders.record(Epoch(0), ValidatorIndex(1), [(hash(100), HONEST)]);
        assert_eq!(senders.sender(&hash(0)), None, "the oldest is displaced");
        for Attestations { senders, oldest_first } in &senders.validators {
            assert!(senders.len() <= 100 && oldest_first.len() == senders.len());
        }
    }
}
