//! The only place that turns peers' bytes into [`Checked`] messages. No result depends on state, so it runs on any
//! thread.
//!
//! Checks everything that one message can prove by itself: signatures, quorums (P2), kinds (P3), the shape of cars and
//! cuts, sizes. The slots check the rules of the protocol (tickets, `select`, views), and the lanes the history of a
//! lane.
//!
//! **No message is expensive.** A response can hold thousands of cars, and any peer can send one without a request. Of
//! [`Message::Cars`] only the tip is read here. The engine knows if it requested the response, and calls
//! [`AutobahnVerifier::read_cars`] then. The lanes check the one signature that no hash replaces. Of
//! [`Message::Commits`] the first [`max_commits`] are checked and the rest is dropped. [`Verifier::cost`] returns the
//! cost of each message.

use crate::{
    config::Config,
    keys::{Share, Signatures},
    message::{
        Availability, Car, CommitKind, CommitQc, Context, Cut, DiskId, HashedCar, Message, Position, PrepareQc, Proof,
        SignedCar, SignedPrepare, Slot, Statement, Status, Timeout, TimeoutQc, Tip, View, Vote,
    },
    rules::Schedule,
    seal_cache::SealCache,
};
use borsh::BorshDeserialize;
use corniche_engine::{Committee, PeerFault, Verified, Verifier};
use corniche_types::{Bytes, ValidatorIndex, Votes, wire};
use std::sync::Arc;

/// Higher numbers are rejected, so that arithmetic cannot overflow.
const MAX_NUMBER: u64 = 1 << 48;
/// Maximum number of commits in one response.
pub const MAX_COMMITS: usize = 256;
/// Maximum number of cars in one response.
pub const MAX_CARS: usize = 10_000;
/// Maximum number of signature checks for one [`Message::Commits`], unless one certificate needs more.
const MAX_COMMIT_CHECKS: usize = 512;
/// Time to check an ed25519 signature, µs.
const CHECK_US: u64 = 50;
/// Time to check a BLS share or one message of a sum, µs.
const PAIRING_US: u64 = 1_000;
/// Time to read the head of a message, µs.
const READ_US: u64 = 5;
/// Bytes decoded and hashed per µs.
const READ_BYTES_PER_US: u64 = 512;
/// Minimum bytes per signature, with its data: an ed25519 signature; or a tip with its certificate's signers and BLS
/// sum.
const MIN_SIGNED_BYTES: usize = 64;

/// Number of commits of one response that are checked; their signatures take a few dozen milliseconds at most.
pub fn max_commits(config: &Config, committee: &Committee) -> usize {
    // A quorum needs at most Q members. A sum takes one pairing for any number of signers, which costs as much as twenty
    // signatures.
    let members = committee.quorum().as_usize().min(committee.size());
    let checks = if config.bls { (PAIRING_US / CHECK_US) as usize } else { members };
    (MAX_COMMIT_CHECKS / checks).clamp(1, MAX_COMMITS)
}

/// The stateless part of the engine.
pub struct AutobahnVerifier {
    config: Config,
    committee: Committee,
    context: Context,
    schedule: Schedule,
    signatures: Arc<dyn Signatures>,
    seals: SealCache,
}

/// A peer's message after all stateless checks.
#[derive(Clone, Debug)]
pub enum Checked {
    Car(Arc<HashedCar>),
    CarVote {
        tip: Tip,
        share: Share,
    },
    Available(Availability),
    FetchCars {
        tip: Tip,
        above: Position,
    },
    /// A response about this tip. Only the tip was checked; [`AutobahnVerifier::read_cars`] checks the rest.
    Cars {
        tip: Tip,
        unread: Bytes,
    },
    /// A message about slots.
    Slots(Box<Message>),
    Status {
        status: Box<Status>,
        receiver_car: Option<Arc<HashedCar>>,
    },
    FetchCommits {
        above: Slot,
    },
    Commits(Vec<(Cut, CommitQc)>),
}

type Checks = Result<(), String>;

impl Verifier for AutobahnVerifier {
    fn cost(&self, bytes: &[u8]) -> u64 {
        // The version, then the kind.
        let kind = bytes.get(1).copied().unwrap_or_default();
        let signed = bytes.len() / MIN_SIGNED_BYTES + 1;
        let size = self.committee.size();
        let checks = match kind {
            Message::CARS => return READ_US,
            Message::CAR => signed.min(size + 1),
            Message::STATUS => signed.min(2 * size + 3),
            Message::COMMITS => signed.min(MAX_COMMIT_CHECKS + size),
            // A sum over different statements takes one pairing for each, and these may be short.
            Message::PREPARE | Message::TIMEOUT_QC if self.config.bls => signed + size,
            _ if self.config.bls && self.config.weak_votes => signed + size,
            _ => signed,
        };
        let read = READ_US + bytes.len() as u64 / READ_BYTES_PER_US;
        read + checks as u64 * if self.config.bls { PAIRING_US } else { CHECK_US }
    }

