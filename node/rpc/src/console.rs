//! Prints contracts' `console` output on development chains.
//!
//! Block execution does not record this output. So once some contract has used the console, blocks are
//! re-executed with a tracer when they are durable; execution is deterministic, so the output is the same.
//! Calls that change no state are handled the same way.

use crate::backend::{ChainEvent, DevChain};
use crate::call::Prepared;
use crate::node::Node;
use crate::replay::Replay;
use crate::server::until;
use alloy_primitives::Address;
use corniche_api::RpcError;
use corniche_types::Height;
use corniche_vm::{Trace, TraceFrame, TraceLimits};
use std::fmt::Display;
use std::sync::Arc;
use tokio::sync::{broadcast::error::RecvError, watch};

/// Limits for one transaction. Console output fits into a fraction of it.
const TRACED: TraceLimits = TraceLimits { bytes: 64 << 20, top_only: false };

/// Runs until the server stops; returns at once on other than development chains.
pub(crate) async fn listen(node: Arc<Node>, stopped: watch::Receiver<bool>) {
    if node.backend.dev().is_none() {
        return;
    }
    let mut events = node.backend.subscribe();
    let mut next = node.backend.head().0 + 1;
    let stopped = until(stopped);
    tokio::pin!(stopped);
    loop {
        let event = tokio::select! {
            () = &mut stopped => return,
            event = events.recv() => event,
        };
        match event {
            Ok(ChainEvent::Head(head)) => {
                if node.backend.vm().has_spoken() {
                    let (node, new) = (Arc::clone(&node), next..=head.0);
                    let told = tokio::task::spawn_blocking(move || new.for_each(|height| tell(&node, Height(height)))).await;
                    if let Err(error) = told {
                        tracing::error!(%error, "what contracts said is not told");
                    }
                }
                next = head.0 + 1;
            }
            Ok(ChainEvent::Reverted(reverted)) => next = reverted.to.0 + 1,
            Ok(ChainEvent::Pending(_) | ChainEvent::Finalized(_)) => {}
            Err(RecvError::Lagged(_)) => next = node.backend.head().0 + 1,
            Err(RecvError::Closed) => return,
        }
    }
}

fn tell(node: &Node, height: Height) {
    // A revert may have removed the block meanwhile.
    if let Err(error) = said_in(node, height) {
        tracing::debug!(%height, error = error.message, "what contracts said in a block is not told");
    }
}

fn said_in(node: &Node, height: Height) -> Result<(), RpcError> {
    let (Some(dev), Some(block)) = (node.backend.dev(), node.backend.block(height)) else { return Ok(()) };
    let mut replay = Replay::new(node, Arc::clone(&block))?;
    for receipt in &block.receipts {
        let mut trace = Trace::new(TRACED);
        replay.run(Some(&mut trace))?;
        tell_of(dev, &receipt.transaction_hash, &trace);
    }
    Ok(())
}

/// Prints the console output of a call that changes no state. Runs the call again to record it, if any
/// contract ever used the console.
pub(crate) fn tell_call(node: &Node, method: &str, call: &Prepared) {
    let Some(dev) = node.backend.dev().filter(|_| call.vm.has_spoken()) else { return };
    let mut trace = Trace::new(TRACED);
    call.vm.trace_call(&*call.view, &call.env, &call.call, &mut trace);
    tell_of(dev, &method, &trace);
}

fn tell_of(dev: &dyn DevChain, run: &dyn Display, trace: &Trace) {
    let mut said = Vec::new();
    trace.root().into_iter().for_each(|root| collect(root, &mut said));
    if !said.is_empty() {
        dev.said(run, &said);
    }
}

/// Collects lines with their contracts, in order.
fn collect<'t>(frame: &'t TraceFrame, said: &mut Vec<(Address, &'t str)>) {
    let mut lines = frame.lines.iter().peekable();
    for (before, call) in frame.calls.iter().enumerate() {
        while let Some(line) = lines.next_if(|line| line.calls <= before) {
            said.push((frame.to, &line.text));
        }
        collect(call, said);
    }
    said.extend(lines.map(|line| (frame.to, line.text.as_str())));
}
