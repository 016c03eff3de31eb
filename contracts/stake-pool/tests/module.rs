//! Runs the real WebAssembly on the nodes' virtual machine, with its staking contract.

use alloy_primitives::keccak256;
use alloy_sol_types::{sol, SolCall};
use corniche_harness::{
    validator_keys, Address, Chain, Contract, Failed, Staking, StakingParameters, B256, STAKING_ADDRESS, U256,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::BTreeSet;
use std::path::Path;

sol! {
    #[derive(Debug)]
    interface Pool {
        function operator() external view returns (address);
        function validator() external view returns (bool found, uint32 id);
        function commission() external view returns (uint16 now, uint16 next, uint64 from);
        function supply() external view returns (uint256 shares);
        function sharesOf(address account) external view returns (uint256 shares);
        function assets() external view returns (uint256 value);
        function worth(uint256 shares) external view returns (uint256 value);
        function exitOf(uint256 round, address account) external view returns (uint256 value, bool settled);
        function deposit() external payable returns (uint256 shares);
        function requestExit(uint256 shares) external returns (uint256 round);
        function claim(uint256 round, address to) external returns (uint256 value);
        function collect() external;
        function donate() external payable;
        function register(bytes data) external returns (uint32 id);
        function setCommission(uint16 commission) external;
        function setFee(address fee) external;
        function setOperator(address operator) external;

        event Deposited(address indexed by, uint256 value, uint256 shares);
        event ExitRequested(address indexed by, uint256 indexed round, uint256 shares, uint256 value);
        event Settled(uint256 indexed round, uint256 value);
        event Claimed(address indexed by, uint256 indexed round, address indexed to, uint256 value);
        event Donated(address indexed by, uint256 value, uint256 commission);
        event Slashed(uint256 value);
        event Registered(uint32 indexed id, uint256 value);
        event CommissionChanged(uint16 commission, uint64 epoch);
        event OperatorChanged(address indexed operator);

        error NotOperator(address caller);
        error TooLittle();
        error TooMuch();
        error InsufficientShares(uint256 shares, uint256 needed);
        error NoShares();
        error NotSettled(uint256 round);
        error NothingToClaim(uint256 round);
        error AlreadyRegistered(uint32 id);
        error NotRegistered();
        error NoRegistration();
        error CommissionTooHigh(uint16 commission, uint16 limit);
    }

    interface Rogue {
        function arm(address target, bytes data) external;
        function attacks() external view returns (uint256 tried, uint256 let_in);
    }
}

/// Number of the pool's validator: the genesis has 0 to 3.
const ID: u32 = 4;
const CHAIN_ID: u64 = 31_337;
/// Epochs from an exit before the freeze until it is free.
const WAIT: u32 = 4;

/// Thousandths of a coin. A vote costs 1,000.
fn milli(count: u64) -> U256 {
    U256::from(count) * U256::from(1_000_000_000_000_000_u64)
}

fn n(value: u64) -> U256 {
    U256::from(value)
}

/// A pool with an operator and three delegators.
#[derive(Clone)]
struct Place {
    chain: Chain,
    pool: Address,
    operator: Address,
    fee: Address,
    people: [Address; 3],
}

impl Place {
    /// A pool without deposits, and a commission of 10 %.
    fn new() -> Self {
        // Tests and property cases start with copies.
        thread_local!(static PREPARED: Place = Place::prepared());
        PREPARED.with(Clone::clone)
    }

    fn prepared() -> Self {
        let mut chain = Chain::with_staking(StakingParameters {
            epoch_ms: 1_000_000,
            closing_ms: 250_000,
            unbonding_epochs: 3,
            vote_wei: milli(1_000),
            ..StakingParameters::default()
        });
        let [operator, fee] = ["operator", "fee"].map(|name| chain.account(name));
        let people = ["alice", "bob", "carol"].map(|name| chain.account(name));
        let pool = chain.by(operator).deploy(&Contract::in_this_crate(), (operator, 1_000_u16)).unwrap();
        Self { chain, pool, operator, fee, people }
    }

    /// A registered pool with these deposits.
    fn with(deposits: &[u64]) -> Self {
        let mut place = Self::new();
        for (who, wei) in place.people.into_iter().zip(deposits) {
            place.deposit(who, milli(*wei)).unwrap();
        }
        assert_eq!(place.register("first keys").unwrap(), ID);
        place
    }

    fn send<C: SolCall>(&mut self, who: Address, call: C) -> Result<C::Return, Failed> {
        self.chain.by(who).send(self.pool, call).map(|sent| sent.output)
    }

    fn pay<C: SolCall>(&mut self, who: Address, wei: U256, call: C) -> Result<C::Return, Failed> {
        self.chain.by(who).value(wei).send(self.pool, call).map(|sent| sent.output)
    }

    fn deposit(&mut self, who: Address, wei: U256) -> Result<U256, Failed> {
        self.pay(who, wei, Pool::depositCall {})
    }

    fn donate(&mut self, wei: U256) {
        self.pay(self.fee, wei, Pool::donateCall {}).unwrap();
    }

    fn registration(&self, keys: &str) -> Vec<u8> {
        let keys = validator_keys(keys, self.pool, CHAIN_ID);
        Staking::registerCall { keys, fee: self.fee, operator: self.operator }.abi_encode()
    }

    fn register(&mut self, keys: &str) -> Result<u32, Failed> {
        let data = self.registration(keys).into();
        self.send(self.operator, Pool::registerCall { data })
    }

    /// Requests an exit of this part of the account's shares, in 256ths.
    fn exit(&mut self, who: Address, part: u64) -> Result<U256, Failed> {
        let shares = (self.shares(who) * n(part)) >> 8;
        self.send(who, Pool::requestExitCall { shares })
    }

    fn claim(&mut self, who: Address, round: U256) -> Result<U256, Failed> {
        self.send(who, Pool::claimCall { round, to: who })
    }

    fn end_epochs(&mut self, count: u32) {
        (0..count).for_each(|_| self.chain.end_epoch());
    }

    fn view<C: SolCall>(&self, call: C) -> C::Return {
        self.chain.view(self.pool, call)
    }

    fn shares(&self, account: Address) -> U256 {
        self.view(Pool::sharesOfCall { account })
    }

    /// Wei of an account's shares.
    fn worth(&self, account: Address) -> U256 {
        self.view(Pool::worthCall { shares: self.shares(account) })
    }

    fn exit_of(&self, account: Address, round: U256) -> (U256, bool) {
        let exit = self.view(Pool::exitOfCall { round, account });
        (exit.value, exit.settled)
    }

    /// Bonded and queued stake of the pool's validator; nothing if it has none.
    fn stake(&self) -> (U256, U256) {
        let validator = self.view(Pool::validatorCall {});
        if !validator.found {
            return (U256::ZERO, U256::ZERO);
        }
        let validator = self.chain.view(STAKING_ADDRESS, Staking::validatorCall { id: validator.id });
        (validator.bonded, validator.queued)
    }

    /// Takes stake as a conviction does: from the queue, oldest first, then from what is bonded.
    fn slash(&mut self, wei: U256) {
        let mut left = wei;
        let positions = U256::from_be_bytes(self.chain.storage(STAKING_ADDRESS, slot(0x03, 0, 0)).0).into_limbs();
        let [.., length, first] = positions;
        let entries = (0..length).map(|age| slot(0x03, 1 + (first + age) % 16, 0));
        for slot in entries.chain([slot(0x01, 0, 1)]) {
            let stake = U256::from_be_bytes(self.chain.storage(STAKING_ADDRESS, slot).0);
            let taken = stake.min(left);
            self.chain.set_storage(STAKING_ADDRESS, slot, (stake - taken).into());
            left -= taken;
        }
        assert_eq!(left, U256::ZERO);
        let balance = self.chain.balance(STAKING_ADDRESS);
        self.chain.set_balance(STAKING_ADDRESS, balance - wei);
    }
}

/// Slot of the staking contract about the pool's validator: its places are frozen.
fn slot(tag: u8, b: u64, offset: u64) -> B256 {
    let place = keccak256([&[tag][..], &u64::from(ID).to_be_bytes(), &b.to_be_bytes()].concat());
    U256::from_be_bytes(place.0).wrapping_add(n(offset)).into()
}

/// Rounding takes a few wei.
fn assert_close(found: U256, expected: U256) {
    assert!(found <= expected && expected - found < n(10), "expected almost {expected}, found {found}");
}

#[test]
fn life_of_a_pool() {
    let mut place = Place::new();
    let [alice, bob, carol] = place.people;
    place.deposit(alice, milli(3_000)).unwrap();
    place.deposit(bob, milli(1_000)).unwrap();
    assert_eq!(place.chain.balance(place.pool), milli(4_000), "collected");
    assert_eq!(place.register("first keys").unwrap(), ID);
    place.deposit(carol, milli(4_000)).unwrap();
    assert_eq!((place.chain.balance(place.pool), place.stake()), (U256::ZERO, (milli(8_000), U256::ZERO)));

    // 10 % of the rewards are the operator's.
    place.donate(milli(800));
    assert_close(place.worth(alice), milli(3_270));
    assert_close(place.worth(bob), milli(1_090));
    assert_close(place.worth(carol), milli(4_360));
    assert_close(place.worth(place.operator), milli(80));
    assert_eq!(place.stake(), (milli(8_800), U256::ZERO), "rewards are staked, too");

    let round = place.exit(bob, 256).unwrap();
    assert_eq!(place.exit(alice, 128).unwrap(), round, "exits before one freeze have one round");
    assert_eq!(place.shares(bob), U256::ZERO);
    assert_close(place.stake().1, milli(1_090 + 1_635));
    assert_eq!(place.exit_of(bob, round), (place.exit_of(bob, round).0, false));
    place.donate(milli(1));
    assert_close(place.exit_of(bob, round).0, milli(1_090));

    place.end_epochs(1);
    let later = place.exit(carol, 128).unwrap();
    assert!(later > round);
    place.end_epochs(WAIT - 2);
    assert!(place.claim(bob, round).unwrap_err().error::<Pool::NotSettled>().is_some());
    place.end_epochs(1);
    let before = place.chain.balance(bob);
    let paid = place.claim(bob, round).unwrap();
    assert_eq!(place.chain.balance(bob), before + paid);
    assert_close(paid, milli(1_090));
    assert!(place.claim(bob, round).unwrap_err().error::<Pool::NothingToClaim>().is_some(), "once");
    assert!(place.exit_of(alice, round).1);
    assert!(place.claim(carol, later).unwrap_err().error::<Pool::NotSettled>().is_some());
    place.end_epochs(1);
    place.claim(carol, later).unwrap();
    place.claim(alice, round).unwrap();
    assert!(place.chain.balance(place.pool) < n(10), "all is paid or staked");
    place.chain.gas().assert_matches_file("gas.txt");
}

#[test]
fn collected_wei_leave_at_once() {
    let mut place = Place::new();
    let [alice, ..] = place.people;
    place.deposit(alice, milli(500)).unwrap();
    let too_little = place.register("first keys").unwrap_err().error::<Staking::TooLittle>().unwrap();
    assert_eq!(too_little.limit, milli(1_000));
    let round = place.exit(alice, 128).unwrap();
    assert_eq!(place.claim(alice, round).unwrap(), milli(250));
    assert_eq!(place.exit(alice, 256).unwrap(), n(1));
    assert!(place.exit(alice, 0).unwrap_err().error::<Pool::TooLittle>().is_some());
    let too_many = place.send(alice, Pool::requestExitCall { shares: n(1) }).unwrap_err();
    assert!(too_many.error::<Pool::InsufficientShares>().is_some());
    let donation = place.pay(alice, n(5), Pool::donateCall {}).unwrap_err();
    assert!(donation.error::<Pool::NoShares>().is_some());
}

/// The staking contract takes a slash from the queue first. All lose a tenth even so, and exits get what the queue lacks later.
#[test]
fn slash_lowers_shares_and_exits_in_proportion() {
    let mut place = Place::with(&[6_000, 4_000]);
    let [alice, bob, carol] = place.people;
    let round = place.exit(bob, 128).unwrap();
    assert_close(place.stake().1, milli(2_000));
    place.slash(milli(1_000));
    assert_close(place.worth(alice), milli(5_400));
    assert_close(place.worth(bob), milli(1_800));
    assert_close(place.exit_of(bob, round).0, milli(1_800));
    assert_close(place.stake().1, milli(1_000));

    // A newcomer pays nothing of it.
    place.deposit(carol, milli(900)).unwrap();
    assert_close(place.worth(carol), milli(900));
    let (bonded, queued) = place.stake();
    assert_close(queued, milli(1_800));
    assert_close(bonded, milli(8_100));
    place.end_epochs(WAIT);
    assert_close(place.claim(bob, round).unwrap(), milli(1_800));
    assert_close(place.worth(alice), milli(5_400));
}

/// A slash of bonded stake only: exits pay their part, and what they leave in the queue returns to the stake.
#[test]
fn slash_of_bonded_stake_lowers_exits_too() {
    let mut place = Place::with(&[6_000, 4_000]);
    let [alice, bob, _] = place.people;
    let round = place.exit(bob, 128).unwrap();
    let bonded = slot(0x01, 0, 1);
    let stake = U256::from_be_bytes(place.chain.storage(STAKING_ADDRESS, bonded).0);
    place.chain.set_storage(STAKING_ADDRESS, bonded, (stake - milli(1_000)).into());
    place.end_epochs(WAIT);
    assert_close(place.claim(bob, round).unwrap(), milli(1_800));
    assert_close(place.stake().0, milli(7_200));
    assert_close(place.worth(alice), milli(5_400));
}

#[test]
fn loss_of_everything_leaves_nothing_to_claim() {
    let mut place = Place::with(&[2_000, 2_000]);
    let [alice, bob, carol] = place.people;
    let round = place.exit(bob, 256).unwrap();
    place.slash(place.stake().0 + place.stake().1);
    assert_eq!(place.exit_of(bob, round), (U256::ZERO, false));
    assert_eq!((place.claim(bob, round).unwrap(), place.worth(alice)), (U256::ZERO, U256::ZERO));
    assert!(place.exit(alice, 256).unwrap_err().error::<Pool::TooLittle>().is_some());
    assert!(place.deposit(carol, milli(1_000)).unwrap_err().error::<Pool::TooMuch>().is_some(), "shares would be too many");
    place.deposit(carol, milli(1)).unwrap();
    assert_close(place.worth(carol), milli(1));
}

#[test]
fn exit_below_a_vote_unbonds_all() {
    let mut place = Place::with(&[1_000, 500]);
    let [alice, bob, carol] = place.people;
    let round = place.exit(alice, 128).unwrap();
    assert_eq!(place.stake().0, milli(1_000), "a vote is left");
    let next = place.exit(bob, 256).unwrap();
    assert_eq!(next, round);
    assert_eq!(place.stake(), (U256::ZERO, milli(1_500)), "half a vote cannot stay");

    // It is not lost to those who stay, and not bonded before it is free.
    assert_close(place.worth(alice), milli(500));
    place.deposit(carol, milli(200)).unwrap();
    assert_eq!(place.stake().0, U256::ZERO);
    place.end_epochs(WAIT);
    assert_close(place.claim(bob, round).unwrap(), milli(500));
    assert!(!place.view(Pool::validatorCall {}).found, "its record was empty");
    place.claim(alice, round).unwrap();
    assert_close(place.worth(alice), milli(500));

    // Keys are never used twice, so the next validator has others.
    place.deposit(bob, milli(300)).unwrap();
    assert!(place.register("first keys").unwrap_err().error::<Staking::KeyUsed>().is_some());
    assert_eq!(place.register("second keys").unwrap(), ID + 1);
    assert_close(place.stake().0, milli(1_000));
}

#[test]
fn stake_is_bonded_again_when_it_is_enough() {
    let mut place = Place::with(&[1_000, 500]);
    let [alice, bob, carol] = place.people;
    place.exit(alice, 255).unwrap();
    assert_eq!(place.stake().0, U256::ZERO);
    place.deposit(carol, milli(1_000)).unwrap();
    assert_eq!(place.stake().0, milli(1_000), "the validator is the same one");
    place.end_epochs(WAIT);
    place.send(bob, Pool::collectCall {}).unwrap();
    let (bonded, queued) = place.stake();
    assert_eq!(queued, U256::ZERO);
    assert_close(bonded, milli(1_500) + milli(1_000) / n(256));
}

/// The first depositor inflates the price of a share, so that the next deposit is rounded down. It costs half of the donation.
#[test]
fn inflation_of_the_first_share_does_not_pay() {
    let mut place = Place::new();
    let [attacker, victim, _] = place.people;
    place.send(place.operator, Pool::setCommissionCall { commission: 0 }).unwrap();
    place.deposit(attacker, n(1)).unwrap();
    place.pay(attacker, milli(10_000), Pool::donateCall {}).unwrap();
    place.deposit(victim, milli(5_000)).unwrap();
    assert!(place.worth(victim) > milli(4_990), "less than a thousandth of the donation: {}", place.worth(victim));
    assert!(place.worth(attacker) < milli(5_010), "half: {}", place.worth(attacker));
    assert!(place.deposit(victim, n(1)).unwrap_err().error::<Pool::TooLittle>().is_some(), "refused instead of taken");

    // A balance that is forced on the pool is nobody's.
    let before = place.view(Pool::assetsCall {});
    let balance = place.chain.balance(place.pool);
    place.chain.set_balance(place.pool, balance + milli(1_000_000));
    assert_eq!(place.view(Pool::assetsCall {}), before);
    assert!(place.chain.by(attacker).value(n(1)).send_raw(place.pool, Vec::new()).is_err(), "plain payments are refused");
}

#[test]
fn operator_runs_the_validator_without_its_stake() {
    let mut place = Place::with(&[2_000]);
    let (operator, [alice, ..]) = (place.operator, place.people);
    let to_staking: [Vec<u8>; 5] = [
        Staking::unbondCall { id: ID, amount: milli(1_000) }.abi_encode(),
        Staking::withdrawCall { id: ID }.abi_encode(),
        Staking::setFeeCall { id: ID, fee: operator }.abi_encode(),
        Staking::transferOwnershipCall { id: ID, to: operator }.abi_encode(),
        Staking::setOperatorCall { id: ID, operator: alice }.abi_encode(),
    ];
    for call in to_staking {
        let refused = place.chain.by(operator).send_raw(STAKING_ADDRESS, call.clone()).unwrap_err();
        assert!(refused.error::<Staking::NotOwner>().is_some(), "{refused}");
        let refused = place.send(operator, Pool::registerCall { data: call.into() }).unwrap_err();
        assert!(refused.error::<Pool::NoRegistration>().is_some());
    }
    assert!(place.register("second keys").unwrap_err().error::<Pool::AlreadyRegistered>().is_some());

    // Its own functions, at the staking contract and through the pool.
    let keys = validator_keys("second keys", place.pool, CHAIN_ID);
    place.chain.by(operator).send(STAKING_ADDRESS, Staking::rotateCall { id: ID, keys }).unwrap();
    let endpoints = b"/ip4/1.2.3.4/udp/1/quic-v1".to_vec().into();
    place.chain.by(operator).send(STAKING_ADDRESS, Staking::setEndpointsCall { id: ID, endpoints }).unwrap();
    place.send(operator, Pool::setFeeCall { fee: alice }).unwrap();
    let refused = place.send(operator, Pool::setFeeCall { fee: place.pool }).unwrap_err();
    assert!(refused.error::<Staking::FeeHasCode>().is_some());
    place.send(operator, Pool::setOperatorCall { operator: alice }).unwrap();
    let validator = place.chain.view(STAKING_ADDRESS, Staking::validatorCall { id: ID });
    assert_eq!((validator.owner, validator.operator, validator.fee), (place.pool, alice, alice));
    let data = place.registration("third keys");
    let of_operators: [Vec<u8>; 4] = [
        Pool::registerCall { data: data.into() }.abi_encode(),
        Pool::setCommissionCall { commission: 0 }.abi_encode(),
        Pool::setFeeCall { fee: operator }.abi_encode(),
        Pool::setOperatorCall { operator }.abi_encode(),
    ];
    for call in of_operators {
        let refused = place.chain.by(operator).send_raw(place.pool, call).unwrap_err();
        assert!(refused.error::<Pool::NotOperator>().is_some(), "no longer");
    }
}

#[test]
fn commission_rises_slowly_and_falls_at_once() {
    let mut place = Place::with(&[1_000]);
    let operator = place.operator;
    let commission = |place: &Place| {
        let now = place.view(Pool::commissionCall {});
        (now.now, now.next, now.from)
    };
    let set = |place: &mut Place, commission| place.send(operator, Pool::setCommissionCall { commission });
    assert_eq!(commission(&place), (1_000, 1_000, 0));
    let refused = set(&mut place, 1_101).unwrap_err().error::<Pool::CommissionTooHigh>().unwrap();
    assert_eq!((refused.commission, refused.limit), (1_101, 1_100));
    set(&mut place, 1_100).unwrap();
    assert_eq!(commission(&place), (1_000, 1_100, 2));
    assert!(set(&mut place, 1_200).is_err(), "one step at a time");
    place.end_epochs(1);
    assert_eq!(commission(&place).0, 1_000, "a whole epoch of notice");
    place.end_epochs(1);
    assert_eq!(commission(&place), (1_100, 1_100, 0));
    set(&mut place, 1_200).unwrap();
    set(&mut place, 500).unwrap();
    assert_eq!(commission(&place), (500, 500, 0), "the raise is cancelled");
    place.end_epochs(3);
    assert_eq!(commission(&place).0, 500);

    let deploy =
        |chain: &mut Chain, commission: u16| chain.by(operator).deploy(&Contract::in_this_crate(), (operator, commission));
    let refused = deploy(&mut place.chain, 2_001).unwrap_err().error::<Pool::CommissionTooHigh>().unwrap();
    assert_eq!(refused.limit, 2_000);
    place.pool = deploy(&mut place.chain, 2_000).unwrap();
    assert!(set(&mut place, 2_001).is_err());
}

/// A payee that calls the pool during its payment, with calls that would succeed otherwise.
#[test]
fn reentrant_payee_is_refused() {
    let attacks = [Pool::collectCall {}.abi_encode(), Pool::assetsCall {}.abi_encode(), Pool::donateCall {}.abi_encode()];
    for attack in attacks {
        let mut place = Place::with(&[3_000]);
        let [alice, ..] = place.people;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../exchange/rogue");
        let rogue = place.chain.by(alice).deploy(&Contract::in_crate(&folder).unwrap(), ()).unwrap();
        place.chain.by(alice).send_raw(place.pool, attack.clone()).unwrap();
        place.chain.by(alice).send(rogue, Rogue::armCall { target: place.pool, data: attack.into() }).unwrap();
        let round = place.exit(alice, 128).unwrap();
        place.end_epochs(WAIT);
        let paid = place.send(alice, Pool::claimCall { round, to: rogue }).unwrap();
        assert_eq!(place.chain.balance(rogue), paid);
        let attacks = place.chain.view(rogue, Rogue::attacksCall {});
        assert_eq!((attacks.tried, attacks.let_in), (n(1), n(0)));
        assert!(place.claim(alice, round).unwrap_err().error::<Pool::NothingToClaim>().is_some());
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
    Deposit {
        who: usize,
        milli: u64,
    },
    /// Exits with this many 256ths of the account's shares.
    Exit {
        who: usize,
        part: u64,
    },
    Claim {
        who: usize,
        round: u64,
    },
    Donate {
        milli: u64,
    },
    /// Takes this many 256ths of the stake, a quarter at most.
    Slash {
        part: u64,
    },
    Collect,
    EndEpoch,
}

fn deed() -> impl Strategy<Value = Deed> {
    // Carol stays, so that shares and their price are never tiny.
    prop_oneof![
        3 => (0..3_usize, 1..3_000_u64).prop_map(|(who, milli)| Deed::Deposit { who, milli }),
        4 => (0..2_usize, 1..=256_u64).prop_map(|(who, part)| Deed::Exit { who, part }),
        3 => (0..2_usize, 0..6_u64).prop_map(|(who, round)| Deed::Claim { who, round }),
        1 => (1..500_u64).prop_map(|milli| Deed::Donate { milli }),
        1 => (1..64_u64).prop_map(|part| Deed::Slash { part }),
        1 => Just(Deed::Collect),
        4 => Just(Deed::EndEpoch),
    ]
}

/// Everything that an account has in the pool or had out of it, in wei.
#[derive(Clone, Copy, Debug, Default)]
struct Holding {
    shares: U256,
    waiting: U256,
    /// Settled or claimed.
    safe: U256,
}

impl Holding {
    fn total(&self) -> U256 {
        self.shares + self.waiting + self.safe
    }
}

/// A place, and a model of who has how much.
struct Model {
    place: Place,
    rounds: u64,
    claimed: [U256; 4],
}

impl Model {
    fn accounts(&self) -> [Address; 4] {
        let [alice, bob, carol] = self.place.people;
        [alice, bob, carol, self.place.operator]
    }

    fn holdings(&self) -> [Holding; 4] {
        let mut holdings = [Holding::default(); 4];
        for ((account, holding), claimed) in self.accounts().into_iter().zip(&mut holdings).zip(self.claimed) {
            *holding = Holding { shares: self.place.worth(account), safe: claimed, ..*holding };
            for round in 0..self.rounds {
                let (wei, is_settled) = self.place.exit_of(account, n(round));
                *if is_settled { &mut holding.safe } else { &mut holding.waiting } += wei;
            }
        }
        holdings
    }

    /// All wei in the pool and in the stake, and all that were claimed.
    fn backing(&self) -> U256 {
        let (bonded, queued) = self.place.stake();
        self.place.chain.balance(self.place.pool) + bonded + queued + self.claimed.iter().sum::<U256>()
    }

    /// Does it, and returns what each account should have then.
    fn act(&mut self, deed: &Deed, before: &[Holding; 4]) -> [U256; 4] {
        let mut expected = before.map(|holding| holding.total());
        let place = &mut self.place;
        match *deed {
            Deed::Deposit { who, milli: count } => {
                place.deposit(place.people[who], milli(count)).unwrap();
                expected[who] += milli(count);
            }
            Deed::Exit { who, part } => {
                // Fails without shares.
                if let Ok(round) = place.exit(place.people[who], part) {
                    self.rounds = round.to::<u64>() + 1;
                }
            }
            Deed::Claim { who, round } => {
                // Fails without a claim in a settled round.
                self.claimed[who] += place.claim(place.people[who], n(round)).unwrap_or_default();
            }
            Deed::Donate { milli: count } => {
                let all: U256 = before.iter().map(|holding| holding.shares).sum();
                let commission = milli(count) / n(10);
                for (expected, holding) in expected.iter_mut().zip(before) {
                    *expected += (milli(count) - commission) * holding.shares / all;
                }
                expected[3] += commission;
                place.donate(milli(count));
            }
            Deed::Slash { part } => {
                // Settles first what is free.
                place.send(place.operator, Pool::collectCall {}).unwrap();
                let (bonded, queued) = place.stake();
                let lost: U256 = ((bonded + queued) * n(part)) >> 8;
                let before = self.holdings();
                if !lost.is_zero() {
                    self.place.slash(lost);
                }
                let now = self.holdings();
                check_slash(&before, &now, bonded + queued, lost);
                expected = now.map(|holding| holding.total());
            }
            Deed::Collect => drop(place.send(place.operator, Pool::collectCall {}).unwrap()),
            Deed::EndEpoch => place.end_epochs(1),
        }
        expected
    }
}

/// All shares lose in one proportion, and all exits that wait. It is the proportion of the slash if all of them are stake, and
/// not partly in the pool. Together they lose the slash. Safe wei stay.
fn check_slash(before: &[Holding; 4], now: &[Holding; 4], stake: U256, lost: U256) {
    let sum = |holdings: &[Holding; 4], of: fn(&Holding) -> U256| holdings.iter().map(of).sum::<U256>();
    let unsafe_wei: fn(&Holding) -> U256 = |holding| holding.shares + holding.waiting;
    assert_near(sum(before, unsafe_wei) - sum(now, unsafe_wei), lost);
    let is_all_staked = sum(before, unsafe_wei).abs_diff(stake) <= n(100);
    for of in [|holding: &Holding| holding.shares, |holding: &Holding| holding.waiting] {
        let (all, all_now) = if is_all_staked { (stake, stake - lost) } else { (sum(before, of), sum(now, of)) };
        for (before, now) in before.iter().zip(now).filter(|_| !all.is_zero()) {
            assert_eq!(now.safe, before.safe);
            assert_near(of(now), of(before) * all_now / all);
        }
    }
}

/// Within rounding. Virtual shares take a part of donations that is as small.
fn assert_near(found: U256, expected: U256) {
    assert!(found.abs_diff(expected) <= n(100_000), "expected about {expected}, found {found}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    /// Any actions in any order: every account has what the model says, and all of it is backed by wei.
    #[test]
    fn random_history_matches_model(deeds in prop::collection::vec(deed(), 1..30)) {
        let mut model = Model { place: Place::with(&[500, 1_500, 1_000]), rounds: 0, claimed: Default::default() };
        for deed in deeds {
            let before = model.holdings();
            let expected = model.act(&deed, &before);
            let now = model.holdings();
            for (now, expected) in now.iter().zip(expected) {
                assert_near(now.total(), expected);
            }
            let all: U256 = now.iter().map(Holding::total).sum();
            let backing = model.backing();
            prop_assert!(all <= backing, "{all} of {backing} after {deed:?}");
            assert_near(all, backing);
        }
    }
}
