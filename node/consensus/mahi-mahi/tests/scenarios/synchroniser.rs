//! S1–S4: missing history is fetched, hedged, bounded and shared; nothing below the horizon is accepted.

use crate::{
    cluster::{Cluster, Keys, Link, Role, index, quick},
    crypto::{FakeSignatures, committee},
};
use corniche_engine::{Input, Unsigned, Verifier};
use corniche_mahi_mahi::{
    CoinShares, Config, MahiVerifier, Signature, Signatures, Signer,
    message::{BlockRef, Content, Context, Fetch, Found, Hello, Message, Round, SignedBlock},
};
use corniche_types::{B256, Bytes, TimestampMs, ValidatorIndex, evidence::Heading, wire};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Mean time from submission to delivery at the submitter, µs, for transactions submitted to `nodes` in turn while
/// `going` holds.
fn mean_latency(cluster: &mut Cluster, nodes: &[usize], tag: &str, mut going: impl FnMut(&Cluster, usize) -> bool) -> u64 {
    let (mut total, mut count) = (0, 0);
    for number in 0.. {
        if !going(cluster, number) {
            break;
        }
        let (node, start) = (nodes[number % nodes.len()], cluster.now());
        let transaction = format!("{tag}-{number}");
        cluster.submit(node, &transaction);
        let commits = cluster.seen(node).log.len();
        let waiting = |cluster: &Cluster| {
            let fresh = &cluster.seen(node).log[commits..];
            !fresh.iter().flat_map(|(_, ordered)| &ordered.batches).any(|(_, batch)| batch.bytes[..] == *transaction.as_bytes())
        };
        assert!(cluster.run_while(2_000, waiting), "{transaction} is not ordered");
        total += (cluster.now() - start) * 1_000;
        count += 1;
    }
    total / count
}

fn clock(cluster: &Cluster, node: usize) -> u64 {
    cluster.engine(node).clock().0
}

#[test]
fn catches_up_from_ten_thousand_rounds_behind() {
    // The others keep enough history to serve it. It is present for the first rounds, then away.
    let config = Config { gc_depth: 30, retain_rounds: 12_000, ..quick() };
    let mut cluster = Cluster::honest(4, config, 51);
    mean_latency(&mut cluster, &[0, 1, 2, 3], "first", |_, number| number < 5);
    cluster.crash(3);
    while clock(&cluster, 0) < 10_000 {
        (0..3).for_each(|node| cluster.submit(node, &format!("t{}-{node}", cluster.now())));
        cluster.run_for(30);
    }
    let before = mean_latency(&mut cluster, &[0, 1, 2], "alone", |_, number| number < 100);
    let others = cluster.all_sent_others();
    let bytes = cluster.network().sent_bytes;
    let commits = cluster.seen(3).log.len();
    cluster.restart(3, commits);
    let restarted = cluster.now();
    let behind = |cluster: &Cluster| cluster.seen(3).log.len() + 10 < cluster.seen(0).log.len();
    let during = mean_latency(&mut cluster, &[0, 1, 2], "during", |cluster, _| behind(cluster));
    let took = cluster.now() - restarted;
    let bytes = cluster.network().sent_bytes - bytes;
    let others = cluster.all_sent_others() - others;
    println!(
        "caught up in {took} ms, {others} messages, {bytes} bytes; latency of the others {before} µs before, {during} µs during"
    );
    assert!(took < 30_000, "{took} ms for 10,000 rounds");
    assert!(during * 10 <= before * 11, "the others went from {before} to {during} µs");
    // 30,000 blocks; few of them are sent twice.
    let missed: usize = cluster.network().archive.values().map(|block| wire::encode(block).len()).sum();
    assert!(bytes < 3 * missed, "{bytes} bytes sent for {missed}");
    assert!(cluster.run_while(5_000, |cluster| cluster.engine(3).footprint()[1] > 0), "something stays pending");
    cluster.assert_agreement();
}

