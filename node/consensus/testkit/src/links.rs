//! Network and disk models: delays and message loss.

use crate::{Micros, Random};

/// The network between validators. Every setting may change while a simulation runs.
#[derive(Clone, Debug)]
pub struct Links {
    size: usize,
    /// One-way delays, indexed by sender and receiver.
    delays: Vec<Micros>,
    pub jitter: Jitter,
    /// Lost messages per million.
    pub loss: u32,
    /// Duplicated messages per million.
    pub duplication: u32,
    /// Reordered messages per million. They take up to twice as long, and later messages do not wait for them. All
    /// others arrive in sending order per pair.
    pub reordering: u32,
    /// Bytes per second that one node can send; excess data queues. `None`: no limit.
    pub egress: Option<u64>,
    /// By sender.
    ports: Vec<Port>,
    /// Additional lost messages per million, indexed by sender and receiver.
    losses: Vec<u32>,
}

/// Faults on everything that one validator sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Added to the link's delay.
    pub delay: Micros,
    /// Lost messages per million, in addition to the network's.
    pub loss: u32,
}

/// Variation of delays. The mean equals the link's delay under all models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jitter {
    #[default]
    None,
    /// Uniform within ± this many millionths of the delay.
    Uniform(u32),
    /// Minimum is the delay minus this many millionths; heavy tail (Pareto of shape 2, cut at 64 times its scale).
    Pareto(u32),
}

impl Links {
    /// A uniform one-way delay between any two of `size` validators, without faults.
    pub fn uniform(size: usize, delay: Micros) -> Self {
        let ports = vec![Port::default(); size];
        let delays = vec![delay; size * size];
        let losses = vec![0; size * size];
        Self { size, delays, jitter: Jitter::None, loss: 0, duplication: 0, reordering: 0, egress: None, ports, losses }
    }

    /// Builds links from a one-way delay per ordered pair.
    pub fn matrix(size: usize, mut delay: impl FnMut(usize, usize) -> Micros) -> Self {
        let mut links = Self::uniform(size, Micros::ZERO);
        (0..size * size).for_each(|pair| links.delays[pair] = delay(pair / size, pair % size));
        links
    }

    /// Number of validators.
    pub fn size(&self) -> usize {
        self.size
    }

    pub fn delay(&self, from: usize, to: usize) -> Micros {
        self.delays[from * self.size + to]
    }

    pub fn set_delay(&mut self, from: usize, to: usize, delay: Micros) {
        self.delays[from * self.size + to] = delay;
    }

    /// Sets the lost messages per million of one ordered pair, in addition to the network's and the sender's.
    pub fn set_loss(&mut self, from: usize, to: usize, loss: u32) {
        self.losses[from * self.size + to] = loss;
    }

    pub fn port(&mut self, sender: usize) -> &mut Port {
        &mut self.ports[sender]
    }

    /// Removes the faults of all senders.
    pub fn clear_ports(&mut self) {
        self.ports.fill(Port::default());
    }

    pub(crate) fn loses(&self, from: usize, to: usize, random: &mut Random) -> bool {
        let of_pair = self.losses[from * self.size + to];
        random.chance_ppm(self.loss) || random.chance_ppm(self.ports[from].loss) || random.chance_ppm(of_pair)
    }

    /// Transit time of one message after it left its sender.
    pub(crate) fn draw(&self, from: usize, to: usize, random: &mut Random) -> Micros {
        self.jitter.apply(self.delay(from, to), random) + self.ports[from].delay
    }

    /// Time for which `bytes` occupy the sender's line.
    pub(crate) fn transmission(&self, bytes: usize) -> Micros {
        self.egress.map_or(Micros::ZERO, |rate| Micros((bytes as u64).saturating_mul(1_000_000) / rate.max(1)))
    }
}

impl Jitter {
    fn apply(self, delay: Micros, random: &mut Random) -> Micros {
        match self {
            Self::None => delay,
            Self::Uniform(parts) => {
                let spread = delay.scale_ppm(parts).0.min(delay.0);
                Micros(delay.0 - spread + random.below(2 * spread + 1))
            }
            Self::Pareto(parts) => {
                let scale = delay.scale_ppm(parts).0.min(delay.0);
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
    /// From the last byte written until it is durable. Syncs overlap, as with group commit.
    pub sync: Micros,
    /// Bytes per second. Transfers do not overlap. `None`: no limit.
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
    fn jitter_keeps_mean_and_bounds() {
        assert_eq!(mean(Jitter::None), (100_000, 100_000, 100_000));
        let (uniform, least, most) = mean(Jitter::Uniform(50_000));
        assert!((99_900..=100_100).contains(&uniform) && least >= 95_000 && most <= 105_000, "{uniform} {least} {most}");
        let (pareto, least, most) = mean(Jitter::Pareto(100_000));
        assert!((99_500..=100_500).contains(&pareto) && least >= 90_000, "{pareto} {least}");
        assert!(most > 500_000, "a heavy tail: {most}");
    }
}
