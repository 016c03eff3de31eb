//! Wrong rules: each loses a committed batch.

use corniche_engine::Committee;
use corniche_mir::{
    message::{EpochChange, EpochConfig, NULL, PreparedCertificate},
    rules,
};

/// The real rule for changed EPOCH-CHANGEs.
pub fn judge_changed(
    config: &EpochConfig,
    changes: &[&EpochChange],
    (committee, epoch_length): (&Committee, u64),
    change: impl Fn(&mut EpochChange),
) -> bool {
    let mut changes: Vec<_> = changes.iter().copied().cloned().collect();
    changes.iter_mut().for_each(change);
    rules::is_selected(config, &changes.iter().collect::<Vec<_>>(), committee, epoch_length)
}

pub fn accepts_all(_: &EpochConfig, _: &[&EpochChange], _: &Committee, _: u64) -> bool {
    true
}

pub fn ignores_certificates(config: &EpochConfig, changes: &[&EpochChange], committee: &Committee, epoch_length: u64) -> bool {
    judge_changed(config, changes, (committee, epoch_length), |change| change.prepared.clear())
}

/// Takes the certificate of the lowest epoch.
pub fn takes_oldest(config: &EpochConfig, changes: &[&EpochChange], committee: &Committee, epoch_length: u64) -> bool {
    let all = || changes.iter().flat_map(|change| &change.prepared);
    let is_oldest = |it: &PreparedCertificate| all().all(|other| other.sn != it.sn || other.epoch >= it.epoch);
    judge_changed(config, changes, (committee, epoch_length), |change| change.prepared.retain(is_oldest))
}

/// Starts from the lowest checkpoint.
pub fn takes_lowest_start(config: &EpochConfig, changes: &[&EpochChange], committee: &Committee, epoch_length: u64) -> bool {
    let lowest = changes.iter().min_by_key(|change| change.stable()).unwrap().checkpoint.clone();
    judge_changed(config, changes, (committee, epoch_length), |change| change.checkpoint = lowest.clone())
}

/// Accepts null where a certificate exists.
pub fn accepts_null(config: &EpochConfig, changes: &[&EpochChange], committee: &Committee, epoch_length: u64) -> bool {
    let mut expected = config.clone();
    for (listed, selected) in expected.listed.iter_mut().zip(rules::select(changes, committee).listed) {
        *listed = if *listed == NULL { selected } else { *listed };
    }
    rules::is_selected(&expected, changes, committee, epoch_length)
}

/// Accepts EPOCH-CHANGEs for other epochs.
pub fn accepts_old(config: &EpochConfig, changes: &[&EpochChange], committee: &Committee, epoch_length: u64) -> bool {
    judge_changed(config, changes, (committee, epoch_length), |change| change.target = config.epoch)
}
