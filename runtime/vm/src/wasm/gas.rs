//! Prices of execution: the chain's own tables.
//!
//! Instructions are priced in *ink*; 10,000 ink are one gas. A table is part of the chain's rules: a node with another
//! table computes other blocks. So a fixture freezes each version (`tests/fixtures/gas-1.txt`, `gas-2.txt`). An account
//! stores the version that its code was validated under, and uses it forever. The protocol's version selects the one
//! for new code. A [`Schedule`] holds what differs between versions; constants hold the rest. Nothing here follows
//! wasmtime's fuel, which differs between its compilers and releases.
//!
//! Choice of the numbers: a block of 30 million gas takes at most half a second. So a gas buys at most 16 ns, with the
//! worst use of each operation (`benches/worst_block.rs`, `benches/host_calls.rs`). Version 1 aimed at 12 ns on one
//! processor; version 2 holds on an older one too (`docs/performance.md`).

use super::validate::{Frame, SLOTS_PER_WORD};
use wasmparser::Operator;

pub use corniche_abi::INK_PER_GAS;

/// Prices and rules that differ between versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Stored with an account's code.
    pub version: u8,
    /// True if a frame's words count its values ([`Frame::words`](super::validate::Frame::words)).
    pub counts_slots: bool,
    /// Ink of a store of more than one byte. It may cross a page of the processor, which takes 9 ns.
    pub store: u64,
    /// Ink of a branch, an `if`, an `else` or a return.
    pub branch: u64,
    pub call: u64,
    pub call_indirect: u64,
    /// Ink of `memory.grow`, without its pages.
    pub memory_grow: u64,
    /// Ink of a load per page of memory; see [`load_ink`](Self::load_ink).
    pub load_page: u64,
    /// Ink per page of memory growth, paid when the page becomes accessible. A grown instance serves one run, so the
    /// kernel provides and takes back its pages: sixteen page faults each.
    pub grown_page: u64,
    /// Ink of a run's first growth, per initial page. A grown instance serves one run, so the next run gets fresh pages
    /// and pays as if they had been kept.
    pub regrown_page: u64,
    /// Gas per initial page for code that a transaction runs for the first time. The kernel provides a fresh instance's
    /// pages, and a frame may touch all of them.
    pub cold_code_page: u64,
    /// Gas of a start of warm code that also runs in an outer frame: it needs another instance.
    pub nested_start: u64,
    /// Additional gas per initial page, as for cold code.
    pub nested_start_page: u64,
    /// Gas of compiling a module at its deployment.
    pub compile_module: u64,
    /// Gas per byte of the unpacked module, for validating and compiling it at its deployment. The creation pays it in
    /// addition to Ethereum's price of storing the code.
    pub compile_byte: u64,
    /// Additional gas per function: an empty one takes 20 µs.
    pub compile_function: u64,
    /// Additional gas per local.
    pub compile_local: u64,
    /// Additional gas per branch of a function.
    pub compile_join: u64,
    /// Ink of compiling a function, multiplied by the square of its maximum number of operands: Cranelift's register
    /// allocator compares live values with each other.
    pub compile_operand_squared: u64,
}

pub static V1: Schedule = Schedule {
    version: 1,
    counts_slots: false,
    store: 1_000,
    branch: 3_500,
    call: 12_000,
    call_indirect: 16_000,
    memory_grow: 60_000,
    load_page: 250,
    grown_page: 2_500 * INK_PER_GAS,
    regrown_page: 0,
    cold_code_page: 1_700,
    nested_start: 0,
    nested_start_page: 0,
    compile_module: 0,
    compile_byte: 100,
    compile_function: 1_500,
    compile_local: 8,
    compile_join: 0,
    compile_operand_squared: 0,
};

pub static V2: Schedule = Schedule {
    version: 2,
    counts_slots: true,
    store: 7_000,
    branch: 4_700,
    call: 18_500,
    call_indirect: 22_500,
    memory_grow: 110_000,
    load_page: 330,
    grown_page: 3_400 * INK_PER_GAS,
    regrown_page: 2_900 * INK_PER_GAS,
    cold_code_page: 2_900,
    nested_start: 1_000,
    nested_start_page: 2_900,
    compile_module: 50_000,
    compile_byte: 150,
    compile_function: 3_800,
    compile_local: 30,
    compile_join: 180,
    compile_operand_squared: 27_500,
};

