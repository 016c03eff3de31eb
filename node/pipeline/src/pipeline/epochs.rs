//! Handover from an epoch to the next one (validators.md §3.3).
//!
//! The last block of an epoch is E. Once E is cut, this validator's engine runs on in closing mode (E8): its commits are
//! dropped, and its proposals are empty. It does so until E's certificate is durable here. If one honest validator delivers E,
//! then all reach it: its engine helps them until then, and afterwards they can follow to E, because the certificate exists.
//!
//! Then the next epoch begins (E9): the pool gets back what the old engine held, messages of the new committee are verified, and
//! a validator builds an engine that starts from E. No block of an epoch is executed before the certificate of E of the epoch
//! before.
//!
//! Peers tell each other their epochs ([`PeerMessage::Epoch`]). An engine is connected to validators of its own epoch only. To
//! the engine, a peer that enters the epoch later looks like one whose connection was made then. So no message of an engine has
//! to be kept for later, which is simpler than E10.
//!
//! A node that others have left behind in an older epoch follows them (0008), without a target height: it cannot verify
//! certificates of later epochs yet. A node that is no member believes any peer. A member believes only more votes than may be
//! faulty, while it is connected to a quorum of its epoch: otherwise one faulty validator could stop its engine.

use super::{Following, Mode, Ordering, Peer, Pipeline};
use crate::epoch::{CoinStatus, EpochStart, seats, seats_version};
use crate::io::{CommitteeCoin, EngineStart, NodeKey, Output};
use crate::message::PeerMessage;
use crate::safety::StoredRecord;
use corniche_certify::{CertificateVerifier, Certifier};
use corniche_engine::{Input as EngineInput, Resume, TraceEvent};
use corniche_staking::{StateSlots, coin::EpochCoin};
use corniche_types::{B256, Epoch, Height, TimestampMs, ValidatorIndex};

/// Time after the end of an epoch at which a member without a quorum believes that others have ended it.
const OVERDUE_MS: u64 = 10_000;

impl Pipeline {
    /// True if the newest appended block is the last one of the epoch.
    pub(super) fn is_at_end(&self) -> bool {
        self.next_epoch().is_some()
    }

    /// The next epoch, from the newest appended block.
    pub(super) fn next_epoch(&self) -> Option<EpochStart> {
        let next = self.appended_ordering.as_ref().and_then(EpochStart::after);
        next.filter(|next| next.epoch > self.epoch.epoch)
    }

    /// Begins the next epoch once the certificate of the last block is durable.
    pub(super) fn certificate_appended(&mut self, now: TimestampMs, height: Height) {
        if height == self.appended
            && let Some(next) = self.next_epoch()
        {
            if next.rules(&self.genesis, height.next(), self.known).is_some() {
                self.enter(now, next);
            } else {
                self.leave_at_end(now, next);
            }
        }
    }

    fn enter(&mut self, now: TimestampMs, next: EpochStart) {
        self.record_entry(now, next.epoch);
        self.epoch = next;
        self.start_committee(now);
        self.resume = Resume::start_of(next.epoch);
        self.progress = self.resume.index;
        self.uncertified_commits.clear();
        self.early_certificate = None;
        self.last_certificate_before = self.newest_certificate.clone();
        self.out.push_back(Output::EpochStarted { committee: self.committee.clone(), is_member: self.own.is_some() });
        if self.mode.is_ordering() {
            // The old engine's transactions are ordered, or never will be.
            self.pool.requeue_all();
            self.start_ordering(now, Vec::new());
        }
        let everybody: Vec<NodeKey> = self.peers.keys().copied().collect();
        self.tell_epoch(&everybody, false);
        self.out.push_back(Output::Trace(TraceEvent::note("epoch", format!("{} after height {}", next.epoch, self.appended))));
    }

    /// Continues with the committee of the running epoch: keys, own index, and those of the peers.
    fn start_committee(&mut self, now: TimestampMs) {
        self.committee = self.epoch.committee(&self.genesis, &self.view());
        self.coin = CoinStatus::of(self.epoch.epoch, &self.view());
        let keys = (self.certificate_keys)(&self.committee);
        self.own = keys.own.as_ref().map(|key| key.index());
        self.certificates = CertificateVerifier::new(self.committee.clone(), &keys);
        self.certifier = Certifier::new(self.committee.clone(), keys).above(self.appended);
        self.certifier.keep_silent(self.silence.through());
        for (key, peer) in &mut self.peers {
            peer.validator = self.committee.index_of(&B256::from(*key));
            self.follower.peer_up(*key, peer.validator.is_some());
        }
        self.pool.forget_recipients();
        let connected = self.peers.iter().filter_map(|(key, peer)| Some((peer.validator?, *key)));
        self.forwarding.start_epoch(self.own, &self.committee, connected, now);
    }

    /// Reports the validators that the newest state gives connections to, if they have changed.
    pub(super) fn report_seats(&mut self) {
        if self.epoch.end(&self.genesis).is_none() {
            return;
        }
        let view = self.view();
        let version = seats_version(&view);
        if version != self.seats_of {
            self.seats_of = version;
            self.out.push_back(Output::SeatsChanged(seats(&view)));
        }
    }

