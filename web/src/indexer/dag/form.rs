//! Forms in which engines report their order through `corniche_getDag`.

use corniche_types::FaultModel;

/// Name of the engine whose proposals are cars in lanes.
pub const AUTOBAHN: &str = "autobahn";

/// Name of the engine that orders the packets of a sequencer.
pub const NEOBFT: &str = "neobft";

/// Name of the engine whose leaders propose batches for numbers of their own.
pub const MIR: &str = "mir";

/// Meaning of rounds and vertices in the node's response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// A DAG in which every validator proposes once in a round.
    #[default]
    Rounds,
    /// A lane of cars for each validator. Rounds are slots with cuts through the lanes.
    Lanes,
    /// Like [`Form::Lanes`], with batches that have no certificates and slots that any validator may propose for.
    Batches,
    /// A log. Rounds are its slots; each has at most one request that counts.
    Log,
    /// Like [`Form::Log`], with a batch of its leader in each slot and no sequencer.
    Numbers,
}

impl Form {
    /// Returns the form of an engine by its name.
    pub fn of(engine: &str) -> Self {
        match engine {
            AUTOBAHN => Self::Lanes,
            NEOBFT => Self::Log,
            MIR => Self::Numbers,
            // All engines for crashes order lanes of batches.
            _ if FaultModel::of_engine(engine) == FaultModel::Crash => Self::Batches,
            _ => Self::Rounds,
        }
    }

    /// True if validators have lanes, and slots are cuts through them.
    pub fn has_lanes(self) -> bool {
        matches!(self, Self::Lanes | Self::Batches)
    }

    /// True if each slot has one request or batch.
    pub fn is_log(self) -> bool {
        matches!(self, Self::Log | Self::Numbers)
    }
}
