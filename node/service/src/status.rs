//! Epochs, committees, blocks and snapshots of a node, in the formats of `corniche_getEpoch`, `corniche_getCommittee` and
//! `corniche_getSyncStatus`.

use crate::{backend::NodeBackend, epoch_log::EpochLog, snapshots::Shelf};
use corniche_api::{CommitteeInfo, CommitteeSeat, EpochInfo, FetchStatus, FollowingEpoch, OfferedSnapshot, SyncStatus};
use corniche_engine::{Committee, Member};
use corniche_staking::{
    StateSlots, calendar,
    record::{PastCommittee, ring_epochs},
};
use corniche_state::StateView;
use corniche_sync::Progress;
use corniche_types::{Epoch, Genesis, Height, LightMember, NextEpoch, RecordHead, TimestampMs, Weights};
use std::sync::atomic::Ordering;

impl NodeBackend {
    pub(crate) fn describe_committee(&self, epoch: Epoch) -> Option<CommitteeInfo> {
        let running = self.shared.committee();
        let ids = |hash| validator_ids(&self.readers.current().state.latest(), running.epoch(), epoch, hash);
        if epoch == running.epoch() {
            return Some(running_committee(&running, &ids(running.hash())));
        }
        let members = self.epoch_log.members_of(epoch).filter(|_| epoch < running.epoch())?;
        let hash = describe_epoch(&self.genesis, &self.epoch_log, epoch)?.committee_hash;
        Some(past_committee(&self.genesis, (epoch, hash), &members, &ids(hash)))
    }

    pub(crate) fn describe_sync(&self) -> SyncStatus {
        let reader = &self.readers.current().reader;
        let (head, shared) = (reader.head().height().0, &self.shared);
        let certified = reader.last_certificate().map_or(0, |certificate| certificate.height.0).min(head);
        SyncStatus {
            base: reader.base().map(|base| base.height().0),
            first_block: reader.first_block().0,
            head,
            certified,
            fetch: None,
            unavailable: Some(shared.unavailable_block.load(Ordering::Relaxed)).filter(|height| *height > 0),
            target: shared.target.load(Ordering::Relaxed).max(certified),
            follows: shared.counters.ordering.load(Ordering::Relaxed) == 0,
            snapshots: self.shelf.as_deref().map(offered).unwrap_or_default(),
        }
    }
}

/// Snapshots that a node offers, newest first.
fn offered(shelf: &Shelf) -> Vec<OfferedSnapshot> {
    let snapshots = shelf.all();
    let offered = snapshots.iter().map(|held| OfferedSnapshot {
        height: held.snapshot.height().0,
        entries: held.snapshot.manifest().entries(),
        bytes: held.snapshot.manifest().chunk_bytes(),
    });
    offered.collect()
}

/// Describes a fetch under way.
pub fn fetch_status(progress: Progress) -> FetchStatus {
    let Progress { phase, epoch, peers, height, chunks, bytes, .. } = progress;
    FetchStatus {
        phase: phase.name().into(),
        peers: peers as u64,
        epoch: epoch.0,
        height: height.map(|height| height.0),
        chunks: chunks.1 as u64,
        fetched_chunks: chunks.0 as u64,
        bytes: bytes.1,
        fetched_bytes: bytes.0,
    }
}

/// Describes an epoch by the changes before and after it. `None` if it has not begun, or the change before it is not known.
pub fn describe_epoch(genesis: &Genesis, log: &EpochLog, epoch: Epoch) -> Option<EpochInfo> {
    let (first_block, start, committee_hash, protocol_version) = match epoch.0.checked_sub(1).map(Epoch) {
        None => (Height(1), genesis.timestamp_ms, genesis.committee_hash(), genesis.rules_at(Height(1)).version),
        Some(before) => {
            let (end, time, next) = end_of(log, before)?;
            (end.next(), time, next.committee_hash, next.protocol_version)
        }
    };
    let due = genesis.epochs().and_then(|parameters| calendar::end_time(start, parameters));
    let (last_block, end, next) = match end_of(log, epoch) {
        Some((height, time, next)) => (Some(height.0), Some(time.0), Some(following(&next))),
        None => (None, None, None),
    };
    Some(EpochInfo {
        epoch: epoch.0,
        first_block: first_block.0,
        last_block,
        start_ms: start.0,
        end_ms: end,
        due_ms: due.map(|due| due.0),
        committee_hash,
        protocol_version: protocol_version.into(),
        next,
    })
}

