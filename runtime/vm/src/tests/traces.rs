//! Traces of runs.

use super::scripts::*;
use crate::host::{CallKind, CallStatus, MAX_CALL_DEPTH, Trap};
use crate::{Call, Executed, FRAME_OVERHEAD_BYTES, FrameKind, FrameStatus, Trace, TraceFrame, TraceLimits};
use crate::{call::simulate, outcome::ExecutionStatus};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256};
use corniche_types::Log;

/// Checks the invariants of every trace of a transaction.
pub fn check(trace: &Trace, executed: &Executed) {
    let (root, receipt) = (trace.root().expect("something ran"), &executed.receipt);
    assert_eq!((root.gas_used, root.ending.is_success()), (receipt.gas_used, receipt.success));
    assert_eq!(root.from, receipt.sender);
    assert_eq!(Some(root.to), receipt.to.or(receipt.contract_address));
    let mut logs = Vec::new();
    kept_logs(root, &mut logs);
    assert_eq!(logs, receipt.logs);
    sums(root, true);
    let touched = trace.touched();
    let added = &executed.additions;
    for (address, (before, after)) in &touched.accounts {
        if let Some(wei) = added.balances.get(address) {
            assert_eq!(*after, before.clone().credited(*wei), "{address} was not read");
            continue;
        }
        let changed = executed.changes.accounts.get(address).map(|account| account.clone().unwrap_or_default());
        assert_eq!(changed, (before != after).then(|| after.clone()), "{address}");
    }
    assert!(executed.changes.accounts.keys().all(|address| touched.accounts.contains_key(address)));
    assert!(added.balances.keys().all(|address| touched.accounts.contains_key(address)));
    for (slot, values) in &touched.slots {
        if let Some(sum) = added.counters.get(slot) {
            let (before, after) = values.expect("it was counted in");
            assert_eq!(U256::from_be_bytes(after.0), sum.add_to(U256::from_be_bytes(before.0)), "{slot:?} was not read");
            continue;
        }
        let changed = executed.changes.storage.get(slot).copied();
        assert_eq!(changed, values.filter(|(before, after)| before != after).map(|(_, after)| after), "{slot:?}");
    }
    assert!(added.counters.keys().all(|slot| touched.slots.contains_key(slot)));
    assert!(executed.changes.storage.keys().all(|slot| touched.slots.contains_key(slot)));
    assert!(executed.changes.code.iter().all(|(hash, code)| touched.code.get(hash) == Some(code)));
}

/// Collects the logs that remain, in order.
fn kept_logs(frame: &TraceFrame, into: &mut Vec<Log>) {
    if !frame.ending.is_success() {
        return;
    }
    let mut logs = frame.logs.iter().peekable();
    for position in 0..=frame.calls.len() {
        while let Some(log) = logs.next_if(|log| log.position == position) {
            into.push(log.log.clone());
        }
        if let Some(call) = frame.calls.get(position) {
            kept_logs(call, into);
        }
    }
    assert!(logs.next().is_none(), "a log after more calls than there are");
}

/// A frame's gas includes that of its calls, except for the outermost frame, which may have a refund.
fn sums(frame: &TraceFrame, outermost: bool) {
    let below: u64 = frame.calls.iter().map(|call| call.gas_used).sum();
    assert!(frame.gas_used <= frame.gas);
    assert!(outermost || below <= frame.gas_used + 2_300 * frame.calls.len() as u64, "{frame:?}");
    frame.calls.iter().for_each(|call| sums(call, false));
}

