//! Prices of counter calls, and of stores after them: those of a store, independent of the slot's value.

use super::*;

#[test]
fn count_costs_like_store() {
    let gas = |base: u64, counts: &'static [(Delta, u64)]| {
        let ran = CallRun::once(n(base), move |guest| {
            for (change, bound) in counts {
                guest.count(1, *change, n(*bound))?;
            }
            out(0)
        });
        ran.gas()
    };
    const ADD: (Delta, u64) = (Delta::Plus(U256::from_limbs([3, 0, 0, 0])), 100);
    const TAKE: (Delta, u64) = (Delta::Minus(U256::from_limbs([3, 0, 0, 0])), 0);
    const NOTHING: (Delta, u64) = (Delta::Plus(U256::ZERO), 100);
    let (warm, cold, born) = (2_900, 2_100, 17_100);
    for base in [1, 3, 50, 97] {
        assert_eq!(gas(base, &[ADD]), warm + cold);
        assert_eq!(gas(base, &[ADD, ADD]), 2 * warm + cold);
    }
    for base in [2, 3, 4, 50] {
        assert_eq!(gas(base, &[TAKE]), warm + cold, "refused, to zero, or not: the same");
    }
    assert_eq!(gas(98, &[ADD]), warm + cold, "refused");
    assert_eq!(gas(0, &[ADD]), warm + cold + born);
    assert_eq!(gas(0, &[ADD, ADD]), 2 * warm + cold + born, "once");
    assert_eq!(gas(0, &[NOTHING]), warm + cold, "nothing comes into being");
    assert_eq!(gas(0, &[TAKE]), warm + cold);
    assert_eq!(gas(3, &[TAKE, ADD]), 2 * warm + cold + born, "zero between the two");
    assert_eq!(gas(4, &[TAKE, ADD]), 2 * warm + cold);
}

#[test]
fn gas_is_checked_before_reads() {
    let with = |base: u64, gas: u64| {
        let mut chain = Chain::new();
        let to = chain.contract("counts", |guest| guest.count(1, plus(1), n(10)).and(out(0)));
        chain.state.storage.insert((to, word(1)), word(base));
        let view = chain.view();
        let witness = RecordingView::new(&view);
        let mut draft = chain.draft(to);
        draft.gas_limit = 21_000 + gas;
        let executed = chain.run_on(&witness, draft).unwrap();
        assert_eq!(witness.reads(), []);
        (executed.receipt.success, witness.ranges().len())
    };
    assert_eq!(with(1, 4_999), (false, 0));
    assert_eq!(with(1, 5_000), (true, 2));
    assert_eq!(with(0, 22_099), (false, 2));
    assert_eq!(with(0, 22_100), (true, 2));
}

#[test]
fn store_after_count_uses_counted_value() {
    let gas = |base: u64, script: fn(&mut Guest<'_>) -> Result<(), Stop>| {
        CallRun::once(n(base), move |guest| {
            script(guest)?;
            // Uses enough gas that the cap on refunds has no effect.
            guest.store(9, 1).and(guest.store(8, 1)).and(out(0))
        })
        .gas()
            - 2 * 22_100
    };
    // Added to and then stored: both are paid; the store is warm.
    assert_eq!(gas(5, |g| g.count(1, plus(1), MAX).and_then(|_| g.store(1, 9))), 5_000 + 2_900);
    assert_eq!(gas(5, |g| g.count(1, plus(1), MAX).and_then(|_| g.store(1, 6))), 5_000 + 100, "what is there already");
    assert_eq!(gas(0, |g| g.count(1, plus(1), MAX).and_then(|_| g.store(1, 9))), 22_100 + 2_900);
    // Cleared by the store: the usual refund, once, although the slot was zero at the transaction's start.
    assert_eq!(gas(0, |g| g.count(1, plus(1), MAX).and_then(|_| g.store(1, 0))), 22_100 + 2_900 - 4_800);
    // Cleared by counting: no refund, and no refund to subtract when it is set again, at the usual price.
    assert_eq!(gas(5, |g| g.count(1, minus(5), n(0)).and_then(|_| g.store(1, 9))), 5_000 + 20_000);
    // Equal if the slot was stored before: the price does not depend on whether the journal knew the number.
    assert_eq!(
        gas(5, |g| g.store(1, 6).and_then(|_| g.count(1, minus(6), n(0))).and_then(|_| g.store(1, 9))),
        5_000 + 2_900 + 20_000
    );
    assert_eq!(gas(5, |g| g.load(1).and_then(|_| g.count(1, plus(1), MAX)).and_then(|_| g.store(1, 9))), 2_100 + 2_900 + 2_900);
}

#[test]
fn reverted_count_restores_prices() {
    let chain = &mut Chain::new();
    let inner = chain.contract("inner", |guest| {
        guest.count(1, plus(1), MAX)?;
        Err(Stop::Revert(Bytes::new()))
    });
    let to = chain.contract("outer", move |guest| {
        guest.load(1)?;
        guest.call(CallKind::Delegate, inner, 0, u64::MAX, &[])?;
        guest.store(1, 9).and(out(0))
    });
    chain.state.storage.insert((to, word(1)), word(5));
    assert_eq!(chain.send_to(to).receipt.gas_used, 21_000 + 2_100 + 2_600 + 2_900 + 2_900);
}
