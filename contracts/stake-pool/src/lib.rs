//! A stake pool: the owner of one validator, for people who delegate stake to it. The staking contract of the protocol has one
//! owner for each validator and no delegation, so this contract is that owner, without any privilege.
//!
//! Life of a pool:
//!
//! 1. It is deployed, and names an *operator*, who will run the validator's node.
//! 2. Delegators deposit coins for shares. The operator registers the validator with all that was collected.
//! 3. Later deposits are added to the stake at once. Anybody may donate rewards: they raise the price of a share.
//! 4. An exit burns shares and unbonds their wei. They can be claimed once they are free, after the protocol's unbonding time.
//!
//! Choices:
//!
//! - *A slash hits shares and waiting exits in proportion* ([`ledger`]). The staking contract takes it from the queue first, so
//!   otherwise those who exit would pay for all. If the queue then lacks stake for exits, more is unbonded, and they wait longer.
//! - *Exits come in rounds*: all that become free together, with one price. So no number of small exits makes a queue that is too
//!   long to walk. Rounds are paid in order, from wei that the staking contract has paid.
//! - *An exit is never refused.* If less than a vote would stay bonded, all stake is unbonded. It returns to the pool, and is
//!   bonded again as soon as it is enough for a vote. The alternative, to wait until others join, would lock delegators in.
//! - *The operator's calls of `rotate` and `setEndpoints` bypass the pool.* The staking contract knows the operator. Keys of a
//!   registration pass through the pool unread, so a pool does not depend on their format.
//! - *Commission is a deposit for the operator*: its wei stay in the pool, as shares.
//! - *Balances are never read.* Every wei is in the ledger, so coins that are forced on the contract change no price.
//!
//! The pool cannot collect fees and rewards: the protocol pays them to an account without code. So delegators trust the
//! operator to donate them. They do not trust it with their stake, which only goes back to them.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

mod ledger;
mod staking;

use alloc::vec::Vec;
use alloy_primitives::{Address, Bytes, U16, U256, U64};
use alloy_sol_types::sol;
use ledger::{quotient, Ledger, Stake};
use stylus_sdk::call::transfer::transfer_eth;
use stylus_sdk::prelude::*;
use stylus_sdk::stylus_core::calls::errors::Error as CallError;

corniche_contract::abi!();

/// Commissions are in 1/10,000 of a donation.
const WHOLE: u16 = 10_000;
const MAX_COMMISSION: u16 = 2_000;
/// Largest step of a raise.
const MAX_RAISE: u16 = 100;
/// A raise that is announced in epoch e applies from epoch e + 2 on, so delegators have the whole epoch e + 1 to leave.
const NOTICE_EPOCHS: u64 = 2;

sol! {
    event Deposited(address indexed by, uint256 value, uint256 shares);
    /// The wei can be claimed when the round is settled. A slash until then lowers them.
    event ExitRequested(address indexed by, uint256 indexed round, uint256 shares, uint256 value);
    /// The exits of a round can be claimed.
    event Settled(uint256 indexed round, uint256 value);
    event Claimed(address indexed by, uint256 indexed round, address indexed to, uint256 value);
    /// `commission` is the part of the value that became shares of the operator.
    event Donated(address indexed by, uint256 value, uint256 commission);
    /// The protocol took stake of the validator.
    event Slashed(uint256 value);
    event Registered(uint32 indexed id, uint256 value);
    /// The commission from an epoch on.
    event CommissionChanged(uint16 commission, uint64 epoch);
    event OperatorChanged(address indexed operator);

    error NotOperator(address caller);
    /// The value, or what the shares are worth, is zero after rounding.
    error TooLittle();
    /// There would be more than 2^128 - 1 shares or exits: the pool has lost almost everything.
    error TooMuch();
    error InsufficientShares(uint256 shares, uint256 needed);
    /// There are no shares to which a donation could belong.
    error NoShares();
    /// The round is not settled yet.
    error NotSettled(uint256 round);
    /// The caller has nothing in this round, or has claimed it.
    error NothingToClaim(uint256 round);
    /// The pool has this validator.
    error AlreadyRegistered(uint32 id);
    /// The pool has no validator.
    error NotRegistered();
    /// The data is no call of the staking contract's `register`.
    error NoRegistration();
    /// The commission is above the limit, or would rise too fast.
    error CommissionTooHigh(uint16 commission, uint16 limit);
}

