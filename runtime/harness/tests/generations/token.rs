//! OpenZeppelin's ERC-20 with permit, owner and pause.

use super::contract;
use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_sol_types::{SolValue, sol};
use corniche_crypto::EthereumKey;
use corniche_harness::Chain;

sol! {
    function name() returns (string);
    function decimals() returns (uint8);
    function totalSupply() returns (uint256);
    function balanceOf(address account) returns (uint256);
    function allowance(address owner, address spender) returns (uint256);
    function transfer(address to, uint256 value) returns (bool);
    function approve(address spender, uint256 value) returns (bool);
    function transferFrom(address from, address to, uint256 value) returns (bool);
    function mint(address to, uint256 value);
    function burn(uint256 value);
    function burnFrom(address account, uint256 value);
    function owner() returns (address);
    function transferOwnership(address newOwner);
    function renounceOwnership();
    function paused() returns (bool);
    function pause();
    function unpause();
    function nonces(address owner) returns (uint256);
    function DOMAIN_SEPARATOR() returns (bytes32);
    function permit(address owner, address spender, uint256 value, uint256 deadline, uint8 v, bytes32 r, bytes32 s);

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);
    event Paused(address account);
    event OwnershipTransferred(address indexed previous_owner, address indexed new_owner);

    error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed);
    error ERC20InsufficientAllowance(address spender, uint256 allowance, uint256 needed);
    error ERC20InvalidReceiver(address receiver);
    error OwnableUnauthorizedAccount(address account);
    error EnforcedPause();
    error ERC2612ExpiredSignature(uint256 deadline);
    error ERC2612InvalidSigner(address signer, address owner);
}

const fn n(value: u64) -> U256 {
    U256::from_limbs([value, 0, 0, 0])
}

/// Alice owns the contract and 100 tokens.
fn token() -> (Chain, Address, [Address; 3]) {
    let mut chain = Chain::new();
    let people = ["alice", "bob", "carol"].map(|name| chain.account(name));
    let arguments = ("Cornice".to_owned(), "CRN".to_owned(), people[0]);
    let token = chain.by(people[0]).deploy(&contract("oz_erc20"), arguments).unwrap();
    let minted = chain.by(people[0]).send(token, mintCall { to: people[0], value: n(100) }).unwrap();
    assert_eq!(minted.events::<Transfer>()[0].from, Address::ZERO);
    (chain, token, people)
}

fn balances(chain: &Chain, token: Address, people: &[Address]) -> Vec<u64> {
    people.iter().map(|account| chain.view(token, balanceOfCall { account: *account }).to()).collect()
}

#[test]
fn transfer_burn_and_named_errors() {
    let (mut chain, token, people @ [alice, bob, carol]) = token();
    assert_eq!((chain.view(token, nameCall {}), chain.view(token, decimalsCall {})), ("Cornice".into(), 18));
    let sent = chain.by(alice).send(token, transferCall { to: bob, value: n(30) }).unwrap();
    assert!(sent.output);
    let told = &sent.events_of::<Transfer>(token)[0];
    assert_eq!((told.from, told.to, told.value), (alice, bob, n(30)));
    assert_eq!(balances(&chain, token, &people), [70, 30, 0]);

    let refused = chain.by(bob).send(token, transferCall { to: carol, value: n(31) }).err().unwrap();
    let error: ERC20InsufficientBalance = refused.error().unwrap();
    assert_eq!((error.sender, error.balance, error.needed), (bob, n(30), n(31)));
    let refused = chain.by(bob).send(token, transferCall { to: Address::ZERO, value: n(1) }).err().unwrap();
    assert_eq!(refused.error::<ERC20InvalidReceiver>().unwrap().receiver, Address::ZERO);

    chain.by(bob).send(token, approveCall { spender: carol, value: n(12) }).unwrap();
    chain.by(carol).send(token, transferFromCall { from: bob, to: carol, value: n(10) }).unwrap();
    let refused = chain.by(carol).send(token, burnFromCall { account: bob, value: n(3) }).err().unwrap();
    let error: ERC20InsufficientAllowance = refused.error().unwrap();
    assert_eq!((error.spender, error.allowance, error.needed), (carol, n(2), n(3)));
    chain.by(carol).send(token, burnFromCall { account: bob, value: n(2) }).unwrap();
    chain.by(alice).send(token, burnCall { value: n(70) }).unwrap();
    assert_eq!(balances(&chain, token, &people), [0, 18, 10]);
    assert_eq!(chain.view(token, totalSupplyCall {}), n(28));
    assert_eq!(chain.view(token, allowanceCall { owner: bob, spender: carol }), U256::ZERO);
}

