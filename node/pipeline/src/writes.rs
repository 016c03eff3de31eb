//! Writes of a node, and their group commit.

use corniche_crypto::evidence::Evidence;
use corniche_engine::{Resume, Ticket};
use corniche_state::CommittedBlock;
use corniche_types::{Bytes, Certificate, Height};
use std::{collections::VecDeque, sync::Arc};

/// One write. Writes become durable in order: if one survives a power cut, so do all before it.
#[derive(Clone, Debug)]
pub enum Write {
    /// Record for the safety log.
    Record(Ticket, Bytes),
    /// Records with smaller tickets are not needed any more, once the writes before this one are durable.
    ReleaseBelow(Ticket),
    /// Writes nothing: the safety log is read after all writes before this one. See [`crate::Event::Written`].
    ReadSafetyLog,
    Block(Arc<CommittedBlock>),
    Certificate(Certificate),
    Progress(Resume),
    /// For [`crate::Setup::evidence`] of later starts.
    Evidence(Box<Evidence>),
    /// The last write of a node that halts. With evidence, a restarted node must not continue; see
    /// [`crate::Output::Halt`].
    Halt {
        evidence: Option<Certificate>,
    },
}

/// Group commit: while the disk takes no group, further writes wait for the next one.
#[derive(Default)]
pub(crate) struct WriteQueue {
    waiting: Vec<Write>,
    /// Groups that are being written, oldest first.
    writing: VecDeque<Group>,
}

/// Inputs and effects that are due when a group is durable.
#[derive(Default)]
pub(crate) struct Group {
    /// Tickets of its records, in order.
    pub tickets: Vec<Ticket>,
    /// Number of its writes.
    pub writes: usize,
    pub blocks: Vec<Arc<CommittedBlock>>,
    /// Height of its newest certificate.
    pub certified: Option<Height>,
    /// The node halts.
    pub halts: bool,
}

impl WriteQueue {
    pub fn push(&mut self, write: Write) {
        self.waiting.push(write);
    }

    /// Number of writes that are not durable.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.writing.iter().map(|group| group.writes).sum::<usize>()
    }

    /// True if something waits.
    pub fn is_due(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Starts the next group.
    pub fn start(&mut self) -> Vec<Write> {
        let group = std::mem::take(&mut self.waiting);
        self.writing.push_back(Group::new(&group));
        group
    }

    /// The oldest `groups` are durable. Returns them as one.
    pub fn finish(&mut self, groups: usize) -> Group {
        assert!(groups <= self.writing.len(), "invariant: only a group that was started becomes durable");
        self.writing.drain(..groups).fold(Group::default(), Group::with)
    }

    /// Writes that have not begun, in order.
    pub fn into_waiting(self) -> Vec<Write> {
        self.waiting
    }
}

impl Group {
    fn new(writes: &[Write]) -> Self {
        let mut group = Self { writes: writes.len(), ..Self::default() };
        for write in writes {
            match write {
                Write::Record(ticket, _) => group.tickets.push(*ticket),
                Write::Block(block) => group.blocks.push(block.clone()),
                Write::Halt { .. } => group.halts = true,
                Write::Certificate(certificate) => group.certified = Some(certificate.height),
                Write::ReleaseBelow(_) | Write::ReadSafetyLog | Write::Progress(_) | Write::Evidence(_) => {}
            }
        }
        group
    }

    /// Both, `next` after this one.
    fn with(mut self, next: Self) -> Self {
        self.tickets.extend(next.tickets);
        self.blocks.extend(next.blocks);
        self.writes += next.writes;
        self.certified = next.certified.or(self.certified);
        self.halts |= next.halts;
        self
    }

    /// Height of its newest block.
    pub fn height(&self) -> Option<Height> {
        self.blocks.last().map(|block| block.block.height())
    }
}
