//! The attacks, one file each. A file describes the attack and its requirement; the limits are in `report`.

mod batches_above_gas;
mod cheap_messages;
mod connection_slots;
mod endless_executed;
mod far_rounds;
mod forged_senders;
mod guest_certificates;
mod junk_batches;
mod malformed_shares;
mod needed_siblings;
mod one_transaction_blocks;
mod rpc_flood;
mod siblings;
mod silence;
mod starve_catch_up;
mod starve_servers;
mod unsolicited_cars;
mod unsolicited_found;

use crate::context::{AttackContext, By};
use anyhow::Context;
use futures::future::BoxFuture;
use std::time::Duration;

/// Number of messages of the short form, for attacks with cheap messages.
const SHORT_MESSAGES: u64 = 32;

/// One named attack.
pub struct Attack {
    pub name: &'static str,
    /// Item of the threat list that it tests; `-` for a row that is only a baseline.
    pub item: &'static str,
    /// One line for `--list`.
    pub about: &'static str,
    pub by: By,
    /// The only ordering engine it applies to; `None` means any.
    pub engine: Option<&'static str>,
    /// Value of `--signatures` of its network; `None`: the default.
    pub signatures: Option<&'static str>,
    /// The last honest validator crashes during the attack, and restarts after this time.
    pub restart: Option<Duration>,
    /// Number of messages of the short form.
    pub few: u64,
    pub run: fn(&AttackContext) -> BoxFuture<'_, anyhow::Result<()>>,
}

pub const ATTACKS: &[&Attack] = &[
    &silence::ATTACK,
    &guest_certificates::ATTACK,
    &junk_batches::ATTACK,
    &batches_above_gas::ATTACK,
    &one_transaction_blocks::ATTACK,
    &cheap_messages::ATTACK,
    &unsolicited_cars::ATTACK,
    &unsolicited_found::ATTACK,
    &connection_slots::ATTACK,
    &far_rounds::ATTACK,
    &siblings::ATTACK,
    &needed_siblings::ATTACK,
    &starve_catch_up::ATTACK,
    &starve_servers::ATTACK,
    &endless_executed::ATTACK,
    &malformed_shares::ATTACK,
    &rpc_flood::ATTACK,
    &forged_senders::ATTACK,
];

impl Attack {
    pub fn applies_to(&self, engine: &str) -> bool {
        self.engine.is_none_or(|only| only == engine)
    }

    /// Runs the attack until its budget is spent. Fails if that takes longer than `limit`.
    pub async fn execute(&self, context: &AttackContext, limit: Duration) -> anyhow::Result<()> {
        // Starts the clock only now, after the preparation of the load.
        context.budget.until();
        let done = tokio::time::timeout(limit, (self.run)(context)).await;
        done.context("the attack did not end")?.context("the attack failed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn attack_names_are_unique() {
        let names: BTreeSet<_> = ATTACKS.iter().map(|attack| attack.name).collect();
        assert_eq!(names.len(), ATTACKS.len());
        let items: BTreeSet<_> = ATTACKS.iter().map(|attack| attack.item).collect();
        assert_eq!(items, BTreeSet::from(["-", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B10", "sharding"]));
    }
}
