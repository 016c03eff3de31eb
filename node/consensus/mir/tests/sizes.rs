//! The largest messages fit into their bound, which the frames of the network are compared with; and the bounds of parameters.

use corniche_mir::{
    Config,
    message::{
        CheckpointCertificate, EpochCertificate, EpochChange, EpochConfig, EpochNumber, MAX_WINDOW, Message, NewEpoch,
        PreparedCertificate, Proposal, Sn, Votes,
    },
};
use corniche_types::{B256, TimestampMs, ValidatorIndex};
use std::collections::BTreeMap;

const HASH: B256 = B256::repeat_byte(8);

fn votes(size: u16) -> Votes {
    (0..size).map(|member| (ValidatorIndex(member), [6; 64])).collect()
}

fn largest(size: u16, config: &Config) -> Vec<Message> {
    let window = config.window;
    let epoch_config = EpochConfig {
        epoch: EpochNumber(9),
        leaders: (0..size).map(ValidatorIndex).collect(),
        start: Sn(1),
        listed: vec![HASH; window as usize],
        first: Sn(1),
        last: Some(Sn(2)),
    };
    let prepared = |sn| PreparedCertificate { epoch: EpochNumber(1), sn: Sn(sn), digest: HASH, votes: votes(size) };
    let change = EpochChange {
        sender: ValidatorIndex(0),
        target: EpochNumber(9),
        certificate: Some(EpochCertificate { config: epoch_config.clone(), votes: votes(size) }),
        checkpoint: Some(CheckpointCertificate { sn: Sn(1), hash: HASH, votes: votes(size) }),
        prepared: (1..=window).map(prepared).collect(),
        signature: [6; 64],
    };
    let changes = (0..size).map(|member| (ValidatorIndex(member), HASH)).collect();
    let batch = vec![0; config.batch_bytes as usize].into();
    let proposal = Proposal { sn: Sn(1), author: ValidatorIndex(0), time: TimestampMs(1), batch };
    vec![
        Message::EpochChange(Box::new(change)),
        Message::NewEpoch(Box::new(NewEpoch { config: epoch_config, changes })),
        Message::PrePrepare { epoch: EpochNumber(1), proposal, signature: [6; 64] },
        Message::Committed(vec![(Sn(1), HASH); MAX_WINDOW]),
    ]
}

#[test]
fn largest_messages_fit_into_the_bound() {
    let configs = [Config::default(), Config { window: 2, batch_bytes: 1, ..Config::default() }];
    for (size, config) in [1, 4, 64].iter().flat_map(|size| configs.iter().map(move |config| (*size, config))) {
        let sizes: Vec<_> = largest(size, config).iter().map(|message| message.encode().len()).collect();
        assert!(sizes.iter().all(|bytes| *bytes <= config.max_message_bytes(size.into())), "{size}: {sizes:?}");
    }
}

#[test]
fn parameters_have_bounds() {
    let with = |list: &[(&str, u64)]| {
        Config::from_parameters(&list.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect::<BTreeMap<_, _>>())
    };
    assert_eq!(with(&[]), Ok(Config::default()));
    assert_eq!(with(&[("idle_ms", 2_000)]), Ok(Config { idle_ms: 2_000, ..Config::default() }));
    assert!(with(&[("buckets", 1)]).unwrap_err().contains("unknown parameter buckets"));
    assert!(with(&[("window", 1_025)]).is_err());
    assert!(with(&[("window", 100)]).unwrap_err().contains("at least 128"), "two checkpoints");
    assert!(with(&[("retain", 500)]).is_err() && with(&[("timeout_ms", 1_999)]).is_err() && with(&[("idle_ms", 99)]).is_err());
}
