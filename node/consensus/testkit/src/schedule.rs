//! Seeded fault schedules. Faults come first; then everything heals, and the cluster must make progress.
//!
//! A *double* ([`Double`]) is a Byzantine validator. Every fourth seed makes an equivocation schedule: f validators sign
//! several proposals per round, and links reorder messages. If the engine has doubles of its own, every second seed
//! makes a coalition schedule: f of those doubles, usually neighbours, so that they lead consecutive views.
//!
//! If the engine tolerates crashes only, nobody is Byzantine, and all schedules are mixed ones.
//!
//! A run is a function of the kit, its committee's size and the seed. At most f validators are Byzantine, lose their disk
//! or stay off, so every schedule must succeed. Any number of the other validators may crash, be partitioned or be slow
//! at the same time.
//!
//! A validator can crash before its first record and restart so late that it must sync from certified commits. This is
//! like a lost disk, so the validator counts as one of the f. The schedule cannot know this in advance. Therefore no disk
//! is lost while f validators are already faulty. If the late validator itself is number f + 1, the run must be safe, but
//! need not make progress.

use crate::{DiskModel, Double, Jitter, Kit, Links, Micros, Random, TestCluster, engine_host::index, faulty_members};
use corniche_engine::Committee;
use corniche_types::FaultModel;
use std::{collections::BTreeMap, fmt, rc::Rc};

/// Duration of the faults, in mixed schedules and in coalition schedules.
const FAULT_DURATION: Micros = Micros::from_millis(2_500);
const COALITION_DURATION: Micros = Micros::from_seconds(6);
/// Time from the healing until everything accepted must be delivered everywhere.
pub const SETTLE_TIMEOUT: Micros = Micros::from_seconds(60);

/// Every EQUIVOCATION_INTERVAL-th seed makes an equivocation schedule.
const EQUIVOCATION_INTERVAL: u64 = 4;
/// If the engine has its own doubles, one in COALITION_INTERVAL seeds makes a coalition schedule.
const COALITION_INTERVAL: u64 = 2;
/// Doubles that sign several proposals per round. The most dangerous one appears twice.
const EQUIVOCATING_DOUBLES: [Double; 4] = [Double::Triplets, Double::Triplets, Double::Twin, Double::Equivocator];

/// Result of a successful schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Digest of the sequence of commits.
    pub digest: u64,
    pub commits: u64,
    pub events: u64,
    pub ended_at: Micros,
}

/// One seed's schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub seed: u64,
    pub size: usize,
    pub doubles: BTreeMap<usize, Double>,
    /// Validators that do not restart.
    pub dead: Vec<usize>,
    pub links: Links,
    pub disks: DiskModel,
    /// Minimum time between two blocks, ms: see [`SafetyChecker::block_ms`](crate::SafetyChecker).
    pub block_ms: u64,
    /// Time from the start until everything heals.
    pub fault_duration: Micros,
    pub steps: BTreeMap<(Micros, usize), Step>,
}

/// One scheduled action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Submit(usize),
    Crash(usize),
    /// Restarts a validator with its state of this many commits ago; 0 for the newest state.
    Restart(usize, u64),
    LoseDisk(usize),
    Partition(Vec<usize>, Vec<usize>),
    Heal,
    /// Lost messages per million.
    Loss(u32),
    Slow(usize, Micros),
}

impl Schedule {
    /// Returns the schedule of this seed for the kit's committee.
    pub fn new(kit: &dyn Kit, seed: u64) -> Self {
        let (committee, own) = (kit.committee(), kit.engine_doubles());
        if committee.fault_model() == FaultModel::Crash {
            Self::mixed(committee, own, seed)
        } else if seed % COALITION_INTERVAL == 1 && !own.is_empty() {
            Self::coalition(committee, own, seed)
        } else if seed.is_multiple_of(EQUIVOCATION_INTERVAL) {
            Self::equivocating(committee, seed)
        } else {
            Self::mixed(committee, own, seed)
        }
    }

