//! Token holders vote on calls that this contract makes. The weight of a vote is the voter's balance at the end of the block
//! before the proposal. Later purchases, loans or transfers give no votes, and moved tokens do not vote twice.
//!
//! ```text
//! propose ── voting period ──▶ defeated
//!                         └──▶ waiting ── delay ──▶ ready ── 14 days ──▶ expired
//!                                                     └── execute ──▶ executed
//! ```
//!
//! The delay lets holders who disagree leave before the execution. The settings are constant: to change them, vote
//! to move everything to another governor.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

use alloc::{string::String, vec, vec::Vec};
use alloy_primitives::{aliases::U64, keccak256, Address, Bytes, B256, U256};
use alloy_sol_types::{sol, SolValue};
use stylus_sdk::call::call;
use stylus_sdk::prelude::*;
use stylus_sdk::stylus_core::calls::errors::Error as CallError;

corniche_contract::abi!();

/// Seconds after the delay in which a proposal can be executed.
const GRACE: u64 = 14 * 86_400;

sol_interface! {
    interface IVotes {
        function totalSupply() external view returns (uint256);
        function balanceAt(address account, uint64 block) external view returns (uint256);
    }
}

sol! {
    event Proposed(
        bytes32 indexed id, address indexed by, address to, uint256 value, bytes data, string description, uint64 snapshot, uint64 votingEnds
    );
    event Voted(bytes32 indexed id, address indexed voter, uint8 support, uint256 weight);
    event Executed(bytes32 indexed id, address indexed by);
    event Received(address indexed from, uint256 value);

    /// The quorum and the minimum must be attainable, and the voting period must be finite.
    error BadSettings();
    /// Proposing needs more votes than the caller had at the end of the block before.
    error TooFewVotes(uint256 votes, uint256 needed);
    /// This call with this description was proposed before.
    error AlreadyProposed(bytes32 id);
    /// The proposal's state does not allow this action.
    error WrongState(bytes32 id, uint8 state);
    /// `support` must be 0 (against), 1 (for) or 2 (abstain).
    error BadSupport(uint8 support);
    error AlreadyVoted(bytes32 id, address voter);
    /// The voter had no votes at the snapshot.
    error NoVotes(bytes32 id, address voter);
}

sol_storage! {
    #[entrypoint]
    pub struct Governor {
        /// The token with the votes.
        address votes;
        /// Votes in favour or abstaining that a decision needs.
        uint256 quorum;
        /// Votes needed to propose.
        uint256 minimum;
        /// Seconds of voting; `delay` is the seconds from its end to execution.
        uint64 voting_period;
        uint64 delay;
        mapping(bytes32 => Proposal) proposals;
    }

    pub struct Proposal {
        /// Balances at the end of this block count.
        uint64 snapshot;
        /// Unix seconds. Zero means that there is no such proposal.
        uint64 voting_ends;
        bool executed;
        uint256 against;
        uint256 in_favour;
        uint256 abstaining;
        mapping(address => bool) voted;
    }
}

/// In the order in which a proposal passes through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    Unknown,
    Voting,
    Defeated,
    Waiting,
    Ready,
    Expired,
    Executed,
}

#[derive(SolidityError)]
pub enum GovernorError {
    BadSettings(BadSettings),
    TooFewVotes(TooFewVotes),
    AlreadyProposed(AlreadyProposed),
    WrongState(WrongState),
    BadSupport(BadSupport),
    AlreadyVoted(AlreadyVoted),
    NoVotes(NoVotes),
    /// The called contract or the token reverted. Its error is passed on, and the call can be tried again.
    Call(CallError),
}

#[public]
impl Governor {
    /// `votes` is a token with `balanceAt`. The value of the creation is coins to govern.
    #[constructor]
    #[payable]
    pub fn constructor(
        &mut self,
        votes: Address,
        quorum: U256,
        minimum: U256,
        voting_period: u64,
        delay: u64,
    ) -> Result<(), GovernorError> {
        let supply = IVotes::new(votes).total_supply(self.vm(), Call::new())?;
        // The clock never reaches an end this far in the future, so sums of times do not overflow.
        let too_long = voting_period.max(delay) > u64::from(u32::MAX);
        if quorum.is_zero() || quorum > supply || minimum > supply || voting_period == 0 || too_long {
            return Err(BadSettings {}.into());
        }
        self.votes.set(votes);
        self.quorum.set(quorum);
        self.minimum.set(minimum);
        self.voting_period.set(U64::from(voting_period));
        self.delay.set(U64::from(delay));
        Ok(())
    }

    #[receive]
    pub fn receive(&mut self) -> Result<(), Vec<u8>> {
        let (from, value) = (self.vm().msg_sender(), self.vm().msg_value());
        self.vm().log(Received { from, value });
        Ok(())
    }

    /// The token, the quorum, the votes needed to propose, and the seconds of voting and of waiting.
    pub fn settings(&self) -> (Address, U256, U256, u64, u64) {
        (self.votes.get(), self.quorum.get(), self.minimum.get(), self.voting_period.get().to(), self.delay.get().to())
    }

