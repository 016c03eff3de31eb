//! A frame's state during host calls, and how the host gets into it and out again.

use crate::host::{Host, HostError, Trap};
use crate::indexed_map::IndexedMap;
use alloy_primitives::{B256, Bytes};
use wasmtime::{Global, Memory, ResourceLimiter, Store};

/// Why a host call ends the frame.
#[derive(Clone, Debug)]
pub(in crate::wasm) enum Stop {
    /// The contract exited with this status.
    Exit(i32),
    OutOfGas,
    Trap(Trap),
    Fault(String),
}

impl From<HostError> for Stop {
    fn from(error: HostError) -> Self {
        match error {
            HostError::OutOfGas => Self::OutOfGas,
            HostError::StaticViolation => Self::Trap(Trap::StaticViolation),
            HostError::Fault(text) => Self::Fault(text),
        }
    }
}

pub(super) type Outcome<T> = Result<T, Stop>;

/// Handles to the parts of the instance that host calls use.
#[derive(Clone, Copy)]
pub(in crate::wasm) struct Handles {
    pub memory: Memory,
    pub gas: Global,
    pub stack: Global,
    pub pages: Global,
}

/// State of one running frame. It is kept between runs to reuse its allocations.
#[derive(Default)]
pub(in crate::wasm) struct Frame {
    /// `Some` while the frame runs.
    pub(super) host: Option<HostPointer>,
    pub(super) input: Bytes,
    pub output: Bytes,
    /// Set if a host call ended the frame.
    pub(super) stop: Option<Stop>,
    pub growth: Growth,
    /// Set directly after instantiation, before the contract's code runs.
    pub handles: Option<Handles>,
    /// Output of the last nested call or creation.
    pub(super) return_data: Bytes,
    pub(super) cache: IndexedMap<B256, CachedWord>,
    /// Keys of words that became dirty since the last flush; some may be clean or removed now.
    pub(super) dirty: Vec<B256>,
}

#[derive(Clone, Copy)]
pub(super) struct CachedWord {
    pub(super) value: B256,
    /// True if the next flush must write the word.
    pub(super) dirty: bool,
}

/// The running frame's host, without the lifetime, which a wasmtime store cannot hold.
pub(super) struct HostPointer(pub(super) *mut (dyn Host + 'static));

// SAFETY: a store that moves to another thread is not running, and then it contains no pointer (`Frame::lend`).
#[allow(unsafe_code)]
unsafe impl Send for HostPointer {}

impl Frame {
    /// Runs `body` with `host` in the frame of `store`; everything else in the frame is reset.
    #[allow(unsafe_code)]
    pub fn with_host<R>(
        store: &mut Store<Self>,
        host: &mut dyn Host,
        input: Bytes,
        body: impl FnOnce(&mut Store<Self>) -> R,
    ) -> R {
        let host: *mut (dyn Host + '_) = host;
        // SAFETY: only the lifetime changes. The pointer is dereferenced in `Call::host` alone, which runs inside host
        // calls, which run inside `body`. `host` is borrowed mutably for all that time and not used otherwise.
        // Afterwards it is removed. If `body` unwinds, the store is dropped and never runs again.
        let host = unsafe { std::mem::transmute::<*mut (dyn Host + '_), *mut (dyn Host + 'static)>(host) };
        let frame = store.data_mut();
        frame.host = Some(HostPointer(host));
        frame.input = input;
        frame.output = Bytes::new();
        frame.stop = None;
        frame.growth = Growth::default();
        let result = body(store);
        // A kept instance must hold nothing of its last run.
        let frame = store.data_mut();
        frame.host = None;
        frame.input = Bytes::new();
        frame.return_data = Bytes::new();
        frame.cache.clear();
        frame.dirty.clear();
        frame.dirty.shrink_to(256);
        result
    }

    /// Returns whether the frame holds nothing of a run.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        let bytes = [&self.input, &self.output, &self.return_data];
        bytes.iter().all(|bytes| bytes.is_empty()) && self.cache.len() == 0 && self.dirty.is_empty()
    }

    /// Returns why a host call or a memory growth ended the frame, if so.
    pub fn take_stop(&mut self) -> Option<Stop> {
        self.growth.failed.take().map(Stop::Fault).or_else(|| self.stop.take())
    }
}

/// Records failed growth.
#[derive(Default)]
pub(in crate::wasm) struct Growth {
    failed: Option<String>,
}

/// The instrumented module bounds growth. Any other failure is due to this machine and must not become a result.
impl ResourceLimiter for Growth {
    fn memory_growing(&mut self, _current: usize, _desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(true)
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        self.failed = Some(format!("memory could not grow within its bound: {error:?}"));
        Err(error)
    }

    fn table_growing(&mut self, _current: usize, _desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(true)
    }
}
