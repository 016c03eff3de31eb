//! Reads the faults of a scenario file, and checks each alone and for conflicts.

use super::{
    Behaviour, EngineName, Fault, Links, ScenarioError, SequencerFault,
    read::{Field, Table},
    schema,
};
use corniche_types::FaultModel;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy)]
enum Kind {
    Crash,
    DiskLoss,
    Partition,
    Delay,
    Loss,
    Slow,
    Sequencer,
    Byzantine,
    Join,
    Leave,
    Rotate,
    NoNotices,
    BadDealer,
}

const KINDS: &[(&str, Kind)] = &[
    ("crash", Kind::Crash),
    ("disk_loss", Kind::DiskLoss),
    ("partition", Kind::Partition),
    ("delay", Kind::Delay),
    ("loss", Kind::Loss),
    ("slow", Kind::Slow),
    ("sequencer", Kind::Sequencer),
    ("byzantine", Kind::Byzantine),
    ("join", Kind::Join),
    ("leave", Kind::Leave),
    ("rotate", Kind::Rotate),
    ("no_notices", Kind::NoNotices),
    ("bad_dealer", Kind::BadDealer),
];

const BEHAVIOURS: &[(&str, Behaviour)] = &[
    ("equivocator", Behaviour::Equivocator),
    ("withholder", Behaviour::Withholder),
    ("silent", Behaviour::Silent),
    ("garbage", Behaviour::Garbage),
    ("late", Behaviour::Late),
    ("twin", Behaviour::Twin),
    ("parent-forger", Behaviour::ParentForger),
    ("coin-share-forger", Behaviour::CoinShareForger),
    ("gap-liar", Behaviour::GapLiar),
    ("tag-forger", Behaviour::TagForger),
];

/// Faults of the sequencer without their values.
#[derive(Clone, Copy)]
enum Does {
    Silent,
    Jump,
    Duplicates,
    Equivocates,
}

const DOES: &[(&str, Does)] =
    &[("silent", Does::Silent), ("jump", Does::Jump), ("duplicates", Does::Duplicates), ("equivocates", Does::Equivocates)];

/// All faults, in the order of the file. Committees change only if epochs end.
pub(super) fn read(
    list: Field<'_>,
    engine: EngineName,
    size: usize,
    end_us: u64,
    epochs_end: bool,
) -> Result<Vec<Fault>, ScenarioError> {
    let mut all = All::default();
    for item in list.list("a list of tables, each under its own [[fault]]")? {
        let reader = Reader::new(item, engine, size, end_us)?;
        if reader.kind.changes_committee() && !epochs_end {
            return Err(item.refuse("committees change only at the ends of epochs; add epoch_ms"));
        }
        let fault = reader.read()?;
        all.add(item, fault)?;
    }
    all.check_joining(list, size)?;
    Ok(all.faults)
}

impl Kind {
    /// Name in messages, and the keys.
    fn table(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Crash => ("a [[fault]] of kind crash", schema::CRASH),
            Self::DiskLoss => ("a [[fault]] of kind disk_loss", schema::CRASH),
            Self::Partition => ("a [[fault]] of kind partition", schema::PARTITION),
            Self::Delay => ("a [[fault]] of kind delay", schema::DELAY),
            Self::Loss => ("a [[fault]] of kind loss", schema::LOSS),
            Self::Slow => ("a [[fault]] of kind slow", schema::SLOW),
            Self::Sequencer => ("a [[fault]] of kind sequencer", schema::SEQUENCER_FAULT),
            Self::Byzantine => ("a [[fault]] of kind byzantine", schema::BYZANTINE),
            Self::Join => ("a [[fault]] of kind join", schema::CHANGE),
            Self::Leave => ("a [[fault]] of kind leave", schema::CHANGE),
            Self::Rotate => ("a [[fault]] of kind rotate", schema::CHANGE),
            Self::NoNotices => ("a [[fault]] of kind no_notices", schema::NOTICES),
            Self::BadDealer => ("a [[fault]] of kind bad_dealer", schema::NOTICES),
        }
    }

    fn changes_committee(self) -> bool {
        matches!(self, Self::Join | Self::Leave | Self::Rotate | Self::NoNotices | Self::BadDealer)
    }
}

