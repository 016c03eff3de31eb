//! Gas, stack and memory limits end a run at the same point on every node.
// Threads, to show that they have no effect; test helpers unwrap.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)]

mod common;
use alloy_primitives::keccak256;
use common::{GAS, TestState, accepted, depth_limit, engine, module, recursive, wat};
use corniche_vm::host::{ExitStatus, Trap};
use corniche_vm::wasm::Backend;
use corniche_vm::wasm::gas::{self, Class, INK_PER_GAS, ink};

/// Returns the gas of a run that uses `used` ink beyond the start of its frame.
fn gas_for(wasm: &[u8], pages: u32, used: u64) -> u64 {
    (gas::start_ink(wasm.len(), pages) + used).div_ceil(INK_PER_GAS)
}

#[test]
fn gas_tables_are_frozen() {
    for (schedule, frozen) in [(&gas::V1, include_str!("fixtures/gas-1.txt")), (&gas::V2, include_str!("fixtures/gas-2.txt"))] {
        assert_eq!(gas::describe(schedule), frozen, "changing a price is a protocol upgrade: it needs a new version");
    }
}

#[test]
fn straight_code_costs_sum_of_instructions() {
    let body = "i32.const 1 i32.const 2 i32.mul drop local.get $length i32.load drop i32.const 0";
    let wasm = module("", body);
    let used = 3 * ink(Class::Constant) + ink(Class::Multiply) + ink(Class::Local) + ink(Class::Load) + gas::LATEST.load_ink(1);
    let exit = TestState::default().run(&wasm, b"", GAS);
    assert_eq!(exit.status, ExitStatus::Return);
    assert_eq!(GAS - exit.gas_left, gas_for(&wasm, 1, used));
}

#[test]
fn minimum_gas_equals_gas_used() {
    let wasm = module(
        "",
        "(loop $again (br_if $again (i32.lt_u (local.tee $length (i32.add (local.get $length) (i32.const 1))) (i32.const 1000)))) i32.const 0",
    );
    let used = GAS - TestState::default().run(&wasm, b"", GAS).gas_left;
    let exact = TestState::default().run(&wasm, b"", used);
    assert_eq!((exact.status, exact.gas_left), (ExitStatus::Return, 0));
    let short = TestState::default().run(&wasm, b"", used - 1);
    assert_eq!((short.status, short.gas_left), (ExitStatus::OutOfGas, 0));
}

#[test]
fn infinite_loop_runs_out_of_gas() {
    // Counts its rounds in memory, and makes a host call in each: the trace shows the count.
    let wasm = module(
        r#"(import "vm_hooks" "evm_gas_left" (func $gas_left (result i64)))"#,
        "(loop $again (drop (call $gas_left)) (br $again)) i32.const 0",
    );
    let rounds = |gas| {
        let mut world = TestState::default();
        let exit = world.run(&wasm, b"", gas);
        assert_eq!((exit.status, exit.gas_left), (ExitStatus::OutOfGas, 0));
        world.events.len() as u64
    };
    let round = ink(Class::Call) + ink(Class::Branch) + corniche_abi::find("evm_gas_left").unwrap().ink;
    for gas in [2_000, 10_000, 123_456] {
        let budget = gas * INK_PER_GAS - gas::start_ink(wasm.len(), 1);
        let full = budget / round;
        // The trace also shows a last round that was paid for, but not its host call.
        let partial = u64::from(budget % round >= ink(Class::Call) + ink(Class::Branch));
        assert_eq!(rounds(gas), full + partial, "with {gas} gas");
    }
}

#[test]
fn empty_loop_costs_gas() {
    let wasm = module("", "(loop $again (br $again)) i32.const 0");
    assert_eq!(TestState::default().run(&wasm, b"", 100_000).status, ExitStatus::OutOfGas);
    let wasm = module("", "(loop $again (br_table $again $again (local.get $length))) i32.const 0");
    assert_eq!(TestState::default().run(&wasm, b"", 100_000).status, ExitStatus::OutOfGas);
    let wasm = wat(
        r#"(module (memory (export "memory") 1) (func $self (export "user_entrypoint") (param i32) (result i32) (call $self (local.get 0))))"#,
    );
    assert_eq!(TestState::default().run(&wasm, b"", 1_200).status, ExitStatus::OutOfGas);
}