/// Height and time of the last block of an epoch, and what it says about the next one.
fn end_of(log: &EpochLog, epoch: Epoch) -> Option<(Height, TimestampMs, NextEpoch)> {
    let change = log.change(epoch)?;
    let head = RecordHead::decode(&change.head)?;
    let (_, time, _) = head.agreed;
    Some((Height(change.header.number), time, head.next?))
}

fn following(next: &NextEpoch) -> FollowingEpoch {
    FollowingEpoch {
        committee_hash: next.committee_hash,
        light_root: next.light_root,
        protocol_version: next.protocol_version.into(),
    }
}

fn running_committee(committee: &Committee, ids: &[u64]) -> CommitteeInfo {
    let members = committee.members().map(|(index, member)| {
        let Member { consensus_key, bls_key, network_key, fee_address, .. } = member;
        CommitteeSeat {
            index: index.0.into(),
            id: ids.get(index.as_usize()).copied(),
            bls_key: bls_key.clone(),
            votes: committee.votes(index).0.into(),
            consensus_key: Some(*consensus_key),
            network_key: Some(*network_key),
            fee_address: Some(*fee_address),
        }
    });
    CommitteeInfo {
        epoch: committee.epoch().0,
        committee_hash: committee.hash(),
        quorum: committee.quorum().0.into(),
        members: members.collect(),
    }
}

fn past_committee(
    genesis: &Genesis,
    (epoch, committee_hash): (Epoch, corniche_types::B256),
    members: &[LightMember],
    ids: &[u64],
) -> CommitteeInfo {
    let weights = Weights::new(members.iter().map(|member| member.votes), genesis.fault_model());
    let members = (0u64..).zip(members).map(|(index, member)| CommitteeSeat {
        index,
        id: ids.get(index as usize).copied(),
        bls_key: member.bls_key.to_vec().into(),
        votes: member.votes.0.into(),
        consensus_key: None,
        network_key: None,
        fee_address: None,
    });
    CommitteeInfo { epoch: epoch.0, committee_hash, quorum: weights.quorum().0.into(), members: members.collect() }
}

