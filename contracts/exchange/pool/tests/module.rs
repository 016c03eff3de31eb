//! Runs the real WebAssembly on the nodes' virtual machine, with real tokens and with a malicious one.

use alloy_primitives::U512;
use alloy_sol_types::{sol, SolCall};
use corniche_harness::{Address, Chain, Contract, U256};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;

sol! {
    #[derive(Debug)]
    interface Pool {
        function tokens() external view returns (address first, address second);
        function reserves() external view returns (uint256 first, uint256 second);
        function quote(address tokenIn, uint256 amountIn) external view returns (uint256 amountOut);
        function swap(address tokenIn, uint256 minimumOut, address to) external returns (uint256 amountOut);
        function join(address to) external returns (uint256 shares);
        function leave(address to) external returns (uint256 first, uint256 second);
        function name() external view returns (string);
        function symbol() external view returns (string);
        function decimals() external view returns (uint8);
        function totalSupply() external view returns (uint256);
        function balanceOf(address account) external view returns (uint256);
        function allowance(address owner, address spender) external view returns (uint256);
        function transfer(address to, uint256 value) external returns (bool);
        function approve(address spender, uint256 value) external returns (bool);
        function transferFrom(address from, address to, uint256 value) external returns (bool);

        event Swapped(address indexed by, address indexed to, address tokenIn, uint256 amountIn, uint256 amountOut);
        event Joined(address indexed to, uint256 first, uint256 second, uint256 shares);
        event Left(address indexed to, uint256 first, uint256 second, uint256 shares);
        event Transfer(address indexed from, address indexed to, uint256 value);
        event Approval(address indexed owner, address indexed spender, uint256 value);

        error NotTwoTokens(address first, address second);
        error UnknownToken(address token);
        error NothingPaid(address token);
        error TooLittle(uint256 amount, uint256 minimum);
        error TooMuch(address token, uint256 balance);
        error TokenRefused(address token);
        error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed);
        error ERC20InvalidReceiver(address receiver);
        error ERC20InvalidSpender(address spender);
        error ERC20InsufficientAllowance(address spender, uint256 allowance, uint256 needed);
    }

    interface Rogue {
        function mint(address to, uint256 value) external;
        function arm(address target, bytes data) external;
        function attacks() external view returns (uint256 tried, uint256 let_in);
    }
}

/// Tokens and the pool's shares have functions of these names.
use Pool::{balanceOfCall, transferCall};

fn n(value: u128) -> U256 {
    U256::from(value)
}

