//! Runs the real WebAssembly on the nodes' virtual machine: here the proxy really runs its implementation's code.

use alloy_sol_types::{sol, Panic, SolCall, SolError, SolValue};
use corniche_harness::{Address, Bytes, Chain, Contract, Failed, B256, U256};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;

sol! {
    #[derive(Debug)]
    interface Savings {
        function initialize(address owner) external;
        function deposit() external payable;
        function withdraw(uint256 value) external;
        function balanceOf(address account) external view returns (uint256);
        function total() external view returns (uint256);
        function owner() external view returns (address);
        function version() external view returns (uint256);
        function upgradeToAndCall(address newImplementation, bytes data) external payable;
        function proxiableUUID() external view returns (bytes32);
        function UPGRADE_INTERFACE_VERSION() external view returns (string memory);

        event Deposited(address indexed by, uint256 value);
        event Withdrawn(address indexed by, uint256 value);
        event Initialized(uint64 version);
        event Upgraded(address indexed implementation);

        error InsufficientSavings(uint256 has, uint256 needed);
        error OwnableUnauthorizedAccount(address account);
        error OwnableInvalidOwner(address owner);
        error UUPSUnauthorizedCallContext();
        error UUPSUnsupportedProxiableUUID(bytes32 slot);
        error InvalidInitialization();
        error ERC1967InvalidImplementation(address implementation);
        error ERC1967NonPayable();
    }

    function initialize(address owner, uint64 delay);
    function migrate(uint64 delay);
    function delay() returns (uint64);
    #[derive(Debug)]
    error TooEarly(uint64 until);

    function owners() returns (address[]);
    function execute(uint256 id) returns (bytes);
    function propose(address to, uint256 value, bytes data) returns (uint256);
    function arm(address target, bytes data);
    function attacks() returns (uint256 tried, uint256 let_in);
    function pass(address[] way, uint8 how);
    #[derive(Debug)]
    error NothingLeft(uint256 have, uint256 need);
    struct Call3 { address target; bool allowFailure; bytes callData; }
    struct Result3 { bool success; bytes returnData; }
    function aggregate3(Call3[] calls) returns (Result3[]);
}

/// keccak-256 of `eip1967.proxy.implementation`, minus one.
const SLOT: B256 = B256::new(alloy_primitives::hex!("360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc"));

fn n(value: u64) -> U256 {
    U256::from(value)
}

