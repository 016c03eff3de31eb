//! Mahi-Mahi in the simulator.

use super::{Builder, Charge, EngineNetwork, MEMBERS_ONLY, MeasuredEngine, Start, Tune};
use crate::{
    crypto::{Metered, Modelled},
    genesis::Secrets,
    scenario::Behaviour,
};
use corniche_crypto::CoinPublicKeys;
use corniche_engine::{Committee, Unsigned, Verified, Verifier, VertexId};
use corniche_mahi_mahi::{
    Coin, CoinShare, CoinShares, CoinValue, Config, MahiMahi, MahiVerifier, Setup, Signature, Signatures, Signer, crypto,
    message::{Context, Message, Round},
    verify::Checked,
};
use corniche_pipeline::{CommitteeCoin, EngineStart};
use corniche_types::{B256, Bytes, Genesis, ValidatorIndex, evidence::Heading, wire};
use std::sync::Arc;

const MADE_HERE: &str = "invariant: the genesis was made here, from these keys";

pub struct Network {
    config: Config,
    committee: Committee,
    nodes: usize,
    /// `None`: keys are modelled.
    public_coin: Option<CoinPublicKeys>,
}

impl Network {
    pub fn new(genesis: &Genesis, secrets: &Secrets, tune: Option<Tune>) -> Result<Self, String> {
        let mut config = Config::from_genesis(genesis)?;
        if let Some(Tune::MahiMahi(tune)) = tune {
            tune(&mut config);
        }
        let committee = Committee::from_genesis(genesis);
        let public_coin = secrets.shares.as_ref().map(|_| CoinPublicKeys::from_genesis(genesis).expect(MADE_HERE));
        Ok(Self { config, committee, nodes: secrets.names.count(), public_coin })
    }
}

fn coin(public_coin: Option<&CoinPublicKeys>, committee: &Committee) -> Arc<dyn Coin> {
    match public_coin {
        None => Arc::new(Modelled::new(committee, ValidatorIndex(0))),
        Some(keys) => Arc::new(crypto::ThresholdCoin::new(committee, keys.clone())),
    }
}

fn signatures(is_modelled: bool, committee: &Committee) -> Arc<dyn Signatures> {
    if is_modelled {
        return Arc::new(Modelled::new(committee, ValidatorIndex(0)));
    }
    Arc::new(crypto::CommitteeSignatures::new(committee).expect(MADE_HERE))
}

/// Signer of a node; `None` if it is no member. `dealt` is the coin that was dealt on the chain, if there is one.
fn signer(node: usize, secrets: &Secrets, committee: &Committee, dealt: Option<&CommitteeCoin>) -> Option<Arc<dyn Signer>> {
    let index = secrets.names.index(committee, node)?;
    let Some(shares) = &secrets.shares else { return Some(Arc::new(Modelled::new(committee, index))) };
    let share = dealt.map_or_else(|| shares.get(node).cloned(), |coin| coin.share.clone());
    let consensus = secrets.consensus_key(node, secrets.key_set(committee, node));
    let signer = crypto::ValidatorKeys::new(committee, consensus, share);
    Some(Arc::new(signer.expect(MADE_HERE)))
}

impl EngineNetwork for Network {
    fn max_held(&self) -> usize {
        self.config.max_footprint(self.nodes)
    }

    fn peek(&self, message: &Verified) -> Option<VertexId> {
        let Checked::Block(block) = message.0.downcast_ref()? else { return None };
        Some(block.reference().into())
    }

    fn verifier(&self, committee: &Committee, Charge { cost, meter }: Charge) -> Box<dyn Verifier> {
        let signatures = Metered { cost, meter, keys: signatures(self.public_coin.is_none(), committee) };
        Box::new(MahiVerifier::new(self.config.clone(), committee.clone(), Arc::new(signatures)))
    }

