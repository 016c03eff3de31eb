//! Retwis with the parameters of Basil's evaluation: users by Zipf 0.75; 5 % add user, 15 % follow, 30 %
//! post, 50 % timeline of one to ten users. Differences: a user is added under a new number, because a
//! contract refuses to add one twice; a timeline is a transaction.

use super::{Generator, Sizes, call};
use crate::{
    chain::Chain,
    random::Keys,
    solidity::{self, Value, slot_of},
};
use corniche_types::U256;

const JOINED: u64 = 0;
const NAMES: u64 = 1;
const NEWEST: u64 = 5;

pub fn mix(chain: &mut Chain<'_>, sizes: &Sizes) -> anyhow::Result<Generator> {
    let users = sizes.retwis_users;
    let retwis = chain.deploy("bench_retwis", None)?;
    let tables = [JOINED, NAMES, NEWEST];
    let slots = (0..users).flat_map(|user| tables.map(|table| (slot_of(table, U256::from(user)), U256::from(user + 1))));
    chain.fill(retwis, slots);
    let keys = Keys::zipf(users, 0.75);
    let mut next_user = users;
    Ok(Box::new(move |random, sender| {
        let input = match random.below(100) {
            0..5 => {
                next_user += 1;
                solidity::call("addUser(uint256,bytes32)", &[(next_user - 1).into(), next_user.into()])
            }
            5..20 => {
                let (user, other) = keys.draw_two(random);
                solidity::call("follow(uint256,uint256)", &[user.into(), other.into()])
            }
            20..50 => {
                solidity::call("post(uint256,bytes32)", &[keys.draw(random).into(), random.between(1, u64::MAX - 1).into()])
            }
            _ => {
                let read: Vec<Value> = (0..random.between(1, 10)).map(|_| keys.draw(random).into()).collect();
                solidity::call("timeline(uint256[])", &[read.into()])
            }
        };
        call(sender, retwis, input)
    }))
}