fn contract(folder: &str) -> Contract {
    Contract::in_crate(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap()
}

/// Alice's savings box behind a proxy, and the code of both versions.
#[derive(Clone)]
struct Place {
    chain: Chain,
    /// alice, bob, carol
    people: [Address; 3],
    v1: Address,
    v2: Address,
    proxy: Address,
}

impl Place {
    fn new() -> Self {
        thread_local!(static PREPARED: Place = Place::prepared());
        PREPARED.with(Clone::clone)
    }

    fn prepared() -> Self {
        let mut chain = Chain::new();
        let people = ["alice", "bob", "carol"].map(|name| chain.account(name));
        let [v1, v2] =
            ["../savings-v1", "../savings-v2"].map(|folder| chain.by(people[0]).deploy(&contract(folder), ()).unwrap());
        let initialize = Savings::initializeCall { owner: people[0] }.abi_encode();
        let proxy = deploy(&mut chain, people[0], v1, initialize).unwrap();
        Self { chain, people, v1, v2, proxy }
    }

    fn deposit(&mut self, who: usize, value: u64) {
        self.chain.by(self.people[who]).value(n(value)).send(self.proxy, Savings::depositCall {}).unwrap();
    }

    fn upgrade(&mut self, who: usize, to: Address, data: impl Into<Bytes>) -> Result<(), Failed> {
        let call = Savings::upgradeToAndCallCall { newImplementation: to, data: data.into() };
        self.chain.by(self.people[who]).send(self.proxy, call).map(drop)
    }

    fn implementation(&self) -> Address {
        Address::from_word(self.chain.storage(self.proxy, SLOT))
    }
}

fn deploy(chain: &mut Chain, by: Address, implementation: Address, data: Vec<u8>) -> Result<Address, Failed> {
    chain.by(by).deploy(&Contract::in_this_crate(), (implementation, Bytes::from(data)))
}

#[test]
fn state_survives_upgrade() {
    let mut place = Place::new();
    let ([alice, bob, carol], proxy) = (place.people, place.proxy);
    place.deposit(1, 500);
    place.deposit(2, 30);
    place.chain.by(bob).send(proxy, Savings::withdrawCall { value: n(100) }).unwrap();
    assert_eq!(place.chain.balance(proxy), n(430), "coins are the proxy's");
    assert_eq!(
        (place.chain.balance(place.v1), place.chain.slots(place.v1).len()),
        (n(0), 0),
        "the implementation holds nothing"
    );

    let call =
        Savings::upgradeToAndCallCall { newImplementation: place.v2, data: migrateCall { delay: 60 }.abi_encode().into() };
    let sent = place.chain.by(alice).send(proxy, call).unwrap();
    let [told] = &sent.events_of::<Savings::Upgraded>(proxy)[..] else { panic!("{:?}", sent.logs) };
    assert_eq!(told.implementation, place.v2);
    assert_eq!(sent.events_of::<Savings::Initialized>(proxy)[0].version, 2, "the proxy says it, whoever's code it is");
    assert_eq!(place.implementation(), place.v2);

    assert_eq!(place.chain.view(proxy, Savings::versionCall {}), n(2));
    assert_eq!(place.chain.view(proxy, Savings::ownerCall {}), alice);
    assert_eq!(place.chain.view(proxy, Savings::totalCall {}), n(430));
    for (who, has) in [(alice, 0), (bob, 400), (carol, 30)] {
        assert_eq!(place.chain.view(proxy, Savings::balanceOfCall { account: who }), n(has));
    }
    // The delay does not apply to deposits of the first version, but to new ones.
    place.chain.by(bob).send(proxy, Savings::withdrawCall { value: n(400) }).unwrap();
    place.deposit(1, 7);
    let refused = place.chain.by(bob).send(proxy, Savings::withdrawCall { value: n(7) }).unwrap_err();
    assert!(refused.error::<TooEarly>().is_some(), "{refused:?}");
    place.chain.advance(60);
    place.chain.by(bob).send(proxy, Savings::withdrawCall { value: n(7) }).unwrap();
    assert_eq!(place.chain.balance(proxy), n(30));
}

/// Makes the deposits and withdrawals without a proxy, for the difference in gas.
#[test]
fn gas_of_proxied_and_direct_calls() {
    let mut place = Place::new();
    let bob = place.people[1];
    for box_ in [place.proxy, place.v1] {
        for _ in 0..2 {
            place.chain.by(bob).value(n(5)).send(box_, Savings::depositCall {}).unwrap();
        }
        place.chain.by(bob).send(box_, Savings::withdrawCall { value: n(3) }).unwrap();
    }
    place.upgrade(0, place.v2, migrateCall { delay: 0 }.abi_encode()).unwrap();
    place.chain.gas().assert_matches_file("gas.txt");
}

#[test]
fn initializes_once() {
    let mut place = Place::new();
    let ([alice, bob, _], proxy) = (place.people, place.proxy);
    let refused = place.chain.by(bob).send(proxy, Savings::initializeCall { owner: bob }).unwrap_err();
    assert!(refused.error::<Savings::InvalidInitialization>().is_some(), "{refused:?}");
    place.upgrade(0, place.v2, migrateCall { delay: 1 }.abi_encode()).unwrap();
    for again in [migrateCall { delay: 0 }.abi_encode(), initializeCall { owner: alice, delay: 0 }.abi_encode()] {
        let refused = place.chain.by(alice).send_raw(proxy, again).unwrap_err();
        assert!(refused.error::<Savings::InvalidInitialization>().is_some(), "{refused:?}");
    }
    assert_eq!(place.chain.view(proxy, delayCall {}), 1);

    // The proxy keeps only the constructor's selector for itself, and the constructor has run.
    let constructor = [&[0x55, 0x85, 0x25, 0x8d][..], &(bob, Bytes::new()).abi_encode_params()].concat();
    assert!(place.chain.by(bob).send_raw(proxy, constructor).is_err());
    assert_eq!(place.implementation(), place.v2);
    // A revert of the initialisation fails the creation, with its revert data.
    let nobody = Savings::initializeCall { owner: Address::ZERO }.abi_encode();
    let refused = deploy(&mut place.chain, alice, place.v1, nobody).unwrap_err();
    assert!(refused.error::<Savings::OwnableInvalidOwner>().is_some(), "{refused:?}");
}

#[test]
fn implementation_cannot_be_initialized() {
    let mut place = Place::new();
    let bob = place.people[1];
    let refused = place.chain.by(bob).send(place.v1, Savings::initializeCall { owner: bob }).unwrap_err();
    assert!(refused.error::<Savings::UUPSUnauthorizedCallContext>().is_some(), "{refused:?}");
    let refused = place.chain.by(bob).send(place.v2, initializeCall { owner: bob, delay: 0 }).unwrap_err();
    assert!(refused.error::<Savings::UUPSUnauthorizedCallContext>().is_some(), "{refused:?}");
    let refused = place.chain.by(bob).send(place.v2, migrateCall { delay: 0 }).unwrap_err();
    assert!(refused.error::<Savings::UUPSUnauthorizedCallContext>().is_some(), "{refused:?}");
    let call = Savings::upgradeToAndCallCall { newImplementation: place.v2, data: Bytes::new() };
    let refused = place.chain.by(bob).send(place.v1, call).unwrap_err();
    assert!(refused.error::<Savings::UUPSUnauthorizedCallContext>().is_some(), "{refused:?}");
    assert!(place.chain.slots(place.v1).is_empty() && place.chain.slots(place.v2).is_empty());
    // The function works on the implementation itself, and not through a proxy.
    assert_eq!(place.chain.view(place.v1, Savings::proxiableUUIDCall {}), SLOT);
    let refused = place.chain.by(bob).call(place.proxy, Savings::proxiableUUIDCall {}).unwrap_err();
    assert!(refused.error::<Savings::UUPSUnauthorizedCallContext>().is_some(), "{refused:?}");
}

#[test]
fn upgrade_needs_owner_and_uups_target() {
    let mut place = Place::new();
    let [alice, bob, _] = place.people;
    let refused = place.upgrade(1, place.v2, []).unwrap_err();
    assert_eq!(refused.error::<Savings::OwnableUnauthorizedAccount>().unwrap().account, bob);
    // No code; a contract without UUPS; another proxy, which would lead in circles.
    let counter = place.chain.by(alice).deploy(&contract("../../counter"), ()).unwrap();
    let other = deploy(&mut place.chain, alice, place.v1, Vec::new()).unwrap();
    for no_implementation in [bob, counter, other, place.proxy] {
        let refused = place.upgrade(0, no_implementation, []).unwrap_err();
        let error: Savings::ERC1967InvalidImplementation = refused.error().unwrap();
        assert_eq!(error.implementation, no_implementation);
    }
    // Coins without a call; a call that reverts, which undoes the upgrade.
    let call = Savings::upgradeToAndCallCall { newImplementation: place.v2, data: Bytes::new() };
    let refused = place.chain.by(alice).value(n(1)).send(place.proxy, call).unwrap_err();
    assert!(refused.error::<Savings::ERC1967NonPayable>().is_some(), "{refused:?}");
    let refused = place.upgrade(0, place.v2, Savings::withdrawCall { value: n(1) }.abi_encode()).unwrap_err();
    assert_eq!(refused.error::<Savings::InsufficientSavings>().unwrap().needed, n(1));
    assert_eq!((place.implementation(), place.chain.view(place.proxy, Savings::versionCall {})), (place.v1, n(1)));
    let refused = deploy(&mut place.chain, alice, bob, Vec::new()).unwrap_err();
    assert!(refused.error::<Savings::ERC1967InvalidImplementation>().is_some(), "{refused:?}");
    let initialize = Savings::initializeCall { owner: alice }.abi_encode();
    let both = (place.v1, Bytes::from(initialize));
    // The value of the creation goes to the call, which is not payable.
    assert!(place.chain.by(alice).value(n(1)).deploy(&Contract::in_this_crate(), both).is_err());
    let with_coins = (place.v1, Bytes::from(Savings::depositCall {}.abi_encode()));
    let rich = place.chain.by(alice).value(n(9)).deploy(&Contract::in_this_crate(), with_coins).unwrap();
    assert_eq!(place.chain.view(rich, Savings::balanceOfCall { account: alice }), n(9));
}

/// The chain does not refuse a version with moved fields. Therefore layouts are compared beforehand.
#[test]
fn clashing_layout_loses_state() {
    let mut place = Place::new();
    let [alice, bob, _] = place.people;
    place.deposit(1, 500);
    let clash = place.chain.by(alice).deploy(&contract("../savings-clash"), ()).unwrap();
    place.upgrade(0, clash, []).unwrap();
    assert_eq!(place.chain.view(place.proxy, Savings::balanceOfCall { account: bob }), n(0), "bob's coins are gone");
    assert_ne!(place.chain.view(place.proxy, Savings::ownerCall {}), alice);
    assert!(place.upgrade(0, place.v1, []).is_err(), "and there is no way back");
}

#[test]
fn proxies_any_contract_unchanged() {
    let mut place = Place::new();
    let [alice, bob, _] = place.people;
    // Custom errors, a panic without a message, a trap.
    let relay = place.chain.by(alice).deploy(&contract("../../../runtime/harness/tests/relay"), ()).unwrap();
    let proxy = deploy(&mut place.chain, alice, relay, Vec::new()).unwrap();
    let refused = place.chain.by(bob).send(proxy, passCall { way: vec![], how: 0 }).unwrap_err();
    assert_eq!(refused.error::<NothingLeft>().unwrap().need, n(7));
    for how in [1, 2] {
        let refused = place.chain.by(bob).send(proxy, passCall { way: vec![], how }).unwrap_err();
        assert!(refused.data.is_empty() && refused.error::<Panic>().is_none(), "{refused:?}");
    }
    // Long results, and calls of others from behind the proxy.
    let many = place.chain.by(alice).deploy(&contract("../../multicall3"), ()).unwrap();
    let proxy = deploy(&mut place.chain, alice, many, Vec::new()).unwrap();
    let call = |call: Vec<u8>| Call3 { target: place.proxy, allowFailure: true, callData: call.into() };
    let calls: Vec<Call3> = (0..20)
        .flat_map(|_| [call(Savings::ownerCall {}.abi_encode()), call(Savings::withdrawCall { value: n(1) }.abi_encode())])
        .collect();
    let direct = place.chain.by(bob).send(many, aggregate3Call { calls: calls.clone() }).unwrap().output;
    let behind = place.chain.by(bob).send(proxy, aggregate3Call { calls }).unwrap().output;
    assert_eq!(behind.len(), 40);
    for (one, other) in behind.iter().zip(&direct) {
        assert_eq!((one.success, &one.returnData), (other.success, &other.returnData));
    }
    assert_eq!(Address::from_word(B256::from_slice(&behind[0].returnData)), alice);
    assert!(Savings::InsufficientSavings::abi_decode(&behind[1].returnData).is_ok());
    // Input that is not a call, shorter than four bytes, empty: passed to the implementation.
    for input in [&[][..], &[1, 2, 3], &[1, 2, 3, 4, 5]] {
        let refused = place.chain.by(bob).send_raw(place.proxy, input.to_vec()).unwrap_err();
        assert!(refused.data.is_empty(), "{refused:?}");
    }
}

/// A static call may read but not write.
#[test]
fn forwards_static_calls() {
    let mut place = Place::new();
    let [alice, bob, _] = place.people;
    place.deposit(1, 5);
    // A query for a contract's UUID is a static call: here of another proxy.
    let v2 = place.v2;
    let behind_v2 = deploy(&mut place.chain, alice, v2, initializeCall { owner: alice, delay: 0 }.abi_encode()).unwrap();
    assert_eq!(place.chain.view(behind_v2, Savings::ownerCall {}), alice);
    let refused = place.upgrade(0, behind_v2, []).unwrap_err();
    assert!(refused.error::<Savings::ERC1967InvalidImplementation>().is_some(), "it was asked, and it said no: {refused:?}");
    assert_eq!(place.chain.view(place.proxy, Savings::balanceOfCall { account: bob }), n(5));
    // A proxy in front of a proxy calls itself until the gas is used up. No upgrade can cause this, but a creation can.
    let outer = deploy(&mut place.chain, alice, place.proxy, Vec::new()).unwrap();
    assert!(place.chain.by(bob).call(outer, Savings::versionCall {}).is_err());
}

/// The proxy accepts calls back, and its implementation decides: a savings box accepts none, a multisig coins.
#[test]
fn implementation_controls_reentrancy() {
    let mut place = Place::new();
    let [alice, bob, _] = place.people;
    let rogue = place.chain.by(bob).deploy(&contract("../../exchange/rogue"), ()).unwrap();
    let arm = |place: &mut Place, target: Address, data: Vec<u8>| {
        place.chain.by(bob).send(rogue, armCall { target, data: data.into() }).unwrap();
    };
    place.deposit(1, 500);
    place.chain.set_balance(rogue, n(50));
    place.chain.by(rogue).value(n(50)).send(place.proxy, Savings::depositCall {}).unwrap();
    let (proxy, steal) = (place.proxy, Savings::withdrawCall { value: n(10) }.abi_encode());
    arm(&mut place, proxy, steal);
    place.chain.by(rogue).send(proxy, Savings::withdrawCall { value: n(20) }).unwrap();
    let attacks = place.chain.view(rogue, attacksCall {});
    assert_eq!((attacks.tried, attacks.let_in, place.chain.balance(proxy)), (n(1), n(0), n(530)));

    // A multisig's constructor does not run behind a proxy, so the test writes its storage.
    let multisig = place.chain.by(alice).deploy(&contract("../../multisig"), (vec![alice], n(1))).unwrap();
    let proxy = deploy(&mut place.chain, alice, multisig, Vec::new()).unwrap();
    assert!(place.chain.view(proxy, ownersCall {}).is_empty());
    for (slot, word) in place.chain.slots(multisig) {
        place.chain.set_storage(proxy, slot, word);
    }
    place.chain.by(alice).value(n(3)).send_raw(proxy, []).unwrap();
    for (id, data, let_in) in [(0, executeCall { id: n(0) }.abi_encode(), 0), (1, Vec::new(), 1)] {
        arm(&mut place, proxy, data);
        place.chain.by(alice).send(proxy, proposeCall { to: rogue, value: n(1), data: Bytes::new() }).unwrap();
        place.chain.by(alice).send(proxy, executeCall { id: n(id) }).unwrap();
        let attacks = place.chain.view(rogue, attacksCall {});
        assert_eq!((attacks.tried, attacks.let_in), (n(id + 2), n(let_in)));
    }
    assert_eq!(place.chain.balance(proxy), n(1));
}

#[test]
fn forwards_errors_of_implementation() {
    let mut place = Place::new();
    let bob = place.people[1];
    let told = place.chain.by(bob).send(place.proxy, Savings::withdrawCall { value: n(7) }).unwrap_err().to_string();
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].starts_with("bob → [") && lines[0].ends_with("] proxy.withdraw(value: 7)"), "{told}");
    assert!(lines[1].starts_with("├─ [") && lines[1].ends_with("] delegate savings_v1.withdraw(value: 7)"), "{told}");
    assert_eq!(lines[2..], ["│  ✗ InsufficientSavings(has: 0, needed: 7)", "✗ InsufficientSavings(has: 0, needed: 7)"]);
}