#[test]
fn owner_mints_pauses_and_transfers_ownership() {
    let (mut chain, token, [alice, bob, _]) = token();
    for refused in [
        chain.by(bob).send(token, mintCall { to: bob, value: n(1) }).err().unwrap(),
        chain.by(bob).send(token, pauseCall {}).err().unwrap(),
        chain.by(bob).send(token, transferOwnershipCall { newOwner: bob }).err().unwrap(),
    ] {
        assert_eq!(refused.error::<OwnableUnauthorizedAccount>().unwrap().account, bob);
    }
    let paused = chain.by(alice).send(token, pauseCall {}).unwrap();
    assert_eq!((paused.events::<Paused>()[0].account, chain.view(token, pausedCall {})), (alice, true));
    let refused = chain.by(alice).send(token, transferCall { to: bob, value: n(1) }).err().unwrap();
    assert!(refused.error::<EnforcedPause>().is_some(), "{refused:?}");
    chain.by(alice).send(token, unpauseCall {}).unwrap();
    chain.by(alice).send(token, transferCall { to: bob, value: n(1) }).unwrap();

    let handed = chain.by(alice).send(token, transferOwnershipCall { newOwner: bob }).unwrap();
    assert_eq!(handed.events::<OwnershipTransferred>()[0].new_owner, bob);
    chain.by(bob).send(token, mintCall { to: bob, value: n(1) }).unwrap();
    chain.by(alice).send(token, mintCall { to: alice, value: n(1) }).err().unwrap();
    chain.by(bob).send(token, renounceOwnershipCall {}).unwrap();
    assert_eq!(chain.view(token, ownerCall {}), Address::ZERO);
}

/// ERC-2612: the contract recovers the signer with the precompile at address 1.
#[test]
fn permit_by_signature() {
    let (mut chain, token, [alice, bob, _]) = token();
    let key = EthereumKey::from_bytes(&[7; 32]).unwrap();
    let owner = key.address();
    chain.by(alice).send(token, transferCall { to: owner, value: n(50) }).unwrap();
    let deadline = U256::from(chain.time() + 100);
    let domain = chain.view(token, DOMAIN_SEPARATORCall {});
    let kind = keccak256("Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)");
    let permit = |key: &EthereumKey, value: U256, nonce: u64| {
        let permit = keccak256((kind, owner, bob, value, U256::from(nonce), deadline).abi_encode());
        let signature = key.sign_hash(keccak256([b"\x19\x01".as_slice(), domain.as_slice(), permit.as_slice()].concat()));
        let [r, s] = [signature.r(), signature.s()].map(B256::from);
        permitCall { owner, spender: bob, value, deadline, v: 27 + u8::from(signature.v()), r, s }
    };
    // Any account may submit the permit, once.
    let permitted = chain.by(alice).send(token, permit(&key, n(40), 0)).unwrap();
    assert_eq!(permitted.events::<Approval>()[0].value, n(40));
    assert_eq!(chain.view(token, noncesCall { owner }), n(1));
    chain.by(bob).send(token, transferFromCall { from: owner, to: bob, value: n(40) }).unwrap();
    assert_eq!(balances(&chain, token, &[owner, bob]), [10, 40]);
    let again = chain.by(alice).send(token, permit(&key, n(40), 0)).err().unwrap();
    assert_eq!(again.error::<ERC2612InvalidSigner>().unwrap().owner, owner);

    let other = EthereumKey::from_bytes(&[8; 32]).unwrap();
    let forged = chain.by(bob).send(token, permit(&other, n(10), 1)).err().unwrap();
    let error: ERC2612InvalidSigner = forged.error().unwrap();
    assert_eq!((error.signer, error.owner), (other.address(), owner));
    chain.advance(1_000);
    let late = chain.by(bob).send(token, permit(&key, n(10), 1)).err().unwrap();
    assert_eq!(late.error::<ERC2612ExpiredSignature>().unwrap().deadline, deadline);
}
