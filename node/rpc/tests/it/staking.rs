//! `corniche_getStaking`.
#![allow(clippy::unwrap_used)] // the lint exempts test functions, but not their helpers

use crate::common::{FUNDED, Fixture, TestChain, staking_parameters};
use alloy_primitives::{B256, FixedBytes, U256, hex, keccak256};
use corniche_api::{EpochPhase, Staking};
use corniche_rpc::RpcConfig;
use corniche_staking::{
    ValidatorId, calendar,
    coin::Need,
    record::{FreezeNumber, Queue, Role, Unbonding, Validator},
};
use corniche_types::{Address, STAKING_ADDRESS, StakingParameters, TimestampMs};
use serde_json::{Value, json};
use std::time::Duration;

async fn staking(fixture: &Fixture, params: Value) -> Staking {
    serde_json::from_value(fixture.client.result("corniche_getStaking", params).await).unwrap()
}

fn votes(count: u64) -> U256 {
    staking_parameters().vote_wei * U256::from(count)
}

#[tokio::test]
async fn genesis_stake_is_returned() {
    let fixture = Fixture::start().await;
    let answer = fixture.client.result("corniche_getStaking", json!([])).await;
    let ms = |second: u64| json!(format!("{:#x}", 1_700_000_000_000 + second * 1_000));
    assert_eq!((&answer["epoch"], &answer["startBlock"], &answer["phase"]), (&json!("0x0"), &json!("0x0"), &json!("open")));
    assert_eq!((&answer["startMs"], &answer["announcementsMs"]), (&ms(0), &ms(40)));
    assert_eq!((&answer["freezeMs"], &answer["endMs"]), (&ms(50), &ms(60)));
    assert_eq!(answer["votePrice"], json!(votes(1)));
    let parameters = &answer["parameters"];
    assert_eq!((&parameters["epochMs"], &parameters["unbondingEpochs"]), (&json!("0xea60"), &json!("0x2")));
    assert_eq!((&parameters["voteWei"], &parameters["slashBps"]), (&json!(votes(1)), &json!("0x1f4")));
    assert_eq!(answer["validators"].as_array().unwrap().len(), 4);
    let word = B256::with_last_byte(3);
    let expected = json!({
        "id": "0x2",
        "owner": FUNDED,
        "nextOwner": null,
        "operator": FUNDED,
        "fee": Address::with_last_byte(3),
        "bonded": votes(2),
        "queued": "0x0",
        "free": "0x0",
        "jailedUntil": "0x0",
        "consensusKey": word,
        "blsKey": FixedBytes::<96>::left_padding_from(&[3]),
        "networkKey": word,
        "coinKey": FixedBytes::<48>::left_padding_from(&[3]),
        "endpoints": [],
        "votes": "0x2",
        "nextVotes": null,
        "announced": false,
    });
    assert_eq!(answer["validators"][2], expected);
}

#[tokio::test]
async fn stake_is_that_of_the_block() {
    let fixture = Fixture::start().await;
    let next_owner = Address::repeat_byte(7);
    let block = fixture.chain.stake(|slots| {
        let validator = Validator::new(ValidatorId(1));
        validator.set_bonded(slots, votes(1)).unwrap();
        validator.set_account(slots, Role::NextOwner, next_owner).unwrap();
        validator.set_endpoints(slots, b"/ip4/192.0.2.1/tcp/30303\n<b>\x1b[2J\xff").unwrap();
        for (amount, freeze) in [(votes(2), 0), (votes(3), 1)] {
            let entry = Unbonding { amount, first_freeze_without: FreezeNumber(freeze) };
            Queue::load(slots, ValidatorId(1)).unwrap().push(slots, entry).unwrap();
        }
    });
    let latest = staking(&fixture, json!([])).await;
    let validator = &latest.validators[1];
    assert_eq!((validator.bonded, validator.queued, validator.free), (votes(1), votes(5), votes(2)));
    assert_eq!((validator.next_owner, validator.votes), (Some(next_owner), 2));
    assert_eq!(validator.endpoints, ["/ip4/192.0.2.1/tcp/30303", r"<b>\x1b[2J\xff"]);
    for same in [json!(["0x1"]), json!([{"blockHash": block.hash}]), json!(["pending"])] {
        assert_eq!(staking(&fixture, same).await, latest);
    }
    assert_eq!(staking(&fixture, json!(["earliest"])).await.validators[1].bonded, votes(2));
    // The contract has the same slots.
    let input = &keccak256("minimumStake()")[..4];
    let call = json!({"to": STAKING_ADDRESS, "input": hex::encode_prefixed(input)});
    let price = fixture.client.result("eth_call", json!([call])).await;
    assert_eq!(price, json!(B256::from(latest.vote_price)));
}

