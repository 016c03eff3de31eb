//! Pure verdicts: leaders of numbers (3.3), configurations of epochs (3.5, 3.6), and the selection of batches (3.7).

use crate::message::{EpochChange, EpochConfig, EpochNumber, NULL, PreparedCertificate, Sn};
use corniche_engine::Committee;
use corniche_types::{B256, ValidatorIndex};
use std::collections::{BTreeMap, BTreeSet};

/// 1.3: member e mod n.
pub fn primary(epoch: EpochNumber, committee: &Committee) -> ValidatorIndex {
    ValidatorIndex((epoch.0 % committee.size() as u64) as u16)
}

/// 1.4: epoch 0 is stable, and all members lead.
pub fn first_epoch(committee: &Committee) -> EpochConfig {
    EpochConfig {
        epoch: EpochNumber(0),
        leaders: committee.indices().collect(),
        start: Sn(0),
        listed: Vec::new(),
        first: Sn(1),
        last: None,
    }
}

/// S1: the leader of a fresh number. The leaders take turns, starting at the primary, in cyclic order (M4).
pub fn leader(config: &EpochConfig, sn: Sn, committee: &Committee) -> Option<ValidatorIndex> {
    if !is_fresh(config, sn) {
        return None;
    }
    let primary = primary(config.epoch, committee);
    let begin = config.leaders.iter().position(|leader| *leader == primary)?;
    let turn = ((sn.0 - config.first.0) % config.leaders.len() as u64) as usize;
    config.leaders.get((begin + turn) % config.leaders.len()).copied()
}

/// The first number from `from` on that this member leads; its next ones are `config.leaders.len()` apart.
pub fn next_led(config: &EpochConfig, member: ValidatorIndex, from: Sn, committee: &Committee) -> Option<Sn> {
    let place = |wanted| config.leaders.iter().position(|leader| *leader == wanted);
    let (count, begin, own) =
        (config.leaders.len() as u64, place(primary(config.epoch, committee))? as u64, place(member)? as u64);
    let first = config.first.plus((own + count - begin) % count);
    let steps = from.0.saturating_sub(first.0).div_ceil(count);
    let sn = first.plus(steps * count);
    config.last.is_none_or(|last| sn <= last).then_some(sn)
}

/// True if a leader of the epoch proposes this number.
pub fn is_fresh(config: &EpochConfig, sn: Sn) -> bool {
    sn >= config.first && config.last.is_none_or(|last| sn <= last)
}

/// Digest of a number that the epoch proposes again (U8).
pub fn listed(config: &EpochConfig, sn: Sn) -> Option<B256> {
    let place = sn.0.checked_sub(config.start.0)?.checked_sub(1)?;
    config.listed.get(usize::try_from(place).ok()?).copied()
}

/// G1: configuration after an ephemeral epoch whose numbers are all delivered; `None` after a stable one.
pub fn gracious(before: &EpochConfig, committee: &Committee, epoch_length: u64) -> Option<EpochConfig> {
    let start = before.last?;
    let epoch = before.epoch.plus(1);
    let mut leaders: BTreeSet<_> = before.leaders.iter().copied().collect();
    leaders.insert(primary(epoch, committee));
    Some(config(epoch, leaders.into_iter().collect(), (start, Vec::new()), committee, epoch_length))
}

/// True if all numbers of the epoch are delivered. Never true in a stable one.
pub fn is_finished(config: &EpochConfig, delivered: Sn) -> bool {
    config.last.is_some_and(|last| last <= delivered)
}

/// G2, G5: a gracious configuration follows the one before when all numbers of that are delivered.
pub fn is_gracious(
    config: &EpochConfig,
    before: &EpochConfig,
    delivered: Sn,
    committee: &Committee,
    epoch_length: u64,
) -> bool {
    is_finished(before, delivered) && gracious(before, committee, epoch_length).as_ref() == Some(config)
}

/// M3: an ephemeral epoch has exactly `epoch_length` fresh numbers.
fn config(
    epoch: EpochNumber,
    leaders: Vec<ValidatorIndex>,
    (start, listed): (Sn, Vec<B256>),
    committee: &Committee,
    epoch_length: u64,
) -> EpochConfig {
    // M2, U5: not Last(e) + 1, which does not exist after a stable epoch.
    let first = start.plus(listed.len() as u64).next();
    let is_stable = leaders.len() == committee.size();
    let last = (!is_stable).then(|| first.plus(epoch_length).minus(1));
    EpochConfig { epoch, leaders, start, listed, first, last }
}

/// Result of 3.7.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Configuration of the last epoch among the EPOCH-CHANGEs.
    pub base: EpochConfig,
    /// The highest stable checkpoint.
    pub start: Sn,
    /// Digests of the numbers after `start`.
    pub listed: Vec<B256>,
}

