//! Pure rules: the acceptor (A1, A2) and the proposer (P2, P3, P5) of one slot, and the back-off between tries (P5–P7).

use crate::message::{Accepted, Promise, Try, Value};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::Committee;
use corniche_types::{TimestampMs, ValidatorIndex, Votes};
use std::collections::{BTreeMap, BTreeSet};

/// Acceptor of one slot. On disk before each of its answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct Acceptor {
    /// promised_try: it takes part in no lower one.
    pub promised: Option<Try>,
    /// accepted_try, accepted_value.
    pub accepted: Option<Accepted>,
}

impl Acceptor {
    /// A1: PREPARE. Returns the promise, or `None` if the try is refused.
    pub fn prepare(&mut self, attempt: Try) -> Option<Promise> {
        if self.promised >= Some(attempt) {
            return None;
        }
        self.promised = Some(attempt);
        Some(Promise { attempt, accepted: self.accepted.clone() })
    }

    /// A2: whether a PROPOSE with this try is accepted.
    pub fn allows(&self, attempt: Try) -> bool {
        self.promised <= Some(attempt)
    }

    /// A2: PROPOSE. Returns false if the try is refused.
    pub fn propose(&mut self, attempt: Try, value: Value) -> bool {
        if !self.allows(attempt) {
            return false;
        }
        // X1: the thesis does not raise the promise here. Then a late PROPOSE of a lower try overwrites a chosen value.
        self.promised = Some(attempt);
        self.accepted = Some(Accepted { attempt, value });
        true
    }
}

/// X2: a proposer's next try in a slot: above its own last one, and above the highest promise that it saw. Its own acceptor promised
/// all its tries.
pub fn next_try(me: ValidatorIndex, promised: Option<Try>, refused: u64) -> Try {
    let highest = promised.map_or(0, |promised| promised.counter).max(refused);
    Try { counter: highest + 1, proposer: me }
}

/// Result of an answer for the proposer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It waits for more answers.
    Wait,
    /// A quorum promised: it chooses a value and proposes.
    Promised,
    Decided(Value),
    /// No quorum is possible any more. The try failed (P5).
    Refused,
}

/// A proposer's try in one slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Proposer {
    attempt: Try,
    promises: BTreeMap<ValidatorIndex, Option<Accepted>>,
    /// Chosen with the promises of a quorum.
    value: Option<Value>,
    accepts: BTreeSet<ValidatorIndex>,
    refusals: BTreeSet<ValidatorIndex>,
}

impl Proposer {
    pub fn new(attempt: Try) -> Self {
        let (promises, accepts, refusals) = Default::default();
        Self { attempt, promises, value: None, accepts, refusals }
    }

    pub fn attempt(&self) -> Try {
        self.attempt
    }

    /// The proposed value; `None` before a quorum promised.
    pub fn value(&self) -> Option<&Value> {
        self.value.as_ref()
    }

    /// P2: a PROMISE for this try; a second one of an acceptor does not count (X3).
    pub fn promised(&mut self, from: ValidatorIndex, promise: Promise, committee: &Committee) -> Verdict {
        if promise.attempt != self.attempt || self.value.is_some() {
            return Verdict::Wait; // X3
        }
        self.promises.entry(from).or_insert(promise.accepted);
        if self.has_promises(committee) { Verdict::Promised } else { Verdict::Wait }
    }

    /// Returns true if a quorum promised.
    pub fn has_promises(&self, committee: &Committee) -> bool {
        committee.weigh(self.promises.keys().copied()) >= committee.quorum()
    }

    /// P2: the accepted value with the highest try that an acceptor reported. Only this value may be proposed.
    pub fn adopted(&self) -> Option<&Value> {
        let reported = self.promises.values().flatten();
        reported.max_by_key(|accepted| accepted.attempt).map(|accepted| &accepted.value)
    }

    /// P2: chooses the value, with the promises of a quorum. `own` is proposed if no acceptor reported one.
    pub fn choose(&mut self, own: Value) -> Value {
        let value = self.adopted().cloned().unwrap_or(own);
        self.value = Some(value.clone());
        value
    }

