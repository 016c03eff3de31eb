//! The Verilog sequencers give the bytes of the vectors.
#![cfg(verilated)]

use corniche_aom_rtl::bench::{Bench, Blocked, Field, FullSpeed, Pacing, Uneven};
use corniche_aom_vectors::{Group, Step, Vector, for_producer};

/// Clocks after which a datagram must have left.
const LIMIT: u64 = 100_000;

fn bench_of(vector: &Vector, seed: i32) -> Bench {
    let mut bench = if vector.groups[0].suite == 1 { Bench::hm(seed) } else { Bench::pk(seed) };
    for (slot, group) in vector.groups.iter().enumerate() {
        configure(&mut bench, slot as u8, group);
    }
    bench
}

fn configure(bench: &mut Bench, slot: u8, group: &Group) {
    bench.configure(slot, Field::Group, &group.group.to_be_bytes());
    bench.configure(slot, Field::Epoch, &group.epoch.to_be_bytes());
    bench.configure(slot, Field::Receivers, &[group.receivers]);
    bench.configure(slot, Field::Seq, &group.first_seq.to_be_bytes());
    for (receiver, key) in group.tag_keys.iter().enumerate() {
        bench.tag_key(slot, receiver as u8, key);
    }
    if let Some(chain) = &group.chain {
        bench.configure(slot, Field::Key, group.signing_secret.as_ref().unwrap());
        bench.configure(slot, Field::SignEvery, &group.sign_every.unwrap().to_be_bytes());
        bench.configure(slot, Field::PrevHash, &chain.prev_hash);
        bench.configure(slot, Field::PrevSeq, &[&chain.since_signed.to_be_bytes()[..], &chain.prev_seq.to_be_bytes()].concat());
    }
    bench.configure(slot, Field::Active, &[group.active.into()]);
}

/// Queues the presignatures of a vector in the order in which its steps sign.
fn presign(bench: &mut Bench, vector: &Vector) {
    let mut next: Vec<_> = vector.groups.iter().map(|group| group.presignatures.iter()).collect();
    for step in vector.steps.iter().filter(|step| step.signed) {
        let presignature = next[group_of(vector, step)].next().unwrap();
        bench.presign(&presignature.r, &presignature.k_inverse);
    }
}

fn group_of(vector: &Vector, step: &Step) -> usize {
    let group = u32::from_be_bytes(step.datagram[4..8].try_into().unwrap());
    vector.groups.iter().position(|candidate| candidate.group == group).unwrap()
}

/// Sends all steps at once.
fn check_stream(vector: &Vector, pacing: &mut dyn Pacing, seed: i32) {
    let mut bench = bench_of(vector, seed);
    for step in &vector.steps {
        bench.arrive(&step.datagram, false);
    }
    bench.run(pacing, LIMIT * vector.steps.len() as u64);
    let expected: Vec<_> = vector.steps.iter().flat_map(|step| step.out.iter().map(|bytes| bytes.to_vec())).collect();
    assert_eq!(bench.sent, expected, "{}", vector.id);
    let drops: Vec<_> = vector.steps.iter().filter_map(|step| step.drop.as_deref()).collect();
    assert_eq!(bench.drops, drops, "{}", vector.id);
}

/// Sends one step after the other, so that nothing is lost but what the vector loses.
fn check_steps(vector: &Vector, pacing: &mut dyn Pacing, seed: i32) {
    let mut bench = bench_of(vector, seed);
    add_filler_group(&mut bench);
    presign(&mut bench, vector);
    for step in &vector.steps {
        bench.drops.clear();
        bench.sent.clear();
        if step.lost {
            lose(&mut bench, step);
            continue;
        }
        bench.arrive(&step.datagram, step.flush);
        bench.run(pacing, LIMIT);
        let expected: Vec<_> = step.out.iter().map(|bytes| bytes.to_vec()).collect();
        assert_eq!(bench.sent, expected, "{}", vector.id);
        assert_eq!(bench.drops, step.drop.as_deref().into_iter().collect::<Vec<_>>(), "{}", vector.id);
    }
    assert_eq!(bench.stock, 0, "{}: every presignature is used", vector.id);
}

const FILLER: u32 = 0xF111_F111;
const RING: usize = 8;

/// A group that never signs: it begins after a signed packet, and its K is the largest.
fn add_filler_group(bench: &mut Bench) {
    bench.configure(3, Field::Group, &FILLER.to_be_bytes());
    bench.configure(3, Field::Epoch, &[1]);
    bench.configure(3, Field::SignEvery, &u32::MAX.to_be_bytes());
    bench.configure(3, Field::PrevSeq, &[&1_u32.to_be_bytes()[..], &0_u64.to_be_bytes()].concat());
    bench.configure(3, Field::Active, &[1]);
}

/// Makes a real tail drop: packets of the filler group occupy the ring while the output is blocked.
fn lose(bench: &mut Bench, step: &Step) {
    let mut filler = step.datagram.to_vec();
    filler[4..8].copy_from_slice(&FILLER.to_be_bytes());
    for _ in 0..RING {
        bench.arrive(&filler, false);
    }
    bench.arrive(&step.datagram, step.flush);
    let limit = bench.clocks + LIMIT;
    while bench.drops.is_empty() {
        bench.clock(&mut Blocked);
        assert!(bench.clocks < limit, "nothing was dropped");
    }
    assert_eq!(bench.drops, ["overflow"]);
    bench.run(&mut FullSpeed, LIMIT);
    assert_eq!(bench.sent.len(), RING);
    assert!(bench.sent.iter().all(|datagram| datagram[4..8] == FILLER.to_be_bytes()));
}

#[test]
fn both_circuits_equal_the_vectors() {
    let vectors = for_producer("rtl");
    for (seed, vector) in (1..).zip(&vectors) {
        for pacing in [
            &mut FullSpeed as &mut dyn Pacing,
            &mut Uneven { seed: 1, offer: 255, take: 60 },
            &mut Uneven { seed: 2, offer: 60, take: 255 },
            &mut Uneven { seed: 3, offer: 128, take: 128 },
        ] {
            match vector.groups[0].suite {
                1 => check_stream(vector, pacing, seed),
                4 => check_steps(vector, pacing, seed),
                suite => panic!("{}: there is no circuit for suite {suite}", vector.id),
            }
        }
    }
}