/// The version that new chains use.
pub static LATEST: &Schedule = &V2;

pub static ALL: [&Schedule; 2] = [&V1, &V2];

/// Returns `None` if this build does not support the version.
pub fn schedule(version: u8) -> Option<&'static Schedule> {
    ALL.into_iter().find(|schedule| schedule.version == version)
}

/// Groups of instructions with equal prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Generates no machine code.
    Free,
    Constant,
    Local,
    Global,
    Alu,
    /// Produces a boolean: three machine instructions unless a branch follows.
    Compare,
    Multiply,
    Divide,
    Select,
    Load,
    Store,
    StoreByte,
    Branch,
    BranchTable,
    Call,
    CallIndirect,
    MemorySize,
    /// Base price; pages are added.
    MemoryGrow,
    /// Base price; bytes are added.
    MemoryCopy,
    MemoryFill,
}

/// Returns the price of one instruction under the latest version, in ink.
pub fn ink(class: Class) -> u64 {
    LATEST.ink(class)
}

const fn shared_ink(class: Class) -> u64 {
    match class {
        Class::Free => 0,
        Class::Constant | Class::Local => 100,
        Class::Global => 300,
        Class::Alu => 250,
        Class::Compare => 700,
        Class::Multiply => 700,
        Class::Divide => 3_500,
        Class::Select => 400,
        Class::Load => 3_000,
        Class::StoreByte => 1_000,
        // Priced by the schedule.
        Class::Store | Class::Branch | Class::Call | Class::CallIndirect | Class::MemoryGrow => 0,
        Class::BranchTable => 5_000,
        Class::MemorySize => 500,
        Class::MemoryCopy | Class::MemoryFill => 10_000,
    }
}

/// Returns the number of loads in an instruction. Each also pays for a possible cache miss
/// ([`load_ink`](Schedule::load_ink)); stores cause no waiting.
pub const fn loads(class: Class) -> u64 {
    match class {
        Class::Load | Class::MemoryFill => 1,
        Class::MemoryCopy => 2,
        _ => 0,
    }
}

impl Schedule {
    /// Returns the price of one instruction, in ink.
    pub const fn ink(&self, class: Class) -> u64 {
        match class {
            Class::Store => self.store,
            Class::Branch => self.branch,
            Class::Call => self.call,
            Class::CallIndirect => self.call_indirect,
            Class::MemoryGrow => self.memory_grow,
            _ => shared_ink(class),
        }
    }

    /// Returns the price of one load with this many pages of memory, in addition to its class's. A load whose address
    /// comes from an earlier load waits for it: 4 ns if memory fits the nearest caches, 10 ns with 16 pages, 20 ns with
    /// 32, 50 to 100 ns with 128.
    pub const fn load_ink(&self, pages: u32) -> u64 {
        let pages = pages as u64;
        pages * (self.load_page + INK_PER_LOAD_PAGE_SQUARED * pages)
    }

    /// Returns the gas of validating, instrumenting and compiling a module at its deployment.
    pub fn compile_gas<'f>(&self, unpacked_bytes: usize, functions: impl IntoIterator<Item = &'f Frame>) -> u64 {
        let squared = |number: u32| u64::from(number) * u64::from(number);
        let (mut gas, mut ink) = (self.compile_module + self.compile_byte * unpacked_bytes as u64, 0);
        for Frame { joins, locals, max_operands, .. } in functions {
            gas += self.compile_function + self.compile_local * u64::from(*locals) + self.compile_join * u64::from(*joins);
            ink += squared(*joins) * INK_PER_JOIN_SQUARED + squared(*max_operands) * self.compile_operand_squared;
        }
        gas + ink / INK_PER_GAS
    }

    /// Returns the ink of a module's first run in a transaction, in addition to [`start_ink`].
    pub const fn cold_ink(&self, unpacked_bytes: usize, functions: u32, initial_pages: u32) -> u64 {
        let kib = (unpacked_bytes as u64).div_ceil(1024);
        let parts = GAS_COLD_CODE_PER_FUNCTION * functions as u64 + self.cold_code_page * initial_pages as u64;
        (GAS_COLD_CODE + GAS_COLD_CODE_PER_KIB * kib + parts) * INK_PER_GAS
    }

    /// Returns the ink of a start while the code runs in an outer frame, in addition to [`start_ink`].
    pub const fn nested_ink(&self, initial_pages: u32) -> u64 {
        (self.nested_start + self.nested_start_page * initial_pages as u64) * INK_PER_GAS
    }
}

