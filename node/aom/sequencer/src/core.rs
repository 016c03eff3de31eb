//! The deciding part: datagrams and a passed-in time in, stamped packets out.

use corniche_aom_wire::{Error, Request, Stamped, Stamper};
use std::{collections::BTreeMap, time::Duration};

/// T_beat: maximum number of heartbeats without a request between them.
const MAX_HEARTBEATS: u8 = 3;

/// Times after which a quiet group gets a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// T_flush: PK, if the newest packet is unsigned.
    pub sign_after: Duration,
    /// T_beat.
    pub heartbeat_after: Duration,
}

/// Reason why a datagram got no number.
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
    /// Not a request.
    Kind,
    /// The reserved byte is not zero.
    Reserved,
    /// Unknown group.
    Group,
    /// The group is not active.
    Inactive,
    /// The digest does not match the payload.
    Digest,
    /// All numbers of the epoch are used.
    Exhausted,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [Self; 10] = [
        Self::Short,
        Self::Long,
        Self::Magic,
        Self::Version,
        Self::Kind,
        Self::Reserved,
        Self::Group,
        Self::Inactive,
        Self::Digest,
        Self::Exhausted,
    ];

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
            Self::Inactive => "inactive",
            Self::Digest => "digest",
            Self::Exhausted => "exhausted",
        }
    }
}

/// Sequencers of all groups. Times are durations since any fixed start.
#[derive(Debug)]
pub struct Core {
    groups: BTreeMap<u32, Group>,
    timing: Timing,
    check_digests: bool,
    max_payload_bytes: usize,
}

#[derive(Debug)]
struct Group {
    /// `None`: not active.
    stamper: Option<Stamper>,
    /// Time of the newest packet; `None` before the first one.
    newest: Option<Duration>,
    /// Heartbeats since the last request.
    heartbeats: u8,
}

impl Core {
    /// Makes a core without groups.
    pub fn new(timing: Timing, check_digests: bool, max_payload_bytes: usize) -> Self {
        Self { groups: BTreeMap::new(), timing, check_digests, max_payload_bytes }
    }

    /// Adds a group, which is not active without a stamper.
    pub fn add(&mut self, group: u32, stamper: Option<Stamper>) {
        self.groups.insert(group, Group { stamper, newest: None, heartbeats: 0 });
    }

    /// Returns the stamper of a group, if the group is active.
    pub fn stamper(&mut self, group: u32) -> Option<&mut Stamper> {
        self.groups.get_mut(&group)?.stamper.as_mut()
    }

    /// Stamps the request in a datagram and appends its packets to `out`; returns its group. A dropped datagram uses no number.
    pub fn handle(&mut self, now: Duration, datagram: &[u8], out: &mut Outbox) -> Result<(u32, Stamped), DropReason> {
        let request = Request::decode(datagram).map_err(drop_reason)?;
        if request.payload.len() > self.max_payload_bytes {
            return Err(DropReason::Long);
        }
        // Q1
        let group = self.groups.get_mut(&request.group).ok_or(DropReason::Group)?;
        let stamper = group.stamper.as_mut().ok_or(DropReason::Inactive)?;
        if self.check_digests {
            request.verify_digest().map_err(drop_reason)?;
        }
        let stamped = stamper.stamp_into(&request, &mut out.bytes).map_err(drop_reason)?;
        out.add(request.group, stamped);
        (group.newest, group.heartbeats) = (Some(now), 0);
        Ok((request.group, stamped))
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
            let Some(stamper) = &mut group.stamper else { continue };
            // Q4 a: a heartbeat is signed.
            match stamper.heartbeat_into(&mut out.bytes) {
                Ok(stamped) => {
                    out.add(*number, stamped);
                    made(*number, stamped);
                    (group.newest, group.heartbeats) = (Some(now), group.heartbeats + 1);
                }
                // All numbers are used. Nothing can follow the newest packet.
                Err(_) => group.newest = None,
            }
        }
    }
}

impl Group {
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
        // Requests have no other rules; `handle` has found the group.
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
