//! A scenario: one network, its load and its faults. `docs/simulator.md` describes the file; [`parse`] reads it.
//!
//! Everything here is an integer: microseconds, parts per million, bytes per second. What a file leaves out has its default
//! filled in, and what the file refuses cannot be found here: every node index exists, every `until` lies after its `at` and
//! within the duration, the matrix is square, a partition's groups are disjoint and hold every node.

mod faults;
mod parse;
mod read;
mod schema;

pub use parse::parse;
pub use read::ScenarioError;
pub use schema::SCHEMA;

use corniche_types::FaultModel;
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
    /// Validators; they are numbered from 0.
    pub nodes: usize,
    /// Virtual time of the run, µs.
    pub duration_us: u64,
    /// The seed when the command line names none.
    pub seed: u64,
    pub crypto: Crypto,
    pub network: Network,
    pub disk: Disk,
    pub load: Load,
    /// The wasm file that the payload calls, as the scenario file names it: relative to that file.
    pub contract: Option<String>,
    pub cost: Cost,
    /// In the order of the file.
    pub faults: Vec<Fault>,
}

impl Scenario {
    /// f: how many Byzantine validators the network is made to bear.
    pub fn faulty(&self) -> usize {
        FaultModel::Byzantine.faulty(self.nodes)
    }

    /// Mean base delay between two different nodes, µs: what one message delay is.
    pub fn delay_us(&self) -> u64 {
        let links = (0..self.nodes).flat_map(|from| (0..self.nodes).map(move |to| (from, to))).filter(|(from, to)| from != to);
        let (count, sum) =
            links.fold((0u64, 0u64), |(count, sum), (from, to)| (count + 1, sum + self.network.one_way_us(from, to)));
        sum.checked_div(count).unwrap_or(0)
    }

    /// The validators that are Byzantine at any time.
    pub fn byzantine(&self) -> BTreeSet<usize> {
        let byzantine = |fault: &Fault| match fault {
            Fault::Byzantine { nodes, .. } => nodes.clone(),
            _ => Vec::new(),
        };
        self.faults.iter().flat_map(byzantine).collect()
    }

    /// What the author may not have meant, and what is not refused: the checks must catch what comes of it.
    pub fn remark(&self) -> Option<String> {
        let (f, byzantine) = (self.faulty(), self.byzantine().len());
        let remark = || {
            format!(
                "{byzantine} of {} validators are Byzantine, and the network is made to bear {f}: expect broken promises",
                self.nodes
            )
        };
        (byzantine > f).then(remark)
    }
}

/// Whether signatures are made or only charged for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crypto {
    /// Cheap stand-ins; the time of the real operations is charged to the node's virtual processor ([`Cost`]).
    Modelled,
    /// Every signature is made and checked. Virtual time is charged all the same, so both kinds run alike.
    Real,
}

/// Links between the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Names; node `i` lives in region `i % regions.len()`. One region when the file gives `delay_ms`.
    pub regions: Vec<String>,
    /// Base delay from a region (row) to a region (column), µs; the diagonal is between two nodes of one region.
    pub one_way_us: Vec<Vec<u64>>,
    /// How much a message's delay varies, as a fraction of the base delay.
    pub jitter_ppm: Ppm,
    pub model: Jitter,
    /// Chance that a message is lost.
    pub loss_ppm: Ppm,
    /// Chance that a message may be overtaken by later ones of its link.
    pub reorder_ppm: Ppm,
    /// Chance that a message arrives twice.
    pub duplicate_ppm: Ppm,
    /// What one node can send over all its links, bytes per second.
    pub bytes_per_second: u64,
    pub adversary: Adversary,
    /// Longest the adversary holds a message back, µs.
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
    /// Evenly within the jitter, less or more.
    Uniform,
    /// At least the base delay less the jitter, with a heavy tail (Pareto of shape 2).
    Pareto,
}

/// Who schedules the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adversary {
    /// Nobody: links alone decide.
    None,
    /// The random network model: per round a node hears in time from itself and a uniformly random quorum.
    Random,
    /// The asynchronous scheduler: sees everything but the coin and delays what hurts most.
    Worst,
    /// Delays the validators that a coin has just elected, or that proposed last where leaders take turns.
    Leaders,
}

