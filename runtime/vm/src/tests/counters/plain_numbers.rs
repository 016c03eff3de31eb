//! Compares programs of all operations on counters with plain numbers in a map.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One action of a contract on its three slots. Calls run one of the program's later bodies.
#[derive(Clone, Copy, Debug)]
enum Action {
    Count(u64, Delta, U256),
    Load(u64),
    Store(u64, U256),
    /// To contract a or b, or by delegation.
    Call(u8, usize),
}

#[derive(Clone, Debug)]
struct Body {
    actions: Vec<Action>,
    reverts: bool,
}

fn edge() -> impl Strategy<Value = U256> + Clone {
    prop_oneof![
        4 => (0u64..6).prop_map(n),
        1 => (0u64..4).prop_map(|less| MAX - n(less)),
        1 => (0u64..4).prop_map(|less| (MAX >> 1) - n(less)),
    ]
}

fn any_act() -> impl Strategy<Value = Action> {
    let change =
        (any::<bool>(), edge()).prop_map(|(plus, amount)| if plus { Delta::Plus(amount) } else { Delta::Minus(amount) });
    prop_oneof![
        8 => (0u64..3, change, edge()).prop_map(|(slot, change, bound)| Action::Count(slot, change, bound)),
        // Bounds without effect, so that the sums change.
        4 => (0u64..3, any::<bool>(), 0u64..4).prop_map(|(slot, up, amount)| match up {
            true => Action::Count(slot, plus(amount), MAX),
            false => Action::Count(slot, minus(amount), n(0)),
        }),
        1 => (0u64..3).prop_map(Action::Load),
        1 => (0u64..3, edge()).prop_map(|(slot, value)| Action::Store(slot, value)),
        4 => (0u8..3, 1usize..4).prop_map(|(to, further)| Action::Call(to, further)),
    ]
}

fn any_program() -> impl Strategy<Value = Vec<Body>> {
    let body = (prop::collection::vec(any_act(), 0..6), any::<bool>()).prop_map(|(actions, reverts)| Body { actions, reverts });
    prop::collection::vec(body, 1..5).prop_map(|mut bodies| {
        bodies[0].reverts = false;
        bodies
    })
}

/// All results and loaded numbers of a program, including those of reverted frames.
type Trace = Vec<U256>;

fn name(to: u8) -> &'static str {
    if to == 0 { "a" } else { "b" }
}

fn interpret(guest: &mut Guest<'_>, program: &[Body], trace: &Mutex<Trace>) -> Result<Bytes, Stop> {
    let index = guest.input.first().copied().unwrap_or(0);
    let body = &program[usize::from(index)];
    let saw = |number| trace.lock().unwrap().push(number);
    for act in &body.actions {
        match *act {
            Action::Count(slot, change, bound) => saw(n(u64::from(guest.count(slot, change, bound)?))),
            Action::Load(slot) => saw(guest.load_wide(slot)?),
            Action::Store(slot, value) => guest.store_wide(slot, value)?,
            Action::Call(to, further) => {
                let next = usize::from(index) + further;
                if next < program.len() {
                    let kind = if to == 2 { CallKind::Delegate } else { CallKind::Call };
                    guest.call(kind, contract(name(to)), 0, u64::MAX, &[next as u8])?;
                }
            }
        }
    }
    if body.reverts { Err(Stop::Revert(Bytes::new())) } else { Ok(Bytes::new()) }
}

/// The model with plain numbers.
#[derive(Clone, Default)]
struct Plain {
    slots: BTreeMap<Key, U256>,
    trace: Trace,
    /// Slots loaded or stored, including by reverted frames: a read stays a read.
    touched: BTreeSet<Key>,
}

impl Plain {
    fn run(&mut self, program: &[Body], index: usize, address: Address) {
        let before = self.slots.clone();
        for act in &program[index].actions {
            match *act {
                Action::Count(slot, change, bound) => {
                    let slot = self.slots.entry((address, word(slot))).or_default();
                    let counted = match change {
                        Delta::Plus(amount) => slot.checked_add(amount).filter(|sum| *sum <= bound),
                        Delta::Minus(amount) => slot.checked_sub(amount).filter(|rest| *rest >= bound),
                    };
                    *slot = counted.unwrap_or(*slot);
                    self.trace.push(n(u64::from(counted.is_some())));
                }
                Action::Load(slot) => {
                    self.touched.insert((address, word(slot)));
                    self.trace.push(self.slots.get(&(address, word(slot))).copied().unwrap_or_default());
                }
                Action::Store(slot, value) => {
                    self.touched.insert((address, word(slot)));
                    self.slots.insert((address, word(slot)), value);
                }
                Action::Call(to, further) if index + further < program.len() => {
                    let callee = if to == 2 { address } else { contract(name(to)) };
                    self.run(program, index + further, callee);
                }
                Action::Call(..) => {}
            }
        }
        if program[index].reverts {
            self.slots = before;
        }
    }
}

proptest! {
    /// Arbitrary programs of adds, subs, loads, stores, calls and reverts give the results of plain numbers. A slot
    /// that is only counted on is never read.
    #[test]
    fn counters_match_plain_numbers(
        start in prop::collection::vec(edge(), 6),
        programs in prop::collection::vec(any_program(), 1..4),
    ) {
        let mut chain = Chain::new();
        chain.set_balance(chain.sender(), u64::MAX);
        let mut model = Plain::default();
        let keys: Vec<Key> = ["a", "b"].iter().flat_map(|name| (0..3).map(|slot| (contract(name), word(slot)))).collect();
        for (key, value) in keys.iter().zip(start) {
            chain.state.storage.insert(*key, value.into());
            model.slots.insert(*key, value);
        }
        for program in programs {
            let trace = Arc::new(Mutex::new(Trace::new()));
            for name in ["a", "b"] {
                let (program, trace) = (program.clone(), trace.clone());
                chain.contract(name, move |guest| interpret(guest, &program, &trace));
            }
            let mut draft = chain.draft(contract("a"));
            draft.gas_limit = BLOCK_GAS;
            (model.trace, model.touched) = Default::default();
            model.run(&program, 0, contract("a"));

            let view = chain.view();
            let witness = RecordingView::new(&view);
            let watched = chain.run_on(&witness, draft.clone()).unwrap();
            prop_assert_eq!(&std::mem::take(&mut *trace.lock().unwrap()), &model.trace);
            let reads = witness.reads();
            prop_assert_eq!(&reads.iter().copied().collect::<BTreeSet<_>>(), &model.touched);
            prop_assert_eq!(reads.len(), model.touched.len(), "read once");

            prop_assert_eq!(&chain.run(draft.clone()).unwrap(), &watched, "how a view answers does not show");
            let executed = chain.send(draft);
            prop_assert!(executed.receipt.success);
            for (key, sum) in &executed.additions.counters {
                prop_assert!(!sum.is_zero() && !model.touched.contains(key));
                prop_assert!(!executed.changes.storage.contains_key(key), "in one of the two");
            }
            for key in &keys {
                let value = U256::from_be_bytes(chain.view().storage(&key.0, &key.1).0);
                prop_assert_eq!(value, model.slots[key]);
            }
        }
    }
}
