//! Signers in another process, which may refuse or be away.

use crate::cluster::{Cluster, Keys, Role, quick};
use corniche_engine::Unsigned;
use corniche_mahi_mahi::{CoinShares, Signature, Signer};
use corniche_types::{B256, ValidatorIndex, evidence::Heading};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

/// Signs as its rule says, and keeps what it was asked for.
struct RemoteKeys<F> {
    keys: Arc<dyn Signer>,
    asked: Arc<Mutex<Vec<Heading>>>,
    rule: F,
}

impl<F: Fn(&[Heading], &Heading) -> Result<(), Unsigned> + Send + Sync> Signer for RemoteKeys<F> {
    fn index(&self) -> ValidatorIndex {
        self.keys.index()
    }

    fn sign(&self, heading: &Heading, digest: &B256) -> Result<Signature, Unsigned> {
        let mut asked = self.asked.lock().unwrap();
        asked.push(*heading);
        (self.rule)(&asked, heading)?;
        self.keys.sign(heading, digest)
    }

    fn coin_shares(&self, message: &[u8]) -> CoinShares {
        self.keys.coin_shares(message)
    }
}

/// A cluster of four in which validator 0 has such a signer. Also returns what it was asked for.
fn cluster(
    rule: impl Fn(&[Heading], &Heading) -> Result<(), Unsigned> + Send + Sync + 'static,
) -> (Cluster, Arc<Mutex<Vec<Heading>>>) {
    let roles = [Role::Honest; 4];
    let mut keys = Keys::fake(&roles);
    let asked = Arc::<Mutex<Vec<Heading>>>::default();
    keys.signers[0] = Arc::new(RemoteKeys { keys: keys.signers[0].clone(), asked: asked.clone(), rule });
    (Cluster::with_keys(&roles, keys, quick(), 3), asked)
}

fn deliver(cluster: &mut Cluster) {
    let mut transactions = BTreeSet::new();
    for number in 0..20 {
        let transaction = format!("t{number}");
        cluster.submit(0, &transaction);
        transactions.insert(transaction);
        cluster.run_for(20);
    }
    let lacking = |cluster: &Cluster| !transactions.is_subset(&cluster.delivered(0).into_iter().collect());
    assert!(cluster.run_while(60_000, lacking), "{:?}", cluster.delivered(0));
    cluster.assert_agreement();
}

/// A signature that comes late is asked for again with the same content, so the round is not lost. Without the fourth validator, each
/// of the three is needed in each round.
#[test]
fn late_signature_loses_no_round() {
    let (mut cluster, asked) = cluster(|asked, heading| {
        let before = asked.iter().filter(|other| other.round == heading.round).count();
        if before < 3 { Err(Unsigned::Unavailable) } else { Ok(()) }
    });
    cluster.crash(3);
    deliver(&mut cluster);
    let asked = asked.lock().unwrap();
    let mut rounds = BTreeSet::new();
    for heading in asked.iter() {
        rounds.insert(heading.round);
        assert!(asked.iter().all(|other| other.round != heading.round || other == heading), "round {}", heading.round);
    }
    assert!(rounds.len() > 5);
}

/// A refused round is left out: nothing else is asked for in it, and its batch is proposed later.
#[test]
fn refused_round_is_left_out() {
    let (mut cluster, asked) = cluster(|_, heading| if heading.round % 3 == 0 { Err(Unsigned::Refused) } else { Ok(()) });
    deliver(&mut cluster);
    let asked = asked.lock().unwrap();
    let rounds: Vec<u64> = asked.iter().map(|heading| heading.round).collect();
    assert!(rounds.windows(2).all(|pair| pair[0] < pair[1]), "{rounds:?}");
    assert!(rounds.iter().any(|round| round % 3 == 0));
}
