//! `corniche validator` against one real validator, on a chain with staking.

mod common;

use common::{Node, Terminal};
use corniche_console::{dev_accounts::dev_accounts, secret};
use serde_json::Value;
use std::{fs, process::Command};
use tempfile::TempDir;

/// Multicall3, which has code.
const CONTRACT: &str = "0xcA11bde05977b3631167028862bE2a173976CA11";

/// Terminal in a folder with the keys of two development accounts, beside the node of a new chain with votes at 1,000 units.
struct Staking {
    terminal: Terminal,
    directory: TempDir,
}

impl Staking {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let made = Command::new(env!("CARGO_BIN_EXE_corniche"))
            .args(["genesis", "new", "--validators", "1", "--dev-accounts", "--out", "network"])
            .args(["--staking", "min_validators=1", "vote_wei=1000000000000000000000"])
            .current_dir(&directory)
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let network = directory.path().join("network");
        let config = "genesis = 'genesis.json'\nkeys = 'validator-0/keys'\nrpc = '127.0.0.1:0'\nmetrics = 'off'\n";
        fs::write(network.join("node.toml"), config).unwrap();
        let terminal = Terminal::beside(Node::validator(&network));
        for (name, account) in ["alice", "bob"].into_iter().zip(dev_accounts()) {
            secret::write(&terminal.folder.path().join(name), account.secret).unwrap();
        }
        Self { terminal, directory }
    }

    /// Result of `corniche validator`, signed by an account.
    fn says(&self, signer: &str, words: &str) -> String {
        self.terminal.says(&signed(signer, words))
    }

    /// Message on standard error of a call that the contract refuses.
    fn refuses(&self, signer: &str, words: &str) -> String {
        let (code, message) = self.terminal.refuses(&signed(signer, words));
        assert_eq!(code, 3, "{words}: {message}");
        message
    }

    fn status(&self, words: &str) -> Value {
        let words = format!("validator status --json {words}");
        serde_json::from_str(&self.terminal.says(&words.split_whitespace().collect::<Vec<_>>())).unwrap()
    }
}

fn signed<'w>(signer: &'w str, words: &'w str) -> Vec<&'w str> {
    ["validator"].into_iter().chain(words.split(' ')).chain(["--key-file", signer]).collect()
}

#[test]
fn validator_registers_and_leaves() {
    let staking = Staking::start();
    let terminal = &staking.terminal;
    let genesis = staking.directory.path().join("network/genesis.json");
    let checked = terminal.says(&["genesis", "check", genesis.to_str().unwrap()]);
    assert!(checked.contains("\nstaking       1000 CRN per vote, epochs of 86400000 ms\n"), "{checked}");
    let sitting = staking.status("");
    assert_eq!(
        (&sitting["epoch"], &sitting["members"][0]["votes"], &sitting["members"][1]),
        (&0.into(), &1.into(), &Value::Null)
    );
    assert!(terminal.says(&["validator", "status"]).contains("\nvote   1000 CRN\n"));

    terminal.says(&["keys", "new", "--out", "keys"]);
    let (code, message) = terminal.refuses(&["validator", "status", "--keys", "keys"]);
    assert_eq!((code, message.as_str()), (1, "error: the keys in keys are not registered\n"));
    let message = staking.refuses("alice", "register --keys keys --stake 999.9");
    assert!(message.contains("the stake must be at least 1000 CRN"), "{message}");
    assert_eq!(staking.says("alice", "register --keys keys --stake 1500.5"), "1");
    let message = staking.refuses("alice", "register --keys keys --stake 1500.5");
    assert!(message.contains("a key is registered already"), "{message}");
    let own = staking.status("--keys keys");
    let alice = serde_json::to_value(dev_accounts()[0].address).unwrap();
    assert_eq!((&own["id"], &own["votes"], &own["owner"]), (&1.into(), &0.into(), &alice));
    assert_eq!((&own["bonded"], &own["operator"]), (&"1500500000000000000000".into(), &own["owner"]));

    staking.says("alice", "add 1 100");
    let message = staking.refuses("alice", "unbond 1 601");
    assert!(message.contains("the stake must be at least 1000 CRN"), "{message}");
    let message = staking.refuses("alice", "unbond 1 1601");
    assert!(message.contains("only 1600.5 CRN are bonded"), "{message}");
    staking.says("alice", "unbond 1 600.5");
    let text = terminal.says(&["validator", "status", "1"]);
    assert!(text.contains("\nbonded         1000 CRN\nunbonding      600.5 CRN, of which 0 CRN are free\n"), "{text}");
    // No epoch ends in this version.
    let message = staking.refuses("alice", "withdraw 1");
    assert!(message.contains("no stake is free yet"), "{message}");

    staking.says("alice", "unbond 1 all");
    assert_eq!(staking.status("1")["bonded"], "0");
    let message = staking.refuses("alice", "unbond 1 all");
    assert!(message.contains("the amount must be above 0"), "{message}");
    let message = staking.refuses("alice", "add 7 1000");
    assert!(message.contains("there is no validator 7"), "{message}");
}

