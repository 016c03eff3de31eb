//! Epoch changes, exhaustively: no committed batch is lost or replaced. Three correct members and a liar have equal votes, so three are
//! a quorum.
//!
//! The rules are those of the engine: `Instance` counts votes, `Promises` decides what a member may do, [`MirVerifier`] checks messages,
//! and [`rules`] selects and judges configurations. The adversary is the liar together with the network. It leads all numbers, and is
//! the primary of all epochs:
//!
//! - It shows each member one of two batches of a number, the listed one, or none. It votes for everything, and delivers PREPAREs,
//!   COMMITs and checkpoints, or not. So an honest leader is one of its choices, and so is a member that is late or missed an epoch.
//! - Its EPOCH-CHANGEs contain each checkpoint, configuration and prepared certificate that exists, new or old, or none. It tries each
//!   claim with too few votes, with forged ones and with repeated ones. The verifier decides.
//! - It offers each configuration to each member, for each quorum of EPOCH-CHANGEs: all starts and all lists of batches, null batches
//!   among them. The rules decide. Gracious changes too, where only some members finished the epoch (M19).
//!
//! Each configuration for which some correct member would vote must list each batch that was committed before, or begin after it. All
//! numbers before its start must be decided. No number may have two committed batches.
//!
//! Equal worlds are merged. Names of members do not count, nor do those of the two batches. These reductions leave out no decision:
//!
//! - A step in an epoch needs nothing from later epochs, and no statement prevents a step of another member. So all votes of an epoch
//!   come before all steps in later epochs, those of members that stay behind too.
//! - Numbers are voted about one after the other: these rules look at one number.
//! - All members leave after each epoch, because nobody has to use their EPOCH-CHANGEs. Only members that could begin a gracious epoch
//!   may also stay.
//! - A COMMIT leaves with its certificate. A batch is committed when COMMITs of a quorum exist, and then all sign the checkpoint.
//! - Only the smallest quorums of ECHOs count, and nobody is suspected: leaders do not matter, because the liar leads all numbers.
//!
//! One number and four changes: 77,000 worlds. Two numbers and two changes: 23,000 worlds. Soak runs have five changes of one number
//! (567,000), and three changes of two (1.2 million). Three numbers have a million worlds before the second change already.
//!
//! Not covered: other committees, unequal votes, more than two numbers, lost disks (X9, T3), the window (S5). A member has what is in
//! its records, so a restart changes nothing, but the order of records and messages is not modelled. One batch for each number and
//! epoch (X1), and the loss of certificates below a checkpoint (K2), are rules of the model. Scenarios check them in the engine.
//!
//! Modules: `votes` (3.4), `changes` (3.5–3.7), `messages` (what the verifier sees), `values`, and `wrong` (rules that lose batches).

mod changes;
mod messages;
mod values;
mod votes;
mod wrong;

use changes::votes_after_leaving;
use corniche_engine::Committee;
use corniche_mir::{
    Config, MirVerifier,
    message::{
        CheckpointCertificate, Context, EpochCertificate, EpochChange, EpochConfig, EpochNumber, NULL, PreparedCertificate, Sn,
        Votes,
    },
    rules,
};
use corniche_mir_testing::{FakeSignatures, committee};
use corniche_types::{B256, ValidatorIndex};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    rc::Rc,
    sync::Arc,
};
use values::{Numbers, Shown, lists};
use votes::{Choice, Outcome};

/// Correct members. They have the first indices.
const CORRECT: usize = 3;
const LIAR: ValidatorIndex = ValidatorIndex(CORRECT as u16);
/// Maximum of [`Model::numbers`].
const NUMBERS: usize = 2;
/// The null batch, and two batches of the leader for each number.
const BATCHES: [B256; 3] = [NULL, B256::repeat_byte(1), B256::repeat_byte(2)];
/// Gracious changes come soon.
const EPOCH_LENGTH: u64 = 1;

/// Index in [`BATCHES`].
type Batch = u8;
/// Number of a member, a configuration, or an EPOCH-CHANGE in [`Model`].
type Number = u32;
/// Result of a search.
type Found = Rc<[Number]>;
/// EPOCH-CHANGEs with their targets, ascending.
type Changes = Vec<(u64, Number)>;
type Each<T> = [T; CORRECT];
type PerNumber<T> = [Option<T>; NUMBERS];
/// U6: judges a configuration by the EPOCH-CHANGEs that its primary names.
type Judge = fn(&EpochConfig, &[&EpochChange], &Committee, u64) -> bool;

