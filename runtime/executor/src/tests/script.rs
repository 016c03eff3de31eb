//! Scripts in place of transactions: a few operations on a few keys, each of which is a separate step.

use crate::attempt::Attempt;
use crate::core::{Core, PendingResult};
use crate::seed::Seed;
use crate::worker::{RunOutcome, Step, Worker};
use corniche_state::{Account, AccountCode, Additions, Changes, Delta, EmptyState, KECCAK_EMPTY, Overlay, StateView};
use corniche_types::{Address, B256, Receipt, SkipReason, U256};
use corniche_vm::{BlockReads, Executed, Fault, NotExecuted};
use std::collections::BTreeMap;

/// Slots are 0, 1, 2…; `acc` is a numeric register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Load(u8),
    Store(u8),
    Set(u8),
    Add(u8),
    /// Ends the script unless acc has this value.
    Unless(u8),
    /// Adds to a slot without reading it, up to a limit; acc = 1 if it did, otherwise 0.
    Count(u8, u8, u8),
    /// acc = the fee recipient's balance.
    Fees,
    /// Adds to the fee recipient's balance without reading it.
    Tip(u8),
    /// Adds to the shop's balance without reading it.
    Pay(u8),
    /// acc = the shop's balance.
    Owned,
    /// acc = last byte of the shop's code hash, and 0 without code.
    Code,
    /// Sets the shop's code hash to acc, after reading the account; 0 removes the code.
    Create,
    Skip,
    Fault,
}

const FEES: Address = Address::repeat_byte(0xfe);
const SHOP: Address = Address::repeat_byte(0x5a);

#[derive(Clone, Default)]
struct Run {
    incarnation: u32,
    at: usize,
    acc: u64,
    writes: BTreeMap<u8, u64>,
    additions: Additions,
    /// The shop, once it is loaded.
    shop: Option<Account>,
    end: Option<NotExecuted>,
}

fn key(slot: u8) -> (Address, B256) {
    (Address::ZERO, B256::with_last_byte(slot))
}

impl Run {
    /// Does one step; returns true at the end of the script.
    fn step(&mut self, script: &[Op], view: &dyn StateView) -> bool {
        let Some(op) = script.get(self.at) else { return true };
        self.at += 1;
        let stored = |slot: u8| U256::from_be_bytes(view.storage(&key(slot).0, &key(slot).1).0).to::<u64>();
        match *op {
            Op::Load(slot) => {
                let value = self.writes.get(&slot).copied();
                let added = self.additions.counters.remove(&key(slot));
                self.acc = value.unwrap_or_else(|| stored(slot));
                // Earlier additions are part of the value from now on.
                if let Some(Delta::Plus(sum)) = added {
                    self.acc += sum.to::<u64>();
                    self.writes.insert(slot, self.acc);
                }
            }
            Op::Store(slot) => {
                self.additions.counters.remove(&key(slot));
                self.writes.insert(slot, self.acc);
            }
            Op::Set(number) => self.acc = number.into(),
            Op::Add(number) => self.acc += u64::from(number),
            Op::Unless(number) => {
                if self.acc != u64::from(number) {
                    self.at = script.len();
                }
            }
            Op::Count(slot, amount, limit) => match self.writes.get_mut(&slot) {
                Some(value) => {
                    self.acc = u64::from(*value + u64::from(amount) <= u64::from(limit));
                    *value += self.acc * u64::from(amount);
                }
                None => {
                    let before = match self.additions.counters.get(&key(slot)) {
                        Some(Delta::Plus(sum)) => *sum,
                        _ => U256::ZERO,
                    };
                    let after = before + U256::from(amount);
                    let allowed = U256::from(limit)
                        .checked_sub(after)
                        .is_some_and(|most| view.storage_within(&key(slot).0, &key(slot).1, &U256::ZERO, &most));
                    self.acc = u64::from(allowed);
                    if allowed {
                        self.additions.counters.insert(key(slot), Delta::Plus(after));
                    }
                }
            },
            Op::Fees => self.acc = view.account(&FEES).unwrap_or_default().balance.to::<u64>(),
            Op::Tip(wei) => *self.additions.balances.entry(FEES).or_default() += U256::from(wei),
            Op::Pay(wei) => match &mut self.shop {
                Some(shop) => shop.balance += U256::from(wei),
                None => *self.additions.balances.entry(SHOP).or_default() += U256::from(wei),
            },
            Op::Owned => self.acc = self.load_shop(view).balance.to::<u64>(),
            Op::Code => {
                let hash = self.shop.as_ref().map_or_else(|| view.account_code(&SHOP), |shop| AccountCode::of(Some(shop))).hash;
                self.acc = if hash == KECCAK_EMPTY { 0 } else { hash[31].into() };
            }
            Op::Create => {
                let hash = if self.acc == 0 { KECCAK_EMPTY } else { B256::with_last_byte(self.acc as u8) };
                self.load_shop(view).code_hash = hash;
            }
            Op::Skip => self.end = Some(NotExecuted::Skipped(SkipReason::NonceTooLow)),
            Op::Fault => self.end = Some(NotExecuted::Fault(Fault("scripted".into()))),
        }
        if self.end.is_some() {
            self.at = script.len();
        }
        self.at == script.len()
    }

