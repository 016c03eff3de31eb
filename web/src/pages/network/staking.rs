//! The running epoch and the stake of all validators, on chains with staking.

use crate::{format, pages::network::texts::staking as texts, pages::parts};
use alloy_primitives::U256;
use corniche_api::{StakedValidator, Staking, StakingRules};
use maud::{Markup, html};
use std::cmp::Reverse;

/// Maximum number of rows of the table. The node returns all.
const MAX_ROWS: usize = 100;

/// Epoch, parameters and validators. The parameters never change, so they are no live part and stay open.
pub fn section(staking: &Staking, currency: &str) -> Markup {
    html! {
        section {
            h2 { (texts::STAKING) }
            div #epoch data-live="epoch" { (epoch(staking, currency)) }
            details { summary { (texts::PARAMETERS) } (parameters(&staking.parameters, currency)) }
            p .note { (texts::NOTE) }
            div #stake data-live="stake" { (validators(staking, currency)) }
        }
    }
}

fn epoch(staking: &Staking, currency: &str) -> Markup {
    let time = |ms: Option<u64>| ms.map_or_else(|| html! { (texts::NEVER) }, parts::time);
    parts::facts(&[
        (texts::EPOCH, html! { (format::number(staking.epoch)) }),
        (texts::PHASE, html! { (texts::phase(staking.phase)) }),
        (texts::START, html! { (parts::time(staking.start_ms)) ", " (texts::BLOCK) " " (parts::block(staking.start_block)) }),
        (texts::ANNOUNCEMENTS, time(staking.announcements_ms)),
        (texts::FREEZE, time(staking.freeze_ms)),
        (texts::END, time(staking.end_ms)),
        (texts::VOTE_PRICE, parts::coins(staking.vote_price, currency)),
    ])
}

fn parameters(rules: &StakingRules, currency: &str) -> Markup {
    let number = |number: u64| html! { (format::number(number)) };
    let epochs = |epochs: u64| html! { (texts::epochs(&format::number(epochs))) };
    let duration = |ms: u64| html! { (format::duration(ms)) };
    let coins = |wei: U256| parts::coins(wei, currency);
    let size = texts::size(&format::number(rules.min_validators), &format::number(rules.max_validators));
    let slash = format::share(U256::from(rules.slash_bps), U256::from(10_000)).unwrap_or_else(|| texts::UNKNOWN.into());
    parts::facts(&[
        (
            texts::EPOCH_LENGTH,
            if rules.epoch_ms == 0 {
                html! { (texts::NEVER) }
            } else {
                duration(rules.epoch_ms)
            },
        ),
        (texts::CLOSING, duration(rules.closing_ms)),
        (texts::LOWEST_PRICE, coins(rules.vote_wei)),
        (texts::MOST_VOTES, number(rules.most_votes)),
        (texts::MAX_VOTES, number(rules.max_votes)),
        (texts::COMMITTEE_SIZE, html! { (size) }),
        (texts::UNBONDING_TIME, epochs(rules.unbonding_epochs)),
        (texts::SLASH, html! { (slash) }),
        (texts::JAIL, epochs(rules.jail_epochs)),
        (texts::REWARD, coins(rules.reward_wei)),
        (texts::COIN_AGE, epochs(rules.coin_max_age)),
        (texts::SNAPSHOTS, duration(rules.snapshot_ms)),
    ])
}

/// Table of the validators, those with the most votes and the most stake first.
fn validators(staking: &Staking, currency: &str) -> Markup {
    let mut sorted: Vec<_> = staking.validators.iter().collect();
    sorted.sort_by_key(|validator| (Reverse(validator.votes), Reverse(validator.bonded), validator.id));
    let all = sorted.len();
    let votes = |votes: Option<u64>| html! { @match votes { Some(votes) => (format::number(votes)), None => "–" } };
    let cells = |validator: &StakedValidator| {
        vec![
            html! { (format::number(validator.id)) },
            parts::account(validator.owner),
            parts::coins(validator.bonded, currency),
            queued(validator, currency),
            votes(Some(validator.votes)),
            votes(validator.next_votes),
            parts::account(validator.fee),
            status(validator, staking.epoch),
            endpoints(&validator.endpoints),
        ]
    };
    let columns = [
        texts::ID,
        texts::OWNER,
        texts::BONDED,
        texts::QUEUED,
        texts::VOTES,
        texts::NEXT_VOTES,
        texts::FEE,
        texts::STATUS,
        texts::ENDPOINTS,
    ];
    html! {
        (parts::table(texts::STAKING, &columns, sorted.into_iter().take(MAX_ROWS).map(cells).collect()))
        @if all > MAX_ROWS { p .note { (texts::of_all(MAX_ROWS, all, "the RPC method corniche_getStaking")) } }
    }
}

fn queued(validator: &StakedValidator, currency: &str) -> Markup {
    html! {
        (parts::coins(validator.queued, currency))
        @if !validator.free.is_zero() { " (" (parts::coins(validator.free, currency)) " " (texts::FREE) ")" }
    }
}

fn status(validator: &StakedValidator, epoch: u64) -> Markup {
    let is_jailed = validator.jailed_until > epoch;
    html! {
        @if is_jailed { span .tag.bad { (texts::jailed(&format::number(validator.jailed_until))) } " " }
        @if validator.announced { span .tag.good { (texts::ANNOUNCED) } }
        @if !is_jailed && !validator.announced { "–" }
    }
}

