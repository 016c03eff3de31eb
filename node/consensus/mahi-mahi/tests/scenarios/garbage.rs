//! For any bytes from a peer, either the verifier rejects them or the engine handles them.

use crate::{
    cluster::{Cluster, Random, Role, quick},
    crypto::{FakeSignatures, committee, sign},
    drawing::Drawing,
};
use corniche_engine::Verifier;
use corniche_mahi_mahi::{
    Config, MahiVerifier,
    message::{BlockRef, CoinHelp, Content, Context, Fetch, Found, Hello, MAX_ROUND, Message, Round, SignedBlock, Welcome},
};
use corniche_types::{B256, Bytes, TimestampMs, ValidatorIndex};
use std::sync::Arc;

fn verifier() -> MahiVerifier {
    MahiVerifier::new(Config { batch_bytes: 1_000, ..Config::default() }, committee(4), Arc::new(FakeSignatures))
}

fn signed(content: Content) -> SignedBlock {
    let signature = sign(content.author, &Context::new(&committee(4)).digest(&content));
    SignedBlock { content, signature }
}

fn good() -> Content {
    let context = Context::new(&committee(4));
    let parents = [1, 0, 2].map(|author| context.genesis(ValidatorIndex(author))).to_vec();
    let (author, round, timestamp) = (ValidatorIndex(1), Round(1), TimestampMs(5));
    Content { author, round, timestamp, parents, coin_shares: vec![[0; 48]], batch: Bytes::from_static(b"x") }
}

fn refusal(change: impl FnOnce(&mut Content)) -> String {
    let mut content = good();
    change(&mut content);
    let bytes = Message::Block(signed(content)).encode();
    verifier().verify(ValidatorIndex(1), &bytes).map(|_| ()).unwrap_err().0
}

#[test]
fn each_validity_rule_refuses_invalid_blocks() {
    assert!(verifier().verify(ValidatorIndex(1), &Message::Block(signed(good())).encode()).is_ok());
    let block =
        |round, author| BlockRef { round: Round(round), author: ValidatorIndex(author), digest: B256::with_last_byte(9) };
    assert!(refusal(|content| content.author = ValidatorIndex(4)).contains("author 4"));
    assert!(refusal(|content| content.round = Round(0)).contains("round 0"));
    assert!(refusal(|content| content.round = MAX_ROUND + 1).contains("round"));
    assert!(refusal(|content| content.parents.push(block(1, 3))).contains("V2"));
    assert!(refusal(|content| content.parents.truncate(2)).contains("V3"));
    assert!(refusal(|content| content.round = Round(2)).contains("V3"));
    assert!(refusal(|content| content.parents.push(block(0, 7))).contains("V3"));
    assert!(refusal(|content| content.parents.push(content.parents[0])).contains("V4"));
    assert!(refusal(|content| content.parents.swap(0, 1)).contains("V5"));
    assert!(refusal(|content| content.parents[2].digest = B256::ZERO).contains("V5"));
    assert!(refusal(|content| content.batch = vec![0; 1_001].into()).contains("batch"));
    let mut forged = signed(good());
    forged.content.timestamp = TimestampMs(6);
    let fault = verifier().verify(ValidatorIndex(1), &Message::Block(forged).encode()).map(|_| ()).unwrap_err();
    assert!(fault.0.contains("signature"));
    assert!(verifier().verify(ValidatorIndex(9), &Message::Block(signed(good())).encode()).is_err(), "a stranger");
}

#[test]
fn p2_siblings_do_not_form_parent_quorum() {
    // V4 rejects two parents by one author, so the parents that V3 counts have distinct authors.
    let fault = refusal(|content| {
        let own = content.parents[0];
        content.parents =
            vec![own, BlockRef { digest: B256::ZERO, ..own }, BlockRef { digest: B256::with_last_byte(1), ..own }];
        content.round = Round(1);
    });
    assert!(fault.contains('V'), "{fault}");
}

#[test]
fn oversized_lists_are_refused() {
    let reference = BlockRef { round: Round(1), author: ValidatorIndex(0), digest: B256::ZERO };
    let count = Config::default().fetch_blocks as usize + 1;
    let messages = [
        Message::Fetch(Fetch { wanted: vec![reference; count], above: Round(0) }),
        Message::Hello(Hello { nonce: 0, after: Round(0), own: Round(0), coins: vec![Round(1); 100] }),
        Message::Coins(CoinHelp::new(vec![], (0..100).map(|round| (Round(round), vec![[0; 48]])).collect())),
    ];
    for message in messages {
        assert!(verifier().verify(ValidatorIndex(1), &message.encode()).is_err());
    }
    let huge = Bytes::from(vec![1; Config::default().max_message_bytes(committee(4).weights()) * 2]);
    assert!(verifier().verify(ValidatorIndex(1), &huge).unwrap_err().0.contains("bytes"));
}

