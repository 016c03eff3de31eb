use super::*;
use corniche_types::evidence::{Contradiction, SlotVote};
use corniche_types::{Bytes, FaultModel, TimestampMs, ValidatorIndex};
use proptest::prelude::*;

const CHAIN: u64 = 7;
const GENESIS: B256 = B256::repeat_byte(9);

/// Marks that may sign from epoch 1 on.
fn marks() -> Marks {
    Marks::new(CHAIN, GENESIS, Some(Epoch(1)))
}

fn scope(epoch: u64) -> Scope {
    Scope { chain_id: CHAIN, epoch: Epoch(epoch), committee_hash: B256::ZERO }
}

fn value(number: u8) -> B256 {
    B256::repeat_byte(number)
}

fn block(round: u64, batch: u8) -> Statement {
    let [parents, coin_shares, batch] = [B256::ZERO, B256::ZERO, value(batch)];
    Statement::Block(Heading { author: ValidatorIndex(1), round, timestamp: TimestampMs(0), parents, coin_shares, batch })
}

fn car(position: u64, batch: u8) -> Statement {
    Statement::Car { lane: ValidatorIndex(1), position, parent: B256::ZERO, batch: value(batch) }
}

fn prepare(slot: u64, view: u32, cut: u8) -> Statement {
    Statement::Prepare { slot, view, cut: value(cut) }
}

fn vote(kind: VoteKind, slot: u64, view: u32, cut: u8) -> Statement {
    Statement::Vote { kind, slot, view, cut: value(cut), bls: false }
}

fn strong(slot: u64, view: u32, cut: u8) -> Statement {
    vote(VoteKind::Prepared, slot, view, cut)
}

fn weak(slot: u64, view: u32, cut: u8) -> Statement {
    vote(VoteKind::PreparedWeakly, slot, view, cut)
}

fn confirm(slot: u64, view: u32, cut: u8) -> Statement {
    vote(VoteKind::Confirmed, slot, view, cut)
}

fn timeout(slot: u64, view: u32, voted: Option<(u32, u8)>, confirmed: Option<(u32, u8)>) -> Statement {
    let named = |named: Option<(u32, u8)>| named.map(|(view, cut)| (view, value(cut)));
    let report = SlotReport { confirmed: named(confirmed), voted: named(voted) };
    Statement::Timeout { slot, view, report, bls: false }
}

fn header(height: u64, hash: u8) -> Statement {
    Statement::Header { height: Height(height), hash: value(hash), fault_model: FaultModel::Byzantine }
}

fn notice() -> Statement {
    Statement::Notice { payload: Bytes::from_static(b"notice") }
}

fn car_vote() -> Statement {
    Statement::CarVote { lane: ValidatorIndex(2), position: 1, digest: B256::ZERO, bls: true }
}

fn disk_id() -> Statement {
    Statement::DiskId { validator: ValidatorIndex(1), disk: 5 }
}

fn all() -> [Statement; 11] {
    let (slot, view) = (400, 1);
    [
        block(400, 1),
        car(400, 1),
        prepare(slot, view, 1),
        strong(slot, view, 1),
        weak(slot, view, 1),
        confirm(slot, view, 1),
        timeout(slot, view, Some((1, 1)), Some((1, 1))),
        header(400, 1),
        notice(),
        car_vote(),
        disk_id(),
    ]
}

/// Outcomes of statements of epoch 1.
fn outcomes(marks: &mut Marks, statements: &[Statement]) -> Vec<Result<(), Refusal>> {
    statements.iter().map(|statement| marks.admit(&scope(1), statement).outcome).collect()
}

/// Asserts that all but the last statement of epoch 1 are signed.
fn last(marks: &mut Marks, statements: &[Statement]) -> Result<(), Refusal> {
    let mut outcomes = outcomes(marks, statements);
    let last = outcomes.pop().expect("statements");
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    last
}

/// Marks after a restart, clean or not: the record is read back from its encoding.
fn restart(marks: &Marks, from_epoch: Option<Epoch>) -> Marks {
    Marks::resume(read_back(marks.record()), from_epoch)
}

fn read_back(record: &Record) -> Record {
    borsh::from_slice(&borsh::to_vec(record).expect("encoding")).expect("decoding")
}

