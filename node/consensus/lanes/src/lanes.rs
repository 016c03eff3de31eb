//! Batches of all authors, each in the lane of its author. All validators hold all batches, so any of them can propose.

use crate::{LaneBatch, LaneContext, LaneValue, Tip};
use corniche_types::{Bytes, ValidatorIndex};
use std::collections::{BTreeMap, BTreeSet};

/// Number of decisions whose batches are asked for at once.
const VALUES_AT_ONCE: usize = 64;

struct Held {
    batch: LaneBatch,
    is_durable: bool,
}

/// Batches of one author. After its author lost its disk, a lane may have two batches with one number.
#[derive(Default)]
struct Lane {
    held: BTreeMap<Tip, Held>,
    /// The newest one that came from the author itself, with all before it.
    newest: Tip,
}

/// All lanes of a committee.
pub struct Lanes {
    context: LaneContext,
    lanes: Vec<Lane>,
}

impl Lanes {
    /// Empty lanes above the delivered batches.
    pub fn new(context: LaneContext, delivered: &[Tip]) -> Self {
        let lanes = delivered.iter().map(|newest| Lane { held: BTreeMap::new(), newest: *newest }).collect();
        Self { context, lanes }
    }

    fn lane(&self, author: ValidatorIndex) -> &Lane {
        &self.lanes[author.as_usize()]
    }

    pub fn get(&self, author: ValidatorIndex, tip: &Tip) -> Option<&LaneBatch> {
        self.lane(author).held.get(tip).map(|held| &held.batch)
    }

    /// Adds a batch that is not on disk yet. Returns false if it is known.
    pub fn insert(&mut self, tip: Tip, batch: LaneBatch) -> bool {
        let held = &mut self.lanes[batch.author.as_usize()].held;
        let is_new = !held.contains_key(&tip);
        if is_new {
            held.insert(tip, Held { batch, is_durable: false });
        }
        is_new
    }

    /// Adds a batch from the records.
    pub fn recover(&mut self, batch: LaneBatch) -> Tip {
        let (author, tip) = (batch.author, self.tip(&batch));
        self.insert(tip, batch);
        self.mark_durable(author, &tip);
        tip
    }

    pub fn mark_durable(&mut self, author: ValidatorIndex, tip: &Tip) {
        if let Some(held) = self.lanes[author.as_usize()].held.get_mut(tip) {
            held.is_durable = true;
        }
    }

    /// The author itself sent this batch: its lane ends here.
    pub fn extend(&mut self, author: ValidatorIndex, tip: Tip) {
        self.lanes[author.as_usize()].newest = tip;
    }

    /// End of the author's lane, as far as this validator knows.
    pub fn newest(&self, author: ValidatorIndex) -> Tip {
        self.lane(author).newest
    }

    pub fn tip(&self, batch: &LaneBatch) -> Tip {
        self.context.tip(batch)
    }

    /// Number of batches of this author above a number.
    pub fn count_above(&self, author: ValidatorIndex, number: u64) -> u64 {
        self.above(author, number).count() as u64
    }

    pub fn count(&self) -> usize {
        self.lanes.iter().map(|lane| lane.held.len()).sum()
    }

    /// The batches above number `above` up to `tip`, ascending. The error is the first missing one, from above.
    pub fn chain(&self, author: ValidatorIndex, tip: Tip, above: u64) -> Result<Vec<LaneBatch>, Tip> {
        self.walk(author, tip, above, |_| true).map(|batches| batches.into_iter().cloned().collect())
    }

    /// Like [`Self::chain`], with batches on disk only.
    pub fn has_durable(&self, author: ValidatorIndex, tip: Tip, above: u64) -> Result<(), Tip> {
        self.walk(author, tip, above, |held| held.is_durable).map(drop)
    }

    /// The batches of all authors above the delivered ones up to these tips, by author and number. An author whose tip is not above the
    /// delivered one has none. The error is the first missing one of each lane, from above.
    pub fn next_batches(&self, tips: &[Tip], delivered: &[Tip]) -> Result<Vec<LaneBatch>, Vec<(ValidatorIndex, Tip)>> {
        let chains = pairs(tips, delivered).map(|(author, tip, delivered)| self.chain(author, tip, delivered.number));
        let batches = chains.collect::<Result<Vec<_>, _>>();
        batches.map(|batches| batches.concat()).map_err(|_| self.missing(tips, delivered))
    }

