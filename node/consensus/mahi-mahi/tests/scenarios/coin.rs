//! The coin stays closed before a quorum, survives and reports bad shares, and opens with late shares on request.

use crate::{
    cluster::{Cluster, Role, index, quick},
    crypto::{BadShares, FakeCoin, FakeKeys, committee},
    drawing::Drawing,
};
use corniche_engine::{Committee, Offence};
use corniche_mahi_mahi::{
    Signer,
    coin::Coins,
    message::{Context, Round},
};
use corniche_types::{B256, Epoch, ValidatorIndex, Votes};
use std::collections::BTreeSet;

const TWO_ROUNDS: &str = "
    1 | 0:* | 0':* | 1:* | 2:* | 3:*
";

/// Rounds have the same numbers in every epoch, and a committee that is kept has the same coin.
#[test]
fn messages_are_bound_to_epoch_and_committee() {
    let of = |epoch, hash| {
        let genesis = corniche_testkit::genesis("mahi-mahi", Vec::new());
        Context::new(&Committee::of_epoch(&genesis, Epoch(epoch), B256::repeat_byte(hash), Vec::new())).coin_message(Round(5))
    };
    let messages = BTreeSet::from([of(1, 1), of(2, 1), of(1, 2)]);
    assert_eq!(messages.len(), 3);
}

fn coins() -> Coins {
    Coins::new(FakeCoin::default().shared(), &committee(4))
}

#[test]
fn coin_opens_with_quorum_of_authors() {
    let drawing = Drawing::parse(4, 4, TWO_ROUNDS);
    let mut coins = coins();
    let mut opened = Vec::new();
    for block in drawing.blocks() {
        assert!(coins.add_block(block).is_empty());
        opened.push(coins.opened(Round(1)).is_some());
    }
    // Two siblings of validator 0 count once (C3, P2).
    assert_eq!(opened, [false, false, false, true, true]);
}

#[test]
fn any_quorum_opens_same_coin() {
    let drawing = Drawing::parse(4, 4, TWO_ROUNDS);
    let blocks: Vec<_> = drawing.blocks().filter(|block| drawing.name(&block.reference()) != "0'@1").collect();
    let values = (0..4).map(|absent| {
        let mut coins = coins();
        blocks
            .iter()
            .filter(|block| block.author() != index(absent))
            .for_each(|block| assert!(coins.add_block(block).is_empty()));
        coins.opened(Round(1)).unwrap().seed
    });
    assert_eq!(values.collect::<BTreeSet<_>>().len(), 1);
}

#[test]
fn late_share_opens_closed_coin() {
    let drawing = Drawing::parse(4, 4, TWO_ROUNDS);
    let context = Context::new(&committee(4));
    let mut coins = coins();
    drawing.blocks().take(3).for_each(|block| assert!(coins.add_block(block).is_empty()));
    let message = context.coin_message(Round(1));
    coins.add_shares(Round(1), ValidatorIndex(3), FakeKeys(ValidatorIndex(3), Votes(1)).coin_shares(&message));
    let value = coins.opened(Round(1)).unwrap().value;

    let mut lied_to = self::coins();
    drawing.blocks().take(3).for_each(|block| assert!(lied_to.add_block(block).is_empty()));
    let bad = BadShares(ValidatorIndex(3), Votes(1)).coin_shares(&message);
    lied_to.add_shares(Round(1), ValidatorIndex(3), bad);
    assert!(lied_to.opened(Round(1)).is_none(), "a late share is checked before it counts");
    // Checks are expensive, so further shares and values for this coin are ignored from a peer that sent a false one.
    lied_to.add_shares(Round(1), ValidatorIndex(3), FakeKeys(ValidatorIndex(3), Votes(1)).coin_shares(&message));
    lied_to.add_value(Round(1), ValidatorIndex(3), &value);
    assert!(lied_to.opened(Round(1)).is_none());
    lied_to.add_value(Round(1), ValidatorIndex(0), &value);
    assert!(lied_to.opened(Round(1)).is_some());
}

#[test]
fn forged_shares_are_reported_without_stall() {
    let mut cluster = Cluster::new(&[Role::BadShares, Role::Honest, Role::Honest, Role::Honest], quick(), 1);
    let mut transactions = BTreeSet::new();
    for number in 0..30 {
        let transaction = format!("t{number}");
        cluster.submit(number % 4, &transaction);
        transactions.insert(transaction);
        cluster.run_for(10);
    }
    let missing = |cluster: &Cluster| !transactions.is_subset(&cluster.delivered(1).into_iter().collect());
    assert!(cluster.run_while(5_000, missing));
    cluster.assert_agreement();
    for (node, state) in cluster.honest_nodes() {
        assert!(state.accused.contains(&(index(0), Offence::BadCoinShare)), "validator {node} noticed");
    }
}

#[test]
fn skipped_rounds_coin_still_opens() {
    // With 0's shares bad, every coin needs 1, 2 and 3. Validator 3 is cut off, comes back and jumps: it never has
    // blocks for the rounds between, and the others had none to replace its shares.
    let mut cluster = Cluster::new(&[Role::BadShares, Role::Honest, Role::Honest, Role::Honest], quick(), 2);
    cluster.run_for(50);
    cluster.network().groups[3] = 1;
    for number in 0..8 {
        cluster.submit(1, &format!("t{number}"));
        cluster.run_for(20);
    }
    let stuck = cluster.seen(1).log.len();
    cluster.run_for(200);
    assert_eq!(cluster.seen(1).log.len(), stuck, "two good shares open nothing");
    cluster.network().groups[3] = 0;
    cluster.connect(3);
    assert!(cluster.run_while(5_000, |cluster| cluster.delivered(3).len() < 8 || cluster.delivered(1).len() < 8));
    cluster.assert_agreement();
}