/// Endpoints as text, never as links: anybody may have chosen them.
fn endpoints(endpoints: &[String]) -> Markup {
    html! {
        @for (index, endpoint) in endpoints.iter().enumerate() { @if index > 0 { br; } code .data { (endpoint) } }
        @if endpoints.is_empty() { "–" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, B256};
    use corniche_api::EpochPhase;
    use corniche_types::StakingParameters;

    const CURRENCY: &str = "CRN";

    fn validator(id: u64, votes: u64) -> StakedValidator {
        let wei = U256::from(10).pow(U256::from(18));
        StakedValidator {
            id,
            owner: Address::with_last_byte(1),
            next_owner: None,
            operator: Address::with_last_byte(2),
            fee: Address::with_last_byte(3),
            bonded: wei * U256::from(1_000 + id),
            queued: U256::ZERO,
            free: U256::ZERO,
            jailed_until: 0,
            consensus_key: B256::ZERO,
            bls_key: Default::default(),
            network_key: B256::ZERO,
            coin_key: Default::default(),
            endpoints: Vec::new(),
            votes,
            next_votes: None,
            announced: false,
        }
    }

    fn staking(validators: Vec<StakedValidator>) -> Staking {
        Staking {
            epoch: 1_234,
            start_ms: 1_700_000_000_000,
            start_block: 77,
            announcements_ms: Some(1_700_000_001_000),
            freeze_ms: Some(1_700_000_002_000),
            end_ms: Some(1_700_000_003_000),
            phase: EpochPhase::Open,
            vote_price: U256::from(10).pow(U256::from(22)),
            parameters: (&StakingParameters::default()).into(),
            validators,
        }
    }

    fn shown(staking: &Staking) -> String {
        section(staking, CURRENCY).into_string()
    }

    #[test]
    fn epoch_is_described() {
        let page = shown(&staking(vec![]));
        for says in [
            "<dt>Epoch</dt><dd>1,234</dd>",
            "<dt>Phase</dt><dd>open</dd>",
            "data-ms=\"1700000002000\">2023-11-14 22:13:22 UTC</time>",
            "<dt>Price of a vote</dt><dd><span class=\"amount\" data-wei=\"10000000000000000000000\">10,000 CRN</span>",
            "<dt>Committee size</dt><dd>4 to 100 validators</dd>",
            "<dt>Slashing</dt><dd>5.00 %</dd>",
        ] {
            assert!(page.contains(says), "{says} is not in {page}");
        }
        let endless = Staking { announcements_ms: None, freeze_ms: None, end_ms: None, ..staking(vec![]) };
        assert_eq!(shown(&endless).matches(texts::NEVER).count(), 3);
        let kept = shown(&Staking { phase: EpochPhase::Kept, ..staking(vec![]) });
        assert!(kept.contains("<dd>kept: the committee stays"), "{kept}");
    }

    #[test]
    fn status_has_jail_and_announcement() {
        let of =
            |jailed_until, announced| status(&StakedValidator { jailed_until, announced, ..validator(0, 1) }, 5).into_string();
        assert_eq!(of(5, false), "–");
        assert_eq!(of(6, false), "<span class=\"tag bad\">jailed until epoch 6</span> ");
        assert_eq!(of(0, true), "<span class=\"tag good\">announced</span>");
        assert_eq!(of(6, true).matches("<span").count(), 2);
    }

    #[test]
    fn free_stake_is_part_of_the_queue() {
        let of = |free: u64| {
            let one = StakedValidator { queued: U256::from(5), free: U256::from(free), ..validator(0, 1) };
            queued(&one, CURRENCY).into_string()
        };
        assert!(of(3).contains("data-wei=\"3\"") && of(3).contains(texts::FREE));
        assert!(!of(0).contains(texts::FREE));
    }

    #[test]
    fn endpoints_are_escaped_text() {
        let shown = endpoints(&["<script>".into(), "https://a.example".into()]).into_string();
        assert_eq!(shown, "<code class=\"data\">&lt;script&gt;</code><br><code class=\"data\">https://a.example</code>");
        assert_eq!(endpoints(&[]).into_string(), "–");
    }

    #[test]
    fn table_is_sorted_and_bounded() {
        let shown = |count: u64| shown(&staking((0..count).map(|id| validator(id, u64::from(id == 7))).collect()));
        let page = shown(150);
        let ids: Vec<_> = page.split("data-column=\"ID\">").skip(1).map(|row| &row[..row.find('<').unwrap()]).collect();
        assert_eq!((ids.len(), &ids[..3]), (100, &["7", "149", "148"][..]), "votes come before stake");
        assert!(page.contains("100 of 150 shown"), "{page}");
        assert!(!shown(100).contains(" shown;"));
    }

    /// The numbers are those of the node, which may be wrong.
    #[test]
    fn extreme_numbers_are_shown() {
        let all = u64::MAX;
        let one = StakedValidator { id: all, bonded: U256::MAX, jailed_until: all, next_votes: Some(all), ..validator(0, all) };
        let parameters = StakingRules { slash_bps: all, epoch_ms: all, ..staking(vec![]).parameters };
        let page = shown(&Staking { start_ms: all, end_ms: Some(all), epoch: all, parameters, ..staking(vec![one]) });
        assert!(page.contains("18,446,744,073,709,551,615"), "{page}");
    }
}
