//! `corniche validator`: stake, keys and accounts of a validator in the staking contract, over JSON-RPC.

mod contract;
mod refusal;
mod status;

use crate::keys;
use alloy_sol_types::{SolCall, SolEvent};
use anyhow::Context;
use clap::Subcommand;
use contract::{Chain, Contract};
use corniche_client::{Draft, Receipt};
use corniche_console::exit;
use corniche_contract_tool::{Paying, explain_by, receipt_json, whole_units};
use corniche_crypto::{ConsensusKey, EthereumKey};
use corniche_service::ValidatorKeys;
use corniche_staking::{
    SigningKeys,
    interface::{Staking, SubmittedKeys},
    sign_keys,
};
use corniche_types::{Address, STAKING_ADDRESS, U256};
use std::path::{Path, PathBuf};

/// Register a validator, and manage its stake and keys, on a chain with staking
///
/// Amounts are in whole units of the currency, with decimals. `register` prints the new validator's id, the other commands that send a
/// transaction print its hash. On chains with Mahi-Mahi the first committee stays in this version.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Register a validator that the signer owns, and print its id
    ///
    /// Example: corniche validator register --keys keys --stake 10000 --keystore alice
    Register {
        /// Directory with the validator's keys (`corniche keys new`)
        #[arg(long, value_name = "DIR")]
        keys: PathBuf,
        /// Stake to send, in whole units of the currency
        #[arg(long, value_name = "UNITS", value_parser = whole_units)]
        stake: U256,
        /// Account that receives fees and rewards; default: the fee address of the keys
        #[arg(long, value_name = "ADDRESS")]
        fee: Option<Address>,
        /// Account that may change keys and endpoints, beside the owner; default: the owner
        #[arg(long, value_name = "ADDRESS")]
        operator: Option<Address>,
        #[command(flatten)]
        sender: Sender,
    },
    /// Add to the stake; by the owner
    Add {
        #[arg(value_name = "ID")]
        id: u32,
        #[arg(value_name = "UNITS", value_parser = whole_units)]
        amount: U256,
        #[command(flatten)]
        sender: Sender,
    },
    /// Move stake to the queue, from which it can be withdrawn once it is free; by the owner
    ///
    /// The rest must be nothing, or enough for a vote.
    Unbond {
        #[arg(value_name = "ID")]
        id: u32,
        /// Amount in whole units of the currency, or `all`
        #[arg(value_name = "UNITS", value_parser = unbonded)]
        amount: Unbonded,
        #[command(flatten)]
        sender: Sender,
    },
    /// Withdraw the stake that is free; by the owner
    ///
    /// A validator without any stake is deleted.
    Withdraw {
        #[arg(value_name = "ID")]
        id: u32,
        #[command(flatten)]
        sender: Sender,
    },
    /// Replace the keys from the next committee on; by the owner, or once an epoch by the operator
    Rotate {
        #[arg(value_name = "ID")]
        id: u32,
        /// Directory with the new keys
        #[arg(long, value_name = "DIR")]
        keys: PathBuf,
        #[command(flatten)]
        sender: Sender,
    },
    /// Publish the addresses of the node, at most 4; by the owner or the operator
    ///
    /// Example: corniche validator set-endpoints 4 /ip4/192.0.2.7/tcp/9545
    SetEndpoints {
        #[arg(value_name = "ID")]
        id: u32,
        /// Multiaddresses; none deletes those that are published
        #[arg(value_name = "MULTIADDRESS")]
        endpoints: Vec<String>,
        #[command(flatten)]
        sender: Sender,
    },
    /// Set the account that receives fees and rewards; by the owner
    SetFee {
        #[arg(value_name = "ID")]
        id: u32,
        #[arg(value_name = "ADDRESS")]
        fee: Address,
        #[command(flatten)]
        sender: Sender,
    },
    /// Set the account that may change keys and endpoints; by the owner
    SetOperator {
        #[arg(value_name = "ID")]
        id: u32,
        #[arg(value_name = "ADDRESS")]
        operator: Address,
        #[command(flatten)]
        sender: Sender,
    },
    /// Name the next owner, who has to accept; by the owner
    Transfer {
        #[arg(value_name = "ID")]
        id: u32,
        #[arg(value_name = "ADDRESS")]
        to: Address,
        #[command(flatten)]
        sender: Sender,
    },
    /// Become the owner and the operator; by the next owner
    Accept {
        #[arg(value_name = "ID")]
        id: u32,
        #[command(flatten)]
        sender: Sender,
    },
    /// Print a validator, or the epoch and its committee
    ///
    /// JSON has amounts in wei and times in ms.
    Status {
        #[arg(value_name = "ID")]
        id: Option<u32>,
        /// Directory of a validator's keys, instead of its id
        #[arg(long, value_name = "DIR", conflicts_with = "id")]
        keys: Option<PathBuf>,
        #[command(flatten)]
        chain: Chain,
    },
}

#[derive(clap::Args, Debug)]
struct Sender {
    #[command(flatten)]
    paying: Paying,
    #[command(flatten)]
    chain: Chain,
}

