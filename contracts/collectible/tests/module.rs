//! Runs the real WebAssembly on the nodes' virtual machine, with malicious receivers.

use alloy_sol_types::{sol, SolCall, SolError};
use corniche_harness::{Address, Chain, Contract, Failed, B256, U256};
use proptest::prelude::*;
use std::sync::LazyLock;

sol! {
    function name() returns (string);
    function tokenURI(uint256 tokenId) returns (string);
    function supportsInterface(bytes4 interfaceId) returns (bool);
    function balanceOf(address owner) returns (uint256);
    function ownerOf(uint256 tokenId) returns (address);
    function getApproved(uint256 tokenId) returns (address);
    function approve(address to, uint256 tokenId);
    function setApprovalForAll(address operator, bool approved);
    function transferFrom(address from, address to, uint256 tokenId);
    function mint(address to) returns (uint256);
    function safeMint(address to, bytes data) returns (uint256);
    function burn(uint256 tokenId);

    event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);
    event Approval(address indexed owner, address indexed approved, uint256 indexed tokenId);

    error ERC721NonexistentToken(uint256 tokenId);
    error ERC721IncorrectOwner(address sender, uint256 tokenId, address owner);
    error ERC721InvalidReceiver(address receiver);
    error ERC721InsufficientApproval(address operator, uint256 tokenId);
    error OwnableUnauthorizedAccount(address account);
    error NotToday(uint256 day);
}

/// A separate module, because two functions share one name.
mod safely {
    alloy_sol_types::sol! {
        function safeTransferFrom(address from, address to, uint256 tokenId);
    }
    pub mod telling {
        alloy_sol_types::sol! {
            function safeTransferFrom(address from, address to, uint256 tokenId, bytes data);
        }
    }
}
use safely::{safeTransferFromCall, telling};

fn number(number: u64) -> U256 {
    U256::from(number)
}

/// Alice created the tokens and owns the first three. A contract waits for one.
#[derive(Clone)]
struct Scene {
    chain: Chain,
    tokens: Address,
    receiver: Address,
    alice: Address,
    bob: Address,
}

/// Created once. Each test and each case starts with a copy.
fn scene() -> Scene {
    static SCENE: LazyLock<Scene> = LazyLock::new(prepared);
    SCENE.clone()
}

fn prepared() -> Scene {
    let mut chain = Chain::new();
    let [alice, bob] = ["alice", "bob"].map(|name| chain.account(name));
    let arguments = ("Arches".to_owned(), "ARC".to_owned(), "https://example.org/arch/".to_owned());
    let tokens = chain.by(alice).deploy(&Contract::in_this_crate(), arguments).unwrap();
    let receiver = Contract::new("receiver", wat::parse_str(include_str!("receiver.wat")).unwrap());
    let receiver = chain.by(bob).deploy(&receiver, ()).unwrap();
    for id in 0..3 {
        assert_eq!(chain.by(alice).send(tokens, mintCall { to: alice }).unwrap().output, number(id));
    }
    Scene { chain, tokens, receiver, alice, bob }
}

impl Scene {
    fn owner(&self, id: u64) -> Address {
        self.chain.view(self.tokens, ownerOfCall { tokenId: number(id) })
    }

    fn owned(&self, owner: Address) -> u64 {
        self.chain.view(self.tokens, balanceOfCall { owner }).to()
    }

    /// Alice sends her token to the receiver, with instructions in `data`.
    fn give(&mut self, id: u64, data: &[u8]) -> Result<(), Failed> {
        let to = self.receiver;
        let call = telling::safeTransferFromCall { from: self.alice, to, tokenId: number(id), data: data.to_vec().into() };
        self.chain.by(self.alice).send(self.tokens, call).map(|_| ())
    }

    /// True if the receiver's call back succeeded.
    fn worked(&self) -> bool {
        let noted = self.chain.storage(self.receiver, B256::ZERO);
        assert!(noted == B256::with_last_byte(1) || noted == B256::with_last_byte(2), "it tried nothing");
        noted == B256::with_last_byte(1)
    }
}

