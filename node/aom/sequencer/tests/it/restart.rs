//! Q5: epochs begin only when the receivers ask for them, and never twice.

use crate::common::{CHAIN_ID, GROUP, World, epoch_start, stop, wait_until};
use corniche_aom_sequencer::{DropReason, EpochMarks, Group, GroupEpoch, Sequencer, StartError};
use corniche_aom_wire::{EpochStart, Suite};
use std::{fs, net::UdpSocket};

/// Sends a datagram that the sequencer refuses for this reason.
fn expect_refusal(world: &World, sequencer: &Sequencer, datagram: &[u8], reason: DropReason) {
    let (before, begun) = (sequencer.metrics().dropped(reason), sequencer.metrics().begun(GROUP));
    world.send(sequencer, datagram);
    await_dropped(sequencer, reason, before + 1);
    assert_eq!(sequencer.metrics().begun(GROUP), begun);
}

/// Waits until the writer has dropped this many datagrams for a reason.
fn await_dropped(sequencer: &Sequencer, reason: DropReason, count: u64) {
    wait_until(|| sequencer.metrics().dropped(reason) >= count);
    assert_eq!(sequencer.metrics().dropped(reason), count);
}

/// T6: a process that is restarted in the middle of an epoch is on standby until the next epoch.
#[test]
fn restart_needs_newer_epoch() {
    for suite in [Suite::SipHash64, Suite::Ed25519] {
        let mut world = World::unicast(suite, 1);
        let sequencer = world.serve();
        for seq in 2..=4 {
            world.request(&sequencer, b"request");
            assert_eq!(world.receive(0).0.seq, seq);
        }
        stop(sequencer);

        let sequencer = world.start().unwrap();
        world.request(&sequencer, b"request");
        await_dropped(&sequencer, DropReason::Standby, 1);
        expect_refusal(&world, &sequencer, &epoch_start(0), DropReason::Used);
        world.epoch = 1;
        world.begin(&sequencer);
        world.request(&sequencer, b"request");
        // `receive` checks the epoch, and its key derivation.
        assert_eq!(world.receive(0).0.seq, 2);

        // A later epoch replaces it at once.
        world.epoch = 5;
        world.begin(&sequencer);
        world.request(&sequencer, b"request");
        assert_eq!(world.receive(0).0.seq, 2);
        assert_eq!((sequencer.metrics().epoch(GROUP), sequencer.metrics().begun(GROUP)), (Some(5), 2));
        for used in [0, 1, 4] {
            expect_refusal(&world, &sequencer, &epoch_start(used), DropReason::Used);
        }
        stop(sequencer);
    }
}

/// Two sequencers of one genesis serve alternate epochs. The second one takes over when the first one has stopped.
#[test]
fn two_sequencers_alternate() {
    let mut worlds = [0, 1].map(|index| {
        let mut world = World::unicast(Suite::SipHash128, 2);
        (world.sequencers, world.index) = (2, index);
        world
    });
    let sequencers = worlds.each_ref().map(|world| world.start().unwrap());
    for epoch in 0..6 {
        let (own, other) = (epoch as usize % 2, (epoch as usize + 1) % 2);
        expect_refusal(&worlds[own], &sequencers[other], &epoch_start(epoch), DropReason::NotMine);
        worlds[own].epoch = epoch;
        worlds[own].begin(&sequencers[own]);
        worlds[own].request(&sequencers[own], b"request");
        for receiver in [0, 1] {
            assert_eq!(worlds[own].receive(receiver).0.seq, 2);
        }
    }
    let epochs = sequencers.each_ref().map(|sequencer| sequencer.metrics().epoch(GROUP));
    assert_eq!(epochs, [Some(4), Some(5)]);
    sequencers.into_iter().for_each(stop);
}