#[test]
fn two_lagging_validators_are_both_served() {
    let config = Config { gc_depth: 30, retain_rounds: 3_000, ..quick() };
    let mut cluster = Cluster::honest(7, config, 52);
    mean_latency(&mut cluster, &[0, 1, 2], "first", |_, number| number < 3);
    cluster.crash(5);
    cluster.crash(6);
    while clock(&cluster, 0) < 1_500 {
        (0..3).for_each(|node| cluster.submit(node, &format!("t{}-{node}", cluster.now())));
        cluster.run_for(30);
    }
    for laggard in [5, 6] {
        let commits = cluster.seen(laggard).log.len();
        cluster.restart(laggard, commits);
    }
    let start = cluster.now();
    let mut done = [0; 2];
    while done.contains(&0) {
        cluster.submit(0, &format!("t{}", cluster.now()));
        cluster.run_for(20);
        for (laggard, done) in [5, 6].into_iter().zip(&mut done) {
            if *done == 0 && cluster.seen(laggard).log.len() + 10 >= cluster.seen(0).log.len() {
                *done = cluster.now() - start;
            }
        }
        assert!(cluster.now() - start < 30_000, "caught up after {done:?} ms");
    }
    assert!(done[0] < 2 * done[1] && done[1] < 2 * done[0], "caught up after {done:?} ms");
    cluster.assert_agreement();
}

#[test]
fn third_of_all_pushes_lost() {
    // M15: every DAG converges, and no block stays pending.
    for (seed, size) in [(53, 4), (54, 7)] {
        let mut cluster = Cluster::honest(size, quick(), seed);
        cluster.network().link = Link { min_ms: 5, max_ms: 15, loss: 0 };
        cluster.run_for(100);
        cluster.network().push_loss = 300;
        for step in 0..300 {
            cluster.submit(step % size, &format!("t{step}"));
            cluster.run_for(10);
        }
        cluster.network().push_loss = 0;
        cluster.submit(0, "last");
        cluster.run_for(10_000);
        cluster.assert_agreement();
        for node in 0..size {
            assert_eq!(cluster.delivered(node).len(), 301, "validator {node}");
            assert_eq!(cluster.engine(node).footprint()[1], 0, "validator {node} waits for something");
            assert_eq!(clock(&cluster, node), clock(&cluster, 0));
            assert_eq!(cluster.engine(node).footprint()[0], cluster.engine(0).footprint()[0], "validator {node}'s DAG");
        }
    }
}

/// A block that is valid only in its signature.
fn forge(cluster: &Cluster, round: u64, parents: Vec<BlockRef>, batch: u64) -> (BlockRef, SignedBlock) {
    let context = Context::new(&cluster.committee);
    let (author, batch) = (index(0), Bytes::from(batch.to_le_bytes().to_vec()));
    let content = Content {
        author,
        round: Round(round),
        timestamp: TimestampMs(cluster.now()),
        parents,
        coin_shares: vec![[0; 48]],
        batch,
    };
    let digest = context.digest(&content);
    let signature = context.sign(&content, &*cluster.signer(0)).unwrap();
    (BlockRef { round: Round(round), author, digest }, SignedBlock { content, signature })
}

fn made_up(author: u16, round: u64, number: u64) -> BlockRef {
    let mut digest = [7; 32];
    digest[..8].copy_from_slice(&number.to_le_bytes());
    BlockRef { round: Round(round), author: corniche_types::ValidatorIndex(author), digest: B256::from(digest) }
}

#[test]
fn byzantine_only_tree_does_not_grow() {
    // P17: each root is accepted for its author; each leaf because a root needs it. There are 60,000 leaves.
    let roles = [Role::Byzantine, Role::Honest, Role::Honest, Role::Honest];
    let mut cluster = Cluster::new(&roles, quick(), 55);
    cluster.run_for(100);
    cluster.crash(0);
    let base = clock(&cluster, 1) + 40;
    let stand_on = |round: u64, number: u64| (0..4).map(|author| made_up(author, round - 1, number)).collect::<Vec<_>>();
    let mut largest = 0;
    for tree in 0..2_400u64 {
        // From the top down, with gaps: each root is lower than all waiting ones, and no leaf is its sibling.
        let round = base + 25 * (2_400 - tree);
        let leaf = |depth: u64| forge(&cluster, round - depth, stand_on(round - depth, tree * 100 + depth), tree * 100 + depth);
        let leaves: Vec<_> = (1..25).map(leaf).collect();
        let mut parents: Vec<_> = leaves.iter().map(|(reference, _)| *reference).collect();
        parents.extend((1..3).map(|author| made_up(author, round - 1, tree)));
        let (_, root) = forge(&cluster, round, parents, tree);
        let blocks = std::iter::once(root).chain(leaves.into_iter().map(|(_, leaf)| leaf));
        for block in blocks.collect::<Vec<_>>() {
            cluster.receive(0, 1, &Message::Block(block).encode());
        }
        largest = largest.max(cluster.engine(1).footprint()[1]);
    }
    // Its own 2·D + 64, and eight times as many on its account.
    assert!(largest <= 9 * (2 * 30 + 64), "{largest} blocks wait");
    cluster.submit(1, "t");
    assert!(cluster.run_while(3_000, |cluster| cluster.delivered(1).is_empty()));
}