    /// Returns a proposal's id. Only this hash is stored; the caller of `execute` passes the rest (event `Proposed`).
    pub fn proposal_id(&self, to: Address, value: U256, data: Bytes, description_hash: B256) -> B256 {
        id(to, value, &data, description_hash)
    }

    /// Votes against, in favour and abstaining; the snapshot's block; the end of voting.
    pub fn proposal(&self, id: B256) -> (U256, U256, U256, u64, u64) {
        let one = self.proposals.getter(id);
        let times = (one.snapshot.get().to(), one.voting_ends.get().to());
        (one.against.get(), one.in_favour.get(), one.abstaining.get(), times.0, times.1)
    }

    /// 0 unknown, 1 voting, 2 defeated, 3 waiting, 4 ready, 5 expired, 6 executed.
    pub fn state(&self, id: B256) -> u8 {
        self.state_of(id) as u8
    }

    pub fn has_voted(&self, id: B256, account: Address) -> bool {
        self.proposals.getter(id).voted.get(account)
    }

    /// Proposes that the governor makes this call. Voting begins at once.
    pub fn propose(&mut self, to: Address, value: U256, data: Bytes, description: String) -> Result<B256, GovernorError> {
        let (by, now) = (self.vm().msg_sender(), self.vm().block_timestamp());
        let snapshot = self.vm().block_number().saturating_sub(1);
        let (votes, needed) = (self.votes_of(by, snapshot)?, self.minimum.get());
        if votes < needed {
            return Err(TooFewVotes { votes, needed }.into());
        }
        let id = id(to, value, &data, keccak256(description.as_bytes()));
        if self.state_of(id) != State::Unknown {
            return Err(AlreadyProposed { id }.into());
        }
        let voting_ends = now + self.voting_period.get().to::<u64>();
        let mut proposal = self.proposals.setter(id);
        proposal.snapshot.set(U64::from(snapshot));
        proposal.voting_ends.set(U64::from(voting_ends));
        self.vm().log(Proposed { id, by, to, value, data, description, snapshot, votingEnds: voting_ends });
        Ok(id)
    }

    /// Votes with the caller's whole balance at the snapshot: 0 against, 1 for, 2 abstain. Returns that balance.
    pub fn vote(&mut self, id: B256, support: u8) -> Result<U256, GovernorError> {
        let voter = self.vm().msg_sender();
        self.expect(id, State::Voting)?;
        if self.has_voted(id, voter) {
            return Err(AlreadyVoted { id, voter }.into());
        }
        let snapshot = self.proposals.getter(id).snapshot.get().to();
        let weight = self.votes_of(voter, snapshot)?;
        if weight.is_zero() {
            return Err(NoVotes { id, voter }.into());
        }
        let mut proposal = self.proposals.setter(id);
        proposal.voted.insert(voter, true);
        let count = match support {
            0 => &mut proposal.against,
            1 => &mut proposal.in_favour,
            2 => &mut proposal.abstaining,
            _ => return Err(BadSupport { support }.into()),
        };
        // At most the supply, since no account votes twice.
        let sum = count.get() + weight;
        count.set(sum);
        self.vm().log(Voted { id, voter, support, weight });
        Ok(weight)
    }

    /// Makes an accepted call after the delay. Any account may call. Returns the result of the call.
    pub fn execute(&mut self, to: Address, value: U256, data: Bytes, description_hash: B256) -> Result<Bytes, GovernorError> {
        let id = id(to, value, &data, description_hash);
        self.expect(id, State::Ready)?;
        // Before the call, so that code in the call sees the proposal as executed.
        self.proposals.setter(id).executed.set(true);
        let context = Call::new_payable(self, value);
        let answer = call(self.vm(), context, to, &data)?;
        let by = self.vm().msg_sender();
        self.vm().log(Executed { id, by });
        Ok(answer.into())
    }
}

impl Governor {
    fn state_of(&self, id: B256) -> State {
        let proposal = self.proposals.getter(id);
        let ends: u64 = proposal.voting_ends.get().to();
        let now = self.vm().block_timestamp();
        if ends == 0 {
            return State::Unknown;
        }
        if proposal.executed.get() {
            return State::Executed;
        }
        if now < ends {
            return State::Voting;
        }
        let (against, in_favour) = (proposal.against.get(), proposal.in_favour.get());
        if in_favour <= against || in_favour + proposal.abstaining.get() < self.quorum.get() {
            return State::Defeated;
        }
        let ready = ends + self.delay.get().to::<u64>();
        match now {
            now if now < ready => State::Waiting,
            now if now < ready + GRACE => State::Ready,
            _ => State::Expired,
        }
    }

    fn votes_of(&self, account: Address, block: u64) -> Result<U256, GovernorError> {
        Ok(IVotes::new(self.votes.get()).balance_at(self.vm(), Call::new(), account, block)?)
    }

    fn expect(&self, id: B256, wanted: State) -> Result<(), GovernorError> {
        let state = self.state_of(id);
        if state != wanted {
            return Err(WrongState { id, state: state as u8 }.into());
        }
        Ok(())
    }
}

fn id(to: Address, value: U256, data: &[u8], description_hash: B256) -> B256 {
    keccak256((to, value, keccak256(data), description_hash).abi_encode())
}

#[cfg(test)]
mod tests;
