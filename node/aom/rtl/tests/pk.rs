//! The chaining signer against `sha2`, `k256` and libsecp256k1, with random packets, overflow and loss of its nonces.
#![cfg(verilated)]

mod common;

use common::{Chain, Random, is_signed, presignature, prev_seq, request, seq, verifies};
use corniche_aom_rtl::bench::{Bench, Blocked, Field, FullSpeed, Pacing, Uneven};

const LIMIT: u64 = 10_000_000;
/// Packets that the circuit holds.
const RING: u64 = 8;
const NEVER: u32 = u32::MAX;

/// One group of the reference, with all requests that reached it.
struct Group {
    id: u32,
    epoch: u32,
    secret: [u8; 32],
    genesis: [u8; 32],
    sign_every: u32,
    arrivals: Vec<(Vec<u8>, bool)>,
}

impl Group {
    fn random(random: &mut Random, sign_every: u32) -> Self {
        Self {
            id: random.below(1 << 32) as u32,
            epoch: random.below(1 << 32) as u32,
            secret: random.scalar(),
            genesis: random.bytes(),
            sign_every,
            arrivals: Vec::new(),
        }
    }

    fn install(&self, bench: &mut Bench, slot: u8) {
        bench.configure(slot, Field::Group, &self.id.to_be_bytes());
        bench.configure(slot, Field::Epoch, &self.epoch.to_be_bytes());
        bench.configure(slot, Field::Key, &self.secret);
        bench.configure(slot, Field::SignEvery, &self.sign_every.to_be_bytes());
        bench.configure(slot, Field::PrevHash, &self.genesis);
        bench.configure(slot, Field::Active, &[1]);
    }

    fn arrive(&mut self, bench: &mut Bench, random: &mut Random, payload: usize, flush: bool) {
        let datagram = request(random, self.id, payload);
        bench.arrive(&datagram, flush);
        self.arrivals.push((datagram, flush));
    }

    /// Checks every packet of this group in `sent`: bytes, chain, signatures and, if no threshold signs more, who is
    /// signed. Returns the numbers that are missing and the r of each signature.
    fn check(&self, sent: &[Vec<u8>], by_threshold: bool) -> (Vec<u64>, Vec<[u8; 32]>) {
        let mut chain = Chain::genesis(self.genesis);
        let (mut since, mut last, mut missing, mut nonces) = (0, 0, Vec::new(), Vec::new());
        for datagram in sent.iter().filter(|datagram| common::group(datagram) == self.id) {
            let seq = seq(datagram);
            assert!(seq > last, "number {seq} after {last}");
            missing.extend(last + 1..seq);
            // Arrivals are numbered in order, those that are lost too.
            let (request, flush) = &self.arrivals[seq as usize - 1];
            let (mut expected, hash) = chain.stamp(self.id, self.epoch, seq, request);
            assert_eq!(prev_seq(datagram), last);
            let signed = is_signed(datagram);
            if !by_threshold {
                assert_eq!(signed, since == 0 || since >= self.sign_every || *flush, "number {seq}");
            }
            since = if signed { 1 } else { since + 1 };
            if signed {
                assert!(verifies(&datagram[56..120], &hash, &self.secret), "number {seq}");
                nonces.push(datagram[56..88].try_into().unwrap());
                expected[56..120].copy_from_slice(&datagram[56..120]);
            }
            assert!(*datagram == expected, "number {seq}: got {}, expected {}", hex::encode(datagram), hex::encode(expected));
            last = seq;
        }
        missing.extend(last + 1..=self.arrivals.len() as u64);
        (missing, nonces)
    }
}

/// Queues presignatures and returns their r.
fn presign(bench: &mut Bench, random: &mut Random, count: usize) -> Vec<[u8; 32]> {
    let one = |_| {
        let (r, k_inverse) = presignature(random);
        bench.presign(&r, &k_inverse);
        r
    };
    (0..count).map(one).collect()
}