/// A node's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Time of one durable write, whatever its size, µs.
    pub latency_us: u64,
    /// Bytes per second on top of the latency.
    pub bytes_per_second: u64,
}

/// Transactions submitted during the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Transactions over all nodes in a thousand seconds: thousandths of a transaction per second.
    pub millirate: u64,
    /// Size of one signed transaction; smaller ones are padded with call data, bytes.
    pub tx_bytes: u32,
    pub payload: Payload,
    /// First submission, µs.
    pub start_us: u64,
    /// No submission at or after this, µs.
    pub stop_us: u64,
    /// Whose client submits first; the others follow in turn.
    pub first_node: usize,
    /// How long a client waits for a commit before it turns to another validator, µs.
    pub patience_us: u64,
}

impl Load {
    /// Transactions of the whole run.
    pub fn count(&self) -> u64 {
        let submitted = u128::from(self.stop_us - self.start_us) * u128::from(self.millirate);
        u64::try_from(submitted.div_ceil(1_000_000_000)).unwrap_or(u64::MAX)
    }

    /// When transaction `index` is submitted, µs: evenly spaced from the start.
    pub fn at_us(&self, index: u64) -> u64 {
        let after = u128::from(index) * 1_000_000_000 / u128::from(self.millirate.max(1));
        self.start_us.saturating_add(u64::try_from(after).unwrap_or(u64::MAX))
    }
}

/// What a transaction does when it is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Nothing: it is ordered and counted; execution is a no-op.
    None,
    /// A transfer between accounts.
    Transfer,
    /// A call of the counter contract in the real virtual machine.
    Counter,
    /// A token transfer of the ERC-20 contract in the real virtual machine.
    Erc20,
}

/// Virtual time that an operation keeps a node's processor busy, µs.
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

/// Something that goes wrong. Times are µs since the start; `until_us` is exclusive and the duration when the file names none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Power off; what was not durable is lost.
    Crash { at_us: u64, nodes: Vec<usize>, restart_at_us: Option<u64> },
    /// Power off, and the disk is empty afterwards. The node keeps its keys.
    DiskLoss { at_us: u64, nodes: Vec<usize>, restart_at_us: Option<u64> },
    /// Only nodes of the same group reach each other.
    Partition { at_us: u64, until_us: u64, groups: Vec<Vec<usize>> },
    /// Messages of these links take longer.
    Delay { at_us: u64, until_us: u64, links: Links, extra_us: u64 },
    /// Messages of these links are lost with this chance, in addition to the network's own.
    Loss { at_us: u64, until_us: u64, links: Links, fraction_ppm: Ppm },
    /// A block takes these nodes longer to execute, and a write longer to be durable.
    Slow { at_us: u64, until_us: u64, nodes: Vec<usize>, execute_us: u64, write_us: u64 },
    /// From `at_us` to the end these validators are run by an enemy.
    Byzantine { at_us: u64, nodes: Vec<usize>, behaviour: Behaviour },
}

/// Some of the directed links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Links {
    /// Every link that starts or ends at one of these nodes.
    Of(Vec<usize>),
    /// Every link from one of these to one of those.
    Between { from: Vec<usize>, to: Vec<usize> },
}

impl Links {
    /// Whether the link from a node to a node is one of these.
    pub fn contain(&self, sender: usize, receiver: usize) -> bool {
        match self {
            Self::Of(nodes) => nodes.contains(&sender) || nodes.contains(&receiver),
            Self::Between { from, to } => from.contains(&sender) && to.contains(&receiver),
        }
    }
}

/// What a Byzantine validator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Behaviour {
    /// Two different blocks a round, one to each half of the others.
    Equivocator,
    /// Sends to f + 1 others only.
    Withholder,
    /// Sends nothing.
    Silent,
    /// Sends bytes that mean nothing.
    Garbage,
    /// Honest, but everything it sends comes late.
    Late,
    /// Two honest copies with one key, both talking to everybody.
    Twin,
    /// Names parents that do not exist or that it must not name.
    ParentForger,
    /// Sends coin shares that are not its own.
    CoinShareForger,
}