/// Formats a trace, one line per frame and log.
fn told(trace: &Trace) -> Vec<String> {
    fn tell(frame: &TraceFrame, depth: usize, names: &dyn Fn(&Address) -> String, lines: &mut Vec<String>) {
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).trim_matches('\0').to_string();
        let TraceFrame { kind, value, ending, .. } = frame;
        let (from, to, indent) = (names(&frame.from), names(&frame.to), " ".repeat(depth));
        let ending = match ending {
            FrameStatus::Ran(ExecutionStatus::Success) => "ok".into(),
            FrameStatus::Ran(end) => format!("{end:?}"),
            other => format!("{other:?}"),
        };
        let (input, output) = (text(&frame.input), text(&frame.output));
        lines.push(format!("{indent}{kind:?} {from} {to} {value} '{input}' {ending} '{output}'"));
        let mut logs = frame.logs.iter().peekable();
        for position in 0..=frame.calls.len() {
            while let Some(log) = logs.next_if(|log| log.position == position) {
                lines.push(format!("{indent} log {} {}", names(&log.log.address), number(log.log.topics[0])));
            }
            if let Some(call) = frame.calls.get(position) {
                tell(call, depth + 1, names, lines);
            }
        }
    }
    let known = ["main", "callee", "library", "deep", "endless"].map(|name| (contract(name), name.to_string()));
    let root = trace.root().unwrap();
    let names = move |address: &Address| {
        let known = known.iter().find(|(known, _)| known == address).map(|(_, name)| name.clone());
        known.unwrap_or_else(|| match address {
            _ if *address == Chain::new().sender() => "sender".into(),
            _ if crate::is_precompile(address) => format!("0x{:x}", address[19]),
            _ => "new".into(),
        })
    };
    let mut lines = Vec::new();
    tell(root, 0, &names, &mut lines);
    lines
}

#[test]
fn trace_nests_every_frame_kind() {
    let mut chain = Chain::new();
    let library = chain.contract("library", |guest| {
        guest.log(4)?;
        guest.must_call(contract("callee"), b"from library")?;
        guest.log(5)?;
        Ok("done".into())
    });
    let callee = chain.contract("callee", |guest| Ok([b"got ", &guest.input[..]].concat().into()));
    chain.script("token", |guest| {
        guest.log(6)?;
        guest.must_call(contract("callee"), b"from constructor")?;
        out(0)
    });
    let main = chain.contract("main", move |guest| {
        guest.log(1)?;
        guest.call(CallKind::Call, callee, 3, u64::MAX, b"paid")?;
        guest.log(2)?;
        guest.log(3)?;
        guest.call(CallKind::Static, callee, 0, u64::MAX, b"static")?;
        guest.call(CallKind::Delegate, library, 0, u64::MAX, b"lent")?;
        guest.create(b"token|x", 1, None)?;
        guest.create(b"token", 2, Some(B256::ZERO))?;
        guest.create(b"nonsense", 0, None)?;
        guest.call(CallKind::Call, Address::with_last_byte(4), 0, u64::MAX, b"same")?;
        Ok("end".into())
    });
    chain.set_balance(main, 100);
    let draft = TxEip1559 { value: U256::from(7), input: b"go"[..].into(), ..chain.draft(main) };
    let trace = chain.trace(draft.clone(), EVERYTHING);
    assert_eq!(
        told(&trace),
        [
            "Call sender main 7 'go' ok 'end'",
            " log main 1",
            " Call main callee 3 'paid' ok 'got paid'",
            " log main 2",
            " log main 3",
            " StaticCall main callee 0 'static' ok 'got static'",
            // A delegate call has its caller's value; its calls come from the account that it acts for.
            " DelegateCall main library 7 'lent' ok 'done'",
            "  log main 4",
            "  Call main callee 0 'from library' ok 'got from library'",
            "  log main 5",
            // The constructor's actions belong to the creation.
            " Create main new 1 'token|x' ok 'token'",
            "  log new 6",
            "  Call new callee 0 'from constructor' ok 'got from constructor'",
            " Create2 main new 2 'token' ok 'token'",
            " Create main new 0 'nonsense' Refused(\"not a script\") ''",
            " Call main 0x4 0 'same' ok 'same'",
        ]
    );
    chain.send(draft);
    let root = trace.root().unwrap();
    assert_eq!(root.gas, 1_000_000, "the transaction's limit");
    assert_eq!(root.calls[0].gas_used, 0, "scripts pay for nothing but what they ask of the host");
    assert_eq!(root.calls[2].gas_used, 2 * (375 + 375 + 8 * 4) + 100);
    assert_eq!(root.calls[3].to, main.create(1));
    assert_eq!(root.calls[6].gas_used, 15 + 3);
}

