//! View rules of a fallback (F4).

use crate::attestation::View;
use crate::shards::{ReplicaId, Shards};
use std::collections::BTreeMap;

/// The view that a replica moves to, given the views of members of its shard. A member in view v counts for all lower ones
/// (vote subsumption).
///
/// - R1: 3f + 1 members are in some view v ≥ own: move to v + 1.
/// - R2: otherwise, f + 1 members are in some view v > own: move to the largest such v.
/// - View 1 needs no proof (B.5).
pub fn next_view(own: View, views: &BTreeMap<ReplicaId, View>, shards: &Shards) -> View {
    let mut sorted: Vec<_> = views.values().copied().collect();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    // The largest view in which at least `count` members are, or above it.
    let reached = |count: usize| count.checked_sub(1).and_then(|position| sorted.get(position).copied());
    let moved = match (reached(shards.view_quorum()), reached(shards.validity())) {
        (Some(view), _) if view >= own => view.saturating_add(1),
        (_, Some(view)) if view > own => view,
        _ => own,
    };
    moved.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shards::ShardId;
    use corniche_types::B256;

    /// f = 1, n = 6.
    fn next(own: View, views: &[View]) -> View {
        let keys = (0..6).map(B256::with_last_byte).collect();
        let shards = Shards::new(1, 0, 1, vec![keys]).unwrap();
        let views = (0..).zip(views).map(|(member, view)| (ReplicaId { shard: ShardId(0), member }, *view)).collect();
        next_view(own, &views, &shards)
    }

    #[test]
    fn the_first_view_needs_no_proof() {
        assert_eq!(next(0, &[]), 1);
        assert_eq!(next(1, &[]), 1);
    }

    #[test]
    fn a_quorum_in_a_view_moves_to_the_next() {
        assert_eq!(next(2, &[2, 2, 2, 2]), 3);
        assert_eq!(next(2, &[2, 2, 2]), 2, "three are too few");
        assert_eq!(next(3, &[2, 2, 2, 2, 2]), 3, "a view below the own one moves nothing");
    }

    #[test]
    fn higher_views_count_for_lower_ones() {
        assert_eq!(next(2, &[3, 3, 2, 2, 1]), 3, "four are in view 2 or above");
        assert_eq!(next(1, &[3, 3, 1, 1]), 2, "R1 with view 1 comes before R2 with view 3");
    }

    #[test]
    fn one_correct_member_ahead_is_followed() {
        assert_eq!(next(1, &[4, 4]), 4);
        assert_eq!(next(1, &[4]), 1, "a liar alone moves nobody");
        assert_eq!(next(0, &[5, 5]), 5);
    }
}
