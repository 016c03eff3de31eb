//! Random operations on a small pool with a small chain. After each one, indices and queues agree and the
//! limits hold ([`crate::Pool::assert_consistent`]), and the orders are those of the tips at the current base fee.
//! Over the whole run:
//!
//! - A transaction is cut only if it is not in flight, in nonce order, pays the base fee, and is covered by
//!   the balance.
//! - Every accepted transaction is pending, or was executed, or has exactly one event.
//! - The same operations give the same batches and events. A run that updates the indices of all senders after each
//!   operation gives nothing else.

use super::world::*;
use crate::{DropReason, Event, PoolConfig, ROTATION_OVERLAP_MS, Refusal, Responsibility};
use corniche_crypto::VerifiedTransaction;
use corniche_engine::Batch;
use corniche_types::{B256, TimestampMs, U256};
use proptest::{collection::vec, prelude::*};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
enum Operation {
    Admit {
        from: u8,
        ahead: u64,
        tip: u128,
        max_fee: u128,
        value: u128,
        gas: u64,
        responsibility: Responsibility,
    },
    Cut {
        transactions: u32,
        gas: u64,
    },
    /// Executes a batch in flight, each transaction by the executor's rules.
    Order {
        batch: usize,
    },
    Requeue {
        batch: usize,
    },
    /// Loses all batches, as when the engine is built anew.
    LoseAll,
    /// Another validator's block used the sender's next nonce. The pool is informed, or detects it.
    UsedElsewhere {
        from: u8,
        informed: bool,
    },
    Balance {
        from: u8,
        transfers: u64,
        informed: bool,
    },
    BaseFee {
        base_fee: u64,
        informed: bool,
    },
    Wait(u64),
    /// Takes this number of transactions whose turn ended.
    Turns(usize),
    /// This node becomes the owner of all senders, or of none.
    Rotate(bool),
    /// Sets the length of a turn.
    Turn(u64),
    EmptyBlock,
}

fn operation() -> impl Strategy<Value = Operation> {
    let position = prop_oneof![3 => Just(Some(0)), 3 => (1u32..3).prop_map(Some), 1 => Just(None)];
    let responsibility = (position, any::<bool>(), any::<bool>(), any::<bool>());
    let responsibility = responsibility.prop_map(|(position, is_responsible, forwarded, at_edge)| {
        let responsibility = Responsibility { position, is_responsible, forwarded, disputed: false };
        if at_edge { responsibility.adjust_for_rotation(2) } else { responsibility }
    });
    let gas = prop_oneof![Just(21_000u64), Just(90_000)];
    let admit = (1u8..5, 0u64..5, 0u128..40, 90u128..200, 0u128..3, gas, responsibility).prop_map(
        |(from, ahead, tip, max_fee, value, gas, responsibility)| Operation::Admit {
            from,
            ahead,
            tip,
            max_fee,
            value,
            gas,
            responsibility,
        },
    );
    prop_oneof![
        10 => admit,
        4 => (0u32..6, 0u64..200_000).prop_map(|(transactions, gas)| Operation::Cut { transactions, gas }),
        3 => (0usize..3).prop_map(|batch| Operation::Order { batch }),
        1 => (0usize..3).prop_map(|batch| Operation::Requeue { batch }),
        1 => Just(Operation::LoseAll),
        1 => (1u8..5, any::<bool>()).prop_map(|(from, informed)| Operation::UsedElsewhere { from, informed }),
        2 => (1u8..5, 0u64..12, any::<bool>())
            .prop_map(|(from, transfers, informed)| Operation::Balance { from, transfers, informed }),
        3 => (80u64..150, any::<bool>()).prop_map(|(base_fee, informed)| Operation::BaseFee { base_fee, informed }),
        2 => (0u64..3_000).prop_map(Operation::Wait),
        1 => (1usize..6).prop_map(Operation::Turns),
        1 => any::<bool>().prop_map(Operation::Rotate),
        1 => (0u64..3_000).prop_map(Operation::Turn),
        1 => Just(Operation::EmptyBlock),
    ]
}

/// World with a record of everything that happened.
struct Run {
    world: World,
    under_way: Vec<Batch>,
    in_flight: BTreeSet<B256>,
    taken: BTreeMap<B256, VerifiedTransaction>,
    executed: BTreeSet<B256>,
    left: BTreeMap<B256, Event>,
    log: Vec<String>,
}