    /// P3: an ACCEPT of this try.
    pub fn accepted(&mut self, from: ValidatorIndex, attempt: Try, committee: &Committee) -> Verdict {
        let Some(value) = self.value.clone().filter(|_| attempt == self.attempt) else { return Verdict::Wait }; // X3
        self.accepts.insert(from);
        let is_quorum = committee.weigh(self.accepts.iter().copied()) >= committee.quorum();
        if is_quorum { Verdict::Decided(value) } else { Verdict::Wait }
    }

    /// M9: a NACK of this try. It fails once those that did not refuse are no quorum.
    pub fn refused(&mut self, from: ValidatorIndex, attempt: Try, committee: &Committee) -> Verdict {
        if attempt != self.attempt {
            return Verdict::Wait; // X3
        }
        self.refusals.insert(from);
        let refused = committee.weigh(self.refusals.iter().copied());
        let left = Votes(committee.total().0.saturating_sub(refused.0));
        if left < committee.quorum() { Verdict::Refused } else { Verdict::Wait }
    }
}

/// Random exponential back-off of one proposer, shared by all slots (P5–P7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// l.
    exponent: u32,
    max_exponent: u32,
}

impl Backoff {
    pub fn new(max_exponent: u32) -> Self {
        Self { exponent: 0, max_exponent }
    }

    pub fn exponent(&self) -> u32 {
        self.exponent
    }

    /// P5: a try failed, whatever the reason.
    pub fn failed(&mut self) {
        self.exponent = (self.exponent + 1).min(self.max_exponent);
    }

    /// P3, P7: a try succeeded. One step back, not all of them: otherwise a winner keeps winning.
    pub fn succeeded(&mut self) {
        self.exponent = self.exponent.saturating_sub(1);
    }

    /// The contention that raised l is long over if no try failed for this time, with this phase. A proposer whose batches are in the
    /// values of others has no success of its own.
    pub fn calm(&mut self, quiet_ms: u64, rtt_max_ms: u64, phase_ms: u64) {
        let longest = self.delay_ms(rtt_max_ms, u64::MAX).saturating_add(2 * phase_ms);
        if quiet_ms > 2 * longest {
            self.exponent = 0;
        }
    }

    /// Back-off whose l is at most this.
    pub fn at_most(&self, exponent: u32) -> Self {
        Self { exponent: self.exponent.min(exponent), ..self.clone() }
    }

    /// P6: k · 2^l · 2 · RTT_max, at least 1 ms. A proposal needs two round trips. `draw` is uniform over all numbers, so k is a fraction
    /// of 2^64 parts (X4).
    pub fn delay_ms(&self, rtt_max_ms: u64, draw: u64) -> u64 {
        let longest = u128::from(rtt_max_ms) << (self.exponent + 1);
        u64::try_from((longest * u128::from(draw)) >> 64).unwrap_or(u64::MAX).max(1)
    }
}

/// A drawn wait for some phases and a back-off. It becomes shorter with RTT_max, but not longer: a stalled network does not hold up
/// proposers after it recovered.
#[derive(Clone, Debug)]
pub struct Wait {
    since: TimestampMs,
    phases: u64,
    backoff: Backoff,
    draw: u64,
    until: TimestampMs,
}

impl Wait {
    pub fn new(since: TimestampMs, phases: u64, backoff: Backoff, draw: u64) -> Self {
        Self { since, phases, backoff, draw, until: TimestampMs(u64::MAX) }
    }

    /// The end, with the current times of the network.
    pub fn until(&mut self, rtt_max_ms: u64, phase_ms: u64) -> TimestampMs {
        let ms = self.phases.saturating_mul(phase_ms).saturating_add(self.backoff.delay_ms(rtt_max_ms, self.draw));
        self.until = self.until.min(TimestampMs(self.since.0.saturating_add(ms)));
        self.until
    }
}
