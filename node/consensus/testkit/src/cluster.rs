//! A committee of engines in a simulation, with users, Byzantine doubles, and the safety checker that checks them.

use crate::{
    Coalition, DiskModel, Double, EngineDisk, EngineProcess, EngineSetup, Kit, Links, Micros, ProcessNotes, Random, Simulation,
    doubles::LATE,
    engine_host::index,
    safety::{SafetyChecker, TransactionId, ValidatorStatus},
};
use corniche_types::{FaultModel, Votes};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

/// Default block length, ms.
const BLOCK_MS: u64 = 60;
/// Time between looks for validators that have to follow. A node follows after it got nothing for a second.
const FOLLOW_INTERVAL: Micros = Micros::from_seconds(1);

/// A committee with its users. Validators are named by identity. The first process of a double has the number of its
/// identity; its other processes have numbers above the committee's.
pub struct TestCluster {
    pub simulation: Simulation<EngineProcess>,
    pub checker: Rc<RefCell<SafetyChecker>>,
    pub(crate) kit: Rc<dyn Kit>,
    doubles: BTreeMap<usize, Double>,
    /// Validators with commits but without records, now or earlier. Their disk was lost, or they followed certified
    /// commits before their first record. They may be unable to tell which, and then both count among the f. Engines that tolerate
    /// crashes only cannot tell without commits either.
    recordless: BTreeSet<usize>,
    next_transaction: TransactionId,
}

impl TestCluster {
    /// All validators are powered off until [`TestCluster::start_all`].
    pub fn new(kit: Rc<dyn Kit>, doubles: BTreeMap<usize, Double>, links: Links, disks: DiskModel, seed: u64) -> Self {
        let size = kit.committee().size();
        let further = doubles.iter().flat_map(|(identity, double)| (1..double.processes()).map(|_| *identity));
        let identities: Vec<usize> = (0..size).chain(further).collect();
        let mut checker = SafetyChecker::new(size);
        checker.block_ms = BLOCK_MS;
        doubles.keys().for_each(|identity| checker.set_status(*identity, ValidatorStatus::Byzantine));
        checker.message_checker = kit.message_checker();
        let checker = Rc::new(RefCell::new(checker));
        let coalition = coalition(&*kit, &doubles);
        let group = kit.group();
        let start = {
            let (kit, checker, doubles, identities) = (kit.clone(), checker.clone(), doubles.clone(), identities.clone());
            Box::new(move |process: usize, disk: EngineDisk<ProcessNotes>, now, seed| {
                let me = identities[process];
                let (double, coalition, group) = (doubles.get(&me).copied(), coalition.clone(), group.clone());
                let setup = EngineSetup { kit: kit.clone(), checker: checker.clone(), me, double, coalition, group };
                EngineProcess::launch(setup, disk, now, seed)
            })
        };
        let simulation = Simulation::with_identities(identities.clone(), links, disks, seed, start);
        let mut cluster = Self { simulation, checker, kit, doubles, recordless: BTreeSet::new(), next_transaction: 1 };
        cluster.separate_equivocators(&identities, &mut Random::new(seed).fork("halves"));
        cluster.make_late();
        cluster
    }

    /// Connects every validator to one of an equivocator's two processes only.
    fn separate_equivocators(&mut self, identities: &[usize], random: &mut Random) {
        let size = self.size();
        for second in size..identities.len() {
            let first = identities[second];
            if self.doubles.get(&first) == Some(&Double::Equivocator) {
                let half = random.subset(size, size / 2);
                for (process, identity) in identities.iter().enumerate() {
                    let sees_second = half.contains(identity);
                    self.simulation.separate(process, if sees_second { first } else { second });
                }
            }
        }
    }

    /// Applies the delay of late doubles. Needed again after [`Links::clear_ports`].
    pub fn make_late(&mut self) {
        for (identity, _) in self.doubles.iter().filter(|(_, double)| **double == Double::Late) {
            self.simulation.links.port(*identity).delay = LATE;
        }
    }

