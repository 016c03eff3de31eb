//! A scenario: one network, its load and its faults. `docs/simulator.md` describes the file; [`parse`] reads it.
//!
//! All numbers are integers: microseconds, parts per million, bytes per second. Missing values have their defaults, and
//! invalid values cannot occur: every node index exists, every `until` is after its `at` and within the duration, the
//! matrix is square, and a partition's groups are disjoint and contain every node.

mod engine;
mod faults;
mod parse;
mod read;
mod schema;

pub use engine::EngineName;
pub use parse::{parse, parse_for};
pub use read::ScenarioError;
pub use schema::SCHEMA;

use crate::network::validator;
use corniche_types::{FaultModel, Votes, Weights};
use std::collections::{BTreeMap, BTreeSet};

/// Parts per million: a fraction of one million.
pub type Ppm = u32;

/// One network, its load and its faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The engine's name, as in a genesis.
    pub engine: String,
    /// The engine's own parameters, as in a genesis; the engine has accepted them.
    pub engine_config: BTreeMap<String, u64>,
    /// Number of validators; they are numbered from 0.
    pub nodes: usize,
    /// Votes of the validators; `None`: each has one.
    pub votes: Option<Vec<Votes>>,
    /// Length of an epoch, ms; `None`: epochs never end.
    pub epoch_ms: Option<u64>,
    /// Part of an epoch before its end in which the next committee is made, ms; `None`: a quarter.
    pub closing_ms: Option<u64>,
    /// Minimum time between two blocks, ms; 0: every commit with transactions is a block.
    pub block_ms: u64,
    /// Virtual time of the run, µs.
    pub duration_us: u64,
    /// The seed, unless the command line sets one.
    pub seed: u64,
    pub crypto: Crypto,
    pub network: Network,
    /// The multicast group of an engine that orders by one.
    pub sequencer: Sequencer,
    pub disk: Disk,
    pub load: Load,
    /// The wasm file that the payload calls; the path is relative to the scenario file.
    pub contract: Option<String>,
    pub cost: Cost,
    /// In file order.
    pub faults: Vec<Fault>,
}

impl Scenario {
    /// Votes of the validators of the genesis.
    pub fn weights(&self) -> Weights {
        let fault_model = FaultModel::of_engine(&self.engine);
        match &self.votes {
            Some(votes) => Weights::new(votes.iter().copied().take(self.members()), fault_model),
            None => Weights::one_each(self.members(), fault_model),
        }
    }

    /// Votes that the stake of a node is for.
    pub fn votes_of(&self, node: usize) -> Votes {
        self.votes.as_ref().map_or(Votes(1), |votes| votes[node])
    }

    /// Number of validators of the genesis. Nodes that join later have the numbers after them.
    pub fn members(&self) -> usize {
        self.nodes - self.joining().len()
    }

    /// Nodes that are no validators of the genesis and join later.
    pub fn joining(&self) -> BTreeSet<usize> {
        self.affected(|fault| match fault {
            Fault::Join { nodes, .. } => Some(nodes),
            _ => None,
        })
    }

    /// Nodes that withdraw all stake.
    pub fn leaving(&self) -> BTreeSet<usize> {
        self.affected(|fault| match fault {
            Fault::Leave { nodes, .. } => Some(nodes),
            _ => None,
        })
    }

    /// Nodes that replace their keys.
    pub fn rotating(&self) -> BTreeSet<usize> {
        self.affected(|fault| match fault {
            Fault::Rotate { nodes, .. } => Some(nodes),
            _ => None,
        })
    }

    /// True if the committee changes: then validators that do not announce themselves lose their seats.
    pub fn changes_committee(&self) -> bool {
        let changes = |fault: &Fault| {
            use Fault::{BadDealer, Join, Leave, NoNotices, Rotate};
            matches!(fault, Join { .. } | Leave { .. } | Rotate { .. } | NoNotices { .. } | BadDealer { .. })
        };
        self.faults.iter().any(changes)
    }

    fn affected(&self, nodes: impl Fn(&Fault) -> Option<&Vec<usize>>) -> BTreeSet<usize> {
        self.faults.iter().filter_map(nodes).flatten().copied().collect()
    }

    /// Mean base delay between two different nodes, µs: the unit of delays in the report.
    pub fn delay_us(&self) -> u64 {
        let links = (0..self.nodes).flat_map(|from| (0..self.nodes).map(move |to| (from, to))).filter(|(from, to)| from != to);
        let (count, sum) =
            links.fold((0u64, 0u64), |(count, sum), (from, to)| (count + 1, sum + self.network.one_way_us(from, to)));
        sum.checked_div(count).unwrap_or(0)
    }

    /// Validators that are Byzantine at any time.
    pub fn byzantine(&self) -> BTreeSet<usize> {
        self.affected(|fault| match fault {
            Fault::Byzantine { nodes, .. } => Some(nodes),
            _ => None,
        })
    }

