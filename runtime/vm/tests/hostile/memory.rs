//! Memory: growth, copies, faults.

use super::support::{again, module};
use super::{Attack, attack};

fn of(pages: &str, body: &str) -> Vec<u8> {
    module(pages, "", "(local $a i32) (local $b i64)", body)
}

/// Writes to each host page below this address.
fn touch(bytes: u64) -> String {
    format!(
        "(local.set $a (i32.const 0)) (loop $touch (i32.store (local.get $a) (i32.const 1)) (br_if $touch (i32.lt_u (local.tee $a (i32.add (local.get $a) (i32.const 4096))) (i32.const {bytes}))))"
    )
}

/// Dependent loads across the whole memory.
fn chase(pages: u32) -> Vec<u8> {
    let lines = pages * 1_024;
    let fill = format!(
        "(loop $fill (i32.store (i32.shl (local.get $a) (i32.const 6))
            (i32.shl (i32.and (i32.add (i32.mul (local.get $a) (i32.const 1664525)) (i32.const 1013904223)) (i32.const {})) (i32.const 6)))
         (br_if $fill (i32.lt_u (local.tee $a (i32.add (local.get $a) (i32.const 1))) (i32.const {lines}))))",
        lines - 1
    );
    of(&pages.to_string(), &format!("{fill} {}", again(&format!("(local.get $a) {} (local.set $a)", "i32.load ".repeat(200)))))
}