    pub fn size(&self) -> usize {
        self.kit.committee().size()
    }

    pub fn start_all(&mut self) {
        self.simulation.start_all();
    }

    pub fn now(&self) -> Micros {
        self.simulation.now()
    }

    pub fn is_byzantine(&self, identity: usize) -> bool {
        self.doubles.contains_key(&identity)
    }

    /// Votes that may still become faulty, if the validators in `dead` stay off. `None`: more than F are faulty.
    pub fn spare_votes(&self, dead: &[usize]) -> Option<Votes> {
        let faulty: BTreeSet<usize> = self.doubles.keys().chain(&self.recordless).chain(dead).copied().collect();
        let committee = self.kit.committee();
        let (votes, most) = (committee.weigh(faulty.into_iter().map(index)), committee.max_faulty());
        (votes <= most).then(|| most - votes)
    }

    /// Validators that are not Byzantine and are powered on.
    pub fn running(&self) -> impl Iterator<Item = usize> {
        (0..self.size()).filter(|identity| !self.is_byzantine(*identity) && self.simulation.is_up(*identity))
    }

    /// Submits a user's transaction to one validator. Returns `None` if it is not running.
    pub fn submit(&mut self, identity: usize) -> Option<TransactionId> {
        let (id, now) = (self.next_transaction, self.simulation.now());
        self.simulation.with(identity, |process| process.submit(now, id))?;
        self.next_transaction += 1;
        Some(id)
    }

    pub fn crash(&mut self, identity: usize) {
        self.simulation.crash(identity);
    }

    /// Powers the validator on with its state of `lag` commits ago, as if later states had not been stored. A validator
    /// too far behind its peers follows certified commits first, as a node does.
    pub fn restart(&mut self, identity: usize, lag: u64) {
        let certified = self.certified(identity).unwrap_or(0);
        let max_lag = self.kit.max_lag();
        if let Some(disk) = self.simulation.disk(identity) {
            disk.notes.position = disk.notes.position.saturating_sub(lag);
            if disk.notes.position + max_lag < certified {
                disk.notes.position = certified;
            }
            // A Byzantine engine without records and commits begins anew. One for crashes does not know that it lost nothing.
            let can_tell = disk.notes.position == 0 && self.kit.committee().fault_model() == FaultModel::Byzantine;
            if !can_tell && disk.records.is_empty() && disk.may_have_signed {
                self.recordless.insert(identity);
            }
        }
        self.simulation.restart(identity);
    }

    /// Restarts a running validator from a certified commit if it is too far behind its peers' engines.
    pub fn follow(&mut self, identity: usize) {
        let (at, certified) = (self.position(identity), self.certified(identity).unwrap_or(0));
        if at.is_some_and(|at| at + self.kit.max_lag() < certified) {
            self.crash(identity);
            self.restart(identity, 0);
        }
    }

    /// Powers the validator off and erases its disk. It must then follow the others to a certified commit, and starts
    /// its engine there without records. Returns false, and does nothing, if there is no certified commit yet.
    pub fn lose_disk(&mut self, identity: usize) -> bool {
        let Some(certified) = self.certified(identity) else { return false };
        self.simulation.crash(identity);
        let Some(disk) = self.simulation.disk(identity) else { return false };
        self.checker.borrow_mut().waive_delivery(std::mem::take(&mut disk.notes.submitted));
        disk.records.clear();
        disk.may_have_signed = true;
        disk.notes.position = certified;
        self.recordless.insert(identity);
        self.checker.borrow_mut().set_status(identity, ValidatorStatus::LostRecords);
        true
    }

    /// Latest commit that other running, non-Byzantine validators with at least F + 1 votes delivered.
    fn certified(&self, identity: usize) -> Option<u64> {
        let others = self.running().filter(|other| *other != identity);
        let positions = others.filter_map(|other| Some((index(other), self.position(other)?)));
        let committee = self.kit.committee();
        committee.weights().reached(positions, committee.validity()).filter(|position| *position > 0)
    }