impl Record {
    /// For tests of the file: a record whose last block has this round.
    pub(crate) fn with_round(round: u64) -> Self {
        let mut marks = marks();
        let statements = [block(round, 1), car(3, 1), strong(5, 1, 1), header(6, 1)];
        assert!(outcomes(&mut marks, &statements).iter().all(Result::is_ok));
        marks.record
    }

    /// For tests of the file: every field, slot and header is present, in the longest form.
    pub(crate) fn largest() -> Self {
        let mut marks = marks();
        for number in 1..=1_000 {
            let (named, numbered) = (Some((1, 1)), |statement: fn(u64, u32, u8) -> Statement| statement(number, 1, 1));
            let votes = [prepare, strong, weak, confirm].map(numbered);
            let others = [timeout(number, 1, named, named), block(number, 1), car(number, 1), header(number, 1)];
            assert!(outcomes(&mut marks, &[&votes[..], &others].concat()).iter().all(Result::is_ok));
        }
        marks.record
    }
}

// ---- chain, epoch, start -----------------------------------------------------------------------------------------------------

#[test]
fn chain_other_chain_is_refused() {
    let mut marks = marks();
    assert_eq!(marks.check_chain(CHAIN, GENESIS), Ok(()));
    let refusal = Refusal::OtherChain { chain_id: CHAIN, genesis: GENESIS };
    assert_eq!(marks.check_chain(CHAIN + 1, GENESIS), Err(refusal.clone()));
    assert_eq!(marks.check_chain(CHAIN, value(1)), Err(refusal.clone()));
    for statement in all() {
        let verdict = marks.admit(&Scope { chain_id: CHAIN + 1, ..scope(1) }, &statement);
        assert_eq!(verdict, Verdict { outcome: Err(refusal.clone()), is_changed: false });
    }
}

#[test]
fn epoch_below_greatest_is_refused_for_ever() {
    let mut marks = marks();
    assert_eq!(marks.admit(&scope(3), &car_vote()).outcome, Ok(()));
    for mut marks in [restart(&marks, Some(Epoch(0))), marks] {
        for statement in all() {
            let refused = marks.admit(&scope(2), &statement);
            assert_eq!(refused, Verdict { outcome: Err(Refusal::OldEpoch { signed: Epoch(3) }), is_changed: false });
        }
        assert_eq!(marks.admit(&scope(3), &block(1, 1)).outcome, Ok(()));
    }
}

#[test]
fn epoch_later_one_resets_all_but_headers() {
    let mut marks = marks();
    for statement in all() {
        assert_eq!(marks.admit(&scope(1), &statement).outcome, Ok(()));
    }
    let conflicting = [block(1, 2), prepare(1, 0, 2), strong(1, 0, 2), weak(1, 0, 2), confirm(1, 0, 2)];
    for statement in &conflicting {
        assert!(marks.admit(&scope(1), statement).outcome.is_err());
    }
    assert_eq!(marks.admit(&scope(2), &header(400, 2)).outcome, Err(Refusal::Height { mark: 400 }));
    // A refused statement does not begin an epoch.
    assert!(marks.admit(&scope(1), &header(401, 1)).outcome.is_ok());
    for statement in &conflicting {
        assert_eq!(marks.admit(&scope(2), statement).outcome, Ok(()));
    }
    let Record { epoch, current, headers, .. } = marks.record();
    let round = current.block.map(|block| block.round);
    assert_eq!((*epoch, round, current.car), (Some(Epoch(2)), Some(1), 0));
    assert_eq!((highest(&current.slots), highest(headers)), (1, 401));
}

#[test]
fn start_first_epoch_without_marks_is_closed() {
    let mut marks = Marks::new(CHAIN, GENESIS, None);
    let refusal = Refusal::NoMarks { open_from: Epoch(6) };
    let verdict = marks.admit(&scope(5), &block(1, 1));
    assert_eq!(verdict.outcome, Err(refusal.clone()));
    assert!(verdict.is_changed, "a restart would close another epoch");
    for mut marks in [restart(&marks, None), marks] {
        for statement in all() {
            let expected = if statement == notice() { Ok(()) } else { Err(refusal.clone()) };
            assert_eq!(marks.admit(&scope(5), &statement), Verdict { outcome: expected, is_changed: false });
        }
        assert_eq!(marks.admit(&scope(6), &block(1, 1)).outcome, Ok(()));
    }
}

