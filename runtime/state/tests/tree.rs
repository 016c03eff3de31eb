//! The authenticated tree: its frozen format, and that the root commits to exactly the state's content.

use corniche_state::{ABI_VERSION, Account, Changes, Proof, Terminal, Tree, TreeKey, account_value};
use corniche_types::{Address, B256, U256};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn account(nonce: u64, balance: u64) -> Account {
    Account { nonce, balance: U256::from(balance), ..Account::default() }
}

fn address(number: u8) -> Address {
    Address::with_last_byte(number)
}

fn slot(number: u8) -> B256 {
    B256::with_last_byte(number)
}

fn set_account(address: Address, account: Account) -> Changes {
    Changes { accounts: [(address, Some(account))].into(), ..Changes::default() }
}

fn set_slot(address: Address, slot: B256, value: B256) -> Changes {
    Changes { storage: [((address, slot), value)].into(), ..Changes::default() }
}

/// Frozen: any change here is a change of the protocol.
#[test]
fn format_fixtures() {
    let mut lines = Vec::new();
    lines.push(format!("account key  {}", TreeKey::account(&address(1)).0));
    lines.push(format!("storage key  {}", TreeKey::storage(&address(1), &slot(2)).0));
    let contract = Account {
        nonce: 1,
        balance: U256::from(0x0102),
        code_hash: B256::repeat_byte(7),
        abi_version: ABI_VERSION,
        gas_version: 1,
    };
    lines.push(format!("account      {}", alloy_primitives::hex::encode(account_value(&contract))));
    let mut tree = Tree::default();
    lines.push(format!("empty        {}", tree.root()));
    lines.push(format!("one leaf     {}", tree.apply(&set_account(address(1), contract))));
    lines.push(format!("two leaves   {}", tree.apply(&set_slot(address(1), slot(2), slot(3)))));
    for number in 0..100 {
        tree.apply(&set_account(address(number), account(number.into(), 1)));
        tree.apply(&set_slot(address(number), slot(number), slot(9)));
    }
    lines.push(format!("200 leaves   {}", tree.root()));
    let proof = tree.prove(&TreeKey::account(&address(1)));
    lines.push(format!("proof        {}", blake3::hash(&borsh::to_vec(&proof).unwrap())));
    let found = lines.join("\n") + "\n";
    assert_eq!(found, include_str!("fixtures/tree-v1.txt"), "found:\n{found}");
}

/// Simplest implementation of the root's definition: the form of a subtree depends on the number of leaves with its
/// prefix.
fn plain_root(leaves: &[(B256, B256)], depth: usize) -> B256 {
    let keyed = |key: &[u8; 32], left: &B256, right: &B256| {
        B256::from(*blake3::keyed_hash(key, &[left.0, right.0].concat()).as_bytes())
    };
    match leaves {
        [] => B256::ZERO,
        [(key, value)] => keyed(b"corniche state tree v1 leaf     ", key, value),
        _ => {
            let bit = |key: &B256| key.bit(depth);
            let half = |side: bool| leaves.iter().copied().filter(|(key, _)| bit(key) == side).collect::<Vec<_>>();
            let (zero, one) = (plain_root(&half(false), depth + 1), plain_root(&half(true), depth + 1));
            keyed(b"corniche state tree v1 branch   ", &zero, &one)
        }
    }
}

trait Bit {
    fn bit(&self, depth: usize) -> bool;
}

impl Bit for B256 {
    fn bit(&self, depth: usize) -> bool {
        self[depth / 8] >> (7 - depth % 8) & 1 == 1
    }
}

type Slots = BTreeMap<(Address, B256), B256>;

fn plain_root_of(accounts: &BTreeMap<Address, Account>, slots: &Slots) -> B256 {
    let value_hash = |value: &[u8]| B256::from(*blake3::keyed_hash(b"corniche state tree v1 value    ", value).as_bytes());
    let accounts = accounts.iter().map(|(address, account)| (TreeKey::account(address).0, value_hash(&account_value(account))));
    let slots = slots.iter().map(|((address, slot), value)| (TreeKey::storage(address, slot).0, value_hash(value.as_slice())));
    plain_root(&accounts.chain(slots).collect::<Vec<_>>(), 0)
}