    /// The first missing batch above the delivered ones of each lane, up to these tips.
    pub fn missing(&self, tips: &[Tip], delivered: &[Tip]) -> Vec<(ValidatorIndex, Tip)> {
        self.lacking(tips, delivered, |_| true)
    }

    /// Like [`Self::missing`]. A batch that is not on disk is missing, too.
    pub fn not_durable(&self, tips: &[Tip], delivered: &[Tip]) -> Vec<(ValidatorIndex, Tip)> {
        self.lacking(tips, delivered, |held| held.is_durable)
    }

    fn lacking(&self, tips: &[Tip], delivered: &[Tip], counts: impl Fn(&Held) -> bool) -> Vec<(ValidatorIndex, Tip)> {
        let lacking = pairs(tips, delivered)
            .filter_map(|(author, tip, delivered)| Some((author, self.walk(author, tip, delivered.number, &counts).err()?)));
        lacking.collect()
    }

    /// The first missing batches of the next decisions.
    pub fn missing_next<'a, V: LaneValue + 'a>(
        &self,
        values: impl Iterator<Item = &'a V>,
        delivered: &[Tip],
    ) -> BTreeSet<(ValidatorIndex, Tip)> {
        values.take(VALUES_AT_ONCE).flat_map(|value| self.missing(value.tips(), delivered)).collect()
    }

    /// A lane ends at least where it is delivered, and with the delivered batch there.
    pub fn follow(&mut self, delivered: &[Tip]) {
        for (author, delivered) in (0u16..).map(ValidatorIndex).zip(delivered) {
            if self.newest(author).number <= delivered.number {
                self.extend(author, *delivered);
            }
        }
    }

    /// The highest batch of an author that is on disk with everything above `delivered`; `delivered` if there is none.
    pub fn durable_tip(&self, author: ValidatorIndex, delivered: Tip) -> Tip {
        let (lane, mut at) = (self.lane(author), self.newest(author));
        let mut highest = None;
        while at.number > delivered.number {
            let Some(held) = lane.held.get(&at) else { return delivered };
            highest = highest.filter(|_| held.is_durable).or(held.is_durable.then_some(at));
            at = held.batch.before();
        }
        highest.unwrap_or(delivered)
    }

    /// [`Self::durable_tip`] of each author, for a proposal.
    pub fn durable_tips(&self, delivered: &[Tip]) -> Vec<Tip> {
        (0u16..).map(ValidatorIndex).zip(delivered).map(|(author, delivered)| self.durable_tip(author, *delivered)).collect()
    }

    fn walk(
        &self,
        author: ValidatorIndex,
        tip: Tip,
        above: u64,
        counts: impl Fn(&Held) -> bool,
    ) -> Result<Vec<&LaneBatch>, Tip> {
        let (lane, mut at) = (self.lane(author), tip);
        let mut batches = Vec::new();
        while at.number > above {
            let held = lane.held.get(&at).filter(|held| counts(held)).ok_or(at)?;
            batches.push(&held.batch);
            at = held.batch.before();
        }
        batches.reverse();
        Ok(batches)
    }

    /// Drops the batches of an author up to this number.
    pub fn release(&mut self, author: ValidatorIndex, through: u64) {
        let held = &mut self.lanes[author.as_usize()].held;
        *held = held.split_off(&Tip { number: through.saturating_add(1), digest: Default::default() });
    }

    /// After a restart: a lane ends with its highest batch that has everything above `delivered` below it.
    pub fn find_ends(&mut self, delivered: &[Tip]) {
        for (author, delivered) in (0u16..).map(ValidatorIndex).zip(delivered) {
            let tips: Vec<Tip> = self.lane(author).held.keys().rev().copied().collect();
            let whole = tips.into_iter().find(|tip| self.chain(author, *tip, delivered.number).is_ok());
            self.extend(author, whole.filter(|tip| tip.number > delivered.number).unwrap_or(*delivered));
        }
    }

    /// Batches of an author above this number, whatever their order.
    pub fn above(&self, author: ValidatorIndex, number: u64) -> impl Iterator<Item = (&Tip, &Bytes)> {
        self.lane(author).held.iter().filter(move |(tip, _)| tip.number > number).map(|(tip, held)| (tip, &held.batch.bytes))
    }
}

/// The authors with their tips in a value and their delivered ones.
fn pairs<'a>(tips: &'a [Tip], delivered: &'a [Tip]) -> impl Iterator<Item = (ValidatorIndex, Tip, Tip)> + 'a {
    (0u16..).map(ValidatorIndex).zip(tips.iter().zip(delivered)).map(|(author, (tip, delivered))| (author, *tip, *delivered))
}
