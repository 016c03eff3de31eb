//! OpenZeppelin's ERC-721 with a minter role.

use super::contract;
use alloy_primitives::{Address, B256, Bytes, FixedBytes, U256, keccak256};
use alloy_sol_types::sol;
use corniche_harness::Chain;

sol! {
    function mint(address to, uint256 tokenId);
    function safeMint(address to, uint256 tokenId, bytes data);
    function balanceOf(address owner) returns (uint256);
    function ownerOf(uint256 tokenId) returns (address);
    function approve(address to, uint256 tokenId);
    function getApproved(uint256 tokenId) returns (address);
    function setApprovalForAll(address operator, bool approved);
    function isApprovedForAll(address owner, address operator) returns (bool);
    function transferFrom(address from, address to, uint256 tokenId);
    function safeTransferFrom(address from, address to, uint256 tokenId);
    function burn(uint256 tokenId);
    function hasRole(bytes32 role, address account) returns (bool);
    function getRoleAdmin(bytes32 role) returns (bytes32);
    function grantRole(bytes32 role, address account);
    function revokeRole(bytes32 role, address account);
    function renounceRole(bytes32 role, address confirmation);
    function supportsInterface(bytes4 id) returns (bool);

    event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);
    event RoleGranted(bytes32 indexed role, address indexed account, address indexed sender);

    error AccessControlUnauthorizedAccount(address account, bytes32 neededRole);
    error AccessControlBadConfirmation();
    error ERC721InsufficientApproval(address operator, uint256 tokenId);
    error ERC721NonexistentToken(uint256 tokenId);
    error ERC721InvalidReceiver(address receiver);
    error ERC721InvalidSender(address sender);
}

fn id(value: u64) -> U256 {
    U256::from(value)
}

/// Alice is the administrator, bob the minter.
fn collectible() -> (Chain, Address, [Address; 3]) {
    let mut chain = Chain::new();
    let people = ["alice", "bob", "carol"].map(|name| chain.account(name));
    let [alice, bob, _] = people;
    let collectible = chain.by(alice).deploy(&contract("oz_erc721"), (alice,)).unwrap();
    let granted = chain.by(alice).send(collectible, grantRoleCall { role: minter(), account: bob }).unwrap();
    let told = &granted.events::<RoleGranted>()[0];
    assert_eq!((told.role, told.account, told.sender), (minter(), bob, alice));
    (chain, collectible, people)
}

fn minter() -> B256 {
    keccak256("MINTER_ROLE")
}

#[test]
fn roles_are_granted_revoked_and_renounced() {
    let (mut chain, collectible, [alice, bob, carol]) = collectible();
    chain.by(bob).send(collectible, mintCall { to: carol, tokenId: id(1) }).unwrap();
    // The administrator cannot mint, and the minter cannot administer.
    let refused = chain.by(alice).send(collectible, mintCall { to: alice, tokenId: id(2) }).err().unwrap();
    let error: AccessControlUnauthorizedAccount = refused.error().unwrap();
    assert_eq!((error.account, error.neededRole), (alice, minter()));
    let refused = chain.by(bob).send(collectible, grantRoleCall { role: minter(), account: carol }).err().unwrap();
    let admin = chain.view(collectible, getRoleAdminCall { role: minter() });
    assert_eq!(refused.error::<AccessControlUnauthorizedAccount>().unwrap().neededRole, admin);
    assert_eq!(admin, B256::ZERO);

    let has = |chain: &Chain, account| chain.view(collectible, hasRoleCall { role: minter(), account });
    chain.by(alice).send(collectible, grantRoleCall { role: minter(), account: carol }).unwrap();
    assert!(has(&chain, bob) && has(&chain, carol));
    chain.by(alice).send(collectible, revokeRoleCall { role: minter(), account: bob }).unwrap();
    let refused = chain.by(carol).send(collectible, renounceRoleCall { role: minter(), confirmation: bob }).err().unwrap();
    assert!(refused.error::<AccessControlBadConfirmation>().is_some(), "{refused:?}");
    chain.by(carol).send(collectible, renounceRoleCall { role: minter(), confirmation: carol }).unwrap();
    assert!(!has(&chain, bob) && !has(&chain, carol));
    chain.by(bob).send(collectible, mintCall { to: bob, tokenId: id(2) }).err().unwrap();
}

#[test]
fn approved_token_transfers() {
    let (mut chain, collectible, [alice, bob, carol]) = collectible();
    chain.by(bob).send(collectible, mintCall { to: carol, tokenId: id(1) }).unwrap();
    let taken = transferFromCall { from: carol, to: alice, tokenId: id(1) };
    let refused = chain.by(alice).send(collectible, taken.clone()).err().unwrap();
    assert_eq!(refused.error::<ERC721InsufficientApproval>().unwrap().operator, alice);
    chain.by(carol).send(collectible, approveCall { to: alice, tokenId: id(1) }).unwrap();
    assert_eq!(chain.view(collectible, getApprovedCall { tokenId: id(1) }), alice);
    let moved = chain.by(alice).send(collectible, taken).unwrap();
    assert_eq!(moved.events::<Transfer>()[0].tokenId, id(1));
    // An approval is valid for one transfer, an operator's approval for all.
    assert_eq!(chain.view(collectible, getApprovedCall { tokenId: id(1) }), Address::ZERO);
    chain.by(alice).send(collectible, setApprovalForAllCall { operator: carol, approved: true }).unwrap();
    assert!(chain.view(collectible, isApprovedForAllCall { owner: alice, operator: carol }));
    chain.by(carol).send(collectible, burnCall { tokenId: id(1) }).unwrap();
    let gone = chain.by(alice).call(collectible, ownerOfCall { tokenId: id(1) }).err().unwrap();
    assert_eq!(gone.error::<ERC721NonexistentToken>().unwrap().tokenId, id(1));
    let twice = mintCall { to: carol, tokenId: id(2) };
    chain.by(bob).send(collectible, twice.clone()).unwrap();
    assert!(chain.by(bob).send(collectible, twice).err().unwrap().error::<ERC721InvalidSender>().is_some());
}

/// A safe transfer calls a receiving contract, which may refuse the token.
#[test]
fn receivers_are_called() {
    let (mut chain, collectible, [alice, bob, carol]) = collectible();
    let holder = chain.by(alice).deploy(&contract("oz_holder"), ()).unwrap();
    let deaf = chain.by(alice).deploy(&contract("oz_erc1155"), ()).unwrap();
    chain.by(bob).send(collectible, safeMintCall { to: holder, tokenId: id(1), data: Bytes::from(b"x") }).unwrap();
    assert_eq!(chain.view(collectible, ownerOfCall { tokenId: id(1) }), holder);
    chain.by(bob).send(collectible, mintCall { to: carol, tokenId: id(2) }).unwrap();
    let sent = safeTransferFromCall { from: carol, to: deaf, tokenId: id(2) };
    let refused = chain.by(carol).send(collectible, sent).err().unwrap();
    assert_eq!(refused.error::<ERC721InvalidReceiver>().unwrap().receiver, deaf, "{refused:?}");
    chain.by(carol).send(collectible, safeTransferFromCall { from: carol, to: holder, tokenId: id(2) }).unwrap();
    assert_eq!(chain.view(collectible, balanceOfCall { owner: holder }), id(2));
    for (interface, has) in [([0x80, 0xac, 0x58, 0xcd], true), ([0x01, 0xff, 0xc9, 0xa7], true), ([0xff; 4], false)] {
        let id = FixedBytes::from(interface);
        assert_eq!(chain.view(collectible, supportsInterfaceCall { id }), has, "{interface:x?}");
    }
}
