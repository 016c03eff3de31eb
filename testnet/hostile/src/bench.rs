//! One row of the table: a network, its honest users before, during and after an attack, and the state of its processes.

use crate::{
    attacks::Attack,
    context::{AttackContext, Budget, Rejoin},
    load::{Load, Measure, Running},
    options::Options,
    output::log_line,
    report::{Row, evaluate},
    victims::Victims,
};
use anyhow::Context;
use std::{sync::Arc, time::Duration};
use tokio::runtime::Runtime;

/// Timeout for operations that the attack delayed, far above every limit: a longer delay counts as lost.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(60);
/// Additional time of an attack that restarts a validator, to observe its return.
const RESTART: Duration = Duration::from_secs(15);
/// Maximum number of messages of one attack; usually time ends it first.
const MESSAGES: u64 = 10_000_000;

/// Runs each attack under each engine that it applies to. Returns the rows, and the number of attacks that could not be measured.
pub fn run(options: &Options, attacks: &[&'static Attack], runtime: &Runtime) -> (Vec<Row>, usize) {
    let (mut rows, mut failures) = (Vec::new(), 0);
    for engine in &options.engine {
        for attack in attacks.iter().filter(|attack| attack.applies_to(engine)) {
            log_line(format_args!("{engine}, {} validators: {} ({})", options.validators, attack.name, attack.about));
            match measure(options, attack, engine, runtime) {
                Ok(row) => {
                    log_line(format_args!("  {}", if row.missed.is_empty() { "ok".into() } else { row.missed.join("; ") }));
                    rows.push(row);
                }
                Err(error) => {
                    log_line(format_args!("  not measured: {error:#}"));
                    failures += 1;
                }
            }
        }
    }
    (rows, failures)
}

fn measure(options: &Options, attack: &'static Attack, engine: &str, runtime: &Runtime) -> anyhow::Result<Row> {
    let victims = Arc::new(Victims::up(options, engine, attack.signatures)?);
    let load = Load { seconds: options.seconds, rate: options.rate, timeout: TRANSFER_TIMEOUT };
    // A node that is down accepts no transfers.
    let start = |validators: &[usize]| {
        let used = &validators[..validators.len() - usize::from(attack.restart.is_some())];
        load.start(&options.corniche, &victims, used)
    };

    let mut length = Duration::from_secs(options.seconds);
    if attack.restart.is_some() {
        length += RESTART;
    }
    let all: Vec<_> = (0..options.validators).collect();
    let calm = start(&all)?;
    if let Some(pause) = attack.restart {
        // Some users have to wait for a validator that restarts. This is not counted against the attack.
        let context = AttackContext::new(victims.clone(), Vec::new(), options.seed, Budget::new(MESSAGES, length));
        runtime.block_on(context.restart_victim(pause)).context("calm")?;
    }
    let calm = calm.finish().context("calm")?;
    let context = AttackContext::replace_validators(victims.clone(), attack.by, options.seed, Budget::new(MESSAGES, length))?;
    let (honest, nodes) = (context.honest(), context.checked_nodes());
    let calm_mib = peak(&victims, &nodes);

    let under_way = start(&honest)?;
    let mut missed = Vec::new();
    if let Err(error) = runtime.block_on(attack.execute(&context, length + TRANSFER_TIMEOUT)) {
        missed.push(format!("{error:#}"));
    }
    let recovery = victims.transfer(&nodes, TRANSFER_TIMEOUT);
    let during = finish(under_way, "during", &mut missed);
    let after = start(&honest).and_then(Running::finish);
    let after = after.unwrap_or_else(|error| failed("after", &error, &mut missed));
    if let Err(error) = victims.agree(&nodes, TRANSFER_TIMEOUT) {
        missed.push(format!("agreement: {error:#}"));
    }
    let ended = nodes.iter().filter(|index| victims.memory(**index).is_none_or(|memory| memory.peak == 0)).count();
    if ended > 0 {
        missed.push(format!("{ended} honest processes ended"));
    }
    let mut row = Row {
        attack: attack.name,
        item: attack.item,
        by: attack.by,
        engine: engine.to_owned(),
        validators: options.validators,
        messages: context.budget.spent(),
        calm,
        during,
        after,
        calm_mib,
        peak_mib: peak(&victims, &nodes),
        recovery_s: recovery.as_ref().ok().map(Duration::as_secs_f64),
        rejoin: attack.restart.map(|_| context.rejoined().unwrap_or(Rejoin::Never)),
        missed,
    };
    if let Err(error) = recovery {
        row.missed.push(format!("recovery: {error:#}"));
    }
    evaluate(&mut row);
    Ok(row)
}

fn finish(running: Running, phase: &str, missed: &mut Vec<String>) -> Measure {
    running.finish().unwrap_or_else(|error| failed(phase, &error, missed))
}

fn failed(phase: &str, error: &anyhow::Error, missed: &mut Vec<String>) -> Measure {
    missed.push(format!("users {phase}: {error:#}"));
    Measure::default()
}

/// Peak memory of the largest process so far, in MiB.
fn peak(victims: &Victims, nodes: &[usize]) -> u64 {
    nodes.iter().filter_map(|index| victims.memory(*index)).map(|memory| memory.peak).max().unwrap_or(0)
}
