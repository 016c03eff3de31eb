//! Sends datagrams through a simulated sequencer and collects what leaves it.

use crate::model::{Inputs, Model, Outputs, wide};
use std::{collections::VecDeque, ffi::c_int};

/// Fields of configuration writes, as in `aom_defs.vh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Field {
    Group = 0,
    Epoch = 1,
    Receivers = 2,
    Seq = 3,
    Active = 4,
    Key = 5,
    PrevHash = 6,
    PrevSeq = 7,
    SignEvery = 8,
    Threshold = 9,
}

/// Names of `DROP_...` in `aom_defs.vh`, by code; those of the vectors where they have the case.
const REASONS: [&str; 11] =
    ["", "short", "long", "magic", "version", "kind", "reserved", "group", "inactive", "exhausted", "overflow"];

/// Decides in each clock whether the bench offers a word and whether it takes one.
pub trait Pacing {
    fn offer(&mut self) -> bool;
    fn take(&mut self) -> bool;
}

/// Offers and takes in every clock.
pub struct FullSpeed;

impl Pacing for FullSpeed {
    fn offer(&mut self) -> bool {
        true
    }

    fn take(&mut self) -> bool {
        true
    }
}

/// Takes nothing, so that queues fill.
pub struct Blocked;

impl Pacing for Blocked {
    fn offer(&mut self) -> bool {
        true
    }

    fn take(&mut self) -> bool {
        false
    }
}

/// Offers and takes with a chance of `offer` and `take` in 256, from SplitMix64.
pub struct Uneven {
    pub seed: u64,
    pub offer: u8,
    pub take: u8,
}

impl Uneven {
    fn byte(&mut self) -> u8 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z >> 56) as u8
    }
}

impl Pacing for Uneven {
    fn offer(&mut self) -> bool {
        self.byte() < self.offer
    }

    fn take(&mut self) -> bool {
        self.byte() < self.take
    }
}

/// A datagram on its way in.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub datagram: Vec<u8>,
    /// PK: sign this packet.
    pub flush: bool,
}

/// A simulated sequencer with queues before and behind it.
///
/// Checks the rule of its output stream in every clock: a word that was offered and not taken stays the same.
pub struct Bench {
    model: Model,
    inputs: Inputs,
    arrivals: VecDeque<Arrival>,
    /// Words of the first arrival that were taken.
    progress: usize,
    /// PK: presignatures (r, k^-1) that wait for space in the stock.
    presignatures: VecDeque<([u32; 8], [u32; 8])>,
    offered: Option<Outputs>,
    leaving: Vec<u8>,
    /// Datagrams that left, in order.
    pub sent: Vec<Vec<u8>>,
    /// Reasons of drops, in order.
    pub drops: Vec<&'static str>,
    /// Clocks since the first reset.
    pub clocks: u64,
    /// Presignatures in stock after the last clock.
    pub stock: u8,
}

impl Bench {
    /// A stamper with MACs, after reset.
    pub fn hm(seed: c_int) -> Self {
        Self::new(Model::hm(seed))
    }

    /// A chaining signer, after reset.
    pub fn pk(seed: c_int) -> Self {
        Self::new(Model::pk(seed))
    }

    fn new(model: Model) -> Self {
        let mut bench = Self {
            model,
            inputs: Inputs::default(),
            arrivals: VecDeque::new(),
            progress: 0,
            presignatures: VecDeque::new(),
            offered: None,
            leaving: Vec::new(),
            sent: Vec::new(),
            drops: Vec::new(),
            clocks: 0,
            stock: 0,
        };
        bench.reset();
        bench
    }

    /// Resets the circuit. Datagrams on their way through it are lost.
    pub fn reset(&mut self) {
        self.model.clock(&Inputs { rst: 1, ..Inputs::default() });
        self.arrivals.clear();
        self.presignatures.clear();
        self.progress = 0;
        self.offered = None;
        self.leaving.clear();
    }

    /// Writes a field of a group's slot, after all packets before it have left.
    pub fn configure(&mut self, slot: u8, field: Field, data: &[u8]) {
        self.write(slot, field, 0, data);
    }

    /// Writes the tag key of a receiver.
    pub fn tag_key(&mut self, slot: u8, receiver: u8, key: &[u8]) {
        self.write(slot, Field::Key, receiver, key);
    }