#[test]
fn early_return_pays_executed_code_only() {
    let run = |input: &[u8]| {
        let wasm = module("", "(if (local.get $length) (then (return (i32.const 0)))) (loop (drop (i32.const 5))) i32.const 0");
        GAS - TestState::default().run(&wasm, input, GAS).gas_left
    };
    assert!(run(b"x") <= run(b""));
}

#[test]
fn recursion_stops_at_counted_depth() {
    for locals in [0, 1, 20, 340] {
        let wasm = recursive(locals);
        let checked = corniche_vm::wasm::validate::check(&wasm).unwrap();
        let (deeper, main) = (checked.frames[0].words() as u64, checked.frames[1].words() as u64);
        // The limit follows from the frames' words alone, independent of the compiler.
        assert_eq!(depth_limit(Backend::default(), &wasm), (65_536 - main) / deeper, "with {locals} locals");
    }
}

#[test]
fn indirect_recursion_is_counted() {
    let wasm = wat(r#"(module (type $t (func)) (memory (export "memory") 1) (table 1 funcref) (elem (i32.const 0) $deeper)
            (func $deeper (call_indirect (type $t) (i32.const 0)))
            (func (export "user_entrypoint") (param i32) (result i32) (call $deeper) (i32.const 0)))"#);
    assert_eq!(TestState::default().run(&wasm, b"", GAS).status, ExitStatus::Trap(Trap::StackExhausted));
}

#[test]
fn widest_frames_fit_native_stack() {
    // The maximum number of live values across a call that validation accepts: operands, then locals. A fault would
    // mean that the native stack ended first.
    let operands = wat(&format!(
        r#"(module (memory (export "memory") 1)
            (func $deeper (param i32) (result i32) {} (call $deeper (local.get 0)) {})
            (func (export "user_entrypoint") (param i32) (result i32) (call $deeper (local.get 0))))"#,
        "(i32.load (i32.const 4)) ".repeat(10_000),
        "i32.add ".repeat(10_000),
    ));
    for wasm in [operands, recursive(340)] {
        let status = TestState::default().run(&wasm, &[0; 60_000], 1_000_000_000).status;
        assert_eq!(status, ExitStatus::Trap(Trap::StackExhausted));
    }
}

#[test]
fn hoisted_values_do_not_widen_frames() {
    // Thousands of loop-invariant values, each used immediately. An optimiser would compute them before the loop and
    // keep them all.
    let invariant: String = (0..3_500)
        .map(|at| format!("(local.set 1 (i64.add (local.get 1) (i64.mul (local.get 2) (i64.const {}))))", 2 * at + 3))
        .collect();
    let wasm = wat(&format!(
        r#"(module (memory (export "memory") 1)
            (func $deeper (param i32) (local i64 i64)
                (local.set 2 (i64.load (i32.const 0)))
                (loop $again {invariant} (call $deeper (local.get 0)) {invariant} (br_if $again (local.get 0))))
            (func (export "user_entrypoint") (param i32) (result i32) (call $deeper (local.get 0)) (i32.const 0)))"#
    ));
    assert_eq!(TestState::default().run(&wasm, b"x", 1_000_000_000).status, ExitStatus::Trap(Trap::StackExhausted));
}