#[test]
fn blocks_below_horizon_are_dropped() {
    let roles = [Role::Byzantine, Role::Honest, Role::Honest, Role::Honest];
    let mut cluster = Cluster::new(&roles, Config { gc_depth: 10, retain_rounds: 10, ..quick() }, 56);
    for step in 0..150 {
        cluster.submit(1 + step % 3, &format!("t{step}"));
        cluster.run_for(10);
    }
    let floor = cluster.engine(1).floor().0;
    assert!(floor > 40, "{floor}");
    cluster.crash(0);
    cluster.submit(1, "without-0");
    cluster.run_for(300);
    let context = Context::new(&cluster.committee);
    let genesis: Vec<_> = (0..4).map(|author| context.genesis(index(author))).collect();
    let (old, old_block) = forge(&cluster, 1, genesis, 666);
    for target in 1..4 {
        let [before, ..] = cluster.engine(target).footprint();
        cluster.receive(0, target, &Message::Block(old_block.clone()).encode());
        cluster.receive(0, target, &Message::Found(Found { blocks: vec![old_block.clone()], missing: vec![] }).encode());
        assert_eq!(cluster.engine(target).footprint()[..2], [before, 0], "validator {target} took it in");
    }
    // Through a reference: a new block that references the old one, with or without the author's last block in between.
    let round = clock(&cluster, 1);
    let mut parents: Vec<_> = (1..4).map(|author| cluster.block(round - 1, author)).collect();
    parents.sort_by_key(|block| block.content.author);
    let mut parents: Vec<_> = parents
        .into_iter()
        .map(|block| BlockRef {
            round: block.content.round,
            author: block.content.author,
            digest: context.digest(&block.content),
        })
        .collect();
    assert_eq!(parents.len(), 3);
    parents.insert(0, old);
    let (new, new_block) = forge(&cluster, round, parents, 777);
    cluster.receive(0, 1, &Message::Block(new_block).encode());
    assert_eq!(cluster.engine(1).footprint()[1], 0, "{new:?} stands on nothing that is missing");
    cluster.submit(1, "after");
    assert!(cluster.run_while(3_000, |cluster| !cluster.delivered(3).contains(&"after".to_owned())));
    cluster.run_for(2_000);
    cluster.assert_agreement();
    for node in 1..4 {
        let batches = cluster.seen(node).log.iter().flat_map(|(_, ordered)| &ordered.batches);
        assert!(!batches.clone().any(|(_, batch)| batch.bytes[..] == 666u64.to_le_bytes()), "delivered below the horizon");
        assert!(batches.clone().any(|(_, batch)| batch.bytes[..] == 777u64.to_le_bytes()), "the new block counts");
    }
}

#[test]
fn request_flood_gets_its_share_only() {
    // Validator 0 sends every kind of request a thousand times per second for ten seconds.
    let roles = [Role::Byzantine, Role::Honest, Role::Honest, Role::Honest];
    let config = Config { gc_depth: 30, retain_rounds: 1_000, ..quick() };
    let mut cluster = Cluster::new(&roles, config, 57);
    for step in 0..400 {
        cluster.submit(step % 4, &format!("t{step}"));
        cluster.run_for(10);
    }
    let top = clock(&cluster, 1) - 2;
    let context = Context::new(&committee(4));
    let block = &cluster.block(top, 2);
    let wanted = vec![BlockRef { round: Round(top), author: index(2), digest: context.digest(&block.content) }];
    cluster.crash(0);
    let hello = Hello { nonce: 1, after: Round(0), own: Round(0), coins: vec![Round(top); 64] };
    let flood = [Message::Hello(hello).encode(), Message::Fetch(Fetch { wanted, above: Round(0) }).encode()];
    let sent = cluster.network().sent_bytes;
    for _ in 0..10_000 {
        for message in &flood {
            cluster.receive(0, 1, message);
        }
        cluster.run_for(1);
    }
    let answers = (cluster.network().sent_bytes - sent) / (256 * 400);
    // 8 responses per second of at most 256 blocks of about 400 bytes, and four at once at the beginning.
    assert!(answers < 2 * (4 + 80), "{answers} answers' worth of bytes");
    // A polite peer is served at once.
    let before = cluster.sent_others(1);
    cluster.input(1, Input::PeerUp(index(2)));
    let polite = Fetch { wanted: vec![], above: Round(top) };
    cluster.receive(2, 1, &Message::Fetch(polite).encode());
    assert_eq!(cluster.sent_others(1), before + 2, "a greeting and an answer");
}

