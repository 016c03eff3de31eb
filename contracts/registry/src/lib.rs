//! Names for accounts. A name belongs to one account for as many days as were paid for, resolves to an address, and can be what an
//! account is called.
//!
//! ```text
//! commit ── a minute, at most a day ──▶ register ──▶ held ── days paid for ──▶ expired ── 30 days ──▶ free
//!                                                     ▲                          │
//!                                                     └───────── renew ──────────┘
//! ```
//!
//! Whoever wants a name first commits to a hash of it, so that nobody who sees the registration on its way can be faster with the same name.
//! A name has tenures: each owner's is another, and what is recorded of a name is recorded of one of its tenures. So nothing that a former
//! owner said is left to the next one, and nothing has to be cleaned up.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

mod label;

use alloc::{string::String, vec::Vec};
use alloy_primitives::{
    aliases::{U40, U56, U64},
    keccak256, Address, B256, U256,
};
use alloy_sol_types::{sol, SolValue};
use label::Label;
use stylus_sdk::call::transfer::transfer_eth;
use stylus_sdk::prelude::*;

corniche_contract::abi!();

const DAY: u64 = 86_400;
/// Seconds between commitment and registration: whoever sees the registration and commits then comes too late.
const LEAST_AGE: u64 = 60;
const MOST_AGE: u64 = DAY;
/// Days that a registration is for, and days that a name is ever paid ahead.
const LEAST_DAYS: u64 = 30;
const MOST_DAYS: u64 = 3_650;
/// Seconds for which a name that expired waits for its owner.
const GRACE: u64 = 30 * DAY;
/// Bits of a price, so that no product of prices overflows.
const PRICE_BITS: usize = 128;

sol! {
    event Committed(bytes32 indexed commitment, address indexed by);
    /// Indexed is the name itself here, followed by zeros.
    event Registered(bytes32 indexed label, address indexed owner, string name, uint64 expires, uint256 paid);
    event Renewed(bytes32 indexed label, address indexed by, string name, uint64 expires, uint256 paid);
    event Released(bytes32 indexed label, address indexed owner, string name);
    event Offered(bytes32 indexed label, address indexed owner, address indexed to, string name);
    event Transferred(bytes32 indexed label, address indexed from, address indexed to, string name);
    /// Zero: the name resolves to its owner.
    event AddressChanged(bytes32 indexed label, address indexed account, string name);
    /// Empty: the account is not called anything.
    event PrimaryNameChanged(address indexed account, string name);
    event Withdrawn(address indexed to, uint256 value);

    /// What there is to know of a name.
    #[derive(Debug, PartialEq, Eq, AbiType)]
    struct Entry {
        /// 0 free, 1 held, 2 expired. Whatever is not there is zero.
        uint8 state;
        address owner;
        /// Unix seconds.
        uint64 expires;
        /// What it resolves to, while it is held.
        address account;
        /// Who may accept it, while it is held.
        address heir;
    }

    /// Characters are a to z, 0 to 9 and the hyphen. The position counts bytes from zero.
    #[derive(Debug, PartialEq, Eq)]
    error BadCharacter(uint256 position, string character, uint32 codePoint);
    #[derive(Debug, PartialEq, Eq)]
    error BadLength(uint256 length, uint256 least, uint256 most);
    /// A hyphen stands between two letters or digits.
    #[derive(Debug, PartialEq, Eq)]
    error BadHyphen(uint256 position);
    /// Nobody pays as much, and its products would overflow.
    #[derive(Debug, PartialEq, Eq)]
    error BadPrice(uint256 price);
    #[derive(Debug, PartialEq, Eq)]
    error BadTerm(uint64 term, uint64 least, uint64 most);
    /// Nobody can own a name, or be paid.
    #[derive(Debug, PartialEq, Eq)]
    error ZeroAddress();
    /// Until then at least; longer if it is renewed.
    #[derive(Debug, PartialEq, Eq)]
    error Taken(string name, uint64 until);
    /// Nobody committed to this, or it was used.
    #[derive(Debug, PartialEq, Eq)]
    error NotCommitted(bytes32 commitment);
    #[derive(Debug, PartialEq, Eq)]
    error AlreadyCommitted(bytes32 commitment, uint64 until);
    #[derive(Debug, PartialEq, Eq)]
    error CommitmentTooNew(bytes32 commitment, uint64 from);
    #[derive(Debug, PartialEq, Eq)]
    error CommitmentTooOld(bytes32 commitment, uint64 since);
    #[derive(Debug, PartialEq, Eq)]
    error TooLittle(uint256 paid, uint256 price);
    /// Takes no coins. Who registers or renews can send the price exactly.
    #[derive(Debug, PartialEq, Eq)]
    error NotPaid(address to, uint256 value);
    #[derive(Debug, PartialEq, Eq)]
    error NotRegistered(string name);
    /// Anybody can renew it still.
    #[derive(Debug, PartialEq, Eq)]
    error Expired(string name, uint64 since);
    #[derive(Debug, PartialEq, Eq)]
    error NotOwner(address caller, address owner);
    #[derive(Debug, PartialEq, Eq)]
    error NotOffered(string name, address caller);
    /// An account is called by a name that resolves to it.
    #[derive(Debug, PartialEq, Eq)]
    error ResolvesElsewhere(string name, address account);
}

