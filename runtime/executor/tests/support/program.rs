//! A contract that executes the program in its input, so that a test can specify reads and writes.
//!
//! The input is two addresses, `other` and `own`, and a list of steps of four bytes. Slots hold 16-bit numbers; `acc`
//! is the only register. A call passes some of the following steps to `other`, with the two addresses exchanged, and
//! continues after them.

use alloy_primitives::{Address, Bytes};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// acc = slot
    Load(u8),
    /// slot = acc
    Store(u8),
    /// acc += n
    Add(u8),
    /// acc = n
    Set(u8),
    /// Skips this many steps if acc is zero.
    SkipIfZero(u8),
    Trap,
    Revert,
    /// Runs until the gas is used up.
    Burn,
    /// acc = 0 if the call of `other` with these steps succeeded.
    Call(Vec<Op>),
    /// Sends this many wei to `other`, with no steps; sets acc as for a call.
    Send(u8),
    /// acc = balance of `other` in wei, modulo 2^32.
    Balance,
    Log,
    /// acc = slot[acc modulo 8]
    LoadAt,
    /// slot[acc modulo 8] = n
    StoreAt(u8),
    /// acc = the block's number
    Number,
    /// acc = last two bytes of the hash of the header n below the newest available one; otherwise 65,535.
    Certified(u8),
    /// Like `Certified`, for the header with this number. Does not read the block's number.
    CertifiedAt(u8),
    /// Adds to a slot, up to a limit, without reading it; acc = 0 if it did.
    Count(u8, u8, u8),
    /// Subtracts from a slot, down to a floor, without reading it; acc = 0 if it did.
    CountDown(u8, u8, u8),
    /// Sends acc as a word, and some wei, to the precompile at this address (0 for 0x100). acc = last two bytes of the
    /// first returned word; 65,535 if the call failed.
    Precompile(u8, u8),
}

