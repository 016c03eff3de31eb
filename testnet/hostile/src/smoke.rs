//! The short form for CI: sends a few messages of every attack, then checks that the network executes a transfer. Nothing is
//! timed, but generous timeouts detect operations that never finish.

use crate::{
    attacks::Attack,
    context::{AttackContext, Budget, By},
    options::Options,
    output::log_line,
    victims::Victims,
};
use anyhow::{Context, ensure};
use std::{sync::Arc, time::Duration};
use tokio::runtime::Runtime;

/// Timeout of one attack that cannot send its messages.
const LENGTH: Duration = Duration::from_secs(30);
/// Only a stalled network takes this long.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(120);

/// Attacks of strangers share a network. Each attack of validators has a separate one, because it uses up its validators.
pub fn run(options: &Options, attacks: &[&'static Attack], runtime: &Runtime) -> anyhow::Result<()> {
    for engine in &options.engine {
        let applies = |by: By| attacks.iter().filter(move |attack| attack.by == by && attack.applies_to(engine));
        let strangers: Vec<_> = applies(By::Stranger).copied().collect();
        let networks = applies(By::Validators).map(|attack| vec![*attack]);
        for group in std::iter::once(strangers).chain(networks).filter(|group| !group.is_empty()) {
            attack(options, &group, engine, runtime).with_context(|| format!("on {engine}"))?;
        }
    }
    Ok(())
}

fn attack(options: &Options, attacks: &[&Attack], engine: &str, runtime: &Runtime) -> anyhow::Result<()> {
    let signatures = attacks.iter().find_map(|attack| attack.signatures);
    let victims = Arc::new(Victims::up(options, engine, signatures)?);
    let all: Vec<_> = (0..options.validators).collect();
    // Makes the first block. Insiders resume after its certificate.
    victims.transfer(&all, TRANSFER_TIMEOUT)?;
    for attack in attacks {
        let context =
            AttackContext::replace_validators(victims.clone(), attack.by, options.seed, Budget::new(attack.few, LENGTH))?;
        runtime.block_on(attack.execute(&context, LENGTH + TRANSFER_TIMEOUT)).with_context(|| attack.name)?;
        let spent = context.budget.spent();
        ensure!(spent > 0, "{}: nothing was sent", attack.name);
        let nodes = context.checked_nodes();
        victims.transfer(&nodes, TRANSFER_TIMEOUT).with_context(|| format!("after {}", attack.name))?;
        victims.agree(&nodes, TRANSFER_TIMEOUT).with_context(|| format!("after {}", attack.name))?;
        log_line(format_args!("{engine}: {} ({spent} messages): ok", attack.name));
    }
    Ok(())
}