    fn write(&mut self, slot: u8, field: Field, receiver: u8, data: &[u8]) {
        self.inputs.cfg_slot = slot;
        self.inputs.cfg_field = field as u8;
        self.inputs.cfg_receiver = receiver;
        self.inputs.cfg_data = wide(data);
        self.inputs.cfg_valid = 1;
        for _ in 0..100_000 {
            if self.clock(&mut FullSpeed).cfg_ready != 0 {
                self.inputs.cfg_valid = 0;
                return;
            }
        }
        panic!("a configuration write waits for ever");
    }

    /// Queues a presignature, both values big-endian.
    pub fn presign(&mut self, r: &[u8], k_inverse: &[u8]) {
        self.presignatures.push_back((wide(r), wide(k_inverse)));
    }

    /// Queues a datagram.
    pub fn arrive(&mut self, datagram: &[u8], flush: bool) {
        self.arrivals.push_back(Arrival { datagram: datagram.to_vec(), flush });
    }

    /// Runs until everything that arrived has left or was dropped. Returns the clocks that took.
    ///
    /// # Panics
    /// If the circuit is still busy after `limit` clocks.
    pub fn run(&mut self, pacing: &mut dyn Pacing, limit: u64) -> u64 {
        let before = self.clocks;
        loop {
            let idle = self.arrivals.is_empty() && self.presignatures.is_empty();
            let outputs = self.clock(pacing);
            // Ready for configuration: no packet is inside.
            if idle && outputs.cfg_ready != 0 && outputs.drop_valid == 0 {
                return self.clocks - before;
            }
            assert!(self.clocks - before < limit, "the circuit is busy after {limit} clocks");
        }
    }

    /// One clock.
    pub fn clock(&mut self, pacing: &mut dyn Pacing) -> Outputs {
        self.offer_word(pacing);
        self.offer_presignature();
        self.inputs.out_ready = pacing.take().into();
        let outputs = self.model.clock(&self.inputs);
        self.clocks += 1;
        self.stock = outputs.stock;
        if self.inputs.in_valid != 0 && outputs.in_ready != 0 {
            self.progress += 1;
            if self.inputs.in_last != 0 {
                self.arrivals.pop_front();
                self.progress = 0;
            }
            self.inputs.in_valid = 0;
        }
        if self.inputs.push_valid != 0 && outputs.push_ready != 0 {
            self.presignatures.pop_front();
        }
        if outputs.drop_valid != 0 {
            self.drops.push(REASONS[usize::from(outputs.drop_reason)]);
        }
        self.take_word(&outputs);
        outputs
    }

    fn offer_word(&mut self, pacing: &mut dyn Pacing) {
        let Some(arrival) = self.arrivals.front() else { return };
        // A word that was offered stays offered.
        if self.inputs.in_valid == 0 && pacing.offer() {
            let words = arrival.datagram.len().div_ceil(8).max(1);
            let start = 8 * self.progress;
            let bytes = &arrival.datagram[start..arrival.datagram.len().min(start + 8)];
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.inputs.in_valid = 1;
            self.inputs.in_data = u64::from_be_bytes(word);
            self.inputs.in_last = (self.progress + 1 == words).into();
            self.inputs.in_bytes = bytes.len() as u8;
            self.inputs.in_flush = arrival.flush.into();
        }
    }

    fn offer_presignature(&mut self) {
        self.inputs.push_valid = (!self.presignatures.is_empty()).into();
        if let Some(&(r, k_inverse)) = self.presignatures.front() {
            self.inputs.push_r = r;
            self.inputs.push_k_inverse = k_inverse;
        }
    }

    fn take_word(&mut self, outputs: &Outputs) {
        let word = |outputs: &Outputs| (outputs.out_valid, outputs.out_data, outputs.out_last, outputs.out_bytes);
        if let Some(offered) = self.offered.take() {
            assert_eq!(word(outputs), word(&offered), "an offered word changed before it was taken");
        }
        if outputs.out_valid == 0 {
            return;
        }
        if self.inputs.out_ready == 0 {
            self.offered = Some(*outputs);
            return;
        }
        assert!(outputs.out_bytes == 8 || outputs.out_last != 0, "a word inside a datagram is not full");
        self.leaving.extend_from_slice(&outputs.out_data.to_be_bytes()[..usize::from(outputs.out_bytes)]);
        if outputs.out_last != 0 {
            self.sent.push(std::mem::take(&mut self.leaving));
        }
    }
}