#[test]
fn trace_of_creation_transaction() {
    let mut chain = Chain::new();
    chain.script("token", |guest| match guest.input[0] {
        b'y' => out(1),
        _ => Err(Stop::Revert(Bytes::from_static(b"why not"))),
    });
    for (data, told_as) in [
        ("token", "Create sender new 5 'token' ok 'token'"),
        ("token|y", "Create sender new 5 'token|y' ok 'token'"),
        ("token|n", "Create sender new 5 'token|n' Revert 'why not'"),
    ] {
        let draft = TxEip1559 { value: U256::from(5), input: data.as_bytes().into(), ..chain.draft(TxKind::Create) };
        assert_eq!(told(&chain.trace(draft.clone(), EVERYTHING)), [told_as]);
        chain.send(draft);
    }
}

#[test]
fn trace_of_failed_frames() {
    let mut chain = Chain::new();
    chain.contract("callee", |guest| match &guest.input[..] {
        b"revert" => {
            guest.log(9)?;
            Err(Stop::Revert(Bytes::from_static(b"no")))
        }
        b"gas" => Err(Stop::OutOfGas),
        b"write" => guest.store(1, 1).and(out(0)),
        _ => Err(Stop::Trap(Trap::Unreachable)),
    });
    let main = chain.contract("main", |guest| {
        let callee = contract("callee");
        for (kind, value, input) in [
            (CallKind::Call, 0, "revert"),
            (CallKind::Call, 0, "gas"),
            (CallKind::Static, 0, "write"),
            (CallKind::Call, 0, "trap"),
            (CallKind::Call, 1, "unpaid"),
        ] {
            let returned = guest.call(kind, callee, value, 10_000, input.as_bytes())?;
            assert_ne!(returned.status, CallStatus::Success);
        }
        guest.create(b"token", 1, None)?;
        guest.call(CallKind::Call, Address::with_last_byte(9), 0, 100, b"x")?;
        out(0)
    });
    let trace = chain.trace(chain.draft(main), EVERYTHING);
    assert_eq!(
        told(&trace)[1..],
        [
            " Call main callee 0 'revert' Revert 'no'",
            "  log callee 9",
            " Call main callee 0 'gas' OutOfGas ''",
            " StaticCall main callee 0 'write' Trap(StaticViolation) ''",
            " Call main callee 0 'trap' Trap(Unreachable) ''",
            " Call main callee 1 'unpaid' InsufficientBalance ''",
            " Create main new 1 'token' InsufficientBalance ''",
            " Call main 0x9 0 'x' Precompile(Length) ''",
        ]
    );
    let used: Vec<_> = trace.root().unwrap().calls.iter().map(|call| call.gas_used).collect();
    assert_eq!(used, [375 + 375 + 32, 10_000, 10_000, 10_000, 0, 0, 100]);
    chain.send_to(main);
}

#[test]
fn trace_at_depth_limit() {
    let mut chain = Chain::new();
    let deep = chain.contract("deep", |guest| {
        guest.call(CallKind::Call, contract("deep"), 0, u64::MAX, &[])?;
        out(0)
    });
    let trace = chain.trace(TxEip1559 { gas_limit: BLOCK_GAS, ..chain.draft(deep) }, EVERYTHING);
    let (mut frame, mut depth) = (trace.root().unwrap(), 0);
    while let Some(call) = frame.calls.first() {
        (frame, depth) = (call, depth + 1);
    }
    assert_eq!((depth, &frame.ending), (MAX_CALL_DEPTH, &FrameStatus::CallTooDeep));
    assert_eq!(frame.gas_used, 0);
}

