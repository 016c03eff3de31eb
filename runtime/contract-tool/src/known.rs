//! Interface of a deployed contract, loaded on first use.

use super::{abi::Interface, errors, module, options::Node};
use alloy_json_abi::{Function, JsonAbi};
use anyhow::bail;
use corniche_client::Client;
use corniche_types::{Address, B256};
use serde_json::json;
use std::cell::OnceCell;

/// Slot of a proxy with the address of its implementation (ERC-1967).
const IMPLEMENTATION_SLOT: B256 = alloy_primitives::b256!("360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc");

/// Contract on a chain. Its interface is from `--abi`, or else embedded in its code; a proxy's includes that
/// of its implementation.
pub struct Known<'a> {
    client: &'a Client,
    address: Address,
    interface: OnceCell<Interface>,
}

impl<'a> Known<'a> {
    pub fn new(node: &Node, client: &'a Client, address: Address) -> anyhow::Result<Self> {
        let interface = OnceCell::new();
        if let Some(path) = &node.abi {
            let _ = interface.set(Interface::open(path)?);
        }
        Ok(Self { client, address, interface })
    }

    /// Empty if the code has no interface or cannot be read; the next request then reports the reason.
    pub fn interface(&self) -> &Interface {
        self.interface.get_or_init(|| {
            let carried = |address| module::abi_of_code(&self.client.code(address).unwrap_or_default()).unwrap_or_default();
            let mut abi = carried(self.address);
            // A contract with a fallback function may be a proxy.
            if (abi.functions.is_empty() || abi.fallback.is_some())
                && let Some(implementation) = implementation(self.client, self.address)
            {
                let JsonAbi { functions, events, errors, .. } = carried(implementation);
                abi.functions.extend(functions);
                abi.events.extend(events);
                abi.errors.extend(errors);
            }
            Interface(abi)
        })
    }

    /// Finds a function by its signature, or by its name in the interface. Only for a name the code is
    /// fetched.
    pub fn function(&self, text: &str) -> anyhow::Result<Function> {
        let interface = if text.contains('(') { Interface::nothing() } else { self.interface() };
        if interface.is_empty() && !text.contains('(') {
            let at = self.address;
            match self.client.code(at).map_err(|error| errors::explain(error, interface))?.is_empty() {
                true => bail!("there is no contract at {at}"),
                false => bail!(
                    "the contract at {at} carries no ABI: write the function with its types, for instance '{text}(address)(uint256)', or give --abi"
                ),
            }
        }
        interface.function(text)
    }
}

/// Implementation of the proxy at an address, if it is one.
pub fn implementation(client: &Client, address: Address) -> Option<Address> {
    let request = json!([address, IMPLEMENTATION_SLOT, "latest"]);
    let word: B256 = client.transport().request("eth_getStorageAt", request).ok()?;
    Some(Address::from_word(word)).filter(|implementation| !implementation.is_zero())
}