#[test]
fn start_notices_do_not_count() {
    let mut marks = Marks::new(CHAIN, GENESIS, None);
    assert_eq!(marks.admit(&scope(3), &notice()), Verdict { outcome: Ok(()), is_changed: false });
    assert_eq!(marks.admit(&scope(5), &block(1, 1)).outcome, Err(Refusal::NoMarks { open_from: Epoch(6) }));
    assert_eq!(marks.admit(&scope(3), &notice()).outcome, Ok(()));
}

#[test]
fn start_operator_opens_epochs() {
    let mut marks = Marks::new(CHAIN, GENESIS, Some(Epoch(5)));
    assert_eq!(marks.admit(&scope(4), &block(1, 1)).outcome, Err(Refusal::NoMarks { open_from: Epoch(5) }));
    assert_eq!(marks.admit(&scope(5), &block(1, 1)).outcome, Ok(()));

    // An epoch that was closed before can be opened, and stays open.
    let mut marks = Marks::new(CHAIN, GENESIS, None);
    assert_eq!(marks.admit(&scope(5), &block(1, 1)).outcome, Err(Refusal::NoMarks { open_from: Epoch(6) }));
    let mut marks = restart(&marks, Some(Epoch(5)));
    assert_eq!(marks.admit(&scope(5), &block(1, 1)).outcome, Ok(()));
    let mut marks = restart(&marks, None);
    assert_eq!(marks.admit(&scope(5), &block(2, 1)).outcome, Ok(()));
}

// ---- blocks and cars -----------------------------------------------------------------------------------------------------------

#[test]
fn block_round_must_rise() {
    let mut marks = marks();
    let refused = Err(Refusal::Round { mark: 7 });
    let sequence = [block(5, 1), block(5, 1), block(7, 1), block(5, 1), block(6, 1), block(7, 2), block(7, 1), block(8, 1)];
    let expected = [Ok(()), Ok(()), Ok(()), refused.clone(), refused.clone(), refused, Ok(()), Ok(())];
    assert_eq!(outcomes(&mut marks, &sequence), expected);
    assert!(Marks::new(CHAIN, GENESIS, Some(Epoch(1))).admit(&scope(1), &block(0, 1)).outcome.is_err());
}

#[test]
fn car_position_never_falls() {
    let mut marks = marks();
    let refused = Err(Refusal::Position { mark: 3 });
    assert_eq!(last(&mut marks, &[car(1, 1), car(3, 1), car(3, 1)]), Ok(()));
    for mut marks in [restart(&marks, None), marks] {
        assert_eq!(last(&mut marks, &[car(2, 1)]), refused);
        // A node that lost its own record makes another car of the last position.
        assert_eq!(outcomes(&mut marks, &[car(3, 1), car(3, 2), car(4, 1)]), [Ok(()), Ok(()), Ok(())]);
    }
}

// ---- slots ---------------------------------------------------------------------------------------------------------------------

#[test]
fn slot_old_ones_are_closed() {
    let mut marks = marks();
    let refused = Err(Refusal::Slot { mark: 36 });
    assert_eq!(last(&mut marks, &[prepare(36, 0, 1), prepare(100, 0, 1), prepare(37, 0, 1)]), Ok(()));
    let statements = [prepare(36, 0, 1), strong(36, 0, 1), confirm(35, 0, 1), timeout(1, 0, None, None)];
    assert_eq!(outcomes(&mut marks, &statements), [refused.clone(), refused.clone(), refused.clone(), refused]);
    assert_eq!(
        outcomes(&mut Marks::new(CHAIN, GENESIS, Some(Epoch(1))), &[prepare(0, 0, 1)]),
        [Err(Refusal::Slot { mark: 0 })]
    );
}

#[test]
fn slot_memory_is_bounded() {
    let Record { current, headers, .. } = Record::largest();
    assert_eq!((current.slots.len() as u64, headers.len()), (OPEN_SLOTS, MAX_HEADERS));
}

