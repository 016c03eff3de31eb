//! The only place that turns peers' bytes into [`Checked`] messages. Stateless, so it runs on any thread.
//!
//! Checks everything about a block that does not need its history (V1–V5, V7). Two rules are deliberately elsewhere:
//! the coin share (V6) is judged when the coin opens, see `coin`; the history (V8) is checked by the synchroniser.
//!
//! **No message is expensive.** A response can hold hundreds of blocks, and any peer can send one without a request.
//! [`Message::Found`] is not read here. The engine drops what it did not request, reads the rest with
//! [`MahiVerifier::read_found`] and checks its signatures.

use crate::{
    config::Config,
    keys::Signatures,
    message::{
        Block, BlockRef, CoinHelp, Content, Context, Fetch, Found, Hello, MAX_ROUND, MAX_TIMESTAMP, Message, Round, SignedBlock,
    },
};
use corniche_engine::{Committee, PeerFault, Verified, Verifier};
use corniche_types::{Bytes, ValidatorIndex, Votes, wire};
use std::{collections::BTreeSet, sync::Arc};

/// Maximum number of coins in one request, and of values and shares in one response.
pub const MAX_COINS: usize = 64;

/// Time to check a signature, µs.
const CHECK_US: u64 = 50;

/// Time to read the head of a message, µs.
const READ_US: u64 = 5;

/// The stateless part of the engine.
pub struct MahiVerifier {
    config: Config,
    committee: Committee,
    context: Context,
    signatures: Arc<dyn Signatures>,
}

/// A peer's message after all stateless checks.
#[derive(Clone, Debug)]
pub enum Checked {
    Block(Arc<Block>),
    Hello(Hello),
    Welcome {
        nonce: u64,
        latest: Option<Arc<Block>>,
        named: Option<BlockRef>,
    },
    Fetch(Fetch),
    /// A response, which [`MahiVerifier::read_found`] decodes and checks.
    Found {
        unread: Bytes,
    },
    Coins(CoinHelp),
}

impl Verifier for MahiVerifier {
    fn cost(&self, bytes: &[u8]) -> u64 {
        if is_found(bytes) {
            return READ_US;
        }
        // The version, then the kind. Decoding, hashing and checking parents takes about a microsecond per 256 bytes.
        let is_signed = matches!(bytes.get(1), Some(&Message::BLOCK | &Message::WELCOME));
        READ_US + bytes.len() as u64 / 256 + if is_signed { CHECK_US } else { 0 }
    }

    fn verify(&self, from: ValidatorIndex, bytes: &Bytes) -> Result<Verified, PeerFault> {
        self.check(from, bytes).map(|message| Verified(Arc::new(message))).map_err(PeerFault)
    }
}

fn is_found(bytes: &[u8]) -> bool {
    bytes.starts_with(&[wire::VERSION, Message::FOUND])
}

impl MahiVerifier {
    pub fn new(config: Config, committee: Committee, signatures: Arc<dyn Signatures>) -> Self {
        let context = Context::new(&committee);
        Self { config, committee, context, signatures }
    }

    fn check(&self, from: ValidatorIndex, bytes: &Bytes) -> Result<Checked, String> {
        if self.committee.member(from).is_none() {
            return Err(format!("validator {from} is not in the committee"));
        }
        let limit = self.config.max_message_bytes(self.committee.weights());
        if bytes.len() > limit {
            return Err(format!("message: expected at most {limit} bytes, got {}", bytes.len()));
        }
        if is_found(bytes) {
            return Ok(Checked::Found { unread: bytes.clone() });
        }
        match wire::decode(bytes).map_err(|error| error.to_string())? {
            Message::Block(block) => Ok(Checked::Block(self.check_block(block)?)),
            Message::Hello(hello) => self.check_hello(hello),
            Message::Welcome(welcome) => {
                let latest = welcome.latest.map(|block| self.check_block(block)).transpose()?;
                Ok(Checked::Welcome { nonce: welcome.nonce, latest, named: welcome.named })
            }
            Message::Fetch(fetch) => {
                self.check_count("wanted", fetch.wanted.len())?;
                Ok(Checked::Fetch(fetch))
            }
            Message::Found(_) => Err("a response is read by the engine".into()),
            Message::Coins(help) => self.check_coin_help(from, help),
        }
    }

    fn check_hello(&self, hello: Hello) -> Result<Checked, String> {
        if hello.coins.len() > MAX_COINS {
            return Err(format!("hello: too many coins, {}", hello.coins.len()));
        }
        Ok(Checked::Hello(hello))
    }

