//! The P4 sequencer of `p4/sequencer_tofino.p4` as Rust: the same passes, tables and registers, with the operations of a 32-bit
//! switch ASIC. For tests only.
//!
//! No vendor tool compiled the P4 text. This model shows that its structure computes suite 3: every pass does one round
//! of HalfSipHash-2-4 for four lanes, the state travels in a header, and the message word of a pass comes from a table that
//! is looked up by the pass number. Names are those of the P4 files.
//!
//! ```text
//! request -> ingress (number) -> copies, one for each subgroup -> egress (keys)
//!              ^                                                       |
//!              +---- loopback port, 38 times <---- egress (round) <----+
//!              +-> after the last round: tags, to all receivers
//! ```

use std::collections::BTreeMap;

/// Rounds, hence passes through an egress pipeline besides the first: two for each of 14 header words and the length
/// block, four final ones, and four more for the second half of a 64-bit tag.
pub const PASSES: u8 = 2 * BLOCKS + 4 + 4;

/// 32-bit blocks that HalfSipHash absorbs: W = 14 words of the header, and its length.
pub const BLOCKS: u8 = 14 + 1;

const HEADER: usize = 160;
const MAX_PAYLOAD: usize = 8800;

/// Entry of the table `groups`.
#[derive(Clone, Debug)]
pub struct Group {
    /// Index of the registers.
    pub index: u8,
    pub epoch: u32,
    pub receivers: u8,
}

/// The tables and registers of one switch.
#[derive(Default)]
pub struct Switch {
    pub groups: BTreeMap<u32, Group>,
    /// Words (k0, k1) of the tag keys, by group index and receiver.
    pub keys: BTreeMap<(u8, u8), (u32, u32)>,
    lows: BTreeMap<u8, u32>,
    highs: BTreeMap<u8, u32>,
    stops: BTreeMap<u8, bool>,
}

/// The state of four lanes on its way between passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    pub number: u8,
    index: u8,
    /// By lane: v0 to v3.
    lanes: [[u32; 4]; 4],
}

impl Pass {
    /// A state that no switch made, for tests.
    pub fn forged(number: u8) -> Self {
        Self { number, ..Self::default() }
    }
}

/// A datagram inside the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Present only on loopback ports.
    pub pass: Option<Pass>,
    /// The 56 bytes that tags cover, as big-endian words.
    words: [u32; 14],
    /// By lane: first and second half.
    tags: [[u32; 2]; 4],
    payload: Vec<u8>,
}

/// Where a packet arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    Outside,
    Loopback,
}

/// Decision of the ingress pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ingress {
    Drop,
    /// To the replicator: one copy for each subgroup.
    Copy(Packet),
    /// Back to the loopback port.
    Loop(Packet),
    /// To all receivers.
    Deliver(Packet),
}

impl Switch {
    /// Writes the registers so that the next number is `first`. For an epoch's begin: 1.
    pub fn set_first(&mut self, index: u8, first: u64) {
        let before = first.wrapping_sub(1);
        self.lows.insert(index, before as u32);
        self.highs.insert(index, (before >> 32) as u32);
        self.stops.insert(index, false);
    }

    /// Carries a datagram through all passes. Returns the datagrams that leave, in the order of their subgroups, and the
    /// passes that each took.
    pub fn handle(&mut self, datagram: &[u8]) -> Vec<(Vec<u8>, u8)> {
        let Some(packet) = parse(datagram) else { return Vec::new() };
        let Ingress::Copy(packet) = self.ingress(packet, Port::Outside) else { return Vec::new() };
        let copies = self.receivers(&packet).div_ceil(4);
        (0..copies).map(|subgroup| self.passes(self.egress_first(packet.clone(), subgroup))).collect()
    }

    fn passes(&self, mut packet: Packet) -> (Vec<u8>, u8) {
        let mut passes = 0;
        loop {
            match self.ingress_of_loopback(packet) {
                Ingress::Loop(next) => packet = egress_round(next),
                Ingress::Deliver(packet) => return (deparse(&packet), passes),
                Ingress::Drop | Ingress::Copy(_) => unreachable!("packets of loopback ports have a pass header"),
            }
            passes += 1;
        }
    }

    fn receivers(&self, packet: &Packet) -> u8 {
        (packet.words[3] >> 16) as u8
    }

    /// The ingress pipeline.
    pub fn ingress(&mut self, mut packet: Packet, port: Port) -> Ingress {
        match (&packet.pass, port) {
            (Some(_), Port::Loopback) => return self.ingress_of_loopback(packet),
            // Only the switch itself may send unfinished packets.
            (Some(_), Port::Outside) | (None, Port::Loopback) => return Ingress::Drop,
            (None, Port::Outside) => {}
        }
        let reserved = packet.words[3] & 0xFF;
        // Magic, version and kind of a request.
        if packet.words[0] != 0xA04D_0100 || reserved != 0 {
            return Ingress::Drop;
        }
        let Some(group) = self.groups.get(&packet.words[1]).cloned() else { return Ingress::Drop };
        let Some((high, low)) = self.next_number(group.index) else { return Ingress::Drop };
        packet.pass = Some(Pass { number: 0xFF, index: group.index, lanes: [[0; 4]; 4] });
        packet.words[0] = 0xA04D_0101;
        packet.words[2] = group.epoch;
        packet.words[3] = u32::from(group.receivers) << 16 | 3 << 8;
        packet.words[4] = high;
        packet.words[5] = low;
        packet.tags = [[0; 2]; 4];
        Ingress::Copy(packet)
    }

