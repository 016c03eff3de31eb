//! The merge of logs in a view change, directly (V3–V5, pitfalls 2, 4 and 6).

use corniche_aom_receiver::{OrderingCertificate, Proof};
use corniche_engine::Committee;
use corniche_neobft::{
    message::{CheckpointCertificate, Confirmed, Context, DropProof, Entry, Slot, View, ViewCertificate, ViewChange},
    rules::{Invalid, Merged, merge},
};
use corniche_neobft_testing::{committee, committee_of};
use corniche_types::{B256, Bytes, ValidatorIndex};

const FIRST: View = View { epoch: 0, leader: 0 };
const SECOND: View = View { epoch: 0, leader: 1 };
const TARGET: View = View { epoch: 0, leader: 2 };

const MAX_LOG: u64 = 9;

struct Setting {
    committee: Committee,
    context: Context,
}

fn setting() -> Setting {
    setting_of(committee(4))
}

fn setting_of(committee: Committee) -> Setting {
    let context = Context::new(&committee, 1);
    Setting { committee, context }
}

fn packet(slot: u64) -> Entry {
    packet_of(0, slot, slot)
}

fn packet_of(epoch: u32, seq: u64, content: u64) -> Entry {
    let payload = Bytes::from(format!("{content}").into_bytes());
    Entry::Request(OrderingCertificate { epoch, seq, payload, proof: Proof::Hm { vector: Vec::new() }, confirms: Vec::new() })
}

fn packets(through: u64) -> Vec<Entry> {
    (1..=through).map(packet).collect()
}

fn drop(view: View, slot: u64, committed: bool) -> DropProof {
    DropProof { view, slot: Slot(slot), committed, votes: Vec::new() }
}

impl Setting {
    fn hash(&self, entries: &[Entry]) -> B256 {
        let start = self.context.genesis_hash();
        (1..).map(Slot).zip(entries).fold(start, |hash, (slot, entry)| self.context.log_hash(hash, slot, entry))
    }

    /// Certificate of a view that began with this log.
    fn certificate(&self, view: View, log: &[Entry]) -> Option<ViewCertificate> {
        let confirmed = Confirmed { view, base: Slot(0), slot: Slot(log.len() as u64), hash: self.hash(log) };
        Some(ViewCertificate { confirmed, votes: Vec::new() })
    }

    fn change(&self, sender: u16, certificate: Option<ViewCertificate>, entries: Vec<Entry>) -> ViewChange {
        ViewChange {
            sender: ValidatorIndex(sender),
            target: TARGET,
            certificate,
            checkpoint: None,
            after: Slot(0),
            after_hash: self.context.genesis_hash(),
            entries,
            prepared: Vec::new(),
            signature: [0; 64],
        }
    }

    fn merge(&self, changes: &[ViewChange]) -> Result<Merged, Invalid> {
        merge(&self.context, &self.committee, MAX_LOG, changes, |_| true)
    }

    fn merged(&self, changes: &[ViewChange]) -> Merged {
        let merged = self.merge(changes).unwrap();
        for rotation in 0..changes.len() {
            let mut other = changes.to_vec();
            other.rotate_left(rotation);
            assert_eq!(self.merge(&other).unwrap().confirmed, merged.confirmed, "the order of the messages does not matter");
        }
        assert_eq!(merged.confirmed.slot.0, merged.after.0 + merged.entries.len() as u64);
        merged
    }
}

fn is_no_op(merged: &Merged, slot: u64) -> bool {
    matches!(merged.entries[(slot - merged.after.0) as usize - 1], Entry::NoOp(_))
}

#[test]
fn longest_log_wins_and_drops_are_laid_over_it() {
    let setting = setting();
    let mut short = packets(2);
    short[1] = Entry::NoOp(drop(FIRST, 2, true));
    let changes = [setting.change(0, None, packets(3)), setting.change(1, None, short), setting.change(3, None, packets(1))];
    let merged = setting.merged(&changes);
    assert_eq!(merged.entries.len(), 3);
    assert!(is_no_op(&merged, 2) && !is_no_op(&merged, 1) && !is_no_op(&merged, 3));
}

#[test]
fn prepared_drop_of_the_last_view_wins() {
    let setting = setting();
    let mut second = setting.change(1, None, packets(1));
    second.prepared = vec![drop(FIRST, 2, false)];
    let changes = [setting.change(0, None, packets(3)), second, setting.change(2, None, packets(3))];
    assert!(is_no_op(&setting.merged(&changes), 2), "Lemma 5, case 2: it may be committed somewhere");
}

