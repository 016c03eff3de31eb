//! Formats a trace as a call tree.
//!
//! ```text
//! [38,206] alice → exchange.swap(amount: 100)
//! ├─ [12,031] token.transferFrom(from: alice, to: exchange, value: 100) → true
//! │  · Transfer(from: alice, to: exchange, value: 100)
//! │  » console output of a debug build
//! └─ [2,410] vault.pay(to: alice, value: 96)
//!    ✗ InsufficientBalance(account: vault, have: 12)
//! ✗ InsufficientBalance(account: vault, have: 12)
//! ```

use crate::address_book::AddressBook;
use alloy_primitives::Address;
use corniche_vm::{ExecutionStatus, FrameKind, FrameStatus, TraceFrame};
use std::fmt::Write;

/// Formats a frame and all its calls, one per line. Gas in brackets includes the frame's calls.
pub fn format_trace(book: &AddressBook, root: &TraceFrame) -> String {
    let mut out = String::new();
    let head = format!("{} → {}", book.name(&root.from), line(book, root));
    let _ = writeln!(out, "{head}");
    write_children(book, root, "", &mut out);
    out
}

fn write_children(book: &AddressBook, frame: &TraceFrame, margin: &str, out: &mut String) {
    let mut entries = entries(book, frame).into_iter().peekable();
    let ended = ending(book, frame);
    for (position, call) in frame.calls.iter().enumerate() {
        while let Some((_, line)) = entries.next_if(|(before, _)| *before <= position) {
            let _ = writeln!(out, "{margin}{line}");
        }
        let last = position + 1 == frame.calls.len() && entries.peek().is_none() && ended.is_none();
        let (branch, beside) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let _ = writeln!(out, "{margin}{branch}{}", line(book, call));
        write_children(book, call, &format!("{margin}{beside}"), out);
    }
    for (_, line) in entries {
        let _ = writeln!(out, "{margin}{line}");
    }
    if let Some(ended) = ended {
        let _ = writeln!(out, "{margin}✗ {ended}");
        for place in book.backtrace(&frame.to, &frame.backtrace) {
            let _ = writeln!(out, "{margin}  at {place}");
        }
    }
}

/// Events and console lines, in order; each with the number of calls before it.
fn entries(book: &AddressBook, frame: &TraceFrame) -> Vec<(usize, String)> {
    let mut all: Vec<_> = frame
        .logs
        .iter()
        .enumerate()
        .map(|(at, log)| ((log.position, at, 1), format!("· {}", book.log(&frame.to, &log.log))))
        .collect();
    // A console line after n logs sorts before the next log.
    all.extend(frame.lines.iter().map(|line| ((line.calls, line.logs, 0), format!("» {}", printable(&line.text)))));
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|((calls, ..), text)| (calls, text)).collect()
}

/// Replaces control characters, so that output of a contract stays on one line.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn line(book: &AddressBook, frame: &TraceFrame) -> String {
    let gas = grouped(frame.gas_used);
    let to = book.name(&frame.to);
    let value = if frame.value.is_zero() { String::new() } else { format!(" with {} wei", frame.value) };
    if frame.kind.is_create() {
        return format!("[{gas}] new {to}{value} ({} bytes of creation data)", frame.input.len());
    }
    let how = match frame.kind {
        FrameKind::StaticCall => "static ",
        FrameKind::DelegateCall => "delegate ",
        FrameKind::Call | FrameKind::Create | FrameKind::Create2 => "",
    };
    let named = interface_address(book, frame);
    let called = if frame.input.is_empty() { to } else { format!("{to}.{}", book.call(named, &frame.input)) };
    let answered = if frame.ending.is_success() { book.output(named, &frame.input, &frame.output) } else { String::new() };
    let arrow = if answered.is_empty() { "" } else { " → " };
    format!("[{gas}] {how}{called}{value}{arrow}{answered}")
}

/// Returns the address whose ABI describes a call: the callee's, or, if that has no such function and forwards all
/// calls like a proxy, the ABI of the code it forwards to.
fn interface_address<'a>(book: &AddressBook, frame: &'a TraceFrame) -> &'a Address {
    if book.function(&frame.to, &frame.input).is_some() {
        return &frame.to;
    }
    let handed_on = frame.calls.iter().find(|call| call.kind == FrameKind::DelegateCall && call.input == frame.input);
    handed_on.map_or(&frame.to, |call| interface_address(book, call))
}

/// Returns the error of a frame, or `None` on success.
fn ending(book: &AddressBook, frame: &TraceFrame) -> Option<String> {
    match &frame.ending {
        FrameStatus::Ran(ExecutionStatus::Success) => None,
        FrameStatus::Ran(ExecutionStatus::Revert) => Some(book.error(&frame.to, &frame.output)),
        FrameStatus::Ran(end) => Some(end.reason().unwrap_or_else(|| "failed".into())),
        FrameStatus::CallTooDeep => Some("max call depth exceeded".into()),
        FrameStatus::InsufficientBalance => {
            Some(format!("insufficient balance: {} has less than {} wei", book.name(&frame.from), frame.value))
        }
    }
}

/// Formats 38206 as 38,206.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