#[test]
fn random_and_mutated_bytes_never_panic() {
    let mut random = Random::new(3);
    let drawing = Drawing::parse(4, 4, "1 | 0:* | 1:* | 2:* | 3:*");
    let seeds: Vec<Vec<u8>> = drawing.blocks().map(|block| Message::Block(block.signed().clone()).encode().to_vec()).collect();
    for _ in 0..20_000 {
        let mut bytes = seeds[random.below(4) as usize].clone();
        for _ in 0..=random.below(4) {
            let place = random.below(bytes.len() as u64) as usize;
            bytes[place] = random.draw() as u8;
        }
        bytes.truncate(1 + random.below(bytes.len() as u64) as usize + random.below(40) as usize);
        let _ = verifier().verify(ValidatorIndex(2), &bytes.into());
    }
    for length in 0..2_000 {
        let bytes: Vec<u8> = (0..length % 97).map(|_| random.draw() as u8).collect();
        let _ = verifier().verify(ValidatorIndex(2), &[&[1u8][..], &bytes].concat().into());
    }
}

/// Well-formed messages of a validator that invents history: unknown parents, high rounds, timestamps far in the
/// future, many blocks of the same round, wrong responses.
#[test]
fn flood_of_plausible_blocks_is_bounded() {
    let roles = [Role::Equivocator, Role::Honest, Role::Honest, Role::Honest];
    let mut cluster = Cluster::new(&roles, quick(), 5);
    cluster.run_for(50);
    cluster.crash(0);
    let mut random = Random::new(77);
    for step in 0..3_000u64 {
        let round = 2 + random.below(50) * random.below(1_000_000);
        let unknown = |author: u16, digest: u64| BlockRef {
            round: Round(round - 1),
            author: ValidatorIndex(author),
            digest: B256::from(digest_of(digest)),
        };
        let parents = (0..4).map(|author| unknown(author, random.below(100))).collect();
        let timestamp = TimestampMs(if step % 3 == 0 { u64::MAX - step } else { cluster.now() });
        let batch = Bytes::from(step.to_le_bytes().to_vec());
        let content =
            Content { author: ValidatorIndex(0), round: Round(round), timestamp, parents, coin_shares: vec![[7; 48]], batch };
        let context = Context::new(&cluster.committee);
        let signature = context.sign(&content, &*cluster.signer(0)).unwrap();
        let block = SignedBlock { content, signature };
        let help = vec![(Round(step), [3; 48]), (Round(u64::MAX), [3; 48])];
        let message = match step % 6 {
            5 => Message::Coins(CoinHelp::new(
                help.clone(),
                help.into_iter().map(|(round, share)| (round, vec![share])).collect(),
            )),
            0 => Message::Found(Found { blocks: vec![block], missing: vec![unknown(2, 3)] }),
            1 => Message::Welcome(Welcome { nonce: step, latest: Some(block), named: Some(unknown(1, 2)) }),
            2 => Message::Fetch(Fetch { wanted: vec![unknown(1, 1); 200], above: Round(u64::MAX) }),
            3 => Message::Hello(Hello {
                nonce: 0,
                after: Round(u64::MAX),
                own: Round(u64::MAX),
                coins: vec![Round(u64::MAX), Round(0), Round(3)],
            }),
            _ => Message::Block(block),
        };
        let bytes = message.encode();
        (1..4).for_each(|target| cluster.receive(0, target, &bytes));
        if step % 100 == 0 {
            cluster.submit(1 + (step as usize / 100) % 3, &format!("t{step}"));
            cluster.run_for(10);
        }
    }
    cluster.run_for(2_000);
    cluster.assert_agreement();
    for (node, _) in cluster.honest_nodes() {
        assert_eq!(cluster.delivered(node).len(), 30, "validator {node}");
        let [_, pending, _] = cluster.engine(node).footprint();
        assert!(pending <= 2 * 30 + 64 + 8, "{pending} pending blocks");
    }
}

fn digest_of(number: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}
