//! Pool of contracts and instances for later runs.
//!
//! Invariant: the last [`MAX_WARM_CODES`] contracts that a thread started each keep one instance until the thread's
//! transaction ends. This is independent of their size, of the number of threads and of other threads. A transaction
//! pays the warm price for the same contracts (`warm_code`), so a start at that price creates no
//! instance and loads nothing. Everything else (older contracts, further instances of one) is bounded in number and
//! bytes. After a transaction everything is.
//!
//! Grown instances are not kept, and a frame within another of the same code needs one more. Both need a new instance.

use super::config::Purpose;
use super::contract::CompiledContract;
use super::instance::Instance;
use crate::warm_code::{CodeId, MAX_WARM_CODES};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Each thread has its own shard: there are as many as concurrent threads. Short-lived threads, like those of calls,
/// share shards.
pub(super) struct InstancePool {
    purpose: Purpose,
    shards: Box<[PoolShard]>,
    instances_each: usize,
    bytes_each: usize,
    /// Number of created instances.
    #[cfg(test)]
    created: AtomicUsize,
}

#[repr(align(128))]
#[derive(Default)]
struct PoolShard(Mutex<ShardState>);

#[derive(Default)]
struct ShardState {
    /// Sorted by last start, newest last.
    codes: Vec<IdleInstances>,
    instances: usize,
    /// Memory of instances, plus machine code once per contract.
    bytes: usize,
}

/// A contract and its idle instances; empty while all of them run.
struct IdleInstances {
    contract: CompiledContract,
    #[expect(clippy::vec_box, reason = "an instance runs in the box it waits in")]
    instances: Vec<Box<Instance>>,
}

/// Items that a shard evicts. They are dropped after the lock is released, because returning instances to wasmtime's
/// pool is slow.
#[derive(Default)]
struct Evicted {
    contracts: Vec<IdleInstances>,
    #[expect(clippy::vec_box, reason = "as above")]
    instances: Vec<Box<Instance>>,
}

impl InstancePool {
    /// `shards` must be at least 1; `bytes` is the total limit of all shards.
    pub fn new(purpose: Purpose, shards: usize, instances_each: usize, bytes: usize) -> Self {
        Self {
            purpose,
            shards: (0..shards).map(|_| PoolShard::default()).collect(),
            instances_each,
            bytes_each: bytes / shards,
            #[cfg(test)]
            created: AtomicUsize::new(0),
        }
    }

    /// Returns an idle instance of this contract from this thread's shard.
    pub fn take(&self, id: &CodeId) -> Option<Box<Instance>> {
        self.shard().start(id)
    }

    /// Returns the contract, if this thread's shard has it.
    pub fn contract(&self, id: &CodeId) -> Option<CompiledContract> {
        let state = self.shard();
        state.codes.iter().find(|code| code.contract.id() == id).map(|code| code.contract.clone())
    }

    /// Records the start of a fresh instance of this contract.
    pub fn start_fresh(&self, contract: &CompiledContract) {
        #[cfg(test)]
        self.created.fetch_add(1, Ordering::Relaxed);
        let mut evicted = Evicted::default();
        let mut state = self.shard();
        state.enter(contract);
        state.shrink(self.instances_each, self.bytes_each, MAX_WARM_CODES, &mut evicted);
    }

    /// Records the end of a run. Keeps `instance`, if any, which must be restored. `outermost`: the transaction ends
    /// too.
    pub fn end(&self, instance: Option<Box<Instance>>, outermost: bool) {
        if instance.is_none() && !outermost {
            return;
        }
        // Declared first, so dropped last.
        let mut evicted = Evicted::default();
        let mut state = self.shard();
        if let Some(instance) = instance {
            state.put(instance);
        }
        state.shrink(self.instances_each, self.bytes_each, if outermost { 0 } else { MAX_WARM_CODES }, &mut evicted);
    }

    fn shard(&self) -> MutexGuard<'_, ShardState> {
        let number = shard_of_thread(self.purpose) % self.shards.len();
        self.shards[number].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().unwrap().instances).sum()
    }

    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().unwrap().bytes).sum()
    }

    #[cfg(test)]
    pub fn contracts(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().unwrap().codes.len()).sum()
    }

    #[cfg(test)]
    pub fn created(&self) -> usize {
        self.created.load(Ordering::Relaxed)
    }
}

impl ShardState {
    fn position(&self, id: &CodeId) -> Option<usize> {
        self.codes.iter().rposition(|code| code.contract.id() == id)
    }

    /// Records a start of the contract as the newest; returns an idle instance, if any.
    fn start(&mut self, id: &CodeId) -> Option<Box<Instance>> {
        let at = self.position(id)?;
        self.codes[at..].rotate_left(1);
        let code = self.codes.last_mut()?;
        let instance = code.instances.pop()?;
        self.instances -= 1;
        self.bytes -= instance.resident();
        Some(instance)
    }

    fn enter(&mut self, contract: &CompiledContract) {
        match self.position(contract.id()) {
            Some(at) => self.codes[at..].rotate_left(1),
            None => {
                self.bytes += contract.bytes();
                self.codes.push(IdleInstances { contract: contract.clone(), instances: Vec::new() });
            }
        }
    }

    fn put(&mut self, instance: Box<Instance>) {
        let at = self.position(instance.contract().id()).unwrap_or_else(|| {
            // It was evicted, because many other contracts have started since: it is the oldest.
            self.bytes += instance.contract().bytes();
            self.codes.insert(0, IdleInstances { contract: instance.contract().clone(), instances: Vec::new() });
            0
        });
        self.instances += 1;
        self.bytes += instance.resident();
        self.codes[at].instances.push(instance);
    }

    /// Evicts items until the limits hold, except one instance of each of the `kept` newest contracts. It removes older
    /// contracts first, oldest first, and always those without an instance. Then it removes instances beyond a
    /// contract's first.
    fn shrink(&mut self, instances: usize, bytes: usize, kept: usize, evicted: &mut Evicted) {
        if self.fits(instances, bytes) && self.codes.len() <= MAX_WARM_CODES + instances {
            return;
        }
        let mut older = self.codes.len().saturating_sub(kept);
        let mut at = 0;
        while at < older {
            let waiting = self.codes[at].instances.len();
            if waiting > 0 && self.fits(instances, bytes) {
                at += 1;
                continue;
            }
            let code = self.codes.remove(at);
            older -= 1;
            self.instances -= waiting;
            self.bytes -= code.bytes();
            evicted.contracts.push(code);
        }
        for at in 0..self.codes.len() {
            while self.codes[at].instances.len() > 1 && !self.fits(instances, bytes) {
                let Some(instance) = self.codes[at].instances.pop() else { break };
                self.instances -= 1;
                self.bytes -= instance.resident();
                evicted.instances.push(instance);
            }
        }
    }

    fn fits(&self, instances: usize, bytes: usize) -> bool {
        self.instances <= instances && self.bytes <= bytes
    }
}

impl IdleInstances {
    fn bytes(&self) -> usize {
        self.contract.bytes() + self.instances.iter().map(|instance| instance.resident()).sum::<usize>()
    }
}

/// Returns the thread's number, assigned in the order in which threads first run for this purpose.
fn shard_of_thread(purpose: Purpose) -> usize {
    static THREADS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    thread_local!(static NUMBERS: [Cell<usize>; 2] = const { [const { Cell::new(usize::MAX) }; 2] });
    NUMBERS.with(|numbers| {
        let number = &numbers[purpose as usize];
        if number.get() == usize::MAX {
            number.set(THREADS[purpose as usize].fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}