#[test]
fn once_one_prepare_for_each_view() {
    let mut marks = marks();
    assert_eq!(last(&mut marks, &[prepare(1, 2, 1), prepare(1, 2, 1)]), Ok(()));
    let refused = [Err(Refusal::OtherValue { cut: value(1) }), Err(Refusal::View { mark: 2 })];
    assert_eq!(outcomes(&mut marks, &[prepare(1, 2, 2), prepare(1, 1, 2)]), refused);
    assert_eq!(outcomes(&mut marks, &[prepare(2, 1, 2), prepare(1, 3, 2)]), [Ok(()), Ok(())]);
}

#[test]
fn once_one_vote_of_each_kind_for_each_view() {
    for first in [strong(1, 2, 1), weak(1, 2, 1)] {
        let mut marks = marks();
        assert_eq!(last(&mut marks, &[first.clone(), strong(1, 2, 1), weak(1, 2, 1), first]), Ok(()));
    }
    for first in [strong(1, 2, 1), weak(1, 2, 1)] {
        for other in [strong, weak] {
            let statements = [first.clone(), other(1, 2, 2)];
            assert_eq!(last(&mut marks(), &statements), Err(Refusal::OtherValue { cut: value(1) }));
            assert_eq!(last(&mut marks(), &[first.clone(), other(1, 1, 1)]), Err(Refusal::View { mark: 2 }));
        }
    }
    let mut marks = marks();
    assert_eq!(last(&mut marks, &[strong(1, 2, 1), confirm(1, 2, 2), confirm(1, 2, 2), prepare(1, 2, 3)]), Ok(()));
    assert_eq!(last(&mut marks, &[confirm(1, 2, 1)]), Err(Refusal::OtherValue { cut: value(2) }));
    assert_eq!(last(&mut marks, &[confirm(1, 1, 1)]), Err(Refusal::View { mark: 2 }));
}

#[test]
fn once_shares_of_both_kinds_are_one_vote() {
    let mut marks = marks();
    let share = |cut, bls| Statement::Vote { kind: VoteKind::Confirmed, slot: 1, view: 0, cut: value(cut), bls };
    assert_eq!(last(&mut marks, &[share(1, false), share(1, true)]), Ok(()));
    assert!(last(&mut marks, &[share(2, true)]).is_err());
}

#[test]
fn once_one_report_for_each_view() {
    let mut marks = marks();
    assert_eq!(last(&mut marks, &[timeout(1, 2, None, None), timeout(1, 2, None, None)]), Ok(()));
    assert_eq!(last(&mut marks, &[timeout(1, 2, Some((1, 1)), None)]), Err(Refusal::OtherReport));
    assert_eq!(last(&mut marks, &[timeout(1, 1, None, None)]), Err(Refusal::View { mark: 2 }));
    // The engine repeats a TIMEOUT only in its view, but it stays true.
    assert_eq!(last(&mut marks, &[strong(1, 3, 1), timeout(1, 2, None, None)]), Ok(()));
}

#[test]
fn given_up_no_vote_in_view_of_timeout() {
    for kind in [strong, weak, confirm] {
        let refused = Err(Refusal::TimedOut { mark: 2 });
        assert_eq!(last(&mut marks(), &[timeout(1, 2, None, None), kind(1, 2, 1)]), refused);
        assert_eq!(last(&mut marks(), &[timeout(1, 2, None, None), kind(1, 1, 1)]), refused);
        assert_eq!(last(&mut marks(), &[timeout(1, 2, None, None), kind(1, 3, 1)]), Ok(()));
        assert_eq!(last(&mut marks(), &[timeout(1, 2, None, None), kind(2, 2, 1)]), Ok(()));
        // A vote from before the TIMEOUT is repeated.
        let named = Some((2, 1));
        assert_eq!(last(&mut marks(), &[kind(1, 2, 1), timeout(1, 2, named, named), kind(1, 2, 1)]), Ok(()));
    }
    // A strong vote is new if only the weak one was signed, and the TIMEOUT does not name it.
    let refused = Err(Refusal::TimedOut { mark: 2 });
    assert_eq!(last(&mut marks(), &[weak(1, 2, 1), timeout(1, 2, None, None), strong(1, 2, 1)]), refused);
}