    /// Earlier payments are part of the balance from now on.
    fn load_shop(&mut self, view: &dyn StateView) -> &mut Account {
        let paid = self.additions.balances.remove(&SHOP);
        self.shop.get_or_insert_with(|| view.account(&SHOP).unwrap_or_default().credited(paid.unwrap_or_default()))
    }

    fn result(self) -> Result<Executed, NotExecuted> {
        if let Some(end) = self.end {
            return Err(end);
        }
        let receipt = Receipt {
            transaction_hash: B256::ZERO,
            type_byte: 2,
            success: true,
            gas_used: self.acc,
            cumulative_gas_used: 0,
            effective_gas_price: 0,
            sender: Address::ZERO,
            to: None,
            contract_address: None,
            logs: Vec::new(),
            output: Default::default(),
        };
        let storage = self.writes.into_iter().map(|(slot, value)| (key(slot), B256::from(U256::from(value)))).collect();
        let shop = self.shop.map(|shop| (SHOP, (!shop.is_empty()).then_some(shop)));
        let changes = Changes { storage, accounts: shop.into_iter().collect(), ..Changes::default() };
        Ok(Executed { receipt, changes, additions: self.additions, block_reads: BlockReads::default() })
    }
}

/// Result of a block of scripts: each one's last number (`None` if it was skipped or hit a fault) and all changes.
#[derive(Debug, Default, PartialEq)]
pub struct Outcomes {
    pub numbers: Vec<Option<u64>>,
    pub fault: Option<u32>,
    pub storage: BTreeMap<(Address, B256), B256>,
    pub fees: U256,
    pub shop: Account,
}

/// Runs the scripts one after the other.
pub fn serially(scripts: &[Vec<Op>]) -> Outcomes {
    let mut changes = Changes::default();
    let mut numbers = Vec::new();
    for (position, script) in scripts.iter().enumerate() {
        let now = Overlay { base: &EmptyState, changes: &changes };
        let mut run = Run::default();
        while !run.step(script, &now) {}
        match run.result() {
            Ok(executed) => {
                numbers.push(Some(executed.receipt.gas_used));
                let added = executed.additions.resolve(&now);
                changes.merge(executed.changes);
                changes.merge(added);
            }
            Err(NotExecuted::Fault(_)) => {
                let fault = Some(position as u32);
                return Outcomes {
                    numbers: Vec::new(),
                    fault,
                    storage: BTreeMap::new(),
                    fees: U256::ZERO,
                    shop: Account::default(),
                };
            }
            Err(_) => numbers.push(None),
        }
    }
    let account = |address| changes.accounts.get(address).cloned().flatten().unwrap_or_default();
    Outcomes { numbers, fault: None, fees: account(&FEES).balance, shop: account(&SHOP), storage: changes.storage }
}

/// Runs the scripts with `workers` workers. `choose` picks the worker of the next step; it receives the last worker and
/// all workers that have work.
pub fn stepped(scripts: &[Vec<Op>], workers: usize, mut choose: impl FnMut(usize, &[usize]) -> usize) -> Outcomes {
    let seed = Seed::new(0, 1);
    let works = scripts.iter().map(|_| PendingResult::default());
    let core = Core::new(&EmptyState, works, vec![FEES], 2, &seed);
    let mut runs = vec![Run::default(); scripts.len()];
    let mut run = |attempt: &Attempt<'_>| {
        let position = attempt.reader.position as usize;
        let run = &mut runs[position];
        if run.incarnation != attempt.reader.incarnation {
            *run = Run { incarnation: attempt.reader.incarnation, ..Run::default() };
        }
        let ended = run.step(&scripts[position], attempt);
        if attempt.interrupted() {
            return Some(RunOutcome::Ran(Err(NotExecuted::Interrupted)));
        }
        ended.then(|| RunOutcome::Ran(std::mem::take(run).result()))
    };
    let mut team: Vec<Worker<'_>> = (0..workers).map(|_| Worker::new()).collect();
    let mut last = 0;
    loop {
        let able: Vec<usize> = (0..workers).filter(|index| team[*index].is_able(&core)).collect();
        if able.is_empty() || core.fault().is_some() {
            break;
        }
        last = choose(last, &able);
        assert_eq!(team[last].step(&core, &mut run), Step::Progressed);
    }
    let fault = core.fault().map(|(position, _)| position);
    if fault.is_some() {
        return Outcomes { fault, ..Outcomes::default() };
    }
    assert!(core.schedule.closed(), "nobody can go on, and {} is not final", core.schedule.frontier());
    let ended = core.take_totals();
    let (storage, accounts) = (core.storage.take_written(), core.accounts.take_written());
    let mut numbers = vec![None; scripts.len()];
    for position in ended.executed {
        numbers[position as usize] = Some(core.take_receipt(position).gas_used);
    }
    let account = |address| accounts.get(address).cloned().flatten().unwrap_or_default();
    Outcomes { numbers, fault, storage, fees: account(&FEES).balance, shop: account(&SHOP) }
}
