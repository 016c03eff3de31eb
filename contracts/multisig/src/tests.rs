//! Native tests on the SDK's host in memory. The contract's calls to itself are simulated by setting the sender.

use super::*;
use alloy_primitives::B256;
use alloy_sol_types::SolEvent;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use stylus_sdk::testing::*;

const TARGET: Address = Address::repeat_byte(0xcc);

fn person(number: u8) -> Address {
    Address::with_last_byte(number + 1)
}

fn n(value: u64) -> U256 {
    U256::from(value)
}

fn multisig(owners: u8, threshold: u64) -> (TestVM, Multisig) {
    let vm = TestVM::default();
    let mut contract = Multisig::from(&vm);
    assert!(contract.constructor((0..owners).map(person).collect(), n(threshold)).is_ok());
    (vm, contract)
}

fn itself(vm: &TestVM) -> Address {
    use stylus_sdk::prelude::AccountAccess;
    vm.contract_address()
}

fn topics(vm: &TestVM) -> Vec<B256> {
    vm.get_emitted_logs().into_iter().map(|(topics, _)| topics[0]).collect()
}

#[test]
fn call_executes_after_two_of_three() {
    let (vm, mut multisig) = multisig(3, 2);
    vm.mock_call(TARGET, vec![1, 2], n(5), Ok(vec![9]));
    vm.set_sender(person(0));
    let id = multisig.propose(TARGET, n(5), vec![1, 2].into()).ok().unwrap();
    assert!(matches!(
        multisig.execute(id),
        Err(MultisigError::TooFewConfirmations(TooFewConfirmations { confirmations, threshold, .. }))
            if (confirmations, threshold) == (n(1), n(2))
    ));
    vm.set_sender(person(2));
    assert!(multisig.confirm(id).is_ok());
    assert_eq!(multisig.execute(id).ok().unwrap(), vec![9]);
    assert!(matches!(multisig.execute(id), Err(MultisigError::AlreadyExecuted(_))));
    let (to, value, data, executed) = multisig.proposal(id).ok().unwrap();
    assert_eq!((to, value, data, executed), (TARGET, n(5), vec![1, 2].into(), true));
    let told = topics(&vm);
    assert_eq!(
        told[4..],
        [Proposed::SIGNATURE_HASH, Confirmed::SIGNATURE_HASH, Confirmed::SIGNATURE_HASH, Executed::SIGNATURE_HASH]
    );
}

#[test]
fn rejects_invalid_owners_and_threshold() {
    let bad = |owners: &[Address], threshold: u64| {
        Multisig::from(&TestVM::default()).constructor(owners.to_vec(), n(threshold)).err()
    };
    let here = itself(&TestVM::default());
    assert!(matches!(bad(&[person(0), person(0)], 1), Some(MultisigError::BadOwner(_))));
    assert!(matches!(bad(&[Address::ZERO], 1), Some(MultisigError::BadOwner(_))));
    assert!(matches!(bad(&[here], 1), Some(MultisigError::BadOwner(_))));
    assert!(matches!(bad(&[], 0), Some(MultisigError::BadThreshold(_))));
    assert!(matches!(bad(&[person(0)], 0), Some(MultisigError::BadThreshold(_))));
    assert!(matches!(bad(&[person(0)], 2), Some(MultisigError::BadThreshold(_))));
    let many: Vec<Address> = (0..=MAX_OWNERS as u8).map(person).collect();
    assert!(matches!(bad(&many, 1), Some(MultisigError::BadThreshold(_))));
    assert!(bad(&many[1..], 50).is_none());
}

