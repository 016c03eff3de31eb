//! Names for accounts. An account owns a name for the paid number of days. The name resolves to an address, and can be an
//! account's primary name.
//!
//! ```text
//! commit ── a minute, at most a day ──▶ register ──▶ held ── days paid for ──▶ expired ── 30 days ──▶ free
//!                                                     ▲                          │
//!                                                     └───────── renew ──────────┘
//! ```
//!
//! Registration starts with a commitment to a hash, so that no one who sees a pending registration can register the name first.
//! A name has tenures: each owner has a new one, and records of a name belong to a tenure. So no record of a former owner is
//! valid for the next one, and no cleanup is needed.
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
/// Minimum seconds from commitment to registration: a commitment made after seeing a registration is then too new.
const LEAST_AGE: u64 = 60;
const MAX_AGE: u64 = DAY;
/// Minimum and maximum days of a registration; the latter is also the maximum that a name can be paid ahead.
const LEAST_DAYS: u64 = 30;
const MAX_DAYS: u64 = 3_650;
/// Grace period in seconds: time after expiry in which a name can still be renewed.
const GRACE: u64 = 30 * DAY;
/// Maximum bits of the daily price, so that the price of a term does not overflow.
const PRICE_BITS: usize = 128;

sol! {
    event Committed(bytes32 indexed commitment, address indexed by);
    /// `label` is the name itself, followed by zeros.
    event Registered(bytes32 indexed label, address indexed owner, string name, uint64 expires, uint256 paid);
    event Renewed(bytes32 indexed label, address indexed by, string name, uint64 expires, uint256 paid);
    event Released(bytes32 indexed label, address indexed owner, string name);
    event Offered(bytes32 indexed label, address indexed owner, address indexed to, string name);
    event Transferred(bytes32 indexed label, address indexed from, address indexed to, string name);
    /// Zero means that the name resolves to its owner.
    event AddressChanged(bytes32 indexed label, address indexed account, string name);
    /// Empty means that the account has no primary name.
    event PrimaryNameChanged(address indexed account, string name);
    event Withdrawn(address indexed to, uint256 value);

    /// All data of a name.
    #[derive(Debug, PartialEq, Eq, AbiType)]
    struct Entry {
        /// 0 free, 1 held, 2 expired. Fields without a value are zero.
        uint8 state;
        address owner;
        /// Unix seconds.
        uint64 expires;
        /// The address that it resolves to, while it is held.
        address account;
        /// The account that may accept it, while it is held.
        address heir;
    }

    /// Characters are a to z, 0 to 9 and the hyphen. The position counts bytes from zero.
    #[derive(Debug, PartialEq, Eq)]
    error BadCharacter(uint256 position, string character, uint32 codePoint);
    #[derive(Debug, PartialEq, Eq)]
    error BadLength(uint256 length, uint256 least, uint256 most);
    /// A hyphen must be between two letters or digits.
    #[derive(Debug, PartialEq, Eq)]
    error BadHyphen(uint256 position);
    /// The price is too high: its products would overflow.
    #[derive(Debug, PartialEq, Eq)]
    error BadPrice(uint256 price);
    #[derive(Debug, PartialEq, Eq)]
    error BadTerm(uint64 term, uint64 least, uint64 most);
    /// The zero address cannot own a name or be paid.
    #[derive(Debug, PartialEq, Eq)]
    error ZeroAddress();
    /// Taken at least until this time, or longer after a renewal.
    #[derive(Debug, PartialEq, Eq)]
    error Taken(string name, uint64 until);
    /// There is no such commitment, or it was used.
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
    /// The payee accepts no coins. A caller can pay the exact price instead.
    #[derive(Debug, PartialEq, Eq)]
    error NotPaid(address to, uint256 value);
    #[derive(Debug, PartialEq, Eq)]
    error NotRegistered(string name);
    /// The name can still be renewed.
    #[derive(Debug, PartialEq, Eq)]
    error Expired(string name, uint64 since);
    #[derive(Debug, PartialEq, Eq)]
    error NotOwner(address caller, address owner);
    #[derive(Debug, PartialEq, Eq)]
    error NotOffered(string name, address caller);
    /// A primary name must resolve to the account.
    #[derive(Debug, PartialEq, Eq)]
    error ResolvesElsewhere(string name, address account);
}