/// Runs `corniche validator`.
pub fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Register { keys, stake, fee, operator, sender } => {
            let keys = keys::load(&keys)?;
            let account = sender.open()?;
            let owner = account.key.address();
            let call = Staking::registerCall {
                keys: account.sign(&keys, owner)?,
                fee: fee.unwrap_or(keys.fee_address),
                operator: operator.unwrap_or(owner),
            };
            account.register(&call, stake)
        }
        Command::Add { id, amount, sender } => sender.open()?.run(&Staking::addCall { id }, amount),
        Command::Unbond { id, amount, sender } => {
            let account = sender.open()?;
            let amount = match amount {
                Unbonded::Amount(amount) => amount,
                Unbonded::All => account.contract.view(&Staking::validatorCall { id })?.bonded,
            };
            account.run(&Staking::unbondCall { id, amount }, U256::ZERO)
        }
        Command::Withdraw { id, sender } => sender.open()?.run(&Staking::withdrawCall { id }, U256::ZERO),
        Command::Rotate { id, keys, sender } => {
            let keys = keys::load(&keys)?;
            let account = sender.open()?;
            // The operator may be the sender.
            let owner = account.contract.view(&Staking::validatorCall { id })?.owner;
            account.run(&Staking::rotateCall { id, keys: account.sign(&keys, owner)? }, U256::ZERO)
        }
        Command::SetEndpoints { id, endpoints, sender } => {
            let endpoints = endpoints.join("\n").into_bytes().into();
            sender.open()?.run(&Staking::setEndpointsCall { id, endpoints }, U256::ZERO)
        }
        Command::SetFee { id, fee, sender } => sender.open()?.run(&Staking::setFeeCall { id, fee }, U256::ZERO),
        Command::SetOperator { id, operator, sender } => {
            sender.open()?.run(&Staking::setOperatorCall { id, operator }, U256::ZERO)
        }
        Command::Transfer { id, to, sender } => sender.open()?.run(&Staking::transferOwnershipCall { id, to }, U256::ZERO),
        Command::Accept { id, sender } => sender.open()?.run(&Staking::acceptOwnershipCall { id }, U256::ZERO),
        Command::Status { id, keys, chain } => {
            let contract = chain.contract();
            let id = match keys {
                Some(directory) => Some(registered_id(&contract, &directory)?),
                None => id,
            };
            let (text, json) = match id {
                Some(id) => status::Member::load(&contract, id).map(|it| (it.to_text(&chain.currency), it.to_json()))?,
                None => status::Sitting::load(&contract).map(|it| (it.to_text(&chain.currency), it.to_json()))?,
            };
            exit::result(if chain.json { format!("{json:#}") } else { text });
            Ok(())
        }
    }
}

fn registered_id(contract: &Contract<'_>, directory: &Path) -> anyhow::Result<u32> {
    let public = keys::read_public(&directory.join("public.json"))?;
    let found = contract.view(&Staking::idOfCall { keyHash: corniche_types::keccak256(public.consensus_key) })?;
    found.found.then_some(found.id).with_context(|| format!("the keys in {} are not registered", directory.display()))
}

/// Stake to unbond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unbonded {
    All,
    Amount(U256),
}

fn unbonded(text: &str) -> Result<Unbonded, String> {
    match text {
        "all" => Ok(Unbonded::All),
        _ => whole_units(text).map(Unbonded::Amount),
    }
}

impl Sender {
    /// Fails on a chain without the contract, where the value of a call would be lost.
    fn open(&self) -> anyhow::Result<Account<'_>> {
        let contract = self.chain.contract();
        contract.epoch()?;
        let key = self.paying.key(&contract.client)?;
        Ok(Account { paying: &self.paying, contract, key })
    }
}

/// An account that calls the contract.
struct Account<'a> {
    paying: &'a Paying,
    contract: Contract<'a>,
    key: EthereumKey,
}

impl Account<'_> {
    /// Signs a validator's keys for its owner on this chain.
    fn sign(&self, keys: &ValidatorKeys, owner: Address) -> anyhow::Result<SubmittedKeys> {
        let stake = keys.stake.as_ref().context("coin-seed.key is missing: create keys with `corniche keys new`")?;
        let chain_id = self.contract.client.chain_id().map_err(|error| explain_by(error, &|_| None))?;
        let network = ConsensusKey::from_seed(keys.network.seed());
        let secrets = SigningKeys { consensus: &keys.consensus, bls: &keys.bls, network: &network, coin: stake.coin.public() };
        Ok(sign_keys(&secrets, owner, chain_id))
    }

    fn send(&self, call: &impl SolCall, value: U256) -> anyhow::Result<Receipt> {
        let draft = Draft { value, ..Draft::call(STAKING_ADDRESS, call.abi_encode()) };
        self.paying.submit(&self.contract.client, &self.key, |data| self.contract.refusal(data), draft)
    }

    fn run(&self, call: &impl SolCall, value: U256) -> anyhow::Result<()> {
        let receipt = self.send(call, value)?;
        exit::result(match self.contract.chain.json {
            true => format!("{:#}", receipt_json(&receipt)),
            false => receipt.transaction_hash.to_string(),
        });
        Ok(())
    }

    fn register(&self, call: &Staking::registerCall, stake: U256) -> anyhow::Result<()> {
        let receipt = self.send(call, stake)?;
        let logs = receipt.logs().iter().filter(|log| log.address() == STAKING_ADDRESS);
        let registered = logs.filter_map(|log| Staking::Registered::decode_log_data(log.data()).ok()).next();
        let id = registered.context("the receipt has no event Registered")?.id;
        exit::result(match self.contract.chain.json {
            true => {
                let mut printed = receipt_json(&receipt);
                printed["id"] = id.into();
                format!("{printed:#}")
            }
            false => id.to_string(),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unbonded_amount_is_number_or_all() {
        assert_eq!(unbonded("all"), Ok(Unbonded::All));
        assert_eq!(unbonded("1.5"), Ok(Unbonded::Amount(U256::from(1_500_000_000_000_000_000u64))));
        for bad in ["", "ALL", "-1", "half"] {
            assert!(unbonded(bad).is_err(), "{bad}");
        }
    }
}