    /// A remark about input that is accepted but may be a mistake; the checks must detect the consequences.
    pub fn remark(&self) -> Option<String> {
        let weights = self.weights();
        let (faulty, byzantine) =
            (weights.max_faulty(), weights.weigh(self.byzantine().range(..self.members()).map(|node| validator(*node))));
        let of = weights.total();
        let remark =
            || format!("Byzantine validators have {byzantine} of {of} votes, tolerated are {faulty}; expect violations");
        (byzantine > faulty).then(remark)
    }
}

/// Real or modelled signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crypto {
    /// Cheap replacements; the time of the real operations is charged to the node's virtual processor ([`Cost`]).
    Modelled,
    /// Every signature is made and checked. Virtual time is charged as well, so that both kinds run alike.
    Real,
}

/// Links between the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Region names; node `i` is in region `i % regions.len()`. One region if the file sets `delay_ms`.
    pub regions: Vec<String>,
    /// Base delay from a region (row) to a region (column), µs; the diagonal applies within a region.
    pub one_way_us: Vec<Vec<u64>>,
    /// Variation of a message's delay, as a fraction of the base delay.
    pub jitter_ppm: Ppm,
    pub model: Jitter,
    /// Probability that a message is lost.
    pub loss_ppm: Ppm,
    /// Probability that a message may be overtaken by later ones of its link.
    pub reorder_ppm: Ppm,
    /// Probability that a message arrives twice.
    pub duplicate_ppm: Ppm,
    /// Bandwidth of one node over all its links, bytes per second.
    pub bytes_per_second: u64,
    pub adversary: Adversary,
    /// Maximum time for which the adversary holds a message back, µs.
    pub adversary_delay_us: u64,
}

impl Network {
    /// Base delay of a message between two nodes, µs.
    pub fn one_way_us(&self, from: usize, to: usize) -> u64 {
        let regions = self.regions.len();
        self.one_way_us[from % regions][to % regions]
    }
}

/// Distribution of a message's delay around the base delay, which stays the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// Uniform within ± the jitter.
    Uniform,
    /// Minimum is the base delay minus the jitter, with a heavy tail (Pareto of shape 2).
    Pareto,
}

/// Scheduler of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adversary {
    /// No adversary: only the links decide.
    None,
    /// The random network model: per round, a node receives in time from itself and from a uniformly random quorum.
    Random,
    /// The asynchronous scheduler: sees everything except the coin, and delays the messages that matter most.
    Worst,
    /// Delays the validators that a coin has just elected, or the last proposer if leaders take turns.
    Leaders,
}

/// The sequencer of the multicast group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequencer {
    /// On a host, which costs the mean delay of a link, or in the path of the network.
    pub is_on_host: bool,
    /// Suite of `aom/1`: 1 or 2 (keyed hashes), 4 (ECDSA) or 5 (ed25519).
    pub suite: u8,
    /// Suites 4 and 5: every packet of this number has a signature.
    pub sign_every: u32,
    /// Probability that a datagram is lost at a receiver, besides losses of links.
    pub loss_ppm: Ppm,
    /// Time in which the configuration service installs another sequencer, µs.
    pub install_us: u64,
}

/// A fault of the sequencer, which ends when it is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SequencerFault {
    /// It stamps nothing.
    Silent,
    /// It passes over this many numbers, once.
    Jump(u64),
    /// Every datagram arrives twice.
    Duplicates,
    /// It shows these nodes another payload with each number.
    Equivocates(Vec<usize>),
}

/// A node's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Time of one durable write of any size, µs.
    pub latency_us: u64,
    /// Transfer rate in bytes per second, in addition to the latency.
    pub bytes_per_second: u64,
}

/// Transactions submitted during the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Transactions over all nodes in a thousand seconds, that is, thousandths of a transaction per second.
    pub millirate: u64,
    /// Size of one signed transaction, bytes; smaller ones are padded with call data.
    pub tx_bytes: u32,
    pub payload: Payload,
    /// Time of the first submission, µs.
    pub start_us: u64,
    /// No submission at or after this time, µs.
    pub stop_us: u64,
    /// Node whose client submits first; the others follow in turn.
    pub first_node: usize,
    /// Time that a client waits for a commit before it turns to another validator, µs.
    pub patience_us: u64,
}

impl Load {
    /// Number of transactions of the whole run.
    pub fn count(&self) -> u64 {
        let submitted = u128::from(self.stop_us - self.start_us) * u128::from(self.millirate);
        u64::try_from(submitted.div_ceil(1_000_000_000)).unwrap_or(u64::MAX)
    }