fn any_changes() -> impl Strategy<Value = Changes> {
    // Few keys, so that batches overwrite and delete each other's keys.
    let accounts = prop::collection::btree_map((0u8..24).prop_map(address), prop::option::of((0u64..3, 0u64..3)), 0..12)
        .prop_map(|map| {
            map.into_iter().map(|(key, value)| (key, value.map(|(nonce, balance)| account(nonce, balance)))).collect()
        });
    let storage = prop::collection::btree_map((0u8..6, 0u8..12), 0u8..3, 0..24)
        .prop_map(|map| map.into_iter().map(|((a, s), value)| ((address(a), slot(s)), slot(value))).collect());
    (accounts, storage).prop_map(|(accounts, storage)| Changes { accounts, storage, ..Changes::default() })
}

proptest! {
    /// After any history the root equals that of the content. Every present and every absent key has a proof, which
    /// proves only this fact.
    #[test]
    fn root_and_proofs_match_content(history in prop::collection::vec(any_changes(), 1..8)) {
        let mut tree = Tree::default();
        let (mut accounts, mut slots) = (BTreeMap::new(), Slots::new());
        let mut versions = Vec::new();
        for changes in &history {
            for (address, account) in &changes.accounts {
                match account.as_ref().filter(|account| !account.is_empty()) {
                    Some(account) => accounts.insert(*address, account.clone()),
                    None => accounts.remove(address),
                };
            }
            for (key, value) in &changes.storage {
                if value.is_zero() { slots.remove(key) } else { slots.insert(*key, *value) };
            }
            let root = tree.apply(changes);
            prop_assert_eq!(root, plain_root_of(&accounts, &slots));
            versions.push((tree.clone(), root));
        }
        let root = tree.root();
        for number in 0..30 {
            let key = TreeKey::account(&address(number));
            let value = accounts.get(&address(number)).map(account_value);
            let proof = tree.prove(&key);
            prop_assert!(proof.verify(&root, &key, value.as_deref()));
            let other = account_value(&account(77, 77));
            prop_assert!(!proof.verify(&root, &key, Some(&other)));
            prop_assert_eq!(proof.verify(&root, &key, None), value.is_none());
        }
        for (number, index) in (0..6).flat_map(|a| (0..12).map(move |s| (a, s))) {
            let key = TreeKey::storage(&address(number), &slot(index));
            let value = slots.get(&(address(number), slot(index)));
            prop_assert!(tree.prove(&key).verify(&root, &key, value.map(|value| value.as_slice())));
        }
        for (version, root) in versions {
            prop_assert_eq!(version.root(), root, "an older version stays as it was");
            prop_assert_eq!(plain_root_of(&accounts, &slots) == root, tree.root() == root);
        }
    }

    /// One batch, single changes in any order, or detours: equal roots.
    #[test]
    fn order_of_insertion_does_not_matter(
        keys in prop::collection::btree_set(any::<[u8; 20]>(), 1..200),
        detours in prop::collection::vec(any::<[u8; 20]>(), 0..50),
        seed in any::<u64>(),
    ) {
        let content: Vec<_> = keys.iter().map(|key| (Address::from(*key), account(1, 1))).collect();
        let mut at_once = Tree::default();
        at_once.apply(&Changes {
            accounts: content.iter().map(|(key, value)| (*key, Some(value.clone()))).collect(),
            ..Changes::default()
        });
        let mut shuffled = content.clone();
        shuffled.sort_by_key(|(key, _)| blake3::keyed_hash(&[seed as u8; 32], key.as_slice()).as_bytes().to_owned());
        let mut one_by_one = Tree::default();
        for key in &detours {
            one_by_one.apply(&set_account(Address::from(*key), account(9, 9)));
        }
        for (key, value) in shuffled {
            one_by_one.apply(&set_account(key, value));
        }
        for key in detours.iter().filter(|key| !keys.contains(*key)) {
            one_by_one.apply(&Changes { accounts: [(Address::from(*key), None)].into(), ..Changes::default() });
        }
        prop_assert_eq!(at_once.root(), one_by_one.root());
    }

    /// A proof with one flipped bit is invalid.
    #[test]
    fn damaged_proof_fails(number in 0u8..40, position in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut tree = Tree::default();
        for number in 0..32 {
            tree.apply(&set_account(address(number), account(1, number.into())));
        }
        let key = TreeKey::account(&address(number));
        let proof = tree.prove(&key);
        let value = (number < 32).then(|| account_value(&account(1, number.into())));
        prop_assert!(proof.verify(&tree.root(), &key, value.as_deref()));
        let mut bytes = borsh::to_vec(&proof).unwrap();
        let position = position.index(bytes.len());
        bytes[position] ^= 1 << bit;
        if let Ok(damaged) = borsh::from_slice::<Proof>(&bytes) {
            prop_assert!(!damaged.verify(&tree.root(), &key, value.as_deref()));
        }
    }
}

