//! An account of several owners. An owner proposes a call. After `threshold` owners have confirmed it, any owner can execute it,
//! once. Owners and the threshold change only through a proposal that calls the contract itself.
//!
//! A confirmation counts only during the term in which its owner gave it. An owner who is removed and added again starts without
//! confirmations, and those of removed owners do not count.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

mod entrypoint;
mod words;

use alloc::vec::Vec;
use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::sol;
use stylus_sdk::call::call;
use stylus_sdk::prelude::*;
use stylus_sdk::stylus_core::calls::errors::Error as CallError;
use words::Words;

corniche_contract::abi!();

/// Bounds the loop over all owners that counts confirmations.
const MAX_OWNERS: u64 = 50;

sol! {
    event Received(address indexed from, uint256 value);
    event Proposed(uint256 indexed id, address indexed by, address indexed to, uint256 value, bytes data);
    event Confirmed(uint256 indexed id, address indexed by);
    event Revoked(uint256 indexed id, address indexed by);
    event Executed(uint256 indexed id, address indexed by);
    event OwnerAdded(address indexed owner);
    event OwnerRemoved(address indexed owner);
    event ThresholdChanged(uint256 threshold);

    /// The caller is not an owner.
    error NotOwner(address caller);
    /// Only a proposal can do this, by calling the contract itself.
    error NotByItself(address caller);
    /// No proposal has this number.
    error NoSuchProposal(uint256 id);
    error AlreadyExecuted(uint256 id);
    error AlreadyConfirmed(uint256 id, address owner);
    error NotConfirmed(uint256 id, address owner);
    /// Fewer current owners have confirmed than required.
    error TooFewConfirmations(uint256 id, uint256 confirmations, uint256 threshold);
    /// An owner must not be zero, the contract itself, or an owner already.
    error BadOwner(address owner);
    /// There must be 1 to 50 owners, and the threshold must be between 1 and their number.
    error BadThreshold(uint256 owners, uint256 threshold);
    /// The contract is in an outgoing call.
    error Busy();
}

sol_storage! {
    pub struct Multisig {
        /// Indices start at zero.
        mapping(uint256 => address) owners;
        uint256 count;
        /// The term of each owner, a number that no other owner ever has; zero for other accounts.
        mapping(address => uint256) terms;
        uint256 last_term;
        uint256 threshold;
        uint256 proposed;
        mapping(uint256 => Proposal) proposals;
    }

    pub struct Proposal {
        address to;
        bool executed;
        uint256 value;
        Words data;
        /// Term in which an owner confirmed it.
        mapping(address => uint256) confirmed;
    }
}

// SAFETY: it begins at slot zero and lives as long as a call does; `entrypoint` makes one, and nothing else does.
unsafe impl TopLevelStorage for Multisig {}

#[derive(SolidityError)]
pub enum MultisigError {
    NotOwner(NotOwner),
    NotByItself(NotByItself),
    NoSuchProposal(NoSuchProposal),
    AlreadyExecuted(AlreadyExecuted),
    AlreadyConfirmed(AlreadyConfirmed),
    NotConfirmed(NotConfirmed),
    TooFewConfirmations(TooFewConfirmations),
    BadOwner(BadOwner),
    BadThreshold(BadThreshold),
    /// The called contract reverted. Its error is passed on, and the proposal can be tried again.
    Call(CallError),
}

type Done = Result<(), MultisigError>;

#[public]
impl Multisig {
    #[constructor]
    #[payable]
    pub fn constructor(&mut self, owners: Vec<Address>, threshold: U256) -> Done {
        for owner in owners {
            self.admit(owner)?;
        }
        self.require(threshold)
    }

    #[receive]
    pub fn receive(&mut self) -> Result<(), Vec<u8>> {
        let (from, value) = (self.vm().msg_sender(), self.vm().msg_value());
        self.vm().log(Received { from, value });
        Ok(())
    }

    pub fn owners(&self) -> Vec<Address> {
        (0..self.count.get().to()).map(|at: u64| self.owners.get(U256::from(at))).collect()
    }

    pub fn is_owner(&self, account: Address) -> bool {
        !self.terms.get(account).is_zero()
    }

    pub fn threshold(&self) -> U256 {
        self.threshold.get()
    }

    /// Number of proposals. Their ids start at zero.
    pub fn proposals(&self) -> U256 {
        self.proposed.get()
    }

    /// Returns a proposal's call, and true if it was executed.
    pub fn proposal(&self, id: U256) -> Result<(Address, U256, Bytes, bool), MultisigError> {
        self.proposed(id)?;
        let proposal = self.proposals.getter(id);
        Ok((proposal.to.get(), proposal.value.get(), proposal.data.get().into(), proposal.executed.get()))
    }

    /// Number of current owners who have confirmed it.
    pub fn confirmations(&self, id: U256) -> U256 {
        U256::from(self.owners().into_iter().filter(|owner| self.is_confirmed(id, *owner)).count())
    }

    pub fn is_confirmed(&self, id: U256, owner: Address) -> bool {
        self.is_owner(owner) && self.proposals.getter(id).confirmed.get(owner) == self.terms.get(owner)
    }

