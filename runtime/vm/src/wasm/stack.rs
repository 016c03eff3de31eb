//! Native stacks that contracts run on.
//!
//! Counted words end a run, never the native stack. So every run gets a stack larger than its words can take ([`NativeStack`]).
//! Stacks are reserved address space: the kernel commits a page when it is first written, and nothing here writes one. Pages stay
//! committed until [`LargeStack::release`] or [`release_default_stack`]. These run rarely, not after each run: every page that a run touches
//! again costs a page fault, and gas does not pay for that.
//!
//! - Each thread that runs contracts has one of [`DEFAULT_STACK_BYTES`].
//! - Code of gas version 1 may need far more, because its words do not bound the frames that a compiler makes. Such runs share one
//!   stack of [`LARGE_STACK_BYTES`], one run at a time. This bounds the memory that they commit together.
//!
//! wasmtime's own limit is [`LARGE_STACK_BYTES`] and ends no run. If a bound were wrong, the run would hit [`GUARD_BYTES`] of inaccessible
//! pages. The largest frame that Cranelift can make is smaller, so the process ends before anything is overwritten.

use super::validate::Frame;
use borsh::{BorshDeserialize, BorshSerialize};
use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError, TryLockError};

/// Native bytes per word of a frame, if words bound frames at all.
pub(super) const BYTES_PER_WORD: usize = 256;
/// Stack of each thread: 4 KiB per word. Code of gas version 2 needs 256 bytes, harmless contracts at most 2 KiB under
/// version 1.
pub(super) const DEFAULT_STACK_BYTES: usize = 256 << 20;
/// Stack for any valid module: the words of a transaction, each with the largest frame that validation accepts for one.
pub(super) const LARGE_STACK_BYTES: usize = 64 << 30;
/// Cranelift numbers at most 2^21 values per function, each of which spills to at most 8 bytes: 16 MiB.
pub(super) const GUARD_BYTES: usize = 64 << 20;
/// For a host call and the host's work before the next frame starts.
const HOST_STACK_BYTES: usize = 1 << 20;

/// Native stack that code may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(super) struct NativeStack {
    /// Bytes per word of its counted functions.
    bytes_per_word: u32,
    /// Bytes of a function that takes no words. It makes no calls, so there is at most one such frame.
    uncounted_bytes: u32,
}

impl NativeStack {
    /// For code whose words bound its frames.
    pub const BOUNDED: Self = Self { bytes_per_word: BYTES_PER_WORD as u32, uncounted_bytes: 0 };

    pub fn of(frames: &[Frame]) -> Self {
        frames.iter().fold(Self::BOUNDED, |most, frame| match frame.counted_words() {
            Some(words) => Self { bytes_per_word: most.bytes_per_word.max(frame.native_bytes().div_ceil(words)), ..most },
            None => Self { uncounted_bytes: most.uncounted_bytes.max(frame.native_bytes()), ..most },
        })
    }

