//! Parameters of replicas and clients. All replicas of a chain must have equal ones.

use crate::attestation::MAX_REPLIES;

/// Times are in ms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// δ: a replica ignores reads, and votes Abort, for timestamps that are further ahead of its clock, ms (Y1, K1). It affects
    /// performance only.
    pub delta_ms: u64,
    /// b: replies under one signature (B1).
    pub reply_batch: usize,
    /// A batch that is not full is signed after this time, ms.
    pub reply_delay_ms: u64,
    /// A write below the timestamp of an ongoing read aborts (K5). Serializability does not need it, and one client that reads a key
    /// again and again could stop all writes of it. So it is off by default.
    pub protect_readers: bool,
    /// Ongoing reads are forgotten after this time, ms.
    pub reading_ms: u64,
    /// Keys that ongoing reads of one client protect on one replica; the oldest read is forgotten beyond.
    pub max_reading: usize,
    /// Undecided transactions that one peer brought to a replica; it takes no further ones from this peer.
    pub max_open: usize,
    /// Peers that get the vote and the decisions of a fallback, for each transaction.
    pub max_interested: usize,
    /// Elections that a leader keeps of each member; the oldest is forgotten beyond.
    pub max_elections: usize,
    /// A replica asks for an unknown transaction again after this time, ms.
    pub fetch_ms: u64,
    /// A replica asks the others about its oldest undecided transactions at this interval, ms: a certificate may have been lost.
    pub audit_ms: u64,
    /// First view timer of a fallback; it doubles with each view, ms (B.4).
    pub view_ms: u64,
    /// A replica closes a watermark at every multiple of this time, ms; 0 switches it off (A5).
    pub close_ms: u64,
    /// It does so this long after the watermark, ms. Transactions that take longer to reach it abort.
    pub close_after_ms: u64,
    /// A replica keeps old versions and decided transactions for this long below its complete prefix, ms. It neither serves reads below
    /// nor votes there, and cannot help another replica that was away for longer.
    pub keep_ms: u64,
    /// Patience of a client with 4f + 1 votes of a shard for the rest of them, ms (P1).
    pub fast_path_ms: u64,
    /// A client sends a message without enough replies again after this time, ms; it doubles.
    pub resend_ms: u64,
    /// A client whose transaction waits recovers the transactions below it after this time, ms (F1).
    pub recover_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            delta_ms: 2_000,
            reply_batch: 16,
            reply_delay_ms: 2,
            protect_readers: false,
            reading_ms: 5_000,
            max_reading: 10_000,
            max_open: 4_096,
            max_interested: 16,
            max_elections: 1_024,
            fetch_ms: 200,
            audit_ms: 1_000,
            view_ms: 200,
            close_ms: 1_000,
            close_after_ms: 3_000,
            keep_ms: 600_000,
            fast_path_ms: 10,
            resend_ms: 500,
            recover_ms: 100,
        }
    }
}

impl Config {
    /// Replies under one signature, within the format's bounds.
    pub(crate) fn batch(&self) -> usize {
        self.reply_batch.clamp(1, MAX_REPLIES)
    }

    /// Time in a view of a fallback. View 0 belongs to clients and has no timer.
    pub(crate) fn view_timer_ms(&self, view: u32) -> u64 {
        if view == 0 { 0 } else { self.view_ms.saturating_mul(1 << (view - 1).min(20)) }
    }
}
