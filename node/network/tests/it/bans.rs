//! Consequences of faults.

use crate::support::{eventually, pair, tcp};
use corniche_network::{Channel, Fault};
use std::time::Duration;

#[tokio::test]
async fn invalid_messages_ban_peer() {
    let (mut first, mut second) = pair(tcp(1), tcp(100)).await;
    for _ in 0..4 {
        first.handle.penalise(second.key, Fault::NeverValid);
    }
    assert!(first.handle.is_up(&second.key), "four are forgiven");
    second.send(first.key, Channel::Votes, b"still here".to_vec());
    first.message(second.key, Channel::Votes).await;

    first.handle.penalise(second.key, Fault::NeverValid);
    first.down(second.key).await;
    second.down(first.key).await;
    eventually("it tries again and is refused", || first.handle.stats().general.connections_refused >= 3).await;
    assert_eq!(first.ups_and_downs(), (1, 1));
    assert_eq!(first.handle.stats().general.bans, 1);
    assert_eq!(first.handle.stats().general.faults, 5);
}

#[tokio::test]
async fn ban_ends_for_both_dial_directions() {
    for banning_dials in [false, true] {
        let (mut first, mut second) = (tcp(1), tcp(100));
        for config in [&mut first, &mut second] {
            config.limits.ban = Duration::from_millis(300);
            config.limits.validator_ban = Duration::from_millis(300);
        }
        let (listening, dialling) = pair(first, second).await;
        let (mut banning, mut banned) = if banning_dials { (dialling, listening) } else { (listening, dialling) };
        for _ in 0..5 {
            banning.handle.penalise(banned.key, Fault::NeverValid);
        }
        banning.down(banned.key).await;
        banned.down(banning.key).await;
        banning.up(banned.key).await;
        banned.up(banning.key).await;
        assert_eq!(banning.handle.stats().general.bans, 1);
    }
}

#[tokio::test]
async fn fault_of_unknown_peer_is_recorded() {
    let (first, second) = pair(tcp(1), tcp(2)).await;
    for _ in 0..10 {
        first.handle.penalise(crate::support::key(50), Fault::Garbage);
    }
    assert!(first.handle.is_up(&second.key));
    assert_eq!(first.handle.stats().general.bans, 1);
}

#[tokio::test]
async fn stream_fault_disconnects_without_ban() {
    let (mut first, second) = pair(tcp(1), tcp(2)).await;
    first.handle.penalise(second.key, Fault::Garbage);
    first.down(second.key).await;
    first.up(second.key).await;
    assert_eq!(first.handle.stats().general.bans, 0);
}