sol_storage! {
    #[entrypoint]
    pub struct StakePool {
        address operator;
        /// Commission before the epoch `next_from`.
        uint16 commission;
        uint16 next_commission;
        uint64 next_from;
        /// One more than the validator's number; zero without a validator.
        uint64 validator;
        Books books;
        mapping(address => uint256) shares;
        Round[] rounds;
        /// Number of settled rounds, the oldest ones.
        uint256 settled;
    }

    /// A [`Ledger`].
    pub struct Books {
        uint256 supply;
        uint256 idle;
        uint256 staked;
        uint256 units;
        uint256 freed;
        uint256 exiting;
    }

    /// Exits that become free together.
    pub struct Round {
        /// First freeze of the protocol without their stake.
        uint256 freeze;
        uint256 units;
        /// Wei of all units, once the round is settled.
        uint256 value;
        /// Units of each account that has not claimed.
        mapping(address => uint256) claims;
    }
}

#[derive(SolidityError)]
pub enum PoolError {
    NotOperator(NotOperator),
    TooLittle(TooLittle),
    TooMuch(TooMuch),
    InsufficientShares(InsufficientShares),
    NoShares(NoShares),
    NotSettled(NotSettled),
    NothingToClaim(NothingToClaim),
    AlreadyRegistered(AlreadyRegistered),
    NotRegistered(NotRegistered),
    NoRegistration(NoRegistration),
    CommissionTooHigh(CommissionTooHigh),
    /// The staking contract or a payee reverted. Its error is passed on.
    Call(CallError),
}

type Done = Result<(), PoolError>;

#[public]
impl StakePool {
    #[constructor]
    pub fn constructor(&mut self, operator: Address, commission: u16) -> Done {
        within_limit(commission, MAX_COMMISSION)?;
        self.operator.set(operator);
        self.next_commission.set(U16::from(commission));
        Ok(())
    }

    pub fn operator(&self) -> Address {
        self.operator.get()
    }

    /// Returns the validator's number, if there is one.
    pub fn validator(&self) -> (bool, u32) {
        self.id().map_or((false, 0), |id| (true, id))
    }

    /// Returns the commission, and an announced one with its first epoch; that is 0 if there is none.
    pub fn commission(&self) -> Result<(u16, u16, u64), PoolError> {
        let now = self.commission_in(staking::epoch(self)?);
        let next = self.next_commission.get().to();
        Ok(if now == next { (now, now, 0) } else { (now, next, self.next_from.get().to()) })
    }

    /// Returns all shares.
    pub fn supply(&self) -> U256 {
        self.books.supply.get()
    }

    pub fn shares_of(&self, account: Address) -> U256 {
        self.shares.get(account)
    }

    /// Returns the wei of all shares.
    pub fn assets(&self) -> Result<U256, PoolError> {
        Ok(self.ledger_now()?.assets())
    }

    /// Returns the wei of some shares.
    pub fn worth(&self, shares: U256) -> Result<U256, PoolError> {
        let ledger = self.ledger_now()?;
        Ok(ledger.worth(shares.min(ledger.supply)))
    }

    /// Returns the wei that an account can claim in a round, now or later. They are final once the round is settled.
    pub fn exit_of(&self, round: U256, account: Address) -> Result<(U256, bool), PoolError> {
        let is_settled = round < self.settled.get();
        let Some(exits) = self.rounds.getter(round) else { return Ok((U256::ZERO, false)) };
        let units = exits.claims.get(account);
        let wei = if is_settled { exits.value_of(units) } else { self.ledger_now()?.worth_of_units(units) };
        Ok((wei, is_settled))
    }

    /// Exchanges the value for shares.
    #[payable]
    pub fn deposit(&mut self) -> Result<U256, PoolError> {
        let (by, value) = (self.vm().msg_sender(), self.vm().msg_value());
        let (mut ledger, stake) = self.open()?;
        let shares = ledger.deposit(value).ok_or(TooMuch {})?;
        if shares.is_zero() {
            return Err(TooLittle {}.into());
        }
        self.shares.insert(by, self.shares.get(by) + shares);
        self.vm().log(Deposited { by, value, shares });
        self.close(ledger, stake)?;
        Ok(shares)
    }

    /// Burns shares of the caller and unbonds their wei. Returns the round in which the caller can claim them.
    pub fn request_exit(&mut self, shares: U256) -> Result<U256, PoolError> {
        let by = self.vm().msg_sender();
        let owned = self.shares.get(by);
        let Some(rest) = owned.checked_sub(shares) else {
            return Err(InsufficientShares { shares: owned, needed: shares }.into());
        };
        let (mut ledger, stake) = self.open()?;
        let (value, units) = ledger.exit(shares).ok_or(TooMuch {})?;
        if units.is_zero() {
            return Err(TooLittle {}.into());
        }
        self.shares.insert(by, rest);
        let round = self.join_round(by, units)?;
        self.vm().log(ExitRequested { by, round, shares, value });
        self.close(ledger, stake)?;
        Ok(round)
    }

