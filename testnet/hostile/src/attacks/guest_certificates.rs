//! Strangers send certificates that name a quorum, with a valid curve point that signs something else. Each costs the checking
//! node a pairing, about 1 ms. An identity is banned after five; the next one costs the attacker a handshake.
//!
//! Requirement: honest users are hardly affected, because the pipeline does not verify messages of guests.

use super::{Attack, By, SHORT_MESSAGES};
use crate::{
    context::AttackContext,
    stranger::{Stranger, for_each_victim},
};
use corniche_crypto::BlsSecretKey;
use corniche_engine::Committee;
use corniche_network::Channel;
use corniche_pipeline::PeerMessage;
use corniche_types::{B256, Bytes, Certificate, Height, SignerBitmap};
use futures::future::try_join_all;

/// Concurrent strangers for each victim.
const AT_ONCE: u64 = 4;
/// More than the limit before a ban: messages queued before the ban are checked too.
const PER_IDENTITY: usize = 16;
/// Far above any height of the network during a run.
const HEIGHT_OFFSET: u64 = 1 << 40;

pub const ATTACK: Attack = Attack {
    name: "guest-certificates",
    item: "B2",
    about: "strangers send certificates that cost a pairing to reject",
    by: By::Stranger,
    engine: None,
    signatures: None,
    restart: None,
    few: SHORT_MESSAGES,
    run: |context| Box::pin(run(context)),
};

async fn run(context: &AttackContext) -> anyhow::Result<()> {
    try_join_all(for_each_victim(context, AT_ONCE).map(|(first, victim)| flood(context, first, victim))).await.map(drop)
}

async fn flood(context: &AttackContext, first: u64, victim: usize) -> anyhow::Result<()> {
    for number in first.. {
        if context.budget.is_over() {
            break;
        }
        let Some(mut stranger) = Stranger::join(context, number, &[victim]).await? else { continue };
        for count in 0..PER_IDENTITY {
            if !context.budget.take() {
                break;
            }
            stranger.send(Channel::Votes, &certificate(context, number, count));
        }
        stranger.flush().await;
        stranger.leave().await;
    }
    Ok(())
}

/// A new certificate each time, so that no cache avoids the pairing.
fn certificate(context: &AttackContext, number: u64, count: usize) -> Bytes {
    let genesis = context.victims.genesis();
    let committee = Committee::from_genesis(genesis);
    let header_hash = B256::from(corniche_crypto::digest(&[number.to_le_bytes(), (count as u64).to_le_bytes()].concat()).0);
    let signature = BlsSecretKey::from_seed(header_hash.0).sign(header_hash.as_slice());
    let certificate = Certificate {
        epoch: committee.epoch(),
        committee_hash: committee.hash(),
        height: Height(HEIGHT_OFFSET + number),
        header_hash,
        fault_model: committee.fault_model(),
        signers: SignerBitmap::from_signers(committee.take_votes(committee.indices(), committee.quorum()), committee.size()),
        signature: Bytes::copy_from_slice(&signature.to_bytes()),
    };
    PeerMessage::Certificate(certificate).encode()
}