#[test]
fn rejects_strangers_and_direct_owner_changes() {
    let (vm, mut multisig) = multisig(2, 1);
    for who in [person(0), person(9)] {
        vm.set_sender(who);
        assert!(matches!(multisig.add_owner(person(5), n(1)), Err(MultisigError::NotByItself(_))));
        assert!(matches!(multisig.remove_owner(person(1), n(1)), Err(MultisigError::NotByItself(_))));
        assert!(matches!(multisig.replace_owner(person(1), person(5)), Err(MultisigError::NotByItself(_))));
        assert!(matches!(multisig.change_threshold(n(2)), Err(MultisigError::NotByItself(_))));
    }
    vm.set_sender(person(9));
    assert!(matches!(multisig.propose(TARGET, n(0), Vec::new().into()), Err(MultisigError::NotOwner(_))));
    assert!(matches!(multisig.confirm(n(0)), Err(MultisigError::NotOwner(_))));
    assert!(matches!(multisig.execute(n(0)), Err(MultisigError::NotOwner(_))));
    vm.set_sender(person(0));
    assert!(matches!(multisig.confirm(n(0)), Err(MultisigError::NoSuchProposal(_))));
}

#[test]
fn removed_owner_loses_confirmations() {
    let (vm, mut multisig) = multisig(3, 2);
    vm.set_sender(person(1));
    let id = multisig.propose(TARGET, n(0), Vec::new().into()).ok().unwrap();
    vm.set_sender(itself(&vm));
    assert!(multisig.remove_owner(person(1), n(2)).is_ok());
    assert_eq!((multisig.confirmations(id), multisig.owners()), (n(0), vec![person(0), person(2)]));
    assert!(multisig.add_owner(person(1), n(2)).is_ok());
    assert!(!multisig.is_confirmed(id, person(1)) && multisig.is_owner(person(1)));
    vm.set_sender(person(1));
    assert!(matches!(multisig.revoke(id), Err(MultisigError::NotConfirmed(_))));
    assert!(multisig.confirm(id).is_ok() && multisig.revoke(id).is_ok() && multisig.confirm(id).is_ok());
    assert!(matches!(multisig.confirm(id), Err(MultisigError::AlreadyConfirmed(_))));
    assert_eq!(multisig.confirmations(id), n(1));
}

/// Random actions on a multisig, in any order.
#[derive(Clone, Debug)]
enum Deed {
    Propose(u8),
    Confirm(u8, u64),
    Revoke(u8, u64),
    Execute(u8, u64),
    Add(u8, u64),
    Remove(u8, u64),
    Replace(u8, u8),
    Threshold(u64),
}

fn deed() -> impl Strategy<Value = Deed> {
    let (who, id, threshold) = (0..6_u8, 0..4_u64, 0..6_u64);
    prop_oneof![
        1 => who.clone().prop_map(Deed::Propose),
        4 => (who.clone(), id.clone()).prop_map(|(who, id)| Deed::Confirm(who, id)),
        1 => (who.clone(), id.clone()).prop_map(|(who, id)| Deed::Revoke(who, id)),
        4 => (who.clone(), id).prop_map(|(who, id)| Deed::Execute(who, id)),
        1 => (who.clone(), threshold.clone()).prop_map(|(who, to)| Deed::Add(who, to)),
        1 => (who.clone(), threshold.clone()).prop_map(|(who, to)| Deed::Remove(who, to)),
        1 => (who.clone(), who).prop_map(|(who, by)| Deed::Replace(who, by)),
        1 => threshold.prop_map(Deed::Threshold),
    ]
}

/// A model in sets: owners, and the confirmations of the current terms.
#[derive(Clone, Default)]
struct Model {
    owners: BTreeSet<u8>,
    threshold: u64,
    open: BTreeMap<u64, BTreeSet<u8>>,
    executed: BTreeSet<u64>,
    proposed: u64,
}

