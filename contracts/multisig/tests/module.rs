//! Runs the real WebAssembly on the nodes' virtual machine. Here the contract really calls itself, and others really call back.

use alloy_sol_types::{sol, SolCall};
use corniche_harness::{Address, Bytes, Chain, Contract, Failed, U256};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;

sol! {
    #[derive(Debug)]
    interface Multisig {
        function owners() external view returns (address[] memory);
        function isOwner(address account) external view returns (bool);
        function threshold() external view returns (uint256);
        function proposals() external view returns (uint256);
        function proposal(uint256 id) external view returns (address to, uint256 value, bytes memory data, bool executed);
        function confirmations(uint256 id) external view returns (uint256);
        function isConfirmed(uint256 id, address owner) external view returns (bool);
        function propose(address to, uint256 value, bytes data) external returns (uint256 id);
        function confirm(uint256 id) external;
        function revoke(uint256 id) external;
        function execute(uint256 id) external returns (bytes memory);
        function addOwner(address owner, uint256 threshold) external;
        function removeOwner(address owner, uint256 threshold) external;
        function replaceOwner(address owner, address by) external;
        function changeThreshold(uint256 threshold) external;

        event Received(address indexed from, uint256 value);
        event Proposed(uint256 indexed id, address indexed by, address indexed to, uint256 value, bytes data);
        event Confirmed(uint256 indexed id, address indexed by);
        event Revoked(uint256 indexed id, address indexed by);
        event Executed(uint256 indexed id, address indexed by);
        event OwnerAdded(address indexed owner);
        event OwnerRemoved(address indexed owner);
        event ThresholdChanged(uint256 threshold);

        error NotOwner(address caller);
        error NotByItself(address caller);
        error NoSuchProposal(uint256 id);
        error AlreadyExecuted(uint256 id);
        error AlreadyConfirmed(uint256 id, address owner);
        error NotConfirmed(uint256 id, address owner);
        error TooFewConfirmations(uint256 id, uint256 confirmations, uint256 threshold);
        error BadOwner(address owner);
        error BadThreshold(uint256 owners, uint256 threshold);
        error Busy();
    }

    function transfer(address to, uint256 value) returns (bool);
    function balanceOf(address account) returns (uint256);
    error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed);

    function arm(address target, bytes data);
    function attacks() returns (uint256 tried, uint256 let_in);
}

fn n(value: u64) -> U256 {
    U256::from(value)
}

