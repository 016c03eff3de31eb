//! Forms in which engines report their order through `corniche_getDag`.

/// Name of the engine whose proposals are cars in lanes.
pub const AUTOBAHN: &str = "autobahn";

/// Name of the engine that orders the packets of a sequencer.
pub const NEOBFT: &str = "neobft";

/// Meaning of rounds and vertices in the node's response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// A DAG in which every validator proposes once in a round.
    #[default]
    Rounds,
    /// A lane of cars for each validator. Rounds are slots with cuts through the lanes.
    Lanes,
    /// A log. Rounds are its slots; each has at most one request that counts.
    Log,
}

impl Form {
    /// Returns the form of an engine by its name.
    pub fn of(engine: &str) -> Self {
        match engine {
            AUTOBAHN => Self::Lanes,
            NEOBFT => Self::Log,
            _ => Self::Rounds,
        }
    }
}
