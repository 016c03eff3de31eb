//! Blocks and batches that honest validators never make.

use crate::{
    context::AttackContext,
    insider::{self, Behaviour, InsiderIdentity, now},
};
use alloy_consensus::TxEip1559;
use corniche_admission::batch::{BATCH_OVERHEAD, ENTRY_OVERHEAD, encode};
use corniche_crypto::EthereumKey;
use corniche_engine::Committee;
use corniche_mahi_mahi::{
    Signer,
    crypto::ValidatorKeys,
    message::{BlockRef, Content, Context, Round, SignedBlock},
};
use corniche_types::{B256, Bytes, Genesis, U256};

/// First forged round: a network would need weeks to reach it.
pub const FORGED_ROUND_OFFSET: u64 = 1 << 32;

/// Signs blocks that no engine would make.
pub struct Forge {
    committee: Committee,
    context: Context,
    signer: ValidatorKeys,
}

impl Forge {
    pub fn new(identity: &InsiderIdentity) -> anyhow::Result<Self> {
        let signer = identity.keys.mahi_mahi(&identity.committee)?;
        Ok(Self { committee: identity.committee.clone(), context: Context::new(&identity.committee), signer })
    }

    /// A block that passes every check of its own bytes. Its parents do not exist.
    pub fn block(&self, round: Round, batch: Bytes) -> SignedBlock {
        let me = self.signer.index();
        let others = self.committee.indices().filter(|index| *index != me);
        let authors = self.committee.take_votes(std::iter::once(me).chain(others), self.committee.quorum());
        let parents = authors.into_iter().map(|author| {
            let name = [round.0.to_le_bytes(), u64::from(author.0).to_le_bytes()].concat();
            BlockRef { round: round - 1, author, digest: B256::from(corniche_crypto::digest(&name).0) }
        });
        let coin_shares = vec![[0; 48]; self.committee.votes(me).as_usize()];
        self.sign(Content { author: me, round, timestamp: now(), parents: parents.collect(), coin_shares, batch })
    }

    pub fn reference(&self, content: &Content) -> BlockRef {
        BlockRef { round: content.round, author: content.author, digest: self.context.digest(content) }
    }

    pub fn sign(&self, content: Content) -> SignedBlock {
        let signature = self.signer.sign_digest(&self.context.digest(&content));
        SignedBlock { content, signature }
    }
}

/// Every insider repeatedly proposes one full batch, whose unfunded transactions declare `gas` each. Execution skips them, so
/// they cost the attacker nothing.
pub async fn propose_declaring(context: &AttackContext, gas: u64) -> anyhow::Result<()> {
    let batch = declaring(context.victims.genesis(), gas)?;
    insider::run(context, |_| Ok(Box::new(Declared(batch.clone())))).await
}

struct Declared(Bytes);

impl Behaviour for Declared {
    fn batch(&mut self) -> Option<Bytes> {
        Some(self.0.clone())
    }
}

fn declaring(genesis: &Genesis, gas: u64) -> anyhow::Result<Bytes> {
    let seed = corniche_crypto::digest(b"corniche-hostile/unfunded").0;
    let key = EthereumKey::from_bytes(&seed)?;
    let raw = |nonce: u64| {
        key.sign(TxEip1559 {
            chain_id: genesis.chain_id,
            nonce,
            gas_limit: gas,
            max_fee_per_gas: 1 << 40,
            max_priority_fee_per_gas: 1,
            to: key.address().into(),
            value: U256::from(1),
            ..Default::default()
        })
    };
    let entry = raw(u64::from(u32::MAX)).len() + ENTRY_OVERHEAD;
    let count = (genesis.batch_bytes as usize - BATCH_OVERHEAD) / entry;
    let transactions: Vec<_> = (0..count as u64).map(raw).collect();
    Ok(encode(&transactions)?)
}