#[test]
fn modules_embed_tested_abis() {
    let contract = contract("../savings-v1");
    assert_eq!(contract.interface(), Some(&include_bytes!("../../savings-v1/abi.json")[..]));
    let set = |selectors: &[[u8; 4]]| selectors.iter().copied().collect::<BTreeSet<_>>();
    assert_eq!(
        contract.abi.functions().map(|one| one.selector().0).collect::<BTreeSet<_>>(),
        set(Savings::SavingsCalls::SELECTORS)
    );
    assert_eq!(
        contract.abi.errors().map(|one| one.selector().0).collect::<BTreeSet<_>>(),
        set(Savings::SavingsErrors::SELECTORS)
    );
    let events: BTreeSet<_> = contract.abi.events().map(|one| one.selector().0).collect();
    assert_eq!(events, Savings::SavingsEvents::SELECTORS.iter().copied().collect());
    let proxy = Contract::in_this_crate();
    assert_eq!(proxy.interface(), Some(&include_bytes!("../abi.json")[..]));
    assert_eq!(proxy.abi.functions().count(), 0, "so that it hides none of an implementation's");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// A box behind a proxy with an upgrade and one without a proxy behave identically.
    #[test]
    fn proxy_and_upgrade_are_transparent(
        deeds in prop::collection::vec((0..4_u8, 0..3_usize, 0..100_u64), 1..30),
        upgrade_at in 0..30_usize,
    ) {
        let mut place = Place::new();
        let (boxes, people) = ([place.proxy, place.v1], place.people);
        for (at, (deed, who, value)) in deeds.into_iter().enumerate() {
            if at == upgrade_at {
                place.upgrade(0, place.v2, migrateCall { delay: 0 }.abi_encode()).unwrap();
            }
            let [behind, direct] = boxes.map(|box_| {
                let by = place.chain.by(people[who]);
                let done = match deed {
                    0 | 1 => by.value(n(value)).send_raw(box_, Savings::depositCall {}.abi_encode()),
                    2 => by.send_raw(box_, Savings::withdrawCall { value: n(value) }.abi_encode()),
                    _ => by.send_raw(box_, Savings::balanceOfCall { account: people[value as usize % 3] }.abi_encode()),
                };
                match done {
                    Ok(sent) => {
                        let logs: Vec<_> = sent.logs.iter().map(|log| (log.topics.clone(), log.data.clone())).collect();
                        (true, sent.output, logs)
                    }
                    Err(failed) => (false, failed.data, Vec::new()),
                }
            });
            prop_assert_eq!(behind, direct);
            prop_assert_eq!(place.chain.balance(boxes[0]), place.chain.balance(boxes[1]));
            prop_assert_eq!(place.chain.view(boxes[0], Savings::totalCall {}), place.chain.view(boxes[1], Savings::totalCall {}));
        }
    }
}