pub const INK_PER_LOAD_PAGE_SQUARED: u64 = 5;

/// Price of entering a function, per local to be zeroed.
pub const INK_PER_LOCAL: u64 = 50;
/// Price per byte that `memory.copy` or `memory.fill` moves.
pub const INK_PER_MEMORY_BYTE: u64 = 30;
/// Price per initial page of 64 KiB: restoring what the previous frame has changed.
pub const INK_PER_PAGE: u64 = 250 * INK_PER_GAS;
/// Price per byte copied between the guest's memory and the host.
pub const INK_PER_HOST_BYTE: u64 = 60;
/// Price per byte of a frame's result, which its caller holds until its next call or its end. This bounds the results
/// of all open frames together. Pages do not, since the callee's pages are free again.
pub const INK_PER_RESULT_BYTE: u64 = 2_500;
/// Price of keccak-256 per started word of 32 bytes, and its base price. Ethereum's 6 and 30 gas would buy five times
/// as much time as other gas.
pub const INK_PER_KECCAK_WORD: u64 = 32 * INK_PER_GAS;
pub const INK_KECCAK_BASE: u64 = 150 * INK_PER_GAS;
/// Price per significant byte of the exponent in `math_pow`: Ethereum's 50 gas.
pub const INK_PER_EXPONENT_BYTE: u64 = 50 * INK_PER_GAS;
/// Price of a word that a write adds to the storage cache. It occupies host memory until the frame ends, and is paid
/// even without a flush.
pub const INK_PER_CACHED_WORD: u64 = 60 * INK_PER_GAS;

/// Price of starting a frame, without its pages.
pub const GAS_START: u64 = 500;
/// Price of starting a frame, per started KiB of the unpacked module.
pub const GAS_START_PER_KIB: u64 = 16;

/// Additional price of code that a transaction runs for the first time: it may have to be loaded. The codes that a node
/// has loaded are never visible.
pub const GAS_COLD_CODE: u64 = 5_000;
/// Additional price per started KiB of the unpacked module.
pub const GAS_COLD_CODE_PER_KIB: u64 = 250;
/// Additional price per function, including imported ones.
pub const GAS_COLD_CODE_PER_FUNCTION: u64 = 12;

/// Price of unpacking compressed code at its deployment, charged in any case: a base price for the possible output, and
/// a price per compressed byte, since a few bytes can make the decoder build large tables.
pub const GAS_UNPACK: u64 = 100_000;
pub const GAS_UNPACK_PER_BYTE: u64 = 100;

/// Price of compiling a function, multiplied by the square of its branches: the part that is not linear.
pub const INK_PER_JOIN_SQUARED: u64 = 1_500;

/// Returns the gas for unpacking this many compressed bytes, paid in advance; 0 for uncompressed code.
pub const fn unpack_gas(compressed_bytes: usize) -> u64 {
    match compressed_bytes {
        0 => 0,
        bytes => GAS_UNPACK + GAS_UNPACK_PER_BYTE * bytes as u64,
    }
}

/// Returns the ink that every run of a module pays first.
pub const fn start_ink(unpacked_bytes: usize, initial_pages: u32) -> u64 {
    let kib = (unpacked_bytes as u64).div_ceil(1024);
    (GAS_START + GAS_START_PER_KIB * kib) * INK_PER_GAS + INK_PER_PAGE * initial_pages as u64
}

macro_rules! classes {
    ($($class:ident: $($operator:ident)*;)*) => {
        /// Returns the class of a permitted instruction; `None` for any other.
        pub fn class(operator: &Operator<'_>) -> Option<Class> {
            match operator {
                $($(Operator::$operator { .. } => Some(Class::$class),)*)*
                _ => None,
            }
        }

        /// All permitted instructions, for the fixture.
        pub const ALLOWED: &[(&str, Class)] = &[$($((stringify!($operator), Class::$class),)*)*];
    };
}

