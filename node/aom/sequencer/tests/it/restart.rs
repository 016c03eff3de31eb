//! Q5: a restarted sequencer never resumes an epoch.

use crate::common::{World, stop};
use corniche_aom_sequencer::StartError;
use corniche_aom_wire::Suite;
use std::net::UdpSocket;

/// T6
#[test]
fn restart_needs_newer_epoch() {
    for suite in [Suite::SipHash64, Suite::Ed25519] {
        let mut world = World::unicast(suite, 1);
        let sequencer = world.start().unwrap();
        for seq in 1..=3 {
            world.request(&sequencer, b"request");
            assert_eq!(world.receive(0).0.seq, seq);
        }
        stop(sequencer);

        let error = world.start().unwrap_err();
        assert!(matches!(error, StartError::EpochUsed { epoch: 1, used: 1, .. }), "{error}");
        let text = error.to_string();
        assert!(text.starts_with("group 7 of chain 86: epoch 1 is not newer than epoch 1"), "{text}");

        world.config.groups[0].epoch = 2;
        let sequencer = world.start().unwrap();
        world.request(&sequencer, b"request");
        // `receive` checks the epoch, and its key derivation or chain.
        let (header, _) = world.receive(0);
        assert_eq!((header.epoch, header.seq), (2, 1));
        world.check_chain([&header].into_iter());
        stop(sequencer);

        world.config.groups[0].epoch = 1;
        assert!(matches!(world.start(), Err(StartError::EpochUsed { epoch: 1, used: 2, .. })));
    }
}

/// An epoch is used by a start, even if nothing was stamped in it: a crash may follow the first stamp at once.
#[test]
fn start_uses_epoch_without_requests() {
    let world = World::unicast(Suite::SipHash64, 1);
    stop(world.start().unwrap());
    assert!(matches!(world.start(), Err(StartError::EpochUsed { .. })));
}

#[test]
fn second_sequencer_is_refused() {
    let world = World::unicast(Suite::SipHash64, 1);
    let sequencer = world.start().unwrap();
    assert!(matches!(world.start(), Err(StartError::Locked { .. })));
    stop(sequencer);
}

/// A start that fails for another reason uses no epoch.
#[test]
fn failed_start_uses_no_epoch() {
    let mut world = World::unicast(Suite::SipHash64, 1);
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let listen = std::mem::replace(&mut world.config.listen, taken.local_addr().unwrap());
    assert!(matches!(world.start(), Err(StartError::Io { operation: "listen on", .. })));
    world.config.listen = listen;
    world.config.groups[0].receivers[0].exchange_key = None;
    assert!(matches!(world.start(), Err(StartError::Config(_))));
    world.config.groups[0].receivers[0].exchange_key = Some(hex::encode([9; 32]));
    stop(world.start().unwrap());
}

/// Without an active group, no epoch is used.
#[test]
fn inactive_group_uses_no_epoch() {
    let mut world = World::unicast(Suite::SipHash64, 1);
    world.config.groups[0].active = false;
    stop(world.start().unwrap());
    world.config.groups[0].active = true;
    stop(world.start().unwrap());
}
