//! The beginning of an epoch (validators.md §3).
//!
//! The last block of an epoch names the next committee ([`OrderingRecord::next`]). Its time and its randomness are those from
//! which the next engine starts. So everything that an epoch needs follows from one record.

use corniche_engine::{Committee, Member};
use corniche_staking::{
    StateSlots, calendar,
    coin::Need,
    record::{self, KeyOwner, Validator},
    upgrade::VersionVotes,
};
use corniche_state::StateView;
use corniche_types::{
    Address, B256, Bytes, Epoch, EpochChange, Genesis, Height, KnownVersions, OrderingRecord, ProtocolRules, RecordHead,
    TimestampMs, Votes, keccak256,
};
use std::collections::BTreeMap;

/// Beginning of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart {
    pub epoch: Epoch,
    /// Hash of the epoch's committee.
    pub committee_hash: B256,
    /// Version of the rules of its blocks, where epochs end (U2). This build need not know it.
    pub protocol_version: u32,
    /// Time of the last block before it; the time of the genesis for epoch 0 (E1).
    pub time: TimestampMs,
    /// Randomness of that block; zero for epoch 0.
    pub randomness: B256,
}

impl EpochStart {
    /// Beginning of epoch 0.
    pub fn genesis(genesis: &Genesis) -> Self {
        let (committee_hash, protocol_version) = (genesis.committee_hash(), genesis.protocol_version);
        Self { epoch: Epoch(0), committee_hash, protocol_version, time: genesis.timestamp_ms, randomness: B256::ZERO }
    }

    /// Beginning of the epoch after a block with this record; `None` if the block is not the last one of its epoch.
    pub fn after(record: &OrderingRecord) -> Option<Self> {
        let next = record.next.as_ref()?;
        let (epoch, committee_hash, protocol_version) = (record.epoch.next(), next.committee_hash, next.protocol_version);
        Some(Self { epoch, committee_hash, protocol_version, time: record.time, randomness: record.randomness })
    }

    /// Beginning of the epoch after a change of committees, whose certificate was verified. `None` if it is no change.
    pub fn after_change(change: &EpochChange) -> Option<Self> {
        let head = RecordHead::decode(&change.head)?;
        let ((_, time, randomness), next) = (head.agreed, head.next?);
        let (committee_hash, protocol_version) = (next.committee_hash, next.protocol_version);
        Some(Self { epoch: head.epoch.next(), committee_hash, protocol_version, time, randomness })
    }

    /// Beginning of an epoch of a chain with blocks up to `head`, on a node whose blocks begin above `base`. `record` returns the
    /// ordering record of a block from the base on; the search reads a logarithmic number of them.
    ///
    /// # Panics
    ///
    /// The chain has not reached the epoch.
    pub fn find(base: ChainBase, epoch: Epoch, head: Height, record: impl Fn(Height) -> OrderingRecord) -> Self {
        if epoch == base.epoch.epoch {
            return base.epoch;
        }
        // Blocks up to `before` are of earlier epochs, blocks from `after` on are not.
        let (mut before, mut after) = (base.height.0, head.0 + 1);
        while before + 1 < after {
            let middle = before + (after - before) / 2;
            if record(Height(middle)).epoch < epoch { before = middle } else { after = middle }
        }
        let start = (before > 0).then(|| record(Height(before))).and_then(|record| Self::after(&record));
        start.filter(|start| start.epoch == epoch).expect("invariant: an epoch begins after the last block of the one before")
    }

    /// Rules of a block of this epoch; `None` if the build does not know its version (U1, U3).
    pub fn rules(&self, genesis: &Genesis, height: Height, known: KnownVersions) -> Option<&'static ProtocolRules> {
        known.rules(genesis.version_at(height, self.protocol_version))
    }

    /// Time from which a block is the last one of the epoch (E2); `None` if epochs never end.
    pub fn end(&self, genesis: &Genesis) -> Option<TimestampMs> {
        calendar::end_time(self.time, genesis.epochs()?)
    }

    /// Times of the steps that need a block (E3); none if epochs never end.
    pub fn steps(&self, genesis: &Genesis) -> Vec<TimestampMs> {
        genesis.epochs().map(|parameters| calendar::step_times(self.time, parameters, Need::of(genesis))).unwrap_or_default()
    }

    /// Time from which validators announce themselves for the next epoch (S12); `None` if epochs never end.
    pub fn announcements(&self, genesis: &Genesis) -> Option<TimestampMs> {
        calendar::announcement_time(self.time, genesis.epochs()?)
    }

    /// The epoch's committee. After epoch 0 it is in the state, from the last block of the epoch before until the freeze in the
    /// next epoch.
    pub fn committee(&self, genesis: &Genesis, view: &dyn StateView) -> Committee {
        Committee::of_epoch(genesis, self.epoch, self.committee_hash, members(genesis, self.epoch, view))
    }
}

