//! Runs the real WebAssembly on the nodes' virtual machine: here coins move, and payees can refuse them or call back.

use alloy_sol_types::{sol, SolCall, SolValue};
use corniche_harness::{Address, Chain, Contract, Failed, Sent, B256, U256};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;

sol! {
    #[derive(Debug)]
    interface Registry {
        #[derive(PartialEq, Eq)]
        struct Entry { uint8 state; address owner; uint64 expires; address account; address heir; }

        function treasury() external view returns (address);
        function price(string name, uint64 term) external view returns (uint256);
        function commitment(string name, address owner, uint64 term, bytes32 secret) external view returns (bytes32);
        function committed(bytes32 commitment) external view returns (uint64);
        function resolve(string name) external view returns (address);
        function nameOf(address account) external view returns (string memory);
        function entry(string name) external view returns (Entry memory);
        function commit(bytes32 commitment) external;
        function register(string name, address owner, uint64 term, bytes32 secret) external payable;
        function renew(string name, uint64 term) external payable;
        function release(string name) external;
        function offer(string name, address to) external;
        function accept(string name) external;
        function setAddress(string name, address account) external;
        function setPrimaryName(string name) external;
        function withdraw() external returns (uint256);

        event Committed(bytes32 indexed commitment, address indexed by);
        event Registered(bytes32 indexed label, address indexed owner, string name, uint64 expires, uint256 paid);
        event Renewed(bytes32 indexed label, address indexed by, string name, uint64 expires, uint256 paid);
        event Released(bytes32 indexed label, address indexed owner, string name);
        event Offered(bytes32 indexed label, address indexed owner, address indexed to, string name);
        event Transferred(bytes32 indexed label, address indexed from, address indexed to, string name);
        event AddressChanged(bytes32 indexed label, address indexed account, string name);
        event PrimaryNameChanged(address indexed account, string name);
        event Withdrawn(address indexed to, uint256 value);

        error BadCharacter(uint256 position, string character, uint32 codePoint);
        error BadLength(uint256 length, uint256 least, uint256 most);
        error BadHyphen(uint256 position);
        error BadPrice(uint256 price);
        error BadTerm(uint64 term, uint64 least, uint64 most);
        error ZeroAddress();
        error Taken(string name, uint64 until);
        error NotCommitted(bytes32 commitment);
        error AlreadyCommitted(bytes32 commitment, uint64 until);
        error CommitmentTooNew(bytes32 commitment, uint64 from);
        error CommitmentTooOld(bytes32 commitment, uint64 since);
        error TooLittle(uint256 paid, uint256 price);
        error NotPaid(address to, uint256 value);
        error NotRegistered(string name);
        error Expired(string name, uint64 since);
        error NotOwner(address caller, address owner);
        error NotOffered(string name, address caller);
        error ResolvesElsewhere(string name, address account);
    }

    struct Call { address target; bool allowFailure; uint256 value; bytes data; }
    function aggregate3Value(Call[] calls) returns ((bool, bytes)[]);
    function arm(address target, bytes data);
    function attacks() returns (uint256 tried, uint256 let_in);
}

/// Price of a day of a name of five characters or more.
const PRICE: u64 = 1_000;
const DAY: u64 = 86_400;
const SECRET: B256 = B256::repeat_byte(0x5e);

fn n(value: u64) -> U256 {
    U256::from(value)
}

