//! The short form for CI: sends a few messages of every attack, then checks that the network executes a transfer. Nothing is
//! timed, but generous timeouts detect operations that never finish.

use crate::{
    Options,
    attacks::{Attack, By},
    field::{Budget, Field},
    note,
    victims::Victims,
};
use anyhow::{Context, ensure};
use std::{sync::Arc, time::Duration};
use tokio::runtime::Runtime;

/// Timeout of one attack that cannot send its messages.
const LENGTH: Duration = Duration::from_secs(30);
/// Only a stalled network takes this long.
const PATIENCE: Duration = Duration::from_secs(120);

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
    let victims = Arc::new(Victims::up(options, engine)?);
    let all: Vec<_> = (0..options.validators).collect();
    // Makes the first block. Insiders resume after its certificate.
    victims.transfer(&all, PATIENCE)?;
    for attack in attacks {
        let field = Field::take_places(victims.clone(), attack, options.seed, Budget::new(attack.few, LENGTH))?;
        runtime.block_on(field.run(attack, LENGTH + PATIENCE)).with_context(|| attack.name)?;
        let spent = field.budget.spent();
        ensure!(spent > 0, "{}: nothing was sent", attack.name);
        let nodes = field.judged();
        victims.transfer(&nodes, PATIENCE).with_context(|| format!("after {}", attack.name))?;
        victims.agree(&nodes, PATIENCE).with_context(|| format!("after {}", attack.name))?;
        note(format_args!("{engine}: {} ({spent} messages): ok", attack.name));
    }
    Ok(())
}
