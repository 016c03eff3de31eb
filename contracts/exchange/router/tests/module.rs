//! Runs the real WebAssembly on the nodes' virtual machine, with real pools of real tokens.

use alloy_sol_types::sol;
use corniche_harness::{Address, Chain, Contract, Failed, U256};
use std::collections::BTreeSet;
use std::path::Path;

sol! {
    #[derive(Debug)]
    interface Router {
        function quote(address tokenIn, uint256 amountIn, address[] pools) external view returns (uint256 amountOut);
        function swap(address tokenIn, uint256 amountIn, address[] pools, uint256 minimumOut, address to, uint256 deadline)
            external returns (uint256 amountOut);
        function join(address pool, uint256 first, uint256 second, uint256 minimumShares, address to, uint256 deadline)
            external returns (uint256 first, uint256 second, uint256 shares);
        function leave(address pool, uint256 shares, uint256 minimumFirst, uint256 minimumSecond, address to, uint256 deadline)
            external returns (uint256 first, uint256 second);

        error Late(uint256 deadline, uint256 now);
        error NoPools();
        error WrongPool(address pool, address token);
        error TooLittle(uint256 amount, uint256 minimum);
        error TokenRefused(address token);
    }

    function approve(address spender, uint256 value) returns (bool);
    function transfer(address to, uint256 value) returns (bool);
    function balanceOf(address account) returns (uint256);
    error ERC20InsufficientAllowance(address spender, uint256 allowance, uint256 needed);

    function mint(address to, uint256 value);
    function arm(address target, bytes data);
    function attacks() returns (uint256 tried, uint256 let_in);
}

fn n(value: u64) -> U256 {
    U256::from(value)
}

