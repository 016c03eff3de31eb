//! Keyed hashes that anybody could compute: inside a test they bind like real keys, because doubles use their own only. And the
//! verifier's part: whatever a double sends is checked against them.

use corniche_autobahn::{
    Config, Share, Signature, Signatures, Signer,
    message::{Availability, CommitKind, CommitQc, Context, Message, PrepareQc, SignedPrepare, Statement, Timeout, TimeoutQc},
    rules::Schedule,
};
use corniche_engine::Committee;
use corniche_types::{Address, B256, Bytes, EngineConfig, FeeRules, Genesis, TimestampMs, ValidatorIndex, ValidatorInfo};
use std::collections::BTreeMap;

pub struct Keys(pub ValidatorIndex);

fn mac(purpose: &str, owner: ValidatorIndex, digest: &B256) -> [u8; 64] {
    let mut out = [0; 64];
    let mut hasher = blake3::Hasher::new();
    hasher.update(purpose.as_bytes()).update(&owner.0.to_le_bytes()).update(digest.as_slice()).finalize_xof().fill(&mut out);
    out
}

impl Signer for Keys {
    fn index(&self) -> ValidatorIndex {
        self.0
    }

    fn sign(&self, digest: &B256) -> Signature {
        mac("signature", self.0, digest)
    }

    fn share(&self, digest: &B256) -> Share {
        mac("share", self.0, digest)[..8].to_vec().into()
    }
}

pub struct Checks;

impl Signatures for Checks {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        Keys(author).sign(digest) == *signature
    }

    fn verify_share(&self, signer: ValidatorIndex, digest: &B256, share: &Share) -> bool {
        Keys(signer).share(digest) == *share
    }

    fn combine(&self, shares: &[(ValidatorIndex, Share)]) -> Option<Bytes> {
        let seal: Vec<u8> = shares.iter().flat_map(|(_, share)| share.to_vec()).collect();
        Some(seal.into())
    }

    fn verify_seal(&self, signed: &[(ValidatorIndex, B256)], seal: &Bytes) -> bool {
        let expected: Vec<u8> = signed.iter().flat_map(|(signer, digest)| Keys(*signer).share(digest).to_vec()).collect();
        expected == seal[..]
    }
}

pub fn committee(size: usize) -> Committee {
    let validator = |position: usize| ValidatorInfo {
        consensus_key: B256::with_last_byte(u8::try_from(position).expect("committees are small")),
        bls_key: Bytes::new(),
        bls_proof: Bytes::new(),
        network_key: B256::ZERO,
        fee_address: Address::ZERO,
    };
    Committee::from_genesis(&Genesis {
        protocol_version: 1,
        chain_id: 7,
        currency: "TEST".into(),
        timestamp_ms: TimestampMs(0),
        block_ms: 0,
        block_gas_limit: 30_000_000,
        batch_bytes: 1 << 20,
        batch_gas: 30_000_000,
        epoch_blocks: 1_000_000,
        fees: FeeRules { initial_base_fee: 1, target_gas_per_second: 1 },
        engine: EngineConfig { name: "autobahn".into(), parameters: BTreeMap::new() },
        validators: (0..size).map(validator).collect(),
        coin_shares: Vec::new(),
        coin_public_key: Bytes::new(),
        accounts: BTreeMap::new(),
    })
}

/// What a verifier checks of a message about slots: signatures, quorums, and that certificates name what they should.
pub struct Verifier {
    pub config: Config,
    pub committee: Committee,
    pub context: Context,
}

impl Verifier {
    pub fn accepts(&self, from: ValidatorIndex, message: &Message) -> bool {
        let share = |statement, share| Checks.verify_share(from, &self.context.statement(&statement), share);
        match message {
            Message::Prepare(prepare) => self.prepare(prepare),
            Message::Prepared { vote, strong } => {
                let (slot, view, cut) = (vote.slot, vote.view, vote.cut);
                let weak = Statement::PreparedWeakly { slot, view, cut };
                let statement = if *strong { Statement::Prepared { slot, view, cut } } else { weak };
                (*strong || self.config.weak_votes) && share(statement, &vote.share)
            }
            Message::Confirm(certificate) => self.confirmed(certificate),
            Message::Confirmed(vote) => {
                share(Statement::Confirmed { slot: vote.slot, view: vote.view, cut: vote.cut }, &vote.share)
            }
            Message::Commit(certificate) => self.commit(certificate),
            Message::Timeout(timeout) => self.timeout(from, timeout),
            Message::TimedOut(certificate) => self.timed_out(certificate),
            Message::Available(certificate) => self.available(certificate),
            Message::FetchCut { .. } | Message::Cut(_) => true,
            _ => false,
        }
    }

