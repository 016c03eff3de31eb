//! Counters of the network traffic, for metrics.

use crate::Channel;
use std::sync::atomic::{AtomicU64, Ordering};

/// Declares the counters twice, as atomics and as numbers, so that the two cannot differ.
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
    /// Counters of one channel, for all peers together, since the start.
    ChannelCounters => ChannelStats {
        frames_sent,
        bytes_sent,
        frames_received,
        bytes_received,
        /// Messages for a connected peer whose queue was full.
        frames_dropped,
    }
}

counters! {
    /// All other counters, since the start.
    GeneralCounters => GeneralStats {
        links_opened,
        links_closed,
        /// Connections refused because of a limit or a ban.
        connections_refused,
        /// Connections closed to give their slot to a new one.
        connections_evicted,
        /// Second connections with a peer, closed again.
        connections_duplicate,
        /// Peers with another chain, genesis or protocol version.
        handshakes_refused,
        dials,
        dials_failed,
        requests_sent,
        /// Our requests that failed.
        requests_failed,
        requests_served,
        /// Requests of peers that were not answered: too many at once, dropped by the consumer, or too slow.
        requests_refused,
        request_bytes_sent,
        request_bytes_received,
        faults,
        bans,
        /// Number of times that reading from a peer waited for its rate limit.
        throttled,
    }
}

/// Values of all counters at one moment.
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

/// Monotonic counter. Relaxed ordering: no decision depends on it.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub fn increment(&self) {
        self.add(1);
    }

    pub fn add(&self, amount: usize) {
        self.0.fetch_add(amount as u64, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