impl Run {
    fn new(checked: bool) -> Self {
        let config = PoolConfig { max_transactions: 12, max_bytes: 16_000, max_per_sender: 5, max_nonces_ahead: 8, ..config() };
        let mut world = World::with(config);
        (1..5).for_each(|from| world.account(from).balance = U256::from(20 * 21_000 * 200));
        world.checked = checked;
        Self {
            world,
            under_way: Vec::new(),
            in_flight: BTreeSet::new(),
            taken: BTreeMap::new(),
            executed: BTreeSet::new(),
            left: BTreeMap::new(),
            log: Vec::new(),
        }
    }

    fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Admit { from, ahead, tip, max_fee, value, gas, responsibility } => {
                let nonce = self.world.account(from).nonce + ahead;
                self.admit(draft(from, nonce).max_fee(max_fee).tip(tip.min(max_fee)).value(value).gas(gas), responsibility);
            }
            Operation::Cut { transactions, gas } => self.cut(transactions * 130, gas),
            Operation::Order { batch } => self.order(batch),
            Operation::Requeue { batch } => {
                if let Some(batch) = self.take_batch(batch) {
                    self.forget_flight(&batch);
                    self.world.pool.requeue(batch);
                }
            }
            Operation::LoseAll => {
                self.under_way.clear();
                self.in_flight.clear();
                self.world.pool.requeue_all();
            }
            Operation::UsedElsewhere { from, informed } => {
                self.world.account(from).nonce += 1;
                if informed {
                    self.world.on_block(&[], &[]);
                }
            }
            Operation::Balance { from, transfers, informed } => {
                self.world.account(from).balance = U256::from(transfers * 21_000 * 150);
                if informed {
                    self.world.on_block(&[], &[]);
                }
            }
            Operation::BaseFee { base_fee, informed } => {
                self.world.base_fee = base_fee;
                if informed {
                    self.world.on_block(&[], &[]);
                }
            }
            Operation::Wait(ms) => self.world.wait(ms),
            Operation::Turn(ms) => self.world.pool.set_turn(ms),
            Operation::Turns(max) => self.take_overdue(max),
            Operation::Rotate(owns) => {
                let since = TimestampMs(self.world.now.0.saturating_sub(ROTATION_OVERLAP_MS));
                self.world.pool.rotate(since, |_| owns);
            }
            Operation::EmptyBlock => self.world.on_block(&[], &[]),
        }
        self.world.check();
        self.record_events();
        self.check_places();
    }

    fn take_overdue(&mut self, max: usize) {
        let overdue = self.world.pool.take_overdue(max, 300);
        assert!(overdue.len() <= max);
        let bytes: usize = overdue.iter().map(|(_, transaction)| transaction.transaction().raw().len()).sum();
        assert!(overdue.len() <= 1 || bytes <= 300);
        for (turns, transaction) in overdue {
            assert!(turns > 0 && !self.in_flight.contains(&transaction.hash()) && self.taken.contains_key(&transaction.hash()));
            self.log.push(format!("{turns} turns: {}", transaction.hash()));
        }
    }

    fn admit(&mut self, draft: Draft, responsibility: Responsibility) {
        let (transaction, hash) = (draft.signed(), draft.hash());
        let result = self.world.admit_as(&draft, responsibility);
        self.log.push(format!("{result:?}"));
        match result {
            Ok(()) => {
                // Equal bytes may be submitted again after they were dropped.
                self.left.remove(&hash);
                self.taken.insert(hash, transaction);
            }
            Err(Refusal::AlreadyKnown { .. }) => assert!(self.world.pool.get(&hash).is_some()),
            Err(_) => {}
        }
    }

    fn cut(&mut self, bytes: u32, gas: u64) {
        let Some(batch) = self.world.cut_at_most(bytes, gas) else { return };
        self.log.push(format!("{:?}", contents(&batch)));
        assert!(batch.bytes.len() <= bytes as usize);
        // Stale transactions leave before anything is cut.
        self.record_events();
        let mut spent: BTreeMap<u8, U256> = BTreeMap::new();
        for transaction in self.in_flight.iter().map(|hash| &self.taken[hash]) {
            *spent.entry(number_of(transaction.sender())).or_default() += transaction.max_cost().unwrap();
        }
        let mut declared = 0;
        for raw in crate::batch::decode(&batch.bytes) {
            let transaction = crate::check(raw, CHAIN_ID).unwrap();
            let (from, nonce) = (number_of(transaction.sender()), transaction.nonce());
            let mut before = self.world.account(from).nonce..nonce;
            assert!(before.all(|nonce| self.flies(from, nonce)), "{from} {nonce}: one before it is not under way");
            assert!(self.in_flight.insert(transaction.hash()), "cut twice");
            assert!(transaction.max_fee_per_gas() >= u128::from(self.world.base_fee), "underpriced");
            *spent.entry(from).or_default() += transaction.max_cost().unwrap();
            assert!(spent[&from] <= self.world.account(from).balance, "not covered");
            declared += transaction.gas_limit();
        }
        assert!(declared <= gas);
        self.under_way.push(batch);
    }

    fn flies(&self, from: u8, nonce: u64) -> bool {
        let mut flying = self.in_flight.iter().map(|hash| &self.taken[hash]);
        flying.any(|transaction| transaction.sender() == address(from) && transaction.nonce() == nonce)
    }

    /// Executes a batch by the executor's rules: valid transactions use their nonce and pay, others return or
    /// are skipped.
    fn order(&mut self, batch: usize) {
        let Some(batch) = self.take_batch(batch) else { return };
        self.forget_flight(&batch);
        let (mut executed, mut returned) = (Vec::new(), Vec::new());
        for raw in crate::batch::decode(&batch.bytes) {
            let transaction = crate::check(raw, CHAIN_ID).unwrap();
            let base_fee = u128::from(self.world.base_fee);
            let account = self.world.account(number_of(transaction.sender()));
            let cost = transaction.max_cost().unwrap();
            if transaction.nonce() == account.nonce && cost <= account.balance && transaction.max_fee_per_gas() >= base_fee {
                account.nonce += 1;
                account.balance -= U256::from(21_000 * base_fee);
                executed.push((transaction.hash(), transaction.sender()));
            } else if transaction.nonce() >= account.nonce {
                returned.push(transaction);
            }
        }
        self.executed.extend(executed.iter().map(|(hash, _)| *hash));
        self.world.on_block(&executed, &returned);
    }

    fn take_batch(&mut self, number: usize) -> Option<Batch> {
        (number < self.under_way.len()).then(|| self.under_way.remove(number))
    }

    fn forget_flight(&mut self, batch: &Batch) {
        for raw in crate::batch::decode(&batch.bytes) {
            self.in_flight.remove(&alloy_primitives::keccak256(&raw));
        }
    }

    fn check_places(&self) {
        for hash in self.taken.keys() {
            let places = [self.world.pool.get(hash).is_some(), self.executed.contains(hash), self.left.contains_key(hash)];
            assert_eq!(
                places.into_iter().filter(|&position| position).count(),
                1,
                "{hash}: pending, executed, left: {places:?}"
            );
        }
        assert_eq!(self.world.pool.in_flight().len(), self.in_flight.len());
    }

    fn record_events(&mut self) {
        for event in self.world.events() {
            self.log.push(format!("{event:?}"));
            let hash = event.hash();
            // A returned transaction may have left before.
            let known = self.left.insert(hash, event).is_some();
            assert!(self.taken.contains_key(&hash) && !self.executed.contains(&hash) && !known, "{hash} left twice");
            self.in_flight.remove(&hash);
        }
    }
}