pub fn attacks() -> Vec<Attack> {
    let text = |name: &str, goal: &'static str, pages: &str, body: &str| attack(name, goal, of(pages, body));
    vec![
        text("growth by nothing", "Growing by nothing costs nothing.", "1", &again("(drop (memory.grow (i32.const 0)))")),
        text("growth page by page", "Each growth moves memory.", "1 128", &again("(drop (memory.grow (i32.const 1)))")),
        text(
            "growth to the limit, touched",
            "Grown pages are the kernel's.",
            "1 128",
            &format!("(drop (memory.grow (i32.const 127))) {} i32.const 0", touch(128 << 16)),
        )
        .gas(3_000_000),
        text("growth that fails", "A growth that fails is free.", "1 1", &again("(drop (memory.grow (i32.const 1)))")),
        text("growth by four billion pages", "The number of pages wraps.", "1", &again("(drop (memory.grow (i32.const -1)))")),
        text(
            "growth by what wraps in bytes",
            "The number of bytes wraps.",
            "1",
            &again("(drop (memory.grow (i32.const 65536)))"),
        ),
        text(
            "growth of 127 pages by one",
            "The first growth throws 127 pages away.",
            "127 128",
            &format!("{} (drop (memory.grow (i32.const 1))) i32.const 0", touch(127 << 16)),
        ),
        text(
            "128 pages, all touched",
            "Pages that a frame starts with are zeroed by the kernel.",
            "128",
            &format!("{} i32.const 0", touch(128 << 16)),
        ),
        text(
            "128 pages, all touched, then a trap",
            "A trap throws an instance away.",
            "128",
            &format!("{} unreachable", touch(128 << 16)),
        ),
        text(
            "128 pages, all read",
            "Reading touches a page too.",
            "128",
            "(loop $touch (drop (i32.load (local.get $a))) (br_if $touch (i32.lt_u (local.tee $a (i32.add (local.get $a) (i32.const 4096))) (i32.const 8388608)))) i32.const 0",
        ),
        text(
            "128 pages, one written chunk in each",
            "Restoring memory costs more than the mark.",
            "128",
            "(loop $touch (i32.store8 (local.get $a) (i32.const 1)) (br_if $touch (i32.lt_u (local.tee $a (i32.add (local.get $a) (i32.const 1024))) (i32.const 8388608)))) i32.const 0",
        ),
        attack("loads that wait, 1 page", "Each load waits for the one before.", chase(1)),
        attack("loads that wait, 16 pages", "The same beyond the nearest cache.", chase(16)),
        attack("loads that wait, 128 pages", "The same beyond every cache.", chase(128)).gas(6_000_000),
        text(
            "fill of all memory",
            "One instruction writes 8 MiB.",
            "128",
            &again("(memory.fill (i32.const 0) (i32.const 1) (i32.const 8388608))"),
        )
        .gas(6_000_000),
        text(
            "fill of nothing behind memory",
            "The processor looks at the page behind although nothing is written there.",
            "1",
            &again("(memory.fill (i32.const 65536) (i32.const 1) (i32.const 0))"),
        ),
        text(
            "fill of nothing",
            "The base price of a fill is too low.",
            "1",
            &again("(memory.fill (i32.const 7) (i32.const 1) (i32.const 0))"),
        ),
        text(
            "copy of nothing behind memory",
            "The same with a copy.",
            "1",
            &again("(memory.copy (i32.const 65536) (i32.const 65536) (i32.const 0))"),
        ),
        text(
            "fill of the last bytes",
            "The same with the last byte before it.",
            "1",
            &again(
                "(memory.fill (i32.const 65535) (i32.const 1) (i32.const 1)) (memory.fill (i32.const 65533) (i32.const 1) (i32.const 3))",
            ),
        ),
        text(
            "fill of nothing beyond memory",
            "An empty fill is not checked.",
            "1",
            "(memory.fill (i32.const 65537) (i32.const 0) (i32.const 0)) i32.const 0",
        ),
        text(
            "fill of nothing in front of memory",
            "The same with a negative address.",
            "1",
            "(memory.fill (i32.const -65536) (i32.const 0) (i32.const 0)) i32.const 0",
        ),
        text(
            "fill of nothing behind grown memory",
            "The end of memory is taken for the one it began with.",
            "1 2",
            "(memory.fill (i32.add (i32.mul (memory.grow (i32.const 1)) (i32.const 65536)) (i32.const 65536)) (i32.const 0) (i32.const 0)) i32.const 0",
        ),
        text(
            "fill of one byte",
            "The same with one byte.",
            "1",
            &again("(memory.fill (i32.const 7) (i32.const 1) (i32.const 1))"),
        ),
        text(
            "fill of four gigabytes",
            "The price of the bytes wraps.",
            "1",
            "(memory.fill (i32.const 0) (i32.const 1) (i32.const -1)) i32.const 0",
        )
        .gas(100_000_000),
        text(
            "fill beyond memory",
            "A part is written before the trap.",
            "1",
            "(memory.fill (i32.const 65000) (i32.const 1) (i32.const 1000)) i32.const 0",
        ),
        text(
            "copy of all memory",
            "One instruction moves 4 MiB.",
            "128",
            &again("(memory.copy (i32.const 4194304) (i32.const 0) (i32.const 4194304))"),
        )
        .gas(6_000_000),
        text(
            "copy that overlaps",
            "A copy onto itself takes a slower way.",
            "1",
            &again("(memory.copy (i32.const 1) (i32.const 0) (i32.const 65535))"),
        ),
        text(
            "copies of one byte",
            "The base price of a copy is too low.",
            "1",
            &again("(memory.copy (i32.const 100) (i32.const 7) (i32.const 1))"),
        ),
        text(
            "copy of four gigabytes",
            "The price of the bytes wraps.",
            "1",
            "(memory.copy (i32.const 0) (i32.const 0) (i32.const -1)) i32.const 0",
        )
        .gas(100_000_000),
        text(
            "copy of nothing from beyond memory",
            "An empty copy is not checked.",
            "1",
            "(memory.copy (i32.const 65537) (i32.const 0) (i32.const 0)) i32.const 0",
        ),
        text(
            "load at the largest address",
            "Address and offset wrap to zero.",
            "1",
            "(i32.load offset=4294967295 (i32.const 1))",
        ),
        text(
            "store at the last byte",
            "Seven of eight bytes lie beyond memory.",
            "1",
            "(i64.store (i32.const 65535) (i64.const -1)) i32.const 0",
        ),
        text(
            "store in front of memory",
            "A negative address reaches the marks of pages.",
            "1",
            "(i32.store8 (i32.const -1) (i32.const 1)) i32.const 0",
        ),
        text(
            "store far beyond memory",
            "The store lies behind the guard pages.",
            "1",
            "(i64.store offset=4294967288 (i32.const -1) (i64.const 1)) i32.const 0",
        ),
        text(
            "stores that miss alignment",
            "A store across two pages costs two.",
            "2",
            &again(&"(i64.store (i32.const 4093) (i64.const 1)) (i64.store (i32.const 65533) (i64.const 1))".repeat(100)),
        ),
        text(
            "loads that miss alignment",
            "A load across two pages costs two.",
            "2",
            &again(&"(drop (i64.load (i32.const 4093))) (drop (i64.load (i32.const 65533)))".repeat(100)),
        ),
        text(
            "short stores that miss alignment",
            "The same with two bytes.",
            "2",
            &again(&"(i32.store16 (i32.const 4095) (i32.const 1)) (i64.store16 (i32.const 65535) (i64.const 1))".repeat(100)),
        ),
        text(
            "stores that miss a line of the cache",
            "A store across two lines costs two.",
            "1",
            &again(&"(i64.store (i32.const 61) (i64.const 1)) (i64.store (i32.const 125) (i64.const 1))".repeat(100)),
        ),
        text(
            "stores of bytes",
            "A byte costs what eight do.",
            "1",
            &again(&"(i32.store8 (i32.const 61) (i32.const 1)) (i64.store8 (i32.const 4095) (i64.const 1))".repeat(100)),
        ),
        text("size of memory", "Asking costs nothing.", "1", &again(&"(drop (memory.size))".repeat(100))),
    ]
}
