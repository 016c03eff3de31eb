//! Faulty validators propose transactions with their own signatures and attest that a rich account sent them. They attest no
//! sender of honest users' transactions.
//!
//! Requirement: no honest validator accepts the sender; unattested signatures are checked; honest transfers succeed.

use super::{Attack, By, SHORT_MESSAGES};
use crate::{
    context::AttackContext,
    insider::{self, Behaviour},
};
use alloy_consensus::TxEip1559;
use anyhow::{Context, ensure};
use corniche_admission::batch::encode;
use corniche_crypto::EthereumKey;
use corniche_pipeline::PeerMessage;
use corniche_types::{Bytes, U256, keccak256};

pub const ATTACK: Attack = Attack {
    name: "forged-senders",
    item: "sharding",
    about: "validators propose payments from an account without its signature and attest its address",
    by: By::Validators,
    engine: None,
    signatures: Some("sharded"),
    restart: None,
    few: SHORT_MESSAGES,
    run: |context| Box::pin(run(context)),
};

async fn run(context: &AttackContext) -> anyhow::Result<()> {
    let victim = context.victims.idle_account().context("the network has no funded account")?;
    let thief = EthereumKey::from_bytes(&corniche_crypto::digest(b"corniche-hostile/thief").0)?;
    let forged = thief.sign(TxEip1559 {
        chain_id: context.victims.genesis().chain_id,
        // The next one of the victim.
        nonce: 0,
        gas_limit: 21_000,
        max_fee_per_gas: 1 << 40,
        max_priority_fee_per_gas: 1,
        to: thief.address().into(),
        value: U256::from(1),
        ..Default::default()
    });
    let attestation = PeerMessage::Attestations(vec![(keccak256(&forged), victim)]).encode();
    let batch = encode(&[forged])?;
    insider::run(context, |_| {
        Ok(Box::new(ForgedSenders { attestation: attestation.clone(), is_attested: false, batch: batch.clone() }))
    })
    .await?;
    let account = thief.address();
    for index in context.checked_nodes() {
        let client = context.victims.client(index);
        let stolen = tokio::task::spawn_blocking(move || client.balance(account)).await??;
        ensure!(stolen.is_zero(), "node {index} executed a payment without its sender's signature");
    }
    Ok(())
}

struct ForgedSenders {
    attestation: Bytes,
    is_attested: bool,
    batch: Bytes,
}

impl Behaviour for ForgedSenders {
    fn batch(&mut self) -> Option<Bytes> {
        // Attested first, as an honest proposer does.
        std::mem::take(&mut self.is_attested).then(|| self.batch.clone())
    }

    fn extra(&mut self) -> Option<Bytes> {
        (!std::mem::replace(&mut self.is_attested, true)).then(|| self.attestation.clone())
    }
}
