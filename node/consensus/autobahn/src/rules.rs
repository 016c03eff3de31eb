//! Pure verdicts: who leads, what a view change must propose again, what a PREPARE must show, in which order cars come out.

use crate::{
    config::Config,
    message::{Report, SignedPrepare, Slot, TimeoutQc, View},
};
use corniche_engine::Committee;
use corniche_types::{B256, ValidatorIndex};
use std::collections::BTreeMap;

/// Who leads which view of which slot (S5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    size: u64,
    /// g: how far apart the leaders of successive slots are; 0 for a stable leader (row 38).
    step: u64,
}

impl Schedule {
    pub fn new(committee: &Committee, config: &Config) -> Self {
        let size = committee.size() as u64;
        let least = committee.faulty().max(1) as u64;
        // P13: coprime with n, or some validators would lead no first view.
        let step = (least..).find(|&step| coprime(step, size)).unwrap_or(1);
        Self { size, step: if config.stable_leader { 0 } else { step } }
    }

    /// L(s,v) = (g·s + v) mod n. A run of f faulty leaders is paid once by the slots that are open, not by each of them.
    pub fn leader(&self, slot: Slot, view: View) -> ValidatorIndex {
        let place = (u128::from(self.step) * u128::from(slot.0) + u128::from(view.0)) % u128::from(self.size);
        ValidatorIndex(u16::try_from(place).expect("less than the committee's size"))
    }
}

fn coprime(a: u64, b: u64) -> bool {
    if b == 0 { a == 1 } else { coprime(b, a % b) }
}

/// What the next view must propose again, given the n − f reports of a TC; `None`: its leader's own fresh cut (3.4). `overlap` is
/// n − 2f.
///
/// Values are counted without their views (P1): a value may have been voted in several views by the time its votes are looked at.
pub fn select(reports: &[Report], overlap: usize) -> Option<B256> {
    let confirmed = reports.iter().filter_map(|report| report.confirmed).max();
    match (repeated(reports, overlap), confirmed) {
        // 5: the tie goes to the certificate. An equivocating leader can place f correct and f faulty voters on another value in the
        // very view in which the certificate formed.
        (Some((view, value)), Some((confirmed, _))) if view > confirmed => Some(value),
        (_, Some((_, value))) => Some(value),
        (candidate, None) => candidate.map(|(_, value)| value),
    }
}

/// 2: the value that n − 2f reports name as last voted, with the (n − 2f)-th largest view among them. At most one can be named so
/// often, because 2(n − 2f) > n − f.
fn repeated(reports: &[Report], overlap: usize) -> Option<(View, B256)> {
    let mut views = BTreeMap::<B256, Vec<View>>::new();
    for (view, value) in reports.iter().filter_map(|report| report.voted) {
        views.entry(value).or_default().push(view);
    }
    let (value, mut views) = views.into_iter().find(|(_, views)| views.len() >= overlap)?;
    views.sort_unstable_by(|a, b| b.cmp(a));
    Some((views[overlap - 1], value))
}

/// C2, the part without state: whether this PREPARE's ticket fits and its value is one that it may propose (P24, N3). `digest` is its
/// cut's. Signatures, quorums and the shape of the cut are the verifier's.
pub fn is_justified(prepare: &SignedPrepare, digest: B256, config: &Config, committee: &Committee) -> bool {
    let SignedPrepare { view, cut, previous, timeouts, .. } = prepare;
    let anchored = match (cut.slot.0.checked_sub(config.open_slots), previous) {
        (None | Some(0), None) => cut.anchor == B256::ZERO,
        // P14: the ticket says what was committed, not only that something was.
        (Some(slot @ 1..), Some(previous)) => previous.slot == Slot(slot) && previous.cut == cut.anchor,
        _ => false,
    };
    let entered = match (view.0.checked_sub(1), timeouts) {
        (None, None) => true,
        (Some(before), Some(timeouts)) => {
            let fits = timeouts.slot == cut.slot && timeouts.view == View(before);
            fits && select(&timeouts.reports, committee.overlap()).is_none_or(|winner| winner == digest)
        }
        _ => false,
    };
    cut.slot >= Slot(1) && anchored && entered
}

/// Whether the value of a justified PREPARE is its leader's own: its tips must then be shown to exist (C3).
pub fn is_fresh(prepare: &SignedPrepare, committee: &Committee) -> bool {
    let winner = |timeouts: &TimeoutQc| select(&timeouts.reports, committee.overlap());
    prepare.timeouts.as_ref().and_then(winner).is_none()
}

/// O5: in which order the new cars of a cut come out, given how many each lane has: the first of every lane, then the second of every
/// lane, and so on. Pairs of (lane, offset).
pub fn zip(lengths: &[usize]) -> impl Iterator<Item = (usize, usize)> + '_ {
    let longest = lengths.iter().copied().max().unwrap_or(0);
    (0..longest).flat_map(move |offset| {
        lengths.iter().enumerate().filter(move |(_, length)| offset < **length).map(move |(lane, _)| (lane, offset))
    })
}
