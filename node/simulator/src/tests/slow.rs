//! One validator executes or writes so slowly that it falls further behind than shares are kept. When it is fast again
//! it catches up, although no unsolicited message helps it, and then orders again.

use super::scenario;
use crate::{Micros, Observer, Probe, Scenario, simulate::Run};
use corniche_engine::TraceEvent;
use std::{cell::RefCell, rc::Rc};

const SLOW: usize = 3;
/// Minimum lead of the others in blocks: shares are kept for 64 ahead, and execution continues for 64 without
/// certificates.
const FAR: u64 = 150;

/// A validator with a stalled disk makes Autobahn's slots slow, so the run is long; the last seconds are without load.
fn scenario_with(engine: &str, faults: &str) -> Scenario {
    let rest = format!(
        "duration = \"90s\"\n[network]\ndelay_ms = 5\n[load]\nrate = 50\ntx_bytes = 200\nstop = \"80s\"\n\
         [[fault]]\nkind = \"slow\"\nat = \"2s\"\nuntil = \"75s\"\nnodes = [{SLOW}]\n{faults}"
    );
    let mut scenario = scenario(4, &rest);
    scenario.engine = engine.into();
    scenario
}

/// Runs the scenario; the slow validator must follow and then order again.
fn run(engine: &str, faults: &str) {
    let scenario = scenario_with(engine, faults);
    let notes = Rc::new(RefCell::new(Vec::new()));
    let heard = notes.clone();
    let observer: Observer = Box::new(move |_, node, event| {
        if let TraceEvent::Note { name, .. } = event
            && node == SLOW
            && ["following", "rejoined"].contains(&name.as_str())
        {
            heard.borrow_mut().push(name.clone());
        }
    });
    let probe = Probe { observer: Some(observer), ..Probe::default() };
    let mut run = Run::with_probe(&scenario, 1, None, probe).expect("the scenario needs nothing");
    let height = |run: &Run<'_>, node| run.simulation.process(node).map_or(0, |node| node.disk().height().0);
    run.run_until(Micros::from_seconds(74));
    let behind = height(&run, 0) - height(&run, SLOW);
    assert!(behind > FAR, "{engine}: only {behind} blocks behind\n{faults}");
    run.finish();
    super::passes(&run.report());
    assert_eq!(height(&run, SLOW), height(&run, 0), "{engine}: {:?}\n{faults}", notes.borrow());
    assert_eq!(notes.borrow().last().map(String::as_str), Some("rejoined"), "{engine}: {:?}\n{faults}", notes.borrow());
}

#[test]
fn slow_processor_catches_up() {
    for engine in ["mahi-mahi", "autobahn"] {
        run(engine, "execute_ms = 500\n");
    }
}

#[test]
fn slow_disk_catches_up() {
    for engine in ["mahi-mahi", "autobahn"] {
        run(engine, "write_ms = 80000\n");
    }
}

#[test]
fn restart_far_behind_catches_up() {
    let restart = "[[fault]]\nkind = \"crash\"\nat = \"60s\"\nnodes = [3]\nrestart_at = \"61s\"\n";
    for engine in ["mahi-mahi", "autobahn"] {
        for slow in ["execute_ms = 500\n", "write_ms = 80000\n"] {
            run(engine, &format!("{slow}{restart}"));
        }
    }
}
