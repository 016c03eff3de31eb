//! Notices of validators to the staking contract (validators.md §2.7).
//!
//! A node keeps notices that the state lacks: its own, and those that peers sent. A validator that orders puts them into its
//! batches until the state has them. Other nodes send their own to two validators, and later to the next two (N5). Nothing
//! of this is stored: after a restart a node finds out from its key and the state what it owes (N6).

use super::{AHEAD_OF_CERTIFICATION, Pipeline};
use crate::io::{NodeKey, Output};
use crate::message::PeerMessage;
use corniche_admission::batch::{self, BATCH_OVERHEAD, ENTRY_OVERHEAD};
use corniche_crypto::CoinKey;
use corniche_engine::Batch;
use corniche_staking::{MAX_BATCH_NOTICES, Notice, NoticeAuthor, NoticeKind, StateSlots, ValidatorId, VerifiedNotice};
use corniche_state::StateView;
use corniche_types::{B256, Bytes, Epoch, Genesis, Height, TimestampMs};
use std::collections::BTreeMap;

/// Part of a batch's bytes that notices may take.
const PART_OF_BATCH: usize = 4;
/// Number of validators to which a node that does not order sends a notice at once.
const RECIPIENTS: usize = 2;
/// A notice that the state lacks is proposed or sent this many times in the part of an epoch in which it is useful.
const REPEATS: u64 = 8;
/// Limits of the time between two of them.
const MIN_REPEAT_MS: u64 = 50;
const MAX_REPEAT_MS: u64 = 10_000;

/// Notices that the state lacks.
pub(super) struct Notices {
    /// Makes own notices; `None`: a node without a validator's keys.
    own: Option<NoticeAuthor>,
    /// At most one of each kind for each registered validator, and only members of two committees have large ones.
    kept: BTreeMap<(ValidatorId, NoticeKind), Kept>,
    /// Epoch and height at which the node last looked for own notices, and whether announcements had begun.
    looked_at: Option<(Epoch, Height, bool)>,
    repeat_ms: u64,
    /// Number of messages with own notices so far.
    sent: usize,
}

struct Kept {
    notice: VerifiedNotice,
    is_own: bool,
    /// Time at which it is proposed or sent again.
    due: TimestampMs,
}

impl Notices {
    pub fn new(own: Option<NoticeAuthor>, genesis: &Genesis) -> Self {
        let closing_ms = genesis.staking.as_ref().map_or(0, |parameters| parameters.closing_ms);
        let repeat_ms = (closing_ms / REPEATS).clamp(MIN_REPEAT_MS, MAX_REPEAT_MS);
        Self { own, kept: BTreeMap::new(), looked_at: None, repeat_ms, sent: 0 }
    }

    /// Makes own notices at the next occasion, although the state is the one of the last time.
    pub fn look_again(&mut self) {
        self.looked_at = None;
    }

    /// Makes own notices with these keys from now on.
    pub fn replace_author(&mut self, own: Option<NoticeAuthor>) {
        self.own = own;
        self.look_again();
    }

    /// Key with which the validator with a consensus key reads its share of a dealt coin.
    pub fn coin_key(&self, consensus: &B256) -> Option<&CoinKey> {
        self.own.as_ref()?.coin_key(consensus)
    }

    fn keep(&mut self, now: TimestampMs, notice: VerifiedNotice, is_own: bool) {
        let place = (notice.statement().author, notice.kind());
        match self.kept.get_mut(&place).filter(|kept| kept.notice == notice) {
            // A peer may have sent it back.
            Some(kept) => kept.is_own |= is_own,
            // After a rotation of keys the author signs another one.
            None => _ = self.kept.insert(place, Kept { notice, is_own, due: now }),
        }
    }

    /// Takes due notices for a batch of at most `bytes`. They are due again later.
    fn take_due(&mut self, now: TimestampMs, bytes: u32) -> Vec<Bytes> {
        let again = self.next_time(now);
        let bytes = (bytes as usize).saturating_sub(BATCH_OVERHEAD);
        let mut left = bytes / PART_OF_BATCH;
        let mut entries = Vec::new();
        let mut due: Vec<_> = self.kept.values_mut().filter(|kept| kept.due <= now).collect();
        due.sort_by_key(|kept| !kept.is_own);
        for kept in due.into_iter().take(MAX_BATCH_NOTICES) {
            let entry = kept.notice.encode();
            let size = entry.len() + ENTRY_OVERHEAD;
            // The first one may take more than the part: a dealing has half of the bytes of the smallest batch.
            if size > if entries.is_empty() { bytes } else { left } {
                continue;
            }
            (left, kept.due) = (left.saturating_sub(size), again);
            entries.push(entry);
        }
        entries
    }

