//! Storage and its cache, transient storage, counters.

use super::test_state::*;
use corniche_vm::ExecutionStatus;
use corniche_vm::host::Trap;

/// Caches word 7 for slot 1.
const STORE: &str = "(call $storage_cache_bytes32 (i32.const 160) (i32.const 192))";
const FLUSH: &str = "(call $storage_flush_cache (i32.const 0))";
const LOAD: &str = "(call $storage_load_bytes32 (i32.const 160) (i32.const 1024))";

pub fn only_a_flush_writes() {
    let after = |body: &str| {
        let mut world = TestState::new().one(&contract_returning(body, 32)).stored(ONE, 1, 3);
        (world.output(b"")[31], world.slot(ONE, 1))
    };
    assert_eq!(after(LOAD), (3, 3));
    // A frame reads its own cached words; without a flush they are not written.
    assert_eq!(after(&format!("{STORE}{LOAD}")), (7, 3));
    assert_eq!(after(&format!("{STORE}{FLUSH}{LOAD}")), (7, 7));
    // A word that is cached after the flush is read, but not written.
    assert_eq!(after(&format!("{STORE}{FLUSH}(call $storage_cache_bytes32 (i32.const 160) (i32.const 512)){LOAD}")), (0, 7));
    // A flushed word is reverted together with its frame.
    let mut world = TestState::new().one(&contract(&format!("{STORE}{FLUSH} i32.const 1"))).stored(ONE, 1, 3);
    assert_eq!(world.send(b"").end, ExecutionStatus::Revert);
    assert_eq!(world.slot(ONE, 1), 3);
}

/// Only a frame that cleared its cache sees the writes of a nested call.
pub fn stale_words_stay_until_cleared() {
    let two = contract(&format!("{STORE}{FLUSH} i32.const 0"));
    for (clear, seen) in [(0, 3), (1, 7)] {
        let body =
            format!("{LOAD} (call $storage_flush_cache (i32.const {clear})) {} {LOAD}", call("delegate_call_contract", 32));
        let mut world = TestState::new().one(&contract_returning(&body, 32)).two(&two).stored(ONE, 1, 3);
        assert_eq!((world.output(b"")[31], world.slot(ONE, 1), world.slot(TWO, 1)), (seen, 7, 0), "clear {clear}");
    }
    // A dirty word belongs to the caller: a later flush overwrites the callee's write.
    let body =
        format!("(call $storage_cache_bytes32 (i32.const 160) (i32.const 512)) {} {FLUSH}", call("delegate_call_contract", 32));
    let mut world = TestState::new().one(&contract_returning(&body, 1)).two(&two).stored(ONE, 1, 3);
    world.output(b"");
    assert_eq!(world.slot(ONE, 1), 0);
}

/// EIP-2200: a call with only the stipend cannot write.
pub fn the_stipend_does_not_write() {
    let two = contract(&format!("{STORE}{FLUSH} i32.const 0"));
    let given = |gas: u64| {
        let body = format!(
            "(i32.store (i32.const {OUT}) (call $call_contract (i32.const 32) (i32.const 0) (i32.const 0) (i32.const {ZERO}) (i64.const {gas}) (i32.const 600)))"
        );
        let mut world = TestState::new().one(&contract_returning(&body, 4)).two(&two).stored(TWO, 1, 3);
        (int(&world.output(b""), 0), world.slot(TWO, 1))
    };
    assert_eq!(given(100_000), (0, 7));
    // The minimum gas that suffices, and one less.
    let (mut short, mut enough) = (0, 100_000);
    while enough - short > 1 {
        let middle = (short + enough) / 2;
        if given(middle).0 == 0 { enough = middle } else { short = middle }
    }
    assert_eq!((given(enough), given(short)), ((0, 7), (2, 3)));
}

pub fn transient_storage() {
    let store = "(call $transient_store_bytes32 (i32.const 160) (i32.const 192))";
    let load = "(call $transient_load_bytes32 (i32.const 160) (i32.const 1024))";
    let mut world = TestState::new().one(&contract_returning(&format!("{store}{load}"), 32));
    assert_eq!(world.output(b"")[31], 7);
    // Cleared after the transaction, and never in storage.
    let mut world = world.one(&contract_returning(load, 32));
    assert_eq!((world.output(b"")[31], world.slot(ONE, 1)), (0, 0));
    // Kept across calls of one transaction, reverted with a failed frame, and separate for each contract.
    let two = |status: u32| contract(&format!("{store} i32.const {status}"));
    for (kind, status, seen) in [("delegate_call_contract", 0, 7), ("delegate_call_contract", 1, 0), ("call_contract", 0, 0)] {
        let body = format!("{} {load}", call(kind, 32));
        assert_eq!(
            TestState::new().one(&contract_returning(&body, 32)).two(&two(status)).output(b"")[31],
            seen,
            "{kind} {status}"
        );
    }
    // In a static frame a load is permitted and a store is not, although the store would be discarded.
    for (what, status) in [(load, 0), (store, 2)] {
        let two = contract(&format!("{what} i32.const 0"));
        let answer = TestState::new().one(&contract_returning(&call("static_call_contract", 32), 4)).two(&two).output(b"");
        assert_eq!(int(&answer, 0), status);
    }
}

pub fn counters() {
    // Function, amount, bound, value before, status (1: out of bounds), value after. SEVEN, UNIT and ZERO are 7, 1 and 0.
    for (name, amount, bound, before, answer, after) in [
        ("counter_add", SEVEN, UNIT, 0, 1, 0),
        ("counter_add", UNIT, SEVEN, 6, 0, 7),
        ("counter_add", UNIT, SEVEN, 7, 1, 7),
        ("counter_add", ZERO, SEVEN, 7, 0, 7),
        ("counter_sub", UNIT, UNIT, 2, 0, 1),
        ("counter_sub", UNIT, UNIT, 1, 1, 1),
        ("counter_sub", SEVEN, ZERO, 6, 1, 6),
    ] {
        let body =
            format!("(i32.store (i32.const {OUT}) (call ${name} (i32.const {UNIT}) (i32.const {amount}) (i32.const {bound})))");
        let mut world = TestState::new().one(&contract_returning(&body, 4)).stored(ONE, 1, before);
        assert_eq!((int(&world.output(b""), 0), world.slot(ONE, 1)), (answer, after), "{name} of {before}");
        let two = contract(&format!("{body} i32.const 0"));
        let status = TestState::new().one(&contract_returning(&call("static_call_contract", 32), 4)).two(&two).output(b"");
        assert_eq!(int(&status, 0), 2, "in a static frame");
    }
    // A counter call first writes the slot's dirty word. The next load returns the counter's new value.
    let body = format!("{STORE} (drop (call $counter_sub (i32.const {UNIT}) (i32.const {UNIT}) (i32.const {ZERO}))) {LOAD}");
    let mut world = TestState::new().one(&contract_returning(&body, 32));
    assert_eq!((world.output(b"")[31], world.slot(ONE, 1)), (6, 6));
    let _ = Trap::StaticViolation;
}