/// 3.7, certificate variant: per number above the highest stable checkpoint, the batch with the certificate of the highest epoch,
/// null without a certificate. The list ends with the last number that has one.
///
/// `changes` are valid, for one epoch, and from members with a quorum of votes.
pub fn select(changes: &[&EpochChange], committee: &Committee) -> Selection {
    let configs = changes.iter().filter_map(|change| change.certificate.as_ref()).map(|certificate| &certificate.config);
    let base = configs.max_by_key(|config| config.epoch).cloned().unwrap_or_else(|| first_epoch(committee));
    let start = changes.iter().map(|change| change.stable()).max().unwrap_or_default();
    let mut newest: BTreeMap<Sn, &PreparedCertificate> = BTreeMap::new();
    for certificate in changes.iter().flat_map(|change| &change.prepared).filter(|certificate| certificate.sn > start) {
        let before = newest.entry(certificate.sn).or_insert(certificate);
        if certificate.epoch > before.epoch {
            *before = certificate;
        }
    }
    let end = newest.last_key_value().map_or(start, |(sn, _)| *sn);
    let digest = |sn| newest.get(&sn).map_or(NULL, |certificate| certificate.digest);
    let listed = (start.0 + 1..=end.0).map(|sn| digest(Sn(sn))).collect();
    Selection { base, start, listed }
}

/// U5: configuration of an ungracious epoch with these leaders.
pub fn ungracious(
    selection: &Selection,
    epoch: EpochNumber,
    leaders: Vec<ValidatorIndex>,
    committee: &Committee,
    epoch_length: u64,
) -> EpochConfig {
    config(epoch, leaders, (selection.start, selection.listed.clone()), committee, epoch_length)
}

/// U5, M11: the leaders after an ungracious change. Removes suspects, the first ones first, at most one for each epoch since `base`,
/// and at least one if all members would lead.
pub fn leaders_without(
    base: &EpochConfig,
    epoch: EpochNumber,
    suspects: &[ValidatorIndex],
    committee: &Committee,
) -> Vec<ValidatorIndex> {
    let primary = primary(epoch, committee);
    let mut leaders: BTreeSet<_> = base.leaders.iter().copied().collect();
    leaders.insert(primary);
    let most = usize::try_from(epoch.0.saturating_sub(base.epoch.0)).unwrap_or(usize::MAX);
    let removable: Vec<_> =
        suspects.iter().filter(|suspect| **suspect != primary && leaders.contains(suspect)).take(most).copied().collect();
    removable.iter().for_each(|suspect| _ = leaders.remove(suspect));
    if leaders.len() == committee.size() {
        let last = leaders.iter().rfind(|leader| **leader != primary).copied();
        last.iter().for_each(|leader| _ = leaders.remove(leader));
    }
    leaders.into_iter().collect()
}

/// G5, M38: an ungracious configuration follows from the selection, up to the choice of leaders, which may not shrink faster than
/// by one for each epoch.
pub fn is_ungracious(config: &EpochConfig, selection: &Selection, committee: &Committee, epoch_length: u64) -> bool {
    let expected = ungracious(selection, config.epoch, config.leaders.clone(), committee, epoch_length);
    let base = &selection.base;
    let mut possible: BTreeSet<_> = base.leaders.iter().copied().collect();
    possible.insert(primary(config.epoch, committee));
    let Some(epochs) = config.epoch.0.checked_sub(base.epoch.0) else { return false };
    *config == expected
        && config.leaders.len() < committee.size()
        && config.leaders.iter().all(|leader| possible.contains(leader))
        && (possible.len() - config.leaders.len()) as u64 <= epochs
}

/// U6: a configuration follows from the EPOCH-CHANGEs that its primary names, which are for its epoch.
pub fn is_selected(config: &EpochConfig, changes: &[&EpochChange], committee: &Committee, epoch_length: u64) -> bool {
    changes.iter().all(|change| change.target == config.epoch)
        && is_ungracious(config, &select(changes, committee), committee, epoch_length)
}

/// G5: checks of a configuration that need no knowledge.
///
/// # Errors
/// The rule that is broken.
pub fn check_structure(config: &EpochConfig, committee: &Committee, epoch_length: u64) -> Result<(), String> {
    let primary = primary(config.epoch, committee);
    let is_ascending = config.leaders.windows(2).all(|pair| pair[0] < pair[1]);
    if !is_ascending || config.leaders.iter().any(|leader| committee.member(*leader).is_none()) {
        return Err("configuration: leaders are not ascending members".into());
    }
    if !config.leaders.contains(&primary) {
        return Err(format!("configuration: the primary {primary} does not lead"));
    }
    let source = (config.start, config.listed.clone());
    let expected = self::config(config.epoch, config.leaders.clone(), source, committee, epoch_length);
    let is_expected = *config == expected;
    is_expected.then_some(()).ok_or_else(|| format!("configuration: expected {expected:?}, got {config:?}"))
}