    fn prepare(&self, prepare: &SignedPrepare) -> bool {
        let SignedPrepare { view, cut, signature, available, previous, timeouts } = prepare;
        let leader = Schedule::new(&self.committee, &self.config).leader(cut.slot, *view);
        let digest = self.context.prepare(cut.slot, *view, self.context.cut(cut));
        let lanes = cut.tips.iter().map(|tip| tip.lane);
        Checks.verify(leader, &digest, signature)
            && lanes.eq(self.committee.indices())
            && available.iter().all(|certificate| self.available(certificate))
            && previous.iter().all(|certificate| self.commit(certificate))
            && timeouts.iter().all(|certificate| self.timed_out(certificate))
    }

    fn available(&self, certificate: &Availability) -> bool {
        let digest = self.context.statement(&Statement::Held(certificate.tip));
        let signed: Vec<_> = certificate.proof.signers.iter().map(|signer| (*signer, digest)).collect();
        signed.len() >= self.committee.validity() && Checks.verify_seal(&signed, &certificate.proof.seal)
    }

    fn confirmed(&self, certificate: &PrepareQc) -> bool {
        let PrepareQc { slot, view, cut, .. } = *certificate;
        let signed = |signer: &ValidatorIndex| match certificate.weak.contains(signer) {
            true => (*signer, self.context.statement(&Statement::PreparedWeakly { slot, view, cut })),
            false => (*signer, self.context.statement(&Statement::Prepared { slot, view, cut })),
        };
        let signed: Vec<_> = certificate.proof.signers.iter().map(signed).collect();
        let strong = signed.len() - certificate.weak.len();
        let strength = if self.config.weak_votes { self.committee.validity() } else { signed.len() };
        signed.len() >= self.committee.quorum() && strong >= strength && Checks.verify_seal(&signed, &certificate.proof.seal)
    }

    fn commit(&self, certificate: &CommitQc) -> bool {
        let CommitQc { slot, view, cut, .. } = *certificate;
        let (statement, needed) = match certificate.kind {
            CommitKind::Fast => (Statement::Prepared { slot, view, cut }, self.committee.size()),
            CommitKind::Slow => (Statement::Confirmed { slot, view, cut }, self.committee.quorum()),
        };
        let digest = self.context.statement(&statement);
        let signed: Vec<_> = certificate.proof.signers.iter().map(|signer| (*signer, digest)).collect();
        signed.len() >= needed && Checks.verify_seal(&signed, &certificate.proof.seal)
    }

    fn timeout(&self, from: ValidatorIndex, timeout: &Timeout) -> bool {
        let Timeout { slot, view, report, .. } = *timeout;
        let digest = self.context.statement(&Statement::TimedOut { slot, view, report });
        let named = timeout.confirmed.as_ref().map(|certificate| (certificate.view, certificate.cut));
        let views = [report.confirmed, report.voted];
        Checks.verify_share(from, &digest, &timeout.share)
            && report.confirmed == named
            && views.into_iter().flatten().all(|(named, _)| named <= view)
            && timeout.confirmed.iter().all(|certificate| certificate.slot == slot && self.confirmed(certificate))
            && timeout.cuts.len() <= 2
    }

    fn timed_out(&self, certificate: &TimeoutQc) -> bool {
        let TimeoutQc { slot, view, ref reports, ref proof, ref confirmed } = *certificate;
        let digest = |report| self.context.statement(&Statement::TimedOut { slot, view, report });
        let signed: Vec<_> = proof.signers.iter().zip(reports).map(|(signer, report)| (*signer, digest(*report))).collect();
        let highest = reports.iter().filter_map(|report| report.confirmed).max();
        let named = confirmed.as_ref().map(|certificate| (certificate.view, certificate.cut));
        let tied =
            reports.iter().filter_map(|report| report.confirmed).filter(|(view, _)| Some(*view) == highest.map(|it| it.0));
        signed.len() == self.committee.quorum()
            && proof.signers.len() == reports.len()
            && proof.signers.is_sorted_by(|a, b| a < b)
            && Checks.verify_seal(&signed, &proof.seal)
            && highest == named
            && tied.clone().all(|it| Some(it) == highest)
            && confirmed.iter().all(|certificate| certificate.slot == slot && self.confirmed(certificate))
    }
}