    /// Three registers, each touched once: a 64-bit counter does not fit a stateful unit of 32 bits.
    fn next_number(&mut self, index: u8) -> Option<(u32, u32)> {
        let low = self.lows.entry(index).or_default();
        *low = low.wrapping_add(1);
        let high = self.highs.entry(index).or_default();
        if *low == 0 {
            *high = high.wrapping_add(1);
        }
        let stop = self.stops.entry(index).or_default();
        // After 2^64 - 1 the number is 0. The stop register stays set, because the counters go on.
        *stop |= *low == 0 && *high == 0;
        (!*stop).then_some((*high, *low))
    }

    fn ingress_of_loopback(&self, mut packet: Packet) -> Ingress {
        if packet.pass.as_ref().is_none_or(|pass| pass.number != PASSES) {
            return Ingress::Loop(packet);
        }
        let subgroup = (packet.words[3] >> 24) as u8;
        let left = self.receivers(&packet) - (subgroup << 2);
        for (lane, tag) in (0..).zip(&mut packet.tags) {
            // Tags of lanes beyond the group's receivers are zero.
            *tag = if lane < left { tag.map(u32::swap_bytes) } else { [0; 2] };
        }
        packet.pass = None;
        Ingress::Deliver(packet)
    }

    /// Egress of a copy: loads the keys of its subgroup.
    fn egress_first(&self, mut packet: Packet, subgroup: u8) -> Packet {
        packet.words[3] |= u32::from(subgroup) << 24;
        if let Some(pass) = &mut packet.pass {
            pass.number = 0;
            for (lane, state) in (0..).zip(&mut pass.lanes) {
                if let Some(&(k0, k1)) = self.keys.get(&(pass.index, 4 * subgroup + lane)) {
                    *state = [k0, k1 ^ 0xEE, k0 ^ 0x6C79_6765, k1 ^ 0x7465_6462];
                }
            }
        }
        packet
    }
}

/// Row of the table `schedule`: words that enter the state before (v3, v2) and after (v1, v0) a round.
#[derive(Default)]
struct Into {
    v3: u32,
    v2: u32,
    v1: u32,
    v0: u32,
}

fn schedule(number: u8, words: &[u32; 14]) -> Into {
    let block = |number: u8| words.get(usize::from(number / 2)).map_or(56 << 24, |word| word.swap_bytes());
    match number {
        0..30 if number.is_multiple_of(2) => Into { v3: block(number), ..Into::default() },
        0..30 => Into { v0: block(number), ..Into::default() },
        30 => Into { v2: 0xEE, ..Into::default() },
        33 => Into { v1: 0xDD, ..Into::default() },
        _ => Into::default(),
    }
}

/// Egress between rounds: one round of all lanes.
fn egress_round(mut packet: Packet) -> Packet {
    let Some(pass) = &mut packet.pass else { return packet };
    let into = schedule(pass.number, &packet.words);
    for (lane, tag) in pass.lanes.iter_mut().zip(&mut packet.tags) {
        lane[3] ^= into.v3;
        lane[2] ^= into.v2;
        steps(lane);
        match pass.number {
            33 => tag[0] = lane[1] ^ lane[3],
            37 => tag[1] = lane[1] ^ lane[3],
            _ => {}
        }
        lane[0] ^= into.v0;
        lane[1] ^= into.v1;
    }
    pass.number += 1;
    packet
}

/// The six dependent steps of a round.
fn steps([v0, v1, v2, v3]: &mut [u32; 4]) {
    // 1
    *v0 = v0.wrapping_add(*v1);
    *v2 = v2.wrapping_add(*v3);
    // 2
    *v1 = v1.rotate_left(5) ^ *v0;
    *v3 = v3.rotate_left(8) ^ *v2;
    // 3
    *v0 = v0.rotate_left(16);
    // 4
    *v2 = v2.wrapping_add(*v1);
    *v0 = v0.wrapping_add(*v3);
    // 5
    *v1 = v1.rotate_left(13) ^ *v2;
    *v3 = v3.rotate_left(7) ^ *v0;
    // 6
    *v2 = v2.rotate_left(16);
}

/// The parser: `None` for a datagram without a whole header, or with too long a payload.
pub fn parse(datagram: &[u8]) -> Option<Packet> {
    let (header, payload) = datagram.split_at_checked(HEADER)?;
    if payload.len() > MAX_PAYLOAD {
        return None;
    }
    let mut words = [0; 14];
    for (word, bytes) in words.iter_mut().zip(header.chunks_exact(4)) {
        *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    Some(Packet { pass: None, words, tags: [[0; 2]; 4], payload: payload.to_vec() })
}

fn deparse(packet: &Packet) -> Vec<u8> {
    let words = packet.words.iter().chain(packet.tags.iter().flatten());
    let mut datagram: Vec<u8> = words.flat_map(|word| word.to_be_bytes()).collect();
    datagram.resize(HEADER, 0);
    datagram.extend(&packet.payload);
    datagram
}
