//! The HM stamper against `siphasher`, with random packets, pauses and reconfiguration.
#![cfg(verilated)]

mod common;

use common::{Random, group, request, seq, stamp_hm};
use corniche_aom_rtl::bench::{Bench, Blocked, Field, FullSpeed, Uneven};

const LIMIT: u64 = 10_000_000;

/// One group of the reference.
struct Group {
    id: u32,
    epoch: u32,
    keys: Vec<[u8; 16]>,
    next: u64,
}

impl Group {
    fn random(random: &mut Random, receivers: u64) -> Self {
        Self {
            id: random.below(1 << 32) as u32,
            epoch: random.below(1 << 32) as u32,
            keys: (0..receivers).map(|_| random.bytes()).collect(),
            next: 1,
        }
    }

    fn install(&self, bench: &mut Bench, slot: u8) {
        bench.configure(slot, Field::Group, &self.id.to_be_bytes());
        bench.configure(slot, Field::Epoch, &self.epoch.to_be_bytes());
        bench.configure(slot, Field::Receivers, &[self.keys.len() as u8]);
        for (receiver, key) in self.keys.iter().enumerate() {
            bench.tag_key(slot, receiver as u8, key);
        }
        bench.configure(slot, Field::Active, &[1]);
    }

    fn stamp(&mut self, request: &[u8]) -> Vec<Vec<u8>> {
        self.next += 1;
        stamp_hm(self.id, self.epoch, &self.keys, self.next - 1, request)
    }
}

#[test]
fn random_packets_equal_siphasher() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let mut bench = Bench::hm(seed as i32);
        // Sizes around the edges of subgroups, and the largest.
        let sizes = [1 + random.below(4), 5 + random.below(4), 1 + random.below(64), 64];
        let mut groups: Vec<_> = sizes.iter().map(|&size| Group::random(&mut random, size)).collect();
        for (slot, group) in groups.iter().enumerate() {
            group.install(&mut bench, slot as u8);
        }
        let (mut expected, mut drops) = (Vec::new(), Vec::new());
        for _ in 0..200 {
            let length = [0, 1, 7, 8, 9, 64, 200][random.below(7) as usize];
            let group = &mut groups[random.below(4) as usize];
            let mut datagram = request(&mut random, group.id, length);
            match random.below(8) {
                0 => {
                    let (at, reason) =
                        [(0, "magic"), (2, "version"), (3, "kind"), (4, "group"), (15, "reserved")][random.below(5) as usize];
                    datagram[at] ^= 1 << random.below(8);
                    drops.push(reason);
                }
                1 => {
                    datagram.truncate(random.below(160) as usize);
                    drops.push("short");
                }
                _ => expected.extend(group.stamp(&datagram)),
            }
            bench.arrive(&datagram, false);
        }
        bench.run(&mut Uneven { seed, offer: random.below(256) as u8 | 16, take: random.below(256) as u8 | 16 }, LIMIT);
        assert_eq!(bench.sent.len(), expected.len(), "seed {seed}");
        for (i, (sent, expected)) in bench.sent.iter().zip(&expected).enumerate() {
            assert!(
                sent == expected,
                "seed {seed}, datagram {i}: got {}, expected {}",
                hex::encode(sent),
                hex::encode(expected)
            );
        }
        assert_eq!(bench.drops, drops, "seed {seed}");
    }
}

/// Back-pressure reaches the sender; nothing is lost, and the numbers of a group are 1, 2, 3 and so on.
#[test]
fn back_pressure_neither_repeats_nor_skips_a_number() {
    let mut random = Random::new(1);
    let mut bench = Bench::hm(1);
    let groups = [Group::random(&mut random, 4), Group::random(&mut random, 2)];
    for (slot, group) in groups.iter().enumerate() {
        group.install(&mut bench, slot as u8);
    }
    let mut arrival = || {
        let group = &groups[random.below(2) as usize];
        request(&mut random, group.id, 16)
    };
    let arrivals: Vec<_> = (0..300).map(|_| arrival()).collect();
    for datagram in &arrivals {
        bench.arrive(datagram, false);
    }
    for round in 0..100 {
        for _ in 0..random.below(200) {
            bench.clock(&mut Blocked);
        }
        for _ in 0..random.below(100) {
            bench.clock(&mut Uneven { seed: round, offer: 200, take: 100 });
        }
    }
    bench.run(&mut FullSpeed, LIMIT);
    for group in &groups {
        let numbers: Vec<_> = bench.sent.iter().filter(|sent| common::group(sent) == group.id).map(|sent| seq(sent)).collect();
        let arrived = arrivals.iter().filter(|arrival| common::group(arrival) == group.id).count() as u64;
        assert_eq!(numbers, (1..=arrived).collect::<Vec<_>>());
    }
    assert!(bench.drops.is_empty());
}

