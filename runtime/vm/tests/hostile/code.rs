//! Code that is expensive to compile or run, and stacks.

use super::support::{again, module};
use super::{Attack, attack};

fn many(text: &str, count: usize) -> String {
    text.repeat(count)
}

/// A contract that runs `body` forever.
fn endless(body: &str) -> Vec<u8> {
    module("1", "", "(local $a i32) (local $b i64)", &again(body))
}

fn with(functions: &str, body: &str) -> Vec<u8> {
    module("1", functions, "(local $a i32) (local $b i64)", body)
}

/// A module whose functions are only compiled, never called.
fn compiled(count: usize, text: &str) -> Vec<u8> {
    with(&many(&format!("(func (param i32) {text})"), count), "i32.const 0")
}

/// A recursive function whose compiled frame is far larger than its live values: a sliding chain of values crosses
/// calls, twelve at a time, while twelve parameters stay alive through the whole body.
fn sliding_chain(links: usize) -> Vec<u8> {
    let link = |at: usize| {
        let (own, next) = (12 + at % 12, 12 + (at + 1) % 12);
        format!("(local.set {own} (i32.add (local.get {own}) (call $slide (local.get {next}))))")
    };
    let chain: String = (0..links).map(link).collect();
    let used: String = (0..24).map(|at| format!("(i32.store (i32.const {}) (local.get {at}))", 4 * at)).collect();
    let all: String = (1..12).map(|at| format!("(local.get {at}) ")).collect();
    with(
        &format!(
            "(func $slide (param i32) (result i32) (local.get 0))
             (func $deeper (param {0}) (local {0})
                (block (br_if 0 (local.get 0)) {chain}) (call $deeper (i32.const 1) {all}) {used})",
            many("i32 ", 12)
        ),
        &format!("(call $deeper {}) i32.const 0", many("(i32.const 0) ", 12)),
    )
}

/// Keeps every value across a call.
fn kept_across_calls(values: usize) -> Vec<u8> {
    let calls = many("(call $one) ", values);
    let sum = many("i32.add ", values - 1);
    with(
        &format!(
            "(func $one (result i32) (i32.load (i32.const 0))) (func $deeper (result i32) {calls} (call $deeper) i32.add {sum})"
        ),
        "(call $deeper)",
    )
}

/// Many small functions, called in turns so that none is in the first-level cache.
fn functions_in_turns(count: usize) -> Vec<u8> {
    let bodies =
        many(&format!("(func (param i32) (if (local.get 0) (then {})))", many("(global.set 0 (i32.const 77))", 8)), count);
    let calls: String = (0..count).map(|at| format!("(call {} (i32.const 0))", at * 1_103 % count)).collect();
    module("1", &format!("(global (mut i32) (i32.const 0)) {bodies}"), "", &again(&calls))
}

const RANDOM: &str = "(local.set $a (i32.add (i32.mul (local.get $a) (i32.const 1664525)) (i32.const 1013904223)))";

/// A table with a random access pattern.
fn indirect(entry: &str) -> Vec<u8> {
    with(
        "(type $t (func)) (type $u (func (param i64))) (table 8 funcref)
         (elem (i32.const 0) $f $g $f $g $takes) (func $f) (func $g) (func $takes (param i64))",
        &again(&format!("{RANDOM} (call_indirect (type $t) {entry})")),
    )
}

pub fn attacks() -> Vec<Attack> {
    [loops(), recursion(), compiler()].into_iter().flatten().collect()
}