    fn verify(&self, from: ValidatorIndex, bytes: &Bytes) -> Result<Verified, PeerFault> {
        self.check(from, bytes).map(|message| Verified(Arc::new(message))).map_err(PeerFault)
    }
}

fn decode(bytes: &Bytes) -> Result<Message, String> {
    wire::decode(bytes).map_err(|error| error.to_string())
}

/// Returns the tip of an encoded [`Message::Cars`] and its number of cars.
fn head_of_cars(bytes: &Bytes) -> Result<(Tip, u32), String> {
    let mut body = bytes.get(2..).unwrap_or_default();
    BorshDeserialize::deserialize(&mut body).map_err(|error| error.to_string())
}

fn ensure(holds: bool, error: impl FnOnce() -> String) -> Checks {
    if holds { Ok(()) } else { Err(error()) }
}

impl AutobahnVerifier {
    pub fn new(config: Config, committee: Committee, signatures: Arc<dyn Signatures>) -> Self {
        let (context, schedule) = (Context::new(&committee), Schedule::new(&committee, &config));
        let seals = SealCache::new(committee.size());
        Self { config, committee, context, schedule, signatures, seals }
    }

    fn check(&self, from: ValidatorIndex, bytes: &Bytes) -> Result<Checked, String> {
        ensure(self.committee.member(from).is_some(), || format!("validator {from} is not in the committee"))?;
        let limit = self.config.max_message_bytes(self.committee.size());
        ensure(bytes.len() <= limit, || format!("message: expected at most {limit} bytes, got {}", bytes.len()))?;
        if bytes.starts_with(&[wire::VERSION, Message::CARS]) {
            return self.check_tip_of_cars(bytes);
        }
        match decode(bytes)? {
            Message::Car(car) => {
                ensure(car.car.lane == from, || format!("car: got lane {}, expected {from}, the sender's", car.car.lane))?;
                ensure(car.certificate.is_some() || car.car.position.0 <= self.config.cars_ahead, || {
                    "D1: car without a certificate".into()
                })?;
                Ok(Checked::Car(self.check_car(car)?))
            }
            Message::CarVote { tip, share } => {
                self.check_tip(&tip)?;
                self.check_share(from, &Statement::CarVote(tip), &share)?;
                Ok(Checked::CarVote { tip, share })
            }
            Message::Available(certificate) => {
                self.check_availability(&certificate)?;
                Ok(Checked::Available(certificate))
            }
            Message::FetchCars { tip, above } => {
                self.check_tip(&tip)?;
                Ok(Checked::FetchCars { tip, above })
            }
            Message::Status(status) => self.check_status(from, status),
            Message::FetchCommits { above } => Ok(Checked::FetchCommits { above }),
            Message::Commits(commits) => self.check_commits(commits),
            about_slots => {
                self.check_about_slots(from, &about_slots)?;
                Ok(Checked::Slots(Box::new(about_slots)))
            }
        }
    }

    fn check_about_slots(&self, from: ValidatorIndex, message: &Message) -> Checks {
        match message {
            Message::Prepare(prepare) => self.check_prepare(prepare),
            Message::PrepareVote { vote, strong } => {
                self.check_vote(from, vote, prepared(vote.slot, vote.view, vote.cut, !strong))
            }
            Message::Confirm(certificate) => self.check_prepare_qc(certificate),
            Message::ConfirmAck(vote) => {
                let Vote { slot, view, cut, .. } = *vote;
                self.check_vote(from, vote, Statement::ConfirmAck { slot, view, cut })
            }
            Message::Commit(certificate) => self.check_commit_qc(certificate),
            Message::Timeout(timeout) => self.check_timeout(from, timeout),
            Message::TimeoutQc(certificate) => self.check_timeout_qc(certificate),
            Message::FetchCut { slot, .. } => self.check_slot(*slot),
            Message::Cut(cut) => self.check_cut(cut),
            _ => Err("unexpected kind of message".into()),
        }
    }

    // ---- lanes ---------------------------------------------------------------------------------------------------------