fn contract(folder: &str) -> Contract {
    Contract::in_crate(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap()
}

/// Result of a transaction with this call.
type Done<C> = Result<Sent<<C as SolCall>::Return>, Failed>;

/// A registry and accounts.
#[derive(Clone)]
struct Place {
    chain: Chain,
    registry: Address,
    treasury: Address,
    people: [Address; 3],
}

impl Place {
    fn new() -> Self {
        thread_local!(static PREPARED: Place = Place::prepared());
        PREPARED.with(Clone::clone)
    }

    fn prepared() -> Self {
        let mut chain = Chain::new();
        let [alice, bob, carol, treasury] = ["alice", "bob", "carol", "treasury"].map(|name| chain.account(name));
        let registry = chain.by(alice).deploy(&Contract::in_this_crate(), (treasury, n(PRICE))).unwrap();
        Self { chain, registry, treasury, people: [alice, bob, carol] }
    }

    /// As `new`, with another treasury.
    fn paying(treasury: impl FnOnce(&mut Chain) -> Address) -> Self {
        let mut place = Self::new();
        place.treasury = treasury(&mut place.chain);
        let arguments = (place.treasury, n(PRICE));
        place.registry = place.chain.by(place.people[0]).deploy(&Contract::in_this_crate(), arguments).unwrap();
        place
    }

    fn send<C: SolCall>(&mut self, by: Address, call: C) -> Done<C> {
        self.chain.by(by).send(self.registry, call)
    }

    fn pay<C: SolCall>(&mut self, by: Address, value: U256, call: C) -> Done<C> {
        self.chain.by(by).value(value).send(self.registry, call)
    }

    fn view<C: SolCall>(&self, call: C) -> C::Return {
        self.chain.view(self.registry, call)
    }

    fn price(&self, name: &str, term: u64) -> U256 {
        self.view(Registry::priceCall { name: name.into(), term })
    }

    fn entry(&self, name: &str) -> Registry::Entry {
        self.view(Registry::entryCall { name: name.into() })
    }

    fn resolve(&mut self, name: &str) -> Result<Address, Failed> {
        self.chain.by(Address::ZERO).call(self.registry, Registry::resolveCall { name: name.into() })
    }

    fn name_of(&self, account: Address) -> String {
        self.view(Registry::nameOfCall { account })
    }

    fn commit(&mut self, by: Address, name: &str, owner: Address, term: u64) -> Done<Registry::commitCall> {
        let commitment = self.view(Registry::commitmentCall { name: name.into(), owner, term, secret: SECRET });
        self.chain.by(by).send(self.registry, Registry::commitCall { commitment })
    }

    fn register(&mut self, by: Address, name: &str, owner: Address, term: u64, surplus: u64) -> Result<(), Failed> {
        let value = self.price(name, term) + n(surplus);
        self.pay(by, value, register(name, owner, term)).map(drop)
    }

    /// Commits, waits, and registers for a month.
    fn take(&mut self, name: &str, owner: Address) -> Result<(), Failed> {
        self.commit(owner, name, owner, 30)?;
        self.chain.advance(60);
        self.register(owner, name, owner, 30, 0)
    }

    fn call_me(&mut self, who: Address, name: &str) -> Done<Registry::setPrimaryNameCall> {
        self.send(who, Registry::setPrimaryNameCall { name: name.into() })
    }

    fn point(&mut self, who: Address, name: &str, account: Address) -> Done<Registry::setAddressCall> {
        self.send(who, Registry::setAddressCall { name: name.into(), account })
    }

    fn offer(&mut self, who: Address, name: &str, to: Address) -> Done<Registry::offerCall> {
        self.send(who, Registry::offerCall { name: name.into(), to })
    }

    fn accept(&mut self, who: Address, name: &str) -> Done<Registry::acceptCall> {
        self.send(who, Registry::acceptCall { name: name.into() })
    }

    fn fees(&self) -> U256 {
        self.chain.balance(self.registry)
    }
}

fn register(name: &str, owner: Address, term: u64) -> Registry::registerCall {
    Registry::registerCall { name: name.into(), owner, term, secret: SECRET }
}

fn renew(name: &str, term: u64) -> Registry::renewCall {
    Registry::renewCall { name: name.into(), term }
}

#[test]
fn commit_register_and_reverse_resolve() {
    let mut place = Place::new();
    let ([alice, bob, carol], registry, treasury) = (place.people, place.registry, place.treasury);
    place.commit(alice, "alice", alice, 365).unwrap();
    place.chain.advance(60);
    let now = place.chain.time();
    let (before, price) = (place.chain.balance(alice), n(365 * PRICE));
    let sent = place.pay(alice, price + n(7), register("alice", alice, 365)).unwrap();
    let [told] = &sent.events::<Registry::Registered>()[..] else { panic!("{:?}", sent.logs) };
    let expires = now + 365 * DAY;
    assert_eq!((told.owner, &told.name[..], told.expires, told.paid), (alice, "alice", expires, price));
    assert_eq!(&told.label[..8], b"alice\0\0\0");
    assert_eq!((before - place.chain.balance(alice), place.fees()), (price, price), "seven came back");
    assert_eq!(place.resolve("alice").unwrap(), alice);
    assert_eq!(place.name_of(alice), "", "nobody said so yet");

    place.call_me(alice, "alice").unwrap();
    assert_eq!(place.name_of(alice), "alice");
    place.pay(bob, n(30 * PRICE), renew("alice", 30)).unwrap();
    assert_eq!(place.entry("alice").expires, expires + 30 * DAY, "renewed by somebody else, who gets nothing by it");
    place.point(alice, "alice", carol).unwrap();
    assert_eq!((place.resolve("alice").unwrap(), place.name_of(alice)), (carol, String::new()));
    place.offer(alice, "alice", bob).unwrap();
    place.accept(bob, "alice").unwrap();
    assert_eq!(place.entry("alice").owner, bob);
    place.send(bob, Registry::releaseCall { name: "alice".into() }).unwrap();
    assert_eq!(place.entry("alice").state, 0);

    let before = place.chain.balance(treasury);
    let sent = place.send(carol, Registry::withdrawCall {}).unwrap();
    assert_eq!((sent.output, place.fees()), (n(395 * PRICE), U256::ZERO));
    assert_eq!(place.chain.balance(treasury) - before, n(395 * PRICE), "whoever asks for it");
    assert_eq!(sent.events_of::<Registry::Withdrawn>(registry)[0].value, n(395 * PRICE));
    place.chain.gas().assert_matches_file("gas.txt");
}

#[test]
fn front_running_fails() {
    let mut place = Place::new();
    let [alice, mallory, _] = place.people;
    place.commit(alice, "alice", alice, 30).unwrap();
    place.chain.advance(60);
    // Alice's transaction is pending: name, owner, term and secret are visible now.
    let refused = place.register(mallory, "alice", mallory, 30, 0).unwrap_err();
    assert!(refused.error::<Registry::NotCommitted>().is_some(), "the secret is for alice");
    place.commit(mallory, "alice", mallory, 30).unwrap();
    let refused = place.register(mallory, "alice", mallory, 30, 0).unwrap_err();
    assert!(refused.error::<Registry::CommitmentTooNew>().is_some());
    let refused = place.commit(mallory, "alice", alice, 30).unwrap_err();
    assert!(refused.error::<Registry::AlreadyCommitted>().is_some(), "alice's does not become younger");
    // Mallory can only pay for alice.
    place.register(mallory, "alice", alice, 30, 0).unwrap();
    assert_eq!(place.entry("alice").owner, alice);
    place.chain.advance(60);
    let refused = place.register(mallory, "alice", mallory, 30, 0).unwrap_err();
    let error: Registry::Taken = refused.error().unwrap();
    assert_eq!((&error.name[..], error.until), ("alice", place.entry("alice").expires + 30 * DAY));
}

/// Computes a commitment without a node, as any program can.
#[test]
fn commitment_hash_is_single_use() {
    let mut place = Place::new();
    let alice = place.people[0];
    let label = B256::right_padding_from(b"alice");
    let words = (n(31_337), place.registry, label, alice, 30_u64, SECRET).abi_encode();
    let commitment = alloy_primitives::keccak256(words);
    let asked = Registry::commitmentCall { name: "alice".into(), owner: alice, term: 30, secret: SECRET };
    assert_eq!(place.view(asked), commitment);

    let sent = place.send(alice, Registry::commitCall { commitment }).unwrap();
    let [told] = &sent.events::<Registry::Committed>()[..] else { panic!("{:?}", sent.logs) };
    assert_eq!((told.commitment, told.by), (commitment, alice));
    assert_eq!(place.view(Registry::committedCall { commitment }), place.chain.time() - 1);
    place.chain.advance(60);
    place.register(alice, "alice", alice, 30, 0).unwrap();
    assert_eq!(place.view(Registry::committedCall { commitment }), 0);
    place.send(alice, Registry::releaseCall { name: "alice".into() }).unwrap();
    let refused = place.register(alice, "alice", alice, 30, 0).unwrap_err();
    assert_eq!(refused.error::<Registry::NotCommitted>().unwrap().commitment, commitment);

    // The commitment is not valid on another contract either.
    let treasury = place.treasury;
    place.registry = place.chain.by(alice).deploy(&Contract::in_this_crate(), (treasury, n(PRICE))).unwrap();
    place.send(alice, Registry::commitCall { commitment }).unwrap();
    place.chain.advance(60);
    let refused = place.register(alice, "alice", alice, 30, 0).unwrap_err();
    assert!(refused.error::<Registry::NotCommitted>().is_some());
}

#[test]
fn invalid_name_reports_position() {
    let mut place = Place::new();
    let refused = place.resolve("p\u{430}ypal").unwrap_err(); // Cyrillic a
    let error: Registry::BadCharacter = refused.error().unwrap();
    assert_eq!((error.position, &error.character[..], error.codePoint), (n(1), "\u{430}", 0x430));
    let refused = place.resolve("no--way").unwrap_err();
    assert_eq!(refused.error::<Registry::BadHyphen>().unwrap().position, n(2));
    let refused = place.resolve("no").unwrap_err();
    let error: Registry::BadLength = refused.error().unwrap();
    assert_eq!((error.length, error.least, error.most), (n(2), n(3), n(32)));
    let alice = place.people[0];
    let refused = place.register(alice, "alice", Address::ZERO, 30, 0).unwrap_err();
    assert!(refused.error::<Registry::ZeroAddress>().is_some());
    for (term, least, most) in [(29, 30, 3_650), (3_651, 30, 3_650), (u64::MAX, 30, 3_650)] {
        let refused = place.register(alice, "alice", alice, term, 0).unwrap_err();
        let error: Registry::BadTerm = refused.error().unwrap();
        assert_eq!((error.term, error.least, error.most), (term, least, most));
    }
    place.take("alice", alice).unwrap();
    let refused = place.pay(alice, n(3_621 * PRICE), renew("alice", 3_621)).unwrap_err();
    let error: Registry::BadTerm = refused.error().unwrap();
    assert_eq!((error.term, error.least, error.most), (3_621, 1, 3_620), "with the days that lie ahead");
    place.pay(alice, n(3_620 * PRICE), renew("alice", 3_620)).unwrap();
}

#[test]
fn expired_name_has_grace_period() {
    let mut place = Place::new();
    let [alice, bob, carol] = place.people;
    place.take("alice", alice).unwrap();
    place.point(alice, "alice", carol).unwrap();
    place.call_me(carol, "alice").unwrap();
    place.offer(alice, "alice", carol).unwrap();
    let expires = place.entry("alice").expires;
    let until = |place: &mut Place, time: u64| place.chain.advance(time - place.chain.time());

    until(&mut place, expires - 1);
    assert_eq!((place.resolve("alice").unwrap(), place.name_of(carol)), (carol, "alice".into()));
    until(&mut place, expires);
    assert_eq!(place.resolve("alice").unwrap_err().error::<Registry::Expired>().unwrap().since, expires);
    assert_eq!((place.entry("alice").state, place.name_of(carol)), (2, String::new()));
    assert!(place.accept(carol, "alice").unwrap_err().error::<Registry::Expired>().is_some());
    assert!(place.point(alice, "alice", alice).unwrap_err().error::<Registry::Expired>().is_some());
    assert!(place.take("alice", bob).unwrap_err().error::<Registry::Taken>().is_some());
    let mut renewed = place.clone();
    renewed.pay(bob, n(30 * PRICE), renew("alice", 30)).unwrap();
    assert_eq!(renewed.entry("alice").expires, expires + 30 * DAY, "from where it ended, so that waiting gives no days");
    assert_eq!((renewed.resolve("alice").unwrap(), renewed.name_of(carol)), (carol, "alice".into()), "as it was");

    until(&mut place, expires + 30 * DAY);
    let refused = place.pay(alice, n(30 * PRICE), renew("alice", 30)).unwrap_err();
    assert!(refused.error::<Registry::NotRegistered>().is_some());
    place.take("alice", bob).unwrap();
    let Registry::Entry { owner, account, heir, .. } = place.entry("alice");
    assert_eq!((owner, account, heir), (bob, bob, Address::ZERO), "nothing that alice said");
    place.point(bob, "alice", carol).unwrap();
    assert_eq!(place.name_of(carol), "", "carol said so of alice's, not of bob's");
    assert!(place.accept(carol, "alice").unwrap_err().error::<Registry::NotOffered>().is_some());
}

#[test]
fn transfer_needs_both_parties() {
    let mut place = Place::new();
    let [alice, bob, carol] = place.people;
    place.take("alice", alice).unwrap();
    place.call_me(alice, "alice").unwrap();
    let refused = place.offer(bob, "alice", bob).unwrap_err();
    let error: Registry::NotOwner = refused.error().unwrap();
    assert_eq!((error.caller, error.owner), (bob, alice));

    place.offer(alice, "alice", bob).unwrap();
    place.offer(alice, "alice", carol).unwrap();
    assert!(place.accept(bob, "alice").unwrap_err().error::<Registry::NotOffered>().is_some(), "one at a time");
    place.offer(alice, "alice", Address::ZERO).unwrap();
    assert!(place.accept(carol, "alice").unwrap_err().error::<Registry::NotOffered>().is_some());

    place.point(alice, "alice", carol).unwrap();
    let sent = place.offer(alice, "alice", bob).unwrap();
    let [told] = &sent.events::<Registry::Offered>()[..] else { panic!("{:?}", sent.logs) };
    assert_eq!((told.owner, told.to), (alice, bob));
    let (before, sent) = (place.entry("alice"), place.accept(bob, "alice").unwrap());
    let [told] = &sent.events::<Registry::Transferred>()[..] else { panic!("{:?}", sent.logs) };
    assert_eq!((told.from, told.to, &told.name[..]), (alice, bob, "alice"));
    assert_eq!(place.entry("alice"), Registry::Entry { owner: bob, account: bob, heir: Address::ZERO, ..before });
    assert!(place.accept(bob, "alice").unwrap_err().error::<Registry::NotOffered>().is_some(), "once");
    let refused = place.send(alice, Registry::releaseCall { name: "alice".into() }).unwrap_err();
    assert!(refused.error::<Registry::NotOwner>().is_some());
}

#[test]
fn reverse_name_must_resolve_back() {
    let mut place = Place::new();
    let [alice, bob, carol] = place.people;
    place.take("alice", alice).unwrap();
    let refused = place.call_me(bob, "alice").unwrap_err();
    let error: Registry::ResolvesElsewhere = refused.error().unwrap();
    assert_eq!((&error.name[..], error.account), ("alice", alice));
    place.point(alice, "alice", bob).unwrap();
    assert_eq!(place.name_of(bob), "", "bob has not said so");
    let sent = place.call_me(bob, "alice").unwrap();
    let [told] = &sent.events::<Registry::PrimaryNameChanged>()[..] else { panic!("{:?}", sent.logs) };
    assert_eq!((told.account, &told.name[..]), (bob, "alice"));
    assert_eq!((place.name_of(bob), place.name_of(alice)), ("alice".into(), String::new()), "though alice owns it");

    place.point(alice, "alice", carol).unwrap();
    assert_eq!(place.name_of(bob), "");
    let sent = place.point(alice, "alice", bob).unwrap();
    assert_eq!(sent.events::<Registry::AddressChanged>()[0].account, bob);
    assert_eq!(place.name_of(bob), "alice");
    place.call_me(bob, "").unwrap();
    assert_eq!(place.name_of(bob), "");
}

/// A caller who pays through a contract that accepts no coins has to pay exactly; otherwise it gets an error.
#[test]
fn payer_without_receive_pays_exactly() {
    let mut place = Place::new();
    let ([alice, bob, _], registry) = (place.people, place.registry);
    let multicall = place.chain.by(alice).deploy(&contract("../multicall3"), ()).unwrap();
    for name in ["first", "second"] {
        place.commit(alice, name, alice, 30).unwrap();
    }
    place.chain.advance(60);
    let call = |name: &str, value: u64| Call {
        target: registry,
        allowFailure: true,
        value: n(value),
        data: register(name, alice, 30).abi_encode().into(),
    };
    let (exactly, more) = (30 * PRICE, 30 * PRICE + 1);
    let calls = vec![call("first", exactly), call("second", more)];
    let sent = place.chain.by(alice).value(n(exactly + more)).send(multicall, aggregate3ValueCall { calls }).unwrap();
    let [(first, _), (second, why)] = &sent.output[..] else { panic!("{} answers", sent.output.len()) };
    assert!(*first && !*second);
    assert_eq!(why[..], alloy_sol_types::SolError::abi_encode(&Registry::NotPaid { to: multicall, value: n(1) }));
    assert_eq!((place.entry("first").owner, place.entry("second").owner), (alice, Address::ZERO));
    assert_eq!(place.fees(), n(exactly), "and what was not taken has not moved");

    // The failed call did not use up the commitment.
    place.register(bob, "second", alice, 30, 1).unwrap();
    assert_eq!(place.entry("second").owner, alice);
}

#[test]
fn rejecting_treasury_does_not_block() {
    let token = |chain: &mut Chain| {
        let arguments = ("Gold".to_owned(), "GLD".to_owned(), n(100));
        let alice = chain.account("alice");
        chain.by(alice).deploy(&contract("../erc20"), arguments).unwrap()
    };
    let mut place = Place::paying(token);
    let [alice, bob, _] = place.people;
    place.take("alice", alice).unwrap();
    let refused = place.send(bob, Registry::withdrawCall {}).unwrap_err();
    let error: Registry::NotPaid = refused.error().unwrap();
    assert_eq!((error.to, error.value), (place.treasury, n(30 * PRICE)));
    place.pay(bob, n(PRICE), renew("alice", 1)).unwrap();
    place.take("bobby", bob).unwrap();
    assert_eq!(place.fees(), n(61 * PRICE));
}

#[test]
fn reentrant_treasury_is_paid_once() {
    let rogue = |chain: &mut Chain| {
        let alice = chain.account("alice");
        chain.by(alice).deploy(&contract("../exchange/rogue"), ()).unwrap()
    };
    let mut place = Place::paying(rogue);
    let ([alice, bob, _], registry, rogue) = (place.people, place.registry, place.treasury);
    place.take("alice", alice).unwrap();
    place.offer(alice, "alice", rogue).unwrap();
    let attacks = [
        Registry::withdrawCall {}.abi_encode(),
        Registry::acceptCall { name: "alice".into() }.abi_encode(),
        Registry::commitCall { commitment: SECRET }.abi_encode(),
    ];
    for (at, attack) in attacks.into_iter().enumerate() {
        place.chain.by(bob).send(rogue, armCall { target: registry, data: attack.into() }).unwrap();
        place.pay(bob, n(PRICE), renew("alice", 1)).unwrap();
        let (fees, before) = (place.fees(), place.chain.balance(rogue));
        place.send(bob, Registry::withdrawCall {}).unwrap();
        assert_eq!((place.chain.balance(rogue) - before, place.fees()), (fees, U256::ZERO));
        let attacks = place.chain.view(rogue, attacksCall {});
        assert_eq!((attacks.tried, attacks.let_in), (n(at as u64 + 1), U256::ZERO));
    }
    assert_eq!(place.entry("alice").owner, alice);
}

#[test]
fn rejects_unexpected_value() {
    let mut place = Place::new();
    let (alice, registry) = (place.people[0], place.registry);
    assert!(place.chain.by(alice).value(n(1)).send_raw(registry, []).is_err());
    assert!(place.pay(alice, n(1), Registry::commitCall { commitment: SECRET }).is_err());
    assert!(place.pay(alice, n(1), Registry::withdrawCall {}).is_err());
    place.commit(alice, "alice", alice, 30).unwrap();
    place.chain.advance(60);
    let refused = place.pay(alice, n(30 * PRICE - 1), register("alice", alice, 30)).unwrap_err();
    let error: Registry::TooLittle = refused.error().unwrap();
    assert_eq!((error.paid, error.price), (n(30 * PRICE - 1), n(30 * PRICE)));
    place.register(alice, "alice", alice, 30, 0).unwrap();
    assert!(place.pay(alice, n(PRICE - 1), renew("alice", 1)).unwrap_err().error::<Registry::TooLittle>().is_some());
    assert_eq!(place.fees(), n(30 * PRICE));
    for (treasury, price) in [(Address::ZERO, n(1)), (alice, U256::MAX)] {
        assert!(place.chain.by(alice).deploy(&Contract::in_this_crate(), (treasury, price)).is_err());
    }
}

#[test]
fn module_embeds_tested_abi() {
    let contract = Contract::in_this_crate();
    assert_eq!(contract.interface(), Some(&include_bytes!("../abi.json")[..]));
    let set = |selectors: &[[u8; 4]]| selectors.iter().copied().collect::<BTreeSet<_>>();
    assert_eq!(
        contract.abi.functions().map(|one| one.selector().0).collect::<BTreeSet<_>>(),
        set(Registry::RegistryCalls::SELECTORS)
    );
    assert_eq!(
        contract.abi.errors().map(|one| one.selector().0).collect::<BTreeSet<_>>(),
        set(Registry::RegistryErrors::SELECTORS)
    );
    let events: BTreeSet<_> = contract.abi.events().map(|one| one.selector().0).collect();
    assert_eq!(events, Registry::RegistryEvents::SELECTORS.iter().copied().collect());
}

const NAMES: [&str; 3] = ["abc", "wxyz", "corniche"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Invariants: the balance is the amount paid and not withdrawn; names change owners by their owners or after a month of
    /// grace; a primary name resolves to its account.
    #[test]
    fn balances_and_owners_match_model(
        deeds in prop::collection::vec((0..10_usize, 0..3_usize, 0..3_usize, 0..3_usize), 1..40),
    ) {
        let mut place = Place::new();
        let (people, registry, treasury) = (place.people, place.registry, place.treasury);
        let purses = [people[0], people[1], people[2], registry, treasury];
        let sum = |place: &Place| purses.iter().map(|purse| place.chain.balance(*purse)).sum::<U256>();
        let (mut fees, all) = (U256::ZERO, sum(&place));
        for (deed, who, name, other) in deeds {
            let (by, name, to) = (people[who], NAMES[name], people[other]);
            let (before, time, had) = (place.entry(name), place.chain.time(), place.chain.balance(by));
            let free = before.owner.is_zero() || time >= before.expires + 30 * DAY;
            // Success, cost, and the allowed new owner of the name.
            let (done, price, owner) = match deed {
                0 | 1 => {
                    let price = place.price(name, 30);
                    (place.take(name, by).is_ok(), price, if free { by } else { before.owner })
                }
                2 => {
                    let price = place.price(name, 5);
                    (place.pay(by, price + n(9), renew(name, 5)).is_ok(), price, before.owner)
                }
                3 => (place.pay(by, place.price(name, 5) - n(1), renew(name, 5)).is_ok(), U256::MAX, before.owner),
                4 => (place.point(by, name, to).is_ok(), U256::ZERO, before.owner),
                5 => (place.call_me(by, name).is_ok(), U256::ZERO, before.owner),
                6 => (place.offer(by, name, to).is_ok(), U256::ZERO, before.owner),
                7 => (place.accept(by, name).is_ok(), U256::ZERO, if before.heir == by { by } else { before.owner }),
                8 => {
                    place.chain.advance([1, 15 * DAY, 30 * DAY][other]);
                    (true, U256::ZERO, before.owner)
                }
                _ => {
                    let sent = place.send(by, Registry::withdrawCall {}).unwrap();
                    prop_assert_eq!(sent.output, fees);
                    fees = U256::ZERO;
                    (true, U256::ZERO, before.owner)
                }
            };
            let price = if done { price } else { U256::ZERO };
            fees += price;
            prop_assert_eq!(place.fees(), fees);
            prop_assert_eq!(place.chain.balance(by) + price, had);
            prop_assert_eq!(sum(&place), all);
            let after = place.entry(name);
            prop_assert!(after.owner == owner || after.state == 0, "{:?}, then {:?}", before, after);
            for who in people {
                let called = place.name_of(who);
                prop_assert!(called.is_empty() || place.resolve(&called).unwrap() == who);
            }
        }
    }
}