proptest! {
    #[test]
    fn random_operations_keep_invariants(operations in vec(operation(), 1..80)) {
        let run = |checked| {
            let mut run = Run::new(checked);
            operations.iter().for_each(|operation| run.apply(operation));
            run.log
        };
        prop_assert_eq!(run(true), run(false), "the same operations gave something else");
    }
}

#[test]
fn drop_waiting_skips_transactions_in_flight() {
    let mut world = World::new();
    world.admit_all(&[draft(1, 0), draft(1, 1), draft(1, 2), draft(2, 0)]);
    let drop_one = |world: &mut World, draft: &Draft| {
        let last = world.pool.drop_waiting(|transaction| transaction.hash() == draft.hash());
        world.pool.assert_consistent();
        last
    };
    assert_eq!(drop_one(&mut world, &draft(1, 1)), Some(draft(1, 1).hash()));
    assert_eq!(world.events(), [Event::Dropped { hash: draft(1, 1).hash(), reason: DropReason::Requested }]);
    assert_eq!((world.pool.ready_len(), world.pool.queued_len()), (2, 1));
    assert_eq!(drop_one(&mut world, &draft(1, 1)), None, "again");
    world.cut();
    assert_eq!(drop_one(&mut world, &draft(2, 0)), None, "it is being ordered");
    world.pool.drop_waiting(|_| true);
    world.pool.assert_consistent();
    assert_eq!((world.pool.ready_len(), world.pool.queued_len()), (2, 0));
}