#[test]
fn report_names_last_votes() {
    let forgotten = |kind, view| Err(Refusal::ForgottenVote { kind, view, cut: value(1) });
    for named in [None, Some((0, 1)), Some((1, 2))] {
        let voted = [strong(1, 1, 1), timeout(1, 2, named, None)];
        assert_eq!(last(&mut marks(), &voted), forgotten(VoteKind::Prepared, 1), "{named:?}");
        let confirmed = [confirm(1, 1, 1), timeout(1, 2, None, named)];
        assert_eq!(last(&mut marks(), &confirmed), forgotten(VoteKind::Confirmed, 1), "{named:?}");
    }
    for named in [Some((1, 1)), Some((2, 2))] {
        assert_eq!(last(&mut marks(), &[strong(1, 1, 1), timeout(1, 2, named, None)]), Ok(()));
        assert_eq!(last(&mut marks(), &[confirm(1, 1, 1), timeout(1, 2, None, named)]), Ok(()));
    }
    // A weak vote is no promise. Slots are independent.
    assert_eq!(last(&mut marks(), &[weak(1, 1, 1), timeout(1, 2, None, None)]), Ok(()));
    assert_eq!(last(&mut marks(), &[strong(2, 1, 1), timeout(1, 2, None, None)]), Ok(()));
    // A later weak vote does not hide the strong one.
    let hidden = [strong(1, 1, 1), weak(1, 2, 2), timeout(1, 2, None, None)];
    assert_eq!(last(&mut marks(), &hidden), forgotten(VoteKind::Prepared, 1));
}

// ---- headers and unmarked statements ---------------------------------------------------------------------------------------------

#[test]
fn header_height_must_rise() {
    let mut marks = marks();
    let refused = Err(Refusal::Height { mark: 9 });
    assert_eq!(last(&mut marks, &[header(5, 1), header(9, 2), header(9, 2), header(5, 1)]), Ok(()));
    assert_eq!(outcomes(&mut marks, &[header(9, 1), header(5, 2), header(7, 1)]), [refused.clone(), refused.clone(), refused]);
    let mut later = restart(&marks, None);
    assert_eq!(later.admit(&scope(2), &header(9, 1)).outcome, Err(Refusal::Height { mark: 9 }));
    assert_eq!(later.admit(&scope(2), &header(5, 1)).outcome, Ok(()));
    for height in 10..10 + MAX_HEADERS as u64 - 1 {
        assert_eq!(last(&mut marks, &[header(height, 3)]), Ok(()));
    }
    assert_eq!(last(&mut marks, &[header(9, 2)]), Ok(()));
    assert!(last(&mut marks, &[header(5, 1)]).is_err());
}

#[test]
fn unmarked_statements_change_only_epochs() {
    for statement in [car_vote(), disk_id()] {
        let mut marks = marks();
        assert!(marks.admit(&scope(1), &statement).is_changed);
        assert_eq!(marks.admit(&scope(1), &statement), Verdict { outcome: Ok(()), is_changed: false });
    }
    let mut marks = marks();
    assert_eq!(marks.admit(&scope(9), &notice()), Verdict { outcome: Ok(()), is_changed: false });
    assert_eq!(marks.admit(&scope(1), &car_vote()).outcome, Ok(()), "a notice does not begin an epoch");
}

// ---- record --------------------------------------------------------------------------------------------------------------------

/// Four statements of each kind, with numbers from 1 on.
fn series() -> [[Statement; 4]; 8] {
    let numbers = [1, 2, 3, 4];
    [
        numbers.map(|round| block(round, 1)),
        numbers.map(|position| car(position, 1)),
        numbers.map(|slot| prepare(slot, 0, 1)),
        numbers.map(|slot| strong(slot, 0, 1)),
        numbers.map(|slot| weak(slot, 0, 1)),
        numbers.map(|slot| confirm(slot, 0, 1)),
        numbers.map(|slot| timeout(slot, 0, None, None)),
        numbers.map(|height| header(height, 1)),
    ]
}