fn loops() -> Vec<Attack> {
    let dead = many("(drop (i32.add (i32.const 1) (i32.const 2)))", 15_000);
    vec![
        attack("empty loop", "A loop without instructions is free.", endless("")),
        attack(
            "loop by a table of branches",
            "Branches back through a table are not counted.",
            endless("(block (br_table 1 1 1 (i32.const 7)))"),
        ),
        attack(
            "loop by a condition",
            "A condition that always holds is free.",
            with("", "(loop $again (br_if $again (i32.const 1))) i32.const 0"),
        ),
        attack(
            "loop in a loop",
            "The inner loop restarts before it was charged.",
            with("", "(loop $o (loop $i (br_if $i (i32.eqz (local.tee $a (i32.eqz (local.get $a))))) (br $o))) i32.const 0"),
        ),
        attack(
            "loop of blocks",
            "Blocks cost nothing, so a loop of blocks costs one branch.",
            endless(&format!("{}{}", many("(block ", 500), many(")", 500))),
        ),
        attack("loop of drops", "Instructions of no price cost something.", endless(&many("(drop (local.get $a))", 2_000))),
        attack("loop of nothing", "Thousands of nops cost nothing.", endless(&many("nop ", 20_000))),
        attack(
            "branch that skips dead code",
            "Code behind a branch is compiled and loaded but never charged.",
            endless(&format!("(block (br 0) {dead})")),
        ),
        attack(
            "unreachable code of any type",
            "Behind `unreachable` the stack holds whatever an instruction wants.",
            with(
                "",
                &format!(
                    "(block (br_if 0 (i32.eqz (local.get $a))) unreachable {} drop) i32.const 0",
                    many("i32.add i64.extend_i32_u i64.mul i32.wrap_i64 ", 5_000)
                ),
            ),
        ),
        attack(
            "dead code in a thousand functions",
            "What can never run is cheap to deploy.",
            compiled(300, &format!("(return) {}", many("(drop (i32.rem_s (local.get 0) (local.get 0)))", 100))),
        ),
        attack(
            "branches nobody predicts",
            "A wrong guess costs more than a branch.",
            endless(&format!(
                "{RANDOM} {}",
                (12..28)
                    .map(|bit| format!(
                        "(if (i32.and (local.get $a) (i32.const {})) (then (local.set $b (i64.const {bit}))))",
                        1u64 << bit
                    ))
                    .collect::<String>()
            )),
        ),
        attack(
            "table of branches nobody predicts",
            "The same through a table.",
            endless(&format!(
                "{RANDOM} (block (block (block (block (br_table 0 1 2 3 0 1 2 3 (i32.shr_u (local.get $a) (i32.const 29)))))))"
            )),
        ),
        attack(
            "taken branches",
            "Each taken branch waits for code.",
            endless(&many("(block (br_if 0 (i32.eqz (local.get $a))) (local.set $b (i64.const 1)))", 900)),
        ),
        attack(
            "divisions that wait for each other",
            "A division takes twenty times an addition.",
            endless(&format!("(local.get $b) {} (local.set $b)", many("i64.const 9 i64.div_s ", 500))),
        ),
        attack(
            "multiplications that wait for each other",
            "Latency is not throughput.",
            endless(&format!("(local.get $b) {} (local.set $b)", many("i64.const 7 i64.mul ", 500))),
        ),
        attack(
            "comparisons used as numbers",
            "A comparison takes three instructions.",
            endless(&format!("(local.get $a) {} (local.set $a)", many("i32.eqz ", 500))),
        ),
        attack(
            "division by zero",
            "A trap of the processor costs a signal.",
            endless("(drop (i32.div_u (i32.const 1) (local.get $a)))"),
        ),
        attack(
            "overflow of a division",
            "The smallest number by minus one.",
            endless("(drop (i64.div_s (i64.const 0x8000000000000000) (i64.const -1)))"),
        ),
        attack(
            "remainder of the same",
            "It is zero and must not trap.",
            endless("(drop (i64.rem_s (i64.const 0x8000000000000000) (i64.const -1)))"),
        ),
        attack("unreachable", "A trap costs a signal.", with("", "unreachable")),
        attack("functions in turns", "Code that is in no near cache is waited for.", functions_in_turns(3_500)),
        attack(
            "indirect calls at random",
            "The processor guesses the wrong function.",
            indirect("(i32.and (i32.shr_u (local.get $a) (i32.const 30)) (i32.const 3))"),
        ),
        attack("indirect call of the wrong type", "A function reads parameters that nobody passed.", indirect("(i32.const 4)")),
        attack("indirect call of an empty entry", "An empty entry is an address.", indirect("(i32.const 6)")),
        attack("indirect call beyond the table", "The entry lies beyond the table.", indirect("(i32.const -1)")),
        attack(
            "half a megabyte of stores",
            "Code itself does not fit the caches.",
            with(
                &many(&format!("(func (param i32) {})", many("(i32.store (local.get 0) (i32.const 1))", 2_500)), 18),
                &again(&(0..18).map(|at| format!("(call {at} (i32.const 64))")).collect::<String>()),
            ),
        ),
    ]
}

