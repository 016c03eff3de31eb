//! Messages and records with modelled keys, and the verifier.

use crate::{
    Batch, CORRECT, Claim, Content, EPOCH_LENGTH, Each, LIAR, Member, Model, Number, PerNumber,
    values::{digest, indices, member},
};
use corniche_engine::Verifier;
use corniche_mir::{
    message::{
        CheckpointCertificate, EpochCertificate, EpochChange, EpochConfig, EpochNumber, Message, NewEpoch, PreparedCertificate,
        Sn, Statement, Votes,
    },
    record::Promises,
    rules::{self, Selection},
};
use corniche_mir_testing::FakeKeys;
use corniche_types::{B256, ValidatorIndex};

/// Messages, as the verifier sees them.
impl Model {
    /// True if the verifier accepts a claim of the liar with the votes of these members, its own, and forged ones.
    pub fn is_proven(&mut self, claim: Claim, signers: Each<bool>) -> bool {
        if let Some(known) = self.memory.proofs.get(&(claim, signers)) {
            return *known;
        }
        let genuine = self.signed(claim, indices(signers).chain([LIAR]));
        let others = (0..CORRECT).filter(|at| !signers[*at]).map(|at| (member(at), [0; 64]));
        let mut forged: Votes = genuine.iter().copied().chain(others).collect();
        forged.sort_unstable_by_key(|(member, _)| *member);
        let repeated: Votes =
            genuine.iter().copied().chain(genuine.last().copied().into_iter().cycle().take(CORRECT)).collect();
        let is_proven = [genuine, forged, repeated].into_iter().any(|votes| self.accepts(claim, votes));
        self.memory.proofs.insert((claim, signers), is_proven);
        is_proven
    }

    pub fn accepts(&mut self, claim: Claim, votes: Votes) -> bool {
        let nothing = self.contents.number(Content::default());
        let mut change = self.change_of(LIAR, self.epochs + 1, nothing);
        match claim {
            Claim::Prepared(epoch, sn, batch) => {
                change.prepared.push(PreparedCertificate { votes, ..self.certificate(epoch, sn, batch) });
            }
            Claim::Checkpoint(sn) => change.checkpoint = Some(CheckpointCertificate { votes, ..self.checkpoint(sn) }),
            Claim::Config(number) => {
                let config = self.configs[number as usize].config.clone();
                change.certificate = Some(EpochCertificate { config, votes });
            }
        }
        self.verifies_change(change)
    }

    /// True if the verifier accepts an EPOCH-CHANGE with this content.
    pub fn is_valid(&mut self, target: u64, content: Number) -> bool {
        if let Some(known) = self.memory.valid.get(&(target, content)) {
            return *known;
        }
        let change = self.change_of(LIAR, target, content);
        let is_valid = self.verifies_change(change);
        self.memory.valid.insert((target, content), is_valid);
        is_valid
    }

    /// True if the verifier accepts a NEW-EPOCH that names EPOCH-CHANGEs of these members, and perhaps of the liar.
    pub fn is_quorum(&mut self, epoch: u64, senders: Each<bool>, has_lie: bool) -> bool {
        if let Some(known) = self.memory.quorums.get(&(epoch, senders, has_lie)) {
            return *known;
        }
        let (number, base) = (EpochNumber(epoch), rules::first_epoch(&self.committee));
        let leaders = rules::leaders_without(&base, number, &[], &self.committee);
        let nothing = Selection { base, start: Sn(0), listed: Vec::new() };
        let config = rules::ungracious(&nothing, number, leaders, &self.committee, EPOCH_LENGTH);
        let changes: Vec<_> = indices(senders).chain(has_lie.then_some(LIAR)).map(|sender| (sender, B256::ZERO)).collect();
        // Without EPOCH-CHANGEs a change is gracious.
        let is_ungracious = !changes.is_empty();
        let message = Message::NewEpoch(Box::new(NewEpoch { config, changes }));
        let is_quorum = is_ungracious && self.verifies(rules::primary(number, &self.committee), &message);
        self.memory.quorums.insert((epoch, senders, has_lie), is_quorum);
        is_quorum
    }

    pub fn verifies(&self, from: ValidatorIndex, message: &Message) -> bool {
        self.verifier.verify(from, &message.encode()).is_ok()
    }

