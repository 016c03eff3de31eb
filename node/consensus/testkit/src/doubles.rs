//! Byzantine validators, by name. Each runs the real engine with its own key, so it stays in the game, and does one thing wrong.

use crate::{Forgery, Kit, Random};
use corniche_engine::VertexId;
use corniche_types::{Bytes, ValidatorIndex};

/// What a Byzantine validator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Double {
    /// Hears all, says nothing.
    Silent,
    /// Half of what it says is noise.
    Garbage,
    /// Everything it sends takes [`LATE`] longer. The arena sees to that.
    Late,
    /// Shows its proposals to f + 1 others only, other ones each round.
    Withholder,
    /// Two processes with one key, both talk to all.
    Twin,
    /// Two processes with one key; each half of the others sees one of them.
    Equivocator,
    /// Its proposals stand on what is not there, or on too little.
    ParentForger,
    /// Its shares, of coins or of certificates, are noise.
    ShareForger,
    /// Three processes with one key, all talk to all. Where n = 3f + 1, two siblings of each Byzantine validator forge no
    /// quorum even for somebody who counts blocks instead of authors; three do.
    Triplets,
    /// One that only the engine's kit knows, by its name: [`Kit::own_doubles`].
    Own(&'static str),
}

/// How late [`Double::Late`] is.
pub const LATE: crate::Micros = crate::Micros::from_millis(700);

impl Double {
    /// Those that every engine can have.
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

    /// As scenario files write it.
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

    /// How many processes it takes to play it.
    pub fn processes(self) -> usize {
        match self {
            Self::Twin | Self::Equivocator => 2,
            Self::Triplets => 3,
            _ => 1,
        }
    }

    /// What its engine signs falsely by itself.
    pub fn signs(self) -> Option<Forgery> {
        (self == Self::ShareForger).then_some(Forgery::Share)
    }

    /// What leaves instead of `message`, and to whom. `proposal`: the message is `author`'s own proposal.
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
            (Self::Garbage, _) if random.once_in(2) => vec![(targets.to_vec(), noise(message, random))],
            (Self::Withholder, Some(proposal)) => {
                let audience = audience(kit, proposal.round);
                vec![(targets.iter().copied().filter(|to| audience.contains(to)).collect(), message.clone())]
            }
            (Self::ParentForger, Some(_)) if random.once_in(2) => kit
                .forge(author, Forgery::Parents, message, random)
                .map_or_else(honest, |forged| vec![(targets.to_vec(), forged)]),
            _ => honest(),
        }
    }
}

/// f + 1 validators, one further each round.
fn audience(kit: &dyn Kit, round: u64) -> Vec<usize> {
    let committee = kit.committee();
    (0..committee.validity()).map(|place| (round as usize + place) % committee.size()).collect()
}

/// Cut, bent or replaced.
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