#[test]
fn operator_and_owner_change() {
    let staking = Staking::start();
    let terminal = &staking.terminal;
    let [alice, bob] = [0, 1].map(|index| dev_accounts()[index].address.to_string());
    terminal.says(&["keys", "new", "--out", "keys"]);
    let receipt = staking.says("alice", &format!("register --keys keys --stake 1000 --operator {bob} --json"));
    assert_eq!(serde_json::from_str::<Value>(&receipt).unwrap()["id"], 1);

    terminal.says(&["keys", "new", "--out", "new-keys"]);
    staking.says("bob", "rotate 1 --keys new-keys");
    let public: Value =
        serde_json::from_slice(&fs::read(terminal.folder.path().join("new-keys/public.json")).unwrap()).unwrap();
    assert_eq!(staking.status("--keys new-keys")["consensusKey"], public["consensus_key"]);
    assert_eq!(staking.status("--keys keys")["id"], 1, "old keys are found, too");
    let message = staking.refuses("bob", "rotate 1 --keys new-keys");
    assert!(message.contains("the keys were replaced in this epoch already"), "{message}");

    staking.says("bob", "set-endpoints 1 /ip4/192.0.2.7/tcp/9545 \x1b[2J");
    let text = terminal.says(&["validator", "status", "1"]);
    assert!(text.ends_with("\nendpoint       /ip4/192.0.2.7/tcp/9545\nendpoint       \\x1b[2J"), "{text}");
    let message = staking.refuses("bob", "set-endpoints 1 a b c d e");
    assert!(message.contains("at most 4 endpoints"), "{message}");
    let message = staking.refuses("bob", "add 1 1");
    assert!(message.contains("only the owner may do this"), "{message}");
    let message = staking.refuses("alice", &format!("set-fee 1 {CONTRACT}"));
    assert!(message.contains(&format!("{CONTRACT} is a contract")), "{message}");
    staking.says("alice", &format!("set-fee 1 {bob}"));
    staking.says("alice", &format!("set-operator 1 {alice}"));
    let message = staking.refuses("bob", "set-endpoints 1 a");
    assert!(message.contains("only the owner and the operator"), "{message}");

    let message = staking.refuses("bob", "accept 1");
    assert!(message.contains("only the next owner may accept"), "{message}");
    staking.says("alice", &format!("transfer 1 {bob}"));
    staking.says("bob", "accept 1");
    let text = terminal.says(&["validator", "status", "1"]);
    let expected = format!("validator      1\nowner          {bob}\noperator       {bob}\nfee address    {bob}\n");
    assert!(text.starts_with(&expected), "{text}");
}

/// A transfer to the contract's address would be lost there.
#[test]
fn chain_without_staking_is_refused() {
    let terminal = Terminal::new();
    for words in [&["validator", "status"][..], &["validator", "add", "0", "1", "--dev-account"]] {
        let (code, message) = terminal.refuses(words);
        assert_eq!((code, message.as_str()), (1, "error: this chain has no staking contract\n"), "{words:?}");
    }
}
