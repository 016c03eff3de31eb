//! Transactions from the command line: signer, fees and result.

use super::{
    abi::Interface,
    errors::{explain, explain_by},
    trace,
};
use anyhow::{Context, bail};
use corniche_client::{Call, Client, ClientError, Draft, Receipt, Wait};
use corniche_console::{
    dev_accounts::dev_accounts,
    exit::{self, Exit, Failed},
    keystore, secret,
};
use corniche_crypto::EthereumKey;
use corniche_types::{Address, Bytes, U256};
use serde_json::{Value, json};
use std::{path::PathBuf, time::Duration};

/// Signer and limits of a transaction.
#[derive(clap::Args, Debug)]
pub struct Paying {
    #[command(flatten)]
    signer: Signer,
    /// Gas limit; default: an estimate
    #[arg(long, value_name = "GAS")]
    gas: Option<u64>,
    /// Nonce; default: the account's next one
    #[arg(long, value_name = "N")]
    nonce: Option<u64>,
    /// Seconds to wait for the receipt
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

/// Signer. Default: the key in the environment variable CORNICHE_KEY. There is no option for the key itself, because other users of the
/// machine can see command lines, and shells store them.
#[derive(clap::Args, Debug)]
#[group(multiple = false)]
struct SignerKind {
    /// Keystore of the signer: a file in the format of geth and cast, or a name of `corniche account list`
    #[arg(long, value_name = "FILE", env = "CORNICHE_KEYSTORE")]
    keystore: Option<PathBuf>,
    /// File with the private key as hexadecimal, mode 0600, for instance keys/fee.key. CORNICHE_KEY contains the key itself
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Number of one of the ten accounts of `corniche dev`, default 0. Their keys are public, so other chains are rejected
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "0")]
    dev_account: Option<usize>,
}

#[derive(clap::Args, Debug)]
struct Signer {
    #[command(flatten)]
    kind: SignerKind,
    /// File with the keystore's password; default: CORNICHE_PASSWORD, or a prompt
    #[arg(long, value_name = "FILE", requires = "keystore")]
    password_file: Option<PathBuf>,
}

impl Signer {
    fn key(&self, client: &Client) -> anyhow::Result<EthereumKey> {
        let SignerKind { keystore, key_file, dev_account } = &self.kind;
        if let Some(number) = dev_account {
            return dev_key(client, *number);
        }
        if let Some(path) = key_file {
            return secret::read(path, EthereumKey::from_hex);
        }
        if let Some(keystore) = keystore {
            return keystore::open(keystore, self.password_file.as_deref());
        }
        match std::env::var("CORNICHE_KEY") {
            Ok(text) => EthereumKey::from_hex(&text).context("CORNICHE_KEY is not a private key"),
            Err(_) => bail!(
                "who signs? --keystore NAME (`corniche account new NAME` makes one), --key-file FILE, --dev-account on a chain of `corniche dev`, or \
                 the environment variable CORNICHE_KEY"
            ),
        }
    }
}

/// Only for a node that signs for this account itself, as development chains do.
fn dev_key(client: &Client, number: usize) -> anyhow::Result<EthereumKey> {
    let account = dev_accounts().into_iter().nth(number).context("there are ten development accounts, 0 to 9")?;
    let signs_for: Vec<Address> =
        client.transport().request("eth_accounts", json!([])).map_err(|error| explain(error, Interface::nothing()))?;
    if !signs_for.contains(&account.address) {
        bail!(
            "{} is no chain of `corniche dev`, and the keys of development accounts are public: use another",
            client.transport().url()
        );
    }
    Ok(account.key)
}

impl Paying {
    /// Reads the key of the signer, and prompts for a password if it needs one.
    pub fn key(&self, client: &Client) -> anyhow::Result<EthereumKey> {
        self.signer.key(client)
    }