/// All correct members and the liar, between two phases of an epoch. Members are sorted, because no rule depends on their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    members: Each<Number>,
    shown: Shown,
    /// Batches of which the liar can show COMMITs of a quorum.
    committed: PerNumber<Batch>,
}

/// A correct member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Member {
    /// Configuration of its epoch.
    config: Number,
    target: Option<u64>,
    stable: u64,
    /// Epoch and batch of its certificate.
    prepared: PerNumber<(u64, Batch)>,
    sent: Changes,
}

/// Content of an EPOCH-CHANGE.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Content {
    config: Number,
    stable: u64,
    prepared: PerNumber<(u64, Batch)>,
}

/// Something that needs votes of a quorum.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// Epoch, number and batch.
    Prepared(u64, u64, Batch),
    Checkpoint(u64),
    Config(Number),
}

/// The way to a world: the worlds at the begin of epochs.
struct Trace {
    world: World,
    before: Option<Rc<Trace>>,
}

type Layer = BTreeMap<World, Rc<Trace>>;

/// Result of [`Model::explore`].
struct Report {
    worlds: usize,
    /// Configurations that correct members would vote for.
    configs: Vec<EpochConfig>,
}

struct Model {
    /// Leaders propose batches of so many numbers.
    numbers: u64,
    /// The last epoch. Its configurations are judged, and nobody votes in it.
    epochs: u64,
    judge: Judge,
    committee: Committee,
    context: Context,
    verifier: MirVerifier,
    configs: Vec<EpochCertificate>,
    members: Numbers<Member>,
    contents: Numbers<Content>,
    /// Sets of EPOCH-CHANGEs of the liar.
    lies: Numbers<Found>,
    /// All checkpoints with all lists of batches after them.
    lists: Rc<[(Sn, Vec<B256>)]>,
    memory: Memory,
}

/// Results of rules. Each is computed once.
#[derive(Default)]
struct Memory {
    certificates: BTreeMap<(u64, u64, Batch), PreparedCertificate>,
    checkpoints: BTreeMap<u64, CheckpointCertificate>,
    proofs: BTreeMap<(Claim, Each<bool>), bool>,
    quorums: BTreeMap<(u64, Each<bool>, bool), bool>,
    valid: BTreeMap<(u64, Number), bool>,
    choices: BTreeMap<(u64, u64, Number), Choice>,
    outcomes: BTreeMap<(u64, u64, Each<Choice>), Rc<[Outcome]>>,
    left: BTreeMap<(u64, u64, Number), Found>,
    entered: BTreeMap<(Number, Number, u64), Number>,
    echoing: BTreeMap<(u64, Number, bool), bool>,
    lies: BTreeMap<(u64, u64, Shown, Vec<Number>), Number>,
    selected: BTreeMap<(u64, Changes, Option<Number>), Found>,
    judged: BTreeMap<(u64, Changes), Found>,
}

impl Model {
    fn new(numbers: u64, epochs: u64) -> Self {
        let committee = committee(CORRECT + 1);
        let config = Config { epoch_length: EPOCH_LENGTH, ..Config::default() };
        Self {
            numbers,
            epochs,
            judge: rules::is_selected,
            context: Context::new(&committee),
            verifier: MirVerifier::new(config, committee.clone(), Arc::new(FakeSignatures)),
            configs: vec![EpochCertificate { config: rules::first_epoch(&committee), votes: Votes::new() }],
            committee,
            members: Numbers::default(),
            contents: Numbers::default(),
            lies: Numbers::default(),
            lists: lists(numbers).into(),
            memory: Memory::default(),
        }
    }

    /// Tries everything. The error is the way to a world that breaks a rule.
    fn explore(mut self) -> Result<Report, String> {
        let new = Member { config: 0, target: None, stable: 0, prepared: [None; NUMBERS], sent: Vec::new() };
        let start = World { members: [self.members.number(new); CORRECT], shown: Shown(0), committed: [None; NUMBERS] };
        let mut layer = Layer::from([(start, Rc::new(Trace { world: start, before: None }))]);
        let mut worlds = 1;
        for epoch in 0..self.epochs {
            if votes_after_leaving() {
                layer = self.expand(&layer, epoch, Self::leave)?;
            }
            layer = self.expand(&layer, epoch, Self::vote)?;
            worlds += layer.len();
            layer = self.expand(&layer, epoch, Self::leave)?;
            worlds += layer.len();
            layer = self.expand(&layer, epoch + 1, Self::change)?;
            worlds += layer.len();
            for (world, trace) in &mut layer {
                *trace = Rc::new(Trace { world: *world, before: Some(trace.clone()) });
            }
        }
        Ok(Report { worlds, configs: self.configs.into_iter().map(|certificate| certificate.config).collect() })
    }

