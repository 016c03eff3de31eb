//! Pure rules: leaders, values required by a view change, justification of PREPAREs, order of cars.

use crate::{
    config::Config,
    message::{Report, SignedPrepare, Slot, TimeoutQc, View},
};
use corniche_engine::Committee;
use corniche_types::{B256, ValidatorIndex};
use std::collections::BTreeMap;

/// Leaders of all views of all slots (S5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    size: u64,
    /// g: distance between the leaders of successive slots; 0 for a stable leader (row 38).
    step: u64,
}

impl Schedule {
    pub fn new(committee: &Committee, config: &Config) -> Self {
        Self::of(committee.size() as u64, committee.max_faulty() as u64, config.stable_leader)
    }

    fn of(size: u64, faulty: u64, stable: bool) -> Self {
        // P13: coprime with n; otherwise some validators would lead no first view.
        let step = (faulty.max(1)..).find(|&step| coprime(step, size)).unwrap_or(1);
        Self { size, step: if stable { 0 } else { step } }
    }

    /// L(s,v) = (g·s + v) mod n. Only the open slots pay for a run of f faulty leaders, not each of the leaders' slots.
    pub fn leader(&self, slot: Slot, view: View) -> ValidatorIndex {
        let place = (u128::from(self.step) * u128::from(slot.0) + u128::from(view.0)) % u128::from(self.size);
        ValidatorIndex(u16::try_from(place).expect("less than the committee's size"))
    }
}

fn coprime(a: u64, b: u64) -> bool {
    if b == 0 { a == 1 } else { coprime(b, a % b) }
}

/// Returns the value that the next view must propose again, given the n − f reports of a TC; `None`: its leader's own
/// fresh cut (3.4). `overlap` is n − 2f.
///
/// Values are counted without their views (P1): a value may have been voted in several views by the time its votes are looked at.
pub fn select(reports: &[Report], overlap: usize) -> Option<B256> {
    let confirmed = reports.iter().filter_map(|report| report.confirmed).max();
    match (repeated(reports, overlap), confirmed) {
        // 5: a tie goes to the certificate. An equivocating leader can make f correct and f faulty validators vote for
        // another value in the view in which the certificate formed.
        (Some((view, value)), Some((confirmed, _))) if view > confirmed => Some(value),
        (_, Some((_, value))) => Some(value),
        (candidate, None) => candidate.map(|(_, value)| value),
    }
}

/// 2: the value that n − 2f reports name as last voted, with the (n − 2f)-th largest view among them. At most one value
/// has so many reports, because 2(n − 2f) > n − f.
fn repeated(reports: &[Report], overlap: usize) -> Option<(View, B256)> {
    let mut views = BTreeMap::<B256, Vec<View>>::new();
    for (view, value) in reports.iter().filter_map(|report| report.voted) {
        views.entry(value).or_default().push(view);
    }
    let (value, mut views) = views.into_iter().find(|(_, views)| views.len() >= overlap)?;
    views.sort_unstable_by(|a, b| b.cmp(a));
    Some((views[overlap - 1], value))
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
            fits && select(&timeouts.reports, committee.quorum_overlap()).is_none_or(|winner| winner == digest)
        }
        _ => false,
    };
    cut.slot >= Slot(1) && anchored && entered
}

/// Returns true if the value of a justified PREPARE is its leader's own: then its tips must be proven (C3).
pub fn is_fresh(prepare: &SignedPrepare, committee: &Committee) -> bool {
    let winner = |timeouts: &TimeoutQc| select(&timeouts.reports, committee.quorum_overlap());
    prepare.timeouts.as_ref().and_then(winner).is_none()
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

    const X: B256 = B256::repeat_byte(1);
    const Y: B256 = B256::repeat_byte(2);

    fn report(voted: Option<(u32, B256)>, confirmed: Option<(u32, B256)>) -> Report {
        let named = |named: Option<(u32, B256)>| named.map(|(view, value)| (View(view), value));
        Report { confirmed: named(confirmed), voted: named(voted) }
    }

    #[test]
    fn p1_reproposed_value_keeps_votes() {
        // Four validators. A leads view 0, all vote x, and x is committed fast, but no correct validator learns of it.
        // The TC of view 0 from B, C, D proposes x again. D leads view 1 and shows it to B only.
        let nothing = report(None, None);
        assert_eq!(select(&[report(Some((0, X)), None), report(Some((0, X)), None), nothing], 2), Some(X));
        // View 2 must not pick y, although no pair of view and value occurs twice.
        assert_eq!(select(&[report(Some((1, X)), None), report(Some((0, X)), None), nothing], 2), Some(X));
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
            assert_eq!(select(&reports, 2), expected, "case {number}");
        }
    }

    #[test]
    fn leaders_rotate_and_neighbours_are_separated() {
        for size in [1u64, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 20, 50, 100] {
            let faulty = (size - 1) / 3;
            let schedule = Schedule::of(size, faulty, false);
            let leaders: Vec<_> = (1..=size).map(|slot| schedule.leader(Slot(slot), View(0)).0).collect();
            let distinct: std::collections::BTreeSet<_> = leaders.iter().collect();
            assert_eq!(distinct.len() as u64, size, "P13: {size} validators");
            // A view's next leader is the neighbour, a slot's is at least f further.
            let step = (u64::from(leaders[1 % leaders.len()]) + size - u64::from(leaders[0])) % size;
            assert!(size == 1 || step >= faulty.max(1), "{size} validators, {step} apart");
        }
        let stable = Schedule::of(4, 1, true);
        assert_eq!(stable.leader(Slot(5), View(0)), stable.leader(Slot(6), View(0)));
        assert_ne!(stable.leader(Slot(5), View(0)), stable.leader(Slot(5), View(1)));
        assert_eq!(Schedule::of(3, 0, false).leader(Slot(u64::MAX), View(u32::MAX)).0, 0);
    }

    #[test]
    fn lanes_take_turns() {
        assert_eq!(zip(&[2, 0, 3]).collect::<Vec<_>>(), [(0, 0), (2, 0), (0, 1), (2, 1), (2, 2)]);
        assert_eq!(zip(&[]).count(), 0);
    }
}