/// Where a node's blocks begin: above the genesis, or above a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainBase {
    /// The block below the first one.
    pub height: Height,
    /// Beginning of that block's epoch.
    pub epoch: EpochStart,
}

impl ChainBase {
    pub fn genesis(genesis: &Genesis) -> Self {
        Self { height: Height(0), epoch: EpochStart::genesis(genesis) }
    }
}

/// Coin of the running epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoinStatus {
    /// Epoch that it was dealt for; 0 for the coin of the genesis, or without a coin.
    pub generation: Epoch,
    /// Votes of members whose shares are as good as public.
    pub exposed: Votes,
    /// True if this node is a member without a share of it.
    pub lacks_share: bool,
}

impl CoinStatus {
    /// Reads the status, except for this node's share.
    pub(crate) fn of(epoch: Epoch, view: &dyn StateView) -> Self {
        let slots = &mut StateSlots(view);
        let coin = record::Committee::coin_of(slots, epoch).unwrap_or_default();
        let exposed = coin.keys(slots).ok().flatten().map_or(Votes(0), |keys| keys.exposed);
        Self { generation: coin.generation, exposed, lacks_share: false }
    }
}

/// Recipients of fees in an epoch, by index of the members. `view` is a state in that epoch.
pub fn fee_addresses(genesis: &Genesis, epoch: Epoch, view: &dyn StateView) -> Vec<Address> {
    members(genesis, epoch, view).into_iter().map(|member| member.fee_address).collect()
}

/// Members of the committee of an epoch, by index.
fn members(genesis: &Genesis, epoch: Epoch, view: &dyn StateView) -> Vec<Member> {
    match epoch {
        Epoch(0) => genesis.validators.clone(),
        epoch => stored_committee(view, epoch).members.into_iter().map(member).collect(),
    }
}

fn stored_committee(view: &dyn StateView, epoch: Epoch) -> record::Committee {
    // An interrupted view has no members.
    record::Committee::load(&mut StateSlots(view), epoch).unwrap_or_default()
}

/// Votes of the next committee by the protocol versions that its members announced last. Before the freeze, the running committee
/// counts as the next one.
pub fn version_votes(view: &dyn StateView) -> BTreeMap<u32, Votes> {
    // An interrupted view has no votes.
    VersionVotes::of_last_announcements(&mut StateSlots(view)).map(|votes| votes.by_version).unwrap_or_default()
}

/// Returns whether one validator has registered both consensus keys.
pub fn is_one_validator(view: &dyn StateView, keys: [B256; 2]) -> bool {
    let owner = |key: B256| KeyOwner::load(&mut StateSlots(view), keccak256(key)).ok().flatten().map(|owner| owner.id);
    let [one, other] = keys.map(owner);
    one.is_some() && one == other
}

/// A node that gets the bandwidth and the connections of a validator (E12).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    pub network_key: [u8; 32],
    /// Multiaddresses where it can be dialled, as it registered them. Nobody has checked them.
    pub endpoints: Vec<String>,
}

/// Epoch, and whether the next committee is frozen. [`seats`] change only with it.
pub(crate) fn seats_version(view: &dyn StateView) -> Option<(Epoch, bool)> {
    let header = record::Header::load(&mut StateSlots(view)).ok()?;
    Some((header.epoch, header.phase.has_next()))
}

/// Validators of the running epoch, with those of the next one from the freeze on, and with those of the one before until then:
/// a validator connects before it orders, and helps others to the end of its last epoch.
pub(crate) fn seats(view: &dyn StateView) -> Vec<Seat> {
    let Some((epoch, is_frozen)) = seats_version(view) else { return Vec::new() };
    let other = if is_frozen { Some(epoch.next()) } else { epoch.0.checked_sub(1).map(Epoch) };
    let members = [Some(epoch), other].into_iter().flatten().flat_map(|epoch| stored_committee(view, epoch).members);
    let mut seats = Vec::<Seat>::new();
    for member in members {
        let network_key = member.keys.network.0;
        if seats.iter().all(|seat| seat.network_key != network_key) {
            let endpoints = Validator::new(member.id).endpoint_lines(&mut StateSlots(view)).unwrap_or_default();
            seats.push(Seat { network_key, endpoints });
        }
    }
    seats
}

/// Member of a committee in the state. The contract has verified the proof of possession.
fn member(stored: record::Member) -> Member {
    let record::Member { keys, fee, votes, .. } = stored;
    Member {
        consensus_key: keys.consensus,
        bls_key: keys.bls.into(),
        bls_proof: Bytes::new(),
        network_key: keys.network,
        fee_address: fee,
        votes,
        stake: None,
    }
}