fn recursion() -> Vec<Attack> {
    let deeper = |locals: usize, parameters: usize| {
        with(
            &format!(
                "(func $deeper (param {}) (local {}) (call $deeper {}))",
                many("i64 ", parameters),
                many("i64 ", locals),
                (0..parameters).map(|at| format!("(local.get {at}) ")).collect::<String>()
            ),
            &format!("(call $deeper {}) i32.const 0", many("(i64.const 1) ", parameters)),
        )
    };
    vec![
        attack("recursion", "Depth is bounded by nothing but the native stack.", deeper(0, 0)),
        attack("recursion with 348 locals", "Locals that nobody reads take no words.", deeper(348, 0)),
        attack("recursion with 64 parameters", "Parameters on the native stack are counted once.", deeper(0, 64)),
        attack(
            "recursion of two functions",
            "Each looks like a leaf to the other.",
            with("(func $a (call $b)) (func $b (call $a))", "(call $a) i32.const 0"),
        ),
        attack(
            "recursion through the table",
            "The depth of an indirect call is not known.",
            with(
                "(type $t (func)) (table 1 funcref) (elem (i32.const 0) $f) (func $f (call_indirect (type $t) (i32.const 0)))",
                "(call_indirect (type $t) (i32.const 0)) i32.const 0",
            ),
        ),
        attack(
            "recursion into the entrypoint",
            "The entrypoint is entered from within.",
            module("1", "", "", "(call 0 (local.get 0))"),
        ),
        attack(
            "recursion of the Fibonacci kind",
            "Depth stays small, so calls are never stopped.",
            with(
                "(func $f (param i32) (if (local.get 0) (then (call $f (i32.sub (local.get 0) (i32.const 1))) (call $f (i32.sub (local.get 0) (i32.const 1))))))",
                "(call $f (i32.const 60)) i32.const 0",
            ),
        ),
        attack(
            "a chain of 100 values across calls",
            "The compiler's frame is larger than what is counted.",
            sliding_chain(100),
        ),
        attack("a chain of 2,000 values across calls", "The same with a larger frame.", sliding_chain(2_000)),
        attack("a chain of 9,000 values across calls", "The same with the largest frame.", sliding_chain(9_000)),
        attack("9,000 values kept across a call", "All operands are spilled at once.", kept_across_calls(9_000)),
        attack(
            "a leaf with many operands",
            "A function that calls nothing is not counted.",
            with(
                &format!("(func $leaf (result i32) {} {})", many("(i32.load (i32.const 0)) ", 3_000), many("i32.add ", 2_999)),
                &again("(drop (call $leaf))"),
            ),
        ),
    ]
}

