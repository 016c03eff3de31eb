//! The pure rules: leaders, configurations, and the selection of batches at an epoch change.

use corniche_engine::Committee;
use corniche_mir::{
    message::{CheckpointCertificate, EpochCertificate, EpochChange, EpochConfig, EpochNumber, NULL, PreparedCertificate, Sn},
    rules::{self, Selection},
};
use corniche_mir_testing::committee;
use corniche_types::{B256, ValidatorIndex};

const LENGTH: u64 = 12;
const A: B256 = B256::repeat_byte(1);
const B: B256 = B256::repeat_byte(2);

fn members(list: &[u16]) -> Vec<ValidatorIndex> {
    list.iter().copied().map(ValidatorIndex).collect()
}

fn leaders(config: &EpochConfig, from: u64, count: u64, committee: &Committee) -> Vec<u16> {
    (from..from + count).map(|sn| rules::leader(config, Sn(sn), committee).unwrap().0).collect()
}

fn prepared(epoch: u64, sn: u64, digest: B256) -> PreparedCertificate {
    PreparedCertificate { epoch: EpochNumber(epoch), sn: Sn(sn), digest, votes: Vec::new() }
}

fn change(sender: u16, stable: u64, prepared: Vec<PreparedCertificate>) -> EpochChange {
    let checkpoint = CheckpointCertificate { sn: Sn(stable), hash: B256::ZERO, votes: Vec::new() };
    EpochChange {
        sender: ValidatorIndex(sender),
        target: EpochNumber(9),
        certificate: None,
        checkpoint: (stable > 0).then_some(checkpoint),
        prepared,
        signature: [0; 64],
    }
}

fn select(changes: &[EpochChange]) -> Selection {
    rules::select(&changes.iter().collect::<Vec<_>>(), &committee(4))
}

/// After an ungracious change from epoch 0, in which nothing was open.
fn ephemeral(epoch: u64, list: &[u16]) -> EpochConfig {
    rules::ungracious(&select(&[change(0, 0, Vec::new())]), EpochNumber(epoch), members(list), &committee(4), LENGTH)
}

#[test]
fn leaders_take_turns_from_the_primary() {
    let committee = committee(4);
    assert_eq!(leaders(&rules::first_epoch(&committee), 1, 6, &committee), [0, 1, 2, 3, 0, 1]);
    assert_eq!(leaders(&ephemeral(2, &[0, 2, 3]), 1, 5, &committee), [2, 3, 0, 2, 3]);
    assert_eq!(rules::leader(&ephemeral(2, &[0, 2, 3]), Sn(LENGTH + 1), &committee), None);
}

#[test]
fn led_numbers_agree_with_leaders() {
    let committee = committee(4);
    for config in [rules::first_epoch(&committee), ephemeral(2, &[0, 2, 3]), ephemeral(1, &[1]), ephemeral(3, &[1, 3])] {
        for (member, from) in committee.indices().flat_map(|member| (0..LENGTH + 2).map(move |from| (member, Sn(from)))) {
            let leads = |sn: &u64| rules::leader(&config, Sn(*sn), &committee) == Some(member);
            let expected = (from.0..from.0 + 2 * LENGTH).find(leads).map(Sn);
            assert_eq!(rules::next_led(&config, member, from, &committee), expected, "{config:?} {member} {from}");
        }
    }
}

/// M3.
#[test]
fn ephemeral_epoch_has_exactly_its_length() {
    let config = ephemeral(1, &[0, 1, 3]);
    assert_eq!((config.first, config.last), (Sn(1), Some(Sn(LENGTH))));
    let next = rules::gracious(&ephemeral(1, &[1, 3]), &committee(4), LENGTH).unwrap();
    assert_eq!((next.start, next.first, next.last), (Sn(12), Sn(13), Some(Sn(24))));
}

/// G1, 1.4.
#[test]
fn gracious_change_adds_the_primary_until_all_lead() {
    let committee = committee(4);
    let second = rules::gracious(&ephemeral(1, &[1, 3]), &committee, LENGTH).unwrap();
    assert_eq!((second.epoch, &second.leaders), (EpochNumber(2), &members(&[1, 2, 3])));
    let third = rules::gracious(&second, &committee, LENGTH).unwrap();
    assert_eq!((third.epoch, &third.leaders, third.last.is_some()), (EpochNumber(3), &members(&[1, 2, 3]), true));
    let fourth = rules::gracious(&third, &committee, LENGTH).unwrap();
    assert_eq!((&fourth.leaders, fourth.last), (&members(&[0, 1, 2, 3]), None));
    assert_eq!(rules::gracious(&fourth, &committee, LENGTH), None, "a stable epoch has no end");
}

/// G2.
#[test]
fn gracious_change_follows_a_finished_epoch() {
    let (committee, before) = (committee(4), ephemeral(1, &[1, 3]));
    let next = rules::gracious(&before, &committee, LENGTH).unwrap();
    let is_gracious = |delivered| rules::is_gracious(&next, &before, Sn(delivered), &committee, LENGTH);
    assert!(is_gracious(LENGTH) && !is_gracious(LENGTH - 1));
    assert!(!rules::is_gracious(&ephemeral(2, &[1, 2]), &before, Sn(LENGTH), &committee, LENGTH));
}

