//! The deciding part: datagrams and a passed-in time in, stamped packets out.

use crate::{Authority, Group, GroupEpoch, StartError, group::Keys};
use corniche_aom_wire::{EpochStart, Error, Request, Stamped, Stamper, TagKey};
use std::{collections::BTreeMap, fmt, time::Duration};

/// T_beat: maximum number of heartbeats without a request between them.
pub(crate) const MAX_HEARTBEATS: u8 = 3;
/// Minimum time between two heartbeats that respond to requests for the present epoch.
const REPEAT_INTERVAL: Duration = Duration::from_millis(50);
/// Minimum time between two checks of certificates: at most 50 a second, so that strangers cannot keep the writer busy.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Times after which a quiet group gets a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// T_flush: PK, if the newest packet is unsigned.
    pub sign_after: Duration,
    /// T_beat.
    pub heartbeat_after: Duration,
}

/// Reason why a datagram has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DropReason {
    /// Shorter than the header.
    Short,
    /// Payload above the limit.
    Long,
    /// Other magic: not a packet of aom.
    Magic,
    /// Other version.
    Version,
    /// Neither a request nor the start of an epoch.
    Kind,
    /// Bytes that must be zero are not, or the start of an epoch has another digest.
    Reserved,
    /// Unknown group.
    Group,
    /// A request, but the group has no epoch.
    Standby,
    /// The digest does not match the payload.
    Digest,
    /// All numbers of the epoch are used.
    Exhausted,
    /// Start of an epoch that another sequencer serves.
    NotMine,
    /// Start of an epoch that is not above all used ones (Q5).
    Used,
    /// Start of an epoch without a valid certificate.
    Certificate,
    /// Start of an epoch too soon after another one.
    Rate,
    /// Start of an epoch whose mark could not be written.
    Record,
    /// Back end `xdp`: IP options, a fragment, or lengths that contradict each other.
    Frame,
    /// Back end `xdp`: other processors took the number at each try.
    Contended,
    /// Back end `xdp`: a request to another address than the group's.
    Address,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [Self; 18] = [
        Self::Short,
        Self::Long,
        Self::Magic,
        Self::Version,
        Self::Kind,
        Self::Reserved,
        Self::Group,
        Self::Standby,
        Self::Digest,
        Self::Exhausted,
        Self::NotMine,
        Self::Used,
        Self::Certificate,
        Self::Rate,
        Self::Record,
        Self::Frame,
        Self::Contended,
        Self::Address,
    ];

    /// Reasons for which starts of epochs are refused.
    pub const STARTS: [Self; 5] = [Self::NotMine, Self::Used, Self::Certificate, Self::Rate, Self::Record];

    /// Returns the label in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Long => "long",
            Self::Magic => "magic",
            Self::Version => "version",
            Self::Kind => "kind",
            Self::Reserved => "reserved",
            Self::Group => "group",
            Self::Standby => "standby",
            Self::Digest => "digest",
            Self::Exhausted => "exhausted",
            Self::NotMine => "not_mine",
            Self::Used => "used",
            Self::Certificate => "certificate",
            Self::Rate => "rate",
            Self::Record => "record",
            Self::Frame => "frame",
            Self::Contended => "contended",
            Self::Address => "address",
        }
    }
}

/// Effect of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// A request of this group got a number; its packets are in the outbox.
    Request(u32, Stamped),
    /// The receivers of this group asked for its present epoch again. The caller sends a heartbeat.
    Repeat(u32),
    /// This epoch shall begin. The caller records it durably (Q5), calls [`Core::begin`], and sends a heartbeat.
    Start(GroupEpoch),
}

/// Sequencers of all groups. Times are durations since any fixed start.
#[derive(Debug)]
pub struct Core {
    groups: BTreeMap<u32, State>,
    timing: Timing,
    sign_every: u32,
    /// Time from which a certificate may be checked.
    next_check: Duration,
}

struct State {
    chain_id: u64,
    keys: Keys,
    sequencers: u32,
    index: u32,
    max_payload_bytes: usize,
    authority: Authority,
    /// Highest epoch that was ever used.
    used: Option<u32>,
    /// `None`: on standby until the receivers ask for an epoch.
    stamper: Option<Stamper>,
    /// Time of the newest packet; `None` before the first one of an epoch.
    newest: Option<Duration>,
    /// Heartbeats since the last request.
    heartbeats: u8,
    /// Time from which a request for the present epoch gets a heartbeat.
    next_repeat: Duration,
}

