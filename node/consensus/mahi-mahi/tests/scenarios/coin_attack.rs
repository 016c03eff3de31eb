//! Attack on the rule that a block with an invalid coin share is still a valid block. f validators forge their coin
//! shares, so every coin needs the shares of all honest validators. Meanwhile honest validators are disconnected,
//! restart and jump to later rounds, so no block carries their shares for the skipped rounds. No coin may stall, only
//! the forgers may be accused, and no validator may learn a coin early (C5).

use crate::{
    cluster::{Cluster, Link, Role, index, quick},
    crypto::{BadShares, FakeCoin, FakeKeys, committee, committee_of},
};
use corniche_engine::Offence;
use corniche_mahi_mahi::{
    Signer,
    coin::Coins,
    message::{Context, Round},
};
use corniche_types::{ValidatorIndex, Votes};

fn lacks(cluster: &Cluster, transaction: &str) -> bool {
    cluster.honest_nodes().any(|(node, _)| !cluster.delivered(node).contains(&transaction.to_owned()))
}

fn attack(seed: u64, size: usize, wave_length: u64) {
    let faulty = (size - 1) / 3;
    let roles: Vec<_> = (0..size).map(|node| if node < faulty { Role::BadShares } else { Role::Honest }).collect();
    let mut cluster = Cluster::new(&roles, corniche_mahi_mahi::Config { wave_length, ..quick() }, seed);
    cluster.network().link = Link { min_ms: 2, max_ms: 25, loss: 20 };
    cluster.run_for(200);
    for step in 0..60 {
        let victim = faulty + cluster.random.below((size - faulty) as u64) as usize;
        match cluster.random.below(4) {
            0 => cluster.network().groups[victim] = 1,
            1 => {
                cluster.network().groups.fill(0);
                cluster.connect_all();
            }
            2 => {
                let commits = cluster.seen(victim).log.len();
                cluster.crash(victim);
                cluster.restart(victim, commits.saturating_sub(step % 4));
            }
            _ => {}
        }
        for node in 0..size {
            cluster.submit(node, &format!("t{step}-{node}"));
        }
        cluster.run_for(30);
    }
    cluster.network().groups.fill(0);
    cluster.network().link.loss = 0;
    cluster.connect_all();
    cluster.submit(size - 1, "last");
    assert!(cluster.run_while(10_000, |cluster| lacks(cluster, "last")), "seed {seed}, n = {size}: a coin stalls");
    cluster.assert_agreement();
    // The cluster panics if an honest validator is accused. At least one honest validator accuses each forger.
    let accused = |forger: usize| {
        let mut honest = cluster.honest_nodes();
        honest.any(|(_, state)| state.accused.contains(&(index(forger), Offence::BadCoinShare)))
    };
    assert!((0..faulty).all(accused), "seed {seed}, n = {size}");
}

#[test]
fn forged_shares_never_stall_a_coin() {
    for (seed, size) in (60..72).zip([4, 7, 10].into_iter().cycle()) {
        attack(seed, size, 4 + seed % 2);
    }
}

#[test]
fn forged_shares_do_not_delay_commits() {
    // No validator jumps: all honest shares are in blocks, and forgeries cost no time at all.
    let roles = [Role::BadShares, Role::Honest, Role::Honest, Role::Honest];
    let mut cluster = Cluster::new(&roles, quick(), 61);
    cluster.run_for(200);
    for number in 0..30 {
        let start = cluster.now();
        let transaction = format!("t{number}");
        cluster.submit(1, &transaction);
        assert!(cluster.run_while(1_000, |cluster| lacks(cluster, &transaction)));
        assert!(cluster.now() - start <= 120, "{} ms", cluster.now() - start);
        cluster.run_for(50);
    }
}

#[test]
fn forged_shares_never_complete_a_quorum() {
    for size in [4, 7, 10] {
        let committee = committee(size);
        let (quorum, round) = (committee.quorum().as_usize(), Round(9));
        let message = Context::new(&committee).coin_message(round);
        let mut coins = Coins::new(FakeCoin::default().shared(), &committee);
        let add = |coins: &mut Coins, author: usize, signer: &dyn Signer| {
            coins.add_shares(round, index(author), signer.coin_shares(&message));
        };
        (0..quorum - 1).for_each(|author| add(&mut coins, author, &FakeKeys(index(author), Votes(1))));
        // Adds the same shares again, forged shares of all authors except the one whose share is still missing, and
        // validator 0's share under the names of other authors.
        (0..quorum - 1).for_each(|author| add(&mut coins, author, &FakeKeys(index(author), Votes(1))));
        let forgers = (0..size).filter(|author| *author != quorum - 1);
        forgers.for_each(|author| add(&mut coins, author, &BadShares(index(author), Votes(1))));
        (quorum..size).for_each(|author| add(&mut coins, author, &FakeKeys(ValidatorIndex(0), Votes(1))));
        assert!(coins.opened(round).is_none(), "n = {size}");
        add(&mut coins, quorum - 1, &FakeKeys(index(quorum - 1), Votes(1)));
        assert!(coins.opened(round).is_some(), "n = {size}");
    }
}

#[test]
fn coin_opens_with_quorum_of_votes() {
    // W = 10, F = 3, Q = 7.
    let votes = [3, 2, 2, 1, 1, 1];
    let committee = committee_of(&votes);
    let round = Round(9);
    let message = Context::new(&committee).coin_message(round);
    let opens = |authors: &[usize]| {
        let mut coins = Coins::new(FakeCoin::default().shared(), &committee);
        for author in authors {
            let keys = FakeKeys(index(*author), Votes(votes[*author]));
            coins.add_shares(round, index(*author), keys.coin_shares(&message));
        }
        coins.opened(round).is_some()
    };
    assert!(opens(&[0, 1, 2]), "three members with seven votes");
    assert!(!opens(&[1, 2, 3, 4]), "four members with six votes");
    assert!(opens(&[1, 2, 3, 4, 5]));
    assert!(!opens(&[0, 3, 4, 5]), "six votes");
}