fn contract(folder: &str) -> Contract {
    Contract::in_crate(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap()
}

/// Gold, silver and bronze, a pool for each adjacent pair that alice filled through the router, and bob who has some gold.
struct Place {
    chain: Chain,
    alice: Address,
    bob: Address,
    tokens: [Address; 3],
    pools: [Address; 2],
    router: Address,
}

impl Place {
    fn new() -> Self {
        let mut chain = Chain::new();
        let [alice, bob] = ["alice", "bob"].map(|name| chain.account(name));
        let tokens = ["Gold", "Silver", "Bronze"].map(|name| {
            let arguments = (name.to_owned(), name.to_owned(), n(1 << 60));
            let token = chain.by(alice).deploy(&contract("../../erc20"), arguments).unwrap();
            chain.label(token, name);
            token
        });
        let [gold, silver, bronze] = tokens;
        let pools = [(gold, silver), (bronze, silver)].map(|pair| chain.by(alice).deploy(&contract("../pool"), pair).unwrap());
        let router = chain.by(alice).deploy(&Contract::in_this_crate(), ()).unwrap();
        for token in tokens {
            chain.by(alice).send(token, approveCall { spender: router, value: U256::MAX }).unwrap();
        }
        chain.by(alice).send(gold, transferCall { to: bob, value: n(100_000) }).unwrap();
        chain.by(bob).send(gold, approveCall { spender: router, value: n(100_000) }).unwrap();
        let mut place = Self { chain, alice, bob, tokens, pools, router };
        place.join(0, 1_000_000, 2_000_000, 0).unwrap();
        place.join(1, 8_000_000, 2_000_000, 0).unwrap();
        place
    }

    fn soon(&self) -> U256 {
        n(self.chain.time() + 60)
    }

    fn join(&mut self, pool: usize, first: u64, second: u64, minimum: u64) -> Result<(U256, U256, U256), Failed> {
        let (first, second, minimum) = (n(first), n(second), n(minimum));
        let (to, deadline) = (self.alice, self.soon());
        let call = Router::joinCall { pool: self.pools[pool], first, second, minimumShares: minimum, to, deadline };
        let joined = self.chain.by(self.alice).send(self.router, call)?.output;
        Ok((joined.first, joined.second, joined.shares))
    }

    /// Exchanges bob's gold for the token of the last pool.
    fn trade(&self, value: u64, pools: &[Address], minimum: U256) -> Router::swapCall {
        let (gold, deadline) = (self.tokens[0], self.soon());
        Router::swapCall {
            tokenIn: gold,
            amountIn: n(value),
            pools: pools.to_vec(),
            minimumOut: minimum,
            to: self.bob,
            deadline,
        }
    }

    fn swap(&mut self, value: u64, pools: &[Address], minimum: U256) -> Result<U256, Failed> {
        let call = self.trade(value, pools, minimum);
        Ok(self.chain.by(self.bob).send(self.router, call)?.output)
    }

    fn balance(&self, token: Address, account: Address) -> U256 {
        self.chain.view(token, balanceOfCall { account })
    }

    /// The router keeps no tokens.
    fn assert_nothing_left_behind(&self) {
        for token in self.tokens.into_iter().chain(self.pools) {
            assert_eq!(self.balance(token, self.router), U256::ZERO);
        }
    }
}

#[test]
fn swaps_along_multi_hop_path() {
    let mut place = Place::new();
    let [gold, silver, bronze] = place.tokens;
    let (bob, router, pools) = (place.bob, place.router, place.pools);
    let quoted = place.chain.view(router, Router::quoteCall { tokenIn: gold, amountIn: n(1_000), pools: pools.to_vec() });
    assert_eq!(quoted, n(7_936), "two for one, four for one, two fees and what the price moves");

    let received = place.swap(1_000, &pools, quoted).unwrap();
    assert_eq!((received, place.balance(bronze, bob)), (quoted, quoted));
    assert_eq!((place.balance(gold, bob), place.balance(silver, bob)), (n(99_000), n(0)));
    place.assert_nothing_left_behind();

    let one = place.swap(1_000, &pools[..1], n(1)).unwrap();
    assert_eq!(place.balance(silver, bob), one);
    // A trade back and forth through one pool is a loss: the amount paid differs from the amount that arrives.
    let lost = place.swap(1_000, &[pools[0], pools[0]], n(1)).unwrap();
    assert!(lost < n(1_000) && lost > n(980), "{lost}");
    place.assert_nothing_left_behind();

    let shares = n(1_000);
    place.chain.by(place.alice).send(pools[0], approveCall { spender: router, value: shares }).unwrap();
    let (pool, to, deadline) = (pools[0], place.alice, place.soon());
    let leave = Router::leaveCall { pool, shares, minimumFirst: n(1), minimumSecond: n(1), to, deadline };
    place.chain.by(place.alice).send(router, leave).unwrap();
    place.chain.gas().assert_matches_file("gas.txt");
}

#[test]
fn insufficient_output_reverts() {
    let mut place = Place::new();
    let (gold, bob, router, pools) = (place.tokens[0], place.bob, place.router, place.pools);
    let refused = place.swap(1_000, &pools, n(7_937)).unwrap_err();
    let error: Router::TooLittle = refused.error().unwrap();
    assert_eq!((error.amount, error.minimum), (n(7_936), n(7_937)));

    // Another trader was faster and moved the price.
    let wanted = place.trade(1_000, &pools, n(7_900));
    let mut moved = place.trade(20_000, &pools[..1], n(1));
    moved.to = place.alice;
    place.chain.by(bob).send(router, moved).unwrap();
    assert!(place.chain.by(bob).send(router, wanted).unwrap_err().error::<Router::TooLittle>().is_some());
    assert_eq!(place.balance(gold, bob), n(80_000), "nothing was taken for what failed");
    place.assert_nothing_left_behind();
}

#[test]
fn expired_deadline_reverts() {
    let mut place = Place::new();
    let (bob, router) = (place.bob, place.router);
    let call = place.trade(1_000, &place.pools, n(1));
    let snapshot = place.chain.clone();
    place.chain.advance(60);
    place.chain.by(bob).send(router, call.clone()).unwrap();
    place.chain = snapshot;
    place.chain.advance(61);
    let refused = place.chain.by(bob).send(router, call).unwrap_err();
    let error: Router::Late = refused.error().unwrap();
    assert_eq!(error.now, error.deadline + n(1));
}

#[test]
fn deposit_and_withdrawal_round_trip() {
    let mut place = Place::new();
    let (alice, router, pool) = (place.alice, place.router, place.pools[0]);
    let (first, second, shares) = place.join(0, 10_000, 50_000, 14_142).unwrap();
    assert_eq!((first, second, shares), (n(10_000), n(20_000), n(14_142)));
    let refused = place.join(0, 10_000, 50_000, 14_143).unwrap_err();
    assert!(refused.error::<Router::TooLittle>().is_some());

    let leave = |least: u64, deadline| Router::leaveCall {
        pool,
        shares: n(14_142),
        minimumFirst: n(least),
        minimumSecond: n(1),
        to: alice,
        deadline,
    };
    let deadline = place.soon();
    let refused = place.chain.by(alice).send(router, leave(1, deadline)).unwrap_err();
    assert_eq!(refused.error::<ERC20InsufficientAllowance>().unwrap().needed, n(14_142), "shares are the pool's own tokens");
    place.chain.by(alice).send(pool, approveCall { spender: router, value: n(14_142) }).unwrap();
    assert!(place.chain.by(alice).send(router, leave(10_001, deadline)).unwrap_err().error::<Router::TooLittle>().is_some());
    let left = place.chain.by(alice).send(router, leave(9_990, deadline)).unwrap().output;
    assert!(left.first <= first && left.second <= second && left.second >= n(19_990), "{left:?}");
    place.assert_nothing_left_behind();
}

#[test]
fn invalid_paths_revert() {
    let mut place = Place::new();
    let (bob, pools) = (place.bob, place.pools);
    let refused = place.swap(1, &[], n(0)).unwrap_err();
    assert!(refused.error::<Router::NoPools>().is_some());
    let refused = place.swap(1_000, &[pools[1]], n(0)).unwrap_err();
    let error: Router::WrongPool = refused.error().unwrap();
    assert_eq!((error.pool, error.token), (pools[1], place.tokens[0]));
    let refused = place.swap(100_001, &pools, n(0)).unwrap_err();
    assert_eq!(refused.error::<ERC20InsufficientAllowance>().unwrap().allowance, n(100_000));
    assert!(place.swap(1, &[bob], n(0)).is_err(), "no contract at all");
}

/// A token that, when the router calls it to pay, makes the router spend the payer's approvals on something else.
#[test]
fn reentrant_token_reverts() {
    use alloy_sol_types::SolCall;
    let mut place = Place::new();
    let (alice, bob, router, silver) = (place.alice, place.bob, place.router, place.tokens[1]);
    let rogue = place.chain.by(alice).deploy(&contract("../rogue"), ()).unwrap();
    place.chain.by(alice).send(rogue, mintCall { to: alice, value: n(1 << 50) }).unwrap();
    let pool = place.chain.by(alice).deploy(&contract("../pool"), (rogue, silver)).unwrap();
    place.pools[1] = pool;
    place.join(1, 1_000_000, 1_000_000, 1).unwrap();

    let attack = place.trade(0, &place.pools[..1], U256::ZERO).abi_encode();
    place.chain.by(bob).send(rogue, armCall { target: router, data: attack.into() }).unwrap();
    let trade = Router::swapCall {
        tokenIn: rogue,
        amountIn: n(1_000),
        pools: vec![pool],
        minimumOut: n(996),
        to: alice,
        deadline: place.soon(),
    };
    assert_eq!(place.chain.by(alice).send(router, trade).unwrap().output, n(996));
    let attacks = place.chain.view(rogue, attacksCall {});
    assert_eq!((attacks.tried, attacks.let_in), (n(1), n(0)));
}

#[test]
fn module_embeds_tested_abi() {
    let contract = Contract::in_this_crate();
    assert_eq!(contract.interface(), Some(&include_bytes!("../abi.json")[..]));
    let set = |selectors: &[[u8; 4]]| selectors.iter().copied().collect::<BTreeSet<_>>();
    assert_eq!(
        contract.abi.functions().map(|one| one.selector().0).collect::<BTreeSet<_>>(),
        set(Router::RouterCalls::SELECTORS)
    );
    assert_eq!(
        contract.abi.errors().map(|one| one.selector().0).collect::<BTreeSet<_>>(),
        set(Router::RouterErrors::SELECTORS)
    );
}
