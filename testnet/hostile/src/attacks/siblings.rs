//! Faulty validators sign many proposals for one position: siblings of each block (Mahi-Mahi), forks of each car (Autobahn).
//!
//! Requirement: unneeded siblings are not kept, equivocation is reported once, siblings of blocks cost stake and forks of cars do not,
//! honest transfers succeed.

use super::{Attack, By, SHORT_MESSAGES};
use crate::{
    context::AttackContext,
    forge::Forge,
    insider::{self, Behaviour, InsiderIdentity},
};
use anyhow::{Context as _, bail, ensure};
use corniche_autobahn::{
    crypto::ValidatorKeys,
    message::{Context, Message as AutobahnMessage, SignedCar},
};
use corniche_client::{ClientError, Wait};
use corniche_mahi_mahi::message::Message as MahiMahiMessage;
use corniche_types::{Bytes, TimestampMs, wire};
use std::time::Duration;

/// Per proposal.
const SIBLINGS: u64 = 16;

pub const ATTACK: Attack = Attack {
    name: "siblings",
    item: "B7",
    about: "validators sign sixteen further proposals for each of their own",
    by: By::Validators,
    engine: None,
    signatures: None,
    restart: None,
    few: SHORT_MESSAGES,
    run: |context| Box::pin(run(context)),
};

async fn run(context: &AttackContext) -> anyhow::Result<()> {
    let engine = context.victims.genesis().engine.name.as_str();
    insider::run(context, |identity| match engine {
        "mahi-mahi" => Ok(Box::new(Blocks(Forge::new(identity)?))),
        "autobahn" => Ok(Box::new(Cars::new(identity)?)),
        other => bail!("siblings: unsupported engine {other}"),
    })
    .await?;
    convicted(context)
}

/// Waits until all attackers are convicted, if they signed two blocks, and checks that nobody else is.
fn convicted(context: &AttackContext) -> anyhow::Result<()> {
    let (honest, genesis) = (context.honest(), context.victims.genesis());
    let first = *honest.first().context("expected at least one honest node")?;
    let client = context.victims.client(first);
    let wait = Wait { longest_pause: Duration::from_millis(200), ..Wait::at_most(Duration::from_secs(60)) };
    let jailed = || -> Result<Vec<u64>, ClientError> {
        let validators = client.staking()?.map(|staking| staking.validators).unwrap_or_default();
        Ok(validators.iter().filter(|validator| validator.jailed_until > 0).map(|validator| validator.id).collect())
    };
    let are_punished = genesis.engine.name == "mahi-mahi";
    let attackers = (0..genesis.validators.len()).filter(|index| are_punished && !honest.contains(index));
    let attackers: Vec<u64> = attackers.map(|index| index as u64).collect();
    let reached = wait.until(|| Ok((jailed()?.len() >= attackers.len()).then_some(())))?;
    let found = jailed()?;
    ensure!(reached.is_some() && found == attackers, "expected convictions of {attackers:?}, got {found:?}");
    Ok(())
}

/// One entry that is not a transaction: enough for a proposal.
pub(super) fn placeholder_batch() -> Option<Bytes> {
    corniche_admission::batch::encode(&[Bytes::from(vec![0xff; 256])]).ok()
}

struct Blocks(Forge);

impl Behaviour for Blocks {
    fn batch(&mut self) -> Option<Bytes> {
        placeholder_batch()
    }

    fn after(&mut self, message: &Bytes) -> Vec<Bytes> {
        let Ok(MahiMahiMessage::Block(block)) = wire::decode(message) else { return Vec::new() };
        let sibling = |number: u64| {
            let mut content = block.content.clone();
            content.timestamp = TimestampMs(content.timestamp.0.saturating_sub(number));
            MahiMahiMessage::Block(self.0.sign(content)).encode()
        };
        (1..=SIBLINGS).map(sibling).collect()
    }
}

struct Cars {
    context: Context,
    signer: ValidatorKeys,
}

impl Cars {
    fn new(identity: &InsiderIdentity) -> anyhow::Result<Self> {
        Ok(Self { context: Context::new(&identity.committee), signer: identity.keys.autobahn(&identity.committee, false)? })
    }
}

impl Behaviour for Cars {
    fn batch(&mut self) -> Option<Bytes> {
        placeholder_batch()
    }

    fn after(&mut self, message: &Bytes) -> Vec<Bytes> {
        let Ok(AutobahnMessage::Car(signed)) = wire::decode(message) else { return Vec::new() };
        let fork = |number: u64| {
            let mut car = signed.car.clone();
            car.batch = Bytes::from([&car.batch[..], &number.to_le_bytes()].concat());
            let signature = self.signer.sign_digest(&self.context.car(&car));
            AutobahnMessage::Car(SignedCar { car, signature, certificate: signed.certificate.clone() }).encode()
        };
        (1..=SIBLINGS).map(fork).collect()
    }
}
