//! The engines that a scenario can name.

use corniche_types::FaultModel;
use std::collections::BTreeMap;

/// An engine by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineName {
    MahiMahi,
    Autobahn,
    Neobft,
    Mir,
    QuePaxa,
    Racs,
    Baxos,
}

impl EngineName {
    pub const ALL: &[Self] = &[Self::MahiMahi, Self::Autobahn, Self::Neobft, Self::Mir, Self::QuePaxa, Self::Racs, Self::Baxos];

    /// Returns the engine with this name, or a message that lists all.
    pub fn find(id: &str) -> Result<Self, String> {
        let name = Self::ALL.iter().find(|name| name.id() == id);
        name.copied().ok_or_else(|| {
            let ids: Vec<_> = Self::ALL.iter().map(|name| name.id()).collect();
            format!("no engine named {id}; there are {}", ids.join(", "))
        })
    }

    /// Name in a scenario and in a genesis.
    pub fn id(self) -> &'static str {
        match self {
            Self::MahiMahi => "mahi-mahi",
            Self::Autobahn => "autobahn",
            Self::Neobft => "neobft",
            Self::Mir => "mir",
            Self::QuePaxa => "quepaxa",
            Self::Racs => "sadl-racs",
            Self::Baxos => "baxos",
        }
    }

    /// Name in a table.
    pub fn title(self) -> &'static str {
        match self {
            Self::MahiMahi => "Mahi-Mahi",
            Self::Autobahn => "Autobahn",
            Self::Neobft => "NeoBFT",
            Self::Mir => "Mir-BFT",
            Self::QuePaxa => "QuePaxa",
            Self::Racs => "SADL-RACS",
            Self::Baxos => "Baxos",
        }
    }

    /// Faults of validators that the engine tolerates.
    pub fn fault_model(self) -> FaultModel {
        FaultModel::of_engine(self.id())
    }

    /// Rejects invalid parameters.
    pub fn check(self, parameters: &BTreeMap<String, u64>) -> Result<(), String> {
        match self {
            Self::MahiMahi => corniche_mahi_mahi::Config::from_parameters(parameters).map(drop),
            Self::Autobahn => corniche_autobahn::Config::from_parameters(parameters).map(drop),
            Self::Neobft => corniche_neobft::Config::from_parameters(parameters).map(drop),
            Self::Mir => corniche_mir::Config::from_parameters(parameters).map(drop),
            Self::QuePaxa => corniche_quepaxa::Config::from_parameters(parameters).map(drop),
            Self::Racs => corniche_racs::Config::from_parameters(parameters).map(drop),
            Self::Baxos => corniche_baxos::Config::from_parameters(parameters).map(drop),
        }
    }
}