/// Numbers of a committee's members in the staking contract, by index. Empty if the state does not have this committee (any more).
fn validator_ids(state: &dyn StateView, running: Epoch, epoch: Epoch, hash: corniche_types::B256) -> Vec<u64> {
    if !ring_epochs(running).any(|other| other == epoch) {
        return Vec::new();
    }
    let slots = &mut StateSlots(state);
    // The state may be one of a later epoch already, in which another committee has the place of this one.
    let Some(committee) = PastCommittee::load(slots, epoch).ok().flatten().filter(|committee| committee.hash == hash) else {
        return Vec::new();
    };
    (0..committee.members).map_while(|index| Some(committee.seat(slots, index).ok()??.id.0.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{epoch_log, testing::genesis};
    use corniche_store::{DataDirectory, Options, Store};
    use corniche_types::{
        B256, Bytes, Certificate, CommitIndex, EpochChange, Header, SignerBitmap, StakingParameters, ValidatorIndex, Votes,
        wire,
    };
    use std::sync::Arc;

    /// The end of an epoch at a height and a time.
    fn change(genesis: &Genesis, epoch: u64, height: u64, time: u64, members: Option<Vec<LightMember>>) -> EpochChange {
        let hash = B256::repeat_byte(epoch as u8 + 1);
        let head = RecordHead {
            engine: "none".into(),
            protocol_version: 5,
            epoch: Epoch(epoch),
            committee_hash: B256::repeat_byte(epoch as u8),
            next: Some(NextEpoch { committee_hash: hash, light_root: B256::repeat_byte(0x11), protocol_version: 6 }),
            commits: (CommitIndex(1), CommitIndex(1), 0),
            agreed: (ValidatorIndex(0), TimestampMs(time), B256::ZERO),
            hashes: (B256::ZERO, B256::ZERO, B256::ZERO),
        };
        EpochChange {
            header: Header { number: height, ..Header::default() },
            head: wire::encode(&head).into(),
            certificate: Certificate {
                epoch: Epoch(epoch),
                committee_hash: head.committee_hash,
                height: Height(height),
                header_hash: B256::ZERO,
                fault_model: genesis.fault_model(),
                signers: SignerBitmap::from_signers([ValidatorIndex(0)], 1),
                signature: Bytes::new(),
            },
            members,
        }
    }

    #[test]
    fn epochs_are_described_by_their_changes() {
        let directory = tempfile::tempdir().unwrap();
        let parameters = StakingParameters { epoch_ms: 60_000, ..StakingParameters::default() };
        let genesis = Genesis { staking: Some(parameters), ..genesis() };
        let store = Store::open(directory.path(), &genesis, Options::default()).unwrap().0;
        let log = EpochLog::new(directory.path(), store.reader(), Arc::new(genesis.clone()));
        let first = describe_epoch(&genesis, &log, Epoch(0)).unwrap();
        assert_eq!((first.first_block, first.last_block, first.start_ms, first.end_ms), (1, None, 1, None));
        assert_eq!((first.due_ms, first.committee_hash, first.next), (Some(60_001), genesis.committee_hash(), None));
        assert_eq!(describe_epoch(&genesis, &log, Epoch(1)), None);

        let (data, mut members) = (DataDirectory::new(directory.path()), epoch_log::first_members(&genesis));
        let other = vec![LightMember { bls_key: [7; 96], votes: Votes(3) }, LightMember { bls_key: [8; 96], votes: Votes(1) }];
        epoch_log::import(&data, &change(&genesis, 0, 9, 61_000, Some(other.clone())), &mut members).unwrap();
        epoch_log::import(&data, &change(&genesis, 1, 20, 125_000, None), &mut members).unwrap();
        let [first, second, running] = [0, 1, 2].map(|epoch| describe_epoch(&genesis, &log, Epoch(epoch)).unwrap());
        assert_eq!((first.last_block, first.end_ms), (Some(9), Some(61_000)));
        assert_eq!((second.first_block, second.last_block), (10, Some(20)));
        assert_eq!((second.start_ms, second.due_ms, second.end_ms), (61_000, Some(121_000), Some(125_000)));
        assert_eq!((second.committee_hash, second.protocol_version), (B256::repeat_byte(1), 6));
        assert_eq!(second.next.unwrap().committee_hash, running.committee_hash);
        assert_eq!((running.first_block, running.last_block, running.next), (21, None, None));
        // Keys and votes of the second epoch stay in the third.
        assert_eq!([1, 2].map(|epoch| log.members_of(Epoch(epoch))), [Some(other.clone()), Some(other.clone())]);
        let past = past_committee(&genesis, (Epoch(1), second.committee_hash), &other, &[4]);
        assert_eq!(
            past.members.iter().map(|seat| (seat.index, seat.id, seat.votes)).collect::<Vec<_>>(),
            [(0, Some(4), 3), (1, None, 1)]
        );
        assert!(past.members.iter().all(|seat| seat.consensus_key.is_none()));
    }

    #[test]
    fn running_committee_has_all_keys() {
        let genesis = genesis();
        let running = running_committee(&Committee::from_genesis(&genesis), &[]);
        let [seat] = &running.members[..] else { panic!("expected one member, got {:?}", running.members) };
        let [member] = &genesis.validators[..] else { panic!("expected one validator") };
        assert_eq!((running.epoch, running.committee_hash, running.quorum), (0, genesis.committee_hash(), 1));
        assert_eq!((seat.index, seat.id, seat.votes, &seat.bls_key), (0, None, 1, &member.bls_key));
        assert_eq!((seat.consensus_key, seat.network_key), (Some(member.consensus_key), Some(member.network_key)));
        assert_eq!(seat.fee_address, Some(member.fee_address));
    }
}