/// One fault.
struct Reader<'t> {
    kind: Kind,
    table: Table<'t>,
    engine: EngineName,
    size: usize,
    end_us: u64,
}

impl<'t> Reader<'t> {
    fn new(item: Field<'t>, engine: EngineName, size: usize, end_us: u64) -> Result<Self, ScenarioError> {
        let table = item.table("[[fault]]")?;
        let kind = table.need("kind", "the kind of fault, such as \"crash\"")?.choice(KINDS)?;
        if matches!(kind, Kind::Sequencer) && engine != EngineName::Neobft {
            return Err(item.refuse(format_args!("{} has no sequencer; use the engine \"neobft\"", engine.id())));
        }
        let (place, known) = kind.table();
        Ok(Self { kind, table: item.table(place)?.only(known)?, engine, size, end_us })
    }

    fn read(&self) -> Result<Fault, ScenarioError> {
        let at_us = self.at()?;
        Ok(match self.kind {
            Kind::Crash => Fault::Crash { at_us, nodes: self.nodes()?, restart_at_us: self.later("restart_at", at_us)? },
            Kind::DiskLoss => Fault::DiskLoss { at_us, nodes: self.nodes()?, restart_at_us: self.later("restart_at", at_us)? },
            Kind::Partition => Fault::Partition { at_us, until_us: self.until(at_us)?, groups: self.groups()? },
            Kind::Delay => {
                let extra = self.table.need("extra_ms", "the additional delay of messages")?;
                let (until_us, links) = (self.until(at_us)?, self.links()?);
                Fault::Delay { at_us, until_us, links, extra_us: extra.milliseconds()? }
            }
            Kind::Loss => {
                let fraction = self.table.need("fraction", "the fraction of messages lost, from 0 to 1")?;
                let (until_us, links) = (self.until(at_us)?, self.links()?);
                Fault::Loss { at_us, until_us, links, fraction_ppm: fraction.fraction()? }
            }
            Kind::Slow => {
                let longer = |key| self.table.get(key).map_or(Ok(0), |field| field.milliseconds());
                let (execute_us, write_us) = (longer("execute_ms")?, longer("write_ms")?);
                Fault::Slow { at_us, until_us: self.until(at_us)?, nodes: self.nodes()?, execute_us, write_us }
            }
            Kind::Byzantine => {
                let behaviour = self.table.need("behaviour", "the behaviour of the nodes, such as \"equivocator\"")?;
                let chosen = behaviour.choice(BEHAVIOURS)?;
                if !chosen.fits(self.engine) {
                    let engine = self.engine.id();
                    return Err(
                        behaviour.refuse(format_args!("behaviour: this one has no effect with {engine}; use another one"))
                    );
                }
                if self.engine.fault_model() == FaultModel::Crash && !chosen.is_honest() {
                    return Err(behaviour.refuse(format_args!(
                        "behaviour: {} does not tolerate lies; use \"silent\", \"late\", or another engine",
                        self.engine.id()
                    )));
                }
                Fault::Byzantine { at_us, nodes: self.nodes()?, behaviour: chosen }
            }
            Kind::Sequencer => Fault::Sequencer { at_us, fault: self.sequencer()? },
            Kind::Join => Fault::Join { at_us, nodes: self.nodes()? },
            Kind::Leave => Fault::Leave { at_us, nodes: self.nodes()? },
            Kind::Rotate => Fault::Rotate { at_us, nodes: self.nodes()? },
            Kind::NoNotices => Fault::NoNotices { at_us, until_us: self.until(at_us)?, nodes: self.nodes()? },
            Kind::BadDealer => Fault::BadDealer { at_us, until_us: self.until(at_us)?, nodes: self.nodes()? },
        })
    }