#[test]
fn memory_grows_to_limit() {
    // Grows by the input's length; returns the result of memory.grow and the new size.
    let grow = |maximum: &str| {
        wat(&format!(
            r#"(module (import "vm_hooks" "write_result" (func $write_result (param i32 i32)))
                (memory (export "memory") 2 {maximum})
                (func (export "user_entrypoint") (param $by i32) (result i32)
                    (i32.store (i32.const 0) (memory.grow (local.get $by)))
                    (i32.store (i32.const 4) (memory.size))
                    (call $write_result (i32.const 0) (i32.const 8))
                    (i32.const 0)))"#
        ))
    };
    let run = |wasm: &[u8], by: usize| {
        let exit = TestState::default().run(wasm, &vec![0; by], GAS);
        let word = |at| i32::from_le_bytes(exit.output[at..at + 4].try_into().unwrap());
        (word(0), word(4), GAS - exit.gas_left)
    };
    let free = grow("");
    let (_, _, base) = run(&free, 0);
    for (by, answer, size) in [(0, 2, 2), (1, 2, 3), (126, 2, 128), (127, -1, 2), (100_000, -1, 2)] {
        let (said, have, gas) = run(&free, by);
        assert_eq!((said, have), (answer, size), "by {by}");
        // A failed growth costs nothing.
        let first = if size > 2 { 2 * gas::LATEST.regrown_page } else { 0 };
        assert_eq!(gas - base, (gas::LATEST.grown_page * (size - 2) as u64 + first) / INK_PER_GAS, "by {by}");
    }
    let bounded = grow("3");
    assert_eq!((run(&bounded, 1).0, run(&bounded, 2).0), (2, -1));
    // Without enough gas for the pages, the growth fails.
    let exit = TestState::default().run(&free, &[0; 126], base + 250 * 126 - 1);
    assert_eq!(exit.status, ExitStatus::OutOfGas);
}

#[test]
fn open_frames_share_memory_limit() {
    // Calls itself until a limit is reached: each frame holds 128 pages, so the seventeenth cannot start.
    let wasm = wat(r#"(module
            (import "vm_hooks" "call_contract" (func $call (param i32 i32 i32 i32 i64 i32) (result i32)))
            (import "vm_hooks" "contract_address" (func $address (param i32)))
            (memory (export "memory") 128)
            (func (export "user_entrypoint") (param i32) (result i32)
                (call $address (i32.const 0))
                (drop (call $call (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 64) (i64.const -1) (i32.const 128)))
                (i32.const 0)))"#);
    let mut world = TestState::default();
    world.code.insert(common::CONTRACT, wasm.clone());
    assert_eq!(world.run(&wasm, b"", GAS).status, ExitStatus::Return);
    // Each frame that runs reads its address once.
    assert_eq!(world.events.iter().filter(|event| event.name == "contract_address").count(), 2_048 / 128);
}

#[test]
fn memory_copy_costs_per_byte() {
    let copy = |length: u32| module("", &format!("(memory.copy (i32.const 0) (i32.const 0) (i32.const {length})) i32.const 0"));
    let used = |length| {
        let wasm = copy(length);
        (GAS - TestState::default().run(&wasm, b"", GAS).gas_left) * INK_PER_GAS - gas::start_ink(wasm.len(), 1)
    };
    let difference = used(60_000) - used(0);
    assert!(difference.abs_diff(60_000 * gas::INK_PER_MEMORY_BYTE) <= 2 * INK_PER_GAS, "{difference}");
    // A million gas does not pay for 4 GiB; the bounds check comes later.
    assert_eq!(TestState::default().run(&copy(u32::MAX), b"", 1_000_000).status, ExitStatus::OutOfGas);
    assert_eq!(TestState::default().run(&copy(70_000), b"", GAS).status, ExitStatus::Trap(Trap::MemoryOutOfBounds));
}

#[test]
fn traps_have_names() {
    for (body, trap) in [
        ("unreachable", Trap::Unreachable),
        ("(i32.load (i32.const -1))", Trap::MemoryOutOfBounds),
        ("(i32.load offset=4294967295 (local.get $length))", Trap::MemoryOutOfBounds),
        ("(i32.div_u (i32.const 1) (local.get $length))", Trap::DivisionByZero),
        ("(i32.div_s (i32.const -2147483648) (i32.sub (local.get $length) (i32.const 1)))", Trap::IntegerOverflow),
    ] {
        let exit = TestState::default().run(&module("", body), b"", GAS);
        assert_eq!((exit.status, exit.gas_left), (ExitStatus::Trap(trap), 0), "{body}");
    }
    let table = |index| {
        wat(&format!(
            r#"(module (type $t (func)) (memory (export "memory") 1) (table 3 funcref) (elem (i32.const 0) $other)
                (func $other (param i32))
                (func (export "user_entrypoint") (param i32) (result i32) (call_indirect (type $t) (i32.const {index})) (i32.const 0)))"#
        ))
    };
    for (index, trap) in [(0, Trap::BadSignature), (1, Trap::BadTableElement), (9, Trap::BadTableElement)] {
        assert_eq!(TestState::default().run(&table(index), b"", GAS).status, ExitStatus::Trap(trap));
    }
}

