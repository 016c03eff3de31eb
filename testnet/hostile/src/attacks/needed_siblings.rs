//! Faulty validators sign chains of siblings of their own blocks. Each sibling is needed by a block of the next round, which its
//! author or another faulty validator signed. Victims get each chain from its newest block down, so they cannot refuse the
//! siblings that they would refuse without a block that needs them:
//!
//! ```text
//! round   r ◀── r + 1 ◀── r + 2 ◀── …      the insider's own blocks
//!         a ◀──── a ◀────── a              chain 1: the last `a` first, as one of a few unneeded siblings of its slot
//!         b ◀──── b                        chain 2, and so on
//! ```
//!
//! Requirement: work per block does not grow with the siblings; they are bounded by the accounts of the faulty validators.

use super::{Attack, By, SHORT_MESSAGES, siblings::placeholder_batch};
use crate::{
    context::AttackContext,
    forge::Forge,
    insider::{self, Behaviour},
};
use corniche_mahi_mahi::message::{BlockRef, Message, Round};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex, wire};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// Number of chains of each faulty validator.
const CHAINS: usize = 24;
/// Siblings of a slot that victims accept although no block needs them, beside the insider's own block.
const UNNEEDED: usize = 3;
/// Number of rounds from one burst of chains to the next. More than the newest blocks that a chain holds back.
const ROUNDS: usize = 12;
/// Rounds whose siblings later blocks may name.
const NAMED_ROUNDS: usize = 64;

pub const ATTACK: Attack = Attack {
    name: "needed-siblings",
    item: "B7",
    about: "validators sign chains of siblings that blocks of the next round need",
    by: By::Validators,
    engine: Some("mahi-mahi"),
    signatures: None,
    restart: None,
    few: SHORT_MESSAGES,
    run: |context| Box::pin(run(context)),
};

async fn run(context: &AttackContext) -> anyhow::Result<()> {
    let signed = Arc::new(Mutex::new(Signed::default()));
    insider::run(context, |identity| {
        Ok(Box::new(Chains { forge: Forge::new(identity)?, signed: signed.clone(), held: Held::default() }))
    })
    .await
}

struct Chains {
    forge: Forge,
    /// Shared by all faulty validators.
    signed: Arc<Mutex<Signed>>,
    held: Held<Bytes>,
}

impl Behaviour for Chains {
    fn batch(&mut self) -> Option<Bytes> {
        placeholder_batch()
    }

    fn after(&mut self, message: &Bytes) -> Vec<Bytes> {
        let Ok(Message::Block(block)) = wire::decode(message) else { return Vec::new() };
        let mut signed = self.signed.lock().unwrap_or_else(PoisonError::into_inner);
        let siblings = (0..CHAINS).map(|chain| {
            let mut content = block.content.clone();
            content.timestamp = TimestampMs(content.timestamp.0.saturating_sub(chain as u64 + 1));
            content.parents.iter_mut().for_each(|parent| *parent = signed.of_chain(*parent, chain));
            (self.forge.reference(&content), Message::Block(self.forge.sign(content)).encode())
        });
        let (references, messages): (Vec<_>, Vec<_>) = siblings.unzip();
        signed.add(block.content.round, block.content.author, references);
        self.held.add(messages);
        self.held.take()
    }
}

/// Siblings by slot: one of each chain.
#[derive(Default)]
struct Signed(BTreeMap<Round, BTreeMap<ValidatorIndex, Vec<BlockRef>>>);

impl Signed {
    fn add(&mut self, round: Round, author: ValidatorIndex, siblings: Vec<BlockRef>) {
        self.0.entry(round).or_default().insert(author, siblings);
        while self.0.len() > NAMED_ROUNDS {
            self.0.pop_first();
        }
    }

    /// The sibling of this block in a chain, if there is one.
    fn of_chain(&self, block: BlockRef, chain: usize) -> BlockRef {
        let siblings = self.0.get(&block.round).and_then(|authors| authors.get(&block.author));
        siblings.and_then(|siblings| siblings.get(chain)).copied().unwrap_or(block)
    }
}

/// Blocks of each chain that were not sent yet, by round.
struct Held<T>([Vec<T>; CHAINS]);

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self([const { Vec::new() }; CHAINS])
    }
}

impl<T> Held<T> {
    /// Adds a block to each chain.
    fn add(&mut self, blocks: Vec<T>) {
        self.0.iter_mut().zip(blocks).for_each(|(chain, block)| chain.push(block));
    }

    /// The blocks to send now: once in [`ROUNDS`], all chains, each from its newest block down. Chains end in different rounds,
    /// so that each slot has few blocks that no block needs.
    fn take(&mut self) -> Vec<T> {
        if self.0[0].len() < ROUNDS {
            return Vec::new();
        }
        let chains = self.0.iter_mut().enumerate();
        chains.flat_map(|(number, chain)| chain.drain(..chain.len() - number / UNNEEDED).rev()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::B256;
    use std::collections::BTreeSet;

    #[test]
    fn each_block_follows_one_that_needs_it() {
        let (mut held, mut sent, mut unneeded) = (Held::default(), BTreeSet::new(), BTreeMap::<usize, usize>::new());
        for round in 0..10 * ROUNDS {
            held.add((0..CHAINS).map(|chain| (chain, round)).collect());
            for (chain, round) in held.take() {
                assert!(sent.insert((chain, round)), "sent twice");
                if !sent.contains(&(chain, round + 1)) {
                    *unneeded.entry(round).or_default() += 1;
                }
            }
        }
        assert!(sent.len() > 9 * ROUNDS * CHAINS);
        assert!(unneeded.values().all(|count| *count <= UNNEEDED), "{unneeded:?}");
        let complete = |chain| (0..9 * ROUNDS).all(|round| sent.contains(&(chain, round)));
        assert!((0..CHAINS).all(complete));
    }

    #[test]
    fn chains_name_siblings_of_all_faulty_validators() {
        let block = |round, author, number| BlockRef {
            round: Round(round),
            author: ValidatorIndex(author),
            digest: B256::with_last_byte(number),
        };
        let mut signed = Signed::default();
        for author in [5, 6] {
            signed.add(Round(7), ValidatorIndex(author), vec![block(7, author, 1), block(7, author, 2)]);
        }
        for author in [5, 6] {
            assert_eq!(signed.of_chain(block(7, author, 0), 1), block(7, author, 2));
        }
        for honest in [block(7, 1, 0), block(6, 5, 0)] {
            assert_eq!(signed.of_chain(honest, 1), honest);
        }
    }
}