    /// Pays the caller's exits in a round to an account. Returns the wei.
    pub fn claim(&mut self, round: U256, to: Address) -> Result<U256, PoolError> {
        let by = self.vm().msg_sender();
        if round >= self.settled.get() {
            self.collect()?;
        }
        if round >= self.settled.get() {
            return Err(NotSettled { round }.into());
        }
        let Some(mut exits) = self.rounds.setter(round) else { return Err(NotSettled { round }.into()) };
        let units = exits.claims.take(by);
        let value = exits.value_of(units);
        if units.is_zero() {
            return Err(NothingToClaim { round }.into());
        }
        self.vm().log(Claimed { by, round, to, value });
        transfer_eth(self.vm(), to, value).map_err(CallError::Revert)?;
        Ok(value)
    }

    /// Takes free stake out of the staking contract, settles rounds, and bonds what belongs to shares. Any account may call, and
    /// most other functions do this as well.
    pub fn collect(&mut self) -> Done {
        let (ledger, stake) = self.open()?;
        self.close(ledger, stake)
    }

    /// Adds rewards: the value belongs to all shares, except for the commission.
    #[payable]
    pub fn donate(&mut self) -> Done {
        let (by, value) = (self.vm().msg_sender(), self.vm().msg_value());
        let (mut ledger, stake) = self.open()?;
        if ledger.supply.is_zero() {
            return Err(NoShares {}.into());
        }
        let rate = self.commission_in(staking::epoch(self)?);
        let commission = quotient(value * U256::from(rate), U256::from(WHOLE));
        ledger.idle += value - commission;
        let shares = ledger.deposit(commission).ok_or(TooMuch {})?;
        let operator = self.operator.get();
        self.shares.insert(operator, self.shares.get(operator) + shares);
        self.vm().log(Donated { by, value, commission });
        self.close(ledger, stake)
    }

    /// Registers the validator with all collected wei. `data` is a call of the staking contract's `register`, with keys that are
    /// signed for this pool as their owner. Only by the operator, like all that follow.
    pub fn register(&mut self, data: Bytes) -> Result<u32, PoolError> {
        self.only_operator()?;
        if !data.starts_with(&staking::REGISTER) {
            return Err(NoRegistration {}.into());
        }
        let (mut ledger, _) = self.open()?;
        if let Some(id) = self.id() {
            return Err(AlreadyRegistered { id }.into());
        }
        let value = ledger.bond(U256::ZERO, U256::ZERO);
        self.books.set(&ledger);
        let id = staking::register(self, value, &data)?;
        self.validator.set(U64::from(u64::from(id) + 1));
        self.vm().log(Registered { id, value });
        Ok(id)
    }

    /// Lowers the commission at once, or announces a raise. A new announcement replaces the one before.
    pub fn set_commission(&mut self, commission: u16) -> Done {
        self.only_operator()?;
        let epoch = staking::epoch(self)?.to::<u64>();
        let now = self.commission_in(U256::from(epoch));
        let from = if commission <= now { epoch } else { epoch + NOTICE_EPOCHS };
        within_limit(commission, MAX_COMMISSION.min(now + MAX_RAISE))?;
        self.commission.set(U16::from(now));
        self.next_commission.set(U16::from(commission));
        self.next_from.set(U64::from(from));
        self.vm().log(CommissionChanged { commission, epoch: from });
        Ok(())
    }

    /// Sets the account that receives fees and rewards from the protocol. It must not have code.
    pub fn set_fee(&mut self, fee: Address) -> Done {
        self.only_operator()?;
        let id = self.id().ok_or(NotRegistered {})?;
        Ok(staking::set_fee(self, id, fee)?)
    }

    /// Hands over to another operator, also at the staking contract.
    pub fn set_operator(&mut self, operator: Address) -> Done {
        self.only_operator()?;
        self.operator.set(operator);
        self.vm().log(OperatorChanged { operator });
        match self.id() {
            Some(id) => Ok(staking::set_operator(self, id, operator)?),
            None => Ok(()),
        }
    }
}

impl StakePool {
    fn id(&self) -> Option<u32> {
        self.validator.get().to::<u64>().checked_sub(1).map(|id| id as u32)
    }

