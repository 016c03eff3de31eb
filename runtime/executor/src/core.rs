//! One block while it is executed: everything its workers share.

use crate::foresight::Foresight;
use crate::mvstore::{CellId, Cells};
use crate::schedule::{Position, Reader, Schedule, Settled};
use crate::sync::{Mutex, PoisonError};
use crate::validate;
use crate::{Predicate, Recorded};
use corniche_state::StateView;
use corniche_types::{Address, B256, Bytes, Receipt, SkipReason};
use foldhash::SharedSeed;
use std::collections::BTreeMap;

pub(crate) struct Core<'c> {
    /// The state before the block.
    pub base: &'c dyn StateView,
    pub accounts: Cells<Address>,
    pub storage: Cells<(Address, B256)>,
    /// Code deployed in this block, also by attempts that came to nothing: an account names it by its hash, so it needs no versions.
    code: Mutex<BTreeMap<B256, Bytes>>,
    pub schedule: Schedule<Work>,
    pub foresight: Foresight,
    /// The lowest transaction whose fault turned out real (D5).
    fault: Mutex<Option<(Position, String)>>,
}

/// What a transaction has come to.
#[derive(Default)]
pub(crate) struct Work {
    /// To be adopted if it holds.
    pub recorded: Option<Box<Recorded>>,
    pub outcome: Option<Outcome>,
    /// Where its versions are that are not folded yet.
    pub published: Published,
    /// To be asked again when all below is final.
    pub predicates: Vec<Predicate>,
}

#[derive(Clone, Default)]
pub(crate) struct Published {
    pub accounts: Vec<CellId>,
    pub storage: Vec<CellId>,
}

pub(crate) enum Outcome {
    Executed { receipt: Box<Receipt>, code: BTreeMap<B256, Bytes> },
    Skipped(SkipReason),
    Fault(String),
}

impl<'c> Core<'c> {
    /// `results` gives each transaction what it starts with.
    pub fn new(
        base: &'c dyn StateView,
        results: impl Iterator<Item = Work>,
        foresight: Foresight,
        shards: usize,
        seed: &SharedSeed,
    ) -> Self {
        let keys = foresight.positions();
        Self {
            base,
            accounts: Cells::new(shards, 2 * keys, seed.clone()),
            storage: Cells::new(shards, keys, seed.clone()),
            code: Mutex::default(),
            schedule: Schedule::new(results),
            foresight,
            fault: Mutex::default(),
        }
    }

    pub fn code(&self, hash: &B256) -> Option<Bytes> {
        self.base.code(hash).or_else(|| self.code.lock().unwrap_or_else(PoisonError::into_inner).get(hash).cloned())
    }

    /// To be called before an account that names it can be read.
    pub fn add_code(&self, code: &BTreeMap<B256, Bytes>) {
        if !code.is_empty() {
            let code = code.iter().map(|(hash, code)| (*hash, code.clone()));
            self.code.lock().unwrap_or_else(PoisonError::into_inner).extend(code);
        }
    }

    /// D3: what `reader` has read changed.
    pub fn invalidate(&self, reader: Reader) -> bool {
        self.schedule.invalidate(reader, |work| self.take_back(reader.position, work))
    }

    /// D3: turns what a transaction has published into estimates.
    pub fn take_back(&self, position: Position, work: &mut Work) {
        for id in &work.published.accounts {
            self.accounts.estimate(*id, position);
        }
        for id in &work.published.storage {
            self.storage.estimate(*id, position);
        }
        work.outcome = None;
    }

    /// D4, D5, D8: makes `position` final if it is its turn, and its result holds.
    pub fn settle(&self, position: Position, bounds_violated: &mut u64) -> Settled {
        self.schedule.settle(position, |work| {
            if !validate::predicates_hold(&self.storage, self.base, position, &work.predicates) {
                *bounds_violated += 1;
                self.take_back(position, work);
                return false;
            }
            if let Some(Outcome::Fault(text)) = &work.outcome {
                let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
                fault.get_or_insert_with(|| (position, text.clone()));
                self.schedule.close();
            }
            true
        })
    }

    pub fn fault(&self) -> Option<(Position, String)> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