#[test]
fn prepared_drop_of_an_older_view_does_not_come_back() {
    let setting = setting();
    // Slot 2 was prepared as a drop in the first view. The second view began without that, and executed the packet.
    let certificate = setting.certificate(SECOND, &packets(1));
    let mut late = setting.change(3, None, packets(1));
    late.prepared = vec![drop(FIRST, 2, false)];
    let mut newer = setting.change(1, certificate.clone(), packets(2));
    newer.prepared = vec![drop(FIRST, 2, false)];
    let changes = [setting.change(0, certificate, packets(2)), newer, late];
    let merged = setting.merged(&changes);
    assert_eq!(merged.entries.len(), 2);
    assert_eq!(merged.certificate, setting.certificate(SECOND, &packets(1)), "the view that the merged log is from");
    assert!(!is_no_op(&merged, 2), "pitfall 2");
}

#[test]
fn committed_drop_of_an_older_view_beyond_the_base_is_invalid() {
    let setting = setting();
    let certificate = setting.certificate(SECOND, &packets(1));
    let old = vec![packet(1), Entry::NoOp(drop(FIRST, 2, true))];
    let changes = [0, 1].map(|sender| setting.change(sender, certificate.clone(), packets(2)));
    let changes = [changes[0].clone(), changes[1].clone(), setting.change(2, certificate, old)];
    assert_eq!(setting.merge(&changes).unwrap_err().sender, ValidatorIndex(2));
}

#[test]
fn logs_of_older_views_do_not_count() {
    let setting = setting();
    let certificate = setting.certificate(SECOND, &packets(1));
    // The log of the first view is longer, but its tail was not final there.
    let changes =
        [setting.change(0, None, packets(9)), setting.change(1, certificate, packets(2)), setting.change(2, None, packets(9))];
    assert_eq!(setting.merged(&changes).entries.len(), 2, "V5 (a)");
}

#[test]
fn log_with_another_prefix_of_the_same_length_is_invalid() {
    let setting = setting();
    let mut agreed = packets(2);
    agreed[0] = Entry::NoOp(drop(FIRST, 1, true));
    let certificate = setting.certificate(SECOND, &agreed);
    let changes = [
        setting.change(0, certificate.clone(), [agreed.clone(), vec![packet(3)]].concat()),
        setting.change(1, certificate.clone(), agreed),
        // A packet where a drop was agreed, with a valid certificate.
        setting.change(2, certificate, packets(3)),
    ];
    let invalid = setting.merge(&changes).unwrap_err();
    assert_eq!(invalid.sender, ValidatorIndex(2), "pitfall 4: {}", invalid.reason);
    assert!(setting.merge(&changes[..2]).is_ok());
}

#[test]
fn packet_at_another_slot_is_invalid() {
    let setting = setting();
    for wrong in [packet_of(0, 3, 2), packet_of(1, 2, 2)] {
        let change = setting.change(1, None, vec![packet(1), wrong]);
        assert_eq!(setting.merge(&[change]).unwrap_err().sender, ValidatorIndex(1));
    }
}

#[test]
fn damaged_vector_counts_only_with_f_plus_one_attestations() {
    let setting = setting();
    // The own tag of every packet 2 is damaged.
    let is_valid = |packet: &OrderingCertificate| packet.seq != 2;
    let merge = |changes: &[ViewChange]| merge(&setting.context, &setting.committee, MAX_LOG, changes, is_valid);
    let one = [setting.change(0, None, packets(2)), setting.change(1, None, packets(1)), setting.change(2, None, packets(1))];
    assert_eq!(merge(&one).unwrap_err().sender, ValidatorIndex(0), "pitfall 6: one liar proves nothing");
    assert_eq!(merge(&one[1..]).unwrap().entries.len(), 1);
    let two = [one[0].clone(), setting.change(3, None, packets(2)), one[2].clone()];
    assert_eq!(merge(&two).unwrap().entries.len(), 2, "one of two attesters is correct");
    let other = [one[0].clone(), setting.change(3, None, vec![packet(1), packet_of(0, 2, 7)]), one[2].clone()];
    assert!(merge(&other).is_err(), "two attesters of different packets");
}

