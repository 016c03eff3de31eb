//! Faults of peers, and bans.
//!
//! Every fault costs points. Points expire with time, so an accident is forgiven; at the limit the peer is
//! banned for a while. Messages that are "not valid yet" are no fault and never get here. The table is
//! bounded, because an attacker can create keys for free.

use crate::PeerKey;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Behaviour that no correct peer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Content that can never be valid: a bad signature, a malformed message. Reported by the code that
    /// interprets the content.
    NeverValid,
    /// Useless but well-formed: repeated or unrequested too often. Costs few points.
    Nuisance,
    /// Message above the channel's limit. The rest of the stream cannot be read, so the peer is disconnected.
    Oversized,
    /// Bytes that are not our protocol. The peer is disconnected.
    Garbage,
    /// State of the chain that is proved wrong: a manifest, a chunk, or an epoch change. Nobody sends it by accident, so the peer
    /// is banned at once.
    Forged,
}

impl Fault {
    /// Points of a fault, out of [`POINTS_LIMIT`].
    fn points(self) -> u32 {
        match self {
            Self::NeverValid => 20,
            Self::Nuisance => 2,
            Self::Oversized | Self::Garbage => 34,
            Self::Forged => POINTS_LIMIT,
        }
    }

    pub(crate) fn disconnects(self) -> bool {
        matches!(self, Self::Oversized | Self::Garbage | Self::Forged)
    }
}

/// Number of points at which a peer is banned.
const POINTS_LIMIT: u32 = 100;

/// Time in which one point expires: the whole score in ten minutes.
const POINT_LIFETIME: Duration = Duration::from_secs(6);

/// Maximum number of peers in the table.
const RECORDS_LIMIT: usize = 4096;

/// Consequence of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Noted,
    /// This fault reached the limit.
    Banned,
    /// It was banned already.
    AlreadyBanned,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    /// As of `updated`.
    points: u32,
    updated: Instant,
    banned_until: Option<Instant>,
    /// True if the log has mentioned this peer.
    mentioned: bool,
}

impl Record {
    fn drain(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.updated);
        let forgiven = (elapsed.as_millis() / POINT_LIFETIME.as_millis()).min(u128::from(u32::MAX)) as u32;
        if forgiven >= self.points {
            self.points = 0;
            self.updated = now;
        } else {
            self.points -= forgiven;
            // Keeps the remainder: otherwise frequent small faults would never expire.
            self.updated += POINT_LIFETIME * forgiven;
        }
        if self.banned_until.is_some_and(|end| end <= now) {
            self.banned_until = None;
        }
    }

    /// Order in which records are dropped when the table is full: smallest first.
    fn weight(&self) -> (Option<Instant>, u32, bool) {
        (self.banned_until, self.points, self.mentioned)
    }
}

/// Scores of all peers.
#[derive(Debug, Default)]
pub(crate) struct Scores {
    records: BTreeMap<PeerKey, Record>,
}

impl Scores {
    /// Counts `fault` against `peer`; a ban would last for `ban`.
    pub fn penalise(&mut self, now: Instant, peer: PeerKey, fault: Fault, ban: Duration) -> Verdict {
        let record = self.record(now, peer);
        if record.banned_until.is_some() {
            return Verdict::AlreadyBanned;
        }
        record.points = record.points.saturating_add(fault.points());
        if record.points < POINTS_LIMIT {
            return Verdict::Noted;
        }
        // The score restarts at zero after the ban.
        record.points = 0;
        record.banned_until = Some(now + ban);
        Verdict::Banned
    }

    /// End of this peer's ban, if it has one.
    pub fn banned_until(&self, now: Instant, peer: &PeerKey) -> Option<Instant> {
        self.records.get(peer)?.banned_until.filter(|end| *end > now)
    }

    /// Returns true once per peer (while its record is kept): then the log should mention it.
    pub fn is_first_report(&mut self, now: Instant, peer: PeerKey) -> bool {
        !std::mem::replace(&mut self.record(now, peer).mentioned, true)
    }

    fn record(&mut self, now: Instant, peer: PeerKey) -> &mut Record {
        if !self.records.contains_key(&peer) && self.records.len() >= RECORDS_LIMIT {
            self.make_room(now);
        }
        let record =
            self.records.entry(peer).or_insert(Record { points: 0, updated: now, banned_until: None, mentioned: false });
        record.drain(now);
        record
    }

    fn make_room(&mut self, now: Instant) {
        for record in self.records.values_mut() {
            record.drain(now);
        }
        let lightest = self.records.iter().min_by_key(|(_, record)| record.weight()).map(|(peer, _)| *peer);
        if let Some(peer) = lightest {
            self.records.remove(&peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::B256;

    const BAN: Duration = Duration::from_secs(60);

    fn peer(number: u64) -> PeerKey {
        PeerKey(B256::left_padding_from(&number.to_be_bytes()))
    }

    #[test]
    fn forged_state_bans_at_once() {
        let (mut scores, now) = (Scores::default(), Instant::now());
        assert_eq!(scores.penalise(now, peer(1), Fault::Forged, BAN), Verdict::Banned);
        assert_eq!(scores.banned_until(now, &peer(1)), Some(now + BAN));
    }

    #[test]
    fn fifth_invalid_message_bans() {
        let (mut scores, start) = (Scores::default(), Instant::now());
        for _ in 0..4 {
            assert_eq!(scores.penalise(start, peer(1), Fault::NeverValid, BAN), Verdict::Noted);
        }
        assert_eq!(scores.banned_until(start, &peer(1)), None);
        assert_eq!(scores.penalise(start, peer(1), Fault::NeverValid, BAN), Verdict::Banned);
        assert_eq!(scores.penalise(start, peer(1), Fault::NeverValid, BAN), Verdict::AlreadyBanned);
        assert_eq!(scores.banned_until(start, &peer(1)), Some(start + BAN));
        assert_eq!(scores.banned_until(start, &peer(2)), None);

        let after = start + BAN;
        assert_eq!(scores.banned_until(after, &peer(1)), None);
        assert_eq!(scores.penalise(after, peer(1), Fault::NeverValid, BAN), Verdict::Noted, "a fresh start");
    }

    #[test]
    fn rare_faults_are_forgiven() {
        let (mut scores, mut now) = (Scores::default(), Instant::now());
        for _ in 0..1000 {
            assert_eq!(scores.penalise(now, peer(1), Fault::NeverValid, BAN), Verdict::Noted);
            now += POINT_LIFETIME * 20;
        }
    }

    #[test]
    fn drain_is_independent_of_steps() {
        let start = Instant::now();
        let mut record = Record { points: 50, updated: start, banned_until: None, mentioned: false };
        for step in 1..=100u32 {
            record.drain(start + POINT_LIFETIME * step / 10);
        }
        assert_eq!(record.points, 40);
    }

    #[test]
    fn score_table_is_bounded() {
        let (mut scores, now) = (Scores::default(), Instant::now());
        while scores.penalise(now, peer(0), Fault::Garbage, BAN) != Verdict::Banned {}
        for number in 1..2 * RECORDS_LIMIT as u64 {
            let _ = scores.penalise(now, peer(number), Fault::Nuisance, BAN);
        }
        assert_eq!(scores.records.len(), RECORDS_LIMIT);
        assert!(scores.banned_until(now, &peer(0)).is_some());
    }

    #[test]
    fn peer_is_reported_once() {
        let (mut scores, now) = (Scores::default(), Instant::now());
        assert!(scores.is_first_report(now, peer(1)));
        assert!(!scores.is_first_report(now, peer(1)));
        assert!(scores.is_first_report(now, peer(2)));
    }
}
