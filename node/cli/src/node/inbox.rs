//! The pipeline thread's inbox, in four classes. Answers to what the pipeline asked for come first and are bounded by what it
//! asked, so back-pressure cannot dead-lock (design §3). Then validators' messages, then guests' (peers outside the committee,
//! one message each), then everybody's transactions: a flood of the latter delays nothing but itself. All but answers are bounded
//! and push back. Many add, one thread receives.

use corniche_pipeline::NodeKey;
use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard},
    time::Duration,
};

/// A queue with four classes.
pub struct Inbox<T> {
    queues: Mutex<Queues<T>>,
    arrived: Condvar,
    capacity: usize,
}

struct Queues<T> {
    answers: VecDeque<T>,
    messages: VecDeque<T>,
    /// Each guest's newest message.
    guests: VecDeque<(NodeKey, T)>,
    transactions: VecDeque<T>,
    closed: bool,
    /// The receiver has nothing to do: only then is waking it worth a system call.
    waits: bool,
}

impl<T> Queues<T> {
    fn next(&mut self, transactions: bool) -> Option<T> {
        let first = self.answers.pop_front().or_else(|| self.messages.pop_front());
        let first = first.or_else(|| self.guests.pop_front().map(|(_, item)| item));
        first.or_else(|| if transactions { self.transactions.pop_front() } else { None })
    }

    fn is_empty(&self, transactions: bool) -> bool {
        self.answers.is_empty()
            && self.messages.is_empty()
            && self.guests.is_empty()
            && (!transactions || self.transactions.is_empty())
    }
}

/// What a wait ended with.
pub enum Received<T> {
    Item(T),
    TimedOut,
    Closed,
}

impl<T> Inbox<T> {
    /// `capacity` bounds each of the three lower classes.
    pub fn new(capacity: usize) -> Self {
        let queues = Queues {
            answers: VecDeque::new(),
            messages: VecDeque::new(),
            guests: VecDeque::new(),
            transactions: VecDeque::new(),
            closed: false,
            waits: false,
        };
        Self { queues: Mutex::new(queues), arrived: Condvar::new(), capacity }
    }

