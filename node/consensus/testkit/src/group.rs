//! The multicast group of engines that order by a sequencer.

use crate::Micros;
use corniche_engine::SequencerKey;
use corniche_types::Bytes;

/// The sequencer of a group, and the configuration service that installs it. One per run, shared by all processes.
///
/// A sequencer is in the path of the network: a request is stamped when its first copy arrives at a receiver. So it costs no
/// delay, and a slow sender delays nobody's number but its own.
pub trait Group {
    /// Stamps a request. Returns the datagrams for each receiver, by identity; none for a receiver that gets nothing.
    fn stamp(&mut self, now: Micros, request: &Bytes) -> Vec<Vec<Bytes>>;

    /// Time from the stamp until the datagrams arrive: zero in the path, one delay for a sequencer on a host.
    fn extra_delay(&self) -> Micros {
        Micros::ZERO
    }

    /// A validator asks for the sequencer of an epoch. Returns its key, and the time at which it gets that.
    fn ask(&mut self, now: Micros, receiver: usize, epoch: u32, certificate: &Bytes) -> Option<(Micros, SequencerKey)>;

    /// Keys that a starting validator gets.
    fn keys(&mut self, now: Micros, receiver: usize) -> Vec<SequencerKey>;
}