#[test]
fn mint_transfer_burn_emit_events() {
    let Scene { mut chain, tokens, receiver, alice, bob } = scene();
    let sent = chain.by(alice).send(tokens, transferFromCall { from: alice, to: bob, tokenId: number(1) }).unwrap();
    let [told] = &sent.events::<Transfer>()[..] else { panic!("{:?}", sent.logs) };
    assert_eq!((told.from, told.to, told.tokenId), (alice, bob, number(1)));
    chain.by(bob).send(tokens, approveCall { to: alice, tokenId: number(1) }).unwrap();
    chain.by(bob).send(tokens, setApprovalForAllCall { operator: alice, approved: true }).unwrap();
    chain.by(bob).send(tokens, safeTransferFromCall { from: bob, to: alice, tokenId: number(1) }).unwrap();
    assert_eq!(chain.view(tokens, getApprovedCall { tokenId: number(1) }), Address::ZERO, "it moved");
    let call = telling::safeTransferFromCall { from: alice, to: receiver, tokenId: number(2), data: Default::default() };
    chain.by(alice).send(tokens, call).unwrap();
    chain.by(alice).send(tokens, burnCall { tokenId: number(0) }).unwrap();
    let gone: ERC721NonexistentToken =
        chain.by(bob).call(tokens, ownerOfCall { tokenId: number(0) }).unwrap_err().error().unwrap();
    assert_eq!(gone.tokenId, number(0));
    chain.gas().assert_matches_file("gas.txt");
}

#[test]
fn unauthorized_transfer_and_mint_revert() {
    let Scene { mut chain, tokens, alice, bob, .. } = scene();
    let take = transferFromCall { from: alice, to: bob, tokenId: number(0) };
    let refused: ERC721InsufficientApproval = chain.by(bob).send(tokens, take.clone()).unwrap_err().error().unwrap();
    assert_eq!((refused.operator, refused.tokenId), (bob, number(0)));
    let wrong = transferFromCall { from: bob, to: alice, tokenId: number(0) };
    let refused: ERC721IncorrectOwner = chain.by(alice).send(tokens, wrong).unwrap_err().error().unwrap();
    assert_eq!(refused.owner, alice);
    let refused: OwnableUnauthorizedAccount = chain.by(bob).send(tokens, mintCall { to: bob }).unwrap_err().error().unwrap();
    assert_eq!(refused.account, bob);
    chain.by(alice).send(tokens, approveCall { to: bob, tokenId: number(0) }).unwrap();
    chain.by(bob).send(tokens, take).unwrap();
    assert_eq!(chain.view(tokens, ownerOfCall { tokenId: number(0) }), bob);
}

#[test]
fn supports_interface() {
    let Scene { chain, tokens, .. } = scene();
    assert_eq!(chain.view(tokens, nameCall {}), "Arches");
    assert_eq!(chain.view(tokens, tokenURICall { tokenId: number(2) }), "https://example.org/arch/2");
    for (id, has) in
        [(0x01ff_c9a7u32, true), (0x80ac_58cd, true), (0x5b5e_139f, true), (0xffff_ffff, false), (0x780e_9d63, false)]
    {
        assert_eq!(chain.view(tokens, supportsInterfaceCall { interfaceId: id.to_be_bytes().into() }), has, "{id:x}");
    }
    assert_eq!(Contract::in_this_crate().interface(), Some(&include_bytes!("../abi.json")[..]));
}

#[test]
fn receiver_rejection_reverts_transfer() {
    let mut scene = scene();
    let wrong: ERC721InvalidReceiver = scene.give(0, &[2]).unwrap_err().error().unwrap();
    assert_eq!(wrong.receiver, scene.receiver);
    let silent: ERC721InvalidReceiver = scene.give(0, &[4]).unwrap_err().error().unwrap();
    assert_eq!(silent.receiver, scene.receiver);
    let reason = [&[3][..], &NotToday { day: number(7) }.abi_encode()].concat();
    let told: NotToday = scene.give(0, &reason).unwrap_err().error().expect("its own words");
    assert_eq!(told.day, number(7));
    // A contract that does not implement receiving: the token contract.
    let to_itself = safeTransferFromCall { from: scene.alice, to: scene.tokens, tokenId: number(0) };
    let refused = scene.chain.by(scene.alice).send(scene.tokens, to_itself).unwrap_err();
    assert!(refused.error::<ERC721InvalidReceiver>().is_some(), "{refused}");
    assert_eq!((scene.owner(0), scene.owned(scene.alice), scene.owned(scene.receiver)), (scene.alice, 3, 0));

    scene.give(0, &[]).unwrap();
    let minted = safeMintCall { to: scene.receiver, data: Default::default() };
    scene.chain.by(scene.alice).send(scene.tokens, minted).unwrap();
    let unwanted = safeMintCall { to: scene.receiver, data: vec![4].into() };
    assert!(scene.chain.by(scene.alice).send(scene.tokens, unwanted).is_err());
    assert_eq!((scene.owner(0), scene.owner(3), scene.owned(scene.receiver)), (scene.receiver, scene.receiver, 2));
    let never = scene.chain.by(scene.bob).call(scene.tokens, ownerOfCall { tokenId: number(4) });
    assert!(never.is_err(), "what nobody took was not minted");
}