/// All faulty validators of fifty request as much as they can, for about one second.
#[test]
fn concurrent_floods_share_one_limit() {
    let (size, faulty) = (50, 16);
    let mut roles = vec![Role::Honest; size];
    roles[..faulty].fill(Role::Byzantine);
    let config = Config { retain_rounds: 1_000, ..quick() };
    let mut cluster = Cluster::new(&roles, config, 69);
    cluster.submit(faulty, "t");
    cluster.run_for(200);
    let (node, top) = (faulty, clock(&cluster, faulty) - 2);
    let block = &cluster.block(top, node);
    let wanted = vec![BlockRef { round: Round(top), author: index(node), digest: cluster_digest(&cluster, block) }];
    let one = Message::Block(block.clone()).encode().len();
    // There is no quorum left, so everything that is sent is a response.
    (0..size).filter(|other| *other != node).for_each(|other| cluster.crash(other));
    let flood = Message::Fetch(Fetch { wanted, above: Round(0) }).encode();
    let sent = cluster.network().sent_bytes;
    for _ in 0..200 {
        (0..faulty).for_each(|liar| cluster.receive(liar, node, &flood));
        cluster.run_for(5);
    }
    let blocks = (cluster.network().sent_bytes - sent) / one;
    // A block costs about 5 µs. One validator of four gets 12 full responses in its first second.
    assert!(blocks < 50 * 256, "{blocks} blocks");
    assert!(blocks > 16 * 256, "{blocks} blocks");
}

fn cluster_digest(cluster: &Cluster, block: &SignedBlock) -> B256 {
    Context::new(&cluster.committee).digest(&block.content)
}

/// Counts coin shares signed.
struct CountingSigner(Arc<dyn Signer>, Arc<AtomicUsize>);

impl Signer for CountingSigner {
    fn index(&self) -> ValidatorIndex {
        self.0.index()
    }

    fn sign(&self, heading: &Heading, digest: &B256) -> Result<Signature, Unsigned> {
        self.0.sign(heading, digest)
    }

    fn coin_shares(&self, message: &[u8]) -> CoinShares {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.coin_shares(message)
    }
}

#[test]
fn requested_coin_share_is_signed_once() {
    let roles = [Role::Byzantine, Role::Honest, Role::Honest, Role::Honest];
    let mut keys = Keys::fake(&roles);
    let count = Arc::new(AtomicUsize::new(0));
    keys.signers[1] = Arc::new(CountingSigner(keys.signers[1].clone(), count.clone()));
    let mut cluster = Cluster::with_keys(&roles, keys, quick(), 70);
    cluster.submit(1, "t");
    cluster.run_for(100);
    // The coin of its newest round stays closed.
    [0, 2, 3].into_iter().for_each(|node| cluster.crash(node));
    cluster.run_for(100);
    let (before, shares) = (count.load(Ordering::Relaxed), cluster.sent_others(1));
    let coins: Vec<_> = (0..64).map(|back| Round(clock(&cluster, 1) - back.min(5))).collect();
    let hello = Message::Hello(Hello { nonce: 1, after: Round(1_000), own: Round(1_000), coins });
    for _ in 0..1_000 {
        cluster.receive(0, 1, &hello.encode());
        cluster.run_for(1);
    }
    let signed = count.load(Ordering::Relaxed) - before;
    assert!((1..=6).contains(&signed), "{signed} signatures");
    assert!(cluster.sent_others(1) - shares > 20, "every answer holds the share");
}

// ---- floods ------------------------------------------------------------------------------------------------------------