#[test]
fn trace_limit_does_not_affect_execution() {
    let mut chain = Chain::new();
    let callee = chain.contract("callee", |guest| Ok(guest.input.clone()));
    let main = chain.contract("main", move |guest| {
        let input = vec![1; 1_000];
        for _ in 0..1_000 {
            guest.must_call(callee, &input)?;
            guest.log(1)?;
        }
        out(7)
    });
    let draft = || TxEip1559 { gas_limit: BLOCK_GAS, ..chain.draft(main) };
    let logs = 1_000 * (FRAME_OVERHEAD_BYTES + 32 + 4);
    let all = 1_000 * (FRAME_OVERHEAD_BYTES + 2 * 1_000) + logs + FRAME_OVERHEAD_BYTES + 32;
    let limits = |bytes| TraceLimits { bytes, top_only: false };
    let whole = chain.trace(draft(), limits(all));
    assert_eq!((whole.overflowed(), whole.bytes(), whole.root().unwrap().calls.len()), (false, all, 1_000));
    for less in [all - 1, all - 33, all / 2, 3 * FRAME_OVERHEAD_BYTES, FRAME_OVERHEAD_BYTES, 0] {
        // The helper that traces also checks that the result is equal.
        let trace = chain.trace(draft(), limits(less));
        assert!(trace.overflowed() && trace.root().is_none());
        assert!(!trace.touched().accounts.is_empty(), "what was touched is told in any case");
        assert!(trace.bytes() <= less + 2_000, "nothing is counted any more");
    }
    let top = chain.trace(draft(), TraceLimits { bytes: logs + FRAME_OVERHEAD_BYTES + 32, top_only: true });
    let root = top.root().unwrap();
    assert_eq!((root.calls.len(), root.logs.len(), read(&root.output)), (0, 1_000, 7));
    assert_eq!(root.gas_used, whole.root().unwrap().gas_used);
}

#[test]
fn trace_overflow_drops_frame() {
    let mut chain = Chain::new();
    chain.contract("endless", |guest| {
        guest.call(CallKind::Call, contract("endless"), 0, u64::MAX, &[0; 5_000])?;
        guest.log(1)?;
        Ok(vec![0; 5_000].into())
    });
    let draft = TxEip1559 { gas_limit: BLOCK_GAS, ..chain.draft(contract("endless")) };
    for bytes in [10_000, 100_000, 1_000_000, 2_000_000] {
        let trace = chain.trace(draft.clone(), TraceLimits { bytes, top_only: false });
        assert!(trace.overflowed() && trace.root().is_none(), "{bytes}");
    }
}

#[test]
fn touched_includes_reverted_accesses() {
    let mut chain = Chain::new();
    let callee = chain.contract("callee", |guest| {
        guest.store(5, 1)?;
        Err(Stop::Revert(Bytes::new()))
    });
    let main = chain.contract("main", move |guest| {
        guest.load(1)?;
        guest.store(2, 9)?;
        guest.balance(Address::repeat_byte(0x77))?;
        guest.balance(COINBASE)?;
        guest.call(CallKind::Call, callee, 0, u64::MAX, &[])?;
        guest.call(CallKind::Call, Address::with_last_byte(2), 0, u64::MAX, &[])?;
        out(0)
    });
    let declared = (Address::repeat_byte(0x55), word(3));
    let request = Call {
        from: chain.sender(),
        to: Some(main),
        gas: BLOCK_GAS,
        access_list: vec![(declared.0, vec![declared.1])],
        ..Call::default()
    };
    let mut trace = Trace::new(EVERYTHING);
    let (outcome, _) = simulate(&chain.scripts, &chain.view(), &chain.env, &request, Some(&mut trace));
    assert!(outcome.success());
    assert_eq!(outcome, chain.call(request));
    let (root, touched) = trace.into_parts();
    assert_eq!(root.unwrap().kind, FrameKind::Call);
    assert_eq!(touched.reached, [Address::repeat_byte(0x77), callee].into());
    let (zero, nine) = (B256::ZERO, word(9));
    assert_eq!(
        touched.slots,
        [
            (declared, None),
            ((main, word(1)), Some((zero, zero))),
            ((main, word(2)), Some((zero, nine))),
            ((callee, word(5)), Some((zero, zero))),
        ]
        .into()
    );
    let (before, after) = &touched.accounts[&chain.sender()];
    assert_eq!((before.nonce, after.nonce), (0, 1));
    // A transaction that does not start leaves no trace.
    let mut trace = Trace::new(EVERYTHING);
    let request = Call { to: Some(main), gas: 20_999, ..Call::default() };
    let (outcome, _) = simulate(&chain.scripts, &chain.view(), &chain.env, &request, Some(&mut trace));
    assert!(matches!(outcome.end, ExecutionStatus::Invalid(_)));
    assert!(trace.root().is_none() && !trace.overflowed() && trace.touched().accounts.is_empty());
}