/// The receiver calls back during the transfer, in the most favourable ways. The SDK refuses a second call into a contract during
/// its outgoing calls. The transfer itself succeeds as usual.
#[test]
fn reentrancy_gains_nothing() {
    let attempts = |scene: &Scene| {
        let Scene { receiver, alice, bob, .. } = *scene;
        [
            transferFromCall { from: alice, to: receiver, tokenId: number(1) }.abi_encode(), // another token of hers
            transferFromCall { from: alice, to: bob, tokenId: number(0) }.abi_encode(),      // the same token again
            transferFromCall { from: receiver, to: bob, tokenId: number(0) }.abi_encode(),   // onwards, before acceptance
            burnCall { tokenId: number(0) }.abi_encode(),
            mintCall { to: receiver }.abi_encode(),
            setApprovalForAllCall { operator: bob, approved: true }.abi_encode(),
        ]
    };
    for attempt in 0..6 {
        let mut scene = scene();
        let call = attempts(&scene)[attempt].clone();
        scene.give(0, &[&[1][..], &call].concat()).unwrap();
        assert!(!scene.worked(), "attempt {attempt}");
        assert_eq!((scene.owner(0), scene.owner(1)), (scene.receiver, scene.alice), "attempt {attempt}");
        assert_eq!([scene.alice, scene.receiver, scene.bob].map(|who| scene.owned(who)), [2, 1, 0], "attempt {attempt}");
    }
}

/// One action of an account.
#[derive(Clone, Debug)]
enum Deed {
    Move {
        by: usize,
        from: usize,
        to: usize,
        id: u64,
    },
    Approve {
        by: usize,
        to: usize,
        id: u64,
    },
    Trust {
        by: usize,
        to: usize,
        all: bool,
    },
    Mint {
        to: usize,
    },
    Burn {
        by: usize,
        id: u64,
    },
    /// To the receiver, which behaves as instructed.
    Give {
        id: u64,
        data: Vec<u8>,
    },
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let (who, id) = (|| 0usize..3, || 0u64..5);
    let told = prop_oneof![
        Just(vec![]),
        prop::sample::select(vec![vec![2], vec![3, 9], vec![4]]),
        (id(), who()).prop_map(|(id, _)| [&[1][..], &burnCall { tokenId: number(id) }.abi_encode()].concat()),
    ];
    let deed = prop_oneof![
        4 => (who(), who(), who(), id()).prop_map(|(by, from, to, id)| Deed::Move { by, from, to, id }),
        2 => (who(), who(), id()).prop_map(|(by, to, id)| Deed::Approve { by, to, id }),
        1 => (who(), who(), any::<bool>()).prop_map(|(by, to, all)| Deed::Trust { by, to, all }),
        1 => who().prop_map(|to| Deed::Mint { to }),
        1 => (who(), id()).prop_map(|(by, id)| Deed::Burn { by, id }),
        2 => (id(), told).prop_map(|(id, data)| Deed::Give { id, data }),
    ];
    prop::collection::vec(deed, 1..16)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Invariant: a token has one owner, or does not exist yet, or is burned; balances equal the number of owned tokens.
    #[test]
    fn a_token_has_one_owner(deeds in deeds()) {
        let mut scene = scene();
        let people = [scene.alice, scene.bob, scene.chain.account("carol")];
        for deed in deeds {
            let (chain, tokens) = (&mut scene.chain, scene.tokens);
            let _ = match deed.clone() {
                Deed::Move { by, from, to, id } => {
                    let call = transferFromCall { from: people[from], to: people[to], tokenId: number(id) };
                    chain.by(people[by]).send(tokens, call).is_ok()
                }
                Deed::Approve { by, to, id } => {
                    chain.by(people[by]).send(tokens, approveCall { to: people[to], tokenId: number(id) }).is_ok()
                }
                Deed::Trust { by, to, all } => {
                    let call = setApprovalForAllCall { operator: people[to], approved: all };
                    chain.by(people[by]).send(tokens, call).is_ok()
                }
                Deed::Mint { to } => chain.by(people[0]).send(tokens, mintCall { to: people[to] }).is_ok(),
                Deed::Burn { by, id } => chain.by(people[by]).send(tokens, burnCall { tokenId: number(id) }).is_ok(),
                Deed::Give { id, data } => scene.give(id, &data).is_ok(),
            };
            let owners: Vec<Address> = (0..20)
                .filter_map(|id| scene.chain.clone().by(scene.bob).call(scene.tokens, ownerOfCall { tokenId: number(id) }).ok())
                .collect();
            for who in people.into_iter().chain([scene.receiver]) {
                let owned = owners.iter().filter(|owner| **owner == who).count() as u64;
                prop_assert_eq!(scene.owned(who), owned, "after {:?}", &deed);
            }
            let all: u64 = people.into_iter().chain([scene.receiver]).map(|who| scene.owned(who)).sum();
            prop_assert_eq!(all, owners.len() as u64, "after {:?}", &deed);
        }
    }
}
