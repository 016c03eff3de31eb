//! Runs the real WebAssembly on the nodes' virtual machine, with signatures by real keys.

use alloy_sol_types::{eip712_domain, sol, SolStruct};
use corniche_harness::{Address, Chain, Contract, B256, U256};
use k256::ecdsa::SigningKey;
use proptest::prelude::*;
use std::sync::LazyLock;
use stylus_sdk::testing::TestVM;

sol! {
    function name() returns (string);
    function totalSupply() returns (uint256);
    function balanceOf(address account) returns (uint256);
    function allowance(address owner, address spender) returns (uint256);
    function transfer(address to, uint256 value) returns (bool);
    function approve(address spender, uint256 value) returns (bool);
    function transferFrom(address from, address to, uint256 value) returns (bool);
    function burn(uint256 value);
    function nonces(address owner) returns (uint256);
    function DOMAIN_SEPARATOR() returns (bytes32);
    function permit(address owner, address spender, uint256 value, uint256 deadline, uint8 v, bytes32 r, bytes32 s);

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed);
    error ERC20InsufficientAllowance(address spender, uint256 allowance, uint256 needed);
    error ERC2612ExpiredSignature(uint256 deadline);
    error ERC2612InvalidSigner(address signer, address owner);
    error ECDSAInvalidSignature();
    error Panic(uint256 code);

    /// As wallets show it to the signer.
    struct Permit { address owner; address spender; uint256 value; uint256 nonce; uint256 deadline; }
}

fn number(number: u64) -> U256 {
    U256::from(number)
}

/// A chain with a token that alice owns entirely. Her key is known.
#[derive(Clone)]
struct Bench {
    chain: Chain,
    token: Address,
    key: SigningKey,
    alice: Address,
    bob: Address,
}

/// Created once. Each test and each case starts with a copy.
fn bench() -> Bench {
    static BENCH: LazyLock<Bench> = LazyLock::new(prepared);
    BENCH.clone()
}

fn prepared() -> Bench {
    let mut chain = Chain::new();
    let key = SigningKey::from_slice(&[7; 32]).unwrap();
    let alice = Address::from_raw_public_key(&key.verifying_key().to_encoded_point(false).as_bytes()[1..]);
    chain.label(alice, "alice");
    chain.set_balance(alice, U256::from(10).pow(U256::from(18)));
    let bob = chain.account("bob");
    let arguments = ("Cornice".to_owned(), "CRN".to_owned(), number(1_000));
    let token = chain.by(alice).deploy(&Contract::in_this_crate(), arguments).unwrap();
    Bench { chain, token, key, alice, bob }
}

impl Bench {
    fn balances(&self) -> [U256; 2] {
        [self.alice, self.bob].map(|account| self.chain.view(self.token, balanceOfCall { account }))
    }

    /// Alice's permit for bob, with this nonce.
    fn permit(&self, value: U256, nonce: u64, deadline: u64) -> permitCall {
        let words = Permit { owner: self.alice, spender: self.bob, value, nonce: number(nonce), deadline: number(deadline) };
        let domain = eip712_domain! { name: "Cornice", version: "1", chain_id: 31_337, verifying_contract: self.token, };
        let (signature, odd) = self.key.sign_prehash_recoverable(words.eip712_signing_hash(&domain).as_slice()).unwrap();
        let (r, s) = signature.split_bytes();
        permitCall {
            owner: self.alice,
            spender: self.bob,
            value,
            deadline: number(deadline),
            v: 27 + odd.to_byte(),
            r: B256::from_slice(&r),
            s: B256::from_slice(&s),
        }
    }
}

#[test]
fn transfer_emits_event() {
    let Bench { mut chain, token, alice, bob, .. } = bench();
    let sent = chain.by(alice).send(token, transferCall { to: bob, value: number(10) }).unwrap();
    assert!(sent.output);
    let [told] = &sent.events::<Transfer>()[..] else { panic!("{:?}", sent.logs) };
    assert_eq!((told.from, told.to, told.value), (alice, bob, number(10)));

    let sent = chain.by(bob).send(token, approveCall { spender: alice, value: number(6) }).unwrap();
    let [told] = &sent.events::<Approval>()[..] else { panic!("{:?}", sent.logs) };
    assert_eq!((told.owner, told.spender, told.value), (bob, alice, number(6)));
    chain.by(alice).send(token, transferFromCall { from: bob, to: alice, value: number(4) }).unwrap();
    assert_eq!(chain.view(token, allowanceCall { owner: bob, spender: alice }), number(2));
    chain.by(alice).send(token, burnCall { value: number(94) }).unwrap();
    assert_eq!(chain.view(token, totalSupplyCall {}), number(906));
    chain.gas().assert_matches_file("gas.txt");
}

