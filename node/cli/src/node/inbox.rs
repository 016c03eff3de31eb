//! The pipeline thread's inbox: answers to what the pipeline asked for come first and are bounded by what it asked; everything
//! else waits in a bounded queue that pushes back, so back-pressure cannot dead-lock (design §3).

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard},
    time::Duration,
};

/// A queue with two classes.
pub struct Inbox<T> {
    queues: Mutex<Queues<T>>,
    arrived: Condvar,
    capacity: usize,
}

struct Queues<T> {
    answers: VecDeque<T>,
    ordinary: VecDeque<T>,
    closed: bool,
}

/// What a wait ended with.
pub enum Received<T> {
    Item(T),
    TimedOut,
    Closed,
}

impl<T> Inbox<T> {
    /// `capacity` bounds the ordinary class.
    pub fn new(capacity: usize) -> Self {
        let queues = Queues { answers: VecDeque::new(), ordinary: VecDeque::new(), closed: false };
        Self { queues: Mutex::new(queues), arrived: Condvar::new(), capacity }
    }

    fn lock(&self) -> MutexGuard<'_, Queues<T>> {
        self.queues.lock().expect("invariant: nobody panics while holding the inbox")
    }

    /// Adds an answer to something the pipeline asked for.
    pub fn answer(&self, item: T) {
        self.lock().answers.push_back(item);
        self.arrived.notify_one();
    }

    /// Adds an ordinary item, or gives it back when the inbox is full.
    pub fn offer(&self, item: T) -> Result<(), T> {
        let mut queues = self.lock();
        if queues.ordinary.len() >= self.capacity {
            return Err(item);
        }
        queues.ordinary.push_back(item);
        self.arrived.notify_one();
        Ok(())
    }

    /// Wakes the receiver for the last time.
    pub fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    /// The next item, answers first; waits at most `timeout`, or for ever when `None`.
    pub fn receive(&self, timeout: Option<Duration>) -> Received<T> {
        let mut queues = self.lock();
        loop {
            if queues.closed {
                return Received::Closed;
            }
            if let Some(item) = queues.answers.pop_front().or_else(|| queues.ordinary.pop_front()) {
                return Received::Item(item);
            }
            queues = match timeout {
                None => self.arrived.wait(queues).expect("invariant: nobody panics while holding the inbox"),
                Some(timeout) => {
                    let waited = self.arrived.wait_timeout(queues, timeout);
                    let (queues, result) = waited.expect("invariant: nobody panics while holding the inbox");
                    if result.timed_out() && queues.answers.is_empty() && queues.ordinary.is_empty() && !queues.closed {
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
    fn answers_overtake_ordinary_items_and_are_not_bounded_by_them() {
        let inbox = Inbox::new(1);
        assert!(inbox.offer("first message").is_ok());
        assert_eq!(inbox.offer("second message"), Err("second message"));
        inbox.answer("durable");
        assert!(matches!(inbox.receive(None), Received::Item("durable")));
        assert!(matches!(inbox.receive(None), Received::Item("first message")));
        assert!(matches!(inbox.receive(Some(Duration::ZERO)), Received::TimedOut));
        inbox.close();
        assert!(matches!(inbox.receive(None), Received::Closed));
    }
}