    fn check_coin_help(&self, from: ValidatorIndex, help: CoinHelp) -> Result<Checked, String> {
        if help.checks() > MAX_COINS {
            return Err("coin help: too many values and shares".into());
        }
        let expected = self.committee.votes(from).as_usize();
        if let Some((round, shares)) = help.shares().find(|(_, shares)| shares.len() != expected) {
            return Err(format!("coin help: got {} shares of round {round}, expected {expected}", shares.len()));
        }
        Ok(Checked::Coins(help))
    }

    /// Reads a requested response, [`Checked::Found`]: its blocks, with unchecked signatures, and the references that
    /// the sender lacks.
    pub fn read_found(&self, unread: &Bytes) -> Result<(Vec<Arc<Block>>, Vec<BlockRef>), String> {
        let message = wire::decode(unread).map_err(|error| error.to_string())?;
        let Message::Found(Found { blocks, missing }) = message else { return Err("no response".into()) };
        self.check_count("blocks", blocks.len())?;
        self.check_count("missing", missing.len())?;
        let named = |block| self.check_unsigned(block).map(Arc::new);
        Ok((blocks.into_iter().map(named).collect::<Result<_, _>>()?, missing))
    }

    fn check_count(&self, what: &str, count: usize) -> Result<(), String> {
        let limit = self.config.fetch_blocks as usize;
        if count > limit { Err(format!("{what}: expected at most {limit} blocks, got {count}")) } else { Ok(()) }
    }

    /// Checks everything about a block except its signature.
    fn check_unsigned(&self, signed: SignedBlock) -> Result<Block, String> {
        self.check_shape(&signed.content)?;
        self.check_parents(&signed.content)?;
        Ok(Block::trusted(signed, &self.context))
    }

    fn check_block(&self, signed: SignedBlock) -> Result<Arc<Block>, String> {
        let block = self.check_unsigned(signed)?;
        // V1; last, because it is the only expensive check.
        if !self.signatures.verify(block.author(), &block.reference().digest, &block.signed().signature) {
            return Err(format!("bad signature on {:?}", block.reference()));
        }
        Ok(Arc::new(block))
    }

    /// Checks V1 (author), V2 (round) and V7.
    fn check_shape(&self, content: &Content) -> Result<(), String> {
        if self.committee.member(content.author).is_none() {
            return Err(format!("author {} is not in the committee", content.author));
        }
        if content.round < Round(1) || content.round > MAX_ROUND {
            return Err(format!("round {} is out of range", content.round));
        }
        if content.timestamp > MAX_TIMESTAMP {
            return Err(format!("timestamp {} of a block, at most {}", content.timestamp.0, MAX_TIMESTAMP.0));
        }
        if content.batch.len() > self.config.batch_bytes as usize {
            return Err(format!("batch: got {} bytes, expected at most {}", content.batch.len(), self.config.batch_bytes));
        }
        let (shares, votes) = (content.coin_shares.len(), self.committee.votes(content.author));
        if shares != votes.as_usize() {
            return Err(format!("coin shares: got {shares}, expected one per vote, {votes}"));
        }
        let limit = Config::max_parents(self.committee.size());
        if content.parents.len() > limit {
            return Err(format!("parents: expected at most {limit}, got {}", content.parents.len()));
        }
        Ok(())
    }

    /// Checks V2–V5.
    fn check_parents(&self, content: &Content) -> Result<(), String> {
        let mut slots = BTreeSet::new();
        let mut previous_round = Votes(0);
        for parent in &content.parents {
            if parent.round >= content.round {
                return Err(format!("V2: parent {parent:?} is not below round {}", content.round));
            }
            if self.committee.member(parent.author).is_none() {
                return Err(format!("V3: author of parent {parent:?} is not in the committee"));
            }
            if parent.round == Round(0) && *parent != self.context.genesis(parent.author) {
                return Err(format!("V5: {parent:?} is not a genesis block"));
            }
            if !slots.insert((parent.round, parent.author)) {
                return Err(format!("V4: two parents of round {} by validator {}", parent.round, parent.author));
            }
            // V4 makes the authors of parents of one round distinct, so this weighs authors (P2).
            if parent.round + 1 == content.round {
                previous_round += self.committee.votes(parent.author);
            }
        }
        if previous_round < self.committee.quorum() {
            return Err(format!(
                "V3: the authors of parents in the previous round have {previous_round} votes, expected at least {}",
                self.committee.quorum()
            ));
        }
        match content.parents.first() {
            Some(own) if own.author == content.author => Ok(()),
            _ => Err("V5: the first parent is not the author's own".into()),
        }
    }
}
