//! Invariants of arbitrary programs.

use super::scripts::*;
use crate::{host::CallKind, journal::Journal};
use alloy_primitives::{Address, Bytes, U256};
use corniche_state::{Account, Changes, EmptyState, KECCAK_EMPTY, Overlay, StateView};
use corniche_types::Log;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// One action of a contract. A list of actions is a program and is passed as input: contracts call each other with the
/// rest of it.
#[derive(Clone, Copy, Debug)]
enum Action {
    Store(u8, u8),
    Transient(u8, u8),
    Log(u8),
    /// Passes the rest of the program to a contract or to an account without code.
    Call(u8, u8),
    Delegate(u8),
    Static(u8),
    Create(u8),
    Revert,
    Burn,
}

fn any_act() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (0u8..4, 0u8..3).prop_map(|(slot, value)| Action::Store(slot, value)),
        1 => (0u8..4, 0u8..3).prop_map(|(slot, value)| Action::Transient(slot, value)),
        2 => (0u8..4).prop_map(Action::Log),
        4 => (0u8..5, 0u8..40).prop_map(|(to, value)| Action::Call(to, value)),
        1 => (0u8..3).prop_map(Action::Delegate),
        1 => (0u8..3).prop_map(Action::Static),
        1 => (0u8..40).prop_map(Action::Create),
        1 => Just(Action::Revert),
        1 => Just(Action::Burn),
    ]
}

fn encode(program: &[Action]) -> Bytes {
    let bytes = program.iter().flat_map(|act| match *act {
        Action::Store(slot, value) => [0, slot, value],
        Action::Transient(slot, value) => [1, slot, value],
        Action::Log(topic) => [2, topic, 0],
        Action::Call(to, value) => [3, to, value],
        Action::Delegate(to) => [4, to, 0],
        Action::Static(to) => [5, to, 0],
        Action::Create(value) => [6, value, 0],
        Action::Revert => [7, 0, 0],
        Action::Burn => [8, 0, 0],
    });
    bytes.collect::<Vec<u8>>().into()
}

fn target(number: u8) -> Address {
    match number {
        0 => contract("a"),
        1 => contract("b"),
        2 => contract("c"),
        other => Address::repeat_byte(other),
    }
}

fn interpret(guest: &mut Guest<'_>) -> Result<Bytes, Stop> {
    let program = guest.input.clone();
    for (index, act) in program.chunks_exact(3).enumerate() {
        let rest = &program[(index + 1) * 3..];
        match *act {
            [0, slot, value] => guest.store(slot.into(), value.into())?,
            [1, slot, value] => guest.transient_store(slot.into(), value.into())?,
            [2, topic, _] => guest.log(topic.into())?,
            [3, to, value] => drop(guest.call(CallKind::Call, target(to), value.into(), 200_000, rest)?),
            [4, to, _] => drop(guest.call(CallKind::Delegate, target(to), 0, 200_000, rest)?),
            [5, to, _] => drop(guest.call(CallKind::Static, target(to), 0, 200_000, rest)?),
            [6, value, _] => drop(guest.create(&[b"a|", rest].concat(), value.into(), None)?),
            [7, ..] => return Err(Stop::Revert(Bytes::from_static(b"reverted"))),
            _ => return Err(Stop::OutOfGas),
        }
    }
    out(guest.transient_load(0)?)
}

fn chain() -> Chain {
    let mut chain = Chain::new();
    for name in ["a", "b", "c"] {
        let address = chain.contract(name, interpret);
        chain.set_balance(address, 50);
    }
    chain
}