    /// Doubles that only this engine has, with up to F votes. In half of the cases, other validators have faults too.
    fn coalition(committee: &Committee, own: &[&'static str], seed: u64) -> Self {
        let size = committee.size();
        let mut random = Random::new(seed).fork("plot");
        let mut order: Vec<_> = (0..size).collect();
        if random.one_in(3) {
            random.shuffle(&mut order);
        } else {
            order.rotate_left(random.below(size as u64) as usize);
        }
        let (coalition, alive) = order.split_at(faulty_members(committee, order.iter().copied()).count());
        // In half of the cases, all members use the last double, which combines all attacks.
        let kinds = if random.one_in(2) { &own[own.len() - 1..] } else { own };
        let doubles =
            coalition.iter().map(|identity| (*identity, Double::Own(kinds[random.below(kinds.len() as u64) as usize])));
        let mut schedule = Self {
            doubles: doubles.collect(),
            fault_duration: COALITION_DURATION,
            ..Self::without_faults(seed, size, &mut random)
        };
        // Engines are idle without load, and so are coalitions.
        (0..random.between(1, 4)).for_each(|_| schedule.add_load(alive, &mut random));
        if random.one_in(2) {
            schedule.add_faults(alive, &mut random);
        }
        schedule
    }

    /// Validators with up to F votes that sign several blocks per round, and links that reorder messages differently for every
    /// validator. No other faults.
    fn equivocating(committee: &Committee, seed: u64) -> Self {
        let size = committee.size();
        let mut random = Random::new(seed).fork("crowded");
        let mut order: Vec<_> = (0..size).collect();
        random.shuffle(&mut order);
        let (equivocators, alive) = order.split_at(faulty_members(committee, order.iter().copied()).count());
        let doubles = equivocators
            .iter()
            .map(|identity| (*identity, EQUIVOCATING_DOUBLES[random.below(EQUIVOCATING_DOUBLES.len() as u64) as usize]))
            .collect();
        let (least, most) = (random.between(1, 4), random.between(5, 30));
        let mut links = Links::matrix(size, |_, _| Micros::from_millis(random.between(least, most)));
        links.jitter = if random.one_in(2) { Jitter::Uniform(1_000_000) } else { Jitter::Pareto(1_000_000) };
        links.reordering = random.between(0, 500_000) as u32;
        let disks = DiskModel { sync: Micros(random.between(50, 2_000)), rate: None };
        let (dead, steps, block_ms, fault_duration) = (Vec::new(), BTreeMap::new(), block_ms(seed), FAULT_DURATION);
        let mut schedule = Self { seed, size, doubles, dead, links, disks, block_ms, fault_duration, steps };
        schedule.add_load(alive, &mut random);
        schedule
    }

    fn mixed(committee: &Committee, own: &[&'static str], seed: u64) -> Self {
        let size = committee.size();
        let mut random = Random::new(seed).fork("schedule");
        let mut order: Vec<_> = (0..size).collect();
        random.shuffle(&mut order);
        let faulty = faulty_members(committee, order.iter().copied()).count();
        let liars = if committee.fault_model() == FaultModel::Crash { 0 } else { faulty };
        let byzantine = random.between(0, liars as u64) as usize;
        let forgetful = random.between(0, (faulty - byzantine) as u64) as usize;
        let dead = random.between(0, (faulty - byzantine - forgetful) as u64) as usize;
        let (doubles, rest) = order.split_at(byzantine);
        let mut kinds = random.fork("own");
        let mut kind = |general| match own.len() as u64 {
            1.. if kinds.one_in(2) => Double::Own(own[kinds.below(own.len() as u64) as usize]),
            _ => general,
        };
        let doubles = doubles.iter().map(|identity| (*identity, kind(Double::ALL[random.below(8) as usize]))).collect();
        let (forgetful, rest) = rest.split_at(forgetful);
        let (dead, alive) = rest.split_at(dead);
        let mut schedule = Self { doubles, dead: dead.to_vec(), ..Self::without_faults(seed, size, &mut random) };
        schedule.add_load(alive, &mut random);
        schedule.add_faults(alive, &mut random);
        for identity in forgetful {
            let at = schedule.random_time(&mut random);
            schedule.add(at, Step::LoseDisk(*identity));
            schedule.add(at + Micros::from_millis(random.between(1, 800)), Step::Restart(*identity, 0));
        }
        for identity in dead {
            let at = schedule.random_time(&mut random);
            schedule.add(at, Step::Crash(*identity));
        }
        schedule
    }

    fn without_faults(seed: u64, size: usize, random: &mut Random) -> Self {
        Self {
            seed,
            size,
            doubles: BTreeMap::new(),
            dead: Vec::new(),
            links: links(size, random),
            disks: DiskModel { sync: Micros(random.between(50, 8_000)), rate: Some(200_000_000) },
            block_ms: block_ms(seed),
            fault_duration: FAULT_DURATION,
            steps: BTreeMap::new(),
        }
    }

    fn add(&mut self, at: Micros, step: Step) {
        let number = self.steps.len();
        self.steps.insert((at, number), step);
    }

    fn random_time(&self, random: &mut Random) -> Micros {
        Micros::START + Micros(random.below(self.fault_duration.0))
    }

    fn add_load(&mut self, alive: &[usize], random: &mut Random) {
        for _ in 0..random.between(5, 40) {
            let to = alive[random.below(alive.len() as u64) as usize];
            let at = self.random_time(random);
            self.add(at, Step::Submit(to));
        }
    }

    fn add_faults(&mut self, alive: &[usize], random: &mut Random) {
        for _ in 0..random.between(1, 8) {
            let (at, length) = (self.random_time(random), Micros::from_millis(random.between(1, 900)));
            let validator = alive[random.below(alive.len() as u64) as usize];
            match random.below(10) {
                0..5 => {
                    self.add(at, Step::Crash(validator));
                    let lag = if random.one_in(2) { 0 } else { random.between(1, 12) };
                    self.add(at + length, Step::Restart(validator, lag));
                }
                5..8 => {
                    let one = random.subset(self.size, random.clone().between(1, self.size as u64 - 1) as usize);
                    let other = (0..self.size).filter(|identity| !one.contains(identity)).collect();
                    self.add(at, Step::Partition(one, other));
                    self.add(at + length, Step::Heal);
                }
                8 => {
                    self.add(at, Step::Loss(random.between(10_000, 300_000) as u32));
                    self.add(at + length, Step::Loss(0));
                }
                _ => self.add(at, Step::Slow(validator, Micros::from_millis(random.between(50, 600)))),
            }
        }
    }
}

fn block_ms(seed: u64) -> u64 {
    [0, 30, 100, 300][Random::new(seed).fork("blocks").below(4) as usize]
}

fn links(size: usize, random: &mut Random) -> Links {
    let (least, most) = (random.between(1, 10), random.between(10, 60));
    let delays: Vec<_> = (0..size * size).map(|_| Micros::from_millis(random.between(least, most))).collect();
    let mut links = Links::matrix(size, |from, to| delays[from * size + to]);
    links.jitter = match random.below(3) {
        0 => Jitter::None,
        1 => Jitter::Uniform(random.between(10_000, 900_000) as u32),
        _ => Jitter::Pareto(random.between(10_000, 500_000) as u32),
    };
    for parts in [&mut links.loss, &mut links.duplication, &mut links.reordering] {
        *parts = if random.one_in(3) { random.between(1_000, 50_000) as u32 } else { 0 };
    }
    links
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "doubles {:?}, dead {:?}, jitter {:?}, loss {}, blocks of {} ms",
            self.doubles, self.dead, self.links.jitter, self.links.loss, self.block_ms
        )?;
        self.steps.iter().try_for_each(|((at, _), step)| writeln!(f, "{at}: {step:?}"))
    }
}