/// The process dies after the mark and before the first stamp: the epoch is wasted, and the next one begins.
#[test]
fn crash_after_mark_wastes_epoch() {
    let mut world = World::unicast(Suite::SipHash64, 1);
    let mut marks = EpochMarks::open(world.directory.path()).unwrap();
    marks.record(GroupEpoch { chain_id: CHAIN_ID, group: GROUP, epoch: 0 }).unwrap();
    drop(marks);
    let sequencer = world.start().unwrap();
    expect_refusal(&world, &sequencer, &epoch_start(0), DropReason::Used);
    world.epoch = 1;
    world.begin(&sequencer);
    stop(sequencer);
}

/// The mark is on disk before any receiver sees the epoch.
#[test]
fn mark_precedes_first_packet() {
    let mut world = World::unicast(Suite::SipHash64, 1);
    let sequencer = world.start().unwrap();
    let record = world.directory.path().join("EPOCHS");
    assert!(!record.exists(), "a start uses no epoch");
    for epoch in [0, 3] {
        world.epoch = epoch;
        world.begin(&sequencer);
        assert_eq!(fs::read_to_string(&record).unwrap(), format!("{CHAIN_ID} {GROUP} {epoch}\n"));
    }
    stop(sequencer);
}

/// Without a durable mark, no epoch begins. The receivers ask again, and it begins as soon as the disk works.
#[test]
fn epoch_needs_mark() {
    let world = World::unicast(Suite::SipHash64, 1);
    let sequencer = world.start().unwrap();
    // A directory at the draft's place makes writing fail, even for root.
    let draft = world.directory.path().join("EPOCHS.new");
    fs::create_dir(&draft).unwrap();
    expect_refusal(&world, &sequencer, &epoch_start(0), DropReason::Record);
    world.request(&sequencer, b"request");
    await_dropped(&sequencer, DropReason::Standby, 1);
    fs::remove_dir(&draft).unwrap();
    world.begin(&sequencer);
    stop(sequencer);
}

/// Groups of one process do not share epochs, and one group has one entry.
#[test]
fn groups_have_epochs_of_their_own() {
    let world = World::unicast(Suite::SipHash64, 1);
    let other = Group { group: GROUP + 1, ..world.group() };
    let sequencer = Sequencer::start(&world.config, vec![world.group(), other], world.directory.path()).unwrap();
    world.begin(&sequencer);
    assert_eq!((sequencer.metrics().epoch(GROUP), sequencer.metrics().epoch(GROUP + 1)), (Some(0), None));
    stop(sequencer);
    let doubled = Sequencer::start(&world.config, vec![world.group(), world.group()], world.directory.path());
    assert!(doubled.unwrap_err().to_string().starts_with("group 7: expected one entry, got two"));
}

/// A flood of forged certificates costs few checks, and the present epoch goes on.
#[test]
fn flood_does_not_stop_requests() {
    let world = World::unicast(Suite::Ed25519, 1);
    let sequencer = world.serve();
    let forged = EpochStart { group: GROUP, epoch: 9, certificate: &[7; 300] }.encode().unwrap();
    for seq in 2..12 {
        for _ in 0..20 {
            world.send(&sequencer, &forged);
        }
        world.request(&sequencer, b"request");
        assert_eq!(world.receive(0).0.seq, seq);
    }
    let [certificate, rate] = [DropReason::Certificate, DropReason::Rate].map(|reason| sequencer.metrics().dropped(reason));
    assert!(certificate > 0, "the first one is checked");
    assert_eq!(certificate + rate, 200);
    stop(sequencer);
}

#[test]
fn second_sequencer_is_refused() {
    let world = World::unicast(Suite::SipHash64, 1);
    let sequencer = world.start().unwrap();
    assert!(matches!(world.start(), Err(StartError::Locked { .. })));
    stop(sequencer);
}

/// A failed start uses no epoch and releases the directory.
#[test]
fn failed_start_has_no_effect() {
    let mut world = World::unicast(Suite::SipHash64, 1);
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let listen = std::mem::replace(&mut world.config.listen, taken.local_addr().unwrap());
    assert!(matches!(world.start(), Err(StartError::Io { operation: "listen on", .. })));
    world.config.listen = listen;
    stop(world.serve());
}