impl Model {
    /// Returns true if the action is allowed, and applies it.
    fn does(&mut self, deed: &Deed) -> bool {
        let before = self.clone();
        let done = match *deed {
            Deed::Propose(who) => {
                self.owners.contains(&who) && {
                    self.open.insert(self.proposed, BTreeSet::from([who]));
                    self.proposed += 1;
                    true
                }
            }
            Deed::Confirm(who, id) => {
                self.owners.contains(&who) && self.open.get_mut(&id).is_some_and(|confirmed| confirmed.insert(who))
            }
            Deed::Revoke(who, id) => self.open.get_mut(&id).is_some_and(|confirmed| confirmed.remove(&who)),
            Deed::Execute(who, id) => {
                let enough = self.open.get(&id).is_some_and(|confirmed| confirmed.len() as u64 >= self.threshold);
                self.owners.contains(&who) && enough && self.open.remove(&id).is_some() && self.executed.insert(id)
            }
            Deed::Add(who, threshold) => self.owners.insert(who) && self.require(threshold),
            Deed::Remove(who, threshold) => self.dismiss(who) && self.require(threshold),
            Deed::Replace(who, by) => self.dismiss(who) && self.owners.insert(by),
            Deed::Threshold(threshold) => self.require(threshold),
        };
        if !done {
            *self = before;
        }
        done
    }

    fn dismiss(&mut self, who: u8) -> bool {
        self.open.values_mut().for_each(|confirmed| {
            confirmed.remove(&who);
        });
        self.owners.remove(&who)
    }

    fn require(&mut self, threshold: u64) -> bool {
        self.threshold = threshold;
        (1..=self.owners.len() as u64).contains(&threshold)
    }
}

fn really_does(vm: &TestVM, multisig: &mut Multisig, deed: &Deed) -> bool {
    let by = |who: u8| vm.set_sender(person(who));
    match *deed {
        Deed::Propose(who) => {
            by(who);
            multisig.propose(TARGET, n(0), Vec::new().into()).is_ok()
        }
        Deed::Confirm(who, id) => {
            by(who);
            multisig.confirm(n(id)).is_ok()
        }
        Deed::Revoke(who, id) => {
            by(who);
            multisig.revoke(n(id)).is_ok()
        }
        Deed::Execute(who, id) => {
            by(who);
            multisig.execute(n(id)).is_ok()
        }
        _ => {
            vm.set_sender(itself(vm));
            match *deed {
                Deed::Add(who, threshold) => multisig.add_owner(person(who), n(threshold)).is_ok(),
                Deed::Remove(who, threshold) => multisig.remove_owner(person(who), n(threshold)).is_ok(),
                Deed::Replace(who, by) => multisig.replace_owner(person(who), person(by)).is_ok(),
                Deed::Threshold(threshold) => multisig.change_threshold(n(threshold)).is_ok(),
                _ => unreachable!("done above"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// Main invariant: a proposal is executed only with `threshold` confirmations of current owners, and once only.
    #[test]
    fn matches_set_model(owners in 1..5_u8, threshold in 1..5_u64, deeds in prop::collection::vec(deed(), 1..60)) {
        prop_assume!(threshold <= u64::from(owners));
        let (vm, mut multisig) = multisig(owners, threshold);
        let mut model = Model { owners: (0..owners).collect(), threshold, ..Model::default() };
        for deed in deeds {
            // A failed call must leave no changes. On a chain the node ensures this.
            let before = vm.snapshot().storage;
            let done = really_does(&vm, &mut multisig, &deed);
            if !done {
                vm.clear_storage();
                before.into_iter().for_each(|(slot, value)| vm.set_storage(slot, value));
            }
            prop_assert_eq!(done, model.does(&deed), "{:?}", deed);
            let owners: BTreeSet<Address> = multisig.owners().into_iter().collect();
            prop_assert_eq!(owners, model.owners.iter().map(|who| person(*who)).collect::<BTreeSet<_>>());
            prop_assert_eq!(multisig.threshold(), n(model.threshold));
            for (id, confirmed) in &model.open {
                prop_assert_eq!(multisig.confirmations(n(*id)), n(confirmed.len() as u64));
            }
            prop_assert_eq!(multisig.proposals(), n(model.proposed));
        }
    }
}
