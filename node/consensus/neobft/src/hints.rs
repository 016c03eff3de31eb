//! Hints for speculative execution (§5.2): requests in the log, before they are final.

use crate::{
    engine::Neobft,
    message::{RequestId, Slot},
    order::{BatchContent, Effect},
};
use corniche_engine::{Batch, Output};
use corniche_types::ValidatorIndex;
use std::collections::BTreeMap;

/// Knowledge about the slots that are not executed.
#[derive(Default)]
pub(crate) struct Hints {
    /// The log up to this slot was looked at.
    seen: Slot,
    /// Batches that the executor knows as those of these slots. A rollback keeps them: a slot that gets the same request again
    /// needs no other hint.
    given: BTreeMap<Slot, (ValidatorIndex, RequestId)>,
    /// Results of the checks of requests, so that each signature is checked once.
    valid: BTreeMap<Slot, bool>,
}

impl Hints {
    /// The log ends at this slot now.
    pub fn roll_back(&mut self, to: Slot) {
        self.seen = self.seen.min(to);
        _ = self.valid.split_off(&to.next());
    }

    pub fn forget(&mut self, executed: Slot) {
        self.given.remove(&executed);
        self.valid.remove(&executed);
    }

    pub fn count(&self) -> usize {
        self.given.len() + self.valid.len()
    }
}

impl Neobft {
    /// Effect of a slot of the log, as far as executed slots tell.
    pub(crate) fn effect(&mut self, slot: Slot) -> Option<Effect> {
        let (order, valid) = (&self.order, &mut self.hints.valid);
        let is_valid = |request: &_| *valid.entry(slot).or_insert_with(|| order.is_valid(request));
        Some(order.effect(self.log.get(slot)?, is_valid))
    }

    /// The next request with an effect that is not final, in log order. Made when nothing else is to be done, because the check
    /// of a signature must not delay a REPLY. A request whose body is missing is passed over.
    pub(crate) fn next_hint(&mut self) -> Option<Output> {
        while !self.is_halted {
            let slot = self.hints.seen.max(self.log.finalized()).next();
            let effect = self.effect(slot)?;
            self.hints.seen = slot;
            let batch = match effect {
                Effect::Batch { author, id, content: BatchContent::Inline(batch), .. } => Some((author, id, batch)),
                Effect::Batch { author, id, content: BatchContent::Body(body, _), .. } => {
                    self.bodies.get(&body).map(|batch| (author, id, batch))
                }
                Effect::None | Effect::Clock { .. } => None,
            };
            let given = &mut self.hints.given;
            // C4: only the first of equal requests has an effect.
            let batch = batch.filter(|(author, id, bytes)| {
                !bytes.is_empty() && !given.range(..slot).any(|(_, known)| *known == (*author, *id))
            });
            let Some((author, id, bytes)) = batch else {
                given.remove(&slot);
                continue;
            };
            if given.insert(slot, (author, id)) != Some((author, id)) {
                return Some(Output::Available { author, batch: Batch { bytes } });
            }
        }
        None
    }
}