impl Core {
    /// Makes a core without groups. Packets of suites 4 and 5 are signed at least each `sign_every`-th time.
    pub fn new(timing: Timing, sign_every: u32) -> Self {
        Self { groups: BTreeMap::new(), timing, sign_every, next_check: Duration::ZERO }
    }

    /// Adds a group, which is on standby. `used`: the highest epoch that its sequencer ever used. Fails if a field is out of range.
    pub fn add(&mut self, group: Group, used: Option<u32>) -> Result<(), StartError> {
        if self.sign_every == 0 {
            return Err(StartError::Config("sign_every: expected at least 1, got 0".into()));
        }
        let keys = group.keys(self.sign_every)?;
        let Group { chain_id, group, sequencers, index, max_payload_bytes, authority, .. } = group;
        let state = State {
            chain_id,
            keys,
            sequencers,
            index,
            max_payload_bytes,
            authority,
            used,
            stamper: None,
            newest: None,
            heartbeats: 0,
            next_repeat: Duration::ZERO,
        };
        if self.groups.insert(group, state).is_some() {
            let text = "expected one entry, got two; requests do not name their chain, so run a second sequencer";
            return Err(StartError::Config(format!("group {group}: {text}")));
        }
        Ok(())
    }

    /// Returns the stamper of a group, if the group has an epoch.
    pub fn stamper(&mut self, group: u32) -> Option<&mut Stamper> {
        self.groups.get_mut(&group)?.stamper.as_mut()
    }

    /// Handles a datagram, and appends packets to `out`. A dropped datagram uses no number.
    pub fn handle(&mut self, now: Duration, datagram: &[u8], out: &mut Outbox) -> Result<Handled, DropReason> {
        match Request::decode(datagram) {
            Ok(request) => self.stamp(now, &request, out),
            Err(Error::Kind { .. }) => self.handle_start(now, datagram),
            Err(error) => Err(drop_reason(error)),
        }
    }

    /// Handles the start of an epoch. Requests have no effect: another part stamps them.
    pub fn handle_start(&mut self, now: Duration, datagram: &[u8]) -> Result<Handled, DropReason> {
        self.start(now, &EpochStart::decode(datagram).map_err(drop_reason)?)
    }

    fn stamp(&mut self, now: Duration, request: &Request<'_>, out: &mut Outbox) -> Result<Handled, DropReason> {
        // Q1
        let group = self.groups.get_mut(&request.group).ok_or(DropReason::Group)?;
        let stamper = group.stamper.as_mut().ok_or(DropReason::Standby)?;
        if request.payload.len() > group.max_payload_bytes {
            return Err(DropReason::Long);
        }
        request.verify_digest().map_err(drop_reason)?;
        let stamped = stamper.stamp_into(request, &mut out.bytes).map_err(drop_reason)?;
        out.add(request.group, stamped);
        (group.newest, group.heartbeats) = (Some(now), 0);
        Ok(Handled::Request(request.group, stamped))
    }

    /// Checks the start of an epoch, the cheapest rule first.
    fn start(&mut self, now: Duration, start: &EpochStart<'_>) -> Result<Handled, DropReason> {
        let EpochStart { group: number, epoch, certificate } = *start;
        let group = self.groups.get_mut(&number).ok_or(DropReason::Group)?;
        if epoch % group.sequencers != group.index {
            return Err(DropReason::NotMine);
        }
        if group.stamper.as_ref().is_some_and(|stamper| stamper.epoch() == epoch) {
            if now < group.next_repeat {
                return Err(DropReason::Rate);
            }
            group.next_repeat = now + REPEAT_INTERVAL;
            return Ok(Handled::Repeat(number));
        }
        // Q5
        if group.used.is_some_and(|used| epoch <= used) {
            return Err(DropReason::Used);
        }
        if epoch == 0 {
            // The first epoch follows from the genesis.
            if !certificate.is_empty() {
                return Err(DropReason::Certificate);
            }
        } else {
            if now < self.next_check {
                return Err(DropReason::Rate);
            }
            self.next_check = now + CHECK_INTERVAL;
            // E2
            if !(group.authority)(epoch, certificate) {
                return Err(DropReason::Certificate);
            }
        }
        group.next_repeat = now + REPEAT_INTERVAL;
        Ok(Handled::Start(GroupEpoch { chain_id: group.chain_id, group: number, epoch }))
    }

