//! The C core gives the bytes of the vectors, without the kernel.

mod common;

use common::{PORT, PORTS, RULES, frame, frames_for_strict_group, group, stamped, steps, strict_group};
use corniche_aom_vectors::{Verdict, for_producer, load};
use corniche_aom_xdp::{Group, Outcome, UdpPorts, native::Sequencer};
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use siphasher::sip::SipHasher24;
use std::hash::Hasher;

#[test]
fn core_equals_the_vectors() {
    for vector in for_producer("xdp") {
        let mut sequencer = Sequencer::new(PORTS);
        for config in &vector.groups {
            sequencer.insert(config.group, &group(config));
        }
        for (sent, expected) in steps(&vector) {
            let mut handled = sent.clone();
            let outcome = sequencer.handle(&mut handled);
            match expected {
                Ok(datagram) => {
                    assert_eq!(outcome, Outcome::Stamped, "{}", vector.id);
                    assert_eq!(hex::encode(handled), hex::encode(stamped(&sent, &datagram)), "{}", vector.id);
                }
                Err(reason) => {
                    assert_eq!(format!("{outcome:?}").to_lowercase(), reason, "{}", vector.id);
                    assert_eq!(handled, sent, "{}: a dropped frame is not changed", vector.id);
                }
            }
        }
    }
}

#[test]
fn core_equals_the_frames() {
    for vector in load().frames {
        assert_eq!(vector.udp_port, PORT);
        let mut sequencer = Sequencer::new(PORTS);
        sequencer.insert(vector.groups[0].group, &group(&vector.groups[0]));
        let mut handled = vector.frame.to_vec();
        let verdict = match sequencer.handle(&mut handled) {
            Outcome::Stamped => Verdict::Stamp,
            Outcome::Pass => Verdict::Pass,
            _ => Verdict::Drop,
        };
        assert_eq!(verdict, vector.verdict, "{}", vector.id);
        assert_eq!(hex::encode(handled), hex::encode(&*vector.out.unwrap_or(vector.frame)), "{}", vector.id);
    }
}

/// The tags of random headers are those of `siphasher`, and none beyond the group's receivers is written.
#[test]
fn random_tags_equal_siphasher() {
    let mut random = SplitMix64::seed_from_u64(1);
    for round in 0..500 {
        let keys: Vec<[u8; 16]> = (0..1 + round % 4)
            .map(|_| {
                let mut key = [0; 16];
                random.fill_bytes(&mut key);
                key
            })
            .collect();
        let (id, epoch, next) = (random.next_u32(), random.next_u32(), random.next_u64());
        let mut sequencer = Sequencer::new(PORTS);
        sequencer.insert(id, &Group { next, epoch, active: true, rules: RULES, keys: keys.clone() });
        let mut datagram = vec![0; 160 + (round * 7) % 200];
        random.fill_bytes(&mut datagram);
        datagram[..4].copy_from_slice(&[0xA0, 0x4D, 1, 0]);
        datagram[4..8].copy_from_slice(&id.to_be_bytes());
        datagram[15] = 0;
        let mut handled = frame(&datagram);
        assert_eq!(sequencer.handle(&mut handled), Outcome::Stamped);
        let out = &handled[42..];
        assert_eq!(out[16..24], next.to_be_bytes());
        assert_eq!(out[24..56], datagram[24..56]);
        for lane in 0..4 {
            let expected = keys.get(lane).map_or([0; 8], |key| {
                let mut hasher = SipHasher24::new_with_key(key);
                hasher.write(&out[..56]);
                hasher.finish().to_le_bytes()
            });
            assert_eq!(out[56 + 8 * lane..][..8], expected);
        }
        assert_eq!(out[88..160], [0; 72]);
        assert_eq!(out[160..], datagram[160..]);
    }
}

/// The loader refuses such groups; so does the program.
#[test]
fn groups_of_0_or_more_than_4_receivers_are_not_served() {
    for receivers in [0, 5, 300] {
        let mut sequencer = Sequencer::new(PORTS);
        sequencer.insert(7, &Group { next: 1, epoch: 1, active: true, rules: RULES, keys: vec![[0; 16]; receivers] });
        let mut datagram = vec![0; 160];
        datagram[..8].copy_from_slice(&[0xA0, 0x4D, 1, 0, 0, 0, 0, 7]);
        assert_eq!(sequencer.handle(&mut frame(&datagram)), Outcome::Inactive, "{receivers} receivers");
    }
}

/// A host that reaches the sequencer cannot waste numbers with requests that the receivers never get or refuse.
#[test]
fn other_addresses_and_long_payloads_get_no_number() {
    let mut sequencer = Sequencer::new(PORTS);
    sequencer.insert(7, &strict_group());
    let mut number = 1_u64;
    for (sent, expected) in frames_for_strict_group() {
        let mut handled = sent.clone();
        assert_eq!(sequencer.handle(&mut handled), expected);
        if expected == Outcome::Stamped {
            assert_eq!(handled[58..66], number.to_be_bytes());
            number += 1;
        } else {
            assert_eq!(handled, sent, "{expected:?}");
        }
    }
}

/// A frame that ends early is refused at every length and not changed.
#[test]
fn cut_frames_are_never_touched() {
    let mut datagram = vec![0; 200];
    datagram[..8].copy_from_slice(&[0xA0, 0x4D, 1, 0, 0, 0, 0, 7]);
    let whole = frame(&datagram);
    let mut sequencer = Sequencer::new(PORTS);
    sequencer.insert(7, &Group { next: 1, epoch: 1, active: true, rules: RULES, keys: vec![[1; 16]; 4] });
    for length in 0..whole.len() {
        let mut buffer = whole.clone();
        let outcome = sequencer.handle(&mut buffer[..length]);
        assert_eq!(outcome, if length < 42 { Outcome::Pass } else { Outcome::Length }, "{length}");
        assert_eq!(buffer, whole, "{length}");
    }
    let mut buffer = whole;
    assert_eq!(sequencer.handle(&mut buffer), Outcome::Stamped);
}

/// The daemon gets certificates by the address of requests.
#[test]
fn start_of_an_epoch_is_left_to_the_kernel() {
    let mut sequencer = Sequencer::new(PORTS);
    let mut start = vec![0; 160];
    start[..4].copy_from_slice(&[0xA0, 0x4D, 1, 3]);
    let sent = frame(&start);
    let mut handled = sent.clone();
    assert_eq!(sequencer.handle(&mut handled), Outcome::Pass);
    assert_eq!(handled, sent);
}

/// Senders and receivers of one host use two ports, so that no receiver sees a request.
#[test]
fn packets_get_their_own_port() {
    let mut sequencer = Sequencer::new(UdpPorts { requests: PORT, packets: PORT + 1 });
    sequencer.insert(7, &Group { next: 1, epoch: 0, active: true, rules: RULES, keys: vec![[1; 16]] });
    let mut request = vec![0; 160];
    request[..8].copy_from_slice(&[0xA0, 0x4D, 1, 0, 0, 0, 0, 7]);
    let sent = corniche_aom_xdp::frame([10, 0, 0, 2].into(), "239.1.0.7:41037".parse().unwrap(), &request);
    let mut handled = sent.clone();
    assert_eq!(sequencer.handle(&mut handled), Outcome::Stamped);
    assert_eq!((handled[36..38].to_vec(), &handled[..36]), ((PORT + 1).to_be_bytes().to_vec(), &sent[..36]));
    // RFC 1071: the sum over a header with a right checksum is all ones.
    let sum: u32 = sent[14..34].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    assert_eq!((sum & 0xFFFF) + (sum >> 16), 0xFFFF);
}