    /// Time at which transaction `index` is submitted, µs: evenly spaced from the start.
    pub fn at_us(&self, index: u64) -> u64 {
        let after = u128::from(index) * 1_000_000_000 / u128::from(self.millirate.max(1));
        self.start_us.saturating_add(u64::try_from(after).unwrap_or(u64::MAX))
    }
}

/// Effect of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// It is only ordered and counted; execution is a no-op.
    None,
    /// A transfer between accounts.
    Transfer,
    /// A call of the counter contract in the real virtual machine.
    Counter,
    /// A token transfer of the ERC-20 contract in the real virtual machine.
    Erc20,
}

/// Virtual time for which an operation occupies a node's processor, µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Sign a message or block (ed25519).
    pub sign_us: u64,
    /// Verify a peer's signature (ed25519).
    pub verify_us: u64,
    /// Recover the sender of a transaction (secp256k1).
    pub recover_us: u64,
    /// Make one threshold or certificate share (BLS).
    pub share_us: u64,
    /// Combine shares and verify the result (BLS).
    pub combine_us: u64,
}

/// A fault. Times are µs since the start; `until_us` is exclusive, and defaults to the duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Power off; data that was not durable is lost.
    Crash { at_us: u64, nodes: Vec<usize>, restart_at_us: Option<u64> },
    /// Power off, and the disk is erased. The node keeps its keys.
    DiskLoss { at_us: u64, nodes: Vec<usize>, restart_at_us: Option<u64> },
    /// Only nodes of one group reach each other.
    Partition { at_us: u64, until_us: u64, groups: Vec<Vec<usize>> },
    /// Messages of these links take longer.
    Delay { at_us: u64, until_us: u64, links: Links, extra_us: u64 },
    /// Messages of these links are lost with this probability, in addition to the network's own.
    Loss { at_us: u64, until_us: u64, links: Links, fraction_ppm: Ppm },
    /// These nodes take longer to execute a block and to make a write durable.
    Slow { at_us: u64, until_us: u64, nodes: Vec<usize>, execute_us: u64, write_us: u64 },
    /// The sequencer of the multicast group becomes faulty.
    Sequencer { at_us: u64, fault: SequencerFault },
    /// From `at_us` to the end, these validators are Byzantine.
    Byzantine { at_us: u64, nodes: Vec<usize>, behaviour: Behaviour },
    /// These nodes, which are no validators of the genesis, register with stake.
    Join { at_us: u64, nodes: Vec<usize> },
    /// These validators withdraw all their stake.
    Leave { at_us: u64, nodes: Vec<usize> },
    /// These validators replace all keys that the staking contract has, except that of the network.
    Rotate { at_us: u64, nodes: Vec<usize> },
    /// These validators make no notices: they do not announce themselves, and do not take part in the dealing of coins.
    NoNotices { at_us: u64, until_us: u64, nodes: Vec<usize> },
    /// The dealings of these validators are wrong.
    BadDealer { at_us: u64, until_us: u64, nodes: Vec<usize> },
}

/// A set of directed links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Links {
    /// Every link that starts or ends at one of these nodes.
    AttachedTo(Vec<usize>),
    /// Every link from a node of `from` to a node of `to`.
    Between { from: Vec<usize>, to: Vec<usize> },
}

impl Links {
    /// Returns true if this set contains the link from `sender` to `receiver`.
    pub fn contain(&self, sender: usize, receiver: usize) -> bool {
        match self {
            Self::AttachedTo(nodes) => nodes.contains(&sender) || nodes.contains(&receiver),
            Self::Between { from, to } => from.contains(&sender) && to.contains(&receiver),
        }
    }
}

/// Behaviour of a Byzantine validator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Behaviour {
    /// Two different blocks per round, one for each half of the others.
    Equivocator,
    /// Sends to only f + 1 others.
    Withholder,
    /// Sends nothing.
    Silent,
    /// Sends meaningless bytes.
    Garbage,
    /// Honest, but all its messages are late.
    Late,
    /// Two honest copies with one key, both connected to all.
    Twin,
    /// References parents that do not exist or that it must not reference.
    ParentForger,
    /// Sends false coin shares.
    CoinShareForger,
    /// Denies packets that it has, answers no query, and replies with wrong log-hashes.
    GapLiar,
    /// Passes packets on with damaged tags: only the receiver can check its own.
    TagForger,
}

impl Behaviour {
    /// Returns true if this behaviour has an effect with an engine.
    pub fn fits(self, engine: EngineName) -> bool {
        match self {
            Self::GapLiar | Self::TagForger => engine == EngineName::Neobft,
            Self::ParentForger | Self::CoinShareForger => matches!(engine, EngineName::MahiMahi | EngineName::Autobahn),
            _ => true,
        }
    }

    /// Returns true if validators that only crash or are slow can show it.
    pub fn is_honest(self) -> bool {
        matches!(self, Self::Silent | Self::Late)
    }
}
