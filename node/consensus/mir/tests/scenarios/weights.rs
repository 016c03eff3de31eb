//! Unequal votes: W = 9, F = 2, Q = 7. Three of four members are no quorum, two can be one, and one can be enough for F + 1.

use crate::cluster::{Cluster, EPOCH, commit, is_commit};
use corniche_mir::message::{EpochNumber, Message, Sn};
use corniche_mir_testing::committee_of;

fn scripted() -> Cluster {
    Cluster::scripted(committee_of(&[1, 1, 3, 4]))
}

#[test]
fn votes_are_weighed() {
    let mut cluster = scripted();
    let (proposal, digest) = cluster.proposal(1, 0, "x");
    cluster.tell_all(&[0], 2, |cluster, _| cluster.pre_prepare(EPOCH, &proposal));
    cluster.tell_all(&[1], 2, |cluster, from| cluster.prepare(from, EPOCH, 1, digest));
    assert_eq!(cluster.count(2, is_commit), 0, "three members with five votes");
    cluster.tell_all(&[3], 2, |cluster, from| cluster.prepare(from, EPOCH, 1, digest));
    assert_eq!(cluster.count(2, is_commit), 1);
    cluster.tell_all(&[0, 1], 2, |_, _| commit(EPOCH, 1, digest));
    assert_eq!(cluster.delivered(2), 0);
    cluster.tell_all(&[3], 2, |_, _| commit(EPOCH, 1, digest));
    assert_eq!(cluster.delivered(2), 1);
}

#[test]
fn suspicions_and_claims_are_weighed() {
    let mut cluster = scripted();
    let digest = cluster.proposal(1, 0, "x").1;
    let fetches = |cluster: &Cluster| cluster.count(2, |message| matches!(message, Message::FetchBody { .. }));
    cluster.tell_all(&[0, 1], 2, |_, _| Message::Committed(vec![(Sn(1), digest)]));
    cluster.tell_all(&[0, 1], 2, |cluster, _| cluster.wants(1));
    assert_eq!((fetches(&cluster), cluster.engine(2).target()), (0, None));
    cluster.tell_all(&[3], 2, |_, _| Message::Committed(vec![(Sn(1), digest)]));
    cluster.tell_all(&[3], 2, |cluster, _| cluster.wants(1));
    assert_eq!((fetches(&cluster), cluster.engine(2).target()), (1, Some(EpochNumber(1))));
}
