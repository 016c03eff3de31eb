//! Native tests on the SDK's host in memory: a case takes microseconds, so properties run on thousands of cases.

use super::*;
use crate::permit::Permit;
use alloy_primitives::{address, keccak256};
use corniche_contract::erc20::{
    ERC20InsufficientAllowance, ERC20InsufficientBalance, ERC20InvalidReceiver, ERC20InvalidSpender,
};
use proptest::prelude::*;
use stylus_sdk::testing::*;

const CREATOR: Address = Address::repeat_byte(0xc0);
const ALICE: Address = Address::repeat_byte(0xa1);
const BOB: Address = Address::repeat_byte(0xb0);
const PEOPLE: [Address; 3] = [CREATOR, ALICE, BOB];

fn number(number: u64) -> U256 {
    U256::from(number)
}

fn token(vm: &TestVM) -> Token {
    vm.set_sender(CREATOR);
    let mut token = Token::from(vm);
    token.constructor("Cornice".into(), "CRN".into(), number(1_000)).unwrap();
    token
}

#[test]
fn creator_owns_supply() {
    let vm = TestVM::default();
    let token = token(&vm);
    assert_eq!((token.name(), token.symbol(), token.decimals()), ("Cornice".into(), "CRN".into(), 18));
    assert_eq!((token.total_supply(), token.balance_of(CREATOR)), (number(1_000), number(1_000)));
    assert_eq!(vm.get_emitted_logs().len(), 1);
}

#[test]
fn transfers_to_self_and_zero_address() {
    let vm = TestVM::default();
    let mut token = token(&vm);
    assert_eq!(token.transfer(ALICE, number(10)), Ok(true));
    assert_eq!(token.transfer(CREATOR, number(990)), Ok(true));
    assert_eq!([CREATOR, ALICE].map(|who| token.balance_of(who)), [990, 10].map(number));
    let wrong = ERC20InsufficientBalance { sender: CREATOR, balance: number(990), needed: number(991) };
    assert_eq!(token.transfer(ALICE, number(991)), Err(Erc20Error::from(wrong).into()));
    let nobody = ERC20InvalidReceiver { receiver: Address::ZERO };
    assert_eq!(token.transfer(Address::ZERO, number(1)), Err(Erc20Error::from(nobody).into()));
}

#[test]
fn infinite_allowance_is_not_spent() {
    let vm = TestVM::default();
    let mut token = token(&vm);
    assert_eq!(token.approve(ALICE, number(100)), Ok(true));
    let nobody = ERC20InvalidSpender { spender: Address::ZERO };
    assert_eq!(token.approve(Address::ZERO, number(1)), Err(Erc20Error::from(nobody).into()));
    vm.set_sender(ALICE);
    assert_eq!(token.transfer_from(CREATOR, BOB, number(60)), Ok(true));
    let wrong = ERC20InsufficientAllowance { spender: ALICE, allowance: number(40), needed: number(41) };
    assert_eq!(token.transfer_from(CREATOR, BOB, number(41)), Err(Erc20Error::from(wrong).into()));
    vm.set_sender(CREATOR);
    assert_eq!(token.approve(ALICE, U256::MAX), Ok(true));
    vm.set_sender(ALICE);
    assert_eq!(token.transfer_from(CREATOR, BOB, number(60)), Ok(true));
    assert_eq!(token.allowance(CREATOR, ALICE), U256::MAX);
    assert_eq!(token.balance_of(BOB), number(120));
}

#[test]
fn burn_reduces_supply() {
    let vm = TestVM::default();
    let mut token = token(&vm);
    assert_eq!(token.burn(number(400)), Ok(()));
    assert_eq!((token.total_supply(), token.balance_of(CREATOR)), (number(600), number(600)));
    assert!(token.burn(number(601)).is_err());
}

/// The precompile is mocked. `tests/module.rs` tests recovery on the real module.
#[test]
fn permit_is_single_use_until_deadline() {
    let vm = TestVM::default();
    let mut token = token(&vm);
    let [deadline, value] = [vm.block_timestamp() + 10, 77].map(number);
    let [r, s] = [1, 2].map(B256::with_last_byte);
    let recover = address!("0000000000000000000000000000000000000001");
    let signed_by = |nonce: u64, domain: B256, signer: Address| {
        let digest = Permit { owner: ALICE, spender: BOB, value, nonce: number(nonce), deadline }.digest(domain);
        let input = [digest, B256::with_last_byte(27), r, s].concat();
        vm.mock_static_call(recover, input, Ok(signer.into_word().to_vec()));
    };
    let domain = token.domain_separator();

    signed_by(0, domain, BOB);
    let wrong = ERC2612InvalidSigner { signer: BOB, owner: ALICE };
    assert_eq!(token.permit(ALICE, BOB, value, deadline, 27, r, s), Err(wrong.into()));
    assert_eq!(token.nonces(ALICE), U256::ZERO);

    signed_by(0, domain, ALICE);
    assert_eq!(token.permit(ALICE, BOB, value, deadline, 27, r, s), Ok(()));
    assert_eq!((token.nonces(ALICE), token.allowance(ALICE, BOB)), (number(1), value));

    vm.set_block_timestamp(vm.block_timestamp() + 11);
    assert_eq!(token.permit(ALICE, BOB, value, deadline, 27, r, s), Err(ERC2612ExpiredSignature { deadline }.into()));
}