    /// Proposes an own notice soon again: it is not in the block for which it was proposed.
    fn hurry(&mut self, now: TimestampMs, kind: NoticeKind) {
        let soon = TimestampMs(now.0.saturating_add(MIN_REPEAT_MS));
        let own = self.kept.iter_mut().filter(|((_, other), kept)| kept.is_own && *other == kind);
        own.for_each(|(_, kept)| kept.due = kept.due.min(soon));
    }

    /// Takes own notices that are due.
    fn take_own_due(&mut self, now: TimestampMs) -> Vec<Bytes> {
        let again = self.next_time(now);
        let due = self.kept.values_mut().filter(|kept| kept.is_own && kept.due <= now);
        due.map(|kept| {
            kept.due = again;
            kept.notice.encode()
        })
        .collect()
    }

    fn next_time(&self, now: TimestampMs) -> TimestampMs {
        TimestampMs(now.0.saturating_add(self.repeat_ms))
    }

    fn has_own(&self, kind: NoticeKind) -> bool {
        self.kept.iter().any(|((_, other), kept)| kept.is_own && *other == kind)
    }

    fn next_due(&self, includes: impl Fn(&Kept) -> bool) -> Option<TimestampMs> {
        self.kept.values().filter(|kept| includes(kept)).map(|kept| kept.due).min()
    }
}

impl Pipeline {
    /// Next batch for the engine: notices that are due, then transactions.
    pub(super) fn next_batch(&mut self, now: TimestampMs, bytes: u32, gas: u64) -> Option<Batch> {
        let notices = self.notices.take_due(now, bytes);
        let taken: usize = notices.iter().map(|notice| notice.len() + ENTRY_OVERHEAD).sum();
        let left = bytes.saturating_sub(u32::try_from(taken).unwrap_or(u32::MAX));
        let transactions = self.next_transactions(now, left, gas);
        if notices.is_empty() {
            return transactions;
        }
        let transactions = transactions.map(|batch| batch::decode(&batch.bytes)).unwrap_or_default();
        let bytes =
            batch::encode(&[notices, transactions].concat()).expect("invariant: notices and transactions are long enough");
        Some(Batch { bytes })
    }

    /// Verifies a peer's notice. `None` if it would have no effect on the newest state.
    pub fn verify_notice(&self, bytes: &[u8]) -> Option<VerifiedNotice> {
        verify_notice(&self.genesis, &self.view(), bytes)
    }

    /// Keeps a peer's notice.
    pub(super) fn keep_notice(&mut self, now: TimestampMs, notice: VerifiedNotice) {
        let Some(parameters) = self.genesis.epochs() else { return };
        if notice.is_missing(&mut StateSlots(&self.view()), parameters) == Ok(true) {
            self.notices.keep(now, notice, false);
        }
    }

    /// Number of notices of each kind that the newest state lacks, in the order of [`NoticeKind::ALL`].
    pub fn pending_notices(&self) -> [usize; NoticeKind::ALL.len()] {
        let mut counts = [0; NoticeKind::ALL.len()];
        self.notices.kept.keys().for_each(|(_, kind)| counts[*kind as usize] += 1);
        counts
    }

    /// Forgets the notices that the newest state has.
    pub(super) fn forget_notices(&mut self) {
        if self.notices.kept.is_empty() {
            return;
        }
        let (view, genesis) = (self.view(), self.genesis.clone());
        let Some(parameters) = genesis.epochs() else { return };
        self.notices.kept.retain(|_, kept| kept.notice.is_missing(&mut StateSlots(&view), parameters) == Ok(true));
    }

    /// Makes own notices that are due, and sends them if this node does not order.
    pub(super) fn make_notices(&mut self, now: TimestampMs) {
        self.make_owed_notices(now);
        if !self.mode.is_ordering() {
            let entries = self.notices.take_own_due(now);
            let to = if entries.is_empty() { Vec::new() } else { self.notice_recipients() };
            for entry in entries {
                self.out.push_back(Output::Send { to: to.clone(), message: PeerMessage::Notice(entry) });
            }
        }
    }

    /// Time of the next call of [`Self::make_notices`] with an effect.
    pub(super) fn notice_deadline(&self) -> Option<TimestampMs> {
        let is_unseen = self.notices.looked_at.is_none_or(|(epoch, _, has_begun)| !has_begun || epoch != self.epoch.epoch);
        let announcement = self.epoch.announcements(&self.genesis).filter(|_| is_unseen && self.notices.own.is_some());
        let due = match self.mode.ordering() {
            Some(ordering) if ordering.wanted_batch.is_some() => self.notices.next_due(|_| true),
            // The engine asks for the next batch by itself.
            Some(_) => None,
            None => self.notices.next_due(|kept| kept.is_own),
        };
        [announcement, due].into_iter().flatten().min()
    }