    /// Bytes that a run with this many words left may need.
    pub fn bytes(self, words: u32) -> usize {
        words as usize * self.bytes_per_word as usize + self.uncounted_bytes as usize + HOST_STACK_BYTES
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StackKind {
    /// The thread's own stack, of unknown size.
    Thread,
    Default,
    Large,
}

thread_local! {
    /// The current stack of this thread, and its lowest address.
    static CURRENT: Cell<(StackKind, usize)> = const { Cell::new((StackKind::Thread, usize::MAX)) };
    /// This thread's [`StackKind::Default`] stack, while it is not in use.
    static DEFAULT_STACK: Cell<Option<Stack>> = const { Cell::new(None) };
}

/// The stack for runs that do not fit the thread's.
pub(super) struct LargeStack(Mutex<Stack>);

impl LargeStack {
    /// Fails if the system limits address space or writable memory below [`LARGE_STACK_BYTES`].
    pub fn reserve() -> io::Result<Self> {
        Ok(Self(Mutex::new(Stack::reserve(LARGE_STACK_BYTES)?)))
    }

    /// Returns the stack's pages to the kernel, unless a run uses it now.
    pub fn release(&self) {
        match self.0.try_lock() {
            Ok(mut stack) => stack.release(),
            Err(TryLockError::Poisoned(stack)) => stack.into_inner().release(),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    /// Runs `body` with at least `bytes` of stack. Fails if this machine does not give them.
    pub fn run<R>(&self, bytes: usize, body: impl FnOnce() -> R) -> io::Result<R> {
        let (on, limit) = CURRENT.get();
        if (psm::stack_pointer() as usize).saturating_sub(limit) >= bytes {
            return Ok(body());
        }
        match on {
            StackKind::Thread if bytes <= DEFAULT_STACK_BYTES => {
                let mut stack = DEFAULT_STACK.take().map_or_else(|| Stack::reserve(DEFAULT_STACK_BYTES), Ok)?;
                let result = stack.run(StackKind::Default, body);
                DEFAULT_STACK.set(Some(stack));
                Ok(result.unwrap_or_else(|panic| resume_unwind(panic)))
            }
            StackKind::Thread | StackKind::Default => {
                let result = self.0.lock().unwrap_or_else(PoisonError::into_inner).run(StackKind::Large, body);
                Ok(result.unwrap_or_else(|panic| resume_unwind(panic)))
            }
            // A run that began with all words took the whole stack, and what it used of it came off its words.
            StackKind::Large => Err(io::Error::other(format!("the large stack has less than {bytes} bytes left"))),
        }
    }
}

/// Returns the pages of this thread's [`StackKind::Default`] to the kernel, unless a run uses it now.
pub(super) fn release_default_stack() {
    if let Some(mut stack) = DEFAULT_STACK.take() {
        stack.release();
        DEFAULT_STACK.set(Some(stack));
    }
}

/// A mapping: guard pages below, the stack above them.
struct Stack {
    start: *mut libc::c_void,
    bytes: usize,
}

// SAFETY: it owns its mapping, which any thread may use or unmap.
#[allow(unsafe_code)]
unsafe impl Send for Stack {}

#[allow(unsafe_code)]
impl Stack {
    /// Reserves address space. The system counts it against limits on writable memory, and otherwise commits what is written.
    fn reserve(bytes: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), GUARD_BYTES + bytes, libc::PROT_NONE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = Self { start, bytes };
        let lowest = stack.lowest().cast();
        // SAFETY: all of it lies within the new mapping.
        unsafe {
            // Huge pages would commit 2 MiB for each byte that is touched. Kernels without them refuse the advice.
            #[cfg(target_os = "linux")]
            libc::madvise(lowest, bytes, libc::MADV_NOHUGEPAGE);
            // Now rather than at the first run: a system that refuses must not do so in the middle of a block.
            if libc::mprotect(lowest, bytes, libc::PROT_READ | libc::PROT_WRITE) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(stack)
    }

    fn lowest(&self) -> *mut u8 {
        self.start.cast::<u8>().wrapping_add(GUARD_BYTES)
    }

    /// Returns all pages to the kernel. The next use finds zeros in their place.
    fn release(&mut self) {
        // SAFETY: the stack's part of the mapping of `reserve`, on which nothing runs while `self` is borrowed. On failure the pages stay.
        unsafe { libc::madvise(self.lowest().cast(), self.bytes, libc::MADV_DONTNEED) };
    }

    fn run<R>(&mut self, on: StackKind, body: impl FnOnce() -> R) -> std::thread::Result<R> {
        let before = CURRENT.replace((on, self.lowest() as usize));
        // SAFETY: the memory is writable, page-aligned and nobody else's while `self` is borrowed. No panic leaves the closure.
        let result = unsafe { psm::on_stack(self.lowest(), self.bytes, || catch_unwind(AssertUnwindSafe(body))) };
        CURRENT.set(before);
        result
    }
}

#[allow(unsafe_code)]
impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping of `reserve`, on which nothing runs any more.
        unsafe { libc::munmap(self.start, GUARD_BYTES + self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Limits;
    use crate::wasm::validate::{MAX_FRAME_WORDS, MAX_LOCALS_TIMES_JOINS, MAX_OPERATORS, SLOTS_PER_WORD};
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn on() -> StackKind {
        CURRENT.get().0
    }

    /// Returns the number of pages of a stack that the kernel has committed.
    #[allow(unsafe_code)]
    fn committed(stack: &Stack) -> usize {
        let mut pages = vec![0u8; stack.bytes / 4096];
        // SAFETY: the range is mapped, and there is a byte for each of its pages.
        assert_eq!(unsafe { libc::mincore(stack.lowest().cast(), stack.bytes, pages.as_mut_ptr()) }, 0);
        pages.iter().filter(|page| **page & 1 == 1).count()
    }

    #[test]
    fn stack_commits_only_written_pages() {
        let mut stack = Stack::reserve(DEFAULT_STACK_BYTES).unwrap();
        assert_eq!(committed(&stack), 0);
        stack.run(StackKind::Default, || std::hint::black_box([1u8; 40_000])).unwrap();
        assert!((10..1_000).contains(&committed(&stack)), "{}", committed(&stack));
    }

    /// Takes 2 MiB of the stack that it runs on.
    #[inline(never)]
    fn write() {
        std::hint::black_box([1u8; 2 << 20]);
    }

    /// Otherwise one run of old code takes memory from the node until it restarts.
    #[test]
    fn release_returns_pages() {
        let deep = LargeStack::reserve().unwrap();
        let committed_large = || committed(&deep.0.lock().unwrap());
        deep.run(DEFAULT_STACK_BYTES + 1, write).unwrap();
        assert!(committed_large() >= 512);
        deep.release();
        assert_eq!(committed_large(), 0);
        assert_eq!(deep.run(DEFAULT_STACK_BYTES + 1, || 7).unwrap(), 7, "it runs again");

        let committed_default = || {
            let stack = DEFAULT_STACK.take().unwrap();
            let pages = committed(&stack);
            DEFAULT_STACK.set(Some(stack));
            pages
        };
        deep.run(1 << 20, write).unwrap();
        assert!(committed_default() >= 512);
        release_default_stack();
        assert_eq!(committed_default(), 0);
    }

    #[test]
    fn stack_in_use_keeps_pages() {
        let deep = LargeStack::reserve().unwrap();
        for bytes in [1 << 20, DEFAULT_STACK_BYTES + 1] {
            let kept = deep.run(bytes, || {
                let value = std::hint::black_box([7u8; 8192]);
                deep.release();
                release_default_stack();
                std::hint::black_box(value).iter().all(|byte| *byte == 7)
            });
            assert!(kept.unwrap());
        }
    }

    #[test]
    fn nested_runs_reuse_sufficient_stack() {
        let deep = LargeStack::reserve().unwrap();
        let kinds = deep.run(1 << 20, || {
            let usual = on();
            let nested = deep.run(1 << 20, on).unwrap();
            let larger = deep
                .run(DEFAULT_STACK_BYTES, || {
                    (on(), deep.run(DEFAULT_STACK_BYTES, on).unwrap(), deep.run(LARGE_STACK_BYTES, on).is_err())
                })
                .unwrap();
            (usual, nested, larger, on())
        });
        assert!(
            kinds.unwrap()
                == (StackKind::Default, StackKind::Default, (StackKind::Large, StackKind::Large, true), StackKind::Default)
        );
        assert!(on() == StackKind::Thread);
    }

    #[test]
    fn panic_keeps_stacks_usable() {
        let deep = LargeStack::reserve().unwrap();
        for bytes in [1 << 20, DEFAULT_STACK_BYTES + 1] {
            let panic = catch_unwind(AssertUnwindSafe(|| deep.run(bytes, || panic!("as meant"))));
            assert!(panic.is_err() && on() == StackKind::Thread);
            assert_eq!(deep.run(bytes, || 7).unwrap(), 7);
        }
    }

    /// Otherwise runs of old code on many threads would commit the memory of many deep stacks.
    #[test]
    #[allow(clippy::disallowed_methods)]
    fn large_stack_serves_one_run() {
        let (deep, inside) = (LargeStack::reserve().unwrap(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let run = || {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            std::thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                        };
                        deep.run(DEFAULT_STACK_BYTES + 1, run).unwrap();
                        deep.run(1 << 20, || assert!(on() == StackKind::Default)).unwrap();
                    }
                });
            }
        });
    }

    #[test]
    fn large_stack_fits_any_module() {
        // Six for each `call_indirect`, and for each branch the locals that may join there.
        let slots = 6 * u64::from(MAX_OPERATORS) + MAX_LOCALS_TIMES_JOINS;
        let paid = slots.div_ceil(SLOTS_PER_WORD.into());
        assert!(BYTES_PER_WORD as u64 * (u64::from(MAX_FRAME_WORDS) + paid) < GUARD_BYTES as u64, "no frame skips the guard");
        // 16 words, and at least one for the call or its arguments.
        let least = 17;
        let bytes_per_word = (BYTES_PER_WORD as u64 * (least + paid)).div_ceil(least) as u32;
        let most = NativeStack { bytes_per_word, uncounted_bytes: GUARD_BYTES as u32 };
        let bytes = most.bytes(Limits::TRANSACTION.stack_words);
        assert!(bytes < LARGE_STACK_BYTES, "{bytes}");
    }
}
