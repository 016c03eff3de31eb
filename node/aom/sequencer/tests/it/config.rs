//! Configuration files, and groups that are out of range.

use crate::common::group;
use corniche_aom_sequencer::{BackEnd, Config, Core, Group, StartError, Timing, public_key};
use corniche_aom_wire::{ExchangeKey, SigningKey, Suite};
use std::{fs, net::SocketAddr, path::Path, time::Duration};

const FILE: &str = r#"
listen = "127.0.0.1:0"
[[groups]]
genesis = "genesis.json"
key = "sequencer.key"
receivers = ["127.0.0.1:1", "127.0.0.1:2"]
"#;

fn parse(text: &str) -> Result<Config, StartError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sequencer.toml");
    fs::write(&path, text).unwrap();
    Config::load(&path)
}

fn destinations(text: &str) -> Result<Vec<SocketAddr>, StartError> {
    parse(text).and_then(|config| config.groups[0].destinations(config.back_end, 2))
}

#[test]
fn defaults_are_those_of_the_specification() {
    let config = parse(FILE).unwrap();
    assert_eq!((config.sign_every, config.sign_after_us, config.heartbeat_after_us), (32, 100, 1000));
    assert_eq!((config.max_payload_bytes, config.back_end, config.admin), (None, BackEnd::Unicast, None));
    for (path, name) in [(&config.groups[0].key, "sequencer.key"), (&config.groups[0].genesis, "genesis.json")] {
        assert!(path.ends_with(name) && path != Path::new(name), "{path:?} is relative to the file");
    }
    let addresses = ["127.0.0.1:1", "127.0.0.1:2"].map(|address| address.parse().unwrap());
    assert_eq!(destinations(FILE).unwrap(), addresses);
}

#[test]
fn multicast_replaces_receivers() {
    let receivers = "receivers = [\"127.0.0.1:1\", \"127.0.0.1:2\"]";
    let multicast = FILE.replace(receivers, "multicast = \"239.1.1.1:1\"");
    for back_end in ["multicast", "gso"] {
        let found = destinations(&format!("back_end = {back_end:?}\n{multicast}")).unwrap();
        assert_eq!(found, ["239.1.1.1:1".parse().unwrap()]);
    }
    assert_eq!(destinations(&format!("back_end = \"gso\"\n{FILE}")).unwrap().len(), 2);
}

#[test]
fn errors_name_the_remedy() {
    let with = |line: &str| FILE.replace("receivers", &format!("{line}\nreceivers"));
    for (text, expected) in [
        (FILE.replace(", \"127.0.0.1:2\"", ""), "receivers: expected 2 addresses, one for each validator in the order of the"),
        (FILE.replace("\"127.0.0.1:2\"", "\"host:2\""), "invalid socket address"),
        (
            format!("back_end = \"multicast\"\n{FILE}"),
            "multicast: expected an address for the back ends \"multicast\" and \"xdp\", got none",
        ),
        (
            format!("back_end = \"multicast\"\n{}", with("multicast = \"10.0.0.1:1\"")),
            "multicast: expected a multicast address, got 10.0.0.1:1",
        ),
        (
            format!("back_end = \"gso\"\n{}", with("multicast = \"239.1.1.1:1\"")),
            "receivers: packets go to the multicast address; remove one of both",
        ),
        (with("multicast = \"239.1.1.1:1\""), "the back end \"unicast\" does not use it"),
        (format!("sign_every = 0\n{FILE}"), "sign_every: expected 1 to 64, got 0"),
        (format!("sign_every = 65\n{FILE}"), "sign_every: expected 1 to 64, got 65"),
        (format!("sign_after_us = 0\n{FILE}"), "expected at least 1, got 0"),
        (format!("max_payload_bytes = 8801\n{FILE}"), "max_payload_bytes: expected at most 8800, got 8801"),
        (format!("back_end = \"pigeon\"\n{FILE}"), "pigeon"),
        (format!("back_end = \"xdp\"\n{FILE}"), "xdp: expected a table with `interface`"),
        (format!("{FILE}[xdp]\ninterface = \"lo\"\n"), "only the back end \"xdp\" uses it"),
        (
            format!("back_end = \"xdp\"\n{FILE}[xdp]\ninterface = \"lo\"\n"),
            if cfg!(feature = "xdp") { "multicast: expected an address" } else { "built without \"xdp\"" },
        ),
        (format!("adress = 1\n{FILE}"), "adress"),
        // Keys of earlier versions: the genesis has these values.
        (with("epoch = 1"), "epoch"),
        (with("suite = 1"), "suite"),
    ] {
        let error = destinations(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "expected {expected:?} in {error:?}");
    }
}

#[test]
fn groups_out_of_range_are_refused() {
    let good = |suite| group(suite, 4, vec!["127.0.0.1:1".parse().unwrap()]);
    let hm = || good(Suite::SipHash64);
    let address = hm().destinations[0];
    let add =
        |group: Group| Core::new(Timing { sign_after: Duration::ZERO, heartbeat_after: Duration::ZERO }, 32).add(group, None);
    for suite in [Suite::SipHash64, Suite::SipHash128, Suite::Ecdsa, Suite::Ed25519] {
        assert!(add(good(suite)).is_ok());
    }
    for (group, expected) in [
        (Group { suite: Suite::HalfSipHash64, ..hm() }, "group 7: suite 3 has keys of 8 bytes and is only for switches; use"),
        (Group { exchange_keys: vec![], ..hm() }, "group 7: receivers: expected 1 to 64 keys for suite 1 (SipHash-2-4), got 0"),
        (Group { exchange_keys: vec![[9; 32]; 65], ..hm() }, "expected 1 to 64 keys for suite 1 (SipHash-2-4), got 65"),
        (Group { exchange_keys: vec![[9; 32], [0; 32]], ..hm() }, "group 7: receiver 1: exchange key: the point has low order"),
        (Group { destinations: vec![], ..hm() }, "group 7: receivers: expected 1 to 256 addresses, got 0"),
        (Group { destinations: vec![address; 257], ..hm() }, "group 7: receivers: expected 1 to 256 addresses, got 257"),
        (Group { index: 1, ..hm() }, "group 7: index: expected less than 1 sequencers, got 1"),
        (Group { max_payload_bytes: 8801, ..hm() }, "group 7: max_payload_bytes: expected at most 8800, got 8801"),
        (Group { secret: [0; 32].into(), ..good(Suite::Ecdsa) }, "group 7: key: not a key of suite 4"),
    ] {
        let error = add(group).unwrap_err().to_string();
        assert!(error.contains(expected), "expected {expected:?} in {error:?}");
    }
}

#[test]
fn public_keys_are_those_of_the_suite() {
    let secret = [1; 32];
    let exchange = ExchangeKey::from_bytes(secret).public().to_vec();
    assert_eq!(public_key(Suite::SipHash64, &secret), Ok(exchange.clone()));
    assert_eq!(public_key(Suite::SipHash128, &secret), Ok(exchange));
    for suite in [Suite::Ecdsa, Suite::Ed25519] {
        let expected = SigningKey::from_bytes(suite, &secret).unwrap().verifying_key().to_bytes();
        assert_eq!(public_key(suite, &secret), Ok(expected));
    }
}