    /// Begins an epoch that [`Core::handle`] returned and that is recorded durably. Its older epoch ends.
    ///
    /// # Panics
    /// If the group used this epoch or a later one before.
    pub fn begin(&mut self, epoch: GroupEpoch) {
        let GroupEpoch { group, epoch, .. } = epoch;
        let Some(group) = self.groups.get_mut(&group) else { return };
        assert!(group.used.is_none_or(|used| used < epoch), "invariant: no epoch begins twice (Q5)");
        let stamper = group.keys.stamper(epoch).expect("invariant: the keys of a group are checked when it is added");
        (group.used, group.stamper) = (Some(epoch), Some(stamper));
        (group.newest, group.heartbeats) = (None, 0);
    }

    /// Appends a heartbeat of a group to `out`. Returns `None` if the group has no epoch or no number left.
    pub fn heartbeat(&mut self, now: Duration, group: u32, out: &mut Outbox) -> Option<Stamped> {
        self.groups.get_mut(&group)?.heartbeat(now, group, out)
    }

    /// Returns the tag keys of a group's epoch by receiver; `None` for suites with signatures.
    pub fn tag_keys(&self, group: u32, epoch: u32) -> Option<Vec<TagKey>> {
        self.groups.get(&group)?.keys.tag_keys(epoch)
    }

    /// Returns the time of the next heartbeat.
    pub fn deadline(&self) -> Option<Duration> {
        self.groups.values().filter_map(|group| group.deadline(&self.timing)).min()
    }

    /// Makes the heartbeats that are due, appends them to `out` and passes each to `made`, with its group.
    pub fn tick(&mut self, now: Duration, out: &mut Outbox, mut made: impl FnMut(u32, Stamped)) {
        for (number, group) in &mut self.groups {
            if group.deadline(&self.timing).is_none_or(|deadline| deadline > now) {
                continue;
            }
            if let Some(stamped) = group.heartbeat(now, *number, out) {
                made(*number, stamped);
            }
        }
    }
}

impl State {
    fn heartbeat(&mut self, now: Duration, number: u32, out: &mut Outbox) -> Option<Stamped> {
        // Q4 a: a heartbeat is signed.
        match self.stamper.as_mut()?.heartbeat_into(&mut out.bytes) {
            Ok(stamped) => {
                out.add(number, stamped);
                (self.newest, self.heartbeats) = (Some(now), self.heartbeats.saturating_add(1));
                Some(stamped)
            }
            // All numbers are used. Nothing can follow the newest packet.
            Err(_) => {
                self.newest = None;
                None
            }
        }
    }

    fn deadline(&self, timing: &Timing) -> Option<Duration> {
        let newest = self.newest?;
        let stamper = self.stamper.as_ref()?;
        if self.heartbeats >= MAX_HEARTBEATS {
            return None;
        }
        let after =
            if stamper.owes_signature() { timing.sign_after.min(timing.heartbeat_after) } else { timing.heartbeat_after };
        Some(newest + after)
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chain_id, keys, used, stamper, .. } = self;
        f.debug_tuple("State").field(&(chain_id, keys, used, stamper)).finish_non_exhaustive()
    }
}

/// Returns the reason of an error of decoding or stamping.
fn drop_reason(error: Error) -> DropReason {
    match error {
        Error::TooShort(_) => DropReason::Short,
        Error::TooLong(_) | Error::PayloadTooLong(_) => DropReason::Long,
        Error::Magic(_) => DropReason::Magic,
        Error::Version(_) => DropReason::Version,
        Error::Kind { .. } => DropReason::Kind,
        Error::NotZero(_) => DropReason::Reserved,
        Error::Digest => DropReason::Digest,
        Error::Exhausted(_) => DropReason::Exhausted,
        // Neither format has other rules; the group was found.
        _ => DropReason::Group,
    }
}

/// Stamped packets of one batch, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outbox {
    bytes: Vec<u8>,
    runs: Vec<Run>,
}

/// Packets of one group and one size that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Group.
    pub group: u32,
    /// Number of packets.
    pub packets: usize,
    /// Size of each packet in bytes.
    pub packet_bytes: usize,
}

impl Outbox {
    /// Returns each run with its bytes.
    pub fn runs(&self) -> impl Iterator<Item = (Run, &[u8])> {
        let mut rest = &self.bytes[..];
        self.runs.iter().map(move |run| {
            let (bytes, after) = rest.split_at(run.packets * run.packet_bytes);
            rest = after;
            (*run, bytes)
        })
    }

    /// Forgets all packets and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.runs.clear();
    }

    fn add(&mut self, group: u32, stamped: Stamped) {
        let Stamped { packets, packet_bytes, .. } = stamped;
        match self.runs.last_mut() {
            Some(run) if run.group == group && run.packet_bytes == packet_bytes => run.packets += packets,
            _ => self.runs.push(Run { group, packets, packet_bytes }),
        }
    }
}
