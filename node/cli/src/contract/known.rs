//! What is known of a contract's interface, found out when it is first needed.

use super::{Node, abi::Interface, module, paying};
use alloy_json_abi::Function;
use anyhow::bail;
use corniche_client::Client;
use corniche_types::Address;
use std::cell::OnceCell;

/// A contract on a chain. Its interface is that of `--abi`, or else the one that its code carries.
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

    /// Nothing when the code carries none, or cannot be had: what asks next says why.
    pub fn interface(&self) -> &Interface {
        self.interface.get_or_init(|| {
            let code = self.client.code(self.address).unwrap_or_default();
            Interface(module::abi_of_code(&code).unwrap_or_default())
        })
    }

    /// A function by its signature, or by its name in the interface. Only a name has the code fetched.
    pub fn function(&self, text: &str) -> anyhow::Result<Function> {
        let interface = if text.contains('(') { Interface::nothing() } else { self.interface() };
        if interface.is_empty() && !text.contains('(') {
            let at = self.address;
            match self.client.code(at).map_err(|error| paying::explain(error, interface))?.is_empty() {
                true => bail!("there is no contract at {at}"),
                false => bail!(
                    "the contract at {at} carries no ABI: write the function with its types, for instance '{text}(address)(uint256)', or give --abi"
                ),
            }
        }
        interface.function(text)
    }
}