#[test]
fn record_changes_with_each_statement_but_not_with_repeats() {
    for statements in series() {
        let mut marks = marks();
        for statement in &statements {
            assert_eq!(marks.admit(&scope(1), statement), Verdict { outcome: Ok(()), is_changed: true });
            for mut marks in [restart(&marks, None), marks.clone()] {
                assert_eq!(marks.admit(&scope(1), statement), Verdict { outcome: Ok(()), is_changed: false });
            }
        }
    }
}

#[test]
fn record_leaves_no_gap_after_restart() {
    for statements in series() {
        let mut marks = marks();
        for statement in &statements {
            assert_eq!(marks.admit(&scope(1), statement).outcome, Ok(()));
            marks = restart(&marks, None);
        }
    }
}

#[test]
fn highest_numbers_do_not_overflow() {
    let mut marks = marks();
    for statement in [block(u64::MAX, 1), car(u64::MAX, 1), prepare(u64::MAX, u32::MAX, 1), header(u64::MAX, 1)] {
        assert_eq!(marks.admit(&scope(u64::MAX), &statement).outcome, Ok(()));
    }
    for statement in [block(u64::MAX, 2), car(1, 2), prepare(u64::MAX, u32::MAX, 2), header(u64::MAX, 2)] {
        assert!(marks.admit(&scope(u64::MAX), &statement).outcome.is_err());
    }
}

// ---- any sequence --------------------------------------------------------------------------------------------------------------

/// When the process dies and starts again.
#[derive(Clone, Copy, Debug)]
enum Crash {
    Never,
    /// Before the record is durable. No signature leaves.
    BeforeSync,
    /// After the record is durable. The signature may have left.
    AfterSync,
}

fn crash() -> impl Strategy<Value = Crash> {
    prop_oneof![20 => Just(Crash::Never), 1 => Just(Crash::BeforeSync), 1 => Just(Crash::AfterSync)]
}

/// A few values of a few kinds, so that they meet. Some numbers are far ahead.
fn requests() -> impl Strategy<Value = Vec<(Scope, Statement, Crash)>> {
    prop::collection::vec(0..9u8, 1..4).prop_flat_map(|kinds| {
        let number = prop_oneof![30 => 1..6u64, 1 => 15..40u64, 1 => 62..80u64];
        let named = prop::option::of((0..4u32, 1..3u8));
        let kind = prop::sample::select(kinds);
        let statement = (kind, number, 0..4u32, 1..3u8, named.clone(), named).prop_map(statement);
        let scope = prop_oneof![1 => Just(scope(1)), 60 => Just(scope(2)), 1 => Just(scope(3))];
        prop::collection::vec((scope, statement, crash()), 1..100)
    })
}

type Named = Option<(u32, u8)>;

fn statement((kind, number, view, cut, voted, confirmed): (u8, u64, u32, u8, Named, Named)) -> Statement {
    match kind {
        0 => block(number, cut),
        1 => car(number, cut),
        2 => prepare(number, view, cut),
        3 => strong(number, view, cut),
        4 => weak(number, view, cut),
        5 => confirm(number, view, cut),
        6 | 7 => timeout(number, view, voted, confirmed),
        _ => header(number, cut),
    }
}

/// Judges two signed statements by the check of evidence, without the rules above.
fn contradict(one: &(Scope, Statement), other: &(Scope, Statement)) -> bool {
    let share = Bytes::new();
    let contradiction = match (&one.1, &other.1) {
        // Two headers are judged over epochs.
        (Statement::Header { height, hash, .. }, Statement::Header { height: other, hash: other_hash, .. }) => {
            return height == other && hash != other_hash;
        }
        _ if one.0 != other.0 => return false,
        (Statement::Block(one), Statement::Block(other)) => Contradiction::Blocks([(*one, [0; 64]), (*other, [0; 64])]),
        (Statement::Prepare { slot, view, cut }, Statement::Prepare { slot: other_slot, view: other_view, cut: other_cut })
            if (slot, view) == (other_slot, other_view) =>
        {
            Contradiction::Prepares { slot: *slot, view: *view, values: [(*cut, [0; 64]), (*other_cut, [0; 64])] }
        }
        (
            Statement::Vote { kind, slot, view, cut, .. },
            Statement::Vote { kind: other_kind, slot: other_slot, view: other_view, cut: other_cut, .. },
        ) if (slot, view) == (other_slot, other_view) => {
            let votes = [(kind, cut), (other_kind, other_cut)];
            let votes = votes.map(|(kind, cut)| SlotVote { kind: *kind, cut: *cut, share: share.clone() });
            Contradiction::Votes { slot: *slot, view: *view, votes }
        }
        (
            Statement::Vote { kind, slot, view: voted_in, cut, .. },
            Statement::Timeout { slot: other_slot, view, report, .. },
        ) if slot == other_slot => {
            let vote = SlotVote { kind: *kind, cut: *cut, share: share.clone() };
            let (slot, voted_in, view, report) = (*slot, *voted_in, *view, *report);
            Contradiction::ForgottenVote { slot, voted_in, vote, view, report, share }
        }
        _ => return false,
    };
    contradiction.holds(ValidatorIndex(1))
}