#[test]
fn unrelated_leaf_proves_nothing() {
    let mut tree = Tree::default();
    tree.apply(&set_account(address(1), account(1, 1)));
    let key = TreeKey::account(&address(1));
    let proof = tree.prove(&key);
    assert!(proof.siblings.is_empty());
    assert!(matches!(proof.terminal, Terminal::Leaf { .. }));
    assert!(!proof.verify(&tree.root(), &key, None), "the leaf is the key's own");
    assert!(proof.verify(&tree.root(), &TreeKey::account(&address(2)), None), "the only leaf is another key's");
}

/// A branch cannot pass as a leaf, nor a leaf as a branch: the halves of a leaf are not subtrees.
#[test]
fn leaf_and_branch_hashes_differ() {
    let mut tree = Tree::default();
    tree.apply(&set_account(address(1), account(1, 1)));
    let Proof { terminal: Terminal::Leaf { key, value_hash }, .. } = tree.prove(&TreeKey::account(&address(1))) else {
        panic!("one leaf is its own root");
    };
    for (sibling, asked) in [(value_hash, B256::ZERO), (key, B256::repeat_byte(0xff))] {
        let forged = Proof { siblings: vec![sibling], terminal: Terminal::Empty };
        assert!(!forged.verify(&tree.root(), &TreeKey(asked), None));
    }
}

#[test]
fn rejects_proof_longer_than_key() {
    let proof = Proof { siblings: vec![B256::ZERO; 257], terminal: Terminal::Empty };
    assert!(!proof.verify(&B256::ZERO, &TreeKey(B256::ZERO), None));
}

#[test]
fn paths_are_about_log2_of_n_long() {
    let mut tree = Tree::default();
    let content = (0..4_096u64).map(|number| (Address::from_word(U256::from(number).into()), Some(account(1, number))));
    tree.apply(&Changes { accounts: content.collect(), ..Changes::default() });
    let lengths = (0..4_096u64)
        .map(|number| tree.prove(&TreeKey::account(&Address::from_word(U256::from(number).into()))).siblings.len());
    let (longest, sum) = lengths.fold((0, 0), |(longest, sum), length| (longest.max(length), sum + length));
    assert!(sum / 4_096 <= 14, "mean {}", sum / 4_096);
    assert!(longest <= 30, "longest {longest}");
}

/// Batches larger than one hashing call create, change and remove keys at all depths.
#[test]
fn large_batches_match_content() {
    let (mut tree, mut slots, mut random) = (Tree::default(), Slots::new(), 1u64);
    let mut most = 0;
    for batch in 0..24u64 {
        let mut changes = Changes::default();
        // The tree grows, keeps its size, then shrinks to almost nothing.
        let removed = [0, 2, 7][batch as usize / 8];
        for _ in 0..400 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = (Address::ZERO, B256::from(U256::from(random >> 54)));
            let value = if (random >> 20) % 8 < removed { B256::ZERO } else { B256::from(U256::from(batch + 1)) };
            changes.storage.insert(key, value);
            if value.is_zero() {
                slots.remove(&key)
            } else {
                slots.insert(key, value)
            };
        }
        if batch == 23 {
            let gone = std::mem::take(&mut slots);
            changes.storage.extend(gone.into_keys().map(|key| (key, B256::ZERO)));
            changes.storage.insert((Address::ZERO, slot(1)), slot(1));
            slots.insert((Address::ZERO, slot(1)), slot(1));
        }
        assert_eq!(tree.apply(&changes), plain_root_of(&BTreeMap::new(), &slots), "batch {batch}");
        most = most.max(slots.len());
        let (key, _) = slots.first_key_value().unwrap();
        let key = TreeKey::storage(&key.0, &key.1);
        assert!(tree.prove(&key).siblings.len() <= 30);
    }
    assert!(most > 800, "{most}");
    assert_eq!(tree.bytes().1, 64 + 72, "one leaf, and the branch that holds the top");
}
