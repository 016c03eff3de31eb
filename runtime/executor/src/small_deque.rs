//! A queue optimized for one item, which it stores inline: most keys of a block have one version and one reader.

use std::collections::VecDeque;

pub(crate) struct SmallDeque<T> {
    /// `None` only if the queue is empty.
    first: Option<T>,
    rest: VecDeque<T>,
}

impl<T> Default for SmallDeque<T> {
    fn default() -> Self {
        Self { first: None, rest: VecDeque::new() }
    }
}

impl<T> SmallDeque<T> {
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub fn get(&self, index: usize) -> Option<&T> {
        match index {
            0 => self.first.as_ref(),
            _ => self.rest.get(index - 1),
        }
    }

    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        match index {
            0 => self.first.as_mut(),
            _ => self.rest.get_mut(index - 1),
        }
    }

    pub fn front(&self) -> Option<&T> {
        self.first.as_ref()
    }

    pub fn back(&self) -> Option<&T> {
        self.rest.back().or(self.first.as_ref())
    }

    /// The items from `index` on.
    pub fn iter_from(&self, index: usize) -> impl Iterator<Item = &T> {
        let first = if index == 0 { self.first.as_ref() } else { None };
        first.into_iter().chain(self.rest.range(index.saturating_sub(1).min(self.rest.len())..))
    }

    /// Returns the number of items, from the front, for which `is_before` is true. The queue must be partitioned by
    /// `is_before`.
    pub fn partition_point(&self, mut is_before: impl FnMut(&T) -> bool) -> usize {
        match &self.first {
            Some(first) if is_before(first) => 1 + self.rest.partition_point(is_before),
            _ => 0,
        }
    }

    /// `index` must be at most the length.
    pub fn insert(&mut self, index: usize, item: T) {
        if index > 0 {
            self.rest.insert(index - 1, item);
        } else if let Some(second) = self.first.replace(item) {
            self.rest.push_front(second);
        }
    }

    pub fn pop_front(&mut self) -> Option<T> {
        let first = self.first.take();
        self.first = self.rest.pop_front();
        first
    }

    pub fn remove(&mut self, index: usize) -> Option<T> {
        match index {
            0 => self.pop_front(),
            _ => self.rest.remove(index - 1),
        }
    }

    /// Removes `count` items, starting at `index`; there must be as many.
    pub fn take(&mut self, index: usize, count: usize) -> Vec<T> {
        let takes_first = index == 0 && count > 0;
        let first = if takes_first { self.first.take() } else { None };
        let start = index.saturating_sub(1);
        let rest = self.rest.drain(start..start + count - usize::from(takes_first));
        let taken = first.into_iter().chain(rest).collect();
        if self.first.is_none() {
            self.first = self.rest.pop_front();
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn matches_vec_model(steps in prop::collection::vec((0usize..5, any::<usize>()), 0..60)) {
            let mut deque = SmallDeque::default();
            let mut vector: Vec<usize> = Vec::new();
            for (step, (what, number)) in steps.into_iter().enumerate() {
                let index = number % (vector.len() + 1);
                match what {
                    0 | 1 => {
                        deque.insert(index, step);
                        vector.insert(index, step);
                    }
                    2 => {
                        let expected = (index < vector.len()).then(|| vector.remove(index));
                        prop_assert_eq!(deque.remove(index), expected);
                    }
                    3 => {
                        let expected = (!vector.is_empty()).then(|| vector.remove(0));
                        prop_assert_eq!(deque.pop_front(), expected);
                    }
                    _ => {
                        let count = number / 7 % (vector.len() - index + 1);
                        let expected: Vec<_> = vector.drain(index..index + count).collect();
                        prop_assert_eq!(deque.take(index, count), expected);
                    }
                }
                prop_assert_eq!((deque.len(), deque.is_empty()), (vector.len(), vector.is_empty()));
                prop_assert_eq!((deque.front(), deque.back()), (vector.first(), vector.last()));
                prop_assert_eq!(deque.iter_from(index).collect::<Vec<_>>(), vector.iter().skip(index).collect::<Vec<_>>());
                prop_assert_eq!(deque.get(index), vector.get(index));
                prop_assert_eq!(deque.get_mut(index).copied(), vector.get(index).copied());
                let mut seen = 0;
                prop_assert_eq!(deque.partition_point(|_| { seen += 1; seen <= 1 }), vector.len().min(1));
            }
        }
    }
}