    fn sequencer(&self) -> Result<SequencerFault, ScenarioError> {
        let field = self.table.need("does", "the fault of the sequencer, such as \"silent\"")?;
        let does = field.choice(DOES)?;
        let numbers = || self.table.need("numbers", "the numbers that it passes over")?.integer(1..=1 << 20);
        let [has_numbers, has_nodes] = ["numbers", "nodes"].map(|key| self.table.get(key));
        let excess = match does {
            Does::Jump => has_nodes,
            Does::Equivocates => has_numbers,
            Does::Silent | Does::Duplicates => has_numbers.or(has_nodes),
        };
        if let Some(excess) = excess {
            return Err(excess.refuse("numbers belong to \"jump\" and nodes to \"equivocates\"; remove this key"));
        }
        Ok(match does {
            Does::Silent => SequencerFault::Silent,
            Does::Jump => SequencerFault::Jump(numbers()?),
            Does::Duplicates => SequencerFault::Duplicates,
            Does::Equivocates => SequencerFault::Equivocates(self.nodes()?),
        })
    }

    fn at(&self) -> Result<u64, ScenarioError> {
        let at = self.table.need("at", "the time of the fault, such as \"10s\"")?;
        match at.time()? {
            late if late >= self.end_us => {
                Err(at.refuse("at: expected a time before the end of the run; use an earlier time or a longer duration"))
            }
            at_us => Ok(at_us),
        }
    }

    /// Reads a time later than `at` and not after the end of the run.
    fn later(&self, key: &'t str, at_us: u64) -> Result<Option<u64>, ScenarioError> {
        let Some(field) = self.table.get(key) else { return Ok(None) };
        match field.time()? {
            early if early <= at_us => Err(field.refuse(format_args!("{key}: expected a time after at; use a later time"))),
            late if late > self.end_us => {
                Err(field.refuse(format_args!("{key}: expected a time within the run; omit it, or use a longer duration")))
            }
            time => Ok(Some(time)),
        }
    }

    fn until(&self, at_us: u64) -> Result<u64, ScenarioError> {
        Ok(self.later("until", at_us)?.unwrap_or(self.end_us))
    }

    fn nodes(&self) -> Result<Vec<usize>, ScenarioError> {
        self.table.need("nodes", "the affected nodes, such as [0, 3]")?.nodes(self.size)
    }

    fn links(&self) -> Result<Links, ScenarioError> {
        let [nodes, from, to] = ["nodes", "from", "to"].map(|key| self.table.get(key));
        let read = |field: Field<'_>| field.nodes(self.size);
        match (nodes, from, to) {
            (None, None, None) => Ok(Links::AttachedTo((0..self.size).collect())),
            (Some(nodes), None, None) => Ok(Links::AttachedTo(read(nodes)?)),
            (None, Some(from), Some(to)) => Ok(Links::Between { from: read(from)?, to: read(to)? }),
            (None, Some(alone), None) => Err(alone.refuse("from: expected to as well; add the nodes at the other end")),
            (None, None, Some(alone)) => Err(alone.refuse("to: expected from as well; add the nodes at the other end")),
            (Some(nodes), _, _) => Err(nodes.refuse("nodes: expected either nodes, or from and to; remove one")),
        }
    }

    fn groups(&self) -> Result<Vec<Vec<usize>>, ScenarioError> {
        let want = "a list of lists of nodes, such as [[0, 1], [2, 3]]";
        let field = self.table.need("groups", "the nodes that stay connected, such as [[0, 1], [2, 3]]")?;
        let mut groups = Vec::new();
        let mut grouped = vec![false; self.size];
        for item in field.list(want)? {
            let group = item.nodes(self.size)?;
            if let Some(node) = group.iter().find(|&&node| std::mem::replace(&mut grouped[node], true)) {
                return Err(item.refuse(format_args!("groups: expected each node once, got node {node} twice")));
            }
            groups.push(group);
        }
        match grouped.iter().position(|&grouped| !grouped) {
            Some(node) => {
                Err(field
                    .refuse(format_args!("groups: expected each node once, node {node} is missing; add the group [{node}]")))
            }
            None => Ok(groups),
        }
    }
}