#[test]
fn random_packets_equal_sha2_and_verify() {
    let mut lost = 0;
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut bench = Bench::pk(seed as i32);
        let mut groups: Vec<_> = (0..3).map(|i| Group::random(&mut random, [1, 2, 3, 7][(seed as usize + i) % 4])).collect();
        for (slot, group) in groups.iter().enumerate() {
            group.install(&mut bench, slot as u8);
        }
        let mut pushed = Vec::new();
        for _ in 0..80 {
            let (length, flush) = ([0, 1, 64, 300][random.below(4) as usize], random.below(16) == 0);
            groups[random.below(3) as usize].arrive(&mut bench, &mut random, length, flush);
            if random.below(4) == 0 {
                pushed.extend(presign(&mut bench, &mut random, 2));
            }
            let mut pacing = Uneven { seed: random.below(1 << 60), offer: 220, take: 200 };
            for _ in 0..random.below(700) {
                bench.clock(&mut pacing);
            }
        }
        pushed.extend(presign(&mut bench, &mut random, 40));
        bench.run(&mut Uneven { seed, offer: 220, take: 200 }, LIMIT);
        let (mut missing, mut used) = (0, Vec::new());
        for group in &groups {
            let (numbers, nonces) = group.check(&bench.sent, false);
            missing += numbers.len();
            used.extend(nonces);
        }
        assert_eq!(bench.drops, vec!["overflow"; missing], "seed {seed}: each gap is a tail drop");
        lost += missing;
        // In the order of sending, the nonces are the first ones of the stock: none is skipped, none repeats.
        let order: Vec<[u8; 32]> =
            bench.sent.iter().filter(|sent| is_signed(sent)).map(|sent| sent[56..88].try_into().unwrap()).collect();
        assert_eq!(order.len(), used.len());
        assert_eq!(order, pushed[..order.len()], "seed {seed}");
        assert_eq!(usize::from(bench.stock), pushed.len() - order.len());
    }
    assert!(lost > 20, "the schedules overflow the ring, but only {lost} packets were lost");
}

/// The chain waits for a presignature, so the ring fills and further packets are lost with their numbers.
#[test]
fn overflow_leaves_one_gap_and_never_repeats_a_number() {
    let mut random = Random::new(1);
    let mut bench = Bench::pk(1);
    let mut group = Group::random(&mut random, 32);
    group.install(&mut bench, 0);
    for _ in 0..20 {
        group.arrive(&mut bench, &mut random, 64, false);
    }
    for _ in 0..2_000 {
        bench.clock(&mut FullSpeed);
    }
    assert!(bench.sent.is_empty(), "an epoch's first packet waits for its signature");
    assert_eq!(bench.drops.len() as u64, 20 - RING);
    presign(&mut bench, &mut random, 1);
    bench.run(&mut FullSpeed, LIMIT);
    group.arrive(&mut bench, &mut random, 64, false);
    bench.run(&mut FullSpeed, LIMIT);
    let (missing, _) = group.check(&bench.sent, false);
    assert_eq!(missing, (RING + 1..=20).collect::<Vec<_>>());
    let last = bench.sent.last().unwrap();
    assert_eq!((seq(last), prev_seq(last)), (21, RING));
}

/// Q4: signs while more presignatures than the threshold are in stock, and always the first packet.
#[test]
fn signing_ratio_follows_the_stock() {
    let mut random = Random::new(2);
    let mut bench = Bench::pk(2);
    let mut group = Group::random(&mut random, NEVER);
    group.install(&mut bench, 0);
    bench.configure(0, Field::Threshold, &[8]);
    presign(&mut bench, &mut random, 20);
    let mut signed = |bench: &mut Bench, packets| {
        let before = bench.sent.len();
        for _ in 0..packets {
            group.arrive(bench, &mut random, 8, false);
            bench.run(&mut FullSpeed, LIMIT);
        }
        let (missing, _) = group.check(&bench.sent, true);
        assert!(missing.is_empty());
        bench.sent[before..].iter().map(|sent| is_signed(sent)).collect::<Vec<_>>()
    };
    let mut expected = vec![true; 12];
    expected.extend([false; 18]);
    assert_eq!(signed(&mut bench, 30), expected);
    assert_eq!(bench.stock, 8);
    presign(&mut bench, &mut Random::new(3), 3);
    assert_eq!(signed(&mut bench, 5), [true, true, true, false, false]);
}

