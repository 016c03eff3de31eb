//! Numbers, certificates and combinations.

use crate::{BATCHES, Batch, Each, NUMBERS, Number};
use corniche_mir::message::Sn;
use corniche_types::{B256, ValidatorIndex};
use std::{collections::BTreeMap, ops::Index};

/// Certificates of prepared batches that the liar can show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shown(pub u64);

impl Shown {
    pub fn bit(epoch: u64, sn: u64, batch: Batch) -> u64 {
        1 << ((epoch as usize * NUMBERS + place(sn)) * BATCHES.len() + usize::from(batch))
    }

    pub fn insert(&mut self, epoch: u64, sn: u64, batch: Batch) {
        self.0 |= Self::bit(epoch, sn, batch);
    }

    /// Epochs, numbers and batches.
    pub fn all(self) -> impl Iterator<Item = (u64, u64, Batch)> {
        let bits = (0..u64::BITS as usize).filter(move |bit| self.0 >> bit & 1 == 1);
        bits.map(|bit| {
            let (of, batch) = (bit / BATCHES.len(), bit % BATCHES.len());
            ((of / NUMBERS) as u64, (of % NUMBERS) as u64 + 1, batch as Batch)
        })
    }
}

/// Gives numbers to values.
pub struct Numbers<T> {
    pub values: Vec<T>,
    numbers: BTreeMap<T, Number>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self { values: Vec::new(), numbers: BTreeMap::new() }
    }
}

impl<T: Clone + Ord> Numbers<T> {
    pub fn number(&mut self, value: T) -> Number {
        if let Some(known) = self.numbers.get(&value) {
            return *known;
        }
        let number = Number::try_from(self.values.len()).unwrap();
        self.values.push(value.clone());
        self.numbers.insert(value, number);
        number
    }
}

impl<T> Index<Number> for Numbers<T> {
    type Output = T;

    fn index(&self, number: Number) -> &T {
        &self.values[number as usize]
    }
}

pub fn batches() -> impl Iterator<Item = Batch> {
    0..BATCHES.len() as Batch
}

pub fn digest(batch: Batch) -> B256 {
    BATCHES[usize::from(batch)]
}

pub fn batch(digest: B256) -> Batch {
    BATCHES.iter().position(|batch| *batch == digest).unwrap() as Batch
}

pub fn place(sn: u64) -> usize {
    sn as usize - 1
}

pub fn are(batches: Each<Option<Batch>>, batch: Batch) -> Each<bool> {
    batches.map(|of| of == Some(batch))
}

pub fn indices(members: Each<bool>) -> impl Iterator<Item = ValidatorIndex> {
    members.into_iter().enumerate().filter(|(_, is_in)| *is_in).map(|(at, _)| member(at))
}

/// All combinations.
pub fn product<T: Clone, const N: usize>(options: &[Vec<T>; N]) -> impl Iterator<Item = [T; N]> {
    let total: usize = options.iter().map(Vec::len).product();
    (0..total).map(move |mut number| {
        options.each_ref().map(|options| {
            let place = number % options.len();
            number /= options.len();
            options[place].clone()
        })
    })
}

/// All checkpoints with all lists of batches after them.
pub fn lists(numbers: u64) -> Vec<(Sn, Vec<B256>)> {
    let mut found = Vec::new();
    for start in 0..=numbers {
        let mut longest = vec![Vec::new()];
        for _ in start..=numbers {
            found.extend(longest.iter().map(|list| (Sn(start), list.clone())));
            let longer = |list: &Vec<B256>| BATCHES.map(|batch| [list.as_slice(), &[batch]].concat());
            longest = longest.iter().flat_map(longer).collect();
        }
    }
    found
}

pub fn member(index: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(index).unwrap())
}
