//! The pipeline thread's inbox, in four classes. Answers to what the pipeline asked for come first and are bounded by what it
//! asked, so back-pressure cannot dead-lock (design §3). Then validators' messages, each validator in its turn, then guests' (peers
//! outside the committee, one message each), then everybody's transactions: a flood delays nothing but itself. After
//! [`MAX_MESSAGES_IN_A_ROW`] messages a lower class has a turn, so that a validator that floods does not keep out guests and users. All but
//! answers are bounded and push back. Many add, one thread receives.

use crate::fair_queue::{FairScheduler, ItemWeight, SourceLimit, TotalLimit, WhenFull};
use corniche_pipeline::NodeKey;
use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard},
    time::Duration,
};

/// Messages of one validator that may wait. One that has none waiting has room for one however many wait of others.
const MAX_PER_VALIDATOR: usize = 256;
/// Messages that are received before a lower class has a turn.
const MAX_MESSAGES_IN_A_ROW: u32 = 16;

/// A queue with four classes.
pub struct Inbox<T> {
    queues: Mutex<Queues<T>>,
    arrived: Condvar,
    capacity: usize,
}

struct Queues<T> {
    responses: VecDeque<T>,
    messages: FairScheduler<NodeKey, T>,
    /// Each guest's newest message.
    guests: VecDeque<(NodeKey, T)>,
    transactions: VecDeque<T>,
    /// Messages received since a lower class had a turn.
    in_a_row: u32,
    /// Transactions, and not guests, have the next turn that interrupts messages.
    transactions_next: bool,
    closed: bool,
    /// The receiver has nothing to do: only then is waking it worth a system call.
    receiver_waits: bool,
}

/// A message takes one turn: the pipeline spends about as long on any.
const MESSAGE_WEIGHT: ItemWeight = ItemWeight { bytes: 0, cost: 0 };

impl<T> Queues<T> {
    fn new(capacity: usize) -> Self {
        let share = SourceLimit { items: MAX_PER_VALIDATOR.min(capacity), bytes: usize::MAX, when_full: WhenFull::Refuse };
        Self {
            responses: VecDeque::new(),
            messages: FairScheduler::new(share, TotalLimit { items: capacity, bytes: usize::MAX, guarantee_one: true }),
            guests: VecDeque::new(),
            transactions: VecDeque::new(),
            in_a_row: 0,
            transactions_next: false,
            closed: false,
            receiver_waits: false,
        }
    }

    fn next(&mut self, transactions: bool) -> Option<T> {
        if let Some(response) = self.responses.pop_front() {
            return Some(response);
        }
        if self.in_a_row < MAX_MESSAGES_IN_A_ROW
            && let Some(message) = self.messages.take()
        {
            self.in_a_row += 1;
            return Some(message);
        }
        let interrupts = self.in_a_row >= MAX_MESSAGES_IN_A_ROW;
        self.in_a_row = 0;
        if interrupts {
            self.transactions_next = !self.transactions_next;
        }
        let guests_first = !(interrupts && self.transactions_next);
        let mut lower = if guests_first { self.next_guest() } else { None };
        if transactions {
            lower = lower.or_else(|| self.transactions.pop_front());
        }
        lower.or_else(|| self.next_guest()).or_else(|| self.messages.take())
    }

    fn next_guest(&mut self) -> Option<T> {
        self.guests.pop_front().map(|(_, item)| item)
    }
}

/// Result of a wait.
pub enum Received<T> {
    Item(T),
    TimedOut,
    Closed,
}

impl<T> Inbox<T> {
    /// `capacity` bounds each of the three lower classes.
    pub fn new(capacity: usize) -> Self {
        Self { queues: Mutex::new(Queues::new(capacity)), arrived: Condvar::new(), capacity }
    }