    /// Proposes a call and confirms it.
    pub fn propose(&mut self, to: Address, value: U256, data: Bytes) -> Result<U256, MultisigError> {
        let by = self.owner()?;
        let id = self.proposed.get();
        self.proposed.set(id + U256::ONE);
        let mut proposal = self.proposals.setter(id);
        proposal.to.set(to);
        proposal.value.set(value);
        proposal.data.set(&data);
        self.vm().log(Proposed { id, by, to, value, data });
        self.confirm(id)?;
        Ok(id)
    }

    pub fn confirm(&mut self, id: U256) -> Done {
        let by = self.owner()?;
        self.open(id)?;
        if self.is_confirmed(id, by) {
            return Err(AlreadyConfirmed { id, owner: by }.into());
        }
        let term = self.terms.get(by);
        self.proposals.setter(id).confirmed.insert(by, term);
        self.vm().log(Confirmed { id, by });
        Ok(())
    }

    pub fn revoke(&mut self, id: U256) -> Done {
        let by = self.owner()?;
        self.open(id)?;
        if !self.is_confirmed(id, by) {
            return Err(NotConfirmed { id, owner: by }.into());
        }
        self.proposals.setter(id).confirmed.insert(by, U256::ZERO);
        self.vm().log(Revoked { id, by });
        Ok(())
    }

    /// Executes a proposal with enough confirmations, and returns the result of the call.
    pub fn execute(&mut self, id: U256) -> Result<Bytes, MultisigError> {
        let by = self.owner()?;
        self.open(id)?;
        let (confirmations, threshold) = (self.confirmations(id), self.threshold.get());
        if confirmations < threshold {
            return Err(TooFewConfirmations { id, confirmations, threshold }.into());
        }
        // Before the call, so that code in the call sees the proposal as executed.
        let mut proposal = self.proposals.setter(id);
        proposal.executed.set(true);
        let (to, value, data) = (proposal.to.get(), proposal.value.get(), proposal.data.get());
        let context = Call::new_payable(self, value);
        let answer = call(self.vm(), context, to, &data)?;
        self.vm().log(Executed { id, by });
        Ok(answer.into())
    }

    /// Only by a proposal, like all that follow.
    pub fn add_owner(&mut self, owner: Address, threshold: U256) -> Done {
        self.by_itself()?;
        self.admit(owner)?;
        self.require(threshold)
    }

    pub fn remove_owner(&mut self, owner: Address, threshold: U256) -> Done {
        self.by_itself()?;
        self.dismiss(owner)?;
        self.require(threshold)
    }

    pub fn replace_owner(&mut self, owner: Address, by: Address) -> Done {
        self.by_itself()?;
        self.dismiss(owner)?;
        self.admit(by)
    }

    pub fn change_threshold(&mut self, threshold: U256) -> Done {
        self.by_itself()?;
        self.require(threshold)
    }
}

impl Multisig {
    /// Returns the caller, if it is an owner.
    fn owner(&self) -> Result<Address, MultisigError> {
        let caller = self.vm().msg_sender();
        if !self.is_owner(caller) {
            return Err(NotOwner { caller }.into());
        }
        Ok(caller)
    }

    fn by_itself(&self) -> Done {
        let caller = self.vm().msg_sender();
        if caller != self.vm().contract_address() {
            return Err(NotByItself { caller }.into());
        }
        Ok(())
    }

    fn proposed(&self, id: U256) -> Done {
        if id >= self.proposed.get() {
            return Err(NoSuchProposal { id }.into());
        }
        Ok(())
    }

    fn open(&self, id: U256) -> Done {
        self.proposed(id)?;
        if self.proposals.getter(id).executed.get() {
            return Err(AlreadyExecuted { id }.into());
        }
        Ok(())
    }

    fn admit(&mut self, owner: Address) -> Done {
        if owner.is_zero() || owner == self.vm().contract_address() || self.is_owner(owner) {
            return Err(BadOwner { owner }.into());
        }
        let term = self.last_term.get() + U256::ONE;
        self.last_term.set(term);
        self.terms.insert(owner, term);
        let count = self.count.get();
        self.owners.insert(count, owner);
        self.count.set(count + U256::ONE);
        self.vm().log(OwnerAdded { owner });
        Ok(())
    }

    fn dismiss(&mut self, owner: Address) -> Done {
        let Some(at) = self.owners().iter().position(|one| *one == owner) else {
            return Err(BadOwner { owner }.into());
        };
        self.terms.insert(owner, U256::ZERO);
        // The last owner takes the free index.
        let count = self.count.get() - U256::ONE;
        let last = self.owners.take(count);
        if U256::from(at) != count {
            self.owners.insert(U256::from(at), last);
        }
        self.count.set(count);
        self.vm().log(OwnerRemoved { owner });
        Ok(())
    }

    fn require(&mut self, threshold: U256) -> Done {
        let owners = self.count.get();
        if threshold.is_zero() || threshold > owners || owners > U256::from(MAX_OWNERS) {
            return Err(BadThreshold { owners, threshold }.into());
        }
        if threshold != self.threshold.get() {
            self.threshold.set(threshold);
            self.vm().log(ThresholdChanged { threshold });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