#[test]
fn failed_transfer_reverts_with_details() {
    let Bench { mut chain, token, alice, bob, .. } = bench();
    let refused = chain.by(bob).send(token, transferCall { to: alice, value: number(1) }).unwrap_err();
    let error: ERC20InsufficientBalance = refused.error().unwrap();
    assert_eq!((error.sender, error.balance, error.needed), (bob, U256::ZERO, number(1)));
    // The allowance spent before the balance check failed is restored.
    chain.by(bob).send(token, approveCall { spender: alice, value: number(5) }).unwrap();
    let take = transferFromCall { from: bob, to: alice, value: number(5) };
    assert!(chain.by(alice).send(token, take).unwrap_err().error::<ERC20InsufficientBalance>().is_some());
    assert_eq!(chain.view(token, allowanceCall { owner: bob, spender: alice }), number(5));
    let take = transferFromCall { from: bob, to: alice, value: number(6) };
    let error: ERC20InsufficientAllowance = chain.by(alice).send(token, take).unwrap_err().error().unwrap();
    assert_eq!((error.allowance, error.needed), (number(5), number(6)));
}

#[test]
fn anyone_can_submit_permit() {
    let mut bench = bench();
    let deadline = bench.chain.time() + 3_600;
    let permit = bench.permit(number(300), 0, deadline);
    let Bench { chain, token, alice, bob, .. } = &mut bench;
    let sent = chain.by(*bob).send(*token, permit).unwrap();
    let [told] = &sent.events::<Approval>()[..] else { panic!("{:?}", sent.logs) };
    assert_eq!((told.owner, told.spender, told.value), (*alice, *bob, number(300)));
    assert_eq!(chain.view(*token, noncesCall { owner: *alice }), number(1));
    chain.by(*bob).send(*token, transferFromCall { from: *alice, to: *bob, value: number(300) }).unwrap();
    bench.chain.gas().assert_matches_file("gas-permit.txt");
    assert_eq!(bench.balances(), [number(700), number(300)]);
}

#[test]
fn permit_is_single_use_and_expires() {
    let mut bench = bench();
    let deadline = bench.chain.time() + 3_600;
    let [first, second] = [0, 1].map(|nonce| bench.permit(number(300), nonce, deadline));
    let Bench { chain, token, alice, bob, .. } = &mut bench;
    let early: ERC2612InvalidSigner = chain.by(*bob).send(*token, second.clone()).unwrap_err().error().unwrap();
    assert_eq!(early.owner, *alice, "out of turn");
    chain.by(*bob).send(*token, first.clone()).unwrap();
    let again: ERC2612InvalidSigner = chain.by(*bob).send(*token, first).unwrap_err().error().unwrap();
    assert_ne!(again.signer, *alice, "other words than those she signed are somebody else's");
    chain.advance(3_600);
    let late: ERC2612ExpiredSignature = chain.by(*bob).send(*token, second).unwrap_err().error().unwrap();
    assert_eq!(late.deadline, number(deadline));
    assert_eq!(chain.view(*token, noncesCall { owner: *alice }), number(1));
}

#[test]
fn permit_is_bound_to_contract() {
    let mut bench = bench();
    let arguments = ("Cornice".to_owned(), "CRN".to_owned(), number(1_000));
    let other = bench.chain.by(bench.alice).deploy(&Contract::in_this_crate(), arguments).unwrap();
    let permit = bench.permit(number(300), 0, bench.chain.time() + 3_600);
    let refused = bench.chain.by(bench.bob).send(other, permit).unwrap_err();
    assert!(refused.error::<ERC2612InvalidSigner>().is_some());
    let separators = [bench.token, other].map(|token| bench.chain.view(token, DOMAIN_SEPARATORCall {}));
    assert_ne!(separators[0], separators[1]);
}

