//! Contracts and instances kept for the next run.
//!
//! What always holds: the contracts that a thread started last, [`WARM_CODES`] of them, each keep one instance until the thread's transaction
//! ends, however large they are, however many threads there are and whatever those do. A transaction pays the price of warm code for the same
//! contracts ([`warm_code`](crate::warm_code)), so such a start makes no instance and loads nothing. Everything else that is kept (older
//! contracts, further instances of one) is bounded in number and in bytes, and after a transaction all of it is.
//!
//! An instance that grew is not kept, and a frame within another of the same code needs one more: both are made anew.

use super::contract::{CodeId, CompiledContract};
use super::engine::Purpose;
use super::instance::Instance;
use crate::warm_code::WARM_CODES;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A thread uses one board, and no other thread uses it: there are as many as threads that run at once. Threads that come and go, as those
/// of calls do, share boards.
pub(super) struct Shelf {
    purpose: Purpose,
    boards: Box<[Board]>,
    instances_each: usize,
    bytes_each: usize,
    /// Instances made.
    #[cfg(test)]
    made: AtomicUsize,
}

#[repr(align(128))]
#[derive(Default)]
struct Board(Mutex<Row>);

#[derive(Default)]
struct Row {
    /// By their last start, the newest last.
    codes: Vec<Waiting>,
    instances: usize,
    /// Memory of instances, and machine code once for each contract.
    bytes: usize,
}

/// A contract and its instances that wait for their next run; there are none while all of them run.
struct Waiting {
    contract: CompiledContract,
    #[expect(clippy::vec_box, reason = "an instance runs in the box it waits in")]
    instances: Vec<Box<Instance>>,
}

/// What a board gives up. Dropped when nobody waits for the board: instances go back to the pool, which takes its time.
#[derive(Default)]
struct Dropped {
    contracts: Vec<Waiting>,
    #[expect(clippy::vec_box, reason = "as above")]
    instances: Vec<Box<Instance>>,
}

impl Shelf {
    /// `boards` is at least 1, `bytes` are those of all together.
    pub fn new(purpose: Purpose, boards: usize, instances_each: usize, bytes: usize) -> Self {
        Self {
            purpose,
            boards: (0..boards).map(|_| Board::default()).collect(),
            instances_each,
            bytes_each: bytes / boards,
            #[cfg(test)]
            made: AtomicUsize::new(0),
        }
    }

    /// An instance of this contract, as new, from this thread's board.
    pub fn take(&self, id: &CodeId) -> Option<Box<Instance>> {
        self.board().start(id)
    }

    /// The contract, if this thread's board has it.
    pub fn contract(&self, id: &CodeId) -> Option<CompiledContract> {
        let row = self.board();
        row.codes.iter().find(|code| code.contract.id() == id).map(|code| code.contract.clone())
    }

    /// A fresh instance of this contract starts.
    pub fn start_fresh(&self, contract: &CompiledContract) {
        #[cfg(test)]
        self.made.fetch_add(1, Ordering::Relaxed);
        let mut dropped = Dropped::default();
        let mut row = self.board();
        row.enter(contract);
        row.shrink(self.instances_each, self.bytes_each, WARM_CODES, &mut dropped);
    }

    /// A run has ended. Keeps its instance if that is as new; `outermost`: the transaction ends with it.
    pub fn end(&self, instance: Option<Box<Instance>>, outermost: bool) {
        if instance.is_none() && !outermost {
            return;
        }
        // Declared first, so dropped last.
        let mut dropped = Dropped::default();
        let mut row = self.board();
        if let Some(instance) = instance {
            row.put(instance);
        }
        row.shrink(self.instances_each, self.bytes_each, if outermost { 0 } else { WARM_CODES }, &mut dropped);
    }

    fn board(&self) -> MutexGuard<'_, Row> {
        let number = board_of_thread(self.purpose) % self.boards.len();
        self.boards[number].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.boards.iter().map(|board| board.0.lock().unwrap().instances).sum()
    }

    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.boards.iter().map(|board| board.0.lock().unwrap().bytes).sum()
    }

    #[cfg(test)]
    pub fn contracts(&self) -> usize {
        self.boards.iter().map(|board| board.0.lock().unwrap().codes.len()).sum()
    }

    #[cfg(test)]
    pub fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }
}

impl Row {
    fn position(&self, id: &CodeId) -> Option<usize> {
        self.codes.iter().rposition(|code| code.contract.id() == id)
    }

    /// The contract's start is the newest; answers an instance if one waits.
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
                self.codes.push(Waiting { contract: contract.clone(), instances: Vec::new() });
            }
        }
    }

    fn put(&mut self, instance: Box<Instance>) {
        let at = self.position(instance.contract().id()).unwrap_or_else(|| {
            // So many others have started since that it was given up: it is the oldest.
            self.bytes += instance.contract().bytes();
            self.codes.insert(0, Waiting { contract: instance.contract().clone(), instances: Vec::new() });
            0
        });
        self.instances += 1;
        self.bytes += instance.resident();
        self.codes[at].instances.push(instance);
    }

    /// Gives up what is beyond the bounds, except one instance of each of the `kept` newest contracts: first older contracts, the
    /// oldest first, then instances beyond a contract's first. Of older contracts those without an instance go in any case.
    fn shrink(&mut self, instances: usize, bytes: usize, kept: usize, dropped: &mut Dropped) {
        if self.fits(instances, bytes) && self.codes.len() <= WARM_CODES + instances {
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
            dropped.contracts.push(code);
        }
        for at in 0..self.codes.len() {
            while self.codes[at].instances.len() > 1 && !self.fits(instances, bytes) {
                let Some(instance) = self.codes[at].instances.pop() else { break };
                self.instances -= 1;
                self.bytes -= instance.resident();
                dropped.instances.push(instance);
            }
        }
    }

    fn fits(&self, instances: usize, bytes: usize) -> bool {
        self.instances <= instances && self.bytes <= bytes
    }
}

impl Waiting {
    fn bytes(&self) -> usize {
        self.contract.bytes() + self.instances.iter().map(|instance| instance.resident()).sum::<usize>()
    }
}

/// A number that threads keep, different for those that started to execute for this purpose one after another.
fn board_of_thread(purpose: Purpose) -> usize {
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