fn compiler() -> Vec<Attack> {
    vec![
        attack(
            "2,000 functions with four locals",
            "Small functions cost the compiler more than they pay.",
            compiled(2_000, "(local i64 i64 i64 i64) (local.set 1 (local.get 2))"),
        ),
        attack(
            "1,000 functions with 340 locals",
            "A declaration of locals is two bytes.",
            compiled(1_000, "(local i64 i64 i64 i64) (local i32) (local i64) (local i32)"),
        ),
        attack(
            "functions with 300 live locals",
            "Every local lives across every branch.",
            compiled(
                10,
                &format!(
                    "(local {}) {}",
                    many("i32 ", 300),
                    many("(block (br_if 0 (local.get 0)) (local.set 1 (i32.add (local.get 2) (local.get 3))))", 600)
                ),
            ),
        ),
        attack(
            "locals that meet at every branch",
            "Each join makes a value for each local.",
            compiled(
                4,
                &format!(
                    "(local {}) {}",
                    many("i32 ", 95),
                    (0..1_300)
                        .map(|at| format!(
                            "(if (local.get 0) (then (local.set {} (local.get {}))))",
                            1 + at % 95,
                            1 + at * 7 % 95
                        ))
                        .collect::<String>()
                ),
            ),
        ),
        attack(
            "loops that carry values",
            "Each loop has a value for each local.",
            compiled(
                4,
                &format!(
                    "(local {}) {}",
                    many("i64 ", 95),
                    (0..1_300)
                        .map(|at| format!(
                            "(loop (local.set {0} (i64.add (local.get {0}) (i64.const 1))) (br_if 0 (local.get 0)))",
                            1 + at % 95
                        ))
                        .collect::<String>()
                ),
            ),
        ),
        attack(
            "functions with 400 branches",
            "Branches in many functions.",
            compiled(40, &many("(block (br_if 0 (local.get 0)))", 400)),
        ),
        attack(
            "functions with 300 conditions",
            "Both ways of a condition meet.",
            compiled(
                50,
                &many("(if (local.get 0) (then (local.set 0 (i32.const 5))) (else (local.set 0 (i32.const 6))))", 300),
            ),
        ),
        attack(
            "tables of branches with results",
            "Each edge carries a value.",
            compiled(
                4,
                &format!(
                    "(drop {} (br_table {} (i32.const 1) (local.get 0)) {})",
                    many("(block (result i32) ", 100),
                    (0..3_500).map(|at| format!("{} ", at % 100)).collect::<String>(),
                    many(")", 100)
                ),
            ),
        ),
        attack(
            "3,000 operands at once",
            "Operands beyond every register.",
            compiled(10, &format!("{} {} drop", many("(i32.load (i32.const 4)) ", 3_000), many("i32.add ", 2_999))),
        ),
        attack(
            "expression of 20,000 additions",
            "A tree of instructions is walked recursively.",
            compiled(3, &format!("(local.get 0) {} drop", many("(local.get 0) i32.add ", 20_000))),
        ),
        attack(
            "50,000 stores",
            "Each store marks its page.",
            compiled(50, &many("(i32.store (local.get 0) (local.get 0))", 1_000)),
        ),
        attack(
            "50,000 divisions",
            "Each division has two traps.",
            compiled(50, &many("(drop (i32.rem_s (local.get 0) (local.get 0)))", 1_000)),
        ),
        attack(
            "20,000 indirect calls",
            "Each indirect call has three traps.",
            with(
                &format!(
                    "(type $t (func (param i32))) (table 1 funcref) (elem (i32.const 0) 0) {}",
                    many(
                        &format!("(func (param i32) {})", many("(call_indirect (type $t) (local.get 0) (i32.const 0))", 500)),
                        40
                    )
                ),
                "i32.const 0",
            ),
        ),
        attack(
            "25,000 copies of memory",
            "Each copy is a call of the host's.",
            compiled(25, &many("(memory.copy (local.get 0) (local.get 0) (local.get 0))", 1_000)),
        ),
        attack(
            "25,000 growths of memory",
            "Each growth is inlined accounting.",
            compiled(50, &many("(drop (memory.grow (local.get 0)))", 500)),
        ),
        attack(
            "100,000 constants",
            "Each constant is a value.",
            compiled(100, &many("(drop (i64.const 0x123456789abcdef))", 400)),
        ),
        attack(
            "60,000 selections",
            "Each selection is a branch or none.",
            compiled(60, &many("(local.set 0 (select (local.get 0) (i32.const 1) (local.get 0)))", 1_000)),
        ),
        attack(
            "calls with 64 arguments",
            "Arguments are moved on the native stack.",
            with(
                &format!(
                    "(func $wide (param {})) (func (param i32) {})",
                    many("i64 ", 64),
                    many(&format!("(call $wide {})", many("(i64.const 1)", 64)), 600)
                ),
                "i32.const 0",
            ),
        ),
    ]
}