    fn lock(&self) -> MutexGuard<'_, Queues<T>> {
        self.queues.lock().expect("invariant: nobody panics while holding the inbox")
    }

    /// Adds an answer to something the pipeline asked for.
    pub fn push_response(&self, item: T) {
        let mut queues = self.lock();
        queues.responses.push_back(item);
        self.wake(queues);
    }

    /// Adds a validator's message, or gives it back when there is no room.
    pub fn push_message(&self, sender: NodeKey, item: T) -> Result<(), T> {
        let mut queues = self.lock();
        if queues.closed {
            return Err(item);
        }
        queues.messages.offer(sender, item, MESSAGE_WEIGHT)?;
        self.wake(queues);
        Ok(())
    }

    /// Adds a guest's message in the place of the one it has waiting, or gives it back when there is no room.
    pub fn push_guest(&self, guest: NodeKey, item: T) -> Result<(), T> {
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
    pub fn push_transaction(&self, item: T) -> Result<(), T> {
        self.push_last(item, self.capacity)
    }

    /// Adds an order behind the transactions, or gives it back when nobody receives any more. Who gives orders waits for each, so there is room
    /// for it however many transactions there are.
    pub fn push_command(&self, item: T) -> Result<(), T> {
        self.push_last(item, usize::MAX)
    }

    fn push_last(&self, item: T, capacity: usize) -> Result<(), T> {
        let mut queues = self.lock();
        if queues.closed || queues.transactions.len() >= capacity {
            return Err(item);
        }
        queues.transactions.push_back(item);
        self.wake(queues);
        Ok(())
    }

    /// After something was added: one system call for a receiver that waits, none for one that is at work and will look again.
    fn wake(&self, mut queues: MutexGuard<'_, Queues<T>>) {
        let receiver_waits = std::mem::take(&mut queues.receiver_waits);
        // Woken while the lock is held, it would only run into it.
        drop(queues);
        if receiver_waits {
            self.arrived.notify_one();
        }
    }

    /// Empty and open again, for another receiver.
    pub fn reopen(&self) {
        *self.lock() = Queues::new(self.capacity);
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
        self.wait(timeout, |queues| queues.next(transactions))
    }

    /// The next response; everything else stays where it is.
    pub fn receive_response(&self) -> Received<T> {
        self.wait(None, |queues| queues.responses.pop_front())
    }

    fn wait(&self, timeout: Option<Duration>, next: impl Fn(&mut Queues<T>) -> Option<T>) -> Received<T> {
        let (mut queues, mut timed_out) = (self.lock(), false);
        loop {
            if queues.closed {
                return Received::Closed;
            }
            if let Some(item) = next(&mut queues) {
                return Received::Item(item);
            }
            if timed_out {
                return Received::TimedOut;
            }
            queues.receiver_waits = true;
            queues = match timeout {
                None => self.arrived.wait(queues).expect("invariant: nobody panics while holding the inbox"),
                Some(timeout) => {
                    let waited = self.arrived.wait_timeout(queues, timeout);
                    let (mut queues, result) = waited.expect("invariant: nobody panics while holding the inbox");
                    queues.receiver_waits = false;
                    timed_out = result.timed_out();
                    queues
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALIDATOR: NodeKey = [9; 32];

    #[test]
    fn classes_are_ordered_and_separate() {
        let inbox = Inbox::new(1);
        assert!(inbox.push_transaction("transaction").is_ok());
        assert_eq!(inbox.push_transaction("flood"), Err("flood"));
        assert!(inbox.push_command("order").is_ok());
        assert!(inbox.push_message(VALIDATOR, "message").is_ok());
        assert_eq!(inbox.push_message(VALIDATOR, "another message"), Err("another message"));
        inbox.push_response("durable");
        for expected in ["durable", "message"] {
            assert!(matches!(inbox.receive(None, false), Received::Item(item) if item == expected), "{expected}");
        }
        assert!(matches!(inbox.receive(Some(Duration::ZERO), false), Received::TimedOut), "kept back");
        assert!(matches!(inbox.receive(None, true), Received::Item("transaction")));
        assert!(matches!(inbox.receive(None, true), Received::Item("order")));
        assert!(matches!(inbox.receive(Some(Duration::ZERO), true), Received::TimedOut));
        inbox.close();
        assert!(matches!(inbox.receive(None, true), Received::Closed));
        assert_eq!(
            [inbox.push_transaction("late"), inbox.push_message(VALIDATOR, "late"), inbox.push_command("late")],
            [Err("late"); 3]
        );
        assert!(inbox.is_closed());
    }

    #[test]
    fn guests_wait_behind_validators() {
        let inbox = Inbox::new(2);
        let guest = |number: u8| [number; 32];
        assert!(["old", "older", "guest"].iter().all(|item| inbox.push_guest(guest(1), *item).is_ok()));
        assert!(inbox.push_guest(guest(2), "another guest").is_ok());
        assert_eq!(inbox.push_guest(guest(3), "one too many"), Err("one too many"));
        assert!(
            inbox.push_transaction("transaction").is_ok()
                && inbox.push_message(VALIDATOR, "message").is_ok()
                && inbox.push_message(VALIDATOR, "vote").is_ok()
        );
        for expected in ["message", "vote", "guest", "another guest", "transaction"] {
            assert!(matches!(inbox.receive(None, true), Received::Item(item) if item == expected), "{expected}");
        }
        inbox.close();
        assert_eq!(inbox.push_guest(guest(1), "late"), Err("late"));
    }

    #[test]
    fn response_is_received_alone() {
        let inbox = Inbox::new(2);
        assert!(inbox.push_message(VALIDATOR, "message").is_ok() && inbox.push_transaction("transaction").is_ok());
        std::thread::scope(|scope| {
            let received = scope.spawn(|| inbox.receive_response());
            inbox.push_response("durable");
            assert!(matches!(received.join().unwrap(), Received::Item("durable")));
        });
        assert_eq!(all(&inbox, 2), ["message", "transaction"]);
        inbox.close();
        assert!(matches!(inbox.receive_response(), Received::Closed));
    }

    fn all<T>(inbox: &Inbox<T>, count: usize) -> Vec<T> {
        let next = |_| match inbox.receive(Some(Duration::ZERO), true) {
            Received::Item(item) => item,
            Received::TimedOut | Received::Closed => panic!("nothing waits"),
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn flooding_validator_delays_no_other() {
        let inbox = Inbox::new(8_192);
        let taken = (0..10_000).filter(|number| inbox.push_message([1; 32], *number).is_ok()).count();
        assert_eq!(taken, MAX_PER_VALIDATOR);
        assert!(inbox.push_message([2; 32], 20_000).is_ok() && inbox.push_message([2; 32], 20_001).is_ok());
        assert_eq!(all(&inbox, 5), [0, 20_000, 1, 20_001, 2]);
    }

    /// As many validators as may be faulty in a large committee fill the whole class.
    #[test]
    fn full_class_accepts_other_validators() {
        let inbox = Inbox::new(1_000);
        for sender in 0..10 {
            (0..MAX_PER_VALIDATOR).for_each(|number| _ = inbox.push_message([sender; 32], number));
        }
        assert!(inbox.push_message([10; 32], 5_000).is_ok() && inbox.push_message([10; 32], 5_001).is_err());
        assert!(all(&inbox, 11).contains(&5_000));
        all(&inbox, 1_000 + 6 + 1 - 11);
        assert!(matches!(inbox.receive(Some(Duration::ZERO), true), Received::TimedOut), "six came when the class was full");
    }

    #[test]
    fn floods_do_not_starve_other_classes() {
        let inbox = Inbox::new(8_192);
        (0..200).for_each(|_| assert!(inbox.push_message(VALIDATOR, "message").is_ok()));
        assert!(inbox.push_guest([1; 32], "guest").is_ok() && inbox.push_guest([2; 32], "guest").is_ok());
        assert!(inbox.push_transaction("transaction").is_ok());
        let received = all(&inbox, 3 * (MAX_MESSAGES_IN_A_ROW as usize + 1));
        let lower: Vec<_> = received.iter().filter(|item| **item != "message").copied().collect();
        assert_eq!(lower, ["transaction", "guest", "guest"]);
        assert!(received[..MAX_MESSAGES_IN_A_ROW as usize].iter().all(|item| *item == "message"));
    }

    /// A receiver is woken only when it waits; a wake that got lost between looking and waiting would end this test's time.
    #[test]
    fn whoever_waits_is_woken() {
        let (there, back) = (Inbox::new(1), Inbox::new(1));
        let turn = |inbox: &Inbox<u32>, other: &Inbox<u32>, timeout: Option<Duration>| loop {
            match inbox.receive(timeout, true) {
                Received::Item(5_000) => return other.close(),
                Received::Item(number) => other.push_response(number + 1),
                Received::TimedOut => {}
                Received::Closed => return,
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| turn(&there, &back, None));
            back.push_response(0);
            turn(&back, &there, Some(Duration::from_secs(3_600)));
            there.close();
        });
    }
}