    /// Records the entry into an epoch before anything is signed in it, and releases what earlier epochs needed.
    fn record_entry(&mut self, now: TimestampMs, next: Epoch) {
        // A node with keys may become a member later (E15).
        if self.engine_factory.is_none() {
            return;
        }
        let ended = self.mode.ordering().is_some_and(|ordering| ordering.builder.has_ended());
        let (entered, release) = self.history.enter(next, ended, now);
        self.out.extend(entered.map(|(ticket, record)| Output::Persist(ticket, record)));
        self.out.extend(release.map(Output::ReleaseBelow));
    }

    /// Tells peers our epoch, with the certificate that a peer in the epoch before needs to end it.
    pub(super) fn tell_epoch(&mut self, to: &[NodeKey], wants_answer: bool) {
        let certificate = self.last_certificate_before.clone().map(PeerMessage::Certificate);
        let epoch = PeerMessage::Epoch { epoch: self.epoch.epoch, wants_answer };
        let messages = certificate.into_iter().chain([epoch]);
        self.out.extend(messages.map(|message| Output::Send { to: to.to_vec(), message }));
    }

    /// Validators that are not in our epoch yet, or whose message about it was lost.
    pub(super) fn earlier_validators(&self) -> Vec<NodeKey> {
        let earlier = self.peers.iter().filter(|(_, peer)| peer.validator.is_some() && peer.epoch < self.epoch.epoch);
        earlier.map(|(key, _)| *key).collect()
    }

    /// Orders from now on, with the engine of the running epoch and its records, after the newest appended block. A node that is
    /// no member follows.
    pub(super) fn start_ordering(&mut self, now: TimestampMs, records: Vec<StoredRecord>) {
        let Some(build) = self.engine_factory.as_ref().filter(|_| self.own.is_some()) else {
            self.mode = Mode::Following(Following::default());
            return;
        };
        let (committee, epoch, resume) = (self.committee.clone(), self.epoch, self.resume.clone());
        let has_all_records = self.history.start_engine(&records, &resume, now);
        let coin = self.dealt_coin();
        self.coin.lacks_share = coin.as_ref().is_some_and(|coin| coin.share.is_none());
        let engine = build(EngineStart { committee, epoch, records, has_all_records, resume, coin, now });
        self.mode = Mode::Ordering(Ordering::new(engine, self.builder_after_head()));
        let of_epoch = self.peers.values().filter(|peer| peer.epoch == self.epoch.epoch);
        let connected: Vec<ValidatorIndex> = of_epoch.filter_map(|peer| peer.validator).collect();
        for validator in connected {
            self.engine_input(now, EngineInput::PeerUp(validator));
        }
    }

    /// Coin of the running epoch with this member's share; `None` for the coin of the genesis.
    fn dealt_coin(&self) -> Option<CommitteeCoin> {
        let loaded = EpochCoin::load(&mut StateSlots(&self.view()), self.genesis.chain_id, self.epoch.epoch);
        let coin = loaded.expect("invariant: the newest appended state is readable")?;
        let member = self.own.and_then(|own| Some((own, self.committee.member(own)?)));
        let share = member.and_then(|(own, member)| coin.share(own, self.notices.coin_key(&member.consensus_key)?));
        Some(CommitteeCoin { keys: coin.keys().clone(), share })
    }

    /// A peer is in this epoch.
    pub(super) fn peer_epoch(&mut self, now: TimestampMs, peer: NodeKey, epoch: Epoch, wants_answer: bool) {
        let never_ends = self.epoch.end(&self.genesis).is_none();
        let Some(connected) = self.peers.get_mut(&peer).filter(|_| !never_ends) else { return };
        let (validator, is_news) = (connected.validator, connected.epoch < epoch);
        connected.epoch = connected.epoch.max(epoch);
        if let Some(validator) = validator.filter(|_| is_news && epoch == self.epoch.epoch) {
            self.send_own_shares(peer);
            self.engine_input(now, EngineInput::PeerUp(validator));
        }
        if wants_answer {
            self.tell_epoch(&[peer], false);
        }
    }

    /// Notes which peers have the block after our newest one, or the certificate that ends the epoch, because they are in a later
    /// epoch. What they claim holds only while this node believes it.
    pub(super) fn note_later_epochs(&mut self, now: TimestampMs) {
        let Some(end) = self.epoch.end(&self.genesis) else { return };
        let is_later = |peer: &Peer| peer.epoch > self.epoch.epoch;
        let believes = self.is_left_behind(now.0 >= end.0.saturating_add(OVERDUE_MS));
        let later = self.peers.iter().filter(|(_, peer)| believes && is_later(peer)).map(|(key, _)| *key);
        self.follower.set_claimants(later);
    }

    /// True if others have ended this epoch. A member believes more votes than may be faulty. If the epoch is overdue and no quorum is
    /// connected that could end it, it believes anybody, like a node that is no member: the other members may have left. Every
    /// block that it gets is verified all the same.
    pub(super) fn is_left_behind(&self, is_overdue: bool) -> bool {
        let later = || self.peers.values().filter(|peer| peer.epoch > self.epoch.epoch);
        let Some(own) = self.own else { return later().next().is_some() };
        let here = self.peers.values().filter(|peer| peer.epoch == self.epoch.epoch).filter_map(|peer| peer.validator);
        let can_end = || self.committee.weigh(here.chain([own])) >= self.committee.quorum();
        self.committee.weigh(later().filter_map(|peer| peer.validator)) >= self.committee.validity()
            || is_overdue && later().next().is_some() && !can_end()
    }
}