    fn check_tip(&self, tip: &Tip) -> Checks {
        ensure(self.committee.member(tip.lane).is_some(), || format!("lane {} has no owner", tip.lane))?;
        ensure((1..=MAX_NUMBER).contains(&tip.position.0), || format!("car position {} is out of range", tip.position.0))
    }

    fn check_car(&self, signed: SignedCar) -> Result<Arc<HashedCar>, String> {
        let car = self.check_unsigned(signed)?;
        // Last, because it is expensive.
        let good = self.signatures.verify(car.lane(), &car.tip().digest, &car.signed().signature);
        ensure(good, || format!("bad signature on {:?}", car.tip()))?;
        Ok(Arc::new(car))
    }

    /// Checks everything about a car except its own signature.
    fn check_unsigned(&self, signed: SignedCar) -> Result<HashedCar, String> {
        let Car { lane, position, parent, batch } = &signed.car;
        let limit = self.config.batch_bytes as usize;
        ensure(batch.len() <= limit, || format!("batch: expected at most {limit} bytes, got {}", batch.len()))?;
        self.check_tip(&Tip { lane: *lane, position: *position, digest: *parent })?;
        ensure(position.0 > 1 || *parent == self.context.lane_start(*lane), || {
            "first car: expected the lane's start as its parent".into()
        })?;
        if let Some(certificate) = &signed.certificate {
            let below = certificate.tip.position;
            let fits = certificate.tip.lane == *lane && below < *position && position.0 - below.0 <= self.config.cars_ahead;
            ensure(fits, || format!("car at {position:?}: certificate of {:?} is out of range", certificate.tip))?;
            let names_parent = below.next() < *position || certificate.tip.digest == *parent;
            ensure(names_parent, || "car: expected a certificate of its parent".into())?;
            self.check_availability(certificate)?;
        }
        Ok(HashedCar::trusted(signed, &self.context))
    }

    /// SYNC-REPLY: reads the tip only. Ten thousand cars take ten milliseconds to decode and hash, also if nobody
    /// requested them.
    fn check_tip_of_cars(&self, bytes: &Bytes) -> Result<Checked, String> {
        let (tip, _) = head_of_cars(bytes)?;
        self.check_tip(&tip)?;
        Ok(Checked::Cars { tip, unread: bytes.clone() })
    }

    /// Reads a requested response, [`Checked::Cars`]: a chain of at most `most` cars that ends at its tip, or nothing. The
    /// hashes are checked; [`crate::Lanes::handle_cars`] checks signatures where they do not suffice.
    pub fn read_cars(&self, unread: &Bytes, most: usize) -> Result<Vec<Arc<HashedCar>>, String> {
        let (_, count) = head_of_cars(unread)?;
        ensure(count as usize <= most, || format!("{count} cars, at most {most}"))?;
        let Message::Cars { tip, mut cars } = decode(unread)? else { return Err("no cars".into()) };
        // Inside a chain, certificates add nothing to the chain.
        cars.iter_mut().rev().skip(1).for_each(|car| car.certificate = None);
        let named = |car| self.check_unsigned(car).map(Arc::new);
        let cars = cars.into_iter().map(named).collect::<Result<Vec<_>, _>>()?;
        let chained = cars.windows(2).all(|pair| pair[1].parent() == pair[0].tip());
        ensure(chained && cars.last().is_none_or(|last| last.tip() == tip), || {
            "cars do not form a chain up to their tip".into()
        })?;
        Ok(cars)
    }

    /// Signers with F + 1 votes: one of them is correct and holds the car with its history.
    fn check_availability(&self, certificate: &Availability) -> Checks {
        self.check_tip(&certificate.tip)?;
        let statement = Statement::CarVote(certificate.tip);
        self.check_proof(&certificate.proof, self.committee.validity(), |_| statement)
    }

    // ---- shares and proofs ----------------------------------------------------------------------------------------------

    fn check_share(&self, signer: ValidatorIndex, statement: &Statement, share: &Share) -> Checks {
        let digest = self.context.statement(statement);
        ensure(self.signatures.verify_share(signer, &digest, share), || format!("bad share of validator {signer}"))
    }

    /// Checks that distinct members with at least `least` votes signed `statement` of their index in the list.
    fn check_proof(&self, proof: &Proof, least: Votes, statement: impl Fn(usize) -> Statement) -> Checks {
        let signers = &proof.signers;
        let known = signers.iter().all(|signer| self.committee.member(*signer).is_some());
        ensure(known && signers.is_sorted_by(|a, b| a < b), || "signers: expected distinct members in ascending order".into())?;
        let votes = self.committee.weigh(signers.iter().copied());
        ensure(votes >= least, || format!("signers: expected at least {least} votes, got {votes}"))?;
        // Usually all signed the same statement, which is then hashed once.
        let mut last = None;
        let mut digest = |statement: Statement| match last {
            Some((known, digest)) if known == statement => digest,
            _ => last.insert((statement, self.context.statement(&statement))).1,
        };
        let signed: Vec<_> = signers.iter().enumerate().map(|(place, signer)| (*signer, digest(statement(place)))).collect();
        let good = self.seals.is_valid(&signed, &proof.seal, || self.signatures.verify_seal(&signed, &proof.seal));
        ensure(good, || "bad seal".into())
    }