fn contract(folder: &str) -> Contract {
    Contract::in_crate(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap()
}

/// A chain with two tokens, all owned by alice, and an empty pool of them.
#[derive(Clone)]
struct Place {
    chain: Chain,
    alice: Address,
    bob: Address,
    gold: Address,
    silver: Address,
    pool: Address,
}

impl Place {
    fn new() -> Self {
        // Property cases start with copies.
        thread_local!(static PREPARED: Place = Place::prepared());
        PREPARED.with(Clone::clone)
    }

    fn prepared() -> Self {
        let mut chain = Chain::new();
        let [alice, bob] = ["alice", "bob"].map(|name| chain.account(name));
        let [gold, silver] = ["Gold", "Silver"].map(|name| {
            let supply = U256::ONE << 116;
            let token = chain.by(alice).deploy(&contract("../../erc20"), (name.to_owned(), name.to_owned(), supply)).unwrap();
            chain.label(token, name);
            token
        });
        let pool = chain.by(alice).deploy(&Contract::in_this_crate(), (gold, silver)).unwrap();
        Self { chain, alice, bob, gold, silver, pool }
    }

    /// Alice deposits these amounts.
    fn with(first: u128, second: u128) -> Self {
        let mut place = Self::new();
        place.join(place.alice, n(first), n(second)).unwrap();
        place
    }

    fn pay(&mut self, token: Address, from: Address, to: Address, value: U256) {
        self.chain.by(from).send(token, transferCall { to, value }).unwrap();
    }

    /// Pays alice's tokens to the pool. In these tests alice pays for every account.
    fn pay_in(&mut self, token: Address, value: U256) {
        self.pay(token, self.alice, self.pool, value);
    }

    fn join(&mut self, who: Address, first: U256, second: U256) -> Result<U256, corniche_harness::Failed> {
        self.pay_in(self.gold, first);
        self.pay_in(self.silver, second);
        Ok(self.chain.by(who).send(self.pool, Pool::joinCall { to: who })?.output)
    }

    fn leave(&mut self, who: Address, shares: U256) -> Result<(U256, U256), corniche_harness::Failed> {
        self.pay(self.pool, who, self.pool, shares);
        let left = self.chain.by(who).send(self.pool, Pool::leaveCall { to: who })?.output;
        Ok((left.first, left.second))
    }

    fn swap(&mut self, who: Address, token: Address, value: U256, minimum: U256) -> Result<U256, corniche_harness::Failed> {
        self.pay_in(token, value);
        let call = Pool::swapCall { tokenIn: token, minimumOut: minimum, to: who };
        Ok(self.chain.by(who).send(self.pool, call)?.output)
    }

    fn balance(&self, token: Address, account: Address) -> U256 {
        self.chain.view(token, balanceOfCall { account })
    }

    fn reserves(&self) -> (U256, U256) {
        let reserves = self.chain.view(self.pool, Pool::reservesCall {});
        (reserves.first, reserves.second)
    }

    fn supply(&self) -> U256 {
        self.chain.view(self.pool, Pool::totalSupplyCall {})
    }

    /// The product of the reserves, and the square of the supply: their ratio is the square of a share's value.
    fn worth(&self) -> (U512, U512) {
        let ((first, second), supply) = (self.reserves(), U512::from(self.supply()));
        (U512::from(first) * U512::from(second), supply * supply)
    }
}

#[test]
fn deposit_trade_withdraw() {
    let mut place = Place::new();
    let (alice, bob, gold, silver, pool) = (place.alice, place.bob, place.gold, place.silver, place.pool);
    let told = place.chain.view(pool, Pool::tokensCall {});
    assert_eq!((told.first, told.second), (gold, silver));

    assert_eq!(place.join(alice, n(4_000_000), n(1_000_000)).unwrap(), n(1_999_000));
    assert_eq!((place.supply(), place.balance(pool, Address::ZERO)), (n(2_000_000), n(1_000)), "1,000 shares are locked");

    let quoted = place.chain.view(pool, Pool::quoteCall { tokenIn: gold, amountIn: n(10_000) });
    assert_eq!(place.swap(bob, gold, n(10_000), quoted).unwrap(), n(2_486));
    assert_eq!((quoted, place.balance(silver, bob)), (n(2_486), n(2_486)));
    assert_eq!(place.reserves(), (n(4_010_000), n(997_514)));

    let (first, second) = place.leave(alice, n(1_999_000)).unwrap();
    assert_eq!((first, second), (n(4_007_995), n(997_015)));
    assert_eq!(place.reserves(), (place.balance(gold, pool), place.balance(silver, pool)));
    place.chain.gas().assert_matches_file("gas.txt");
}

#[test]
fn every_change_emits_event() {
    let mut place = Place::with(1_000_000, 1_000_000);
    let (bob, gold, pool) = (place.bob, place.gold, place.pool);
    place.pay_in(gold, n(1_000));
    let sent = place.chain.by(bob).send(pool, Pool::swapCall { tokenIn: gold, minimumOut: n(1), to: bob }).unwrap();
    let [told] = &sent.events_of::<Pool::Swapped>(pool)[..] else { panic!("{:?}", sent.logs) };
    assert_eq!((told.by, told.to, told.tokenIn, told.amountIn, told.amountOut), (bob, bob, gold, n(1_000), n(996)));

    place.pay_in(gold, n(1_001));
    place.pay_in(place.silver, n(1_001));
    let sent = place.chain.by(bob).send(pool, Pool::joinCall { to: bob }).unwrap();
    let [told] = &sent.events_of::<Pool::Joined>(pool)[..] else { panic!("{:?}", sent.logs) };
    assert_eq!((told.to, told.first, told.second, told.shares), (bob, n(1_001), n(1_001), sent.output));
    let [issued] = &sent.events_of::<Pool::Transfer>(pool)[..] else { panic!("{:?}", sent.logs) };
    assert_eq!((issued.from, issued.to, issued.value), (Address::ZERO, bob, sent.output));

    place.pay(pool, bob, pool, n(500));
    let sent = place.chain.by(bob).send(pool, Pool::leaveCall { to: bob }).unwrap();
    let [told] = &sent.events_of::<Pool::Left>(pool)[..] else { panic!("{:?}", sent.logs) };
    assert_eq!((told.to, told.first, told.second, told.shares), (bob, sent.output.first, sent.output.second, n(500)));
}

#[test]
fn invalid_calls_revert_with_named_errors() {
    let mut place = Place::with(1_000_000, 1_000_000);
    let (alice, bob, gold, silver, pool) = (place.alice, place.bob, place.gold, place.silver, place.pool);
    let swap = |token, minimum| Pool::swapCall { tokenIn: token, minimumOut: minimum, to: bob };

    let refused = place.chain.by(bob).send(pool, swap(gold, n(1))).unwrap_err();
    assert_eq!(refused.error::<Pool::NothingPaid>().unwrap().token, gold);
    let refused = place.chain.by(bob).send(pool, swap(bob, n(1))).unwrap_err();
    assert_eq!(refused.error::<Pool::UnknownToken>().unwrap().token, bob);
    let refused = place.swap(bob, gold, n(1_000), n(997)).unwrap_err();
    let error: Pool::TooLittle = refused.error().unwrap();
    assert_eq!((error.amount, error.minimum), (n(996), n(997)));
    let refused = place.chain.by(bob).send(pool, Pool::leaveCall { to: bob }).unwrap_err();
    assert_eq!(refused.error::<Pool::NothingPaid>().unwrap().token, pool, "no shares were sent");
    let refused = place.chain.by(bob).send(pool, transferCall { to: alice, value: n(1) }).unwrap_err();
    assert_eq!(refused.error::<Pool::ERC20InsufficientBalance>().unwrap().needed, n(1));
    let call = Pool::transferFromCall { from: alice, to: bob, value: n(7) };
    let refused = place.chain.by(bob).send(pool, call.clone()).unwrap_err();
    assert_eq!(refused.error::<Pool::ERC20InsufficientAllowance>().unwrap().needed, n(7));
    assert_eq!(place.reserves(), (n(1_000_000), n(1_000_000)));

    place.chain.by(alice).send(pool, Pool::approveCall { spender: bob, value: n(8) }).unwrap();
    place.chain.by(bob).send(pool, call).unwrap();
    assert_eq!(place.chain.view(pool, Pool::allowanceCall { owner: alice, spender: bob }), n(1));

    place.pay_in(silver, U256::ONE << 112);
    let refused = place.chain.by(bob).send(pool, swap(silver, n(1))).unwrap_err();
    assert_eq!(refused.error::<Pool::TooMuch>().unwrap().token, silver);
    // Leaving works even now.
    assert!(place.leave(alice, n(1_000)).is_ok());

    for (first, second) in [(gold, gold), (gold, bob), (Address::ZERO, silver)] {
        let refused = place.chain.by(alice).deploy(&Contract::in_this_crate(), (first, second)).unwrap_err();
        assert_eq!(refused.error::<Pool::NotTwoTokens>().unwrap().second, second);
    }
}

/// Share inflation attack on the first depositors: the attacker owns almost all of few shares, raises their price by gifts to
/// the pool, and waits for deposits that are rounded down. It costs about 1,000 times the victim's loss.
#[test]
fn share_inflation_attack_does_not_pay() {
    for present in [n(1_000_000), n(1_000_000_000_000)] {
        let mut place = Place::new();
        let (mallory, victim) = (place.chain.account("mallory"), place.chain.account("victim"));
        assert_eq!(place.join(mallory, n(1_001), n(1_001)).unwrap(), n(1), "one share: the minimum");
        // The excess of an unbalanced deposit is a gift to the pool. The first deposit is almost all gold, the second silver.
        let mut shares = U256::ONE + place.join(mallory, present, n(1)).unwrap();
        shares += place.join(mallory, present / n(1_000) + n(2), present).unwrap();
        let dear = place.reserves().0 / place.supply();
        assert!(dear >= present / n(1_004), "a share is worth {dear}");
        let paid = n(1_001) + present + present / n(1_000) + n(2);

        // Just less than the price of two shares, for the largest loss by rounding.
        let deposit = dear * n(2) - n(2);
        let got = place.join(victim, deposit, deposit).unwrap_or_default();
        let before = place.balance(place.gold, mallory);
        place.leave(mallory, shares).unwrap();
        let back = place.balance(place.gold, mallory) - before;
        assert!(back < paid / n(100), "{back} of {paid} came back");
        // The victim's loss did not go to mallory.
        let (kept, _) = if got.is_zero() { (deposit, deposit) } else { place.leave(victim, got).unwrap() };
        let lost = deposit - kept;
        assert!(lost * n(900) < paid, "{lost} was lost for {paid}");
    }
}

/// A token that calls the pool back during every transfer, with every function of a pool. All calls fail, views too, and the
/// pool behaves as with an honest token.
#[test]
fn reentrant_token_reverts() {
    let honest = {
        let mut place = Place::with(1_000_000, 500_000);
        let out = place.swap(place.bob, place.silver, n(1_000), n(1)).unwrap();
        let left = place.leave(place.alice, n(100_000)).unwrap();
        (out, left, place.reserves())
    };
    let attacks: Vec<Vec<u8>> = vec![
        Pool::swapCall { tokenIn: Address::ZERO, minimumOut: n(0), to: Address::ZERO }.abi_encode(),
        Pool::joinCall { to: Address::repeat_byte(1) }.abi_encode(),
        Pool::leaveCall { to: Address::repeat_byte(1) }.abi_encode(),
        Pool::transferCall { to: Address::repeat_byte(1), value: n(0) }.abi_encode(),
        Pool::reservesCall {}.abi_encode(),
        Pool::totalSupplyCall {}.abi_encode(),
    ];
    for attack in attacks {
        let mut place = Place::new();
        let rogue = place.chain.by(place.alice).deploy(&contract("../rogue"), ()).unwrap();
        place.chain.by(place.alice).send(rogue, Rogue::mintCall { to: place.alice, value: n(1 << 100) }).unwrap();
        place.gold = rogue;
        place.pool = place.chain.by(place.alice).deploy(&Contract::in_this_crate(), (rogue, place.silver)).unwrap();
        place.join(place.alice, n(1_000_000), n(500_000)).unwrap();
        place.chain.by(place.bob).send(rogue, Rogue::armCall { target: place.pool, data: attack.into() }).unwrap();

        let out = place.swap(place.bob, place.silver, n(1_000), n(1)).unwrap();
        let left = place.leave(place.alice, n(100_000)).unwrap();
        assert_eq!((out, left, place.reserves()), honest);
        let attacks = place.chain.view(rogue, Rogue::attacksCall {});
        assert_eq!((attacks.tried, attacks.let_in), (n(2), n(0)));
    }
}

#[test]
fn module_embeds_tested_abi() {
    let contract = Contract::in_this_crate();
    assert_eq!(contract.interface(), Some(&include_bytes!("../abi.json")[..]));
    let set = |selectors: &[[u8; 4]]| selectors.iter().copied().collect::<BTreeSet<_>>();
    assert_eq!(contract.abi.functions().map(|one| one.selector().0).collect::<BTreeSet<_>>(), set(Pool::PoolCalls::SELECTORS));
    assert_eq!(contract.abi.errors().map(|one| one.selector().0).collect::<BTreeSet<_>>(), set(Pool::PoolErrors::SELECTORS));
    let events: BTreeSet<_> = contract.abi.events().map(|one| one.selector().0).collect();
    assert_eq!(events, Pool::PoolEvents::SELECTORS.iter().copied().collect());
}

#[derive(Clone, Debug)]
enum Deed {
    Swap {
        first: bool,
        value: U256,
    },
    Join {
        first: U256,
        second: U256,
    },
    /// Redeems this many 256ths of bob's shares.
    Leave(u8),
    Give {
        first: bool,
        value: U256,
    },
}

/// Amounts with a uniform number of bits, so that small ones are as frequent as large ones.
fn amount() -> impl Strategy<Value = U256> {
    (0..96_u32, any::<u128>()).prop_map(|(bits, random)| n((random & ((1 << bits) - 1)) | (1 << bits)))
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => (any::<bool>(), amount()).prop_map(|(first, value)| Deed::Swap { first, value }),
        2 => (amount(), amount()).prop_map(|(first, second)| Deed::Join { first, second }),
        2 => any::<u8>().prop_map(Deed::Leave),
        1 => (any::<bool>(), amount()).prop_map(|(first, value)| Deed::Give { first, value }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Invariants for any actions in any order, failed ones too: the product of the reserves falls only by withdrawals, a
    /// share never loses value, and the pool owns its reserves.
    #[test]
    fn others_never_reduce_own_share(first in amount(), second in amount(), deeds in prop::collection::vec(deed(), 1..12)) {
        let mut place = Place::new();
        place.join(place.alice, first | n(1 << 11), second | n(1 << 11)).unwrap();
        let (bob, gold, silver, pool) = (place.bob, place.gold, place.silver, place.pool);
        for deed in deeds {
            let (product, shares) = place.worth();
            let leaves = matches!(deed, Deed::Leave(_));
            // Results are ignored: the invariants hold for errors too.
            match deed {
                Deed::Swap { first, value } => {
                    let _ = place.swap(bob, if first { gold } else { silver }, value, U256::ZERO);
                }
                Deed::Join { first, second } => {
                    let _ = place.join(bob, first, second);
                }
                Deed::Leave(part) => {
                    let shares = (place.balance(pool, bob) * n(u128::from(part))) >> 8;
                    let _ = place.leave(bob, shares);
                }
                Deed::Give { first, value } => place.pay_in(if first { gold } else { silver }, value),
            }
            let (product_now, shares_now) = place.worth();
            prop_assert!(leaves || product_now >= product);
            prop_assert!(product_now * shares >= product * shares_now);
            let (first, second) = place.reserves();
            prop_assert!(first <= place.balance(gold, pool) && second <= place.balance(silver, pool));
            prop_assert!(place.balance(pool, Address::ZERO) == n(1_000) && place.supply() >= n(1_000));
        }
    }
}
