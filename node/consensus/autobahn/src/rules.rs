//! Pure rules: leaders, values required by a view change, justification of PREPAREs, order of cars.

use crate::{
    config::Config,
    message::{SignedPrepare, Slot, TimeoutQc, View},
};
use corniche_engine::Committee;
use corniche_types::{B256, ValidatorIndex, Weights};
use std::{collections::BTreeMap, sync::Arc};

/// Leaders of all views of all slots (S5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The owner of each seat. A member has a seat for each of its votes.
    seats: Arc<[ValidatorIndex]>,
    /// g: distance between the leaders of successive slots; 0 for a stable leader (row 38).
    step: u64,
}

impl Schedule {
    pub fn new(committee: &Committee, config: &Config) -> Self {
        Self::of(committee.weights(), config.stable_leader)
    }

    fn of(weights: &Weights, stable: bool) -> Self {
        // P13: coprime with W; otherwise some seats would lead no first view.
        let (total, faulty) = (u64::from(weights.total().0), u64::from(weights.max_faulty().0));
        let step = (faulty.max(1)..).find(|&step| coprime(step, total)).unwrap_or(1);
        Self { seats: weights.seats().into(), step: if stable { 0 } else { step } }
    }

    /// L(s,v): owner of seat (g·s + v) mod W. Only the open slots pay for a run of F faulty seats, not each of the seats' slots.
    pub fn leader(&self, slot: Slot, view: View) -> ValidatorIndex {
        let place = (u128::from(self.step) * u128::from(slot.0) + u128::from(view.0)) % self.seats.len() as u128;
        self.seats[usize::try_from(place).expect("less than the number of seats")]
    }
}

fn coprime(a: u64, b: u64) -> bool {
    if b == 0 { a == 1 } else { coprime(b, a % b) }
}

/// Returns the value that the next view must propose again, given a TC; `None`: its leader's own fresh cut (3.4).
///
/// Values are counted without their views (P1): a value may have been voted in several views by the time its votes are looked at.
pub fn select(timeouts: &TimeoutQc, committee: &Committee) -> Option<B256> {
    let confirmed = timeouts.reports.iter().filter_map(|report| report.confirmed).max();
    match (repeated(timeouts, committee), confirmed) {
        // 5: a tie goes to the certificate. An equivocating leader can make correct and faulty validators, each with F votes,
        // vote for another value in the view in which the certificate formed.
        (Some((view, value)), Some((confirmed, _))) if view > confirmed => Some(value),
        (_, Some((_, value))) => Some(value),
        (candidate, None) => candidate.map(|(_, value)| value),
    }
}

/// 2: the value that senders with T − F votes name as last voted, and the highest view that so many of them reach. T are the
/// votes of all senders.
///
/// T may exceed Q, because a member's votes are not divisible. The threshold grows with T. So after a fast commit all correct
/// senders suffice for its value, and at most one value has so many reports: 2(T − F) > T, because T ≥ Q > 2F. With Q − F
/// instead, two values could have them.
fn repeated(timeouts: &TimeoutQc, committee: &Committee) -> Option<(View, B256)> {
    let senders = &timeouts.proof.signers;
    let overlap = committee.overlap(committee.weigh(senders.iter().copied()));
    let mut reporters = BTreeMap::<B256, Vec<(ValidatorIndex, View)>>::new();
    for (sender, report) in senders.iter().zip(&timeouts.reports) {
        if let Some((view, value)) = report.voted {
            reporters.entry(value).or_default().push((*sender, view));
        }
    }
    let reached = |named| committee.weights().reached(named, overlap);
    reporters.into_iter().find_map(|(value, named)| Some((reached(named)?, value)))
}

/// C2, the stateless part: returns true if this PREPARE's ticket fits and its value may be proposed (P24, N3). `digest`
/// is its cut's digest. The verifier checks signatures, quorums and the shape of the cut.
pub fn is_justified(prepare: &SignedPrepare, digest: B256, config: &Config, committee: &Committee) -> bool {
    let SignedPrepare { view, cut, previous, timeouts, .. } = prepare;
    let anchored = match (cut.slot.0.checked_sub(config.open_slots), previous) {
        (None | Some(0), None) => cut.anchor == B256::ZERO,
        // P14: the ticket names the committed value, not only the fact of a commit.
        (Some(slot @ 1..), Some(previous)) => previous.slot == Slot(slot) && previous.cut == cut.anchor,
        _ => false,
    };
    let entered = match (view.0.checked_sub(1), timeouts) {
        (None, None) => true,
        (Some(before), Some(timeouts)) => {
            let fits = timeouts.slot == cut.slot && timeouts.view == View(before);
            fits && select(timeouts, committee).is_none_or(|winner| winner == digest)
        }
        _ => false,
    };
    cut.slot >= Slot(1) && anchored && entered
}