/// The faults so far, and their effect on each node.
#[derive(Default)]
struct All {
    faults: Vec<Fault>,
    /// Periods in which a node has no power: from, until.
    dark: BTreeMap<usize, Vec<(u64, u64)>>,
    byzantine: BTreeSet<usize>,
    joining: BTreeSet<usize>,
    leaving: BTreeSet<usize>,
    rotating: BTreeSet<usize>,
    partitions: Vec<(u64, u64)>,
}

impl All {
    fn add(&mut self, item: Field<'_>, fault: Fault) -> Result<(), ScenarioError> {
        match &fault {
            Fault::Crash { at_us, nodes, restart_at_us } | Fault::DiskLoss { at_us, nodes, restart_at_us } => {
                self.power_off(item, (*at_us, restart_at_us.unwrap_or(u64::MAX)), nodes)?;
            }
            Fault::Partition { at_us, until_us, .. } => {
                let window = (*at_us, *until_us);
                if self.partitions.iter().any(|&other| overlap(other, window)) {
                    return Err(item.refuse("two partitions overlap; end one before the next, or combine them"));
                }
                self.partitions.push(window);
            }
            Fault::Byzantine { nodes, .. } => self.corrupt(item, nodes)?,
            Fault::Join { nodes, .. } => once(item, nodes, &mut self.joining, "joins")?,
            Fault::Leave { nodes, .. } => once(item, nodes, &mut self.leaving, "leaves")?,
            Fault::Rotate { nodes, .. } => once(item, nodes, &mut self.rotating, "replaces its keys")?,
            Fault::Delay { .. } | Fault::Loss { .. } | Fault::Slow { .. } | Fault::Sequencer { .. } => {}
            Fault::NoNotices { .. } | Fault::BadDealer { .. } => {}
        }
        self.faults.push(fault);
        Ok(())
    }

    /// The validators of the genesis have the lowest numbers.
    fn check_joining(&self, list: Field<'_>, size: usize) -> Result<(), ScenarioError> {
        let first = size - self.joining.len();
        if first == 0 {
            return Err(list.refuse("join: expected at least one validator in the genesis; add nodes"));
        }
        match self.joining.first().filter(|node| **node < first) {
            Some(node) => Err(list.refuse(format_args!("join: expected the nodes from {first} on, got {node}; renumber them"))),
            None => Ok(()),
        }
    }

    fn power_off(&mut self, item: Field<'_>, window: (u64, u64), nodes: &[usize]) -> Result<(), ScenarioError> {
        for node in nodes {
            if self.byzantine.contains(node) {
                return Err(both(item, *node));
            }
            let dark = self.dark.entry(*node).or_default();
            if dark.iter().any(|&other| overlap(other, window)) {
                return Err(item.refuse(format_args!(
                    "node {node} is already crashed at this time; use an earlier restart_at in the earlier fault"
                )));
            }
            dark.push(window);
        }
        Ok(())
    }

    fn corrupt(&mut self, item: Field<'_>, nodes: &[usize]) -> Result<(), ScenarioError> {
        for node in nodes {
            if self.dark.contains_key(node) {
                return Err(both(item, *node));
            }
            if !self.byzantine.insert(*node) {
                return Err(item.refuse(format_args!("node {node} is already Byzantine; a node has one behaviour")));
            }
        }
        Ok(())
    }
}

fn once(item: Field<'_>, nodes: &[usize], all: &mut BTreeSet<usize>, does: &str) -> Result<(), ScenarioError> {
    match nodes.iter().find(|node| !all.insert(**node)) {
        Some(node) => Err(item.refuse(format_args!("node {node} {does} twice; remove one"))),
        None => Ok(()),
    }
}

fn overlap(one: (u64, u64), other: (u64, u64)) -> bool {
    one.0 < other.1 && other.0 < one.1
}

fn both(item: Field<'_>, node: usize) -> ScenarioError {
    item.refuse(format_args!("node {node} both crashes and is Byzantine; use one, such as the behaviour \"silent\""))
}