const WAT: &str = r#"(module
  (import "vm_hooks" "read_args" (func $read_args (param i32)))
  (import "vm_hooks" "write_result" (func $write_result (param i32 i32)))
  (import "vm_hooks" "storage_load_bytes32" (func $load (param i32 i32)))
  (import "vm_hooks" "storage_cache_bytes32" (func $cache (param i32 i32)))
  (import "vm_hooks" "storage_flush_cache" (func $flush (param i32)))
  (import "vm_hooks" "emit_log" (func $log (param i32 i32 i32)))
  (import "vm_hooks" "call_contract" (func $call (param i32 i32 i32 i32 i64 i32) (result i32)))
  (import "vm_hooks" "account_balance" (func $balance (param i32 i32)))
  (import "vm_hooks" "block_number" (func $number (result i64)))
  (import "corniche" "certified_hash" (func $certified (param i64 i32) (result i32)))
  (import "vm_hooks" "read_return_data" (func $returned (param i32 i32 i32) (result i32)))
  (import "corniche" "counter_add" (func $count (param i32 i32 i32) (result i32)))
  (import "corniche" "counter_sub" (func $count_down (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1 1)
  ;; 160 amount, 192 bound, 0 key, 32 value, 64 balance, 96 wei to send, 128 length of what a call returned, 512 the addresses,
  ;; 576 a precompile's address, 608 what it returned, 1024 input
  (func $get (param $slot i32) (result i32)
    (i32.store8 (i32.const 31) (local.get $slot))
    (call $load (i32.const 0) (i32.const 32))
    (i32.or (i32.load8_u (i32.const 63)) (i32.shl (i32.load8_u (i32.const 62)) (i32.const 8))))
  (func $put (param $slot i32) (param $value i32)
    (i32.store8 (i32.const 31) (local.get $slot))
    (i32.store (i32.const 60) (i32.const 0)) (i32.store8 (i32.const 63) (local.get $value))
    (i32.store8 (i32.const 62) (i32.shr_u (local.get $value) (i32.const 8)))
    (call $cache (i32.const 0) (i32.const 32))
    (call $flush (i32.const 0)))
  (func $copy (param $from i32) (param $to i32)
    (i64.store (local.get $to) (i64.load (local.get $from)))
    (i64.store offset=8 (local.get $to) (i64.load offset=8 (local.get $from)))
    (i32.store offset=16 (local.get $to) (i32.load offset=16 (local.get $from))))
  (func (export "user_entrypoint") (param $length i32) (result i32)
    (local $at i32) (local $end i32) (local $op i32) (local $a i32) (local $acc i32)
    (call $read_args (i32.const 1024))
    (call $copy (i32.const 1024) (i32.const 512))
    (call $copy (i32.const 1044) (i32.const 532))
    (local.set $at (i32.const 1064))
    (local.set $end (i32.add (i32.const 1024) (local.get $length)))
    (block $stop (loop $next
      (br_if $stop (i32.ge_u (local.get $at) (local.get $end)))
      (local.set $op (i32.load8_u (local.get $at)))
      (local.set $a (i32.load8_u offset=1 (local.get $at)))
      (local.set $at (i32.add (local.get $at) (i32.const 4)))
      (if (i32.eq (local.get $op) (i32.const 1)) (then (local.set $acc (call $get (local.get $a)))))
      (if (i32.eq (local.get $op) (i32.const 2)) (then (call $put (local.get $a) (local.get $acc))))
      (if (i32.eq (local.get $op) (i32.const 3)) (then (local.set $acc (i32.add (local.get $acc) (local.get $a)))))
      (if (i32.eq (local.get $op) (i32.const 4)) (then (local.set $acc (local.get $a))))
      (if (i32.and (i32.eq (local.get $op) (i32.const 5)) (i32.eqz (local.get $acc)))
        (then (local.set $at (i32.add (local.get $at) (i32.shl (local.get $a) (i32.const 2))))))
      (if (i32.eq (local.get $op) (i32.const 6)) (then unreachable))
      (if (i32.eq (local.get $op) (i32.const 7)) (then (return (i32.const 1))))
      (if (i32.eq (local.get $op) (i32.const 8)) (then (loop $for_ever (br $for_ever))))
      (if (i32.eq (local.get $op) (i32.const 9)) (then
        ;; What lies before the steps has been run, so the addresses may go there.
        (call $copy (i32.const 532) (i32.sub (local.get $at) (i32.const 40)))
        (call $copy (i32.const 512) (i32.sub (local.get $at) (i32.const 20)))
        (i32.store8 (i32.const 127) (i32.const 0))
        (local.set $acc (call $call (i32.const 512) (i32.sub (local.get $at) (i32.const 40))
          (i32.add (i32.const 40) (i32.shl (local.get $a) (i32.const 2))) (i32.const 96) (i64.const -1) (i32.const 128)))
        (local.set $at (i32.add (local.get $at) (i32.shl (local.get $a) (i32.const 2))))))
      (if (i32.eq (local.get $op) (i32.const 10)) (then
        (i32.store8 (i32.const 127) (local.get $a))
        (local.set $acc (call $call (i32.const 512) (i32.const 512) (i32.const 40) (i32.const 96) (i64.const -1) (i32.const 128)))))
      (if (i32.eq (local.get $op) (i32.const 11)) (then
        (call $balance (i32.const 512) (i32.const 64)) (local.set $acc (i32.load (i32.const 92)))))
      (if (i32.eq (local.get $op) (i32.const 12)) (then
        (i32.store (i32.const 60) (local.get $acc)) (call $log (i32.const 32) (i32.const 32) (i32.const 0))))
      (if (i32.eq (local.get $op) (i32.const 13)) (then
        (local.set $acc (call $get (i32.and (local.get $acc) (i32.const 7))))))
      (if (i32.eq (local.get $op) (i32.const 14)) (then
        (call $put (i32.and (local.get $acc) (i32.const 7)) (local.get $a))))
      (if (i32.eq (local.get $op) (i32.const 15)) (then (local.set $acc (i32.wrap_i64 (call $number)))))
      (if (i32.or (i32.eq (local.get $op) (i32.const 19)) (i32.eq (local.get $op) (i32.const 20))) (then
        (i32.store16 (i32.const 638) (i32.const 65535))
        (drop (call $certified
          (if (result i64) (i32.eq (local.get $op) (i32.const 19))
            (then (i64.sub (call $number) (i64.extend_i32_u (i32.add (i32.const 65) (local.get $a)))))
            (else (i64.extend_i32_u (local.get $a))))
          (i32.const 608)))
        (local.set $acc (i32.load16_u (i32.const 638)))))
      (if (i32.eq (local.get $op) (i32.const 18)) (then
        (i32.store (i32.const 60) (i32.const 0)) (i32.store8 (i32.const 63) (local.get $acc))
        (i32.store8 (i32.const 62) (i32.shr_u (local.get $acc) (i32.const 8)))
        (i32.store8 (i32.const 594) (i32.eqz (local.get $a))) (i32.store8 (i32.const 595) (local.get $a))
        (i32.store8 (i32.const 127) (i32.load8_u (i32.sub (local.get $at) (i32.const 2))))
        (i32.store16 (i32.const 638) (i32.const 0))
        (local.set $acc (call $call (i32.const 576) (i32.const 32) (i32.const 32) (i32.const 96) (i64.const 9000) (i32.const 128)))
        (drop (call $returned (i32.const 608) (i32.const 0) (i32.const 32)))
        (local.set $acc (select (i32.const 65535) (i32.load16_u (i32.const 638)) (local.get $acc)))))
      (if (i32.eq (i32.and (local.get $op) (i32.const 62)) (i32.const 16)) (then
        (i32.store8 (i32.const 31) (local.get $a))
        (i32.store8 (i32.const 191) (i32.load8_u (i32.sub (local.get $at) (i32.const 2))))
        (i32.store8 (i32.const 223) (i32.load8_u (i32.sub (local.get $at) (i32.const 1))))
        (local.set $acc (if (result i32) (i32.eq (local.get $op) (i32.const 16))
          (then (call $count (i32.const 0) (i32.const 160) (i32.const 192)))
          (else (call $count_down (i32.const 0) (i32.const 160) (i32.const 192)))))))
      (br $next)))
    (i32.store (i32.const 60) (local.get $acc))
    (call $write_result (i32.const 60) (i32.const 4))
    (i32.const 0)))"#;

/// Returns the contract's module; modules differ only in `number`.
pub fn module(number: u8) -> Bytes {
    let body = WAT.strip_suffix(')').unwrap();
    wat::parse_str(format!("{body} (global i32 (i32.const {number})))")).unwrap().into()
}

/// Returns the input for the contract at `own`.
pub fn input(own: Address, other: Address, ops: &[Op]) -> Bytes {
    let mut bytes = [other.as_slice(), own.as_slice()].concat();
    for op in ops {
        encode(op, &mut bytes);
    }
    bytes.into()
}

fn encode(op: &Op, bytes: &mut Vec<u8>) {
    if let Op::Count(slot, amount, bound) | Op::CountDown(slot, amount, bound) = op {
        bytes.extend([16 + u8::from(matches!(op, Op::CountDown(..))), *slot, *amount, *bound]);
        return;
    }
    if let Op::Precompile(address, wei) = op {
        bytes.extend([18, *address, *wei, 0]);
        return;
    }
    let (code, operand) = match op {
        Op::Load(slot) => (1, *slot),
        Op::Store(slot) => (2, *slot),
        Op::Add(number) => (3, *number),
        Op::Set(number) => (4, *number),
        Op::SkipIfZero(steps) => (5, *steps),
        Op::Trap => (6, 0),
        Op::Revert => (7, 0),
        Op::Burn => (8, 0),
        Op::Call(steps) => (9, length(steps) as u8),
        Op::Send(wei) => (10, *wei),
        Op::Balance => (11, 0),
        Op::Log => (12, 0),
        Op::LoadAt => (13, 0),
        Op::StoreAt(number) => (14, *number),
        Op::Number => (15, 0),
        Op::Certified(below) => (19, *below),
        Op::CertifiedAt(number) => (20, *number),
        Op::Count(..) | Op::CountDown(..) | Op::Precompile(..) => unreachable!("written above"),
    };
    bytes.extend([code, operand, 0, 0]);
    if let Op::Call(steps) = op {
        steps.iter().for_each(|step| encode(step, bytes));
    }
}

/// Returns the number of steps, including those within calls.
pub fn length(ops: &[Op]) -> usize {
    ops.iter().map(|op| 1 + if let Op::Call(steps) = op { length(steps) } else { 0 }).sum()
}