#[test]
fn rejects_invalid_signature() {
    let mut bench = bench();
    let permit = bench.permit(number(300), 0, bench.chain.time() + 3_600);
    // With n the curve's order, s and n - s are equivalent. Only the lower one is accepted: transactions are not malleable.
    let order: U256 = "0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141".parse().unwrap();
    let mirrored = permitCall { v: 27 + 28 - permit.v, s: (order - U256::from_be_bytes(permit.s.0)).into(), ..permit.clone() };
    let no_parity = permitCall { v: 29, ..permit.clone() };
    let nothing = permitCall { r: B256::ZERO, s: B256::ZERO, ..permit.clone() };
    for wrong in [mirrored, no_parity, nothing] {
        let refused = bench.chain.by(bench.bob).send(bench.token, wrong).unwrap_err();
        assert!(refused.error::<ECDSAInvalidSignature>().is_some(), "{refused}");
    }
    bench.chain.by(bench.bob).send(bench.token, permit).unwrap();
}

#[test]
fn one_account_can_own_max_supply() {
    let mut chain = Chain::new();
    let [alice, bob] = ["alice", "bob"].map(|name| chain.account(name));
    let arguments = ("Much".to_owned(), "MCH".to_owned(), U256::MAX);
    let token = chain.by(alice).deploy(&Contract::in_this_crate(), arguments).unwrap();
    for value in [U256::MAX, U256::ZERO] {
        chain.by(alice).send(token, transferCall { to: alice, value }).unwrap();
        chain.by(alice).send(token, transferCall { to: bob, value }).unwrap();
        chain.by(bob).send(token, transferCall { to: alice, value }).unwrap_or_else(|_| panic!("{value}"));
    }
    assert_eq!(chain.view(token, balanceOfCall { account: alice }), U256::MAX);
}

#[test]
fn module_embeds_abi() {
    let contract = Contract::in_this_crate();
    assert_eq!(contract.interface(), Some(&include_bytes!("../abi.json")[..]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Submits permits with any field changed: only the signed values count, and they count once.
    #[test]
    fn permit_covers_every_field(value in any::<u64>(), later in 0u64..1_000_000, changed in 0usize..8, by in 1u64..255) {
        let mut bench = bench();
        let deadline = bench.chain.time() + 1 + later;
        let signed = bench.permit(number(value), 0, deadline);
        let mut brought = signed.clone();
        match changed {
            0 => brought.owner = bench.bob,
            1 => brought.spender = bench.alice,
            2 => brought.value += number(by),
            3 => brought.deadline += number(by),
            4 => brought.v ^= by as u8,
            5 => brought.r.0[usize::from(by as u8 % 32)] ^= by as u8,
            6 => brought.s.0[usize::from(by as u8 % 32)] ^= by as u8,
            _ => {}
        }
        let Bench { chain, token, alice, bob, .. } = &mut bench;
        let taken = chain.by(*bob).send(*token, brought).is_ok();
        prop_assert_eq!(taken, changed == 7);
        prop_assert_eq!(chain.view(*token, allowanceCall { owner: *alice, spender: *bob }), number(if taken { value } else { 0 }));
        let again = chain.by(*bob).send(*token, signed).is_ok();
        prop_assert_eq!(again, !taken, "once");
    }

    /// On the SDK's host the contract counts by reads and writes, as a module by the chain's calls. Both must behave alike.
    #[test]
    fn native_and_wasm_agree(
        deeds in prop::collection::vec((0usize..3, 0usize..3, prop_oneof![0u64..600, 990u64..1_010], any::<bool>()), 1..24)
    ) {
        let Bench { mut chain, token, alice, bob, .. } = bench();
        let people = [alice, bob, Address::repeat_byte(7)];
        let vm = TestVM::default();
        vm.set_sender(alice);
        let mut native = token::Token::from(&vm);
        native.constructor("Cornice".into(), "CRN".into(), number(1_000)).unwrap();
        for (by, to, value, burn) in deeds {
            let (by, to, value) = (people[by], people[to], number(value));
            vm.set_sender(by);
            let [here, there] = match burn {
                true => [native.burn(value).is_ok(), chain.by(by).send(token, burnCall { value }).is_ok()],
                false => [native.transfer(to, value).is_ok(), chain.by(by).send(token, transferCall { to, value }).is_ok()],
            };
            prop_assert_eq!(here, there);
            for account in people {
                prop_assert_eq!(native.balance_of(account), chain.view(token, balanceOfCall { account }));
            }
            prop_assert_eq!(native.total_supply(), chain.view(token, totalSupplyCall {}));
        }
    }
}