/// A car below an earlier one. Two at one position are no offence.
fn falls_back(old: &(Scope, Statement), new: &(Scope, Statement)) -> bool {
    match (&old.1, &new.1) {
        (Statement::Car { position: before, .. }, Statement::Car { position: after, .. }) => old.0 == new.0 && after < before,
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn no_sequence_signs_a_contradiction(requests in requests(), from_epoch in from_epoch()) {
        let mut marks = Marks::new(CHAIN, GENESIS, from_epoch);
        let mut signed: Vec<(Scope, Statement)> = Vec::new();
        for (scope, statement, crash) in requests {
            let durable = marks.record().clone();
            let verdict = marks.admit(&scope, &statement);
            match crash {
                Crash::Never => {}
                Crash::BeforeSync => {
                    marks = Marks::resume(durable, from_epoch);
                    continue;
                }
                Crash::AfterSync => marks = restart(&marks, from_epoch),
            }
            if verdict.outcome.is_ok() {
                let new = (scope, statement);
                for old in &signed {
                    prop_assert!(!falls_back(old, &new), "{old:?}\n{new:?}");
                    prop_assert!(!contradict(old, &new) && !contradict(&new, old), "{old:?}\n{new:?}");
                }
                signed.push(new);
            }
        }
        prop_assert!(from_epoch.is_some() || signed.iter().all(|(scope, _)| scope.epoch > Epoch(1)));
    }

    /// A node asks again when the signer died before the answer. Then its requests have the outcomes of a signer that never dies.
    #[test]
    fn no_restart_changes_an_outcome(requests in requests(), from_epoch in from_epoch()) {
        let mut steady = Marks::new(CHAIN, GENESIS, from_epoch);
        let mut restarted = steady.clone();
        for (scope, statement, crash) in requests {
            let expected = steady.admit(&scope, &statement);
            let durable = restarted.record().clone();
            let verdict = restarted.admit(&scope, &statement);
            prop_assert_eq!(&verdict, &expected);
            match crash {
                Crash::Never => {}
                Crash::BeforeSync => {
                    restarted = Marks::resume(read_back(&durable), from_epoch);
                    prop_assert_eq!(restarted.admit(&scope, &statement), expected);
                }
                Crash::AfterSync => {
                    restarted = restart(&restarted, from_epoch);
                    let again = restarted.admit(&scope, &statement);
                    prop_assert_eq!(again, Verdict { is_changed: false, ..expected });
                }
            }
            prop_assert_eq!(restarted.record(), steady.record());
        }
    }
}

fn from_epoch() -> impl Strategy<Value = Option<Epoch>> {
    prop::option::weighted(0.9, (0..3u64).prop_map(Epoch))
}

/// The judge of the property above is not blind.
#[test]
fn contradictions_are_found() {
    for (one, other) in [
        (block(1, 1), block(1, 2)),
        (prepare(1, 0, 1), prepare(1, 0, 2)),
        (strong(1, 0, 1), weak(1, 0, 2)),
        (confirm(1, 0, 1), confirm(1, 0, 2)),
        (strong(1, 0, 1), timeout(1, 0, None, None)),
        (confirm(1, 0, 1), timeout(1, 1, None, None)),
        (header(1, 1), header(1, 2)),
    ] {
        let [one, other] = [one, other].map(|statement| (scope(1), statement));
        assert!(contradict(&one, &other) || contradict(&other, &one), "{one:?} {other:?}");
    }
}
