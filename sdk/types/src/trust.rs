//! Roots of trust: what a node or a light client begins with, and how long it may (validators.md, L5).

use crate::{B256, Epoch, Genesis, Header, StakingParameters, TimestampMs};

/// Age in ms from which a head is shown as stale (L7). An idle chain makes a block a minute.
pub const STALE_HEAD_MS: u64 = 180_000;

/// Returns whether the head of a chain is stale by a clock that reads `now`.
pub fn is_stale_head(head: TimestampMs, now: TimestampMs) -> bool {
    now.0.saturating_sub(head.0) > STALE_HEAD_MS
}

/// The last block of an epoch, as somebody names it whom a new node or client trusts. Its text is `corniche-trust:1:CHAIN:EPOCH:HASH`,
/// with a decimal chain id and epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustPoint {
    /// Id of the chain.
    pub chain_id: u64,
    /// The epoch.
    pub epoch: Epoch,
    /// Hash of its last block.
    pub hash: B256,
}

impl TrustPoint {
    const PREFIX: &str = "corniche-trust:1:";

    /// Returns whether this block contradicts the point: it ends the same epoch, and is another one.
    pub fn contradicts(&self, epoch: Epoch, hash: B256) -> bool {
        self.epoch == epoch && self.hash != hash
    }
}

impl std::fmt::Display for TrustPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}:{}:{}", Self::PREFIX, self.chain_id, self.epoch.0, self.hash)
    }
}

impl std::str::FromStr for TrustPoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (chain_id, rest) = text.strip_prefix(Self::PREFIX)?.split_once(':')?;
            let (epoch, hash) = rest.split_once(':')?;
            Some(Self { chain_id: chain_id.parse().ok()?, epoch: Epoch(epoch.parse().ok()?), hash: hash.parse().ok()? })
        };
        parse().ok_or_else(|| format!("expected {}CHAIN:EPOCH:HASH, got {text:?}; copy it as a whole", Self::PREFIX))
    }
}

/// The block whose committee is trusted, and the time for which it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustRoot {
    /// The end of an epoch; `None` for the genesis.
    pub point: Option<TrustPoint>,
    /// Time of the block.
    pub time: TimestampMs,
    /// Time in ms for which it serves ([`StakingParameters::trust_ms`]); `None` if epochs never end.
    pub serves_ms: Option<u64>,
}

impl TrustRoot {
    /// The genesis as root.
    pub fn genesis(genesis: &Genesis) -> Self {
        let serves_ms = genesis.epochs().map(StakingParameters::trust_ms);
        Self { point: None, time: genesis.timestamp_ms, serves_ms }
    }

    /// Another root of this chain: the end of an epoch, with its header.
    pub fn at(self, point: TrustPoint, header: &Header) -> Self {
        Self { point: Some(point), time: TimestampMs(header.timestamp.saturating_mul(1_000)), ..self }
    }

    /// Checks that the root serves at this time.
    ///
    /// # Errors
    ///
    /// It is too old.
    pub fn check_age(&self, now: TimestampMs) -> Result<(), TrustExpired> {
        let age_ms = now.0.saturating_sub(self.time.0);
        match self.serves_ms {
            Some(serves_ms) if age_ms > serves_ms => Err(TrustExpired { point: self.point, age_ms, serves_ms }),
            _ => Ok(()),
        }
    }
}

/// The genesis or a trust point is too old to trust its committee.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is {} s old, more than {} s: validators of that time may have left with their stake, so their old keys cost nothing and could sign \
     another chain. Ask somebody whom you trust for a trust point; `corniche validator status` and the explorer print it",
    .point.map_or_else(|| "the genesis".into(), |point| format!("the trust point {point}")),
    .age_ms / 1_000,
    .serves_ms / 1_000
)]
pub struct TrustExpired {
    /// The end of an epoch; `None` for the genesis.
    pub point: Option<TrustPoint>,
    /// Its age in ms.
    pub age_ms: u64,
    /// Time in ms for which it served.
    pub serves_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_points_are_read_as_they_are_written() {
        let point = TrustPoint { chain_id: 77, epoch: Epoch(12), hash: B256::repeat_byte(0xab) };
        let text = point.to_string();
        assert_eq!(text, format!("corniche-trust:1:77:12:0x{}", "ab".repeat(32)));
        assert_eq!(text.parse(), Ok(point));
        for wrong in [
            "",
            "genesis",
            "corniche-trust:2:77:12:0x00",
            "corniche-trust:1:77:12",
            &text[..text.len() - 1],
            &format!("{text}0"),
        ] {
            let error = wrong.parse::<TrustPoint>().unwrap_err();
            assert!(error.contains("corniche-trust:1:CHAIN:EPOCH:HASH"), "{error}");
        }
        assert!(point.contradicts(Epoch(12), B256::ZERO));
        assert!(!point.contradicts(Epoch(12), point.hash) && !point.contradicts(Epoch(11), B256::ZERO));
    }

    #[test]
    fn roots_serve_for_two_thirds_of_the_unbonding_time() {
        let parameters = StakingParameters { unbonding_epochs: 14, epoch_ms: 86_400_000, ..StakingParameters::default() };
        let serves_ms = parameters.trust_ms();
        assert_eq!(serves_ms, (9 * 24 + 8) * 3_600_000);
        let genesis = TrustRoot { point: None, time: TimestampMs(1_000), serves_ms: Some(serves_ms) };
        assert_eq!(genesis.check_age(TimestampMs(1_000 + serves_ms)), Ok(()));
        let expired = genesis.check_age(TimestampMs(1_001 + serves_ms)).unwrap_err();
        assert!(expired.to_string().starts_with("the genesis is 806400 s old, more than 806400 s: validators"), "{expired}");
        let point = TrustPoint { chain_id: 77, epoch: Epoch(12), hash: B256::ZERO };
        let later = genesis.at(point, &Header { timestamp: 2, ..Header::default() });
        assert_eq!(later.check_age(TimestampMs(2_000 + serves_ms)), Ok(()));
        let expired = later.check_age(TimestampMs(2_001 + serves_ms)).unwrap_err();
        assert!(expired.to_string().starts_with("the trust point corniche-trust:1:77:12:0x00"), "{expired}");
        let without_end = TrustRoot { serves_ms: None, ..genesis };
        assert_eq!(without_end.check_age(TimestampMs(u64::MAX)), Ok(()));
    }

    #[test]
    fn heads_are_stale_after_three_minutes() {
        let stale = |age: u64| is_stale_head(TimestampMs(5), TimestampMs(5 + age));
        assert_eq!([stale(0), stale(180_000), stale(180_001)], [false, false, true]);
        assert!(!is_stale_head(TimestampMs(9), TimestampMs(5)), "the client's clock is behind");
    }
}