    fn expand(
        &mut self,
        layer: &Layer,
        epoch: u64,
        phase: fn(&mut Self, &World, u64) -> Result<Vec<World>, String>,
    ) -> Result<Layer, String> {
        let mut next = Layer::new();
        for (world, trace) in layer {
            let after = phase(self, world, epoch).map_err(|error| self.describe(&error, world, trace))?;
            for mut world in after {
                world.members.sort_unstable();
                next.entry(world).or_insert_with(|| trace.clone());
            }
        }
        Ok(next)
    }

    fn describe(&self, error: &str, world: &World, trace: &Rc<Trace>) -> String {
        let before = std::iter::successors(Some(trace), |trace| trace.before.as_ref()).map(|trace| &trace.world);
        let worlds: Vec<_> = [world].into_iter().chain(before).collect();
        let mut text = format!("{error}, after\n");
        for world in worlds.into_iter().rev() {
            for member in world.members.map(|number| &self.members[number]) {
                _ = writeln!(text, "{member:?} in {:?}", self.configs[member.config as usize].config);
                for (target, content) in &member.sent {
                    _ = writeln!(text, "  EPOCH-CHANGE for {target}: {:?}", self.contents[*content]);
                }
            }
            let shown: Vec<_> = world.shown.all().collect();
            _ = writeln!(text, "certificates (epoch, number, batch) {shown:?}, committed {:?}", world.committed);
        }
        text
    }
}

impl World {
    /// The last number up to which all are committed.
    fn delivered(&self) -> u64 {
        self.committed.iter().take_while(|committed| committed.is_some()).count() as u64
    }
}

// ---- tests -------------------------------------------------------------------------------------------------------------

fn assert_agreement(model: Model) -> Report {
    let report = model.explore().unwrap_or_else(|error| panic!("{error}"));
    assert!(report.worlds > 10_000, "only {} worlds", report.worlds);
    report
}

#[test]
fn batches_survive_four_changes() {
    let Report { configs, .. } = assert_agreement(Model::new(1, 4));
    let last = configs.iter().filter(|config| config.epoch == EpochNumber(4));
    let lists: BTreeSet<_> = last.map(|config| (config.start, config.listed.clone())).collect();
    let expected = [(0, &[][..]), (0, &[BATCHES[1]]), (0, &[BATCHES[2]]), (1, &[])];
    assert_eq!(lists, expected.map(|(start, listed)| (Sn(start), listed.to_vec())).into());
}

#[test]
fn lists_survive_two_changes() {
    let Report { configs, .. } = assert_agreement(Model::new(2, 2));
    let has = |start, listed: &[B256]| configs.iter().any(|config| (config.start, &*config.listed) == (Sn(start), listed));
    assert!(has(0, &[NULL, BATCHES[1]]) && has(0, &[BATCHES[2], BATCHES[1]]), "gaps, and batches of different epochs");
    assert!(has(1, &[BATCHES[1]]) && has(2, &[]), "checkpoints");
}

#[test]
fn wrong_selections_lose_batches() {
    let wrong: [(&str, Judge); 6] = [
        ("accepts all", wrong::accepts_all),
        ("ignores certificates", wrong::ignores_certificates),
        ("takes the oldest certificate", wrong::takes_oldest),
        ("takes the lowest start", wrong::takes_lowest_start),
        ("accepts null", wrong::accepts_null),
        ("accepts old EPOCH-CHANGEs", wrong::accepts_old),
    ];
    for (name, judge) in wrong {
        assert!(Model { judge, ..Model::new(1, 2) }.explore().is_err(), "{name}");
    }
}

#[test]
#[ignore = "minutes; for soak runs"]
fn batches_survive_in_larger_models() {
    assert_agreement(Model::new(1, 5));
    assert_agreement(Model::new(2, 3));
}