/// A block of validator 0 with a batch of this size.
fn large(cluster: &Cluster, round: u64, number: u64, bytes: usize) -> (BlockRef, SignedBlock) {
    let parents = (0..4).map(|author| made_up(author, round - 1, number)).collect();
    let (_, mut block) = forge(cluster, round, parents, number);
    block.content.batch = [number.to_le_bytes().to_vec(), vec![7; bytes]].concat().into();
    let context = Context::new(&cluster.committee);
    let digest = context.digest(&block.content);
    block.signature = context.sign(&block.content, &*cluster.signer(0)).unwrap();
    (BlockRef { digest, round: Round(round), author: index(0) }, block)
}

fn with_a_flooder(seed: u64) -> Cluster {
    let roles = [Role::Byzantine, Role::Honest, Role::Honest, Role::Honest];
    let mut cluster = Cluster::new(&roles, quick(), seed);
    cluster.run_for(100);
    cluster.crash(0);
    cluster
}

#[test]
fn blocks_of_far_rounds_are_not_kept() {
    let mut cluster = with_a_flooder(58);
    let clock = clock(&cluster, 1);
    for number in 0..2_000 {
        // Alternating, up to the highest possible round.
        let round = if number % 2 == 0 { clock + 1_000 + number } else { (1 << 48) - number };
        let (_, block) = large(&cluster, round, number, 1_000);
        cluster.receive(0, 1, &Message::Block(block).encode());
    }
    assert_eq!(cluster.engine(1).footprint()[1], 0);
    assert_eq!(cluster.engine(1).waiting(), [0, 0]);
    // Their author is asked for the rounds between, and no more often than any peer that does not respond.
    let before = cluster.sent_others(1);
    cluster.run_for(10_000);
    let asked = cluster.sent_others(1) - before;
    assert!(asked < 60, "{asked} messages in ten seconds");
    cluster.submit(1, "t");
    assert!(cluster.run_while(3_000, |cluster| cluster.delivered(1).is_empty()));
}

/// Maximum number of waiting bytes and of wanted blocks while a flood of blocks of this size arrives.
fn most_waiting(seed: u64, bytes: usize) -> [usize; 2] {
    let mut cluster = with_a_flooder(seed);
    let clock = clock(&cluster, 1);
    let mut most = [0; 2];
    for number in 0..1_500u64 {
        // Four siblings in each of the rounds ahead, from the top down.
        let round = clock + 240 - number / 4 % 230;
        let (_, block) = large(&cluster, round, number, bytes);
        cluster.receive(0, 1, &Message::Block(block).encode());
        let waiting = cluster.engine(1).waiting();
        most = [most[0].max(waiting[0]), most[1].max(waiting[1])];
    }
    cluster.submit(1, "t");
    assert!(cluster.run_while(3_000, |cluster| cluster.delivered(1).is_empty()));
    most
}

#[test]
fn pending_blocks_are_bounded() {
    // A quarter of 256 MiB with the largest blocks; with small ones, 32 times as many parents as one block can name.
    let [bytes, wanted] = most_waiting(59, 500_000);
    assert!((32 << 20..65 << 20).contains(&bytes) && wanted <= 32 * 28, "{bytes} bytes wait, {wanted} blocks are wanted");
    let [bytes, wanted] = most_waiting(59, 100);
    assert!((16 * 28..=32 * 28).contains(&wanted) && bytes < 65 << 20, "{bytes} bytes wait, {wanted} blocks are wanted");
}

/// Siblings of one round that other blocks of the same author reference, each with complete history: none of them
/// waits.
#[test]
fn siblings_fill_only_their_authors_account() {
    let mut cluster = with_a_flooder(60);
    (0..20).for_each(|step| {
        cluster.submit(1 + step % 3, &format!("t{step}"));
        cluster.run_for(20);
    });
    let [before, ..] = cluster.engine(1).footprint();
    let context = Context::new(&cluster.committee);
    let top = clock(&cluster, 1) - 1;
    let genesis = context.genesis(index(0));
    let of = |cluster: &Cluster, round: u64, author: usize| {
        let block = &cluster.block(round, author);
        BlockRef { round: Round(round), author: index(author), digest: context.digest(&block.content) }
    };
    for number in 0..2_000u64 {
        let mut parents = vec![genesis];
        parents.extend((1..4).map(|author| of(&cluster, top - 1, author)));
        let (sibling, block) = forge(&cluster, top, parents, number);
        // A block that needs the sibling comes first, in a round with free siblings.
        let mut parents = vec![sibling];
        parents.extend((1..4).map(|author| of(&cluster, top, author)));
        let (_, dependent) = forge(&cluster, top + 1, parents, 10_000 + number);
        cluster.receive(0, 1, &Message::Block(dependent).encode());
        cluster.receive(0, 1, &Message::Block(block).encode());
    }
    let blocks = cluster.engine(1).footprint().into_iter().sum::<usize>() - before;
    assert!(blocks < 100, "{blocks} blocks");
}