    /// Signs, submits and waits. A reverted transaction is an error, with the reason that `reason` decodes from revert data, if
    /// available.
    pub fn submit(
        &self,
        client: &Client,
        key: &EthereumKey,
        reason: impl Fn(&Bytes) -> Option<String>,
        draft: Draft,
    ) -> anyhow::Result<Receipt> {
        let explain = |error: ClientError| explain_by(error, &reason);
        let draft = Draft { gas_limit: self.gas, nonce: self.nonce, ..draft };
        let hash = client.send(key, &draft).map_err(explain)?;
        exit::note(format_args!("sent {hash}"));
        let receipt = client.wait(hash, Wait::at_most(Duration::from_secs(self.timeout))).map_err(explain)?;
        if receipt.status() {
            return Ok(receipt);
        }
        let failure = trace::failure(client, hash, &reason).unwrap_or_else(|| asked_again(client, key, &draft, &reason));
        let told = format!("`corniche contract trace {hash}` tells where");
        let message = format!("transaction {hash} failed, using {} gas: {failure}\n  {told}", receipt.gas_used);
        Err(Failed::new(Exit::Reverted, message).into())
    }
}

/// Receipts have no revert reason. If the node does not trace transactions, the call is repeated. The state
/// has changed since, so the result is a hint, not a proof.
fn asked_again(client: &Client, key: &EthereumKey, draft: &Draft, reason: &impl Fn(&Bytes) -> Option<String>) -> String {
    let to = draft.to.to().copied();
    let call = Call { from: Some(key.address()), to, value: draft.value, input: draft.input.clone() };
    match client.call(&call) {
        Err(error) => format!("{:#}", explain_by(error, reason)),
        Ok(_) => "it would succeed now; perhaps it ran out of gas".to_owned(),
    }
}

/// Returns the printed fields of a receipt.
pub fn receipt_json(receipt: &Receipt) -> Value {
    json!({
        "transactionHash": receipt.transaction_hash,
        "blockNumber": receipt.block_number,
        "blockHash": receipt.block_hash,
        "gasUsed": receipt.gas_used,
        "contractAddress": receipt.contract_address,
        "logs": receipt.logs().len(),
    })
}

/// Parses an amount in wei, or with a unit.
pub fn wei(text: &str) -> Result<U256, String> {
    amount(text, "wei")
}

/// Parses an amount in whole units of the currency, with decimals, or with another unit.
pub fn whole_units(text: &str) -> Result<U256, String> {
    amount(text, "ether")
}

/// Formats an amount in wei as whole units of the currency, with the decimals that it needs.
pub fn in_whole_units(wei: U256) -> String {
    let text = alloy_primitives::utils::format_ether(wei);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn amount(text: &str, default_unit: &str) -> Result<U256, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => default_unit,
        unit => unit,
    };
    if digits.is_empty() || digits.starts_with('-') {
        return Err(format!("{text} is not an amount"));
    }
    let parsed = alloy_primitives::utils::parse_units(digits, unit).map_err(|error| error.to_string())?;
    Ok(parsed.get_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_default_unit() {
        assert_eq!(wei("1000"), Ok(U256::from(1000)));
        assert_eq!(wei("1.5gwei"), Ok(U256::from(1_500_000_000)));
        assert_eq!(wei("2ether"), Ok(U256::from(2_000_000_000_000_000_000u64)));
        let half = U256::from(500_000_000_000_000_000u64);
        assert_eq!(whole_units("0.5"), Ok(half));
        assert_eq!(whole_units("7wei"), Ok(U256::from(7)));
        for (text, wei) in [("0", U256::ZERO), ("10000", U256::from(10_000_000_000_000_000_000_000u128)), ("0.5", half)] {
            assert_eq!(in_whole_units(wei), text);
        }
        for bad in ["", "ether", "-1", "1 ether", "1parsec", "0x10"] {
            assert!(wei(bad).is_err(), "{bad}");
            assert!(whole_units(bad).is_err(), "{bad}");
        }
    }
}