#[test]
fn type_hashes_match_wallets() {
    // Computed by hand from EIP-712: the hash of the type string, then each field in 32 bytes.
    let word = |number: u64| number_word(number);
    let domain = keccak256(
        [
            keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
            keccak256("Cornice"),
            keccak256("1"),
            word(7),
            ALICE.into_word(),
        ]
        .concat(),
    );
    assert_eq!(permit::domain_separator("Cornice", 7, ALICE), domain);
    let fields = "Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)";
    let signed = keccak256([keccak256(fields), ALICE.into_word(), BOB.into_word(), word(1), word(2), word(3)].concat());
    let permit = Permit { owner: ALICE, spender: BOB, value: number(1), nonce: number(2), deadline: number(3) };
    assert_eq!(permit.digest(domain), keccak256([&[0x19, 0x01], &domain[..], &signed[..]].concat()));
}

fn number_word(value: u64) -> B256 {
    number(value).into()
}

/// One action of an account.
#[derive(Clone, Debug)]
enum Deed {
    Transfer(Address, U256),
    Approve(Address, U256),
    TransferFrom(Address, Address, U256),
    Burn(U256),
}

fn deeds() -> impl Strategy<Value = Vec<(Address, Deed)>> {
    let somebody = || prop::sample::select(&PEOPLE[..]);
    let amount = || prop_oneof![8 => (0u64..1_200).prop_map(U256::from), 1 => Just(U256::MAX)];
    let deed = prop_oneof![
        3 => (somebody(), amount()).prop_map(|(to, value)| Deed::Transfer(to, value)),
        2 => (somebody(), amount()).prop_map(|(spender, value)| Deed::Approve(spender, value)),
        3 => (somebody(), somebody(), amount()).prop_map(|(from, to, value)| Deed::TransferFrom(from, to, value)),
        1 => amount().prop_map(Deed::Burn),
    ];
    prop::collection::vec((somebody(), deed), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// Invariants for any actions: balances add up to the supply, an allowance shrinks by exactly the spent amount, and refused
    /// calls change nothing.
    #[test]
    fn supply_is_conserved(deeds in deeds()) {
        let vm = TestVM::default();
        let mut token = token(&vm);
        for (who, deed) in deeds {
            vm.set_sender(who);
            let owned = PEOPLE.map(|who| token.balance_of(who));
            let supply = token.total_supply();
            let allowed = |token: &Token| PEOPLE.map(|owner| PEOPLE.map(|spender| token.allowance(owner, spender)));
            let allowed_before = allowed(&token);
            let done = match deed.clone() {
                Deed::Transfer(to, value) => token.transfer(to, value).is_ok(),
                Deed::Approve(spender, value) => token.approve(spender, value).is_ok(),
                Deed::TransferFrom(from, to, value) => {
                    let allowance = token.allowance(from, who);
                    let within = allowance >= value;
                    let done = token.transfer_from(from, to, value).is_ok();
                    prop_assert!(!done || within, "spent {value} of {allowance}");
                    if done && allowance != U256::MAX {
                        prop_assert_eq!(token.allowance(from, who), allowance - value);
                    }
                    if !done {
                        // The chain reverts a refused transaction. This host does not.
                        vm.set_sender(from);
                        prop_assert!(token.approve(who, allowance).is_ok());
                    }
                    done
                }
                Deed::Burn(value) => {
                    let done = token.burn(value).is_ok();
                    prop_assert_eq!(token.total_supply(), if done { supply - value } else { supply });
                    done
                }
            };
            let now = PEOPLE.map(|who| token.balance_of(who));
            prop_assert_eq!(now.iter().sum::<U256>(), token.total_supply(), "after {:?}", deed);
            if !done {
                prop_assert_eq!((now, allowed(&token)), (owned, allowed_before));
            }
        }
    }
}