/// Counts signature checks.
struct Counting(AtomicUsize);

impl Signatures for Counting {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        FakeSignatures.verify(author, digest, signature)
    }
}

#[test]
fn unrequested_blocks_cost_no_signature_check() {
    let cluster = with_a_flooder(61);
    let counting = Arc::new(Counting(AtomicUsize::new(0)));
    let verifier = MahiVerifier::new(quick(), committee(4), counting.clone());
    let blocks: Vec<_> = (0..256).map(|number| large(&cluster, 50, number, 100).1).collect();
    let cost = |message: &Message| verifier.cost(&message.encode());
    let (one, many) = (Message::Block(blocks[0].clone()), Message::Found(Found { blocks, missing: vec![] }));
    verifier.verify(index(0), &many.encode()).unwrap();
    assert_eq!(counting.0.load(Ordering::Relaxed), 0);
    verifier.verify(index(0), &one.encode()).unwrap();
    assert_eq!(counting.0.load(Ordering::Relaxed), 1);
    assert!(cost(&one) >= 50 && cost(&many) < 50, "{} and {} µs", cost(&one), cost(&many));
    // Decoding and hashing cost too, so it would show as a fault that the rest is invalid.
    verifier.verify(index(0), &unreadable()).unwrap();
}

/// A response that is invalid after its first bytes.
fn unreadable() -> Bytes {
    let head = Message::Found(Found { blocks: vec![], missing: vec![] }).encode();
    Bytes::from([&head[..2], &[0xff; 1_000][..]].concat())
}

#[test]
fn response_is_accepted_once_and_only_signed() {
    let mut cluster = with_a_flooder(62);
    (0..10).for_each(|step| {
        cluster.submit(1 + step % 3, &format!("t{step}"));
        cluster.run_for(20);
    });
    let context = Context::new(&cluster.committee);
    let top = clock(&cluster, 1) - 1;
    let mut parents = vec![context.genesis(index(0))];
    let named = |author: usize| {
        let block = &cluster.block(top - 1, author);
        BlockRef { round: Round(top - 1), author: index(author), digest: context.digest(&block.content) }
    };
    parents.extend((1..4).map(named));
    let (_, block) = forge(&cluster, top, parents, 1);
    let held = |cluster: &Cluster| cluster.engine(1).footprint()[0];
    let before = held(&cluster);
    let found = |block: &SignedBlock| Message::Found(Found { blocks: vec![block.clone()], missing: vec![] }).encode();
    cluster.receive(0, 1, &found(&block));
    assert_eq!(held(&cluster), before, "nobody asked");
    // A far block makes validator 1 send requests.
    let ask = |cluster: &mut Cluster| {
        let (_, far) = large(cluster, top + 1_000, 2, 10);
        cluster.receive(0, 1, &Message::Block(far).encode());
        cluster.run_for(3_000);
    };
    ask(&mut cluster);
    let before = held(&cluster);
    cluster.receive(0, 1, &unreadable());
    assert_eq!(held(&cluster), before, "counts as an empty answer");
    for signed in [false, true] {
        ask(&mut cluster);
        let shown = if signed { block.clone() } else { SignedBlock { signature: [7; 64], ..block.clone() } };
        let before = held(&cluster);
        cluster.receive(0, 1, &found(&shown));
        assert_eq!(held(&cluster), before + usize::from(signed), "signed: {signed}");
    }
}

/// A cluster whose engines count signature checks. Validator 0 equivocated and is excluded; the test controls it.
fn with_a_shunned_author(seed: u64) -> (Cluster, Arc<Counting>) {
    let roles = [Role::Byzantine, Role::Honest, Role::Honest, Role::Honest];
    let counting = Arc::new(Counting(AtomicUsize::new(0)));
    let keys = Keys { signatures: counting.clone(), ..Keys::fake(&roles) };
    let mut cluster = Cluster::with_keys(&roles, keys, quick(), seed);
    cluster.run_for(100);
    cluster.crash(0);
    let round = clock(&cluster, 1) + 1;
    for number in 0..2 {
        let (_, sibling) = large(&cluster, round, number, 0);
        cluster.receive(0, 1, &Message::Block(sibling).encode());
    }
    (cluster, counting)
}