classes! {
    Free: Unreachable Nop Block Loop End Drop;
    Constant: I32Const I64Const;
    Local: LocalGet LocalSet LocalTee;
    Global: GlobalGet GlobalSet;
    Compare:
        I32Eqz I32Eq I32Ne I32LtS I32LtU I32GtS I32GtU I32LeS I32LeU I32GeS I32GeU
        I64Eqz I64Eq I64Ne I64LtS I64LtU I64GtS I64GtU I64LeS I64LeU I64GeS I64GeU;
    Alu:
        I32Clz I32Ctz I32Popcnt I32Add I32Sub I32And I32Or I32Xor I32Shl I32ShrS I32ShrU I32Rotl I32Rotr
        I64Clz I64Ctz I64Popcnt I64Add I64Sub I64And I64Or I64Xor I64Shl I64ShrS I64ShrU I64Rotl I64Rotr
        I32WrapI64 I64ExtendI32S I64ExtendI32U
        I32Extend8S I32Extend16S I64Extend8S I64Extend16S I64Extend32S;
    Multiply: I32Mul I64Mul;
    Divide: I32DivS I32DivU I32RemS I32RemU I64DivS I64DivU I64RemS I64RemU;
    Select: Select;
    Load:
        I32Load I64Load I32Load8S I32Load8U I32Load16S I32Load16U
        I64Load8S I64Load8U I64Load16S I64Load16U I64Load32S I64Load32U;
    Store: I32Store I64Store;
    StoreByte: I32Store8;
    Store: I32Store16;
    StoreByte: I64Store8;
    Store: I64Store16 I64Store32;
    Branch: If Else Br BrIf Return;
    BranchTable: BrTable;
    Call: Call;
    CallIndirect: CallIndirect;
    MemorySize: MemorySize;
    MemoryGrow: MemoryGrow;
    MemoryCopy: MemoryCopy;
    MemoryFill: MemoryFill;
}

/// Returns a version's complete table as text, one price per line; the fixture freezes it.
pub fn describe(schedule: &Schedule) -> String {
    let mut text = format!("version {}\nink_per_gas {INK_PER_GAS}\n", schedule.version);
    let mut line = |name: &str, ink: u64| text.push_str(&format!("{name} {ink}\n"));
    for (name, class) in ALLOWED {
        line(name, schedule.ink(*class));
    }
    line("local", INK_PER_LOCAL);
    line("load_page", schedule.load_page);
    line("load_page_squared", INK_PER_LOAD_PAGE_SQUARED);
    line("memory_byte", INK_PER_MEMORY_BYTE);
    line("page", INK_PER_PAGE);
    line("grown_page", schedule.grown_page);
    line("host_byte", INK_PER_HOST_BYTE);
    line("result_byte", INK_PER_RESULT_BYTE);
    line("keccak", INK_KECCAK_BASE);
    line("keccak_word", INK_PER_KECCAK_WORD);
    line("exponent_byte", INK_PER_EXPONENT_BYTE);
    line("cached_word", INK_PER_CACHED_WORD);
    line("start", GAS_START * INK_PER_GAS);
    line("start_kib", GAS_START_PER_KIB * INK_PER_GAS);
    line("cold_code", GAS_COLD_CODE * INK_PER_GAS);
    line("cold_code_kib", GAS_COLD_CODE_PER_KIB * INK_PER_GAS);
    line("cold_code_function", GAS_COLD_CODE_PER_FUNCTION * INK_PER_GAS);
    line("cold_code_page", schedule.cold_code_page * INK_PER_GAS);
    line("unpack", GAS_UNPACK * INK_PER_GAS);
    line("unpack_byte", GAS_UNPACK_PER_BYTE * INK_PER_GAS);
    line("compile_byte", schedule.compile_byte * INK_PER_GAS);
    line("compile_function", schedule.compile_function * INK_PER_GAS);
    line("compile_local", schedule.compile_local * INK_PER_GAS);
    line("compile_join_squared", INK_PER_JOIN_SQUARED);
    if schedule.version > 1 {
        line("compile_join", schedule.compile_join * INK_PER_GAS);
        line("compile_module", schedule.compile_module * INK_PER_GAS);
        line("compile_operand_squared", schedule.compile_operand_squared);
        line("nested_start", schedule.nested_start * INK_PER_GAS);
        line("nested_start_page", schedule.nested_start_page * INK_PER_GAS);
        line("regrown_page", schedule.regrown_page);
        line("slots_per_word", if schedule.counts_slots { SLOTS_PER_WORD.into() } else { 0 });
    }
    for call in corniche_abi::MODULES.iter().flat_map(|(_, calls)| *calls) {
        line(call.name, call.ink);
    }
    text
}