#[test]
fn attestations_are_weighed() {
    // F + 1 = 3 votes.
    let setting = setting_of(committee_of(&[1, 1, 3, 4]));
    let merge = |with: &[u16]| {
        let log = |sender| packets(if with.contains(&sender) { 2 } else { 1 });
        let changes: Vec<_> = (0..4).map(|sender| setting.change(sender, None, log(sender))).collect();
        merge(&setting.context, &setting.committee, MAX_LOG, &changes, |packet| packet.seq != 2)
    };
    assert!(merge(&[0, 1]).is_err(), "two members with two votes");
    assert_eq!(merge(&[2]).unwrap().entries.len(), 2, "one member with three votes");
}

#[test]
fn new_epoch_begins_after_the_merged_log() {
    let setting = setting();
    let next = |sender, entries| ViewChange { target: View { epoch: 1, leader: 0 }, ..setting.change(sender, None, entries) };
    let merged = setting.merge(&[next(0, packets(3)), next(1, packets(2)), next(2, packets(1))]).unwrap();
    assert_eq!((merged.confirmed.base, merged.confirmed.slot), (Slot(3), Slot(3)));
    let same = setting.merged(&[setting.change(0, None, packets(3)), setting.change(1, None, Vec::new())]);
    assert_eq!((same.confirmed.base, same.confirmed.slot), (Slot(0), Slot(3)));
}

#[test]
fn logs_begin_at_different_checkpoints() {
    let setting = setting();
    let from = |sender, after: u64, through: u64, is_checkpoint: bool| {
        let (slot, hash) = (Slot(after), setting.hash(&packets(after)));
        let checkpoint = is_checkpoint.then(|| CheckpointCertificate { slot, hash, votes: Vec::new() });
        let entries = (after + 1..=through).map(packet).collect();
        ViewChange { checkpoint, after: slot, after_hash: hash, ..setting.change(sender, None, entries) }
    };
    let merged = setting.merged(&[from(0, 2, 7, true), from(1, 4, 5, true), setting.change(2, None, packets(3))]);
    assert_eq!((merged.after, merged.confirmed.slot), (Slot(4), Slot(7)));
    assert_eq!(merged.confirmed.hash, setting.hash(&packets(7)));
    // A log that begins without a checkpoint counts where another one contains its beginning.
    let merged = setting.merged(&[from(0, 2, 6, true), from(1, 5, 9, false), setting.change(2, None, packets(3))]);
    assert_eq!(merged.confirmed.hash, setting.hash(&packets(9)));
    let alone = [from(0, 2, 4, true), from(1, 5, 9, false)];
    assert_eq!(setting.merge(&alone).unwrap_err().sender, ValidatorIndex(1));
}

#[test]
fn log_that_is_too_long_together_with_another_one_is_invalid() {
    let setting = setting();
    let hash = |after: u64| setting.hash(&packets(after));
    let late = |sender, after: u64, through: u64| {
        let entries = (after + 1..=through).map(packet).collect();
        ViewChange { after: Slot(after), after_hash: hash(after), ..setting.change(sender, None, entries) }
    };
    let changes = |through| [setting.change(0, None, packets(6)), late(1, 5, through), setting.change(2, None, packets(3))];
    assert_eq!(setting.merged(&changes(9)).confirmed.slot, Slot(9));
    assert_eq!(setting.merge(&changes(10)).unwrap_err().sender, ValidatorIndex(1));
}

#[test]
fn log_that_contradicts_its_checkpoint_is_invalid() {
    let setting = setting();
    let with = |sender, slot, after: u64, entries| {
        let hash = |slot| setting.hash(&packets(slot));
        let checkpoint = Some(CheckpointCertificate { slot: Slot(slot), hash: hash(slot), votes: Vec::new() });
        ViewChange { checkpoint, after: Slot(after), after_hash: hash(after), ..setting.change(sender, None, entries) }
    };
    let good = with(0, 4, 4, vec![packet(5)]);
    assert!(setting.merge(&[good.clone(), setting.change(1, None, packets(5))]).is_ok());
    // Another packet before the checkpoint of validator 0.
    let mut other = packets(5);
    other[2] = packet_of(0, 3, 7);
    assert_eq!(setting.merge(&[good, setting.change(1, None, other)]).unwrap_err().sender, ValidatorIndex(1));
    // A log that begins before its own checkpoint.
    let early = with(2, 4, 2, vec![packet(3), packet(4)]);
    assert_eq!(setting.merge(&[setting.change(1, None, packets(5)), early]).unwrap_err().sender, ValidatorIndex(2));
}