proptest! {
    /// Arbitrary programs: [`Chain::send`] checks that wei is burned only as base fee. Two runs are equal, and a failed
    /// transaction leaves only the fee.
    #[test]
    fn balances_are_conserved(programs in prop::collection::vec(prop::collection::vec(any_act(), 0..7), 1..4), value in 0u64..100) {
        let mut chain = chain();
        for program in programs {
            let mut draft = chain.draft(contract("a"));
            draft.input = encode(&program);
            draft.value = U256::from(value);
            let first = chain.run(draft.clone()).unwrap();
            let executed = chain.send(draft);
            prop_assert_eq!(&first, &executed, "the same twice");
            prop_assert!(executed.receipt.gas_used <= 1_000_000);
            if !executed.receipt.success {
                let expected: BTreeSet<Address> = [chain.sender(), TIP_TO].into();
                prop_assert_eq!(executed.touched(), expected);
                prop_assert!(executed.changes.storage.is_empty() && executed.changes.code.is_empty());
                prop_assert!(executed.receipt.logs.is_empty());
            }
        }
    }

    /// Reverting to a checkpoint restores everything after it, and nothing before it. The model is a plain copy.
    #[test]
    fn revert_restores_everything(steps in prop::collection::vec(any_step(), 0..60)) {
        let base = Changes {
            accounts: [(Address::with_last_byte(1), Some(Account { balance: U256::from(5), ..Account::default() }))].into(),
            storage: [((Address::with_last_byte(1), word(1)), word(1))].into(),
            ..Changes::default()
        };
        let view = Overlay { base: &EmptyState, changes: &base };
        let mut journal = Journal::new(&view);
        let mut model = Model::default();
        let mut checkpoints = Vec::new();
        for step in steps {
            match step {
                Step::Checkpoint => checkpoints.push((journal.checkpoint(), model.clone())),
                Step::Revert(index) if !checkpoints.is_empty() => {
                    let index = index.index(checkpoints.len());
                    let (checkpoint, before) = checkpoints[index].clone();
                    checkpoints.truncate(index);
                    journal.revert(checkpoint);
                    model = before;
                }
                Step::Revert(_) => {}
                Step::Credit(who, wei) => {
                    journal.credit(&who, U256::from(wei));
                    *model.credited.entry(who).or_default() += wei;
                }
                Step::Load(who) => {
                    prop_assert_eq!(journal.account(&who).balance, U256::from(model.balance(&who)));
                }
                Step::Debit(who, wei) => {
                    let can_pay = model.balance(&who) >= wei;
                    prop_assert_eq!(journal.debit(&who, U256::from(wei)), can_pay);
                    *model.debited.entry(who).or_default() += if can_pay { wei } else { 0 };
                }
                Step::SetCode(who, code) => {
                    journal.set_code(&who, word(code), Bytes::new(), 1, 1);
                    model.code.insert(who, code);
                }
                Step::ReadCode(who) => {
                    let expected = model.code.get(&who).map_or(KECCAK_EMPTY, |code| word(*code));
                    prop_assert_eq!(journal.account_code(&who).hash, expected);
                }
                Step::Store(who, slot, value) => {
                    journal.store(&who, &word(slot), word(value));
                    model.storage.insert((who, slot), value);
                }
                Step::Transient(who, slot, value) => {
                    journal.store_transient(&who, &word(slot), word(value));
                    model.transient.insert((who, slot), value);
                }
                Step::Warm(who, slot) => {
                    prop_assert_eq!(journal.warm_slot(&who, &word(slot)), model.warm.insert((who, slot)));
                }
                Step::Log(number) => {
                    journal.log(Log { address: Address::ZERO, topics: vec![word(number)], data: Bytes::new() });
                    model.logs.push(number);
                }
            }
        }
        let touched = journal.touched().accounts;
        for who in (0..3).map(Address::with_last_byte) {
            let shown = touched.get(&who).map_or_else(|| view.account(&who).unwrap_or_default(), |(_, after)| after.clone());
            prop_assert_eq!(shown.balance, U256::from(model.balance(&who)));
            prop_assert_eq!(journal.account(&who).balance, U256::from(model.balance(&who)));
            let code = model.code.get(&who).map_or(KECCAK_EMPTY, |code| word(*code));
            prop_assert_eq!(journal.account_code(&who).hash, code);
            for slot in 0..3 {
                let first = u64::from(who == Address::with_last_byte(1) && slot == 1);
                let stored = model.storage.get(&(who, slot)).copied().unwrap_or(first);
                prop_assert_eq!(number(journal.storage(&who, &word(slot))), stored);
                let transient = model.transient.get(&(who, slot)).copied().unwrap_or_default();
                prop_assert_eq!(number(journal.transient(&who, &word(slot))), transient);
            }
        }
        let (_, _, logs) = journal.finish();
        prop_assert_eq!(logs.iter().map(|log| number(log.topics[0])).collect::<Vec<_>>(), model.logs);
    }
}

#[derive(Clone, Debug, Default)]
struct Model {
    credited: BTreeMap<Address, u64>,
    debited: BTreeMap<Address, u64>,
    code: BTreeMap<Address, u64>,
    storage: BTreeMap<(Address, u64), u64>,
    transient: BTreeMap<(Address, u64), u64>,
    warm: BTreeSet<(Address, u64)>,
    logs: Vec<u64>,
}

impl Model {
    /// Address 1 begins with 5 wei.
    fn balance(&self, who: &Address) -> u64 {
        let of = |amounts: &BTreeMap<Address, u64>| amounts.get(who).copied().unwrap_or_default();
        let first = if *who == Address::with_last_byte(1) { 5 } else { 0 };
        first + of(&self.credited) - of(&self.debited)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Checkpoint,
    Revert(prop::sample::Index),
    Credit(Address, u64),
    /// Reads the balance, which loads the account.
    Load(Address),
    Debit(Address, u64),
    SetCode(Address, u64),
    ReadCode(Address),
    Store(Address, u64, u64),
    Transient(Address, u64, u64),
    Warm(Address, u64),
    Log(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    let who = || (0u8..3).prop_map(Address::with_last_byte);
    prop_oneof![
        2 => Just(Step::Checkpoint),
        2 => any::<prop::sample::Index>().prop_map(Step::Revert),
        3 => (who(), 0u64..5).prop_map(|(who, wei)| Step::Credit(who, wei)),
        1 => who().prop_map(Step::Load),
        1 => (who(), 0u64..5).prop_map(|(who, wei)| Step::Debit(who, wei)),
        1 => (who(), 1u64..3).prop_map(|(who, code)| Step::SetCode(who, code)),
        1 => who().prop_map(Step::ReadCode),
        2 => (who(), 0u64..3, 0u64..3).prop_map(|(who, slot, value)| Step::Store(who, slot, value)),
        1 => (who(), 0u64..3, 0u64..3).prop_map(|(who, slot, value)| Step::Transient(who, slot, value)),
        2 => (who(), 0u64..3).prop_map(|(who, slot)| Step::Warm(who, slot)),
        1 => (0u64..9).prop_map(Step::Log),
    ]
}