#[test]
fn too_little_gas_to_start_is_out_of_gas() {
    let wasm = module("", "i32.const 0");
    let start = gas_for(&wasm, 1, 0);
    assert_eq!(TestState::default().run(&wasm, b"", start - 1).status, ExitStatus::OutOfGas);
    assert_eq!(TestState::default().run(&wasm, b"", 0).status, ExitStatus::OutOfGas);
    // The maximum gas overflows nothing.
    let exit = TestState::default().run(&wasm, b"", u64::MAX);
    assert_eq!(exit.status, ExitStatus::Return);
    assert_eq!(u64::MAX - exit.gas_left, gas_for(&wasm, 1, ink(Class::Constant)));
}

#[test]
fn control_flow_keeps_its_meaning() {
    // Branches to the function's label with a value, returns from inside loops, fall-through, all arms of a table.
    let wasm = wat(r#"(module
            (import "vm_hooks" "write_result" (func $write_result (param i32 i32)))
            (memory (export "memory") 1)
            (func $id (param i32) (result i32) (local.get 0))
            (func $pick (param i32) (result i32)
                (block $c (block $b (block $a (br_table $a $b $c (call $id (local.get 0)))) (return (i32.const 10))) (br 1 (i32.const 20)))
                (loop $l (result i32)
                    (if (i32.gt_u (local.get 0) (i32.const 9)) (then (return (i32.const 99))))
                    (local.set 0 (i32.add (local.get 0) (call $id (i32.const 1))))
                    (br $l)))
            (func (export "user_entrypoint") (param $n i32) (result i32)
                (i32.store (i32.const 0) (call $pick (local.get $n)))
                (call $write_result (i32.const 0) (i32.const 4))
                (i32.const 0)))"#);
    let run = |n: usize| {
        let exit = TestState::default().run(&wasm, &vec![0; n], GAS);
        assert_eq!(exit.status, ExitStatus::Return, "{n}");
        i32::from_le_bytes(exit.output[..].try_into().unwrap())
    };
    assert_eq!([run(0), run(1), run(2)], [10, 20, 99]);
}

#[test]
fn gas_is_equal_across_threads_and_engines() {
    let wasm = recursive(20);
    let run = || TestState::default().run(&wasm, &[0; 500], GAS);
    let here = run();
    let there = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(there.iter().all(|exit| *exit == here));
}

#[test]
fn hard_modules_compile() {
    // Single functions of maximum size, in the worst shapes for compilers. They may be refused, but must not cause a
    // fault.
    let shell = |body: &str| {
        wat(&format!(
            r#"(module (memory (export "memory") 1) (func $hard (param i32) (result i32) {body})
                (func (export "user_entrypoint") (param i32) (result i32) (call $hard (local.get 0))))"#
        ))
    };
    let branches = format!("{} (i32.const 0)", "(block (br_if 0 (local.get 0)))".repeat(2_040));
    let stores = format!("{} (i32.const 0)", "(i32.store (local.get 0) (local.get 0))".repeat(21_000));
    let nested = format!(
        "{} {} (i32.const 0)",
        "(block ".repeat(510),
        format!("(br_table {} (local.get 0))", "3 ".repeat(3_500)) + &")".repeat(510)
    );
    let live = format!(
        "(local {}) {} (i32.const 0)",
        "i32 ".repeat(347),
        "(block (br_if 0 (local.get 0)) (local.set 1 (i32.add (local.get 2) (local.get 3))))".repeat(570)
    );
    let ifs = format!(
        "{} {} (i32.const 0)",
        "(local.get 0) (if (result i32) (then (i32.const 1)) (else (i32.const 2))) drop ".repeat(2_040),
        ""
    );
    for (name, body) in [("branches", branches), ("stores", stores), ("nested", nested), ("live", live), ("ifs", ifs)] {
        let wasm = shell(&body);
        let start = std::time::Instant::now();
        accepted(&wasm);
        println!("{name}: {} bytes, {} ms", wasm.len(), start.elapsed().as_millis());
        let contract = engine().contract(&keccak256(&wasm), &wasm);
        assert!(contract.is_ok());
    }
}