    // ---- slots ---------------------------------------------------------------------------------------------------------

    fn check_slot(&self, slot: Slot) -> Checks {
        ensure((1..=MAX_NUMBER).contains(&slot.0), || format!("slot {} is out of range", slot.0))
    }

    fn check_cut(&self, cut: &Cut) -> Checks {
        self.check_slot(cut.slot)?;
        ensure(cut.tips.len() == self.committee.size(), || format!("cut: expected one tip per lane, got {}", cut.tips.len()))?;
        ensure(cut.time.0 <= MAX_NUMBER, || format!("cut: time {} is out of range", cut.time.0))?;
        for (lane, tip) in self.committee.indices().zip(&cut.tips) {
            ensure(tip.lane == lane, || format!("cut: got lane {}, expected lane {lane}", tip.lane))?;
            if tip.position == Position(0) {
                ensure(*tip == self.context.start(lane), || format!("cut: wrong start of lane {lane}"))?;
            } else {
                self.check_tip(tip)?;
            }
        }
        Ok(())
    }

    fn check_prepare(&self, prepare: &SignedPrepare) -> Checks {
        let SignedPrepare { view, cut, signature, available, previous, timeouts } = prepare;
        self.check_cut(cut)?;
        let leader = self.schedule.leader(cut.slot, *view);
        let digest = self.context.prepare(cut.slot, *view, self.context.cut(cut));
        ensure(self.signatures.verify(leader, &digest, signature), || format!("PREPARE: bad signature of leader {leader}"))?;
        ensure(available.is_sorted_by(|a, b| a.tip.lane < b.tip.lane), || {
            "PREPARE: expected certificates in the order of lanes".into()
        })?;
        for certificate in available {
            self.check_availability(certificate)?;
            let tip = cut.tips[certificate.tip.lane.as_usize()];
            let fits = certificate.tip == tip || certificate.tip.position.next() == tip.position;
            ensure(fits, || format!("PREPARE: certificate of {:?} does not fit {tip:?}", certificate.tip))?;
        }
        previous.as_ref().map_or(Ok(()), |previous| self.check_commit_qc(previous))?;
        timeouts.as_ref().map_or(Ok(()), |timeouts| self.check_timeout_qc(timeouts))
    }

    fn check_vote(&self, from: ValidatorIndex, vote: &Vote, statement: Statement) -> Checks {
        self.check_slot(vote.slot)?;
        self.check_share(from, &statement, &vote.share)
    }

    fn check_prepare_qc(&self, certificate: &PrepareQc) -> Checks {
        let PrepareQc { slot, view, cut, weak, proof } = certificate;
        self.check_slot(*slot)?;
        let signed = |signer: &ValidatorIndex| proof.signers.binary_search(signer).is_ok();
        let listed = weak.is_sorted_by(|a, b| a < b) && weak.iter().all(signed);
        ensure(listed && (self.config.weak_votes || weak.is_empty()), || {
            "weak voters: expected signers of the certificate".into()
        })?;
        let weigh = |members: &[ValidatorIndex]| self.committee.weigh(members.iter().copied());
        let strong = weigh(&proof.signers) - weigh(weak);
        ensure(strong >= self.committee.validity(), || format!("P5: too few strong votes, {strong}"))?;
        let statement = |place: usize| prepared(*slot, *view, *cut, weak.binary_search(&proof.signers[place]).is_ok());
        self.check_proof(proof, self.committee.quorum(), statement)
    }

    /// P3: the kinds are signed under different statements.
    fn check_commit_qc(&self, certificate: &CommitQc) -> Checks {
        let CommitQc { kind, slot, view, cut, proof } = certificate;
        let (slot, view, cut) = (*slot, *view, *cut);
        self.check_slot(slot)?;
        match kind {
            CommitKind::Fast => self.check_proof(proof, self.committee.total(), |_| prepared(slot, view, cut, false)),
            CommitKind::Slow => self.check_proof(proof, self.committee.quorum(), |_| Statement::ConfirmAck { slot, view, cut }),
        }
    }

