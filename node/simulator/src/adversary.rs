//! Network adversaries. They see every message, but nothing of a coin before it opens. They delay messages, but never
//! for ever.

use crate::{
    network::{Message, Network},
    scenario::{self, Scenario},
};
use corniche_testkit::{Adversary, Delivery, Micros, Random, View};
use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

/// Number of rounds for which the asynchronous scheduler keeps its victims.
const VICTIM_ROUNDS: u64 = 16;
/// Number of rounds for which it holds a proposal back: until the votes on it are cast, for waves of up to five rounds.
const VOTE_ROUNDS: u64 = 3;

/// Creates the adversary of a scenario.
pub fn of(scenario: &Scenario, network: &Rc<Network>, seed: u64) -> Option<Box<dyn Adversary<Message>>> {
    let longest = Micros(scenario.network.adversary_delay_us);
    let random = Random::new(seed).fork("adversary");
    let model = match scenario.network.adversary {
        scenario::Adversary::None => return None,
        scenario::Adversary::Leaders => {
            // Mahi-Mahi and Autobahn report their leaders.
            let by_proposal = !matches!(scenario.engine.as_str(), "mahi-mahi" | "autobahn");
            return Some(Box::new(Leaders { network: network.clone(), longest, by_proposal }));
        }
        scenario::Adversary::Random => Model::Random,
        scenario::Adversary::Worst => Model::Worst,
    };
    let (audible, held) = (BTreeMap::new(), BTreeMap::new());
    Some(Box::new(Scheduler { network: network.clone(), model, longest, random, audible, held }))
}

/// Delays all messages of the newest known leaders.
struct Leaders {
    network: Rc<Network>,
    longest: Micros,
    /// A leader is known by its proposal.
    by_proposal: bool,
}

impl Adversary<Message> for Leaders {
    fn delivery(&mut self, _: &mut View<'_>, from: usize, _: usize, message: &Message) -> Delivery {
        if self.by_proposal && message.peek(&self.network, from).is_some_and(|(_, author)| author == from) {
            self.network.elected.borrow_mut().1 = vec![from];
        }
        let leads = self.network.elected.borrow().1.contains(&from);
        if leads { Delivery::Delayed(self.longest) } else { Delivery::Normal }
    }
}

/// Choice of the proposals that a validator receives in time.
#[derive(Clone, Copy)]
enum Model {
    /// The random network model: for each round, a validator receives the proposals of a uniformly random quorum, its
    /// own among them, before it proposes on top of that round.
    Random,
    /// The asynchronous scheduler: all validators receive the proposals of one quorum in time. The proposals of the f
    /// others, for several rounds, arrive only after the votes on them are cast, so they get none. It cannot know which
    /// of them are leaders, and cannot silence more than f.
    Worst,
}

/// Holds proposals back until their receiver has proposed without them, or for the maximum time.
struct Scheduler {
    network: Rc<Network>,
    model: Model,
    longest: Micros,
    random: Random,
    /// Authors whose proposals of a round a receiver gets in time. The asynchronous scheduler has one set for all
    /// receivers.
    audible: BTreeMap<(u64, usize), BTreeSet<usize>>,
    /// Rounds with held proposals, by receiver, and the time since when.
    held: BTreeMap<(usize, u64), Micros>,
}

impl Adversary<Message> for Scheduler {
    fn delivery(&mut self, view: &mut View<'_>, from: usize, to: usize, message: &Message) -> Delivery {
        self.give_up(view);
        let Some((round, author)) = message.peek(&self.network, from) else { return Delivery::Normal };
        if author == from {
            self.has_proposed(view, from, round);
        }
        if author == to || self.hears(view, round, to, author) {
            return Delivery::Normal;
        }
        self.held.entry((to, round)).or_insert(view.now);
        Delivery::Hold(round)
    }
}

impl Scheduler {
    /// Releases proposals that were held for the maximum time.
    fn give_up(&mut self, view: &mut View<'_>) {
        let late = |since: &Micros| view.now - *since >= self.longest;
        let due: Vec<_> = self.held.iter().filter(|(_, since)| late(since)).map(|(key, _)| *key).collect();
        for (receiver, round) in due {
            view.release(receiver, round + 1);
            self.held.remove(&(receiver, round));
        }
    }

    /// Releases the proposals that a validator proposed without.
    fn has_proposed(&mut self, view: &mut View<'_>, validator: usize, round: u64) {
        let below = match self.model {
            Model::Random => round,
            Model::Worst => round.saturating_sub(VOTE_ROUNDS),
        };
        let passed: Vec<_> = self.held.range((validator, 0)..(validator, below)).map(|(key, _)| *key).collect();
        if !passed.is_empty() {
            view.release(validator, below);
            self.held.retain(|key, _| !passed.contains(key));
        }
    }

    fn hears(&mut self, view: &View<'_>, round: u64, receiver: usize, author: usize) -> bool {
        let key = match self.model {
            Model::Random => (round, receiver),
            Model::Worst => (round / VICTIM_ROUNDS, 0),
        };
        if !self.audible.contains_key(&key) {
            let drawn = self.draw(view, receiver);
            self.audible.insert(key, drawn);
            // Old rounds are not needed any more.
            while self.audible.len() > 64 * self.network.secrets.names.count() {
                self.audible.pop_first();
            }
        }
        self.audible[&key].contains(&author)
    }

    /// A quorum of the validators that are up.
    fn draw(&mut self, view: &View<'_>, receiver: usize) -> BTreeSet<usize> {
        let (committee, names) = (self.network.checker.newest(), &self.network.secrets.names);
        let mut up = names.members(&committee);
        up.retain(|node| (view.up)(*node));
        self.random.shuffle(&mut up);
        if matches!(self.model, Model::Random) {
            up.sort_by_key(|node| *node != receiver);
        }
        let up = up.into_iter().filter_map(|node| names.index(&committee, node));
        let drawn = committee.take_votes(up, committee.quorum());
        drawn.into_iter().filter_map(|index| names.member(&committee, index)).collect()
    }
}