    /// Makes the notices that this validator owes, if it is not far behind (S12).
    fn make_owed_notices(&mut self, now: TimestampMs) {
        let (Some(parameters), Some(own)) = (&self.genesis.staking, &self.notices.own) else { return };
        let is_early = self.epoch.announcements(&self.genesis).is_none_or(|from| now < from);
        let looked_at = (self.epoch.epoch, self.appended, !is_early);
        if is_early && self.evidence.is_empty() || self.notices.looked_at == Some(looked_at) {
            return;
        }
        let is_near = self.follower.target().0.saturating_sub(self.appended.0) <= AHEAD_OF_CERTIFICATION;
        let view = self.view();
        let mut slots = StateSlots(&view);
        // An interrupted view owes nothing.
        let owed = if is_near { own.owed(&mut slots, parameters, now).unwrap_or_default() } else { Vec::new() };
        let new = owed.into_iter().filter(|kind| !self.notices.has_own(*kind));
        let mut made: Vec<_> = new.filter_map(|kind| own.make(&mut slots, kind).ok().flatten()).collect();
        if is_near && !self.notices.has_own(NoticeKind::Evidence) {
            let mut pending = self.evidence.values();
            made.extend(pending.find_map(|evidence| own.report(&mut slots, parameters, evidence).ok().flatten()));
        }
        let hurried: Vec<_> = [NoticeKind::Deal, NoticeKind::Open]
            .into_iter()
            .filter(|kind| self.notices.has_own(*kind) && own.has_turn(&mut slots, *kind, self.appended) == Ok(true))
            .collect();
        self.notices.looked_at = Some(looked_at);
        made.into_iter().for_each(|notice| self.notices.keep(now, notice, true));
        hurried.into_iter().for_each(|kind| self.notices.hurry(now, kind));
    }

    /// The next two connected validators.
    fn notice_recipients(&mut self) -> Vec<NodeKey> {
        let validators: Vec<NodeKey> =
            self.peers.iter().filter(|(_, peer)| peer.validator.is_some()).map(|(key, _)| *key).collect();
        let first = self.notices.sent;
        self.notices.sent = first.wrapping_add(RECIPIENTS);
        validators
            .iter()
            .cycle()
            .skip(first % validators.len().max(1))
            .take(RECIPIENTS.min(validators.len()))
            .copied()
            .collect()
    }
}

/// Verifies a peer's notice with a state. `None` if it would have no effect on this state.
pub fn verify_notice(genesis: &Genesis, view: &dyn StateView, bytes: &[u8]) -> Option<VerifiedNotice> {
    Notice::decode(bytes)?.verify(&mut StateSlots(view), genesis.epochs()?, genesis.chain_id).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_crypto::{BlsSecretKey, ConsensusKey};
    use corniche_staking::{AuthorKeys, GenesisValidator, SigningKeys, genesis_slots};
    use corniche_types::{Address, StakingParameters, Votes};

    /// A notice above the notices' part of a batch is the only one in it. One that is larger than the batch waits.
    #[test]
    fn large_notice_is_alone() {
        let key = |number: u8| ConsensusKey::from_seed([number; 32]);
        let validators = [1, 2].map(|number| {
            let (bls, coin) = (BlsSecretKey::from_seed([number; 32]), CoinKey::from_seed([number; 32]).public());
            let keys = SigningKeys { consensus: &key(number), bls: &bls, network: &key(number + 10), coin }.public();
            GenesisValidator { owner: Address::ZERO, fee: Address::ZERO, keys, votes: Votes(1) }
        });
        let hash = |_: &_| B256::repeat_byte(1);
        let (mut slots, _) = genesis_slots(&StakingParameters::default(), TimestampMs(0), &validators, hash);
        let mut notices = Notices { own: None, kept: BTreeMap::new(), looked_at: None, repeat_ms: 1_000, sent: 0 };
        let mut size = 0;
        for number in [1, 2] {
            let author = NoticeAuthor { keys: vec![AuthorKeys::new(key(number), None)], chain_id: 7, version: 1 };
            let notice = author.make(&mut slots, NoticeKind::Announce).unwrap().unwrap();
            size = (notice.encode().len() + ENTRY_OVERHEAD) as u32;
            notices.keep(TimestampMs(0), notice, false);
        }
        let overhead = BATCH_OVERHEAD as u32;
        let taken =
            [size - 1, 2 * size, 2 * size, 2 * size].map(|bytes| notices.take_due(TimestampMs(0), bytes + overhead).len());
        assert_eq!(taken, [0, 1, 1, 0]);
    }
}