    fn check_timeout(&self, from: ValidatorIndex, timeout: &Timeout) -> Checks {
        let Timeout { slot, view, report, share, confirmed, cuts } = timeout;
        let (slot, view, report) = (*slot, *view, *report);
        self.check_slot(slot)?;
        self.check_share(from, &Statement::Timeout { slot, view, report }, share)?;
        let views = [report.confirmed, report.voted].into_iter().flatten();
        ensure(views.clone().all(|(reported, _)| reported <= view), || "report of a later view".into())?;
        self.check_confirmed(slot, report.confirmed, confirmed.as_ref())?;
        ensure(cuts.len() <= 2, || format!("cuts: expected at most 2, got {}", cuts.len()))?;
        for cut in cuts {
            self.check_cut(cut)?;
            let digest = self.context.cut(cut);
            ensure(cut.slot == slot && views.clone().any(|(_, value)| value == digest), || {
                "cut that the report does not name".into()
            })?;
        }
        Ok(())
    }

    /// V5. More TIMEOUTs than a quorum needs are accepted: [`select`](crate::rules::select) is safe for any number of them.
    fn check_timeout_qc(&self, certificate: &TimeoutQc) -> Checks {
        let TimeoutQc { slot, view, reports, proof, confirmed } = certificate;
        let (slot, view) = (*slot, *view);
        self.check_slot(slot)?;
        ensure(reports.len() == proof.signers.len(), || "reports: expected one per signer".into())?;
        let mut views = reports.iter().flat_map(|report| [report.confirmed, report.voted]).flatten();
        ensure(views.all(|(reported, _)| reported <= view), || "report of a later view".into())?;
        self.check_proof(proof, self.committee.quorum(), |place| Statement::Timeout { slot, view, report: reports[place] })?;
        let highest = reports.iter().filter_map(|report| report.confirmed).max();
        self.check_confirmed(slot, highest, confirmed.as_ref())
    }

    /// Checks that `shown` is exactly the certificate named in the report.
    fn check_confirmed(&self, slot: Slot, named: Option<(View, corniche_types::B256)>, shown: Option<&PrepareQc>) -> Checks {
        let shown_name = shown.map(|shown| (shown.view, shown.cut));
        ensure(named == shown_name && shown.is_none_or(|shown| shown.slot == slot), || {
            "certificate that the report does not name".into()
        })?;
        shown.map_or(Ok(()), |shown| self.check_prepare_qc(shown))
    }

    // ---- catching up ---------------------------------------------------------------------------------------------------

    fn check_status(&self, from: ValidatorIndex, mut status: Status) -> Result<Checked, String> {
        ensure(status.lanes.len() == self.committee.size(), || {
            format!("status: expected one position per lane, got {}", status.lanes.len())
        })?;
        status.committed.as_ref().map_or(Ok(()), |committed| self.check_commit_qc(committed))?;
        ensure(status.disk_id.is_none_or(|disk_id| disk_id.validator == from), || "status: disk of another validator".into())?;
        for disk_id in [status.disk_id, status.peer_disk].into_iter().flatten() {
            let DiskId { validator, disk, signature } = disk_id;
            ensure(self.committee.member(validator).is_some(), || {
                format!("status: disk of {validator}, which is not in the committee")
            })?;
            let good = self.signatures.verify(validator, &self.context.disk_id(validator, disk), &signature);
            ensure(good, || format!("bad signature on the disk of {validator}"))?;
        }
        let receiver_car = status.receiver_car.take().map(|car| self.check_car(car)).transpose()?;
        Ok(Checked::Status { status: Box::new(status), receiver_car })
    }

    fn check_commits(&self, mut commits: Vec<(Cut, CommitQc)>) -> Result<Checked, String> {
        ensure(commits.len() <= MAX_COMMITS, || format!("commits: expected at most {MAX_COMMITS}, got {}", commits.len()))?;
        // They ascend, and a peer that lacks the rest requests it.
        commits.truncate(max_commits(&self.config, &self.committee));
        for (cut, certificate) in &commits {
            self.check_cut(cut)?;
            let named = certificate.slot == cut.slot && certificate.cut == self.context.cut(cut);
            ensure(named, || "certificate of another cut".into())?;
            self.check_commit_qc(certificate)?;
        }
        Ok(Checked::Commits(commits))
    }
}

fn prepared(slot: Slot, view: View, cut: corniche_types::B256, weak: bool) -> Statement {
    if weak { Statement::WeakPrepareVote { slot, view, cut } } else { Statement::PrepareVote { slot, view, cut } }
}