    fn lock(&self) -> MutexGuard<'_, Queues<T>> {
        self.queues.lock().expect("invariant: nobody panics while holding the inbox")
    }

    /// Adds an answer to something the pipeline asked for.
    pub fn answer(&self, item: T) {
        let mut queues = self.lock();
        queues.answers.push_back(item);
        self.wake(queues);
    }

    /// Adds a validator's message, or gives it back when there is no room.
    pub fn message(&self, item: T) -> Result<(), T> {
        self.offer(item, self.capacity, |queues| &mut queues.messages)
    }

    /// Adds a guest's message in the place of the one it has waiting, or gives it back when there is no room.
    pub fn guest(&self, guest: NodeKey, item: T) -> Result<(), T> {
        let mut queues = self.lock();
        if let Some((_, older)) = queues.guests.iter_mut().find(|(other, _)| *other == guest) {
            *older = item;
            return Ok(());
        }
        if queues.closed || queues.guests.len() >= self.capacity {
            return Err(item);
        }
        queues.guests.push_back((guest, item));
        self.wake(queues);
        Ok(())
    }

    /// Adds a transaction, or gives it back when there is no room or nobody receives any more.
    pub fn transaction(&self, item: T) -> Result<(), T> {
        self.offer(item, self.capacity, |queues| &mut queues.transactions)
    }

    /// Adds an order behind the transactions, or gives it back when nobody receives any more. Who gives orders waits for each, so there is room
    /// for it however many transactions there are.
    pub fn order(&self, item: T) -> Result<(), T> {
        self.offer(item, usize::MAX, |queues| &mut queues.transactions)
    }

    fn offer(&self, item: T, capacity: usize, class: impl Fn(&mut Queues<T>) -> &mut VecDeque<T>) -> Result<(), T> {
        let mut queues = self.lock();
        let closed = queues.closed;
        let queue = class(&mut queues);
        if closed || queue.len() >= capacity {
            return Err(item);
        }
        queue.push_back(item);
        self.wake(queues);
        Ok(())
    }

    /// After something was added: one system call for a receiver that waits, none for one that is at work and will look again.
    fn wake(&self, mut queues: MutexGuard<'_, Queues<T>>) {
        let waits = std::mem::take(&mut queues.waits);
        // Woken while the lock is held, it would only run into it.
        drop(queues);
        if waits {
            self.arrived.notify_one();
        }
    }

    /// Empty and open again, for another receiver.
    pub fn reopen(&self) {
        let mut queues = self.lock();
        queues.answers.clear();
        queues.messages.clear();
        queues.guests.clear();
        queues.transactions.clear();
        (queues.closed, queues.waits) = (false, false);
    }

    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Wakes the receiver for the last time.
    pub fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    /// The next item, the first class first; waits at most `timeout`, or for ever when `None`. Without `transactions` these stay where they are.
    pub fn receive(&self, timeout: Option<Duration>, transactions: bool) -> Received<T> {
        let mut queues = self.lock();
        loop {
            if queues.closed {
                return Received::Closed;
            }
            if let Some(item) = queues.next(transactions) {
                return Received::Item(item);
            }
            queues.waits = true;
            queues = match timeout {
                None => self.arrived.wait(queues).expect("invariant: nobody panics while holding the inbox"),
                Some(timeout) => {
                    let waited = self.arrived.wait_timeout(queues, timeout);
                    let (mut queues, result) = waited.expect("invariant: nobody panics while holding the inbox");
                    queues.waits = false;
                    if result.timed_out() && queues.is_empty(transactions) && !queues.closed {
                        return Received::TimedOut;
                    }
                    queues
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_go_in_order_and_do_not_take_each_others_room() {
        let inbox = Inbox::new(1);
        assert!(inbox.transaction("transaction").is_ok());
        assert_eq!(inbox.transaction("flood"), Err("flood"));
        assert!(inbox.order("order").is_ok());
        assert!(inbox.message("message").is_ok());
        assert_eq!(inbox.message("another message"), Err("another message"));
        inbox.answer("durable");
        for expected in ["durable", "message"] {
            assert!(matches!(inbox.receive(None, false), Received::Item(item) if item == expected), "{expected}");
        }
        assert!(matches!(inbox.receive(Some(Duration::ZERO), false), Received::TimedOut), "kept back");
        assert!(matches!(inbox.receive(None, true), Received::Item("transaction")));
        assert!(matches!(inbox.receive(None, true), Received::Item("order")));
        assert!(matches!(inbox.receive(Some(Duration::ZERO), true), Received::TimedOut));
        inbox.close();
        assert!(matches!(inbox.receive(None, true), Received::Closed));
        assert_eq!([inbox.transaction("late"), inbox.message("late"), inbox.order("late")], [Err("late"); 3]);
        assert!(inbox.is_closed());
    }

    #[test]
    fn guests_wait_behind_validators_and_each_has_one_place() {
        let inbox = Inbox::new(2);
        let guest = |number: u8| [number; 32];
        assert!(["old", "older", "guest"].iter().all(|item| inbox.guest(guest(1), *item).is_ok()));
        assert!(inbox.guest(guest(2), "another guest").is_ok());
        assert_eq!(inbox.guest(guest(3), "one too many"), Err("one too many"));
        assert!(inbox.transaction("transaction").is_ok() && inbox.message("message").is_ok() && inbox.message("vote").is_ok());
        for expected in ["message", "vote", "guest", "another guest", "transaction"] {
            assert!(matches!(inbox.receive(None, true), Received::Item(item) if item == expected), "{expected}");
        }
        inbox.close();
        assert_eq!(inbox.guest(guest(1), "late"), Err("late"));
    }

    /// A receiver is woken only when it waits; a wake that got lost between looking and waiting would end this test's time.
    #[test]
    fn whoever_waits_is_woken() {
        let (there, back) = (Inbox::new(1), Inbox::new(1));
        let turn = |inbox: &Inbox<u32>, other: &Inbox<u32>, timeout: Option<Duration>| loop {
            match inbox.receive(timeout, true) {
                Received::Item(5_000) => return other.close(),
                Received::Item(number) => other.answer(number + 1),
                Received::TimedOut => {}
                Received::Closed => return,
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| turn(&there, &back, None));
            back.answer(0);
            turn(&back, &there, Some(Duration::from_secs(3_600)));
            there.close();
        });
    }
}
