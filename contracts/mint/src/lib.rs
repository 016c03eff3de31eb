//! Unique tokens that anyone mints until the supply is exhausted. Minters share only the number of tokens.
//! `mint` increments it without a read, so a block full of mints runs in parallel. `mintPlain` reads and writes it, so each
//! mint waits for the one before. Both create tokens under equal rules.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

use alloc::vec::Vec;
use alloy_primitives::{keccak256, Address, B256, U256};
use alloy_sol_types::sol;
use corniche_contract::Counter;
use stylus_sdk::prelude::*;

corniche_contract::abi!();

sol! {
    event Transfer(address indexed from, address indexed to, bytes32 indexed id);

    /// The maximum supply is reached.
    error SoldOut();
    /// The token is not the caller's.
    error NotOwner(bytes32 id);
}

sol_storage! {
    #[entrypoint]
    pub struct Mint {
        uint256 max_supply;
        Counter supply;
        /// Number of tokens an account ever minted, and its next token's number.
        mapping(address => uint256) minted;
        mapping(bytes32 => address) owners;
    }
}

#[derive(SolidityError)]
pub enum MintError {
    SoldOut(SoldOut),
    NotOwner(NotOwner),
}

#[public]
impl Mint {
    #[constructor]
    pub fn constructor(&mut self, max_supply: U256) {
        self.max_supply.set(max_supply);
    }

    pub fn max_supply(&self) -> U256 {
        self.max_supply.get()
    }

    pub fn total_supply(&self) -> U256 {
        self.supply.get()
    }

    pub fn minted_by(&self, account: Address) -> U256 {
        self.minted.get(account)
    }

    pub fn owner_of(&self, id: B256) -> Address {
        self.owners.get(id)
    }

    /// Creates a token for the caller. Counts the supply without a read.
    pub fn mint(&mut self) -> Result<B256, MintError> {
        let limit = self.max_supply.get();
        if !self.supply.add(U256::from(1), limit) {
            return Err(MintError::SoldOut(SoldOut {}));
        }
        Ok(self.hand_out())
    }

    /// Creates a token for the caller. Reads and writes the supply.
    pub fn mint_plain(&mut self) -> Result<B256, MintError> {
        let supply = self.supply.get();
        if supply >= self.max_supply.get() {
            return Err(MintError::SoldOut(SoldOut {}));
        }
        self.supply.set(supply + U256::from(1));
        Ok(self.hand_out())
    }

    /// Destroys a token of the caller, so that another can be minted.
    pub fn burn(&mut self, id: B256) -> Result<(), MintError> {
        let owner = self.vm().msg_sender();
        if self.owners.get(id) != owner || !self.supply.sub(U256::from(1), U256::ZERO) {
            return Err(MintError::NotOwner(NotOwner { id }));
        }
        self.owners.insert(id, Address::ZERO);
        self.vm().log(Transfer { from: owner, to: Address::ZERO, id });
        Ok(())
    }
}

impl Mint {
    /// The id depends on the owner and the owner's own count. Consecutive ids would need a read of the shared counter.
    fn hand_out(&mut self) -> B256 {
        let owner = self.vm().msg_sender();
        let number = self.minted.get(owner);
        self.minted.insert(owner, number + U256::from(1));
        let id = keccak256([owner.as_slice(), &number.to_be_bytes::<32>()].concat());
        self.owners.insert(id, owner);
        self.vm().log(Transfer { from: Address::ZERO, to: owner, id });
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stylus_sdk::testing::*;

    const ALICE: Address = Address::repeat_byte(0xa1);
    const BOB: Address = Address::repeat_byte(0xb0);

    fn contract(vm: &TestVM, max_supply: u64) -> Mint {
        let mut mint = Mint::from(vm);
        mint.constructor(U256::from(max_supply));
        vm.set_sender(ALICE);
        mint
    }

    #[test]
    fn both_variants_mint_same_tokens() {
        let minted = [Mint::mint, Mint::mint_plain].map(|way| {
            let vm = TestVM::default();
            let mut mint = contract(&vm, 10);
            let ids = [ALICE, BOB, ALICE].map(|who| {
                vm.set_sender(who);
                way(&mut mint).ok()
            });
            assert_eq!(mint.total_supply(), U256::from(3));
            assert_eq!(mint.minted_by(ALICE), U256::from(2));
            assert_eq!(ids.map(|id| mint.owner_of(id.unwrap_or_default())), [ALICE, BOB, ALICE]);
            assert_eq!(vm.get_emitted_logs().len(), 3);
            ids
        });
        assert_eq!(minted[0], minted[1]);
        assert!(minted[0][0] != minted[0][1] && minted[0][0] != minted[0][2]);
    }

    #[test]
    fn both_variants_enforce_supply_limit() {
        let vm = TestVM::default();
        let mut mint = contract(&vm, 2);
        assert!(mint.mint().is_ok() && mint.mint_plain().is_ok());
        assert!(matches!(mint.mint(), Err(MintError::SoldOut(_))));
        assert!(matches!(mint.mint_plain(), Err(MintError::SoldOut(_))));
        assert_eq!((mint.total_supply(), mint.max_supply()), (U256::from(2), U256::from(2)));
        assert_eq!(mint.minted_by(ALICE), U256::from(2));
    }

    #[test]
    fn owner_burn_frees_supply() {
        let vm = TestVM::default();
        let mut mint = contract(&vm, 1);
        let id = mint.mint().unwrap_or_default();
        vm.set_sender(BOB);
        assert!(matches!(mint.burn(id), Err(MintError::NotOwner(_))));
        vm.set_sender(ALICE);
        assert!(mint.burn(id).is_ok());
        assert!(matches!(mint.burn(id), Err(MintError::NotOwner(_))));
        assert_eq!((mint.total_supply(), mint.owner_of(id)), (U256::ZERO, Address::ZERO));
        assert!(mint.mint().is_ok_and(|next| next != id));
    }
}
