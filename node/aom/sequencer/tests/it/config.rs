//! Configuration files.

use corniche_aom_sequencer::{BackEnd, Config, Secrets, StartError};
use corniche_aom_wire::{ExchangeKey, SigningKey, Suite};
use std::{fs, path::Path};
use zeroize::Zeroizing;

const HM: &str = r#"
listen = "127.0.0.1:0"
[[groups]]
group = 7
chain_id = 86
epoch = 1
suite = 1
key = "sequencer.key"
[[groups.receivers]]
address = "127.0.0.1:1"
exchange_key = "KEY"
"#;

fn parse(text: &str) -> Result<Config, StartError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sequencer.toml");
    let public = hex::encode(ExchangeKey::from_bytes([2; 32]).public());
    fs::write(&path, text.replace("\"KEY\"", &format!("{public:?}"))).unwrap();
    Config::load(&path)
}

fn secrets() -> Secrets {
    [(7, Zeroizing::new([1; 32]))].into()
}

#[test]
fn defaults_are_those_of_the_specification() {
    let config = parse(HM).unwrap();
    assert_eq!((config.sign_every, config.sign_after_us, config.heartbeat_after_us), (32, 100, 1000));
    assert_eq!((config.max_payload_bytes, config.check_digests, config.back_end), (8800, true, BackEnd::Unicast));
    assert!(config.groups[0].key.ends_with("sequencer.key") && config.groups[0].key != Path::new("sequencer.key"));
    assert!(config.core(&secrets()).is_ok());
}

#[test]
fn errors_name_the_group_and_the_remedy() {
    let receivers = "[[groups.receivers]]\naddress = \"127.0.0.1:1\"\nexchange_key = \"KEY\"\n";
    let without_receivers = HM.replace(receivers, "");
    let group = &HM[HM.find("[[groups]]").unwrap()..];
    for (text, expected) in [
        (
            HM.replace("suite = 1", "suite = 3"),
            "group 7: suite 3 has keys of 8 bytes and is only for switches; use suite 1 or 2",
        ),
        (HM.replace("suite = 1", "suite = 6"), "group 7: suite: expected 1, 2, 4 or 5, got 6"),
        (HM.replace("suite = 1", "suite = 0"), "group 7: suite: expected 1, 2, 4 or 5, got 0"),
        (without_receivers.clone(), "group 7: receivers: expected 1 to 64 for suite 1 (SipHash-2-4), got 0"),
        (without_receivers + &receivers.repeat(65), "expected 1 to 64 for suite 1 (SipHash-2-4), got 65"),
        (HM.replace("exchange_key = \"KEY\"", ""), "group 7: receiver 0: exchange_key: expected 64 hex digits, got \"\""),
        (HM.replace("\"KEY\"", "\"00\""), "group 7: receiver 0: exchange_key: expected 64 hex digits, got \"00\""),
        (
            HM.replace("\"KEY\"", &format!("\"{}\"", "00".repeat(32))),
            "group 7: receiver 0: exchange key: the point has low order",
        ),
        (HM.replace("address = \"127.0.0.1:1\"", ""), "group 7: receiver 0: expected an address"),
        (HM.to_owned() + group, "group 7: expected one entry, got two"),
        (format!("back_end = \"multicast\"\n{HM}"), "group 7: multicast: expected an address for the back end \"multicast\""),
        (
            format!("back_end = \"multicast\"\n{HM}").replace("epoch = 1", "epoch = 1\nmulticast = \"10.0.0.1:1\""),
            "group 7: multicast: expected a multicast address, got 10.0.0.1:1",
        ),
        (HM.replace("epoch = 1", "epoch = 1\nmulticast = \"239.1.1.1:1\""), "the back end \"unicast\" does not use it"),
        (format!("sign_every = 0\n{HM}"), "expected at least 1, got 0"),
        (format!("max_payload_bytes = 8801\n{HM}"), "max_payload_bytes: expected at most 8800, got 8801"),
        (format!("back_end = \"pigeon\"\n{HM}"), "pigeon"),
        (format!("adress = 1\n{HM}"), "adress"),
    ] {
        let error = parse(&text).and_then(|config| config.core(&secrets()).map(drop)).unwrap_err().to_string();
        assert!(error.contains(expected), "expected {expected:?} in {error:?}");
    }
    let error = parse(HM).unwrap().core(&Secrets::new()).unwrap_err().to_string();
    assert_eq!(error, "group 7: key: expected a secret key, got none");
}

#[test]
fn public_keys_are_those_of_the_suite() {
    for (number, suite) in [(1, Suite::SipHash64), (4, Suite::Ecdsa), (5, Suite::Ed25519)] {
        let config = parse(&HM.replace("suite = 1", &format!("suite = {number}"))).unwrap();
        let expected = match suite {
            Suite::SipHash64 => ExchangeKey::from_bytes([1; 32]).public().to_vec(),
            _ => SigningKey::from_bytes(suite, &[1; 32]).unwrap().verifying_key().to_bytes(),
        };
        assert_eq!(config.public_keys(&secrets()).unwrap(), [(7, hex::encode(expected))]);
    }
}