    fn only_operator(&self) -> Done {
        let caller = self.vm().msg_sender();
        if caller != self.operator.get() {
            return Err(NotOperator { caller }.into());
        }
        Ok(())
    }

    /// The commission in an epoch from now on.
    fn commission_in(&self, epoch: U256) -> u16 {
        let is_due = epoch >= U256::from(self.next_from.get());
        if is_due { &self.next_commission } else { &self.commission }.get().to()
    }

    /// Reads the ledger as it is after the latest slash.
    fn ledger_now(&self) -> Result<Ledger, PoolError> {
        let mut ledger = self.books.get();
        if let Some(id) = self.id() {
            ledger.lose(staking::stake(self, id)?.unwrap_or_default().total());
        }
        Ok(ledger)
    }

    /// Begins a change of the ledger: takes free stake out of the staking contract, records a slash, and settles rounds. Returns
    /// the ledger for [`close`](Self::close), and the validator's stake.
    fn open(&mut self) -> Result<(Ledger, Stake), PoolError> {
        let mut ledger = self.books.get();
        let mut stake = Stake::default();
        if let Some(id) = self.id() {
            let received = staking::withdraw_free(self, id)?;
            match staking::stake(self, id)? {
                Some(now) => stake = now,
                // No stake was left. The pool can register another validator.
                None => self.validator.set(U64::ZERO),
            }
            let lost = ledger.lose(stake.total() + received);
            if !lost.is_zero() {
                self.vm().log(Slashed { value: lost });
            }
            ledger.receive(received);
        }
        self.settle(&mut ledger);
        Ok((ledger, stake))
    }

    /// Ends a change of the ledger: stores it, and moves stake as it says. Storage is complete before the calls.
    fn close(&mut self, mut ledger: Ledger, stake: Stake) -> Done {
        self.settle(&mut ledger);
        let Some(id) = self.id() else {
            self.books.set(&ledger);
            return Ok(());
        };
        let vote = staking::vote_wei(self)?;
        let unbonded = ledger.shortfall(&stake, vote);
        let added = ledger.bond(stake.bonded - unbonded, vote);
        self.books.set(&ledger);
        if !unbonded.is_zero() {
            staking::unbond(self, id, unbonded)?;
        }
        if !added.is_zero() {
            staking::add(self, id, added)?;
        }
        Ok(())
    }

    /// Settles the oldest rounds for which there are enough freed wei. The unbonding time bounds their number.
    fn settle(&mut self, ledger: &mut Ledger) {
        let mut round = self.settled.get();
        while let Some(mut exits) = self.rounds.setter(round) {
            let Some(value) = ledger.settle(exits.units.get()) else { break };
            exits.value.set(value);
            self.vm().log(Settled { round, value });
            round += U256::ONE;
        }
        self.settled.set(round);
    }

    /// Adds units to the round of exits that become free with them.
    fn join_round(&mut self, by: Address, units: U256) -> Result<U256, PoolError> {
        // Exits of collected wei do not wait.
        let freeze = if self.id().is_some() { staking::next_freeze(self)? } else { U256::ZERO };
        let count = U256::from(self.rounds.len());
        let newest = count.saturating_sub(U256::ONE);
        let is_open =
            count > self.settled.get() && self.rounds.getter(newest).is_some_and(|exits| exits.freeze.get() == freeze);
        let round = if is_open { newest } else { count };
        if !is_open {
            self.rounds.grow().freeze.set(freeze);
        }
        if let Some(mut exits) = self.rounds.setter(round) {
            let (all, own) = (exits.units.get(), exits.claims.get(by));
            exits.units.set(all + units);
            exits.claims.insert(by, own + units);
        }
        Ok(round)
    }
}

impl Books {
    fn get(&self) -> Ledger {
        Ledger {
            supply: self.supply.get(),
            idle: self.idle.get(),
            staked: self.staked.get(),
            units: self.units.get(),
            freed: self.freed.get(),
            exiting: self.exiting.get(),
        }
    }

    fn set(&mut self, ledger: &Ledger) {
        self.supply.set(ledger.supply);
        self.idle.set(ledger.idle);
        self.staked.set(ledger.staked);
        self.units.set(ledger.units);
        self.freed.set(ledger.freed);
        self.exiting.set(ledger.exiting);
    }
}

impl Round {
    /// Wei of some units, once the round is settled.
    fn value_of(&self, units: U256) -> U256 {
        quotient(self.value.get() * units, self.units.get())
    }
}

fn within_limit(commission: u16, limit: u16) -> Done {
    if commission > limit {
        return Err(CommissionTooHigh { commission, limit }.into());
    }
    Ok(())
}
