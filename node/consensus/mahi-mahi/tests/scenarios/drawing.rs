//! DAGs drawn as text.
//!
//! One line per round: `round | block | block …`. A block is `author:parents`; a prime marks a second sibling (`1'`).
//! Parents are blocks of the previous round, in list order. `3@2` is validator 3's block of round 2 (a weak link). `*`
//! means all unprimed blocks of the previous round. The author's own last unprimed block comes first, unless the list
//! starts with another own one. Spaces only separate.

use crate::crypto::{FakeCoin, FakeKeys, FakeSignatures, committee};
use corniche_engine::{Committee, Engine, Input, Ordered, Output, Resume, Verifier};
use corniche_mahi_mahi::{
    Config, MahiMahi, MahiVerifier, Setup, Signer,
    dag::Dag,
    message::{Block, BlockRef, Content, Context, Message, Round, SignedBlock},
    verify::Checked,
};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex};
use std::{collections::BTreeMap, sync::Arc};

/// A drawn DAG. Blocks are named `author@round`, with a prime for second siblings, for instance `1'@5`.
pub struct Drawing {
    pub size: usize,
    pub wave_length: u64,
    names: BTreeMap<String, BlockRef>,
    blocks: Vec<(String, Arc<Block>)>,
}

impl Drawing {
    pub fn parse(size: usize, wave_length: u64, text: &str) -> Self {
        let mut drawing = Self { size, wave_length, names: BTreeMap::new(), blocks: Vec::new() };
        let context = Context::new(&committee(size));
        for author in 0..size {
            let genesis = context.genesis(ValidatorIndex(u16::try_from(author).unwrap()));
            drawing.names.insert(format!("{author}@0"), genesis);
        }
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let mut parts = line.split('|').map(str::trim);
            let round: u64 = parts.next().unwrap().parse().expect("a line starts with its round");
            parts.for_each(|block| drawing.add(round, block));
        }
        drawing
    }

    fn add(&mut self, round: u64, text: &str) {
        let (name, parents) = text.split_once(':').expect("author:parents");
        let author: u16 = name.trim_end_matches('\'').parse().expect("an author is a number");
        let name = format!("{name}@{round}");
        let mut list: Vec<BlockRef> = Vec::new();
        for token in parents.split_whitespace() {
            match token {
                "*" => list.extend((0..self.size).filter_map(|other| self.names.get(&format!("{other}@{}", round - 1)))),
                token if token.contains('@') => list.push(self.names[token]),
                token => list.push(self.names[&format!("{token}@{}", round - 1)]),
            }
        }
        if list.first().is_none_or(|first| first.author.0 != author) {
            let own = (0..round).rev().find_map(|earlier| self.names.get(&format!("{author}@{earlier}"))).unwrap();
            list.retain(|parent| parent != own);
            list.insert(0, *own);
        }
        let block = sign(&committee(self.size), author, round, list, name.as_bytes());
        assert!(self.names.insert(name.clone(), block.reference()).is_none(), "{name} is drawn twice");
        self.blocks.push((name, block));
    }

    pub fn reference(&self, name: &str) -> BlockRef {
        self.names[name]
    }

    pub fn name(&self, reference: &BlockRef) -> &str {
        self.names.iter().find(|(_, named)| *named == reference).map(|(name, _)| name.as_str()).expect("a drawn block")
    }

    /// In drawing order, which is causal.
    pub fn blocks(&self) -> impl Iterator<Item = &Arc<Block>> {
        self.blocks.iter().map(|(_, block)| block)
    }

    pub fn dag(&self) -> Dag {
        let mut dag = Dag::new(committee(self.size).weights(), self.wave_length);
        self.blocks().for_each(|block| assert!(dag.insert(block.clone())));
        dag
    }

    /// Deliveries of an engine without keys that receives the blocks in this order, with coins that elect these
    /// leaders: for each commit, the names of the blocks whose batches are delivered.
    pub fn run(&self, leaders: &[(u64, &[u16])], order: impl IntoIterator<Item = usize>) -> Vec<(Ordered, Vec<String>)> {
        let outputs = self.outputs(leaders, order).into_iter();
        let name = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        let commits = outputs.filter_map(|output| if let Output::Deliver(ordered) = output { Some(ordered) } else { None });
        let named = |ordered: &Ordered| ordered.batches.iter().map(|(_, batch)| name(&batch.bytes)).collect();
        commits.map(|ordered| (ordered.clone(), named(&ordered))).collect()
    }

    /// All outputs of such an engine.
    pub fn outputs(&self, leaders: &[(u64, &[u16])], order: impl IntoIterator<Item = usize>) -> Vec<Output> {
        let (committee, mut coin) = (committee(self.size), FakeCoin::default());
        let context = Context::new(&committee);
        for (round, ranked) in leaders {
            coin.dictate(context.coin_message(Round(round + self.wave_length - 1)), ranked, committee.weights());
        }
        let ranks = u16::try_from(leaders[0].1.len()).unwrap();
        let config = Config { wave_length: self.wave_length, leaders: ranks, ..Config::default() };
        let verifier = MahiVerifier::new(config.clone(), committee.clone(), Arc::new(FakeSignatures));
        let (now, records, resume) = (TimestampMs(1_000), Vec::new(), Resume::default());
        let (signatures, coin) = (Arc::new(FakeSignatures), coin.shared());
        let setup = Setup { config, committee, signer: None, signatures, coin, seed: 1, records, unsigned: false, resume, now };
        let mut engine = MahiMahi::new(setup);
        for position in order {
            let block = self.blocks[position].1.clone();
            let message = verifier.verify(block.author(), &Message::Block(block.signed().clone()).encode()).unwrap();
            engine.handle(now, Input::Message { from: block.author(), message });
        }
        std::iter::from_fn(|| engine.poll()).collect()
    }
}

/// A block as its author would sign it; passes the verifier.
pub fn sign(committee: &Committee, author: u16, round: u64, parents: Vec<BlockRef>, batch: &[u8]) -> Arc<Block> {
    sign_at(TimestampMs(round * 10), committee, author, round, parents, batch)
}

/// Like [`sign`], at another time.
pub fn sign_at(
    timestamp: TimestampMs,
    committee: &Committee,
    author: u16,
    round: u64,
    parents: Vec<BlockRef>,
    batch: &[u8],
) -> Arc<Block> {
    let context = Context::new(committee);
    let keys = FakeKeys(ValidatorIndex(author), committee.votes(ValidatorIndex(author)));
    let content = Content {
        author: ValidatorIndex(author),
        round: Round(round),
        timestamp,
        parents,
        coin_shares: keys.coin_shares(&context.coin_message(Round(round))),
        batch: Bytes::copy_from_slice(batch),
    };
    let signature = context.sign(&content, &keys).unwrap();
    let verifier = MahiVerifier::new(Config::default(), committee.clone(), Arc::new(FakeSignatures));
    let bytes = Message::Block(SignedBlock { content, signature }).encode();
    match verifier.verify(ValidatorIndex(author), &bytes).map(|verified| verified.0.downcast::<Checked>().unwrap()) {
        Ok(checked) => match &*checked {
            Checked::Block(block) => block.clone(),
            other => panic!("{other:?} is no block"),
        },
        Err(fault) => panic!("validator {author}, round {round}: {fault}"),
    }
}