    fn forge_parent(&self, secrets: &Secrets, node: usize, bytes: &Bytes, random: u64) -> Option<Bytes> {
        let Ok(Message::Block(mut block)) = wire::decode::<Message>(bytes) else { return None };
        let others = block.content.parents.len().checked_sub(1).filter(|others| *others > 0)?;
        let place = 1 + usize::try_from(random % others as u64).ok()?;
        let parent = block.content.parents.get_mut(place).filter(|parent| parent.round > Round(0))?;
        parent.digest = corniche_crypto::digest(&random.to_le_bytes());
        let signer = signer(node, secrets, &self.committee, None)?;
        block.signature = Context::new(&self.committee).sign(&block.content, &*signer).ok()?;
        Some(Message::Block(block).encode())
    }

    fn builder(&self, node: usize, secrets: &Secrets, charge: Charge, behaviour: Option<Behaviour>) -> Builder {
        let (config, public_coin, secrets) = (self.config.clone(), self.public_coin.clone(), secrets.clone());
        let Charge { cost, meter } = charge;
        Box::new(move |Start { seed, start }| {
            let EngineStart { committee, epoch, records, has_all_records: unsigned, resume, coin: dealt, now } = start;
            let config = Config { genesis_time: epoch.time, ..config.clone() };
            let mut keys = signer(node, &secrets, &committee, dealt.as_ref()).expect(MEMBERS_ONLY);
            if behaviour == Some(Behaviour::CoinShareForger) {
                keys = Arc::new(FalseShares(keys));
            }
            let signer: Option<Arc<dyn Signer>> = Some(Arc::new(Metered { keys, cost, meter: meter.clone() }));
            let keys = signatures(public_coin.is_none(), &committee);
            let signatures: Arc<dyn Signatures> = Arc::new(Metered { keys, cost, meter: meter.clone() });
            let public_coin = public_coin.as_ref().map(|genesis| dealt.as_ref().map_or(genesis, |coin| &coin.keys));
            let keys = coin(public_coin, &committee);
            let coin: Arc<dyn Coin> = Arc::new(Metered { keys, cost, meter: meter.clone() });
            Box::new(MahiMahi::new(Setup { config, committee, signer, signatures, coin, seed, records, unsigned, resume, now }))
        })
    }
}

impl MeasuredEngine for MahiMahi {
    fn footprint(&self) -> usize {
        MahiMahi::footprint(self).into_iter().sum()
    }
}

/// Signs its blocks correctly, but sends false coin shares.
struct FalseShares(Arc<dyn Signer>);

impl Signer for FalseShares {
    fn index(&self) -> ValidatorIndex {
        self.0.index()
    }

    fn sign(&self, heading: &Heading, digest: &B256) -> Result<Signature, Unsigned> {
        self.0.sign(heading, digest)
    }

    fn coin_shares(&self, message: &[u8]) -> CoinShares {
        let mut shares = self.0.coin_shares(message);
        shares.iter_mut().for_each(|share| share[0] ^= 1);
        shares
    }
}

impl Signatures for Metered<dyn Signatures> {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        self.meter.checked(1, self.cost.verify_us);
        self.keys.verify(author, digest, signature)
    }
}

impl Signer for Metered<dyn Signer> {
    fn index(&self) -> ValidatorIndex {
        self.keys.index()
    }

    fn sign(&self, heading: &Heading, digest: &B256) -> Result<Signature, Unsigned> {
        self.meter.signed(self.cost.sign_us);
        self.keys.sign(heading, digest)
    }

    fn coin_shares(&self, message: &[u8]) -> CoinShares {
        self.meter.signed(self.cost.share_us);
        self.keys.coin_shares(message)
    }
}

impl Coin for Metered<dyn Coin> {
    fn combine(&self, message: &[u8], shares: &[(ValidatorIndex, CoinShares)]) -> Option<CoinValue> {
        self.meter.checked(1, self.cost.combine_us);
        self.keys.combine(message, shares)
    }

    fn verify(&self, message: &[u8], value: &CoinValue) -> bool {
        self.meter.checked(1, self.cost.combine_us);
        self.keys.verify(message, value)
    }

    fn verify_shares(&self, author: ValidatorIndex, message: &[u8], shares: &[CoinShare]) -> bool {
        self.meter.checked(1, self.cost.combine_us);
        self.keys.verify_shares(author, message, shares)
    }
}
