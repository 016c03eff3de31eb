//! Native tests on the SDK's host in memory: a case takes microseconds, so properties run on thousands of cases.

use super::*;
use alloc::collections::BTreeMap;
use proptest::prelude::*;
use stylus_sdk::testing::*;

const ALICE: Address = Address::repeat_byte(0xa1);
const BOB: Address = Address::repeat_byte(0xb0);
const CAROL: Address = Address::repeat_byte(0xca);
const PEOPLE: [Address; 3] = [ALICE, BOB, CAROL];

fn number(number: u64) -> U256 {
    U256::from(number)
}

/// Created by alice, who may mint.
fn collectible(vm: &TestVM) -> Collectible {
    vm.set_sender(ALICE);
    let mut tokens = Collectible::from(vm);
    tokens.constructor("Arches".into(), "ARC".into(), "https://example.org/arch/".into());
    tokens
}

#[test]
fn token_has_owner_and_uri() {
    let vm = TestVM::default();
    let mut tokens = collectible(&vm);
    assert_eq!(tokens.mint(BOB), Ok(number(0)));
    assert_eq!(tokens.mint(BOB), Ok(number(1)));
    assert_eq!((tokens.owner_of(number(1)), tokens.balance_of(BOB)), (Ok(BOB), Ok(number(2))));
    assert_eq!(tokens.token_uri(number(1)), Ok("https://example.org/arch/1".into()));
    assert_eq!(tokens.token_uri(number(2)), Err(ERC721NonexistentToken { tokenId: number(2) }.into()));
    assert_eq!(tokens.balance_of(Address::ZERO), Err(ERC721InvalidOwner { owner: Address::ZERO }.into()));
    assert_eq!(tokens.mint(Address::ZERO), Err(ERC721InvalidReceiver { receiver: Address::ZERO }.into()));
}

#[test]
fn transfer_clears_approval_not_operator() {
    let vm = TestVM::default();
    let mut tokens = collectible(&vm);
    assert_eq!(tokens.mint(ALICE), Ok(number(0)));
    assert_eq!(tokens.approve(BOB, number(0)), Ok(()));
    assert_eq!(tokens.set_approval_for_all(CAROL, true), Ok(()));
    vm.set_sender(BOB);
    assert_eq!(tokens.approve(BOB, number(0)), Err(ERC721InvalidApprover { approver: BOB }.into()), "not his to give on");
    assert_eq!(tokens.transfer_from(ALICE, BOB, number(0)), Ok(()));
    assert_eq!(tokens.transfer_from(BOB, ALICE, number(0)), Ok(()));
    assert_eq!(
        tokens.transfer_from(ALICE, BOB, number(0)),
        Err(ERC721InsufficientApproval { operator: BOB, tokenId: number(0) }.into())
    );
    vm.set_sender(CAROL);
    assert_eq!(tokens.transfer_from(ALICE, CAROL, number(0)), Ok(()));
    assert_eq!(tokens.set_approval_for_all(Address::ZERO, true), Err(ERC721InvalidOperator { operator: Address::ZERO }.into()));
}

#[test]
fn interface_ids_match_selectors() {
    let selectors = |signatures: &[&str]| {
        signatures.iter().fold([0; 4], |id: [u8; 4], signature| {
            let hash = alloy_primitives::keccak256(signature);
            core::array::from_fn(|at| id[at] ^ hash[at])
        })
    };
    let token = [
        "balanceOf(address)",
        "ownerOf(uint256)",
        "approve(address,uint256)",
        "getApproved(uint256)",
        "setApprovalForAll(address,bool)",
        "isApprovedForAll(address,address)",
        "transferFrom(address,address,uint256)",
        "safeTransferFrom(address,address,uint256)",
        "safeTransferFrom(address,address,uint256,bytes)",
    ];
    let metadata = ["name()", "symbol()", "tokenURI(uint256)"];
    assert_eq!(INTERFACES.map(|id| id.0), [selectors(&["supportsInterface(bytes4)"]), selectors(&token), selectors(&metadata)]);
}

/// One action of an account.
#[derive(Clone, Debug)]
enum Deed {
    Move(Address, Address, U256),
    Approve(Address, U256),
    Trust(Address, bool),
    Mint(Address),
    Burn(U256),
}

fn deeds() -> impl Strategy<Value = Vec<(Address, Deed)>> {
    let somebody = || prop::sample::select(&PEOPLE[..]);
    let id = || (0u64..4).prop_map(U256::from);
    let deed = prop_oneof![
        5 => (somebody(), somebody(), id()).prop_map(|(from, to, id)| Deed::Move(from, to, id)),
        2 => (somebody(), id()).prop_map(|(to, id)| Deed::Approve(to, id)),
        1 => (somebody(), any::<bool>()).prop_map(|(to, all)| Deed::Trust(to, all)),
        2 => somebody().prop_map(Deed::Mint),
        1 => id().prop_map(Deed::Burn),
    ];
    prop::collection::vec((somebody(), deed), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// Compares with a ledger of owners and approvals: both allow the same actions, with equal results.
    #[test]
    fn matches_ledger_model(deeds in deeds()) {
        let vm = TestVM::default();
        let mut tokens = collectible(&vm);
        let (mut owners, mut approved) = (BTreeMap::new(), BTreeMap::new());
        let (mut trusted, mut next) = (BTreeMap::new(), U256::ZERO);
        for (who, deed) in deeds {
            vm.set_sender(who);
            let trusts = |owner, who| trusted.get(&(owner, who)).is_some_and(|all| *all);
            let may = |owners: &BTreeMap<U256, Address>, id: U256| {
                owners.get(&id).filter(|owner| **owner == who || approved.get(&id) == Some(&who) || trusts(**owner, who)).copied()
            };
            let (allowed, done) = match deed.clone() {
                Deed::Move(from, to, id) => {
                    let allowed = may(&owners, id) == Some(from);
                    if allowed {
                        owners.insert(id, to);
                        approved.remove(&id);
                    }
                    (allowed, tokens.transfer_from(from, to, id).is_ok())
                }
                Deed::Approve(to, id) => {
                    let allowed = owners.get(&id).is_some_and(|owner| *owner == who || trusts(*owner, who));
                    if allowed {
                        approved.insert(id, to);
                    }
                    (allowed, tokens.approve(to, id).is_ok())
                }
                Deed::Trust(to, all) => {
                    trusted.insert((who, to), all);
                    (true, tokens.set_approval_for_all(to, all).is_ok())
                }
                Deed::Mint(to) => {
                    if who == ALICE {
                        owners.insert(next, to);
                        next += U256::from(1);
                    }
                    (who == ALICE, tokens.mint(to).is_ok())
                }
                Deed::Burn(id) => {
                    let allowed = may(&owners, id).is_some();
                    if allowed {
                        owners.remove(&id);
                        approved.remove(&id);
                    }
                    (allowed, tokens.burn(id).is_ok())
                }
            };
            prop_assert_eq!(done, allowed, "{:?} by {}", deed, who);
            for id in (0..5).map(number) {
                prop_assert_eq!(tokens.owner_of(id).ok(), owners.get(&id).copied());
            }
            for owner in PEOPLE {
                let owned = owners.values().filter(|other| **other == owner).count() as u64;
                prop_assert_eq!(tokens.balance_of(owner), Ok(number(owned)));
            }
        }
    }
}