/// A decision reserves its presignature: packets that wait for the signer do not count on the same one.
#[test]
fn burst_signs_no_more_than_the_stock_allows() {
    let mut random = Random::new(4);
    let mut bench = Bench::pk(4);
    let mut group = Group::random(&mut random, NEVER);
    group.install(&mut bench, 0);
    bench.configure(0, Field::Threshold, &[2]);
    let pushed = presign(&mut bench, &mut random, 5);
    for _ in 0..20 {
        bench.clock(&mut Blocked);
    }
    for _ in 0..RING {
        group.arrive(&mut bench, &mut random, 8, false);
    }
    // The chain decides for all of them before the first one leaves.
    for _ in 0..3_000 {
        bench.clock(&mut Blocked);
    }
    bench.run(&mut FullSpeed, LIMIT);
    let (missing, nonces) = group.check(&bench.sent, true);
    assert!(missing.is_empty());
    assert_eq!(nonces, pushed[..3]);
    assert_eq!(bench.stock, 2);
}

/// Pitfall 13: what is left of the stock is never used in another epoch.
#[test]
fn new_epoch_discards_nonces() {
    let mut random = Random::new(5);
    let mut bench = Bench::pk(5);
    let mut group = Group::random(&mut random, 32);
    group.install(&mut bench, 0);
    presign(&mut bench, &mut random, 10);
    group.arrive(&mut bench, &mut random, 64, false);
    bench.run(&mut FullSpeed, LIMIT);
    assert_eq!(bench.stock, 9);
    group.check(&bench.sent, false);
    bench.sent.clear();
    let mut next = Group { id: group.id, ..Group::random(&mut random, 32) };
    next.install(&mut bench, 0);
    next.arrive(&mut bench, &mut random, 64, false);
    for _ in 0..2_000 {
        bench.clock(&mut FullSpeed);
    }
    assert_eq!(bench.stock, 0);
    assert!(bench.sent.is_empty(), "the first packet of the new epoch waits for a new nonce");
    let fresh = presign(&mut bench, &mut random, 1);
    bench.run(&mut FullSpeed, LIMIT);
    assert_eq!(next.check(&bench.sent, false), (vec![], fresh));
}

/// Pitfall 13, and Q5: after a reset there is no stock, no secret and no group, at whatever clock it comes.
#[test]
fn reset_discards_nonces_at_every_stage() {
    for clocks in [1, 30, 60, 120, 170, 175, 180, 300, 500, 690, 700, 720] {
        let mut random = Random::new(6);
        let mut bench = Bench::pk(6);
        let mut group = Group::random(&mut random, 1);
        group.install(&mut bench, 0);
        presign(&mut bench, &mut random, 10);
        for _ in 0..3 {
            group.arrive(&mut bench, &mut random, 64, false);
        }
        for _ in 0..clocks {
            bench.clock(&mut FullSpeed);
        }
        bench.reset();
        bench.sent.clear();
        bench.drops.clear();
        bench.arrive(&group.arrivals[0].0, false);
        bench.run(&mut FullSpeed, LIMIT);
        assert_eq!((bench.stock, bench.drops.as_slice()), (0, &["group"][..]), "{clocks} clocks");
        assert!(bench.sent.is_empty());
        let mut next = Group { id: group.id, ..Group::random(&mut random, 1) };
        next.install(&mut bench, 0);
        next.arrive(&mut bench, &mut random, 64, false);
        let fresh = presign(&mut bench, &mut random, 1);
        bench.run(&mut FullSpeed, LIMIT);
        assert_eq!(next.check(&bench.sent, false), (vec![], fresh), "{clocks} clocks");
    }
}

/// Clocks from one packet to the next while requests arrive without a pause.
fn clocks_between_packets(sign_every: u32, payload: usize) -> u64 {
    let mut random = Random::new(7);
    let mut bench = Bench::pk(7);
    let mut group = Group::random(&mut random, sign_every);
    group.install(&mut bench, 0);
    let arrival = request(&mut random, group.id, payload);
    let mut sent_at = Vec::new();
    while sent_at.len() < 60 {
        if bench.stock < 8 {
            presign(&mut bench, &mut random, 1);
        }
        bench.arrive(&arrival, false);
        group.arrivals.push((arrival.clone(), false));
        for _ in 0..30 {
            bench.clock(&mut FullSpeed as &mut dyn Pacing);
            if bench.sent.len() > sent_at.len() {
                sent_at.push(bench.clocks);
            }
        }
    }
    group.check(&bench.sent, false);
    (sent_at[55] - sent_at[15]) / 40
}

/// The figures of the README.
#[test]
fn clocks_per_packet() {
    assert_eq!(clocks_between_packets(NEVER, 64), 134);
    assert_eq!(clocks_between_packets(1, 64), 545);
}