    /// Last commit that a running validator delivered.
    pub fn position(&self, identity: usize) -> Option<u64> {
        self.simulation.process(identity).map(EngineProcess::position)
    }

    /// True if every running validator delivered every transaction that a correct validator accepted, and the block is
    /// closed.
    pub fn is_settled(&self) -> bool {
        let target = self.checker.borrow().target_commit();
        target.is_some_and(|target| self.running().all(|identity| self.position(identity).is_some_and(|at| at >= target)))
    }

    /// Runs until `end`, or until the first violation.
    pub fn run_until(&mut self, end: Micros) -> Result<(), String> {
        let checker = self.checker.clone();
        self.simulation.run_until_done(end, |_| checker.borrow().verdict().is_err());
        self.certify();
        self.check()
    }

    /// Passes the latest certified commit to each engine, as nodes learn it from certificates.
    fn certify(&mut self) {
        let now = self.now();
        for identity in 0..self.size() {
            if let Some(certified) = self.certified(identity) {
                self.simulation.with(identity, |process| process.certified(now, certified));
            }
        }
    }

    pub fn run_for(&mut self, time: Micros) -> Result<(), String> {
        self.run_until(self.now() + time)
    }

    /// Runs until everything accepted is delivered. Fails after `limit`. A validator that falls too far behind its peers
    /// meanwhile follows certified commits, as a node does.
    pub fn settle(&mut self, limit: Micros) -> Result<(), String> {
        let end = self.now() + limit;
        let mut follow_at = self.now() + FOLLOW_INTERVAL;
        while !self.is_settled() {
            if self.now() >= end {
                return Err(self.no_progress(limit));
            }
            self.run_for(Micros::from_millis(10))?;
            if self.now() >= follow_at {
                follow_at = self.now() + FOLLOW_INTERVAL;
                let running: Vec<_> = self.running().collect();
                running.into_iter().for_each(|identity| self.follow(identity));
            }
        }
        Ok(())
    }

    fn no_progress(&self, limit: Micros) -> String {
        let missing: Vec<_> = self.checker.borrow().missing().collect();
        let processes = self.running().filter_map(|identity| Some((identity, self.simulation.process(identity)?)));
        let lines: Vec<_> =
            processes.map(|(identity, process)| format!("\n  validator {identity}: {}", process.describe())).collect();
        let what = if missing.is_empty() { "a block is open".into() } else { format!("not ordered {missing:?}") };
        format!("no progress within {limit} after everything healed: {what}{}", lines.concat())
    }

    /// Checks safety so far, and the memory limit.
    pub fn check(&self) -> Result<(), String> {
        self.checker.borrow().verdict()?;
        let held = |identity: &usize| self.simulation.process(*identity).map_or(0, EngineProcess::footprint);
        match self.running().find(|identity| held(identity) > self.kit.max_footprint()) {
            Some(identity) => {
                let inside = self.simulation.process(identity).map(EngineProcess::describe).unwrap_or_default();
                Err(format!(
                    "memory: validator {identity} held {}, at most {}: {inside}",
                    held(&identity),
                    self.kit.max_footprint()
                ))
            }
            None => Ok(()),
        }
    }
}

/// The coalition of the doubles that only this engine's kit knows.
fn coalition(kit: &dyn Kit, doubles: &BTreeMap<usize, Double>) -> Option<Rc<RefCell<Box<dyn Coalition>>>> {
    let own = doubles.iter().filter_map(|(identity, double)| match double {
        Double::Own(name) => Some((*identity, *name)),
        _ => None,
    });
    let members: BTreeMap<_, _> = own.collect();
    let coalition = (!members.is_empty()).then(|| kit.coalition(&members)).flatten();
    coalition.map(|coalition| Rc::new(RefCell::new(coalition)))
}