#[test]
fn unexecuted_code_is_not_paid() {
    let skipped = "(local.set $length (i32.add (local.get $length) (i32.const 1)))".repeat(1_000);
    let price = 1_000 * (2 * ink(Class::Local) + ink(Class::Alu) + ink(Class::Constant));
    for form in [
        "(block (br_if 0 (i32.const C)) BODY)",
        "(block (if (i32.const C) (then (br 1))) BODY)",
        "(if (i32.const C) (then) (else BODY))",
        "(if (i32.eqz (i32.const C)) (then BODY))",
        "(block (block (br_table 0 1 (i32.const C))) BODY)",
        "(if (i32.const C) (then (return (i32.const 0)))) BODY",
        "(block (block (br_if 0 (i32.eqz (i32.const C))) (br 1)) BODY)",
    ] {
        let used = |condition: &str| {
            let wasm = module("", &format!("{} i32.const 0", form.replace('C', condition).replace("BODY", &skipped)));
            let exit = TestState::default().run(&wasm, b"", GAS);
            assert_eq!(exit.status, ExitStatus::Return);
            GAS - exit.gas_left
        };
        let difference = (used("0") - used("1")) * INK_PER_GAS;
        // Except for rounding, and the few other instructions in which the two variants differ.
        assert!(difference.abs_diff(price) <= 2 * INK_PER_GAS, "{form}: {difference} instead of {price}");
    }
}

#[test]
fn stack_words_return_on_every_exit() {
    for way in [
        "(return (i32.const 1))",
        "(br 0 (i32.const 1))",
        "(drop (br_if 0 (i32.const 1) (i32.const 1)))",
        "(br_table 0 0 (i32.const 1) (i32.const 0))",
        "(loop (br 1 (i32.const 1)))",
        "",
    ] {
        let wasm = wat(&format!(
            r#"(module (memory (export "memory") 1) (func $nothing)
                (func $counted (result i32) (call $nothing) {way} (i32.const 0))
                (func (export "user_entrypoint") (param i32) (result i32)
                    (loop $again
                        (drop (call $counted))
                        (br_if $again (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const 20000))))
                    i32.const 0))"#
        ));
        assert_eq!(TestState::default().run(&wasm, b"", GAS).status, ExitStatus::Return, "{way}");
    }
}

#[test]
fn compilation_gas_ignores_cache() {
    let branchy = |count: usize| module("", &format!("{} (i32.const 0)", "(block (br_if 0 (local.get 0)))".repeat(count)));
    let price = |wasm: &[u8]| corniche_vm::wasm::validate::check(wasm).unwrap().compile_gas();
    let (one, many) = (branchy(1), branchy(1_000));
    let fixed = gas::LATEST.compile_module + gas::LATEST.compile_function;
    // One operand at a time.
    let linear = |wasm: &[u8]| fixed + gas::LATEST.compile_byte * wasm.len() as u64;
    let operand = gas::LATEST.compile_operand_squared;
    assert_eq!(price(&one), linear(&one) + 2 * gas::LATEST.compile_join + (operand + 4 * 1_500) / 10_000);
    assert_eq!(price(&many), linear(&many) + 2_000 * gas::LATEST.compile_join + (operand + 2_000 * 2_000 * 1_500) / 10_000);
    let (hash, price) = (keccak256(&many), price(&many));
    // First uncompiled, then compiled: equal results.
    for _ in 0..2 {
        assert!(engine().compile_within(&hash, &many, price - 1).is_err());
        assert_eq!(engine().compile_within(&hash, &many, price).map(|contract| contract.compile_gas()).ok(), Some(price));
    }
}