sol_storage! {
    #[entrypoint]
    pub struct Registry {
        address treasury;
        /// Price per day, in wei, of a name with five or more characters.
        uint256 price;
        mapping(bytes32 => Name) names;
        /// Time of a commitment. Zero means that there is none, or that it was used.
        mapping(bytes32 => uint64) commitments;
        mapping(address => Primary) primaries;
    }

    /// The first three fields share a word.
    pub struct Name {
        /// Zero means released, or never registered.
        address owner;
        /// Unix seconds, until the year 36812.
        uint40 expires;
        /// Number of the current or last tenure, starting at one.
        uint56 tenure;
        mapping(uint56 => Records) records;
    }

    /// An owner's records in one tenure.
    pub struct Records {
        /// Zero means the owner.
        address account;
        /// The account that may accept the name. Zero means none.
        address heir;
    }

    /// An account's primary name, valid while the name resolves to the account and has this tenure.
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
    /// Does not resolve, and cannot be registered yet.
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
    /// `treasury` gets the fees and has no other rights. `price` is in wei, for a day of a name of five characters or more.
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

    /// Price of this many days: four characters cost ten times as much as five or more, three a hundred times.
    pub fn price(&self, name: String, term: u64) -> Result<U256, RegistryError> {
        Ok(self.price_of(Label::of(&name)?, term))
    }

    /// Returns the hash to commit to. The node learns the name, so use your own node.
    pub fn commitment(&self, name: String, owner: Address, term: u64, secret: B256) -> Result<B256, RegistryError> {
        Ok(self.commitment_of(Label::of(&name)?, owner, term, secret))
    }

    /// Time of a commitment. Zero if there is none, or if it was used.
    pub fn committed(&self, commitment: B256) -> u64 {
        self.commitments.get(commitment).as_limbs()[0]
    }

    /// Returns the address of a name. Reverts instead of returning zero.
    pub fn resolve(&self, name: String) -> Result<Address, RegistryError> {
        Ok(self.target(self.held(&name)?))
    }

    /// Returns an account's primary name if it resolves to the account, otherwise an empty string.
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

    /// Returns all data of a name.
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

    /// Commits to a name without revealing it. Registration is possible from a minute to a day later.
    pub fn commit(&mut self, commitment: B256) -> Done {
        let (now, since) = (self.vm().block_timestamp(), self.committed(commitment));
        // Otherwise anyone who sees a commitment could repeat it, and so reset its time.
        if since != 0 && now <= since + MAX_AGE {
            return Err(AlreadyCommitted { commitment, until: since + MAX_AGE }.into());
        }
        self.commitments.insert(commitment, U64::wrapping_from(now));
        let by = self.vm().msg_sender();
        self.vm().log(Committed { commitment, by });
        Ok(())
    }

    /// Registers a committed name. Any account may call; `term` is in days. Refunds the excess.
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

    /// Adds days to the end of the term. Any account may pay. Nothing else changes.
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

    /// Gives a name up at once. Remaining days are not refunded.
    pub fn release(&mut self, name: String) -> Done {
        let (label, owner) = self.own(&name)?;
        let mut one = self.names.setter(label.0);
        one.owner.set(Address::ZERO);
        one.expires.set(U40::ZERO);
        self.vm().log(Released { label: label.0, owner, name });
        Ok(())
    }

    /// Lets an account become the owner by accepting. Zero withdraws the offer. A name has at most one offer.
    pub fn offer(&mut self, name: String, to: Address) -> Done {
        let (label, owner) = self.own(&name)?;
        let tenure = self.tenure(label);
        self.names.setter(label.0).records.setter(tenure).heir.set(to);
        self.vm().log(Offered { label: label.0, owner, to, name });
        Ok(())
    }

    /// Accepts an offered name. Records of the old owner are void: the name resolves to the new owner.
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

    /// Sets the address of the name. Zero means its owner.
    pub fn set_address(&mut self, name: String, account: Address) -> Done {
        let (label, _) = self.own(&name)?;
        let tenure = self.tenure(label);
        self.names.setter(label.0).records.setter(tenure).account.set(account);
        self.vm().log(AddressChanged { label: label.0, account, name });
        Ok(())
    }

    /// Sets the caller's primary name: a name that resolves to the caller, with any owner. An empty name removes it.
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

    /// Pays all fees to the treasury and returns the amount. Any account may call.
    pub fn withdraw(&mut self) -> Result<U256, RegistryError> {
        // The balance contains only fees: only registrations and renewals accept coins.
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

    // Limbs are used here and where times are stored, because panic messages of checked conversions would add 4 kB of code.
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

    /// Address in the current tenure.
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

    /// Requires a name that is registered and not expired.
    fn held(&self, name: &str) -> Result<Label, RegistryError> {
        let label = Label::of(name)?;
        match self.state(label) {
            State::Held => Ok(label),
            State::Free => Err(NotRegistered { name: name.into() }.into()),
            State::Expired => Err(Expired { name: name.into(), since: self.expires(label) }.into()),
        }
    }

    /// Requires a name that the caller owns.
    fn own(&self, name: &str) -> Result<(Label, Address), RegistryError> {
        let label = self.held(name)?;
        let (caller, owner) = (self.vm().msg_sender(), self.owner(label));
        if caller != owner {
            return Err(NotOwner { caller, owner }.into());
        }
        Ok((label, owner))
    }

    /// Sets a new owner. The new tenure has no records.
    fn begin_tenure(&mut self, label: Label, owner: Address) {
        let mut one = self.names.setter(label.0);
        let tenure = one.tenure.get() + U56::ONE;
        one.tenure.set(tenure);
        one.owner.set(owner);
    }

    /// Hashes name, owner and term, so that others cannot use a revealed secret; chain and contract, so that the commitment is
    /// valid only here; and a secret, so that nobody can guess the name.
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
        if now > since + MAX_AGE {
            return Err(CommitmentTooOld { commitment, since }.into());
        }
        self.commitments.insert(commitment, U64::ZERO);
        Ok(())
    }

    /// Returns the end of a term that starts at `from`.
    fn extended(&self, from: u64, term: u64, least: u64) -> Result<u64, RegistryError> {
        let most = (self.vm().block_timestamp() + MAX_DAYS * DAY).saturating_sub(from) / DAY;
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

    /// Returns the price, if the caller paid at least that.
    fn charge(&self, label: Label, term: u64) -> Result<U256, RegistryError> {
        let (paid, price) = (self.vm().msg_value(), self.price_of(label, term));
        if paid < price {
            return Err(TooLittle { paid, price }.into());
        }
        Ok(price)
    }

    /// Refunds the excess to the caller. Must be the last action of a function, because the payee can run any code.
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