/// Returns true if the value of a justified PREPARE is its leader's own: then its tips must be proven (C3).
pub fn is_fresh(prepare: &SignedPrepare, committee: &Committee) -> bool {
    prepare.timeouts.as_ref().and_then(|timeouts| select(timeouts, committee)).is_none()
}

/// O5: order of the new cars of a cut, given their number per lane: the first of every lane, then the second of every
/// lane, and so on. Returns pairs of (lane, offset).
pub fn zip(lengths: &[usize]) -> impl Iterator<Item = (usize, usize)> + '_ {
    let longest = lengths.iter().copied().max().unwrap_or(0);
    (0..longest).flat_map(move |offset| {
        lengths.iter().enumerate().filter(move |(_, length)| offset < **length).map(move |(lane, _)| (lane, offset))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Proof, Report};
    use corniche_testkit::committee_of;
    use corniche_types::{Bytes, FaultModel, Votes};
    use std::collections::BTreeSet;

    const X: B256 = B256::repeat_byte(1);
    const Y: B256 = B256::repeat_byte(2);

    fn report(voted: Option<(u32, B256)>, confirmed: Option<(u32, B256)>) -> Report {
        let named = |named: Option<(u32, B256)>| named.map(|(view, value)| (View(view), value));
        Report { confirmed: named(confirmed), voted: named(voted) }
    }

    /// The value required by a TC of the first members of a committee with these votes.
    fn selected(votes: &[u32], reports: &[Report]) -> Option<B256> {
        let signers = (0u16..).map(ValidatorIndex).take(reports.len()).collect();
        let proof = Proof { signers, seal: Bytes::new() };
        let timeouts = TimeoutQc { slot: Slot(1), view: View(9), reports: reports.to_vec(), proof, confirmed: None };
        select(&timeouts, &committee_of("autobahn", votes))
    }

    #[test]
    fn p1_reproposed_value_keeps_votes() {
        // Four validators. A leads view 0, all vote x, and x is committed fast, but no correct validator learns of it.
        // The TC of view 0 from B, C, D proposes x again. D leads view 1 and shows it to B only.
        let nothing = report(None, None);
        let x = |view| report(Some((view, X)), None);
        assert_eq!(selected(&[1; 4], &[x(0), x(0), nothing]), Some(X));
        // View 2 must not pick y, although no pair of view and value occurs twice.
        assert_eq!(selected(&[1; 4], &[x(1), x(0), nothing]), Some(X));
    }

    #[test]
    fn select_rule_cases() {
        let (x0, x1, y0, y1) = (Some((0, X)), Some((1, X)), Some((0, Y)), Some((1, Y)));
        let cases = [
            // 3: no value is required.
            ([report(None, None), report(x0, None), report(y0, None)], None),
            // 4: only one of both exists.
            ([report(None, None), report(x0, None), report(x1, None)], Some(X)),
            ([report(y1, y1), report(x0, None), report(None, None)], Some(Y)),
            // 5: the repeated value in later views wins, its second largest view counts, and ties go to the
            // certificate.
            ([report(x1, y0), report(x1, None), report(None, None)], Some(X)),
            ([report(x1, None), report(x0, None), report(y0, y0)], Some(Y)),
            ([report(x1, None), report(x1, None), report(y1, y1)], Some(Y)),
            // 1: the highest certificate.
            ([report(None, x0), report(None, y1), report(None, None)], Some(Y)),
        ];
        for (number, (reports, expected)) in cases.into_iter().enumerate() {
            assert_eq!(selected(&[1; 4], &reports), expected, "case {number}");
        }
    }

    /// W = 10, F = 3, Q = 7. The first four have 3 + 1 + 2 + 2 = 8 votes, one more than a quorum, and T − F = 5.
    const OVERSHOOTING: [u32; 5] = [3, 1, 2, 2, 2];

    #[test]
    fn overshooting_tc_has_at_most_one_candidate() {
        // Each value has 4 votes, which are W − 2F: two candidates, if the threshold did not grow with T.
        let (x, y) = (report(Some((0, X)), None), report(Some((0, Y)), None));
        assert_eq!(selected(&OVERSHOOTING, &[x, x, y, y]), None);
        assert_eq!(selected(&OVERSHOOTING, &[y, y, x, x]), None);
    }

    #[test]
    fn overshooting_tc_keeps_fast_commit() {
        // All voted for x, and the first one lies. The others have exactly T − F votes.
        let x = |view| report(Some((view, X)), None);
        for lie in [report(None, None), report(Some((9, Y)), None)] {
            assert_eq!(selected(&OVERSHOOTING, &[lie, x(0), x(0), x(0)]), Some(X));
            assert_eq!(selected(&OVERSHOOTING, &[lie, x(2), x(0), x(1)]), Some(X));
        }
    }

    #[test]
    fn repeated_value_counts_from_view_that_votes_reach() {
        // Views 3, 2 and 1 are reached by 2, 4 and 7 votes, of which 5 are needed: x counts from view 1.
        let with_certificate = |confirmed| {
            let x = |view| report(Some((view, X)), None);
            selected(&OVERSHOOTING, &[x(1), report(None, confirmed), x(3), x(2)])
        };
        assert_eq!(with_certificate(Some((0, Y))), Some(X));
        assert_eq!(with_certificate(Some((1, Y))), Some(Y), "a tie");
        assert_eq!(with_certificate(None), Some(X));
    }

    fn schedule(votes: &[u32], stable: bool) -> Schedule {
        Schedule::of(&Weights::new(votes.iter().copied().map(Votes), FaultModel::Byzantine), stable)
    }

    #[test]
    fn leaders_rotate_and_neighbours_are_separated() {
        for size in [1u64, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 20, 50, 100] {
            let faulty = (size - 1) / 3;
            let schedule = schedule(&vec![1; size as usize], false);
            let leaders: Vec<_> = (1..=size).map(|slot| schedule.leader(Slot(slot), View(0)).0).collect();
            let distinct: BTreeSet<_> = leaders.iter().collect();
            assert_eq!(distinct.len() as u64, size, "P13: {size} validators");
            // A view's next leader is the neighbour, a slot's is at least f further.
            let step = (u64::from(leaders[1 % leaders.len()]) + size - u64::from(leaders[0])) % size;
            assert!(size == 1 || step >= faulty.max(1), "{size} validators, {step} apart");
            for (slot, view) in (0..9u64).flat_map(|slot| (0..9u32).map(move |view| (slot, view))) {
                let leader = schedule.leader(Slot(slot), View(view)).0;
                assert_eq!(u64::from(leader), (step * slot + u64::from(view)) % size, "one vote each: L = (g·s + v) mod n");
            }
        }
        let stable = schedule(&[1; 4], true);
        assert_eq!(stable.leader(Slot(5), View(0)), stable.leader(Slot(6), View(0)));
        assert_ne!(stable.leader(Slot(5), View(0)), stable.leader(Slot(5), View(1)));
        assert_eq!(schedule(&[1; 3], false).leader(Slot(u64::MAX), View(u32::MAX)).0, 0);
    }

    #[test]
    fn members_lead_in_proportion_to_votes() {
        for votes in [&[2, 2, 2, 1][..], &[3, 2, 2, 1, 1, 1], &OVERSHOOTING, &[5, 5, 5, 1, 1, 1], &[16; 16]] {
            let committee = committee_of("autobahn", votes);
            let schedule = schedule(votes, false);
            let (rotations, total) = (10, u64::from(committee.total().0));
            let leaders = (1..=rotations * total).map(|slot| schedule.leader(Slot(slot), View(0)));
            let mut led = vec![0; votes.len()];
            leaders.for_each(|leader| led[leader.as_usize()] += 1);
            let expected: Vec<_> = votes.iter().map(|votes| rotations * u64::from(*votes)).collect();
            assert_eq!(led, expected, "slots of {votes:?}");
            // One of the leaders of F + 1 successive views is honest.
            for slot in 1..=total {
                let views = 0..=committee.max_faulty().0;
                let leaders: BTreeSet<_> = views.map(|view| schedule.leader(Slot(slot), View(view))).collect();
                assert!(committee.weigh(leaders) > committee.max_faulty(), "slot {slot} of {votes:?}");
            }
        }
    }

    #[test]
    fn lanes_take_turns() {
        assert_eq!(zip(&[2, 0, 3]).collect::<Vec<_>>(), [(0, 0), (2, 0), (0, 1), (2, 1), (2, 2)]);
        assert_eq!(zip(&[]).count(), 0);
    }
}
