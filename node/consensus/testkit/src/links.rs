//! How long messages and writes take, and which messages never arrive.

use crate::{Micros, Random};

/// The network between validators. All of it may be changed while a world runs.
#[derive(Clone, Debug)]
pub struct Links {
    size: usize,
    /// One-way delays, by sender and receiver.
    delays: Vec<Micros>,
    pub jitter: Jitter,
    /// Lost messages in a million.
    pub loss: u32,
    /// Messages in a million that arrive twice.
    pub duplication: u32,
    /// Messages in a million that do not keep their place: they take up to twice as long, and the later ones do not wait. All
    /// others arrive in the order they were sent, per pair.
    pub reordering: u32,
    /// Bytes per second that leave one node; what is more waits. `None`: no limit.
    pub egress: Option<u64>,
    /// By sender.
    ports: Vec<Port>,
    /// Lost messages in a million by sender and receiver, on top of the rest.
    losses: Vec<u32>,
}

/// What is the matter with everything that one validator sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// On top of the link's delay.
    pub delay: Micros,
    /// Lost messages in a million, on top of the network's.
    pub loss: u32,
}

/// How delays vary. The mean stays the link's delay under both models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jitter {
    #[default]
    None,
    /// Evenly within this many millionths of the delay, less or more.
    Uniform(u32),
    /// At least the delay without this many millionths, with a heavy tail (Pareto of shape 2, cut at 64 times its scale).
    Pareto(u32),
}

impl Links {
    /// The same one-way delay between any two of `size` validators, nothing else.
    pub fn uniform(size: usize, delay: Micros) -> Self {
        let ports = vec![Port::default(); size];
        let delays = vec![delay; size * size];
        let losses = vec![0; size * size];
        Self { size, delays, jitter: Jitter::None, loss: 0, duplication: 0, reordering: 0, egress: None, ports, losses }
    }

    /// From a one-way delay per ordered pair.
    pub fn matrix(size: usize, mut delay: impl FnMut(usize, usize) -> Micros) -> Self {
        let mut links = Self::uniform(size, Micros::ZERO);
        (0..size * size).for_each(|pair| links.delays[pair] = delay(pair / size, pair % size));
        links
    }

    /// How many validators there are.
    pub fn size(&self) -> usize {
        self.size
    }

    pub fn delay(&self, from: usize, to: usize) -> Micros {
        self.delays[from * self.size + to]
    }

    pub fn set_delay(&mut self, from: usize, to: usize, delay: Micros) {
        self.delays[from * self.size + to] = delay;
    }

    /// Lost messages in a million of one pair, on top of the network's and the sender's.
    pub fn set_loss(&mut self, from: usize, to: usize, loss: u32) {
        self.losses[from * self.size + to] = loss;
    }

    pub fn port(&mut self, sender: usize) -> &mut Port {
        &mut self.ports[sender]
    }

    /// Every sender as the others.
    pub fn clear_ports(&mut self) {
        self.ports.fill(Port::default());
    }

    pub(crate) fn loses(&self, from: usize, to: usize, random: &mut Random) -> bool {
        let of_pair = self.losses[from * self.size + to];
        random.millionths(self.loss) || random.millionths(self.ports[from].loss) || random.millionths(of_pair)
    }

    /// Time in transit of one message, once it has left its sender.
    pub(crate) fn draw(&self, from: usize, to: usize, random: &mut Random) -> Micros {
        self.jitter.apply(self.delay(from, to), random) + self.ports[from].delay
    }

    /// How long `bytes` occupy the sender's line.
    pub(crate) fn transmission(&self, bytes: usize) -> Micros {
        self.egress.map_or(Micros::ZERO, |rate| Micros((bytes as u64).saturating_mul(1_000_000) / rate.max(1)))
    }
}

impl Jitter {
    fn apply(self, delay: Micros, random: &mut Random) -> Micros {
        match self {
            Self::None => delay,
            Self::Uniform(parts) => {
                let spread = delay.millionths(parts).0.min(delay.0);
                Micros(delay.0 - spread + random.below(2 * spread + 1))
            }
            Self::Pareto(parts) => {
                let scale = delay.millionths(parts).0.min(delay.0);
                // 1/√u for a uniform u is Pareto of shape 2 from 1, with mean 2; in units of 2^-16.
                let uniform = random.below(1 << 32) + 1;
                let pareto = (u64::MAX / uniform).isqrt().min(64 << 16);
                let excess = pareto.saturating_sub(1 << 16);
                Micros(delay.0 - scale + ((u128::from(scale) * u128::from(excess)) >> 16) as u64)
            }
        }
    }
}

/// Every node's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskModel {
    /// From the last byte written until it is durable. Writes overlap in this part, as group commit lets them.
    pub sync: Micros,
    /// Bytes per second; writes wait for each other in this part. `None`: no limit.
    pub rate: Option<u64>,
}

impl DiskModel {
    pub(crate) fn transfer(&self, bytes: usize) -> Micros {
        self.rate.map_or(Micros::ZERO, |rate| Micros((bytes as u64).saturating_mul(1_000_000) / rate.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(jitter: Jitter) -> (u64, u64, u64) {
        let mut random = Random::new(3);
        let drawn: Vec<_> = (0..200_000).map(|_| jitter.apply(Micros(100_000), &mut random).0).collect();
        let sum: u64 = drawn.iter().sum();
        (sum / drawn.len() as u64, *drawn.iter().min().unwrap(), *drawn.iter().max().unwrap())
    }

    #[test]
    fn jitter_keeps_the_mean_and_its_bounds() {
        assert_eq!(mean(Jitter::None), (100_000, 100_000, 100_000));
        let (uniform, least, most) = mean(Jitter::Uniform(50_000));
        assert!((99_900..=100_100).contains(&uniform) && least >= 95_000 && most <= 105_000, "{uniform} {least} {most}");
        let (pareto, least, most) = mean(Jitter::Pareto(100_000));
        assert!((99_500..=100_500).contains(&pareto) && least >= 90_000, "{pareto} {least}");
        assert!(most > 500_000, "a heavy tail: {most}");
    }
}
