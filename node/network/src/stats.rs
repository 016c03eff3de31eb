//! Counters of what went through, for metrics.

use crate::Channel;
use std::sync::atomic::{AtomicU64, Ordering};

/// Declares the counters twice, as atomics and as the numbers handed out, so that they cannot drift apart.
macro_rules! counters {
    ($(#[$doc:meta])* $counters:ident => $numbers:ident { $($(#[$field_doc:meta])* $field:ident),* $(,)? }) => {
        #[derive(Debug, Default)]
        pub(crate) struct $counters { $(pub $field: Counter),* }

        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $numbers { $($(#[$field_doc])* pub $field: u64),* }

        impl $counters {
            pub fn read(&self) -> $numbers {
                $numbers { $($field: self.$field.get()),* }
            }
        }
    };
}

counters! {
    /// One channel, all peers together, since start.
    ChannelCounters => ChannelStats {
        frames_sent,
        bytes_sent,
        frames_received,
        bytes_received,
        /// Messages for a connected peer that found its queue full.
        frames_dropped,
    }
}

counters! {
    /// Everything besides the channels, since start.
    GeneralCounters => GeneralStats {
        links_opened,
        links_closed,
        /// Connections refused by a limit or a ban.
        connections_refused,
        /// Connections closed because a newcomer needed their slot.
        connections_evicted,
        /// Second connections with one peer, closed again.
        connections_duplicate,
        /// Peers of another chain, genesis or protocol version.
        handshakes_refused,
        dials,
        dials_failed,
        requests_sent,
        /// Requests of ours that ended in an error.
        requests_failed,
        requests_served,
        /// Requests of peers that were not answered: too many at once, dropped by the consumer, too slow.
        requests_refused,
        request_bytes_sent,
        request_bytes_received,
        faults,
        bans,
        /// Times that reading from a peer waited for its rate limit.
        throttled,
    }
}

/// All counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub votes: ChannelStats,
    pub bulk: ChannelStats,
    pub general: GeneralStats,
}

impl Stats {
    pub fn channel(&self, channel: Channel) -> &ChannelStats {
        match channel {
            Channel::Votes => &self.votes,
            Channel::Bulk => &self.bulk,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub channels: [ChannelCounters; 2],
    pub general: GeneralCounters,
}

impl Counters {
    pub fn channel(&self, channel: Channel) -> &ChannelCounters {
        &self.channels[channel.index()]
    }

    pub fn read(&self) -> Stats {
        Stats {
            votes: self.channel(Channel::Votes).read(),
            bulk: self.channel(Channel::Bulk).read(),
            general: self.general.read(),
        }
    }
}

/// A number that only grows. Relaxed: nothing is decided by it.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub fn one(&self) {
        self.add(1);
    }

    pub fn add(&self, amount: usize) {
        self.0.fetch_add(amount as u64, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
