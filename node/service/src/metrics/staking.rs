//! Figures of the staking contract, from the newest state.

use corniche_staking::{
    Slots, calendar,
    coin::DealingProgress,
    record::{
        Attendance, Committee, FreezeNumber, Header, KeyOwner, PastCommittee, Phase, Validator, is_convicted, ring_epochs,
    },
};
use corniche_types::{B256, StakingParameters, TimestampMs, Votes, keccak256};

/// All phases, with their values of the label `phase`.
pub const PHASES: [(Phase, &str); 6] = [
    (Phase::Open, "open"),
    (Phase::Frozen, "frozen"),
    (Phase::Kept, "kept"),
    (Phase::Dealing, "dealing"),
    (Phase::Acknowledging, "acknowledging"),
    (Phase::Opening, "opening"),
];

/// Figures of the running epoch and of convictions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StakingFigures {
    /// Time until the epoch ends, in milliseconds, negative afterwards; `None` if epochs never end.
    pub ends_ms: Option<i64>,
    pub phase: Phase,
    /// Epochs in a row at whose beginning the committee was kept.
    pub kept: u64,
    /// Convictions for the newest 64 epochs.
    pub convictions: u64,
    /// The coin that is dealt now. `None` while none is.
    pub dealing: Option<DealingProgress>,
    /// `None`: no key of this node is that of a registered validator.
    pub own: Option<OwnFigures>,
}

/// Figures of this node's validator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnFigures {
    pub votes: Votes,
    pub has_announced: bool,
    pub convictions: u64,
}

impl StakingFigures {
    /// Reads them: at most two slots for each seat of 64 committees, and the dealings of the next coin.
    pub fn load<S: Slots>(
        slots: &mut S,
        parameters: &StakingParameters,
        own_key: Option<B256>,
        now: TimestampMs,
    ) -> Result<Self, S::Error> {
        let header = Header::load(slots)?;
        let mut convictions = 0;
        for epoch in ring_epochs(header.epoch) {
            if let Some(committee) = PastCommittee::load(slots, epoch)? {
                convictions += committee.convicted(slots)?.len() as u64;
            }
        }
        let own = own_key.map(|key| OwnFigures::load(slots, &header, key)).transpose()?.flatten();
        let ends = calendar::end_time(header.start, parameters);
        Ok(Self {
            ends_ms: ends.map(|end| i64::try_from(i128::from(end.0) - i128::from(now.0)).unwrap_or(i64::MAX)),
            phase: header.phase,
            kept: kept(&header),
            convictions,
            dealing: DealingProgress::load(slots)?,
            own,
        })
    }
}

/// The committee of epoch e is made by the freeze with number e, unless it is kept.
fn kept(header: &Header) -> u64 {
    let FreezeNumber(frozen_in) = header.frozen_in;
    header.epoch.0.saturating_sub(frozen_in)
}

impl OwnFigures {
    fn load<S: Slots>(slots: &mut S, header: &Header, key: B256) -> Result<Option<Self>, S::Error> {
        // Entries of keys stay after a validator is deleted.
        let Some(KeyOwner { id, .. }) = KeyOwner::load(slots, keccak256(key))? else { return Ok(None) };
        if Validator::new(id).status(slots)?.is_none() {
            return Ok(None);
        }
        let mut convictions = 0;
        for epoch in ring_epochs(header.epoch) {
            convictions += u64::from(is_convicted(slots, epoch, id)?);
        }
        let seat = Committee::find(slots, header.epoch, id)?;
        let has_announced = Attendance::load(slots, id)?.announced_in == Some(header.epoch);
        Ok(Some(Self { votes: seat.map_or(Votes(0), |(_, member)| member.votes), has_announced, convictions }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_staking::{GenesisValidator, Keys, ValidatorId, coin::Need, genesis_slots, record::set_convicted};
    use corniche_types::{Address, Epoch, Height};
    use std::collections::BTreeMap;

    fn parameters() -> StakingParameters {
        StakingParameters { epoch_ms: 60_000, closing_ms: 10_000, min_validators: 3, ..StakingParameters::default() }
    }

    /// Validators with one vote, and consensus keys of this byte and the next ones.
    fn slots() -> BTreeMap<B256, B256> {
        let validator = |byte: u8| {
            let keys = Keys {
                consensus: B256::repeat_byte(byte),
                bls: [byte; 96].into(),
                network: B256::repeat_byte(byte + 100),
                coin: [byte; 48].into(),
            };
            GenesisValidator { owner: Address::repeat_byte(byte), fee: Address::repeat_byte(byte), keys, votes: Votes(1) }
        };
        let validators: Vec<_> = (1..=4).map(validator).collect();
        genesis_slots(&parameters(), TimestampMs(0), &validators, |_| B256::repeat_byte(0xc0)).0
    }

    fn load(slots: &mut BTreeMap<B256, B256>, key: u8, now: u64) -> StakingFigures {
        StakingFigures::load(slots, &parameters(), Some(B256::repeat_byte(key)), TimestampMs(now)).unwrap()
    }

    #[test]
    fn figures_follow_the_calendar() {
        let mut slots = slots();
        let own = OwnFigures { votes: Votes(1), has_announced: false, convictions: 0 };
        let first = load(&mut slots, 2, 1_000);
        assert_eq!((first.ends_ms, first.phase, first.kept, first.own), (Some(59_000), Phase::Open, 0, Some(own)));
        assert_eq!(load(&mut slots, 9, 1_000).own, None, "the key is not registered");
        assert_eq!(load(&mut slots, 2, 61_500).ends_ms, Some(-1_500));
        for id in 1..4 {
            calendar::announce(&mut slots, &parameters(), ValidatorId(id), 1, TimestampMs(45_000)).unwrap();
        }
        assert_eq!(load(&mut slots, 2, 45_000).own, Some(OwnFigures { has_announced: true, ..own }));
        assert_eq!(load(&mut slots, 1, 45_000).own, Some(own));
        // The next committee has no seat for the first validator.
        let end = |slots: &mut _, height| {
            calendar::freeze(slots, &parameters(), Need::Never).unwrap();
            let hash = |_, _: &Committee, _: Option<&_>| B256::repeat_byte(0xc1);
            calendar::activate(slots, &parameters(), Height(height), TimestampMs(60_000 * height), hash).unwrap()
        };
        assert!(!end(&mut slots, 1).kept);
        let second = load(&mut slots, 2, 60_000);
        assert_eq!((second.kept, second.own), (0, Some(own)));
        assert_eq!(load(&mut slots, 1, 60_000).own, Some(OwnFigures { votes: Votes(0), ..own }));
        // Nobody announces: the committee is kept twice.
        for height in [2, 3] {
            assert!(end(&mut slots, height).kept);
        }
        assert_eq!(load(&mut slots, 2, 180_000).kept, 2);
    }

    #[test]
    fn convictions_are_counted() {
        let mut slots = slots();
        for id in [1, 3] {
            set_convicted(&mut slots, Epoch(0), ValidatorId(id)).unwrap();
        }
        assert_eq!(load(&mut slots, 2, 0).convictions, 2);
        assert_eq!([1, 2].map(|key| load(&mut slots, key, 0).own.unwrap().convictions), [0, 1]);
    }
}