/// Makes validator 1 need an invented parent of the excluded author. Returns true if it asks that author immediately.
fn bait(cluster: &mut Cluster, number: u64) -> bool {
    let (_, bait) = large(cluster, clock(cluster, 1) + 2 + number % 250, 1_000_000 + number, 0);
    let asked = cluster.sent_others(1);
    cluster.receive(0, 1, &Message::Block(bait).encode());
    cluster.run_for(1);
    cluster.sent_others(1) > asked
}

/// Number of signature checks of validator 1 for a response with these blocks.
fn cost_of_answer(cluster: &mut Cluster, counting: &Counting, blocks: Vec<SignedBlock>) -> usize {
    let before = counting.0.load(Ordering::Relaxed);
    cluster.receive(0, 1, &Message::Found(Found { blocks, missing: vec![] }).encode());
    counting.0.load(Ordering::Relaxed) - before
}

#[test]
fn surplus_siblings_cost_no_signature_check() {
    let (mut cluster, counting) = with_a_shunned_author(64);
    let round = clock(&cluster, 1) + 1;
    for number in 2..4 {
        let (_, sibling) = large(&cluster, round, number, 0);
        cluster.receive(0, 1, &Message::Block(sibling).encode());
    }
    for answer in 0..50 {
        let surplus = (0..256).map(|number| large(&cluster, round, 10_000 + 256 * answer + number, 0).1).collect();
        assert!(bait(&mut cluster, answer));
        let checks = cost_of_answer(&mut cluster, &counting, surplus);
        assert!(checks < 10, "{checks} signature checks for an answer of surplus siblings");
    }
}

#[test]
fn useless_responses_delay_little() {
    let waiting = |cluster: &Cluster, number: u64| large(cluster, clock(cluster, 1) + 250 - number / 256 % 240, number, 0).1;
    let unsigned = |cluster: &Cluster, number: u64| SignedBlock { signature: [7; 64], ..waiting(cluster, number) };
    type Kind<'a> = &'a dyn Fn(&Cluster, u64) -> SignedBlock;
    for (seed, kind) in [(66, &waiting as Kind<'_>), (67, &unsigned)] {
        let (mut cluster, counting) = with_a_shunned_author(seed);
        let (start, mut checks) = (cluster.now(), 0);
        for answer in 0..400 {
            let blocks = (0..256).map(|number| kind(&cluster, 256 * answer + number)).collect();
            bait(&mut cluster, answer);
            checks += cost_of_answer(&mut cluster, &counting, blocks);
            cluster.run_for(4);
        }
        // 50 µs each: a twentieth of a thread, and one full response at once.
        let most = 256 + (cluster.now() - start);
        assert!(checks as u64 <= most, "{checks} signature checks in {} ms", cluster.now() - start);
        cluster.submit(1, "t");
        assert!(cluster.run_while(3_000, |cluster| cluster.delivered(1).is_empty()));
    }
}

/// A node far behind catches up although it keeps none of the pushed blocks, even when the newest blocks it learns of
/// are lies.
#[test]
fn catch_up_ignores_nonexistent_rounds() {
    let config = Config { gc_depth: 30, retain_rounds: 5_000, fetch_blocks: 64, ..quick() };
    let mut roles = [Role::Honest; 7];
    roles[0] = Role::Byzantine;
    let mut cluster = Cluster::new(&roles, config, 63);
    cluster.run_for(100);
    cluster.crash(0);
    cluster.crash(6);
    while clock(&cluster, 1) < 2_000 {
        (1..6).for_each(|node| cluster.submit(node, &format!("t{}-{node}", cluster.now())));
        cluster.run_for(30);
    }
    let commits = cluster.seen(6).log.len();
    cluster.restart(6, commits);
    for step in 0..200 {
        let (_, far) = large(&cluster, (1 << 40) + step, step, 100);
        cluster.receive(0, 6, &Message::Block(far).encode());
        cluster.submit(1, &format!("during{step}"));
        cluster.run_for(50);
    }
    let [bytes, wanted] = cluster.engine(6).waiting();
    assert!(bytes < 4 << 20 && wanted < 1_000, "{bytes} bytes, {wanted} wanted");
    assert!(cluster.seen(6).log.len() + 10 >= cluster.seen(1).log.len(), "it is where the others are");
    cluster.assert_agreement();
}