sol_storage! {
    #[entrypoint]
    pub struct Registry {
        address treasury;
        /// In wei, of a day of a name of five characters or more.
        uint256 price;
        mapping(bytes32 => Name) names;
        /// When it was committed to; zero: it was not, or has been used.
        mapping(bytes32 => uint64) commitments;
        mapping(address => Primary) primaries;
    }

    /// The first three share a word.
    pub struct Name {
        /// Zero: released, or never registered.
        address owner;
        /// Unix seconds, until the year 36812.
        uint40 expires;
        /// Of the present or the last owner; from one on.
        uint56 tenure;
        mapping(uint56 => Records) records;
    }

    /// What an owner says, in their tenure.
    pub struct Records {
        /// Zero: the owner.
        address account;
        /// Who may become the owner; zero: nobody.
        address heir;
    }

    /// What an account is called, as long as the name resolves to it and its tenure is this one.
    pub struct Primary {
        bytes32 label;
        uint56 tenure;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    Free,
    Held,
    /// Does not resolve, and nobody else can have it yet.
    Expired,
}

#[derive(Debug, PartialEq, Eq, SolidityError)]
pub enum RegistryError {
    BadCharacter(BadCharacter),
    BadLength(BadLength),
    BadHyphen(BadHyphen),
    BadPrice(BadPrice),
    BadTerm(BadTerm),
    ZeroAddress(ZeroAddress),
    Taken(Taken),
    NotCommitted(NotCommitted),
    AlreadyCommitted(AlreadyCommitted),
    CommitmentTooNew(CommitmentTooNew),
    CommitmentTooOld(CommitmentTooOld),
    TooLittle(TooLittle),
    NotPaid(NotPaid),
    NotRegistered(NotRegistered),
    Expired(Expired),
    NotOwner(NotOwner),
    NotOffered(NotOffered),
    ResolvesElsewhere(ResolvesElsewhere),
}

type Done = Result<(), RegistryError>;

#[public]
impl Registry {
    /// `treasury` gets the fees and can do nothing else; `price` is that of a day of a name of five characters or more, in wei.
    #[constructor]
    pub fn constructor(&mut self, treasury: Address, price: U256) -> Done {
        if treasury.is_zero() {
            return Err(ZeroAddress {}.into());
        }
        if price.bit_len() > PRICE_BITS {
            return Err(BadPrice { price }.into());
        }
        self.treasury.set(treasury);
        self.price.set(price);
        Ok(())
    }

    pub fn treasury(&self) -> Address {
        self.treasury.get()
    }

    /// What so many days cost: four characters ten times as much as five or more, three a hundred times.
    pub fn price(&self, name: String, term: u64) -> Result<U256, RegistryError> {
        Ok(self.price_of(Label::of(&name)?, term))
    }

    /// What to commit to. Whoever answers this learns the name, so ask a node of one's own.
    pub fn commitment(&self, name: String, owner: Address, term: u64, secret: B256) -> Result<B256, RegistryError> {
        Ok(self.commitment_of(Label::of(&name)?, owner, term, secret))
    }

    /// When somebody committed to it; zero if nobody did, or it was used.
    pub fn committed(&self, commitment: B256) -> u64 {
        self.commitments.get(commitment).as_limbs()[0]
    }

    /// The address that a name stands for. Fails rather than answer with nobody's.
    pub fn resolve(&self, name: String) -> Result<Address, RegistryError> {
        Ok(self.target(self.held(&name)?))
    }

    /// What an account calls itself, if the name resolves to it; empty otherwise.
    pub fn name_of(&self, account: Address) -> String {
        let primary = self.primaries.getter(account);
        let (label, tenure) = (Label(primary.label.get()), primary.tenure.get());
        let agrees = self.state(label) == State::Held && self.tenure(label) == tenure && self.target(label) == account;
        if agrees {
            label.name()
        } else {
            String::new()
        }
    }

    /// What there is to know of a name.
    pub fn entry(&self, name: String) -> Result<Entry, RegistryError> {
        let label = Label::of(&name)?;
        let state = self.state(label);
        let (mut owner, mut expires) = (self.owner(label), self.expires(label));
        let (mut account, mut heir) = (Address::ZERO, Address::ZERO);
        match state {
            State::Free => (owner, expires) = (Address::ZERO, 0),
            State::Held => (account, heir) = (self.target(label), self.heir(label)),
            State::Expired => {}
        }
        Ok(Entry { state: state as u8, owner, expires, account, heir })
    }

    /// Commits to a name without telling it. Registering works a minute later at the earliest, and a day later at the latest.
    pub fn commit(&mut self, commitment: B256) -> Done {
        let (now, since) = (self.vm().block_timestamp(), self.committed(commitment));
        // Who sees a commitment must not be able to make it younger.
        if since != 0 && now <= since + MOST_AGE {
            return Err(AlreadyCommitted { commitment, until: since + MOST_AGE }.into());
        }
        self.commitments.insert(commitment, U64::wrapping_from(now));
        let by = self.vm().msg_sender();
        self.vm().log(Committed { commitment, by });
        Ok(())
    }

    /// Registers what was committed to, whoever sends it; `term` is in days. What was paid too much comes back.
    #[payable]
    pub fn register(&mut self, name: String, owner: Address, term: u64, secret: B256) -> Done {
        let label = Label::of(&name)?;
        if owner.is_zero() {
            return Err(ZeroAddress {}.into());
        }
        if self.state(label) != State::Free {
            return Err(Taken { name, until: self.expires(label) + GRACE }.into());
        }
        let expires = self.extended(self.vm().block_timestamp(), term, LEAST_DAYS)?;
        let paid = self.charge(label, term)?;
        self.redeem(self.commitment_of(label, owner, term, secret))?;
        self.begin_tenure(label, owner);
        self.names.setter(label.0).expires.set(U40::wrapping_from(expires));
        self.vm().log(Registered { label: label.0, owner, name, expires, paid });
        self.give_back(paid)
    }

    /// Adds days from the end of those paid for, whoever pays. It changes nothing else.
    #[payable]
    pub fn renew(&mut self, name: String, term: u64) -> Done {
        let label = Label::of(&name)?;
        if self.state(label) == State::Free {
            return Err(NotRegistered { name }.into());
        }
        let expires = self.extended(self.expires(label), term, 1)?;
        let paid = self.charge(label, term)?;
        self.names.setter(label.0).expires.set(U40::wrapping_from(expires));
        let by = self.vm().msg_sender();
        self.vm().log(Renewed { label: label.0, by, name, expires, paid });
        self.give_back(paid)
    }

    /// Gives a name up, at once. Days that are left are not paid back.
    pub fn release(&mut self, name: String) -> Done {
        let (label, owner) = self.own(&name)?;
        let mut one = self.names.setter(label.0);
        one.owner.set(Address::ZERO);
        one.expires.set(U40::ZERO);
        self.vm().log(Released { label: label.0, owner, name });
        Ok(())
    }

    /// Lets somebody become the owner by accepting; zero takes the offer back. There is one at a time.
    pub fn offer(&mut self, name: String, to: Address) -> Done {
        let (label, owner) = self.own(&name)?;
        let tenure = self.tenure(label);
        self.names.setter(label.0).records.setter(tenure).heir.set(to);
        self.vm().log(Offered { label: label.0, owner, to, name });
        Ok(())
    }

    /// Takes over a name that was offered. What its owner recorded is gone: it resolves to the new one.
    pub fn accept(&mut self, name: String) -> Done {
        let (label, caller) = (self.held(&name)?, self.vm().msg_sender());
        if self.heir(label) != caller {
            return Err(NotOffered { name, caller }.into());
        }
        let from = self.owner(label);
        self.begin_tenure(label, caller);
        self.vm().log(Transferred { label: label.0, from, to: caller, name });
        Ok(())
    }

    /// What the name resolves to from now on; zero: its owner.
    pub fn set_address(&mut self, name: String, account: Address) -> Done {
        let (label, _) = self.own(&name)?;
        let tenure = self.tenure(label);
        self.names.setter(label.0).records.setter(tenure).account.set(account);
        self.vm().log(AddressChanged { label: label.0, account, name });
        Ok(())
    }

    /// What the caller is called: a name that resolves to it, whoever owns that. Empty: nothing.
    pub fn set_primary_name(&mut self, name: String) -> Done {
        let caller = self.vm().msg_sender();
        let (label, tenure) = if name.is_empty() {
            (B256::ZERO, U56::ZERO)
        } else {
            let label = self.held(&name)?;
            let account = self.target(label);
            if account != caller {
                return Err(ResolvesElsewhere { name, account }.into());
            }
            (label.0, self.tenure(label))
        };
        let mut primary = self.primaries.setter(caller);
        primary.label.set(label);
        primary.tenure.set(tenure);
        self.vm().log(PrimaryNameChanged { account: caller, name });
        Ok(())
    }

    /// Pays all fees to the treasury, whoever asks for it, and returns how much that was.
    pub fn withdraw(&mut self) -> Result<U256, RegistryError> {
        // Nothing else is here: coins come with a registration or a renewal only.
        let (to, value) = (self.treasury.get(), self.vm().balance(self.vm().contract_address()));
        self.vm().log(Withdrawn { to, value });
        self.pay(to, value)?;
        Ok(value)
    }
}

impl Registry {
    fn owner(&self, label: Label) -> Address {
        self.names.getter(label.0).owner.get()
    }

    // By limbs, here and where times are stored: conversions that check bring the words of their panics into the module, four kilobytes.
    fn expires(&self, label: Label) -> u64 {
        self.names.getter(label.0).expires.get().as_limbs()[0]
    }

    fn tenure(&self, label: Label) -> U56 {
        self.names.getter(label.0).tenure.get()
    }

    fn state(&self, label: Label) -> State {
        let (now, expires) = (self.vm().block_timestamp(), self.expires(label));
        if self.owner(label).is_zero() || now >= expires + GRACE {
            State::Free
        } else if now < expires {
            State::Held
        } else {
            State::Expired
        }
    }

    /// Of the present tenure.
    fn target(&self, label: Label) -> Address {
        let one = self.names.getter(label.0);
        let account = one.records.getter(one.tenure.get()).account.get();
        if account.is_zero() {
            one.owner.get()
        } else {
            account
        }
    }

    fn heir(&self, label: Label) -> Address {
        let one = self.names.getter(label.0);
        one.records.getter(one.tenure.get()).heir.get()
    }

    /// A name that somebody has.
    fn held(&self, name: &str) -> Result<Label, RegistryError> {
        let label = Label::of(name)?;
        match self.state(label) {
            State::Held => Ok(label),
            State::Free => Err(NotRegistered { name: name.into() }.into()),
            State::Expired => Err(Expired { name: name.into(), since: self.expires(label) }.into()),
        }
    }

    /// A name that the caller has.
    fn own(&self, name: &str) -> Result<(Label, Address), RegistryError> {
        let label = self.held(name)?;
        let (caller, owner) = (self.vm().msg_sender(), self.owner(label));
        if caller != owner {
            return Err(NotOwner { caller, owner }.into());
        }
        Ok((label, owner))
    }

    /// A new owner, about whose name nothing is recorded yet.
    fn begin_tenure(&mut self, label: Label, owner: Address) {
        let mut one = self.names.setter(label.0);
        let tenure = one.tenure.get() + U56::ONE;
        one.tenure.set(tenure);
        one.owner.set(owner);
    }

    /// The name, the owner and the term, so that whoever sees them on their way can do nothing else with them; the chain and the
    /// contract, so that it counts nowhere else; the secret, so that nobody can guess.
    fn commitment_of(&self, label: Label, owner: Address, term: u64, secret: B256) -> B256 {
        let chain = U256::from(self.vm().chain_id());
        keccak256((chain, self.vm().contract_address(), label.0, owner, term, secret).abi_encode())
    }

    /// Uses a commitment up, if it is neither too new nor too old.
    fn redeem(&mut self, commitment: B256) -> Done {
        let (now, since) = (self.vm().block_timestamp(), self.committed(commitment));
        if since == 0 {
            return Err(NotCommitted { commitment }.into());
        }
        if now < since + LEAST_AGE {
            return Err(CommitmentTooNew { commitment, from: since + LEAST_AGE }.into());
        }
        if now > since + MOST_AGE {
            return Err(CommitmentTooOld { commitment, since }.into());
        }
        self.commitments.insert(commitment, U64::ZERO);
        Ok(())
    }

    /// When a term ends that begins then.
    fn extended(&self, from: u64, term: u64, least: u64) -> Result<u64, RegistryError> {
        let most = (self.vm().block_timestamp() + MOST_DAYS * DAY).saturating_sub(from) / DAY;
        if !(least..=most).contains(&term) {
            return Err(BadTerm { term, least, most }.into());
        }
        Ok(from + term * DAY)
    }

    fn price_of(&self, label: Label, term: u64) -> U256 {
        let times = match label.length() {
            3 => 100,
            4 => 10,
            _ => 1,
        };
        self.price.get() * U256::from(times) * U256::from(term)
    }

    /// The price, if as much was sent along.
    fn charge(&self, label: Label, term: u64) -> Result<U256, RegistryError> {
        let (paid, price) = (self.vm().msg_value(), self.price_of(label, term));
        if paid < price {
            return Err(TooLittle { paid, price }.into());
        }
        Ok(price)
    }

    /// What the caller sent beyond the price. The last thing a function does: whoever is paid can do whatever they like.
    fn give_back(&self, price: U256) -> Done {
        let surplus = self.vm().msg_value() - price;
        if surplus.is_zero() {
            return Ok(());
        }
        self.pay(self.vm().msg_sender(), surplus)
    }

    fn pay(&self, to: Address, value: U256) -> Done {
        transfer_eth(self.vm(), to, value).map_err(|_| NotPaid { to, value }.into())
    }
}

#[cfg(test)]
mod tests;