fn contract(folder: &str) -> Contract {
    Contract::in_crate(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap()
}

/// A multisig of three owners with threshold two and a thousand wei.
#[derive(Clone)]
struct Place {
    chain: Chain,
    /// The first three are its owners.
    people: [Address; 5],
    multisig: Address,
}

impl Place {
    fn new() -> Self {
        thread_local!(static PREPARED: Place = Place::prepared());
        PREPARED.with(Clone::clone)
    }

    fn prepared() -> Self {
        let mut chain = Chain::new();
        let people = ["alice", "bob", "carol", "dave", "erin"].map(|name| chain.account(name));
        let arguments = (people[..3].to_vec(), n(2));
        let multisig = chain.by(people[0]).value(n(1_000)).deploy(&Contract::in_this_crate(), arguments).unwrap();
        Self { chain, people, multisig }
    }

    fn propose(&mut self, who: usize, to: Address, value: u64, data: impl Into<Bytes>) -> Result<U256, Failed> {
        let call = Multisig::proposeCall { to, value: n(value), data: data.into() };
        Ok(self.chain.by(self.people[who]).send(self.multisig, call)?.output)
    }

    fn confirm(&mut self, who: usize, id: U256) -> Result<(), Failed> {
        self.chain.by(self.people[who]).send(self.multisig, Multisig::confirmCall { id }).map(drop)
    }

    fn execute(&mut self, who: usize, id: U256) -> Result<Bytes, Failed> {
        Ok(self.chain.by(self.people[who]).send(self.multisig, Multisig::executeCall { id })?.output)
    }

    /// Alice and bob confirm and execute this call.
    fn agree(&mut self, to: Address, value: u64, data: impl Into<Bytes>) -> Result<Bytes, Failed> {
        let id = self.propose(0, to, value, data)?;
        self.confirm(1, id)?;
        self.execute(1, id)
    }

    fn agree_on(&mut self, change: impl SolCall) -> Result<Bytes, Failed> {
        self.agree(self.multisig, 0, change.abi_encode())
    }

    fn owners(&self) -> Vec<Address> {
        self.chain.view(self.multisig, Multisig::ownersCall {})
    }
}

#[test]
fn payment_executes_after_two_of_three() {
    let mut place = Place::new();
    let ([alice, bob, carol, dave, _], multisig) = (place.people, place.multisig);
    let before = place.chain.balance(dave);
    let id = place.propose(0, dave, 300, []).unwrap();
    let refused = place.execute(0, id).unwrap_err();
    let error: Multisig::TooFewConfirmations = refused.error().unwrap();
    assert_eq!((error.id, error.confirmations, error.threshold), (id, n(1), n(2)));

    let sent = place.chain.by(carol).send(multisig, Multisig::confirmCall { id }).unwrap();
    let [told] = &sent.events::<Multisig::Confirmed>()[..] else { panic!("{:?}", sent.logs) };
    assert_eq!((told.id, told.by), (id, carol));
    let sent = place.chain.by(alice).send(multisig, Multisig::executeCall { id }).unwrap();
    assert_eq!(sent.events::<Multisig::Executed>().len(), 1);
    assert_eq!((place.chain.balance(dave) - before, place.chain.balance(multisig)), (n(300), n(700)));

    let refused = place.execute(0, id).unwrap_err();
    assert_eq!(refused.error::<Multisig::AlreadyExecuted>().unwrap().id, id);
    assert_eq!(place.chain.balance(multisig), n(700));
    let sent = place.chain.by(bob).value(n(50)).send_raw(multisig, []).unwrap();
    let [told] = &sent.events::<Multisig::Received>()[..] else { panic!("{:?}", sent.logs) };
    assert_eq!((told.from, told.value, place.chain.balance(multisig)), (bob, n(50), n(750)));
    place.chain.gas().assert_matches_file("gas.txt");
}

#[test]
fn call_forwards_return_and_revert_data() {
    let mut place = Place::new();
    let dave = place.people[3];
    let arguments = ("Gold".to_owned(), "GLD".to_owned(), n(100));
    let token = place.chain.by(dave).deploy(&contract("../erc20"), arguments).unwrap();
    let pay = transferCall { to: dave, value: n(7) }.abi_encode();
    let refused = place.agree(token, 0, pay).unwrap_err();
    let error: ERC20InsufficientBalance = refused.error().unwrap();
    assert_eq!((error.sender, error.needed), (place.multisig, n(7)));

    // The failed call does not count as executed, so it can be tried again.
    place.chain.by(dave).send(token, transferCall { to: place.multisig, value: n(7) }).unwrap();
    let answer = place.execute(0, n(0)).unwrap();
    assert!(transferCall::abi_decode_returns(&answer).unwrap());
    assert_eq!(place.chain.view(token, balanceOfCall { account: dave }), n(100));
    let told = place.chain.view(place.multisig, Multisig::proposalCall { id: n(0) });
    assert_eq!((told.to, told.executed, told.data.len()), (token, true, 68), "bytes that do not fill their last word");
}

#[test]
fn owner_changes_need_confirmations() {
    let mut place = Place::new();
    let ([alice, bob, carol, dave, erin], multisig) = (place.people, place.multisig);
    let add = Multisig::addOwnerCall { owner: dave, threshold: n(3) };
    let refused = place.chain.by(alice).send(multisig, add.clone()).unwrap_err();
    assert_eq!(refused.error::<Multisig::NotByItself>().unwrap().caller, alice);

    place.agree_on(add).unwrap();
    assert_eq!((place.owners(), place.chain.view(multisig, Multisig::thresholdCall {})), (vec![alice, bob, carol, dave], n(3)));
    let refused = place.agree_on(Multisig::changeThresholdCall { threshold: n(1) }).unwrap_err();
    assert_eq!(refused.error::<Multisig::TooFewConfirmations>().unwrap().threshold, n(3), "two are not enough any more");
    place.confirm(3, n(1)).unwrap();
    place.execute(2, n(1)).unwrap();
    place.agree_on(Multisig::replaceOwnerCall { owner: carol, by: erin }).unwrap();
    place.agree_on(Multisig::removeOwnerCall { owner: alice, threshold: n(2) }).unwrap();
    assert_eq!(place.owners(), [erin, bob, dave]);
    assert!(place.propose(0, erin, 1, []).unwrap_err().error::<Multisig::NotOwner>().is_some());
    assert!(!place.chain.view(multisig, Multisig::isOwnerCall { account: alice }));
}

#[test]
fn lockout_change_reverts() {
    let mut place = Place::new();
    let owners = place.owners();
    let alice = owners[0];
    for threshold in [0, 4] {
        let refused = place.agree_on(Multisig::changeThresholdCall { threshold: n(threshold) }).unwrap_err();
        assert_eq!(refused.error::<Multisig::BadThreshold>().unwrap().owners, n(3));
    }
    let refused = place.agree_on(Multisig::removeOwnerCall { owner: alice, threshold: n(3) }).unwrap_err();
    assert!(refused.error::<Multisig::BadThreshold>().is_some());
    for owner in [alice, place.multisig, Address::ZERO] {
        let refused = place.agree_on(Multisig::addOwnerCall { owner, threshold: n(2) }).unwrap_err();
        assert_eq!(refused.error::<Multisig::BadOwner>().unwrap().owner, owner);
    }
    assert_eq!(place.owners(), owners);
}

#[test]
fn confirmations_of_removed_owner_expire() {
    let mut place = Place::new();
    let (bob, carol, multisig) = (place.people[1], place.people[2], place.multisig);
    let id = place.propose(2, bob, 1_000, []).unwrap();
    place.agree_on(Multisig::removeOwnerCall { owner: carol, threshold: n(2) }).unwrap();
    place.confirm(1, id).unwrap();
    let refused = place.execute(1, id).unwrap_err();
    assert_eq!(refused.error::<Multisig::TooFewConfirmations>().unwrap().confirmations, n(1));
    place.agree_on(Multisig::addOwnerCall { owner: carol, threshold: n(2) }).unwrap();
    assert!(!place.chain.view(multisig, Multisig::isConfirmedCall { id, owner: carol }), "a new term begins anew");
    assert!(place.execute(1, id).is_err());
    place.confirm(2, id).unwrap();
    place.execute(1, id).unwrap();
}

/// A called contract may send coins back, and nothing else meanwhile, even if it is an owner.
#[test]
fn callee_may_only_refund() {
    let mut place = Place::new();
    let multisig = place.multisig;
    let rogue = place.chain.by(place.people[3]).deploy(&contract("../exchange/rogue"), ()).unwrap();
    place.agree_on(Multisig::addOwnerCall { owner: rogue, threshold: n(2) }).unwrap();
    let arm = |place: &mut Place, data: Vec<u8>| {
        place.chain.by(place.people[3]).send(rogue, armCall { target: multisig, data: data.into() }).unwrap();
    };
    let attacks: [Vec<u8>; 5] = [
        Multisig::executeCall { id: n(1) }.abi_encode(),
        Multisig::confirmCall { id: n(1) }.abi_encode(),
        Multisig::proposeCall { to: rogue, value: n(1_000), data: Bytes::new() }.abi_encode(),
        Multisig::changeThresholdCall { threshold: n(1) }.abi_encode(),
        Multisig::ownersCall {}.abi_encode(),
    ];
    for (at, attack) in attacks.into_iter().enumerate() {
        arm(&mut place, attack);
        place.agree(rogue, 10, []).unwrap();
        let attacks = place.chain.view(rogue, attacksCall {});
        assert_eq!((attacks.tried, attacks.let_in), (n(at as u64 + 1), n(0)));
        assert_eq!(place.chain.balance(multisig), n(1_000 - 10 * (at as u64 + 1)), "paid once");
    }
    arm(&mut place, Vec::new());
    place.agree(rogue, 10, []).unwrap();
    assert_eq!(place.chain.view(rogue, attacksCall {}).let_in, n(1));
}

#[test]
fn module_embeds_tested_abi() {
    let contract = Contract::in_this_crate();
    assert_eq!(contract.interface(), Some(&include_bytes!("../abi.json")[..]));
    let set = |selectors: &[[u8; 4]]| selectors.iter().copied().collect::<BTreeSet<_>>();
    assert_eq!(
        contract.abi.functions().map(|one| one.selector().0).collect::<BTreeSet<_>>(),
        set(Multisig::MultisigCalls::SELECTORS)
    );
    assert_eq!(
        contract.abi.errors().map(|one| one.selector().0).collect::<BTreeSet<_>>(),
        set(Multisig::MultisigErrors::SELECTORS)
    );
    let events: BTreeSet<_> = contract.abi.events().map(|one| one.selector().0).collect();
    assert_eq!(events, Multisig::MultisigEvents::SELECTORS.iter().copied().collect());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Coins leave only with current confirmations of two of the three owners, and once.
    #[test]
    fn value_leaves_only_with_confirmations(deeds in prop::collection::vec((0..4_usize, 0..5_usize, 0..3_u64), 1..30)) {
        let mut place = Place::new();
        let dave = place.people[3];
        let mut confirmed: Vec<Option<BTreeSet<usize>>> = Vec::new();
        let mut owed = 0;
        let before = place.chain.balance(dave);
        for (deed, who, id) in deeds {
            let (owner, proposal) = (who < 3, confirmed.get_mut(id as usize));
            match deed {
                0 => {
                    let done = place.propose(who, dave, 1 + id, []).is_ok();
                    prop_assert_eq!(done, owner);
                    confirmed.extend(done.then(|| Some(BTreeSet::from([who]))));
                }
                1 => {
                    let may = owner && proposal.and_then(Option::as_mut).is_some_and(|confirmed| confirmed.insert(who));
                    prop_assert_eq!(place.confirm(who, n(id)).is_ok(), may);
                }
                2 => {
                    let may = proposal.and_then(Option::as_mut).is_some_and(|confirmed| confirmed.remove(&who));
                    let sent = place.chain.by(place.people[who]).send(place.multisig, Multisig::revokeCall { id: n(id) });
                    prop_assert_eq!(sent.is_ok(), may);
                }
                _ => {
                    let may = owner && proposal.and_then(|open| open.take_if(|confirmed| confirmed.len() >= 2)).is_some();
                    let value = place.chain.by(dave).call(place.multisig, Multisig::proposalCall { id: n(id) });
                    prop_assert_eq!(place.execute(who, n(id)).is_ok(), may);
                    owed += if may { value.unwrap().value.to::<u64>() } else { 0 };
                }
            }
            prop_assert_eq!(place.chain.balance(place.multisig), n(1_000 - owed));
            prop_assert_eq!(place.chain.balance(dave), before + n(owed));
        }
    }
}