    pub fn verifies_change(&self, mut change: EpochChange) -> bool {
        let statement = Statement::EpochChange(self.context.change(&change));
        change.signature = FakeKeys(change.sender).sign_digest(&self.context.digest(&statement));
        self.verifies(change.sender, &Message::EpochChange(Box::new(change)))
    }

    pub fn signed(&self, claim: Claim, signers: impl Iterator<Item = ValidatorIndex>) -> Votes {
        let statement = match claim {
            Claim::Prepared(epoch, sn, batch) => {
                Statement::Prepare { epoch: EpochNumber(epoch), sn: Sn(sn), digest: digest(batch) }
            }
            Claim::Checkpoint(sn) => Statement::Checkpoint { sn: Sn(sn), hash: B256::ZERO },
            Claim::Config(number) => {
                let config = &self.configs[number as usize].config;
                Statement::Echo { epoch: config.epoch, config: self.context.config(config) }
            }
        };
        let digest = self.context.digest(&statement);
        signers.map(|signer| (signer, FakeKeys(signer).sign_digest(&digest))).collect()
    }
}

/// Real messages and records for the model's numbers. Certificates have the votes of all: no rule looks at votes that were checked.
impl Model {
    pub fn promises(&mut self, member: &Member) -> Promises {
        Promises {
            certificate: self.epoch_certificate(member.config),
            target: member.target.map(EpochNumber),
            stable: (member.stable > 0).then(|| self.checkpoint(member.stable)),
            ..Promises::default()
        }
    }

    pub fn change_of(&mut self, sender: ValidatorIndex, target: u64, content: Number) -> EpochChange {
        let Content { config, stable, prepared } = self.contents[content].clone();
        EpochChange {
            sender,
            target: EpochNumber(target),
            certificate: self.epoch_certificate(config),
            checkpoint: (stable > 0).then(|| self.checkpoint(stable)),
            prepared: self.certificates(&prepared),
            signature: [0; 64],
        }
    }

    pub fn epoch_certificate(&self, config: Number) -> Option<EpochCertificate> {
        (config > 0).then(|| self.configs[config as usize].clone())
    }

    pub fn certificates(&mut self, prepared: &PerNumber<(u64, Batch)>) -> Vec<PreparedCertificate> {
        let certified = (1..).zip(prepared).filter_map(|(sn, prepared)| prepared.map(|(epoch, batch)| (epoch, sn, batch)));
        certified.map(|(epoch, sn, batch)| self.certificate(epoch, sn, batch)).collect()
    }

    pub fn certificate(&mut self, epoch: u64, sn: u64, batch: Batch) -> PreparedCertificate {
        if let Some(known) = self.memory.certificates.get(&(epoch, sn, batch)) {
            return known.clone();
        }
        let votes = self.signed(Claim::Prepared(epoch, sn, batch), self.committee.indices());
        let certificate = PreparedCertificate { epoch: EpochNumber(epoch), sn: Sn(sn), digest: digest(batch), votes };
        self.memory.certificates.insert((epoch, sn, batch), certificate.clone());
        certificate
    }

    pub fn checkpoint(&mut self, sn: u64) -> CheckpointCertificate {
        if let Some(known) = self.memory.checkpoints.get(&sn) {
            return known.clone();
        }
        let votes = self.signed(Claim::Checkpoint(sn), self.committee.indices());
        let checkpoint = CheckpointCertificate { sn: Sn(sn), hash: B256::ZERO, votes };
        self.memory.checkpoints.insert(sn, checkpoint.clone());
        checkpoint
    }

    /// Checkpoints that can be shown. A correct member signs one when all numbers up to it are committed (K1).
    pub fn checkpoints(&mut self, delivered: u64) -> Vec<u64> {
        let numbers = 1..=self.numbers;
        numbers.filter(|sn| self.is_proven(Claim::Checkpoint(*sn), [*sn <= delivered; CORRECT])).collect()
    }

    pub fn config(&mut self, config: EpochConfig) -> Number {
        let known = self.configs.iter().position(|known| known.config == config);
        let number = known.unwrap_or_else(|| {
            self.configs.push(EpochCertificate { config, votes: Votes::new() });
            self.configs.len() - 1
        });
        let number = Number::try_from(number).unwrap();
        if known.is_none() {
            self.configs[number as usize].votes = self.signed(Claim::Config(number), self.committee.indices());
        }
        number
    }
}
