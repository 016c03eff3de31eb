//! Assets of transfers: the native currency, or an ERC-20 token.

use anyhow::Context;
use corniche_client::{Call, Client, Draft};
use corniche_types::{Address, U256, keccak256};

/// Gas of a plain transfer.
const NATIVE_GAS: u64 = 21_000;

/// An asset, and the gas limit of a transfer of it.
pub struct Asset {
    /// Contract of an ERC-20 token; `None`: the native currency.
    token: Option<Address>,
    pub gas_limit: u64,
}

impl Asset {
    pub fn native() -> Self {
        Self { token: None, gas_limit: NATIVE_GAS }
    }

    /// An ERC-20 token; `owner` must hold some. The gas limit is a fifth above the estimate for a new recipient, which costs most.
    pub fn erc20(client: &Client, token: Address, owner: Address) -> anyhow::Result<Self> {
        let input = transfer_call(Address::from_word(keccak256("a new recipient")), U256::from(1));
        let call = Call { from: Some(owner), to: Some(token), input: input.into(), ..Call::default() };
        let gas = client.estimate_gas(&call).with_context(|| format!("{owner} cannot transfer tokens of {token}"))?;
        Ok(Self { token: Some(token), gas_limit: gas + gas / 5 })
    }

    pub fn is_native(&self) -> bool {
        self.token.is_none()
    }

    /// Transfer of this amount, without fees and nonce.
    pub fn transfer(&self, to: Address, amount: U256) -> Draft {
        let draft = match self.token {
            None => Draft::transfer(to, amount),
            Some(token) => Draft::call(token, transfer_call(to, amount)),
        };
        Draft { gas_limit: Some(self.gas_limit), ..draft }
    }
}

/// Call data of `transfer(address,uint256)`.
fn transfer_call(to: Address, amount: U256) -> Vec<u8> {
    let selector = &keccak256("transfer(address,uint256)")[..4];
    [selector, to.into_word().as_slice(), &amount.to_be_bytes::<32>()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_transfer_is_a_call_of_the_token() {
        let (token, to) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let asset = Asset { token: Some(token), gas_limit: 50_000 };
        let draft = asset.transfer(to, U256::from(3));
        assert_eq!((draft.to, draft.value, draft.gas_limit), (token.into(), U256::ZERO, Some(50_000)));
        assert_eq!(draft.input.len(), 68);
        assert_eq!((&draft.input[..4], draft.input[67]), ([0xa9, 0x05, 0x9c, 0xbb].as_slice(), 3));
    }
}
