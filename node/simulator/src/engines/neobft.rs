//! NeoBFT in the simulator.

use super::{
    Builder, Charge, EngineNetwork, MEMBERS_ONLY, MeasuredEngine, Start, Tune,
    digest_keys::{signatures, signer, unmetered},
};
use crate::{crypto::Metered, genesis::Secrets, scenario::Behaviour};
use corniche_aom_receiver::{OrderingCertificate, Proof};
use corniche_aom_wire::TAGS_PER_PACKET;
use corniche_engine::{Committee, Verified, Verifier, VertexId};
use corniche_neobft::{
    Config, Neobft, NeobftVerifier, Setup, Signatures, Signer,
    crypto::Protocol,
    message::{Context, Entry, GapEvidence, Message, Statement},
    rules,
    verify::Checked,
};
use corniche_pipeline::EngineStart;
use corniche_types::{B256, Bytes, Genesis, ValidatorIndex, wire};
use std::sync::Arc;

pub struct Network {
    config: Config,
    committee: Committee,
    is_modelled: bool,
}

impl Network {
    pub fn new(genesis: &Genesis, secrets: &Secrets, tune: Option<Tune>) -> Result<Self, String> {
        let mut config = Config::from_genesis(genesis)?;
        if let Some(Tune::Neobft(tune)) = tune {
            tune(&mut config);
        }
        Ok(Self { config, committee: Committee::from_genesis(genesis), is_modelled: secrets.shares.is_none() })
    }
}

impl EngineNetwork for Network {
    fn max_held(&self) -> usize {
        self.config.max_footprint(self.committee.size())
    }

    /// The leader's messages. Nobody proposes an order.
    fn peek(&self, message: &Verified) -> Option<VertexId> {
        let (round, view) = match &message.0.downcast_ref::<Checked>()?.0 {
            Message::GapDecision { view, slot, .. } => (slot.0, *view),
            Message::ViewStart { view, .. } => (u64::from(view.leader), *view),
            _ => return None,
        };
        Some(VertexId { round, author: rules::leader(view, &self.committee), digest: B256::ZERO })
    }

    fn verifier(&self, committee: &Committee, Charge { cost, meter }: Charge) -> Box<dyn Verifier> {
        let signatures = Metered { cost, meter, keys: signatures::<Protocol>(self.is_modelled, committee) };
        Box::new(NeobftVerifier::new(self.config.clone(), committee.clone(), Arc::new(signatures)))
    }

    fn distort(
        &self,
        secrets: &Secrets,
        behaviour: Behaviour,
        [node, to]: [usize; 2],
        bytes: &Bytes,
        random: u64,
    ) -> Option<Bytes> {
        let mut message = wire::decode::<Message>(bytes).ok()?;
        let signer = unmetered(signer::<Protocol>(node, secrets, &self.committee)?);
        let context = Context::new(&self.committee, self.config.group);
        let to = secrets.names.index(&self.committee, to)?;
        let is_changed = match behaviour {
            Behaviour::GapLiar => lie(&mut message, &context, &signer, random),
            Behaviour::TagForger => forge_tags(&mut message, to, &context, &signer),
            _ => false,
        };
        is_changed.then(|| message.encode())
    }

    fn builder(&self, node: usize, secrets: &Secrets, charge: Charge, _: Option<Behaviour>) -> Builder {
        let (config, is_modelled, secrets) = (self.config.clone(), self.is_modelled, secrets.clone());
        let Charge { cost, meter } = charge;
        Box::new(move |Start { start, .. }| {
            let EngineStart { committee, epoch, records, has_all_records: unsigned, resume, now, .. } = start;
            let config = Config { genesis_time: epoch.time, genesis_randomness: epoch.randomness, ..config.clone() };
            let keys = signer::<Protocol>(node, &secrets, &committee).expect(MEMBERS_ONLY);
            let signer: Arc<dyn Signer> = Arc::new(Metered { keys, cost, meter: meter.clone() });
            let keys = signatures::<Protocol>(is_modelled, &committee);
            let signatures: Arc<dyn Signatures> = Arc::new(Metered { keys, cost, meter: meter.clone() });
            Box::new(Neobft::new(Setup { config, committee, signer, signatures, records, unsigned, resume, now }))
        })
    }

    fn group(&self) -> Option<(Config, Arc<dyn Signatures>)> {
        Some((self.config.clone(), Arc::new(unmetered(signatures::<Protocol>(self.is_modelled, &self.committee)))))
    }
}

impl MeasuredEngine for Neobft {
    fn footprint(&self) -> usize {
        Neobft::footprint(self)
    }

    fn proposes_at_once(&self) -> bool {
        true
    }

    #[cfg(test)]
    fn describe(&self) -> String {
        Neobft::describe(self)
    }
}

/// A replica that denies packets that it has, and replies with another log-hash every second time.
fn lie(message: &mut Message, context: &Context, signer: &dyn Signer, random: u64) -> bool {
    match message {
        Message::GapReceive { view, slot, .. } => {
            let (view, slot) = (*view, *slot);
            let Some(signature) = context.sign(&Statement::GapDrop { view, slot }, signer) else { return false };
            *message = Message::GapDrop { view, slot, signature };
        }
        Message::Reply { hash, .. } | Message::Sync { hash, .. } if random.is_multiple_of(2) => hash.0[0] ^= 1,
        Message::QueryReply { entries, .. } => entries.clear(),
        _ => return false,
    }
    true
}

/// A relay that leaves only the tag of the receiver intact (pitfall 6); in a message to all, that of the first member.
fn forge_tags(message: &mut Message, to: ValidatorIndex, context: &Context, signer: &dyn Signer) -> bool {
    match message {
        Message::QueryReply { entries, .. } => forge_entries(entries, to),
        Message::GapReceive { certificate, .. } => forge_vector(certificate, to),
        Message::GapDecision { evidence: GapEvidence::Receive(certificate), .. } => {
            forge_vector(certificate, ValidatorIndex(0))
        }
        Message::ViewChange(change) => {
            if !forge_entries(&mut change.entries, to) {
                return false;
            }
            let Some(signature) = context.sign(&context.view_change(change), signer) else { return false };
            change.signature = signature;
            true
        }
        _ => false,
    }
}

fn forge_entries(entries: &mut [Entry], to: ValidatorIndex) -> bool {
    let mut is_changed = false;
    for entry in entries {
        if let Entry::Request(certificate) = entry {
            is_changed |= forge_vector(certificate, to);
        }
    }
    is_changed
}

fn forge_vector(certificate: &mut OrderingCertificate, to: ValidatorIndex) -> bool {
    let Proof::Hm { vector } = &mut certificate.proof else { return false };
    // Tags have 8 bytes, or 16 and fill the packet.
    let is_full = vector.first().is_some_and(|tags| tags[tags.len() / 2..].iter().any(|byte| *byte != 0));
    for (subgroup, tags) in vector.iter_mut().enumerate() {
        let tag_bytes = if is_full { tags.len() / TAGS_PER_PACKET } else { tags.len() / TAGS_PER_PACKET / 2 };
        // Unused bytes are zero, and an altered one would make the certificate malformed instead of wrong.
        for (place, tag) in tags.chunks_mut(tag_bytes).take(TAGS_PER_PACKET).enumerate() {
            let is_own = subgroup * TAGS_PER_PACKET + place == to.as_usize();
            if !is_own && tag.iter().any(|byte| *byte != 0) {
                tag[0] ^= 1;
            }
        }
    }
    true
}
