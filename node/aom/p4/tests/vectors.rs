//! The passes of the P4 sequencer give the bytes of the suite-3 vectors.

use corniche_aom_p4::{BLOCKS, Group, Ingress, PASSES, Pass, Port, Switch, parse};
use corniche_aom_vectors::{Vector, for_producer};

fn switch(vector: &Vector) -> Switch {
    let mut switch = Switch::default();
    for (index, group) in (0..).zip(&vector.groups) {
        // An inactive group has no entry.
        if group.active {
            let entry = Group { index, epoch: group.epoch, receivers: group.receivers };
            switch.groups.insert(group.group, entry);
        }
        switch.set_first(index, group.first_seq);
        for (receiver, key) in (0..).zip(&group.tag_keys) {
            let word = |at: usize| u32::from_le_bytes(key[at..at + 4].try_into().unwrap());
            switch.keys.insert((index, receiver), (word(0), word(4)));
        }
    }
    switch
}

#[test]
fn passes_equal_the_vectors() {
    for vector in for_producer("p4") {
        let mut switch = switch(&vector);
        for step in &vector.steps {
            let sent: Vec<_> = switch.handle(&step.datagram).into_iter().map(|(datagram, _)| hex::encode(datagram)).collect();
            let expected: Vec<_> = step.out.iter().map(|datagram| hex::encode(&**datagram)).collect();
            assert_eq!(sent, expected, "{}", vector.id);
        }
    }
}

/// 2W + 4 for W blocks, and four more for a 64-bit tag, in every packet of every group size.
#[test]
fn each_packet_takes_38_passes() {
    assert_eq!(BLOCKS, 15);
    assert_eq!(PASSES, 38);
    for vector in for_producer("p4") {
        let mut switch = switch(&vector);
        for step in &vector.steps {
            assert!(switch.handle(&step.datagram).iter().all(|&(_, passes)| passes == PASSES), "{}", vector.id);
        }
    }
}

/// A host that sends an unfinished packet could choose its tags.
#[test]
fn unfinished_packets_from_outside_are_dropped() {
    let vector = for_producer("p4").into_iter().find(|vector| vector.id == "hm-s3-n4").unwrap();
    let mut switch = switch(&vector);
    let mut packet = parse(&vector.steps[0].datagram).unwrap();
    packet.pass = Some(Pass::forged(PASSES));
    assert_eq!(switch.ingress(packet.clone(), Port::Outside), Ingress::Drop);
    assert!(matches!(switch.ingress(packet, Port::Loopback), Ingress::Deliver(_)));
}

/// The counters go on after the last number; the stop register does not.
#[test]
fn sequencer_stays_stopped() {
    let vector = for_producer("p4").into_iter().find(|vector| vector.id == "hm-s3-seq-end").unwrap();
    let mut switch = switch(&vector);
    let sent: Vec<_> = (0..10).map(|_| switch.handle(&vector.steps[0].datagram).len()).collect();
    assert_eq!(sent, [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
}

/// The P4 text and the model agree on the schedule: both are written out, so both could be wrong alone.
#[test]
fn schedule_of_the_p4_text_is_complete() {
    let text = include_str!("../p4/aom.p4");
    for number in 0..30 {
        let half = if number % 2 == 0 { "first" } else { "second" };
        assert!(text.contains(&format!(" {number}: {half}_{}();", number / 2)), "row {number}");
    }
    assert!(text.contains("30: final_first(); 33: half_done();"));
    assert!(text.contains(&format!("const bit<8> PASSES = {PASSES};")));
}