/// A new epoch begins at number 1 and never changes a packet that is on its way.
#[test]
fn new_epoch_waits_for_packets_of_the_old_one() {
    let mut random = Random::new(2);
    let mut bench = Bench::hm(2);
    let mut first = Group::random(&mut random, 9);
    first.install(&mut bench, 0);
    let old: Vec<_> = (0..2).map(|_| request(&mut random, first.id, 64)).collect();
    let mut expected: Vec<_> = old.iter().flat_map(|datagram| first.stamp(datagram)).collect();
    for datagram in &old {
        bench.arrive(datagram, false);
    }
    // Both packets are inside; the first has begun to leave.
    for _ in 0..70 {
        bench.clock(&mut FullSpeed);
    }
    assert!(bench.sent.len() < expected.len());
    let mut second = Group { id: first.id, ..Group::random(&mut random, 3) };
    second.install(&mut bench, 0);
    assert_eq!(bench.sent, expected);
    let new = request(&mut random, second.id, 64);
    expected.extend(second.stamp(&new));
    bench.arrive(&new, false);
    bench.run(&mut FullSpeed, LIMIT);
    assert_eq!(bench.sent, expected);
    assert_eq!(seq(bench.sent.last().unwrap()), 1);
}

/// Q5: a restarted sequencer stamps nothing before it is configured again.
#[test]
fn reset_forgets_groups() {
    let mut random = Random::new(3);
    let mut bench = Bench::hm(3);
    let group_of_test = Group::random(&mut random, 4);
    group_of_test.install(&mut bench, 0);
    let datagram = request(&mut random, group_of_test.id, 64);
    bench.arrive(&datagram, false);
    for _ in 0..40 {
        bench.clock(&mut Blocked);
    }
    bench.reset();
    bench.arrive(&datagram, false);
    bench.run(&mut FullSpeed, LIMIT);
    assert!(bench.sent.is_empty());
    assert_eq!(bench.drops, ["group"]);
    // Knowing the group is not enough.
    bench.configure(0, Field::Group, &group_of_test.id.to_be_bytes());
    bench.arrive(&datagram, false);
    bench.run(&mut FullSpeed, LIMIT);
    assert_eq!(bench.drops, ["group", "inactive"]);
    assert_eq!(group(&datagram), group_of_test.id);
}

#[test]
fn groups_of_0_or_more_than_64_receivers_stay_inactive() {
    for receivers in [0, 65, 255] {
        let mut random = Random::new(4);
        let mut bench = Bench::hm(4);
        bench.configure(0, Field::Group, &7_u32.to_be_bytes());
        bench.configure(0, Field::Epoch, &[1]);
        bench.configure(0, Field::Receivers, &[receivers]);
        bench.configure(0, Field::Active, &[1]);
        bench.arrive(&request(&mut random, 7, 0), false);
        bench.run(&mut FullSpeed, LIMIT);
        assert_eq!(bench.drops, ["inactive"]);
    }
}

/// The ring holds 2,048 bytes of a datagram. Longer ones are dropped whole.
#[test]
fn datagrams_longer_than_a_slot_are_dropped() {
    let mut random = Random::new(5);
    let mut bench = Bench::hm(5);
    let mut group = Group::random(&mut random, 4);
    group.install(&mut bench, 0);
    let mut expected = Vec::new();
    for length in [1888, 1889, 5000, 1887] {
        let datagram = request(&mut random, group.id, length);
        if length <= 1888 {
            expected.extend(group.stamp(&datagram));
        }
        bench.arrive(&datagram, false);
    }
    bench.run(&mut FullSpeed, LIMIT);
    assert_eq!(bench.drops, ["long", "long"]);
    assert!(bench.sent == expected);
}

/// The figures of the README: w + 5 clocks for each subgroup of a datagram of w words.
#[test]
fn clocks_per_packet() {
    for (receivers, payload, clocks) in [(4, 0, 25), (4, 64, 33), (4, 1232, 179), (64, 64, 16 * 33)] {
        let mut random = Random::new(6);
        let mut bench = Bench::hm(6);
        let group = Group::random(&mut random, receivers);
        group.install(&mut bench, 0);
        let mut run = |packets| {
            for _ in 0..packets {
                bench.arrive(&request(&mut random, group.id, payload), false);
            }
            bench.run(&mut FullSpeed, LIMIT)
        };
        let once = run(10);
        assert_eq!((run(110) - once) / 100, clocks, "{receivers} receivers, {payload} bytes");
    }
}