#[tokio::test]
async fn frozen_committee_has_next_votes() {
    let fixture = Fixture::start().await;
    fixture.chain.stake(|slots| {
        let (parameters, now) = (staking_parameters(), TimestampMs(1_700_000_045_000));
        Validator::new(ValidatorId(0)).set_bonded(slots, votes(3)).unwrap();
        for id in 0..3 {
            calendar::announce(slots, &parameters, ValidatorId(id), 1, now).unwrap();
        }
    });
    let open = staking(&fixture, json!([])).await;
    assert_eq!(open.phase, EpochPhase::Open);
    let announced = |staking: &Staking| staking.validators.iter().map(|one| one.announced).collect::<Vec<_>>();
    assert_eq!(announced(&open), [true, true, true, false]);
    fixture.chain.stake(|slots| {
        let parameters = StakingParameters { min_validators: 3, ..staking_parameters() };
        calendar::freeze(slots, &parameters, Need::Never).unwrap();
    });
    let frozen = staking(&fixture, json!([])).await;
    assert_eq!(frozen.phase, EpochPhase::Frozen);
    let votes: Vec<_> = frozen.validators.iter().map(|one| (one.votes, one.next_votes)).collect();
    // Fewer than four members have one vote each.
    assert_eq!(votes, [(2, Some(1)), (2, Some(1)), (2, Some(1)), (2, Some(0))]);
    assert!(open.validators.iter().all(|one| one.next_votes.is_none()));
}

#[tokio::test]
async fn chain_without_staking_has_none() {
    let fixture = Fixture::serve(TestChain::without_staking(), RpcConfig::default()).await;
    assert_eq!(fixture.client.result("corniche_getStaking", json!([])).await, Value::Null);
}

#[tokio::test]
async fn unknown_block_is_an_error() {
    let fixture = Fixture::start().await;
    let (code, message) = fixture.client.error("corniche_getStaking", json!(["0x1"])).await;
    assert_eq!((code, message.as_str()), (-32000, "header not found"));
    assert_eq!(fixture.client.error("corniche_getStaking", json!(["latest", 1])).await.0, -32602);
}

#[tokio::test]
async fn a_thousand_validators_fit() {
    let fixture = Fixture::serve(TestChain::staked(1_000), RpcConfig::default()).await;
    fixture.chain.stake(|slots| {
        for id in 0..1_000 {
            Validator::new(ValidatorId(id)).set_endpoints(slots, &[0xff; 256]).unwrap();
        }
    });
    let answer = staking(&fixture, json!([])).await;
    assert_eq!(answer.validators.iter().map(|one| one.id).collect::<Vec<_>>(), (0..1_000).collect::<Vec<_>>());
    assert_eq!(answer.validators[999].endpoints, [r"\xff".repeat(256)]);
}

#[tokio::test]
async fn reading_has_a_timeout() {
    let fixture = Fixture::with(RpcConfig { max_call_time: Duration::ZERO, ..RpcConfig::default() }).await;
    let (code, message) = fixture.client.error("corniche_getStaking", json!([])).await;
    assert_eq!((code, message.as_str()), (-32000, "execution aborted (timeout = 0ns)"));
}
