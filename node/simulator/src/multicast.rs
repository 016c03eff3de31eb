//! The multicast group of a simulated network: the sequencer in the path or on a host, its faults, and losses.
//!
//! A request travels on the links of its sender to every validator. A sequencer in the path stamps it when its first copy
//! arrives, so it costs no delay; one on a host costs the mean delay of a link more. Links lose and delay each copy
//! independently. The sender's line carries a request once, because the network copies it.
//!
//! Differences from a real group: partitions do not cut off the sequencer, and the configuration service always answers. The
//! sequencer has no heartbeats after idle time; the members' clocks show a lost tail.

use crate::{
    crypto::Meter,
    scenario::{Cost, Ppm, Scenario, SequencerFault},
};
use corniche_aom_wire::{HEADER_BYTES, Header, Kind, Suite, TAGS_PER_PACKET};
use corniche_engine::{Committee, SequencerKey};
use corniche_neobft::{Config, Signatures};
use corniche_neobft_testing::ModelledGroup;
use corniche_testkit::{Group, Micros, Random};
use corniche_types::{Bytes, ValidatorIndex};
use std::{
    cell::{Cell, OnceCell, RefCell},
    rc::Rc,
    sync::Arc,
};

/// Tags that are checked in the time of one signature: SipHash over 56 bytes takes 0.1 µs, ed25519 takes 40 µs.
const TAGS_PER_SIGNATURE: u64 = 400;

/// The multicast group of one network.
pub struct Multicast {
    group: RefCell<ModelledGroup>,
    /// Datagrams lost per million, at each receiver.
    loss: Ppm,
    random: RefCell<Random>,
    /// Datagrams that arrived at all validators, and their bytes.
    received: Cell<(u64, u64)>,
}

/// A request to the group. All receivers share one copy.
pub struct GroupRequest {
    bytes: Bytes,
    /// The datagrams for each receiver, once it was stamped.
    stamped: OnceCell<Vec<Vec<Bytes>>>,
}

impl GroupRequest {
    pub fn new(bytes: Bytes) -> Rc<Self> {
        Rc::new(Self { bytes, stamped: OnceCell::new() })
    }

    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl Multicast {
    pub fn new(
        scenario: &Scenario,
        seed: u64,
        committee: &Committee,
        config: &Config,
        signatures: Arc<dyn Signatures>,
    ) -> Self {
        let sequencer = scenario.sequencer;
        let suite = Suite::try_from(sequencer.suite).expect("invariant: the parser accepts suites only");
        let mut group = ModelledGroup::with_keys(committee, config, suite, sequencer.sign_every, signatures);
        group.install_delay = Micros(sequencer.install_us);
        if sequencer.is_on_host {
            group.extra_delay = Micros(scenario.delay_us());
        }
        let random = RefCell::new(Random::new(seed).fork("multicast"));
        Self { group: RefCell::new(group), loss: sequencer.loss_ppm, random, received: Cell::default() }
    }

    /// A copy of a request arrives at a validator. Returns the datagrams that it gets, and when they arrive.
    pub fn receive(&self, now: Micros, me: ValidatorIndex, request: &GroupRequest) -> (Micros, Vec<Bytes>) {
        let at = now + self.group.borrow().extra_delay();
        let stamped = request.stamped.get_or_init(|| self.group.borrow_mut().stamp(now, &request.bytes));
        let mut random = self.random.borrow_mut();
        let own = stamped.get(me.as_usize()).into_iter().flatten();
        let datagrams: Vec<_> = own.filter(|_| !random.chance_ppm(self.loss)).cloned().collect();
        let (mut count, mut bytes) = self.received.get();
        datagrams.iter().for_each(|datagram| (count, bytes) = (count + 1, bytes + datagram.len() as u64));
        self.received.set((count, bytes));
        (at, datagrams)
    }

    /// A validator asks the configuration service. Returns the key, and when it arrives.
    pub fn ask(&self, now: Micros, me: ValidatorIndex, epoch: u32, certificate: &Bytes) -> Option<(Micros, SequencerKey)> {
        self.group.borrow_mut().ask(now, me.as_usize(), epoch, certificate)
    }

    /// Keys that a starting validator gets.
    pub fn keys(&self, now: Micros, me: ValidatorIndex) -> Vec<SequencerKey> {
        self.group.borrow_mut().keys(now, me.as_usize())
    }

    /// A fault of the sequencer begins. It ends when the sequencer is replaced.
    pub fn begin(&self, fault: &SequencerFault) {
        let faults = &mut self.group.borrow_mut().faults;
        match fault {
            SequencerFault::Silent => faults.is_silent = true,
            SequencerFault::Jump(numbers) => faults.jump = *numbers,
            SequencerFault::Duplicates => faults.duplicates = true,
            SequencerFault::Equivocates(nodes) => faults.equivocates_to = nodes.iter().copied().collect(),
        }
    }

    /// Epoch of the installed sequencer: the number of failovers.
    pub fn epoch(&self) -> u32 {
        self.group.borrow().epoch()
    }

    /// Datagrams that arrived at all validators, and their bytes.
    pub fn received(&self) -> (u64, u64) {
        self.received.get()
    }
}

/// Charges the check of a datagram to a validator.
pub struct PacketCost {
    /// Time that is not charged yet, ns.
    pending_ns: u64,
}

impl PacketCost {
    pub fn new() -> Self {
        Self { pending_ns: 0 }
    }

    /// Only the packet with the own tag is checked. A signature takes as long as others.
    pub fn charge(&mut self, me: ValidatorIndex, datagram: &Bytes, cost: Cost, meter: &Meter) {
        let Some(header) = datagram.first_chunk::<HEADER_BYTES>().and_then(|bytes| Header::decode(bytes).ok()) else { return };
        match header.suite.kind() {
            Kind::Hm if usize::from(header.subgroup) == me.as_usize() / TAGS_PER_PACKET => {
                self.pending_ns += cost.verify_us * 1_000 / TAGS_PER_SIGNATURE;
                meter.checked(0, self.pending_ns / 1_000);
                self.pending_ns %= 1_000;
            }
            Kind::Pk if header.authenticator.iter().any(|byte| *byte != 0) => meter.checked(1, cost.verify_us),
            Kind::Hm | Kind::Pk => {}
        }
    }
}