/// Runs the schedule of one seed. The error contains the failure and the command that repeats it.
pub fn run(kit: &Rc<dyn Kit>, seed: u64) -> Result<Outcome, String> {
    let schedule = Schedule::new(&**kit, seed);
    let varied = kit.with_random_parameters(&mut Random::new(seed).fork("parameters"), schedule.doubles.is_empty());
    let kit = varied.as_ref().unwrap_or(kit);
    let committee = kit.committee();
    let _repro = ReproOnPanic { name: kit.name(), size: committee.size(), seed };
    execute(kit, &schedule).map_err(|error| format!("{error}\n{}\n{schedule}", repro(kit.name(), committee.size(), seed)))
}

/// The command that repeats one schedule.
fn repro(name: &str, size: usize, seed: u64) -> String {
    format!(
        "reproduce: CORNICHE_SIZE={size} CORNICHE_SEED={seed} CORNICHE_SCHEDULES=1 \
         cargo test -p corniche-{name} --test suite schedules"
    )
}

/// Prints the command that repeats the run when an engine panics.
struct ReproOnPanic {
    name: &'static str,
    size: usize,
    seed: u64,
}

impl Drop for ReproOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", repro(self.name, self.size, self.seed));
        }
    }
}

fn execute(kit: &Rc<dyn Kit>, schedule: &Schedule) -> Result<Outcome, String> {
    let (links, disks) = (schedule.links.clone(), schedule.disks);
    let mut cluster = TestCluster::new(kit.clone(), schedule.doubles.clone(), links, disks, schedule.seed);
    cluster.checker.borrow_mut().block_ms = schedule.block_ms;
    cluster.start_all();
    for ((at, _), step) in &schedule.steps {
        cluster.run_until(*at)?;
        apply_step(&mut cluster, schedule, step);
    }
    cluster.run_until(Micros::START + schedule.fault_duration)?;
    heal(&mut cluster, schedule);
    match cluster.settle(SETTLE_TIMEOUT) {
        Err(_) if cluster.spare_votes(&schedule.dead).is_none() => cluster.check()?,
        settled => settled?,
    }
    // No violation may occur shortly afterwards either.
    cluster.run_for(Micros::from_millis(300))?;
    let checker = cluster.checker.borrow();
    let (digest, commits, events) = (checker.digest(), checker.log.len() as u64, cluster.simulation.statistics.events);
    Ok(Outcome { digest, commits, events, ended_at: cluster.now() })
}

