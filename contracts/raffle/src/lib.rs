//! A draw by unpredictable randomness: tickets first, randomness later.
//!
//! Buyers do not know the drawn number, because a later block creates it. The drawer does know it, so any account may draw: a
//! caller can revert an unfavourable draw, but cannot stop others from drawing.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

use alloc::vec::Vec;
use alloy_primitives::{keccak256, Address, U256};
use alloy_sol_types::sol;
use corniche_contract::block_randomness;
use stylus_sdk::call::transfer::transfer_eth;
use stylus_sdk::prelude::*;

corniche_contract::abi!();

sol! {
    event Bought(address indexed by, uint256 ticket);
    event Drawn(address indexed winner, uint256 ticket);

    #[derive(Debug, PartialEq, Eq)]
    error WrongPrice(uint256 paid, uint256 price);
    /// Tickets are sold before this time, and drawn after it.
    #[derive(Debug, PartialEq, Eq)]
    error Closed(uint256 since);
    #[derive(Debug, PartialEq, Eq)]
    error NotClosed(uint256 until);
    /// There are no tickets, or the winner is drawn already.
    #[derive(Debug, PartialEq, Eq)]
    error NothingToDraw();
    /// There is no winner yet, or the winner accepts no coins.
    #[derive(Debug, PartialEq, Eq)]
    error NotPaid();
}

sol_storage! {
    #[entrypoint]
    pub struct Raffle {
        /// Price of a ticket, in wei.
        uint256 price;
        /// Seconds since 1970. From then on the sale is closed and the winner can be drawn.
        uint256 closes;
        address[] tickets;
        /// Zero before the draw.
        address winner;
    }
}

#[derive(Debug, PartialEq, Eq, SolidityError)]
pub enum RaffleError {
    WrongPrice(WrongPrice),
    Closed(Closed),
    NotClosed(NotClosed),
    NothingToDraw(NothingToDraw),
    NotPaid(NotPaid),
}

#[public]
impl Raffle {
    #[constructor]
    pub fn constructor(&mut self, price: U256, closes: U256) {
        self.price.set(price);
        self.closes.set(closes);
    }

    pub fn price(&self) -> U256 {
        self.price.get()
    }

    pub fn closes(&self) -> U256 {
        self.closes.get()
    }

    /// Number of tickets sold.
    pub fn tickets(&self) -> U256 {
        U256::from(self.tickets.len())
    }

    pub fn winner(&self) -> Address {
        self.winner.get()
    }

    /// Buys a ticket for the caller.
    #[payable]
    pub fn buy(&mut self) -> Result<(), RaffleError> {
        let (paid, price, closes) = (self.vm().msg_value(), self.price.get(), self.closes.get());
        if U256::from(self.vm().block_timestamp()) >= closes {
            return Err(Closed { since: closes }.into());
        }
        if paid != price {
            return Err(WrongPrice { paid, price }.into());
        }
        let by = self.vm().msg_sender();
        let ticket = self.tickets();
        self.tickets.push(by);
        self.vm().log(Bought { by, ticket });
        Ok(())
    }

    /// Draws the winner after the sale. Any account may call.
    pub fn draw(&mut self) -> Result<(), RaffleError> {
        let closes = self.closes.get();
        if U256::from(self.vm().block_timestamp()) < closes {
            return Err(NotClosed { until: closes }.into());
        }
        // Hashed with the raffle's address, so that raffles drawn in one block differ.
        let drawn = keccak256([block_randomness().as_slice(), self.vm().contract_address().as_slice()].concat());
        let Some(ticket) = U256::from_be_bytes(drawn.0).checked_rem(self.tickets()) else {
            return Err(NothingToDraw {}.into());
        };
        let Some(winner) = self.tickets.get(ticket).filter(|_| self.winner.get().is_zero()) else {
            return Err(NothingToDraw {}.into());
        };
        self.winner.set(winner);
        self.vm().log(Drawn { winner, ticket });
        Ok(())
    }

    /// Pays the whole balance to the winner. Any account may call.
    pub fn pay(&mut self) -> Result<(), RaffleError> {
        let (winner, prize) = (self.winner.get(), self.vm().balance(self.vm().contract_address()));
        if winner.is_zero() {
            return Err(NotPaid {}.into());
        }
        transfer_eth(self.vm(), winner, prize).map_err(|_| NotPaid {}.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::B256;
    use corniche_contract::set_block_randomness;
    use stylus_sdk::testing::*;

    const PEOPLE: [Address; 3] = [Address::repeat_byte(0xa1), Address::repeat_byte(0xb0), Address::repeat_byte(0xca)];

    /// Each of them has a ticket.
    fn raffle(vm: &TestVM) -> Raffle {
        let mut raffle = Raffle::from(vm);
        vm.set_block_timestamp(1_000);
        raffle.constructor(U256::from(5), U256::from(2_000));
        vm.set_value(U256::from(5));
        for who in PEOPLE {
            vm.set_sender(who);
            raffle.buy().unwrap();
        }
        vm.set_value(U256::ZERO);
        raffle
    }

    #[test]
    fn block_randomness_picks_any_ticket() {
        let mut won = [0; 3];
        for seed in 0..60 {
            let vm = TestVM::default();
            let mut raffle = raffle(&vm);
            vm.set_block_timestamp(2_000);
            set_block_randomness(B256::with_last_byte(seed));
            assert_eq!(raffle.draw(), Ok(()));
            won[PEOPLE.iter().position(|who| *who == raffle.winner()).unwrap()] += 1;
            assert_eq!(raffle.draw(), Err(NothingToDraw {}.into()), "once");
        }
        assert!(won.iter().all(|times| *times > 5), "{won:?}");
    }

    #[test]
    fn tickets_have_price_and_deadline() {
        let vm = TestVM::default();
        let mut raffle = raffle(&vm);
        assert_eq!(raffle.buy(), Err(WrongPrice { paid: U256::ZERO, price: U256::from(5) }.into()));
        assert_eq!(raffle.draw(), Err(NotClosed { until: U256::from(2_000) }.into()));
        assert_eq!(raffle.pay(), Err(NotPaid {}.into()));
        vm.set_block_timestamp(2_000);
        vm.set_value(U256::from(5));
        assert_eq!(raffle.buy(), Err(Closed { since: U256::from(2_000) }.into()));
    }
}
