//! Random draws that depend only on the seed, on every machine. So the weights of Zipf's law are computed
//! with the four operations that IEEE 754 defines exactly, not with the platform's `pow`.

use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};

/// Numbers of SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// Independent stream for each name, so that a new workload does not change the others.
    pub fn new(seed: u64, name: &str) -> Self {
        let hash = corniche_types::keccak256(name);
        let first = u64::from_be_bytes(hash[..8].try_into().expect("eight of 32 bytes"));
        Self(SplitMix64::seed_from_u64(seed ^ first))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        // High word of the product: uniform except for at most bound / 2^64.
        u64::try_from((u128::from(self.next()) * u128::from(bound)) >> 64).expect("below a 64-bit bound")
    }

    /// Number between `low` and `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True with this probability in percent.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Number in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Distribution over `count` keys: uniform, or by Zipf's law with key 0 the most popular.
#[derive(Clone, Debug)]
pub enum Keys {
    Uniform { count: u64 },
    Zipf(Zipf),
}

impl Keys {
    pub fn uniform(count: u64) -> Self {
        Self::Uniform { count }
    }

    pub fn zipf(count: u64, exponent: f64) -> Self {
        Self::Zipf(Zipf::new(count, exponent))
    }

    pub fn draw(&self, random: &mut Random) -> u64 {
        match self {
            Self::Uniform { count } => random.below(*count),
            Self::Zipf(zipf) => zipf.draw(random),
        }
    }

    /// Two different keys, if there are two.
    pub fn draw_two(&self, random: &mut Random) -> (u64, u64) {
        let first = self.draw(random);
        // With one key, or an extreme distribution, the same key could come forever.
        let second = (0..64).map(|_| self.draw(random)).find(|second| *second != first);
        (first, second.unwrap_or(first))
    }
}

/// Zipf's law: key i, counted from zero, has the weight 1 / (i + 1)^exponent.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// Sum of the weights up to and including each key.
    sums: Vec<f64>,
}

impl Zipf {
    pub fn new(count: u64, exponent: f64) -> Self {
        let mut sum = 0.0;
        let weights = (1..=count).map(|rank| {
            sum += exp(-exponent * ln(rank as f64));
            sum
        });
        Self { sums: weights.collect() }
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let point = random.unit() * self.sums.last().copied().unwrap_or_default();
        let index = self.sums.partition_point(|sum| *sum <= point).min(self.sums.len().saturating_sub(1));
        index as u64
    }
}

const LN_2: f64 = std::f64::consts::LN_2;

/// Natural logarithm of a finite number of at least 1.
fn ln(x: f64) -> f64 {
    let (mut mantissa, mut exponent) = (x, 0.0);
    while mantissa >= 1.5 {
        mantissa /= 2.0;
        exponent += 1.0;
    }
    // 2 artanh(z): |z| is at most 1/3 here, so the rest after twenty terms is below a double's precision.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let (mut power, mut sum) = (z, 0.0);
    for odd in (1..40).step_by(2) {
        sum += power / f64::from(odd);
        power *= z * z;
    }
    2.0 * sum + exponent * LN_2
}

/// Exponential of a number of at most 0.
fn exp(x: f64) -> f64 {
    let (mut rest, mut halvings) = (x, 0);
    while rest < -0.5 {
        rest += LN_2;
        halvings += 1;
    }
    let (mut term, mut sum) = (1.0, 1.0);
    for n in 1..20 {
        term *= rest / f64::from(n);
        sum += term;
    }
    (0..halvings).fold(sum, |value, _| value / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm_and_exponential_are_right() {
        for x in [1.0, 1.2, 2.0, 3.0, 1e3, 1e7] {
            assert!((ln(x) - f64::ln(x)).abs() < 1e-13 * (1.0 + f64::ln(x)), "{x}");
        }
        for x in [0.0, -0.1, -1.0, -14.5] {
            assert!((exp(x) / f64::exp(x) - 1.0).abs() < 1e-13, "{x}");
        }
    }

    #[test]
    fn streams_depend_on_seed_and_name() {
        let draw = |seed, name| {
            std::iter::repeat_with({
                let mut random = Random::new(seed, name);
                move || random.next()
            })
            .take(9)
            .collect::<Vec<_>>()
        };
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
    }

    #[test]
    fn zipf_draws_follow_weights() {
        let keys = Keys::zipf(100, 0.9);
        let mut random = Random::new(3, "zipf");
        let mut counts = [0u32; 100];
        let draws = 200_000;
        for _ in 0..draws {
            counts[keys.draw(&mut random) as usize] += 1;
        }
        let weights: Vec<f64> = (1..=100).map(|rank| f64::from(rank).powf(-0.9)).collect();
        let all: f64 = weights.iter().sum();
        for key in [0, 1, 9, 99] {
            let expected = weights[key] / all * f64::from(draws);
            let off = (f64::from(counts[key]) - expected).abs();
            assert!(off < 6.0 * expected.sqrt(), "key {key}: {} instead of {expected}", counts[key]);
        }
    }

    #[test]
    fn draws_stay_within_bounds() {
        let mut random = Random::new(0, "bounds");
        let uniform = Keys::uniform(3);
        let mut seen = [false; 3];
        for _ in 0..200 {
            seen[uniform.draw(&mut random) as usize] = true;
            assert!((5..=7).contains(&random.between(5, 7)));
            let (one, other) = uniform.draw_two(&mut random);
            assert_ne!(one, other);
        }
        assert_eq!(seen, [true; 3]);
        assert_eq!(Keys::uniform(1).draw_two(&mut random), (0, 0), "there is no other");
        assert_eq!(Keys::zipf(1, 0.75).draw(&mut random), 0);
    }
}