fn apply_step(cluster: &mut TestCluster, schedule: &Schedule, step: &Step) {
    match step {
        Step::Submit(identity) => {
            cluster.submit(*identity);
        }
        Step::Crash(identity) => cluster.crash(*identity),
        Step::Restart(identity, lag) => cluster.restart(*identity, *lag),
        Step::LoseDisk(identity) => {
            let votes = cluster.kit.committee().votes(index(*identity));
            if cluster.spare_votes(&schedule.dead).is_some_and(|spare| votes <= spare) {
                cluster.lose_disk(*identity);
            }
        }
        Step::Partition(one, other) => {
            // All processes of a double belong to their identity's group.
            let with_seconds = |group: &Vec<usize>| {
                (0..cluster.simulation.size())
                    .filter(|process| group.contains(&cluster.simulation.identity(*process)))
                    .collect()
            };
            let groups = [with_seconds(one), with_seconds(other)];
            cluster.simulation.partition(&groups);
        }
        Step::Heal => cluster.simulation.heal(),
        Step::Loss(parts) => cluster.simulation.links.loss = schedule.links.loss.max(*parts),
        Step::Slow(identity, delay) => cluster.simulation.links.port(*identity).delay = *delay,
    }
}

/// Restarts all validators that are not in `dead`, and removes partitions, loss and delays except that of [`Double::Late`].
fn heal(cluster: &mut TestCluster, schedule: &Schedule) {
    cluster.simulation.heal();
    cluster.simulation.links.loss = 0;
    cluster.simulation.links.clear_ports();
    cluster.make_late();
    for identity in (0..schedule.size).filter(|identity| !schedule.dead.contains(identity)) {
        cluster.restart(identity, 0);
        cluster.follow(identity);
    }
}
