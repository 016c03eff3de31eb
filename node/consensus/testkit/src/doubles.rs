//! Byzantine validators, by name. Each runs the real engine with its own key, so it takes part in consensus, and
//! violates one rule.

use crate::{Forgery, Kit, Random};
use corniche_engine::VertexId;
use corniche_types::{Bytes, ValidatorIndex};

/// Behaviour of a Byzantine validator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Double {
    /// Receives everything, sends nothing.
    Silent,
    /// Half of its messages are noise.
    Garbage,
    /// Everything it sends takes [`LATE`] longer. The cluster applies the delay.
    Late,
    /// Shows its proposals to only f + 1 validators, different ones each round.
    Withholder,
    /// Two processes with one key, both connected to all.
    Twin,
    /// Two processes with one key; each half of the others sees one of them.
    Equivocator,
    /// Its proposals refer to parents that do not exist, or to too few.
    ParentForger,
    /// Its coin shares or certificate shares are noise.
    ShareForger,
    /// Three processes with one key, all connected to all. Where n = 3f + 1, two siblings of each Byzantine validator
    /// cannot forge a quorum, even against a validator that counts blocks instead of authors. Three can.
    Triplets,
    /// A double that only the engine's kit knows, by name: [`Kit::engine_doubles`].
    Own(&'static str),
}

/// Delay of [`Double::Late`].
pub const LATE: crate::Micros = crate::Micros::from_millis(700);

impl Double {
    /// The doubles that every engine supports.
    pub const ALL: [Self; 9] = [
        Self::Silent,
        Self::Garbage,
        Self::Late,
        Self::Withholder,
        Self::Twin,
        Self::Equivocator,
        Self::ParentForger,
        Self::ShareForger,
        Self::Triplets,
    ];

    /// Name in scenario files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Garbage => "garbage",
            Self::Late => "late",
            Self::Withholder => "withholder",
            Self::Twin => "twin",
            Self::Equivocator => "equivocator",
            Self::ParentForger => "parent-forger",
            Self::ShareForger => "coin-share-forger",
            Self::Triplets => "triplets",
            Self::Own(name) => name,
        }
    }

    /// Number of processes that play this double.
    pub fn processes(self) -> usize {
        match self {
            Self::Twin | Self::Equivocator => 2,
            Self::Triplets => 3,
            _ => 1,
        }
    }

    /// The forgery that its engine signs by itself.
    pub fn signs(self) -> Option<Forgery> {
        (self == Self::ShareForger).then_some(Forgery::Share)
    }

    /// Returns the messages sent instead of `message`, with their recipients. `proposal` is set if the message is
    /// `author`'s own proposal.
    pub fn distort(
        self,
        kit: &dyn Kit,
        author: ValidatorIndex,
        proposal: Option<VertexId>,
        targets: &[usize],
        message: &Bytes,
        random: &mut Random,
    ) -> Vec<(Vec<usize>, Bytes)> {
        let honest = || vec![(targets.to_vec(), message.clone())];
        match (self, proposal) {
            (Self::Silent, _) => Vec::new(),
            (Self::Garbage, _) if random.one_in(2) => vec![(targets.to_vec(), noise(message, random))],
            (Self::Withholder, Some(proposal)) => {
                let audience = audience(kit, proposal.round);
                vec![(targets.iter().copied().filter(|to| audience.contains(to)).collect(), message.clone())]
            }
            (Self::ParentForger, Some(_)) if random.one_in(2) => kit
                .forge(author, Forgery::Parents, message, random)
                .map_or_else(honest, |forged| vec![(targets.to_vec(), forged)]),
            _ => honest(),
        }
    }
}

impl Double {
    /// Returns the request sent to the multicast group instead of `request`.
    pub fn distort_request(self, request: &Bytes, random: &mut Random) -> Option<Bytes> {
        match self {
            Self::Silent => None,
            Self::Garbage if random.one_in(2) => Some(noise(request, random)),
            _ => Some(request.clone()),
        }
    }
}

/// Validators with F + 1 votes; the window moves by one each round.
fn audience(kit: &dyn Kit, round: u64) -> Vec<usize> {
    let committee = kit.committee();
    let from_first = committee.indices().cycle().skip(round as usize % committee.size());
    committee.take_votes(from_first, committee.validity()).into_iter().map(ValidatorIndex::as_usize).collect()
}

/// Returns the message truncated, with one bit flipped, or replaced.
fn noise(message: &Bytes, random: &mut Random) -> Bytes {
    let mut bytes = message.to_vec();
    match random.below(3) {
        0 => bytes.truncate(random.below(bytes.len() as u64 + 1) as usize),
        1 if !bytes.is_empty() => {
            let place = random.below(bytes.len() as u64) as usize;
            bytes[place] ^= 1 << random.below(8);
        }
        _ => bytes.iter_mut().for_each(|byte| *byte = random.draw() as u8),
    }
    bytes.into()
}