/// M2.
#[test]
fn epoch_after_a_stable_one_begins_after_the_listed_batches() {
    let selection = select(&[change(0, 8, vec![prepared(0, 11, A)]), change(1, 0, Vec::new()), change(2, 4, Vec::new())]);
    assert_eq!((selection.start, &selection.listed), (Sn(8), &vec![NULL, NULL, A]));
    let config = rules::ungracious(&selection, EpochNumber(1), members(&[0, 1]), &committee(4), LENGTH);
    assert_eq!((config.first, config.last), (Sn(12), Some(Sn(11 + LENGTH))));
    assert_eq!(rules::listed(&config, Sn(11)), Some(A));
    assert_eq!((rules::listed(&config, Sn(8)), rules::listed(&config, Sn(12))), (None, None));
}

#[test]
fn certificate_of_the_highest_epoch_is_selected() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let all = [
            change(0, 0, vec![prepared(1, 1, A)]),
            change(1, 0, vec![prepared(3, 1, B)]),
            change(2, 0, vec![prepared(2, 1, A)]),
        ];
        assert_eq!(select(&order.map(|place: usize| all[place].clone())).listed, [B]);
    }
}

#[test]
fn null_is_selected_only_without_a_certificate() {
    let changes =
        [change(0, 0, Vec::new()), change(1, 0, Vec::new()), change(2, 0, vec![prepared(0, 1, A), prepared(0, 3, B)])];
    assert_eq!(select(&changes).listed, [A, NULL, B]);
    // The null batch itself can be prepared, in a later epoch.
    assert_eq!(select(&[change(0, 0, vec![prepared(0, 1, A)]), change(1, 0, vec![prepared(1, 1, NULL)])]).listed, [NULL]);
}

#[test]
fn batches_below_the_highest_checkpoint_are_decided() {
    let changes =
        [change(0, 0, vec![prepared(0, 1, A), prepared(0, 9, B)]), change(1, 8, Vec::new()), change(2, 8, Vec::new())];
    assert_eq!((select(&changes).start, select(&changes).listed), (Sn(8), vec![B]));
}

#[test]
fn base_is_the_newest_configuration() {
    let of = |epoch, list: &[u16]| Some(EpochCertificate { config: ephemeral(epoch, list), votes: Vec::new() });
    let mut changes = [change(0, 0, Vec::new()), change(1, 0, Vec::new()), change(2, 0, Vec::new())];
    (changes[0].certificate, changes[1].certificate) = (of(2, &[1, 2]), of(5, &[1, 3]));
    assert_eq!(select(&changes).base, ephemeral(5, &[1, 3]));
}

/// M11: the suspect goes, not any leader, and not more than one for each epoch.
#[test]
fn suspects_are_removed_first() {
    let committee = committee(4);
    let base = rules::first_epoch(&committee);
    let without = |epoch, suspects: &[u16]| rules::leaders_without(&base, EpochNumber(epoch), &members(suspects), &committee);
    assert_eq!(without(1, &[2, 3]), members(&[0, 1, 3]));
    assert_eq!(without(2, &[1, 3]), members(&[0, 2]));
    assert_eq!(without(1, &[1]), members(&[0, 1, 2]), "the primary stays, and one must go");
    let small = ephemeral(3, &[1, 3]);
    assert_eq!(rules::leaders_without(&small, EpochNumber(4), &[], &committee), members(&[0, 1, 3]));
}

/// G5, M38.
#[test]
fn leaders_cannot_shrink_faster_than_epochs_pass() {
    let committee = committee(4);
    let selection = select(&[change(0, 0, vec![prepared(0, 1, A)])]);
    let config = |epoch, list: &[u16]| rules::ungracious(&selection, EpochNumber(epoch), members(list), &committee, LENGTH);
    let is_valid = |config: &EpochConfig| rules::is_ungracious(config, &selection, &committee, LENGTH);
    assert!(is_valid(&config(1, &[0, 1, 3])) && is_valid(&config(2, &[2, 3])));
    assert!(!is_valid(&config(1, &[1, 3])), "two removals in one epoch");
    assert!(!is_valid(&config(1, &[0, 1, 2, 3])), "an ungracious epoch is never stable");
    let other = |change: fn(&mut EpochConfig)| {
        let mut config = config(1, &[0, 1, 3]);
        change(&mut config);
        is_valid(&config)
    };
    assert!(!other(|config| config.listed[0] = NULL));
    assert!(!other(|config| config.listed.clear()));
    assert!(!other(|config| config.first = Sn(3)));
    assert!(!other(|config| config.last = None));
    assert!(!other(|config| config.start = Sn(1)));
}

#[test]
fn malformed_configurations_are_refused() {
    let committee = committee(4);
    let check = |config: &EpochConfig| rules::check_structure(config, &committee, LENGTH);
    assert_eq!(check(&ephemeral(1, &[0, 1, 3])), Ok(()));
    assert!(check(&ephemeral(1, &[0, 3])).is_err(), "the primary leads");
    assert!(check(&ephemeral(1, &[1, 0])).is_err(), "ascending");
    assert!(check(&ephemeral(1, &[1, 1])).is_err(), "distinct");
    assert!(check(&ephemeral(1, &[1, 4])).is_err(), "members");
    assert!(check(&EpochConfig { last: None, ..ephemeral(1, &[0, 1]) }).is_err());
    assert!(check(&EpochConfig { first: Sn(2), ..ephemeral(1, &[0, 1]) }).is_err());
}
